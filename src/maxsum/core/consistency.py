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
    tol : float, optional
        Scores within ``tol`` of the largest count as maximal; 1e-9 of the typical spread of a term by default.
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
    """Definition 2: one maximal label per node, and every maximal edge joins maximal nodes."""
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
    """Whether all maximal nodes and edges are locally consistent (Definition 3)."""
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
