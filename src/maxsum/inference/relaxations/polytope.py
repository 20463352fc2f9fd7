"""The local polytope of a problem as dense arrays, and what is known about the value of its LP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.problem import Messages, Problem
from ...kernels.records import Net
from ..base import Run
from ..prepare import Prepared

# Pairs of labels up to which the local polytope is kept, 256 MB a copy; beyond it there is no lower end of the bracket.
_MAX_PAIRS = 1 << 25
_PAIR_SECONDS = 5e-8  # measured for a pair of labels in a value of marginals, which is not asked for where there is no time


@dataclass(frozen=True, eq=False)
class LocalPolytope:
    r"""Pseudo-marginals :math:`\mu_v(k)` (N, K) and :math:`\mu_{uv}(k, l)` (E, K, K) with

    .. math:: \sum_k \mu_v(k) = 1, \quad \sum_l \mu_{uv}(k, l) = \mu_u(k), \quad \sum_k \mu_{uv}(k, l) = \mu_v(l),
              \quad \mu \ge 0,

    zero where ``alive`` (N, K) or ``pair`` (E, K, K) is False. ``node`` and ``edge`` are the scores, 0 there.
    """

    first: np.ndarray
    second: np.ndarray
    alive: np.ndarray
    pair: np.ndarray
    node: np.ndarray
    edge: np.ndarray

    @classmethod
    def of(cls, net: Net) -> LocalPolytope:
        """The polytope of a net; cliques are left out."""
        first, second = net.edges[:, 0].astype(np.int64), net.edges[:, 1].astype(np.int64)
        alive = net.unary > -np.inf
        pair = np.isfinite(net.tables)[net.edge_table] & alive[first][:, :, None] & alive[second][:, None, :]
        with np.errstate(invalid="ignore"):
            edge = np.where(pair, net.tables[net.edge_table] * net.edge_weight[:, None, None], 0.0)
        return cls(first, second, alive, pair, np.where(alive, net.unary, 0.0), edge)

    @property
    def n_variables(self) -> int:
        """Marginals of nodes and of edges that are not forbidden."""
        return int(self.alive.sum() + self.pair.sum())

    def at_nodes(self, messages: np.ndarray) -> np.ndarray:
        """Sum (N, K) at each node of what (2, E, K) holds for it."""
        n_nodes, n_labels = self.alive.shape
        place = np.concatenate([self.first, self.second])[:, None] * n_labels + np.arange(n_labels)
        total = np.bincount(place.ravel(), weights=messages.ravel(), minlength=n_nodes * n_labels)
        return total.reshape(n_nodes, n_labels)

    def value(self, node: np.ndarray, edge: np.ndarray) -> float:
        """Score of pseudo-marginals, without the constant of the problem."""
        return float((self.node * node).sum(dtype=np.longdouble) + (self.edge * edge).sum(dtype=np.longdouble))

    def repair(self, node: np.ndarray, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        r"""Feasible pseudo-marginals near the given ones.

        Node marginals are cut at 0 and normalised. Each pairwise one is shrunk until its margins nowhere exceed those of its
        nodes, :math:`a` and :math:`b`; what then is missing, :math:`a'` and :math:`b'`, comes back as
        :math:`a' b'^\top / \sum a'` (Altschuler et al. 2017), which moves no more mass than the margins were wrong by.

        Returns
        -------
        node, edge : ndarray
        feasible : bool
            False where mass had to go to a forbidden pair: such an edge marginal is no proof of a value.
        """
        node = np.where(self.alive, np.maximum(node, 0.0), 0.0)
        total = node.sum(axis=1, keepdims=True)
        spread = self.alive / np.maximum(self.alive.sum(axis=1, keepdims=True), 1)
        node = np.where(total > 0, node / np.where(total > 0, total, 1.0), spread)
        edge = np.where(self.pair, np.maximum(edge, 0.0), 0.0)
        a, b = node[self.first], node[self.second]
        edge *= _shrink(a, edge.sum(axis=2))[:, :, None]
        edge *= _shrink(b, edge.sum(axis=1))[:, None, :]
        a, b = np.maximum(a - edge.sum(axis=2), 0.0), np.maximum(b - edge.sum(axis=1), 0.0)
        mass = np.maximum(a.sum(axis=1), b.sum(axis=1))
        fill = a[:, :, None] * (b / np.where(mass > 0, mass, 1.0)[:, None])[:, None, :]
        feasible = float(fill[~self.pair].sum()) <= 1e-13 * max(1, len(self.first))
        return node, edge + np.where(self.pair, fill, 0.0), feasible


def _shrink(wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
    return np.where(found > wanted, wanted / np.where(found > 0, found, 1.0), 1.0)


class Bracket:
    """What a run knows about the LP value: ``low``, of feasible pseudo-marginals, and ``high``, of messages, less the constant.

    Everything that is learnt goes to the run as well: messages as certificates, marginals of the best pseudo-marginals.
    """

    def __init__(self, problem: Problem, prepared: Prepared, run: Run, tol: float):
        self.problem, self.prepared, self.run, self.tol = problem, prepared, run, tol
        self.constant = prepared.constant
        pairs = problem.n_edges * problem.n_labels**2
        fits = pairs <= _MAX_PAIRS and 2 * _PAIR_SECONDS * pairs <= run.seconds_left
        self.polytope = LocalPolytope.of(prepared.net) if fits else None
        self.low, self.high = -np.inf, np.inf
        if isinstance(run.certificate, MessageCertificate):
            self.high = run.bound - prepared.constant

    @property
    def room(self) -> float:
        """Width at which the LP value counts as known."""
        return max(self.tol * abs(self.high), 0.5 * self.problem.resolution) if np.isfinite(self.high) else 0.0

    def bound(self, value: float, messages: Messages) -> None:
        """Messages whose bound is ``value`` or better."""
        if value < self.high:
            self.high = value
            self.run.certify(self.constant + value, MessageCertificate(messages))

    def marginals(self, node: np.ndarray, edge: np.ndarray) -> None:
        """Pseudo-marginals, repaired where they are not feasible; a clique gets the least of its members' marginals."""
        if self.polytope is None or self.run.seconds_left < _PAIR_SECONDS * self.polytope.pair.size:
            return
        node, edge, feasible = self.polytope.repair(node, edge)
        value, net = -np.inf, self.prepared.net
        if feasible:
            value = self.polytope.value(node, edge)
            if len(net.clique_weights):
                least = np.minimum.reduceat(node[net.clique_nodes], net.clique_ptr[:-1], axis=0)
                value += float((net.clique_weights * least).sum())
        if value > self.low or self.run.marginals is None:
            self.low, self.run.marginals = max(value, self.low), node
            self.run.edge_marginals = edge if feasible else None

    @property
    def solved(self) -> bool:
        """Whether the LP value is known to the tolerance."""
        return bool(self.high - self.low <= self.room)

    @property
    def closed(self) -> bool:
        """Whether the labelling is proven optimal, or within the gap that was asked for."""
        return self.run.closed

    @property
    def halted(self) -> bool:
        """Whether the clock or the caller has ended the run, or the gap that was asked for is reached."""
        return self.run.halted

    def __str__(self) -> str:
        low, high = self.low + self.constant, self.high + self.constant
        return f"LP value in [{low:.10g}, {high:.10g}]" if np.isfinite(low) else f"LP value at most {high:.10g}"
