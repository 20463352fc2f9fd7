r"""LogPartition: :math:`\log Z = \log\sum_y e^{F(y)}` of many problems at once, with marginals: exact where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...core.certificates.elimination_order import EliminationOrder, elimination_order
from ...core.graph import Graph
from ...core.problem import Problem
from ...executors.threads import fixed_split, thread_map
from ...kernels.log_sum import log_sums
from ..exact.junction import has_small_width
from .log_elimination import eliminate
from .reweighted import Reweighted, forest_of, plan_of

MAX_CELLS = 2**15
_BATCH = 2**21  # cells of the bags that are eliminated at once: 16 MB, enough to make numpy's overhead small


class Partition(NamedTuple):
    r"""Brackets of :math:`\log Z`, or of its convex bound, and marginals.

    Attributes
    ----------
    lower, upper : ndarray, shape (n_examples,)
        Equal where the sum is exact; elsewhere the minimum of the convex bound lies between them, and :math:`\log Z \le` ``upper``.
    node : ndarray, shape (N, K)
    edge : ndarray, shape (n_slots, K, K)
        Sums of ``amount`` times the marginals of the edges of each slot.
    """

    lower: np.ndarray
    upper: np.ndarray
    node: np.ndarray
    edge: np.ndarray


class _Group(NamedTuple):
    """Examples that share a graph of small width: their nodes (B, n) and edges (B, E) in the union."""

    order: EliminationOrder
    examples: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    local: np.ndarray
    n_states: np.ndarray


class LogPartition:
    r"""Sums over all labellings of a union of graphs: by dynamic programming on forests, by elimination on graphs of small width,
    and by the tree-reweighted bound elsewhere.

    Parameters
    ----------
    graphs : sequence of Graph
    node_ptr, edge_ptr : ndarray of int64, shape (n_examples + 1,)
    edges : ndarray of int32, shape (E, 2)
        In node numbers of the union.
    n_states : ndarray of int32, shape (N,)
    table, weight : ndarray, shape (E,)
        Which table of the bank an edge has, and the factor of it.
    n_labels : int
    each : bool
        Give every edge a slot of its own; else edges with the same table and factor share one.
    n_jobs : int
    max_cells : int
        Most table entries of all bags together for elimination.

    Attributes
    ----------
    exact : ndarray of bool, shape (n_examples,)
    slot : ndarray of int32, shape (E,)
    slot_table, slot_weight : ndarray, shape (n_slots,)
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        node_ptr: np.ndarray,
        edge_ptr: np.ndarray,
        edges: np.ndarray,
        n_states: np.ndarray,
        table: np.ndarray,
        weight: np.ndarray,
        n_labels: int,
        each: bool = False,
        n_jobs: int = 1,
        max_cells: int = MAX_CELLS,
    ):
        self.graphs, self.node_ptr, self.edge_ptr, self.edges, self.n_states = graphs, node_ptr, edge_ptr, edges, n_states
        self.n_labels, self.n_jobs, self.max_cells = n_labels, n_jobs, max_cells
        kinds, place = np.unique(np.stack([table.astype(np.float64), weight], axis=1), axis=0, return_inverse=True)
        self._kind = np.ascontiguousarray(place.reshape(-1), dtype=np.int32)
        self._table, self._factor = kinds[:, 0].astype(np.int64), np.ascontiguousarray(kinds[:, 1])
        if each:
            self.slot, self.slot_table, self.slot_weight = np.arange(len(edges), dtype=np.int32), table, weight
        else:
            self.slot, self.slot_table, self.slot_weight = self._kind, self._table, self._factor
        self._each = each
        forest = np.array([graph.is_forest for graph in graphs], dtype=bool)
        self._groups = self._narrow(np.flatnonzero(~forest))
        self.exact = forest.copy()
        for group in self._groups:
            self.exact[group.examples] = True
        self._forest = _Part(self, np.flatnonzero(forest))
        self._plan = plan_of(len(self._forest.nodes), self._forest.edges)
        first = self._plan[0][self._plan[3][:-1]]
        self._component_owner = np.searchsorted(self._forest.node_ptr, first, side="right") - 1
        self._loopy = _Part(self, np.flatnonzero(~self.exact))
        loopy = self._loopy
        self.reweighted = (
            Reweighted(loopy.node_ptr, loopy.edge_ptr, loopy.edges, n_states[loopy.nodes], n_labels, n_jobs)
            if len(loopy.examples)
            else None
        )

    def _narrow(self, examples: np.ndarray) -> list[_Group]:
        """Examples whose graphs have small width, grouped by graph."""
        members: dict[tuple[bytes, bytes], list[int]] = {}
        for j in examples.tolist():
            states = self.n_states[self.node_ptr[j] : self.node_ptr[j + 1]]
            members.setdefault((self.graphs[j].edges.tobytes(), states.tobytes()), []).append(j)
        groups = []
        for own in members.values():
            graph, first = self.graphs[own[0]], int(self.node_ptr[own[0]])
            states = self.n_states[first : first + graph.n_nodes]
            shape = Problem(graph, np.zeros((graph.n_nodes, self.n_labels)), np.zeros((self.n_labels,) * 2), n_states=states)
            order = elimination_order(shape, None, self.max_cells) if has_small_width(shape, self.max_cells) else None
            if order is not None:
                which = np.array(own)
                nodes = self.node_ptr[which][:, None] + np.arange(graph.n_nodes)
                edges = self.edge_ptr[which][:, None] + np.arange(graph.n_edges)
                groups.append(_Group(order, which, nodes, edges, graph.edges, states))
        return groups

    def __call__(
        self,
        unary: np.ndarray,
        bank: np.ndarray,
        amount: np.ndarray | None = None,
        allowed: np.ndarray | None = None,
        max_rounds: int = 1000,
    ) -> Partition:
        """Sums and marginals.

        Parameters
        ----------
        unary : ndarray, shape (N, K)
        bank : ndarray, shape (n_tables, K, K)
        amount : ndarray, shape (n_examples,), optional
            Factor of the marginals of an example's edges in ``edge``; 1 by default.
        allowed : ndarray, shape (n_examples,), optional
            Width of brackets that is good enough.
        max_rounds : int
            Most rounds of messages.
        """
        n, size = len(self.graphs), self.n_labels
        amount = np.ones(n) if amount is None else amount
        allowed = np.full(n, 1e-9) if allowed is None else allowed
        tables = bank[self._table] * self._factor[:, None, None] if len(self._table) else np.zeros((0, size, size))
        lower, upper = np.zeros(n), np.zeros(n)
        node, edge = np.zeros((len(self.n_states), size)), np.zeros((len(self.slot_table), size, size))
        if len(self._forest.examples):
            self._sum_forests(unary, tables, amount, upper, node, edge)
        for group in self._groups:
            self._sum_group(group, unary, tables, amount, upper, node, edge)
        lower[:] = upper
        if self.reweighted is not None:
            part = self._loopy
            found = self.reweighted.bracket(
                part.take(unary), tables, self._kind[part.edge_rows], allowed[part.examples], max_rounds
            )
            lower[part.examples], upper[part.examples], node[part.nodes] = found.lower, found.upper, found.node
            owner = np.repeat(part.examples, np.diff(part.edge_ptr))
            np.add.at(edge, self.slot[part.edge_rows], amount[owner][:, None, None] * found.edge)
        return Partition(lower, upper, node, edge)

    def _sum_forests(
        self, unary: np.ndarray, tables: np.ndarray, amount: np.ndarray, log_z: np.ndarray, node: np.ndarray, edge: np.ndarray
    ) -> None:
        part = self._forest
        forest = forest_of(self.n_states[part.nodes], part.edges, self._kind[part.edge_rows], tables, self._plan)
        weight = np.repeat(amount[part.examples], np.diff(part.edge_ptr))
        slot, scores = self.slot[part.edge_rows], part.take(unary)
        belief, up = np.empty(scores.shape), np.empty(scores.shape)
        parts = fixed_split(forest.starts)
        own = [edge if self._each or not i else np.zeros(edge.shape) for i in range(len(parts))]
        value = np.empty(len(forest.starts) - 1)
        thread_map(
            lambda i: log_sums(forest, scores, weight, slot, parts[i][0], parts[i][1], belief, up, own[i], value),
            range(len(parts)),
            self.n_jobs,
        )
        for other in own:
            if other is not edge:
                edge += other
        log_z[part.examples] = np.bincount(self._component_owner, weights=value, minlength=len(part.examples))
        node[part.nodes] = belief

    def _sum_group(
        self,
        group: _Group,
        unary: np.ndarray,
        tables: np.ndarray,
        amount: np.ndarray,
        log_z: np.ndarray,
        node: np.ndarray,
        edge: np.ndarray,
    ) -> None:
        batch = max(1, int(_BATCH // group.order.cells))
        for start in range(0, len(group.examples), batch):
            some = slice(start, start + batch)
            nodes, edges, examples = group.nodes[some], group.edges[some], group.examples[some]
            found = eliminate(group.order, group.local, group.n_states, unary[nodes], tables[self._kind[edges]])
            log_z[examples], node[nodes] = found.log_z, found.node
            np.add.at(edge, self.slot[edges], amount[examples][:, None, None, None] * found.edge)


class _Part:
    """Some examples of a union as a union of their own."""

    def __init__(self, whole: LogPartition, examples: np.ndarray):
        self.examples = examples
        sizes, n_edges = np.diff(whole.node_ptr)[examples], np.diff(whole.edge_ptr)[examples]
        self.node_ptr, self.edge_ptr = (np.concatenate([[0], np.cumsum(own)]).astype(np.int64) for own in (sizes, n_edges))
        shift = whole.node_ptr[examples] - self.node_ptr[:-1]
        self.all = len(examples) == len(whole.graphs)
        self.nodes = np.arange(int(self.node_ptr[-1])) + np.repeat(shift, sizes)
        self.edge_rows = np.arange(int(self.edge_ptr[-1])) + np.repeat(whole.edge_ptr[examples] - self.edge_ptr[:-1], n_edges)
        edges = whole.edges[self.edge_rows] - np.repeat(shift, n_edges)[:, None]
        self.edges = np.ascontiguousarray(edges, dtype=np.int32)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the nodes of this part."""
        return np.ascontiguousarray(rows if self.all else rows[self.nodes])
