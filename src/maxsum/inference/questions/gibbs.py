"""Gibbs sampling (Geman & Geman 1984): estimates for graphs on which exact answers would take too long. Nothing here is proven."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import InfeasibleError, UnsupportedProblemError
from ...core.problem import Problem
from ...core.result import Guarantee
from ..dispatch import solve

BURN_IN = 200
"""Sweeps over all nodes that are thrown away: a habit of the trade; correlations of critical models last longer."""


class GibbsChains:
    """Chains that start from the best labelling that `solve` finds, all moved at once.

    Nodes of one colour share neither an edge nor a clique, so that they are independent given the rest and drawn together.

    Parameters
    ----------
    problem : Problem
    n_chains : int
    random : numpy.random.Generator
    """

    def __init__(self, problem: Problem, n_chains: int, random: np.random.Generator):
        if len(problem.factors):
            raise UnsupportedProblemError(
                "Gibbs sampling takes nodes, edges and cliques; this problem has factors. Leave method out."
            )
        result = solve(problem)
        if result.guarantee == Guarantee.infeasible:
            raise InfeasibleError("no labelling satisfies the hard constraints of the problem, so there is nothing to sample.")
        if result.labels is None or not np.isfinite(result.score):
            raise InfeasibleError(
                "no labelling of finite score was found to start from; give solve() more time to find out why."
            )
        self.problem, self.random = problem, random
        self.labels = np.repeat(np.array(result.labels)[None], n_chains, axis=0)
        self._classes = [self._incident(nodes) for nodes in _colours(problem)]

    def _incident(self, nodes: np.ndarray) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]]:
        """Nodes of a colour, and for both sides of edges: the place of the node in the colour, the edge, its other node."""
        place = np.full(self.problem.n_nodes, -1)
        place[nodes] = np.arange(len(nodes))
        u, v = self.problem.graph.edges.T
        first, second = np.flatnonzero(place[u] >= 0), np.flatnonzero(place[v] >= 0)
        return nodes, [(place[u[first]], first, v[first], False), (place[v[second]], second, u[second], True)]

    def sweep(self) -> None:
        """Draw every label of every chain once, given the others."""
        problem, labels = self.problem, self.labels
        for nodes, sides in self._classes:
            field = np.repeat(problem.unary[nodes][None], len(labels), axis=0)
            for at, edges, other, turned in sides:
                tables = problem.tables.transpose(0, 2, 1) if turned else problem.tables
                # rows of tables at the labels of the other ends, shape (chains, edges, K)
                rows = tables.transpose(0, 2, 1)[problem.edge_table[edges], labels[:, other]]
                place: Any = (slice(None), at)
                np.add.at(field, place, rows * problem.edge_weight[edges, None])
            self._add_cliques(nodes, field)
            chance = np.exp(field - field.max(axis=2, keepdims=True))
            heap = chance.cumsum(axis=2)
            drawn = self.random.random(field.shape[:2]) * heap[:, :, -1]
            threshold = np.minimum(drawn, np.nextafter(heap[:, :, -1], 0.0))
            labels[:, nodes] = (heap <= threshold[:, :, None]).sum(axis=2)

    def _add_cliques(self, nodes: np.ndarray, field: np.ndarray) -> None:
        cliques = self.problem.cliques
        if not len(cliques):
            return
        place = {v: i for i, v in enumerate(nodes.tolist())}
        chains = np.arange(len(self.labels))
        for c in range(len(cliques)):
            members = cliques.members(c)
            for v in members.tolist():
                if v not in place:
                    continue
                others = self.labels[:, members[members != v]]
                if not others.shape[1]:
                    field[:, place[v]] += cliques.weights[c]
                    continue
                agree = chains[(others == others[:, :1]).all(axis=1)]
                k = others[agree, 0]
                field[agree, place[v], k] += cliques.weights[c, k]


def _colours(problem: Problem) -> list[np.ndarray]:
    """Nodes in classes without an edge or a clique inside: each in the first class that none of its neighbours has."""
    neighbours: list[set[int]] = [set() for _ in range(problem.n_nodes)]
    groups = [problem.cliques.members(c).tolist() for c in range(len(problem.cliques))]
    for group in [*problem.graph.edges.tolist(), *groups]:
        for v in group:
            neighbours[v].update(group)
    colour = np.full(problem.n_nodes, -1)
    for v, near in enumerate(neighbours):
        taken = {int(colour[w]) for w in near if w != v}
        colour[v] = next(k for k in range(len(near) + 1) if k not in taken)
    return [np.flatnonzero(colour == k) for k in range(int(colour.max(initial=-1)) + 1)]
