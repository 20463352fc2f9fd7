r"""Upper bounds on :math:`\log Z` of graphs with cycles, and pseudo-marginals, by tree-reweighted sums (Wainwright et al. 2005).

The edges are divided into classes of monotone chains, class :math:`t` with probability :math:`\rho_t`, :math:`\sum_t\rho_t = 1`. As
:math:`\log Z` is convex in the scores, every division of the node scores into :math:`\sum_t \rho_t \theta^t = \theta` bounds it:

.. math:: \log Z(\theta) \le \sum_t \rho_t \log Z_t(\theta^t),\qquad
          \min = \max_{\mu \in \text{local polytope}}\ \langle\theta, \mu\rangle + \sum_v H(\mu_v) - \sum_e \rho_e I(\mu_e).

Messages choose the division; whatever their numbers are the bound holds, and every point of the polytope bounds the minimum from below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...executors.threads import split, thread_map
from ...kernels import log_sum as kernels
from ...kernels.local_polytope import settle_edges
from ...kernels.net import adjacency
from ...kernels.records import Forest
from ...kernels.tree import forest_order

Plan = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Bracket(NamedTuple):
    """Lower and upper values of the bound's minimum, for each example, and consistent marginals of nodes and edges."""

    lower: np.ndarray
    upper: np.ndarray
    node: np.ndarray
    edge: np.ndarray


def forest_of(
    n_states: np.ndarray,
    edges: np.ndarray,
    table_of: np.ndarray,
    tables: np.ndarray,
    plan: Plan | None = None,
) -> Forest:
    """A forest for the kernels; ``plan`` is the `forest_order` of its edges, if it is known."""
    if plan is None:
        plan = plan_of(len(n_states), edges)
    peaks = tables.max(axis=(1, 2), initial=-np.inf)
    with np.errstate(invalid="ignore"):
        bank = np.exp(np.where(peaks[:, None, None] > -np.inf, tables - peaks[:, None, None], -np.inf))
    safe = (bank.min(axis=(1, 2), initial=np.inf) > kernels.FAINT).astype(np.uint8)
    turned = np.ascontiguousarray(bank.transpose(0, 2, 1))
    return Forest(n_states, edges, *plan, table_of, np.ascontiguousarray(tables), peaks, bank, turned, safe)


def plan_of(n_nodes: int, edges: np.ndarray) -> Plan:
    """Order of the nodes of a forest, their parents, and the components."""
    return forest_order(n_nodes, edges, *adjacency(n_nodes, edges))


class Reweighted:
    """Bounds of a union of graphs; messages are kept from one call to the next.

    Parameters
    ----------
    node_ptr, edge_ptr : ndarray of int64, shape (n_examples + 1,)
    edges : ndarray of int32, shape (E, 2)
        In node numbers of the union.
    n_states : ndarray of int32, shape (N,)
    n_labels : int
    n_jobs : int
    """

    def __init__(
        self,
        node_ptr: np.ndarray,
        edge_ptr: np.ndarray,
        edges: np.ndarray,
        n_states: np.ndarray,
        n_labels: int,
        n_jobs: int = 1,
    ):
        self.node_ptr, self.edge_ptr, self.edges, self.n_states = node_ptr, edge_ptr, edges, n_states
        self.n_labels, self.n_jobs = n_labels, n_jobs
        self.messages = np.zeros((2, len(edges), n_labels))
        self.n_rounds = 0
        self._net = (n_states, edges, *adjacency(len(n_states), edges))
        self._example = np.repeat(np.arange(len(edge_ptr) - 1), np.diff(edge_ptr))
        self._divide()

    def _divide(self) -> None:
        """Classes of edges, their probabilities, and the copies of nodes that live in them."""
        n_nodes, edges = len(self.n_states), self.edges
        degree = int(np.bincount(edges.ravel(), minlength=1).max(initial=0))
        colours = kernels.chain_colours(n_nodes, edges, np.zeros((2, n_nodes, 2 * degree // 63 + 2), dtype=np.int64))
        n_colours = int(colours.max(initial=0)) + 1
        count = np.zeros((len(self.edge_ptr) - 1, n_colours))
        np.add.at(count, (self._example, colours), 1.0)
        share = count / np.maximum(count.sum(axis=1, keepdims=True), 1.0)
        self.rho = share[self._example, colours]
        ends = edges.astype(np.int64) * n_colours + colours[:, None]
        copies, place = np.unique(ends, return_inverse=True)
        home = copies // n_colours
        owner = np.searchsorted(self.node_ptr, np.arange(n_nodes), side="right") - 1
        weight = share[owner[home], copies % n_colours]
        rest = 1.0 - np.bincount(home, weights=weight, minlength=n_nodes)
        alone = np.flatnonzero(rest > 1e-12)
        self._home = np.concatenate([home, alone])
        self._weight = np.concatenate([weight, rest[alone]])
        self._virtual = np.ascontiguousarray(place.reshape(-1, 2), dtype=np.int32)
        self._plan = plan_of(len(self._home), self._virtual)
        order, starts = self._plan[0], self._plan[3]
        first = order[starts[:-1]]
        self._component_weight, self._component_owner = self._weight[first], owner[self._home[first]]

    def bracket(
        self, unary: np.ndarray, tables: np.ndarray, table_of: np.ndarray, allowed: np.ndarray, max_rounds: int
    ) -> Bracket:
        """Rounds of messages, forwards and backwards, until the bracket of each example is at most ``allowed`` wide."""
        kinds, place = np.unique(np.stack([table_of.astype(np.float64), self.rho], axis=1), axis=0, return_inverse=True)
        cold = np.ascontiguousarray(tables[kinds[:, 0].astype(np.int64)] / kinds[:, 1][:, None, None])
        forest = forest_of(self.n_states[self._home], self._virtual, place.reshape(-1).astype(np.int32), cold, self._plan)
        done, pause = 0, 1
        while True:
            found = self._measure(unary, tables, table_of, forest)
            open_ = np.flatnonzero(found.upper - found.lower > allowed)
            if not len(open_) or done >= max_rounds:
                return found
            pause = min(pause, max_rounds - done)

            def sweep(j: int, rounds: int = pause) -> None:
                nodes = int(self.node_ptr[j]), int(self.node_ptr[j + 1])
                for _ in range(rounds):
                    for forward in (True, False):
                        kernels.reweighted_sweep(self._net, unary, tables, table_of, self.rho, self.messages, *nodes, forward)

            thread_map(sweep, open_.tolist(), self.n_jobs)
            done += pause
            self.n_rounds += pause * len(open_)
            pause = max(1, done // 2)

    def _measure(self, unary: np.ndarray, tables: np.ndarray, table_of: np.ndarray, forest: Forest) -> Bracket:
        """The bracket at the present messages."""
        edges, n_edges, size = self.edges, len(self.edges), self.n_labels
        total = unary.copy()
        for side in range(2):
            np.add.at(total, edges[:, side], self.messages[side])
        own = total[self._home]
        for side in range(2):
            np.subtract.at(own, self._virtual[:, side], self.messages[side] / self.rho[:, None])
        belief, up, edge = np.zeros(own.shape), np.empty(own.shape), np.zeros((n_edges, size, size))
        log_z = np.empty(len(forest.starts) - 1)
        one, slot = np.ones(n_edges), np.arange(n_edges, dtype=np.int32)
        thread_map(
            lambda part: kernels.log_sums(forest, own, one, slot, part[0], part[1], belief, up, edge, log_z),
            split(forest.starts, self.n_jobs),
            self.n_jobs,
        )
        upper = np.bincount(self._component_owner, weights=self._component_weight * log_z, minlength=len(self.node_ptr) - 1)
        node = np.zeros(unary.shape)
        np.add.at(node, self._home, belief * self._weight[:, None])
        node /= np.maximum(node.sum(axis=1, keepdims=True), 1e-300)
        settle_edges(edges, node, edge, 0, n_edges)
        lower = self._value(unary, tables, table_of, node, edge)
        return Bracket(np.minimum(lower, upper), upper, node, edge)

    def _value(
        self, unary: np.ndarray, tables: np.ndarray, table_of: np.ndarray, node: np.ndarray, edge: np.ndarray
    ) -> np.ndarray:
        r""":math:`\langle\theta, \mu\rangle + \sum_v H(\mu_v) - \sum_e\rho_e I(\mu_e)` of each example."""
        logs = np.log(np.maximum(node, 1e-300))
        nodes = np.where(node > 0, node * (np.where(node > 0, unary, 0.0) - logs), 0.0).sum(axis=1)
        apart = logs[self.edges[:, 0]][:, :, None] + logs[self.edges[:, 1]][:, None, :]
        shared = np.log(np.maximum(edge, 1e-300)) - apart
        pairs = np.where(edge > 0, edge * (tables[table_of] - self.rho[:, None, None] * shared), 0.0).sum(axis=(1, 2))
        n = len(self.node_ptr) - 1
        owner = np.repeat(np.arange(n), np.diff(self.node_ptr))
        return np.bincount(owner, weights=nodes, minlength=n) + np.bincount(self._example, weights=pairs, minlength=n)
