"""The arrays of a problem as kernels see them, and the adjacency that they need."""

from __future__ import annotations

import numpy as np

from .jit import kernel


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
