"""The arrays of a problem as kernels see them, and the adjacency that they need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import kernel


class Net(NamedTuple):
    """A max-sum problem for kernels. All arrays are C-contiguous.

    Scores are centred: the best label of each node has unary 0. ``unary`` is ``-inf`` for labels that a node does not
    have, that are forbidden, or that arc consistency excludes; every other label has a partner at each of its edges.
    Messages are finite always, also at such labels.
    """

    n_states: np.ndarray  # int32 (N,)
    unary: np.ndarray  # float64 (N, K)
    edges: np.ndarray  # int32 (E, 2)
    edge_table: np.ndarray  # int32 (E,)
    edge_weight: np.ndarray  # float64 (E,)
    tables: np.ndarray  # float64 (T, K, K)
    ptr: np.ndarray  # int64 (N + 1,): the edges at node v are adj_edge[ptr[v]:ptr[v + 1]]
    adj_edge: np.ndarray  # int32 (2 E,)
    adj_side: np.ndarray  # int8 (2 E,): 0 if v is the first node of that edge
    clique_ptr: np.ndarray  # int64 (C + 1,)
    clique_nodes: np.ndarray  # int32 (M,)
    clique_weights: np.ndarray  # float64 (C, K)
    member_ptr: np.ndarray  # int64 (N + 1,): the memberships of node v are member[member_ptr[v]:member_ptr[v + 1]]
    member: np.ndarray  # int32 (M,): index into clique_nodes
    member_clique: np.ndarray  # int32 (M,): clique of entry i of clique_nodes
    turned: np.ndarray  # float64 (T, K, K): the tables transposed, or (0, 0, 0) where that would take too much memory


@kernel
def adjacency(n_nodes, edges):  # type: ignore[no-untyped-def]
    """Edges at each node in the order of the edges (counting sort)."""
    n_edges = edges.shape[0]
    ptr = np.zeros(n_nodes + 1, dtype=np.int64)
    for e in range(n_edges):
        ptr[edges[e, 0] + 1] += 1
        ptr[edges[e, 1] + 1] += 1
    for v in range(n_nodes):
        ptr[v + 1] += ptr[v]
    fill = ptr[:-1].copy()
    adj_edge = np.empty(2 * n_edges, dtype=np.int32)
    adj_side = np.empty(2 * n_edges, dtype=np.int8)
    for e in range(n_edges):
        for side in range(2):
            v = edges[e, side]
            adj_edge[fill[v]] = e
            adj_side[fill[v]] = side
            fill[v] += 1
    return ptr, adj_edge, adj_side


@kernel
def memberships(n_nodes, nodes):  # type: ignore[no-untyped-def]
    """Positions in ``nodes`` (clique members) of each node."""
    ptr = np.zeros(n_nodes + 1, dtype=np.int64)
    for i in range(len(nodes)):
        ptr[nodes[i] + 1] += 1
    for v in range(n_nodes):
        ptr[v + 1] += ptr[v]
    fill = ptr[:-1].copy()
    member = np.empty(len(nodes), dtype=np.int32)
    for i in range(len(nodes)):
        member[fill[nodes[i]]] = i
        fill[nodes[i]] += 1
    return ptr, member
