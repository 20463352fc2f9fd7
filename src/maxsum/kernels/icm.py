"""Iterated conditional modes: each node in turn takes its best label while its neighbours keep theirs."""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def icm_sweeps(net, labels, max_iter):  # type: ignore[no-untyped-def]
    r"""Improve ``labels`` (int32, in place) by sweeps in node order until nothing changes; returns ``(sweeps, moves)``.

    A node moves to the label with the fewest forbidden terms around it and, among those, the highest

    .. math:: q_v(k) + \sum_{uv} g_{uv}(y_u, k) + \sum_{c \ni v} a_c(k, y_{c - v}),

    only if that is strictly better than what it has, and to the lowest such label. Nodes around which nothing has changed
    are passed over. ``moves`` are those of the last sweep.
    """
    n_nodes, n_labels = net.unary.shape
    value, bad = np.empty(n_labels), np.empty(n_labels)
    n_cliques = len(net.clique_ptr) - 1
    count = np.zeros((n_cliques, n_labels), dtype=np.int32)
    for i in range(len(net.clique_nodes)):
        count[net.member_clique[i], labels[net.clique_nodes[i]]] += 1
    dirty = np.ones(n_nodes, dtype=np.uint8)
    sweeps, moves = 0, 0
    while sweeps < max_iter:
        sweeps += 1
        moves = 0
        for v in range(n_nodes):
            if not dirty[v]:
                continue
            dirty[v] = 0
            states, own = net.n_states[v], labels[v]
            for k in range(states):
                forbidden = net.unary[v, k] == -np.inf
                value[k] = 0.0 if forbidden else net.unary[v, k]
                bad[k] = 1.0 if forbidden else 0.0
            for i in range(net.ptr[v], net.ptr[v + 1]):
                e, side = net.adj_edge[i], net.adj_side[i]
                t, weight, other = net.edge_table[e], net.edge_weight[e], labels[net.edges[e, 1 - side]]
                if side == 1:
                    for k in range(states):
                        term = weight * net.tables[t, other, k]
                        value[k] += 0.0 if term == -np.inf else term
                        bad[k] += 1.0 if term == -np.inf else 0.0
                else:
                    for k in range(states):
                        term = weight * net.tables[t, k, other]
                        value[k] += 0.0 if term == -np.inf else term
                        bad[k] += 1.0 if term == -np.inf else 0.0
            for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
                c = net.member_clique[net.member[i]]
                others = net.clique_ptr[c + 1] - net.clique_ptr[c] - 1
                for k in range(states):
                    if count[c, k] - (1 if k == own else 0) == others:
                        value[k] += net.clique_weights[c, k]
            best = own
            for k in range(states):
                if bad[k] < bad[best] or (bad[k] == bad[best] and value[k] > value[best]):
                    best = k
            if best == own:
                continue
            for k in range(best):
                if bad[k] == bad[best] and value[k] == value[best]:
                    best = k
                    break
            moves += 1
            labels[v] = best
            for i in range(net.ptr[v], net.ptr[v + 1]):
                dirty[net.edges[net.adj_edge[i], 1 - net.adj_side[i]]] = 1
            for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
                c = net.member_clique[net.member[i]]
                count[c, own] -= 1
                count[c, best] += 1
                for j in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
                    dirty[net.clique_nodes[j]] = 1
            dirty[v] = 0
        if moves == 0:
            break
    return sweeps, moves
