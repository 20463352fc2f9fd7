"""Trivial problems, local consistency and the constraint satisfaction problem on maximal nodes and edges (2008 paper).

A node ``(v, k)`` is *maximal* if ``q_v(k)`` is the largest score of ``v``; a pair of labels of an edge is maximal if its
table entry is the largest of the table. A problem is *trivial* if some labelling uses maximal nodes and edges only:
that labelling is optimal, and the height ``problem.bound()`` is tight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InvalidProblemError
from .validation import read_only

if TYPE_CHECKING:
    from .problem import Problem


@dataclass(frozen=True, eq=False)
class MaximalSet:
    """Maximal nodes ``(N, K)`` and maximal edges ``(E, K, K)`` of a problem, as masks."""

    nodes: np.ndarray
    edges: np.ndarray

    @property
    def unique(self) -> bool:
        """Whether each node has one maximal label."""
        return bool((self.nodes.sum(axis=1) == 1).all())


def maximal_set(problem: Problem, messages: Any = None, tol: float | None = None) -> MaximalSet:
    """Maximal nodes and edges of the problem, after a reparametrisation if ``messages`` are given.

    Parameters
    ----------
    problem : Problem
    messages : Messages or ndarray, optional
        Of the reparametrisation; none by default.
    tol : float, optional
        Scores within ``tol`` of the largest count as maximal; 1e-9 of the typical spread of a term by default.

    Returns
    -------
    MaximalSet
        Masks ``nodes`` (N, K) and ``edges`` (E, K, K).
    """
    if len(problem.cliques):
        raise InvalidProblemError("maximal nodes and edges are defined for problems without cliques.")
    if messages is not None:
        problem = problem.reparametrize(messages)
    if tol is None:
        tol = problem.resolution / max(1, problem.n_nodes + problem.n_edges)
    own = np.arange(problem.n_labels) < problem.n_states[:, None]
    scores = np.where(own, problem.unary, -np.inf)
    nodes = own & (scores >= scores.max(axis=1, initial=-np.inf, keepdims=True) - tol)
    u, v = problem.graph.edges.T
    tables = np.where(own[u][:, :, None] & own[v][:, None, :], problem.edge_scores(), -np.inf)
    edges = tables >= tables.max(axis=(1, 2), initial=-np.inf, keepdims=True) - tol
    edges &= own[u][:, :, None] & own[v][:, None, :]
    return MaximalSet(read_only(nodes), read_only(edges))


def is_strictly_trivial(problem: Problem, messages: Any = None, tol: float | None = None) -> bool:
    """Whether each node has one maximal label, and every maximal edge joins maximal nodes (Franc & Savchynskyy 2008, Definition 2).

    Parameters
    ----------
    problem : Problem
    messages, tol : optional
        As of `maximal_set`.

    Returns
    -------
    bool
    """
    top = maximal_set(problem, messages, tol)
    if not top.unique:
        return False
    u, v = problem.graph.edges.T
    joins = top.nodes[u][:, :, None] & top.nodes[v][:, None, :]
    return bool((joins | ~top.edges).all())


def locally_consistent(problem: Problem, top: MaximalSet) -> MaximalSet:
    """Largest subset in which every node has a partner at each edge and every edge joins kept nodes (Definition 3, closed)."""
    nodes, edges = top.nodes.copy(), top.edges.copy()
    u, v = problem.graph.edges.T
    while True:
        edges &= nodes[u][:, :, None] & nodes[v][:, None, :]
        kept = nodes.copy()
        np.logical_and.at(kept, u, edges.any(axis=2))
        np.logical_and.at(kept, v, edges.any(axis=1))
        if (kept == nodes).all():
            return MaximalSet(read_only(nodes), read_only(edges))
        nodes = kept


def is_locally_consistent(problem: Problem, top: MaximalSet) -> bool:
    """Whether all maximal nodes and edges are locally consistent (Franc & Savchynskyy 2008, Definition 3).

    Parameters
    ----------
    problem : Problem
    top : MaximalSet
        What `maximal_set` found.

    Returns
    -------
    bool
    """
    kept = locally_consistent(problem, top)
    return bool((kept.nodes == top.nodes).all() and (kept.edges == top.edges).all())


def maximal_csp(problem: Problem, top: MaximalSet) -> Problem:
    """The constraint satisfaction problem of a trivial labelling: score 0 if all nodes and edges are maximal, else ``-inf``."""
    from .cliques import Cliques

    edges = top.edges if problem.n_edges else np.ones((1, problem.n_labels, problem.n_labels), dtype=bool)
    return type(problem)._trusted(
        graph=problem.graph,
        unary=np.where(top.nodes, 0.0, -np.inf),
        tables=np.where(edges, 0.0, -np.inf),
        edge_table=np.arange(problem.n_edges, dtype=np.int32),
        edge_weight=np.ones(problem.n_edges),
        n_states=problem.n_states,
        cliques=Cliques.empty(problem.n_labels),
        offset=0.0,
    )


def strictly_trivial_messages(problem: Problem, messages: Any = None, tol: float | None = None) -> Any:
    r"""Messages of a strictly trivial equivalent, after the proof of Theorem 3 of the 2008 paper (appendix A).

    Maximal nodes without a maximal edge to some neighbour, and maximal edges at a node that is not maximal, are made
    non-maximal one after another by moving half of the missing amount,

    .. math::
        \varphi_{tt'}(k) \leftarrow \varphi_{tt'}(k) + \tfrac12\big[\max g^\varphi_{tt'} - \max_l g^\varphi_{tt'}(k, l)\big], \qquad
        \varphi_{t't}(l) \leftarrow \varphi_{t't}(l) - \tfrac12\big[\max q^\varphi_{t'} - q^\varphi_{t'}(l)\big],

    which leaves all other maximal and non-maximal ones as they are. For a forest or a supermodular problem with a unique
    solution what remains is that solution.

    Parameters
    ----------
    problem : Problem
    messages : Messages or ndarray, optional
        Those of a trivial equivalent, such as ``result.messages`` of an exact solver; none by default.
    tol : float, optional
        See `maximal_set`. Margins of the answer can be much smaller than those of the problem: each elimination halves one.

    Returns
    -------
    Messages or None
        None if inconsistent ones are gone and the problem is not strictly trivial: its solution is not unique, or the messages
        are not those of a trivial equivalent.
    """
    found = problem.as_messages(messages if messages is not None else problem.zero_messages())
    edge = np.array(found.edge, dtype=np.float64)
    if tol is None:
        tol = problem.resolution / max(1, problem.n_nodes + problem.n_edges)
    ends = problem.graph.edges
    for _ in range(2 * problem.n_nodes * problem.n_labels + 2 * problem.n_edges * problem.n_labels + 1):
        moved = type(found)(edge, found.clique)
        equivalent = problem.reparametrize(moved)
        top = maximal_set(equivalent, tol=tol)
        change = _eliminate(equivalent, top, ends)
        if change is None:
            return moved if is_strictly_trivial(equivalent, tol=tol) else None
        side, e, label, amount = change
        edge[side, e, label] += amount
    return None


def _eliminate(problem: Problem, top: MaximalSet, ends: np.ndarray) -> tuple[int, int, int, float] | None:
    """One elimination, as (side, edge, label, amount); None if all maximal nodes and edges are locally consistent."""
    own = np.arange(problem.n_labels) < problem.n_states[:, None]
    tables = np.where(own[ends[:, 0]][:, :, None] & own[ends[:, 1]][:, None, :], problem.edge_scores(), -np.inf)
    for side in range(2):
        partner = top.edges.any(axis=2 - side)
        lonely = np.argwhere(top.nodes[ends[:, side]] & ~partner)
        if len(lonely):
            e, k = (int(i) for i in lonely[0])
            row = tables[e].max(axis=1 - side)[k]
            return side, e, k, _half(float(tables[e].max() - row))
    for side in range(2):
        stray = np.argwhere(top.edges.any(axis=2 - side) & ~top.nodes[ends[:, side]])
        if len(stray):
            e, k = (int(i) for i in stray[0])
            v = int(ends[e, side])
            return side, e, k, -_half(float(problem.unary[v, : problem.n_states[v]].max() - problem.unary[v, k]))
    return None


def _half(amount: float) -> float:
    """Half of what is missing; any amount does where a hard constraint is what is missing."""
    return 0.5 * amount if np.isfinite(amount) else 1.0
