r"""Lower bounds on :math:`\log Z` by structured mean field (Saul & Jordan 1996): any distribution :math:`q` proves

.. math:: \log Z \ge \mathrm E_q F(y) + H(q).

The nodes are divided into classes, each of which induces a forest; :math:`q` is a product of a distribution of each forest, with all
correlations inside it. Given the others, the best distribution of a class is that of its forest with the expected scores of the edges
and cliques that leave it, so that every step raises the bound. Naive mean field is the case of classes without edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.certificates.scale import UNIT
from ...core.problem import Problem
from ...kernels.local_polytope import settle_edges
from ...kernels.log_sum import log_sums
from ..sums.reweighted import Plan, forest_of, plan_of

ROUNDS = 200
"""Most rounds over all classes; bounds settle in some ten."""
_SETTLED = 1e-9
"""Gain of a round, relative to the size of the bound, at which to stop."""


class MeanField(NamedTuple):
    """A lower bound, node marginals (N, K) and marginals of the edges (E, K, K) of the distribution that proves it."""

    lower: float
    node: np.ndarray
    edge: np.ndarray


class _Class(NamedTuple):
    """Nodes of a class, the edges inside it, and their forest in its own numbers."""

    nodes: np.ndarray
    edges: np.ndarray
    local: np.ndarray
    plan: Plan


def mean_field(problem: Problem, labels: np.ndarray) -> MeanField:
    """Structured mean field from a labelling of finite score, which may have hard constraints around it.

    Parameters
    ----------
    problem : Problem
    labels : ndarray of int, shape (n_nodes,)
        The start: everything is certain, and :math:`F` of it the first lower bound.
    """
    n, size = problem.n_nodes, problem.n_labels
    node = np.zeros((n, size))
    node[np.arange(n), labels] = 1.0
    u, v = problem.graph.edges.T
    edge = node[u][:, :, None] * node[v][:, None, :]
    classes = _classes(problem)
    bound = problem.score(labels)
    if not n or not np.isfinite(bound):
        return MeanField(bound, node, edge)
    inner = np.zeros(problem.n_edges, dtype=bool)
    for part in classes:
        inner[part.edges] = True
    outer = np.flatnonzero(~inner)
    for _ in range(ROUNDS):
        old = node.copy(), edge.copy()
        for part in classes:
            _improve(problem, part, outer, node, edge)
        edge[outer] = node[u[outer]][:, :, None] * node[v[outer]][:, None, :]
        found = _value(problem, node, edge, outer)
        if not found > bound + _SETTLED * max(1.0, abs(bound)):
            return MeanField(max(bound, found), node, edge) if found >= bound else MeanField(bound, *old)
        bound = found
    return MeanField(bound, node, edge)


def _classes(problem: Problem) -> list[_Class]:
    """Each node goes to the first class in which it closes no cycle; members of a clique to different ones or at least without it."""
    n = problem.n_nodes
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in problem.graph.edges.tolist():
        neighbours[a].append(b)
        neighbours[b].append(a)
    cliques: list[list[int]] = [[] for _ in range(n)]
    for c in range(len(problem.cliques)):
        for w in problem.cliques.members(c).tolist():
            cliques[w].append(c)
    home = [-1] * n
    root = list(range(n))
    taken: list[set[int]] = []  # cliques that have a member in a class: their term must not be inside one

    def find(w: int) -> int:
        while root[w] != w:
            root[w] = root[root[w]]
            w = root[w]
        return w

    for w in range(n):
        for number in range(len(taken) + 1):
            if number == len(taken):
                taken.append(set())
            near = [find(x) for x in neighbours[w] if home[x] == number]
            if len(set(near)) == len(near) and not taken[number].intersection(cliques[w]):
                break
        home[w] = number
        taken[number].update(cliques[w])
        for x in near:
            root[x] = w
    kind = np.array(home)
    u, v = problem.graph.edges.T
    classes = []
    for number in range(len(taken)):
        nodes = np.flatnonzero(kind == number)
        edges = np.flatnonzero((kind[u] == number) & (kind[v] == number))
        place = np.zeros(n, dtype=np.int32)
        place[nodes] = np.arange(len(nodes))
        local = np.ascontiguousarray(place[problem.graph.edges[edges]], dtype=np.int32).reshape(-1, 2)
        classes.append(_Class(nodes, edges, local, plan_of(len(nodes), local)))
    return classes


def _improve(problem: Problem, part: _Class, outer: np.ndarray, node: np.ndarray, edge: np.ndarray) -> None:
    """The best distribution of one class, all others given; its marginals are written into ``node`` and ``edge``."""
    u, v = problem.graph.edges[outer].T
    field = problem.unary.copy()
    inside = np.zeros(problem.n_nodes, dtype=bool)
    inside[part.nodes] = True
    for mine, other, turned in ((u, v, False), (v, u, True)):
        some = np.flatnonzero(inside[mine])
        tables = problem.tables[problem.edge_table[outer[some]]] * problem.edge_weight[outer[some], None, None]
        np.add.at(field, mine[some], _expected(tables.transpose(0, 2, 1) if turned else tables, node[other[some]]))
    cliques = problem.cliques
    for c in range(len(cliques)):
        members = cliques.members(c)
        for w in members[inside[members]].tolist():
            others = members[members != w]
            field[w] += cliques.weights[c] * node[others].prod(axis=0)
    scores = np.ascontiguousarray(field[part.nodes])
    kinds = np.arange(len(part.edges), dtype=np.int32)
    tables = problem.tables[problem.edge_table[part.edges]] * problem.edge_weight[part.edges, None, None]
    forest = forest_of(np.ascontiguousarray(problem.n_states[part.nodes]), part.local, kinds, tables, part.plan)
    belief, up = np.zeros(scores.shape), np.empty(scores.shape)
    pairs = np.zeros(tables.shape)
    n_parts = len(forest.starts) - 1
    log_sums(forest, scores, np.ones(len(kinds)), kinds, 0, n_parts, belief, up, pairs, np.empty(n_parts))
    total = belief.sum(axis=1, keepdims=True)
    if not (np.isfinite(belief).all() and np.isfinite(pairs).all() and (total > 0).all()):
        return
    # Large scores leave the kernel's marginals inexact; made consistent, those of a forest are a distribution, whatever they were.
    belief /= total
    settle_edges(part.local, belief, pairs, 0, len(kinds))
    node[part.nodes], edge[part.edges] = belief, pairs


def _expected(tables: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Sums over the last axis of tables times chances, where a chance of 0 counts nothing, whatever the score."""
    with np.errstate(invalid="ignore"):
        product = tables * chance[:, None, :]
    return np.where(chance[:, None, :] > 0, product, 0.0).sum(axis=2)


def _value(problem: Problem, node: np.ndarray, edge: np.ndarray, outer: np.ndarray) -> float:
    r""":math:`\mathrm E_q F + H(q)`, less what rounding could have added."""
    terms = [_times(node, problem.unary).sum(axis=1), -_times(node, np.log(np.maximum(node, 1e-300))).sum(axis=1)]
    scores = problem.tables[problem.edge_table] * problem.edge_weight[:, None, None]
    terms.append(_times(edge, scores).sum(axis=(1, 2)))
    u, v = problem.graph.edges.T
    with np.errstate(divide="ignore"):
        apart = np.log(np.maximum(node[u][:, :, None] * node[v][:, None, :], 1e-300))
    shared = _times(edge, np.log(np.maximum(edge, 1e-300)) - apart).sum(axis=(1, 2))
    shared[outer] = 0.0
    terms.append(-shared)
    cliques = problem.cliques
    terms += [
        np.array([float((cliques.weights[c] * node[cliques.members(c)].prod(axis=0)).sum())]) for c in range(len(cliques))
    ]
    total = np.longdouble(problem.offset) + sum(part.sum(dtype=np.longdouble) for part in terms)
    size = abs(problem.offset) + sum(float(np.abs(part).sum()) for part in terms)
    # Marginals of the kernels sum to 1 up to some units of rounding for each label and node on the way through a forest.
    room = 64 * UNIT * (problem.n_labels + 8) * (1 + size) if np.isfinite(size) else 0.0
    return float(total) - room


def _times(chance: np.ndarray, scores: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.where(chance > 0, chance * scores, 0.0)
