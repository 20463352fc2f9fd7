"""Iterated conditional modes: each node in turn takes its best label while its neighbours keep theirs."""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def icm_sweeps(net, labels, max_iter):  # type: ignore[no-untyped-def]
    r"""Improve ``labels`` (int32, in place) by sweeps in node order until nothing changes; returns ``(sweeps, moves)``.

    A node moves to the label with the fewest forbidden terms around it and, among those, the highest

    .. math:: q_v(k) + \sum_{uv} g_{uv}(y_u, k) + \sum_{c \ni v} a_c(k, y_{c - v}),

    only if that is strictly better than what it has, and to the lowest such label. ``moves`` are those of the last sweep.
    """
    n_nodes, n_labels = net.unary.shape
    value, bad = np.empty(n_labels), np.empty(n_labels, dtype=np.int64)
    n_cliques = len(net.clique_ptr) - 1
    count = np.zeros((n_cliques, n_labels), dtype=np.int32)
    for i in range(len(net.clique_nodes)):
        count[net.member_clique[i], labels[net.clique_nodes[i]]] += 1
    sweeps, moves = 0, 0
    while sweeps < max_iter:
        sweeps += 1
        moves = 0
        for v in range(n_nodes):
            states, own = net.n_states[v], labels[v]
            for k in range(states):
                value[k], bad[k] = 0.0, 0
                _add(value, bad, k, net.unary[v, k])
            for i in range(net.ptr[v], net.ptr[v + 1]):
                e, side = net.adj_edge[i], net.adj_side[i]
                other = labels[net.edges[e, 1 - side]]
                table, weight = net.tables[net.edge_table[e]], net.edge_weight[e]
                for k in range(states):
                    _add(value, bad, k, weight * (table[k, other] if side == 0 else table[other, k]))
            for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
                c = net.member_clique[net.member[i]]
                others = net.clique_ptr[c + 1] - net.clique_ptr[c] - 1
                for k in range(states):
                    if count[c, k] - (1 if k == own else 0) == others:
                        value[k] += net.clique_weights[c, k]
            best = own
            for k in range(states):
                fewer = bad[k] < bad[best]
                higher = bad[k] == bad[best] and value[k] > value[best]
                if fewer or higher:
                    best = k
            if best == own:
                continue
            for k in range(best):
                if bad[k] == bad[best] and value[k] == value[best]:
                    best = k
                    break
            moves += 1
            labels[v] = best
            for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
                c = net.member_clique[net.member[i]]
                count[c, own] -= 1
                count[c, best] += 1
        if moves == 0:
            break
    return sweeps, moves


@kernel
def _add(value, bad, k, term):  # type: ignore[no-untyped-def]
    """Add a term; a forbidden one is counted instead."""
    if term == -np.inf:
        bad[k] += 1
    else:
        value[k] += term
