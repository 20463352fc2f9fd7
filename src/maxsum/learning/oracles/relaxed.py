"""Relaxed answers: pseudo-marginals of an example as the key of a plane, and the oracle that finds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.errors import CertificateError
from ...core.problem import Problem
from ...inference.dispatch import solve
from ...inference.relaxations.finisher import LPFinisher
from ...kernels.records import Design
from ...models.bound import BoundModel
from ..certificate import whole_numbers
from .base import Key
from .bracket import BracketOracle

_ALLOWED = 1e-9  # marginals that miss the local polytope by more are no rounding of any point of it
_WHOLE = 1e-12  # a marginal so near to 1 is taken for a label; what is lost by that is below the tolerance of any gap
_LP_TOLERANCE = 1e-8  # relative gap of the linear program: brackets are compared with tolerances of 1e-3 to 1e-6
_ULPS = 1e-14  # of the sum of sizes of all terms: what rounding can hide in their sum (45 units in the last place, more than pairwise sums lose)


@dataclass(frozen=True, eq=False)
class Relaxed:
    r"""A point :math:`\mu` of the local polytope of one example, by what differs from a labelling.

    Attributes
    ----------
    labels : ndarray of int32, shape (n,)
        Largest label of each node.
    nodes : ndarray of int64
        Nodes whose marginals are not whole; ``node`` (len(nodes), K) are theirs.
    edges : ndarray of int64
        Edges both of whose nodes are among them; ``edge`` (len(edges), K, K) are their tables. Every other edge has the product of
        its nodes' marginals.
    """

    labels: np.ndarray
    nodes: np.ndarray
    node: np.ndarray
    edges: np.ndarray
    edge: np.ndarray

    @classmethod
    def of(cls, ends: np.ndarray, node: np.ndarray, edge: np.ndarray) -> Relaxed:
        """The compact form of marginals (n, K) and (E, K, K) of a graph with the edges ``ends``."""
        broken = node.max(axis=1, initial=0.0) < 1.0 - _WHOLE
        nodes, edges = np.flatnonzero(broken), np.flatnonzero(broken[ends].all(axis=1))
        return cls(node.argmax(axis=1).astype(np.int32), nodes, node[nodes], edges, edge[edges])

    def marginals(self, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Node (n, K) and edge (E, K, K) marginals, checked to be in the local polytope."""
        n_labels = self.node.shape[1]
        node = np.zeros((len(self.labels), n_labels))
        node[np.arange(len(node)), self.labels] = 1.0
        node[self.nodes] = self.node
        u, v = ends.T
        edge = node[u][:, :, None] * node[v][:, None, :]
        edge[self.edges] = self.edge
        off = max(
            float(np.abs(node.sum(axis=1) - 1.0).max(initial=0.0)),
            float(np.abs(edge.sum(axis=2) - node[u]).max(initial=0.0)),
            float(np.abs(edge.sum(axis=1) - node[v]).max(initial=0.0)),
        )
        if not off <= _ALLOWED or min(node.min(initial=0.0), edge.min(initial=0.0)) < 0:
            raise CertificateError(f"pseudo-marginals miss the local polytope by {off}, so they prove nothing.")
        return node, edge

    def check(self, n_states: np.ndarray, n_edges: int, n_labels: int) -> None:
        """Refuse what is malformed for an example with these labels of nodes and this number of edges; see `settled_nodes` for the rest."""
        n = len(n_states)
        whole_numbers(self.labels, (n,), n_states, "labels of pseudo-marginals")
        for name, index, limit in (("nodes", self.nodes, n), ("edges", self.edges, n_edges)):
            own = whole_numbers(index, (None,), limit, f"{name} of pseudo-marginals")
            if (np.diff(own) <= 0).any():
                raise CertificateError(f"{name} of pseudo-marginals are not ascending, wanted each of them once.")
        wanted = (len(self.nodes), n_labels), (len(self.edges), n_labels, n_labels)
        for table, shape in zip((self.node, self.edge), wanted, strict=True):
            own = np.asarray(table)
            if own.shape != shape or own.dtype.kind != "f":
                raise CertificateError(
                    f"pseudo-marginals are {own.dtype} of shape {own.shape}, wanted numbers of shape {shape}."
                )

    def pack(self) -> np.ndarray:
        """All numbers in one row, for a checkpoint."""
        sizes = [len(self.labels), len(self.nodes), self.node.shape[1], len(self.edges)]
        return np.concatenate([sizes, self.labels, self.nodes, self.node.ravel(), self.edges, self.edge.ravel()])

    @classmethod
    def unpack(cls, row: np.ndarray) -> Relaxed:
        """What `pack` made."""
        n, m, size, e = (int(i) for i in row[:4])
        labels, nodes, node, edges, edge = np.split(row[4:], np.cumsum([n, m, m * size, e]))
        return cls(
            labels.astype(np.int32),
            nodes.astype(np.int64),
            node.reshape(m, size),
            edges.astype(np.int64),
            edge.reshape(e, size, size),
        )


class RelaxedOracle(BracketOracle):
    """`BracketOracle` whose last effort solves the linear relaxation, and answers with pseudo-marginals where it is not tight.

    Parameters
    ----------
    model : BoundModel
    design : Design
    time_limit : float
        Seconds for the linear program of one example.
    """

    def __init__(self, model: BoundModel, design: Design, time_limit: float = 60.0):
        super().__init__(model, design, time_limit=time_limit)

    def _search(self, j: int, problem: Problem) -> tuple[Key, float]:
        finisher = LPFinisher(tol=_LP_TOLERANCE, time_limit=self.time_limit)
        if not finisher.supports(problem).ok:
            return self._labelled(j, solve(problem, "TRWS", init=self.messages[j]))
        result = finisher.solve(problem, init=self.messages[j])
        labels, gap = self._labelled(j, result)
        node, edge = result.marginals, result.edge_marginals
        if gap <= problem.resolution or node is None or edge is None:
            return labels, gap
        key = Relaxed.of(problem.graph.edges, node, edge)
        node, edge = key.marginals(problem.graph.edges)
        unary, tables = np.where(np.isneginf(problem.unary), 0.0, problem.unary), problem.edge_scores()
        value = float((unary * node).sum() + (tables * edge).sum())
        size = float((np.abs(unary) * node).sum() + (np.abs(tables) * edge).sum())
        if len(problem.cliques):
            rewards = float((problem.cliques.weights * problem.cliques.common(node)).sum())
            value, size = value + rewards, size + rewards
        if value <= result.score:
            return labels, gap
        return key, max(0.0, result.bound - value) + _ULPS * size
