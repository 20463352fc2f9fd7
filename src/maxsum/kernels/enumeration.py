"""Enumeration of one box of the exact search: labels are given to its nodes one after another, with the losses under the
messages of the box as bounds. Cheap where the messages almost close the box.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

# Share that losses to nodes still open have in the choice of the next node; the checker has the same rule.
_OPEN_SHARE = 0.3


@kernel
def _fill(net, edge_messages, slack, box, room, wanted):  # type: ignore[no-untyped-def]
    """Losses of all pairs into ``box.table``, of all labels into the first row of ``room.loss``, and the order of the nodes."""
    label, size, table, tables = box.label, box.size, box.table, net.tables
    n_nodes, at = len(size), 0
    room.offset[0] = 0
    for v in range(n_nodes):
        room.offset[v + 1] = room.offset[v] + size[v]
        loss = 0.0
        for a in range(size[v]):
            room.loss[0, room.offset[v] + a] = slack[v, label[v, a]]
            loss += min(slack[v, label[v, a]], wanted)
        room.inside[v] = loss / size[v] + 1e-9 * wanted
        room.outside[v] = 0.0
        room.rank[v] = n_nodes
    for e in range(len(net.edges)):
        u, v, t, weight = net.edges[e, 0], net.edges[e, 1], net.edge_table[e], net.edge_weight[e]
        turned = at + size[u]
        box.first[0, e], box.first[1, e] = at, turned
        top = -np.inf
        for a in range(size[u]):
            k = label[u, a]
            for b in range(size[v]):
                m = label[v, b]
                table[at + a, b] = (edge_messages[0, e, k] + weight * tables[t, k, m]) + edge_messages[1, e, m]
                top = max(top, table[at + a, b])
        loss = 0.0
        for a in range(size[u]):
            for b in range(size[v]):
                table[at + a, b] = top - table[at + a, b]
                table[turned + b, a] = table[at + a, b]
                loss += min(table[at + a, b], wanted)
        room.mean[e] = loss / (size[u] * size[v])
        room.outside[u] += room.mean[e]
        room.outside[v] += room.mean[e]
        at = turned + size[v]
    for i in range(n_nodes):
        best, choice = np.inf, -1
        for v in range(n_nodes):
            if room.rank[v] == n_nodes:
                value = size[v] / (room.inside[v] + _OPEN_SHARE * room.outside[v])
                if choice < 0 or value < best:
                    best, choice = value, v
        room.order[i], room.rank[choice] = choice, i
        for j in range(net.ptr[choice], net.ptr[choice + 1]):
            e = net.adj_edge[j]
            w = net.edges[e, 1 - net.adj_side[j]]
            room.inside[w] += room.mean[e]
            room.outside[w] -= room.mean[e]


@kernel
def _give(net, box, room, depth, a):  # type: ignore[no-untyped-def]
    """Give the node at ``depth`` its ``a``-th label: losses of the open nodes into the next row. Returns the least loss in all."""
    size, offset, order, loss, least = box.size, room.offset, room.order, room.loss, room.least
    v = order[depth]
    here = room.total[depth] - least[depth, v] + loss[depth, offset[v] + a]
    for i in range(depth + 1, len(size)):
        w = order[i]
        least[depth + 1, w] = least[depth, w]
        for b in range(offset[w], offset[w + 1]):
            loss[depth + 1, b] = loss[depth, b]
    for j in range(net.ptr[v], net.ptr[v + 1]):
        e, side = net.adj_edge[j], net.adj_side[j]
        w = net.edges[e, 1 - side]
        if room.rank[w] <= depth:
            continue
        row, low = box.first[side, e] + a, np.inf
        for b in range(size[w]):
            loss[depth + 1, offset[w] + b] += box.table[row, b]
            low = min(low, loss[depth + 1, offset[w] + b])
        here += low - least[depth + 1, w]
        least[depth + 1, w] = low
    room.total[depth + 1] = here
    return here


@kernel
def enumerate_box(net, edge_messages, slack, box, room, wanted, closed_gap, limit, labels):  # type: ignore[no-untyped-def]
    """Close all labellings of the box whose loss is at least ``wanted``, and look at the others.

    The labels of the box are listed in ``box``, their losses in ``slack``. Returns the number of partial labellings that were
    opened (more than ``limit``: it gave up), and the least loss of a labelling below ``wanted``, which is then in ``labels``
    (``inf``: there is none). A labelling that is found lowers ``wanted`` to its loss less ``closed_gap``.
    """
    _fill(net, edge_messages, slack, box, room, wanted)
    n_nodes, opened, best = len(box.size), 0, np.inf
    size, offset, order, loss, least, at = box.size, room.offset, room.order, room.loss, room.least, room.at
    total = 0.0
    for v in range(n_nodes):
        low = np.inf
        for a in range(offset[v], offset[v + 1]):
            low = min(low, loss[0, a])
        least[0, v] = low
        total += low
    if total >= wanted:
        return 0, best
    at[0], room.total[0] = 0, total
    depth = 0
    while depth >= 0:
        v = order[depth]
        a, rest = at[depth], room.total[depth] - least[depth, v]
        while a < size[v] and rest + loss[depth, offset[v] + a] >= wanted:
            a += 1
        if a == size[v]:
            depth -= 1
            continue
        at[depth] = a + 1
        room.found[v] = box.label[v, a]
        if depth == n_nodes - 1:
            best = rest + loss[depth, offset[v] + a]
            labels[:] = room.found
            wanted = min(wanted, best - closed_gap)
            continue
        opened += 1
        if opened > limit:
            return opened, best
        if _give(net, box, room, depth, a) < wanted:
            depth += 1
            at[depth] = 0
    return opened, best
