"""Arc consistency: which labels can still be part of a labelling of finite score."""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def arc_consistency(net, domain, queue, queued, start_all):  # type: ignore[no-untyped-def]
    """Remove from ``domain`` (uint8, N x K) every label without a partner, in place; False if a node is left empty.

    ``queue`` (int32, N) and ``queued`` (uint8, N) are scratch. If ``start_all`` is false, ``queued`` marks the nodes whose
    domain has shrunk since the last call.
    """
    n_nodes = len(net.n_states)
    head, size = 0, 0
    for v in range(n_nodes):
        if start_all or queued[v]:
            queue[(head + size) % n_nodes] = v
            queued[v] = 1
            size += 1
    while size > 0:
        v = queue[head]
        head = (head + 1) % n_nodes
        size -= 1
        queued[v] = 0
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            w = net.edges[e, 1 - side]
            table = net.tables[net.edge_table[e]]
            shrunk, left = False, 0
            for m in range(net.n_states[w]):
                if not domain[w, m]:
                    continue
                found = False
                for k in range(net.n_states[v]):
                    if domain[v, k] and (table[k, m] if side == 0 else table[m, k]) > -np.inf:
                        found = True
                        break
                if found:
                    left += 1
                else:
                    domain[w, m] = 0
                    shrunk = True
            if left == 0:
                return False
            if shrunk and not queued[w]:
                queue[(head + size) % n_nodes] = w
                queued[w] = 1
                size += 1
    return True
