"""TRW-S on one box of the exact search: its labels and tables packed, so that a pass costs what is left of the problem.

Node ``v`` has the labels ``label[v, :size[v]]``; the rows of the table of edge ``e``, weight included, are those of ``table``
from ``first[0, e]`` on, and transposed from ``first[1, e]`` on. There are no cliques here.
"""

from __future__ import annotations

import numpy as np

from .icm import icm_sweeps
from .jit import kernel
from .local_search import total_score
from .message import push_first


@kernel
def list_labels(n_states, domain, label, size):  # type: ignore[no-untyped-def]
    """Write the labels of the box into ``label`` and their numbers into ``size``."""
    for v in range(len(n_states)):
        n = 0
        for k in range(n_states[v]):
            if domain[v, k]:
                label[v, n] = k
                n += 1
        size[v] = n


@kernel
def _pack(net, domain, edge_messages, box):  # type: ignore[no-untyped-def]
    list_labels(net.n_states, domain, box.label, box.size)
    label, size, table, message, tables = box.label, box.size, box.table, box.message, net.tables
    at = 0
    for e in range(len(net.edges)):
        u, v, t, weight = net.edges[e, 0], net.edges[e, 1], net.edge_table[e], net.edge_weight[e]
        n_first, n_second = size[u], size[v]
        turned = at + n_first
        box.first[0, e], box.first[1, e] = at, turned
        for a in range(n_first):
            k = label[u, a]
            message[0, e, a] = edge_messages[0, e, k]
            for b in range(n_second):
                table[at + a, b] = weight * tables[t, k, label[v, b]]
        for b in range(n_second):
            for a in range(n_first):
                table[turned + b, a] = table[at + a, b]
        at = turned + n_second
        for b in range(n_second):
            message[1, e, b] = edge_messages[1, e, label[v, b]]


@kernel
def _unpack(net, edge_messages, box):  # type: ignore[no-untyped-def]
    """Write the messages back; those of labels outside the box become 0."""
    edge_messages[:] = 0.0
    for e in range(len(net.edges)):
        for side in range(2):
            v = net.edges[e, side]
            for a in range(box.size[v]):
                edge_messages[side, e, box.label[v, a]] = box.message[side, e, a]


@kernel
def _packed_sweep(unary, edges, ptr, adj_edge, adj_side, box, forward):  # type: ignore[no-untyped-def]
    """One pass as in `kernels.trws.sweep`; returns the bound."""
    label, size, first, table, message = box.label, box.size, box.first, box.table, box.message
    theta, own, out = box.theta, box.own, box.out
    n_nodes, bound = len(size), 0.0
    for step in range(n_nodes):
        v = step if forward else n_nodes - 1 - step
        states = size[v]
        for a in range(states):
            theta[a] = unary[v, label[v, a]]
        n_later = 0
        for i in range(ptr[v], ptr[v + 1]):
            e, side = adj_edge[i], adj_side[i]
            if (edges[e, 1 - side] > v) == forward:
                n_later += 1
            for a in range(states):
                theta[a] -= message[side, e, a]
        top = -np.inf
        for a in range(states):
            top = max(top, theta[a])
        if n_later == 0:
            bound += top
            continue
        share = 1.0 / max(n_later, ptr[v + 1] - ptr[v] - n_later)
        bound += (1.0 - n_later * share) * top
        for i in range(ptr[v], ptr[v + 1]):
            e, side = adj_edge[i], adj_side[i]
            w = edges[e, 1 - side]
            if (w > v) != forward:
                continue
            n_to, at = size[w], first[side, e]
            for a in range(states):
                own[a] = message[side, e, a] + share * theta[a]
                message[side, e, a] = own[a]
            for b in range(n_to):
                out[b] = own[0] + table[at, b]
            a = 1
            while a + 4 <= states:
                x0, x1, x2, x3, row = own[a], own[a + 1], own[a + 2], own[a + 3], at + a
                for b in range(n_to):
                    low = max(x0 + table[row, b], x1 + table[row + 1, b])
                    high = max(x2 + table[row + 2, b], x3 + table[row + 3, b])
                    out[b] = max(out[b], max(low, high))
                a += 4
            while a < states:
                x0, row = own[a], at + a
                for b in range(n_to):
                    out[b] = max(out[b], x0 + table[row, b])
                a += 1
            peak = -np.inf
            for b in range(n_to):
                peak = max(peak, out[b])
            bound += peak
            for b in range(n_to):
                message[1 - side, e, b] = peak - out[b] if out[b] > -np.inf else 0.0
    return bound


@kernel
def _packed_decode(net, box, labels):  # type: ignore[no-untyped-def]
    """Labelling by conditioning in the order of the nodes, as `kernels.trws.decode`."""
    label, size, theta, score, chosen = box.label, box.size, box.theta, box.own, box.chosen
    for v in range(len(size)):
        states = size[v]
        for a in range(states):
            theta[a] = net.unary[v, label[v, a]]
            score[a] = 0.0
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            w = net.edges[e, 1 - side]
            if w > v:
                for a in range(states):
                    theta[a] -= box.message[side, e, a]
            else:
                row = box.first[1 - side, e] + chosen[w]
                for a in range(states):
                    score[a] += box.table[row, a]
        best, choice = -np.inf, 0
        for a in range(states):
            if theta[a] + score[a] > best:
                best, choice = theta[a] + score[a], a
        chosen[v] = choice
        labels[v] = label[v, choice]


@kernel
def tighten(net, domain, edge_messages, height, target, max_iter, least, box, labels):  # type: ignore[no-untyped-def]
    """TRW-S passes on the box, at most ``max_iter``, as long as they promise to close it: two passes have to take away the
    share ``least`` of what is above ``target``. ``edge_messages`` are improved in place.

    ``labels`` gets a labelling of the box by conditioning, improved by `icm_sweeps`; its score is returned, and the number of
    passes.
    """
    _pack(net, domain, edge_messages, box)
    score, n_passes = -np.inf, 0
    for iteration in range(max_iter):
        bound = _packed_sweep(net.unary, net.edges, net.ptr, net.adj_edge, net.adj_side, box, iteration % 2 == 1)
        n_passes += 1
        if iteration == 0:
            _packed_decode(net, box, labels)
            icm_sweeps(net, labels, 10)
            score = total_score(net, labels)
        if iteration % 2 == 0:
            continue
        if bound <= target or height - bound < least * (bound - target):
            break
        height = bound
    _unpack(net, edge_messages, box)
    return score, n_passes


@kernel
def packed_edge_terms(net, edge_messages, box):  # type: ignore[no-untyped-def]
    """Sum over the edges of the best of table and messages inside the box, whose labels are listed already."""
    label, size, own, out, tables = box.label, box.size, box.own, box.out, net.tables
    total = 0.0
    for e in range(len(net.edges)):
        u, v, t, weight = net.edges[e, 0], net.edges[e, 1], net.edge_table[e], net.edge_weight[e]
        top = -np.inf
        if 3 * size[u] * size[v] < net.n_states[u] * net.n_states[v]:
            for a in range(size[u]):
                k = label[u, a]
                for b in range(size[v]):
                    m = label[v, b]
                    top = max(top, (edge_messages[0, e, k] + weight * tables[t, k, m]) + edge_messages[1, e, m])
        else:
            for k in range(net.n_states[u]):
                own[k] = edge_messages[0, e, k] if net.unary[u, k] > -np.inf else -np.inf
            push_first(own, tables, t, weight, net.n_states[u], net.n_states[v], out)
            for b in range(size[v]):
                top = max(top, out[label[v, b]] + edge_messages[1, e, label[v, b]])
        total += top
    return total
