r"""From a supermodular problem to a flow network, and from its flow back to messages.

A node with alive labels ``0 .. n - 1`` has binary variables :math:`x^i = [y \ge i]`, ``i = 1 .. n - 1``, joined by infinite
arcs that enforce :math:`x^{i+1} \le x^i`. A table is split into a constant, terms of one variable, and

.. math:: \sum_{ij} D_{ij} x_u^i x_v^j, \qquad D_{ij} = g(i,j) + g(i-1,j-1) - g(i-1,j) - g(i,j-1) \ge 0,

where :math:`D x x' = D x - D x (1 - x')` is an arc of capacity ``D`` from ``u`` to ``v``; half of it is used as flow at once.
Forbidden pairs of a supermodular table lie in two corners: ``D`` is 0 there and infinite arcs keep the labels inside the band.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

_EPS = 2.0**-51  # rounding of a sum of four terms, relative to their sizes: four units of 2^-53


@kernel
def fill_binary(net, flow, slot):  # type: ignore[no-untyped-def]
    """Network of a problem in which every node has two labels: the arcs are ``net``'s adjacency. ``slot`` (E,) is scratch."""
    arc, cap, excess = flow.arc, flow.cap, flow.excess
    for v in range(len(excess)):
        t = net.unary[v, 1] - net.unary[v, 0]
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            w = net.edges[e, 1 - side]
            table, weight = net.tables[net.edge_table[e]], net.edge_weight[e]
            half = 0.5 * _excess(table, weight, 0, 1, 0, 1)
            t += weight * ((table[1, 0] if side == 0 else table[0, 1]) - table[0, 0]) + half
            arc[4 * i + 2] = w
            cap[2 * i] = half
            if w > v:
                slot[e] = i
            else:
                arc[4 * i + 3] = slot[e]
                arc[4 * slot[e] + 3] = i
        excess[v] = t


@kernel
def read_binary(net, flow, messages, labels):  # type: ignore[no-untyped-def]
    """Labelling of the minimum cut and messages of the maximum flow, for `fill_binary`."""
    for v in range(len(labels)):
        labels[v] = flow.node[4 * v + 3] > 0
        for i in range(net.ptr[v], net.ptr[v + 1]):
            if net.adj_side[i] == 0:
                continue
            e = net.adj_edge[i]
            table, weight = net.tables[net.edge_table[e]], net.edge_weight[e]
            used = flow.cap[2 * i]
            left = _excess(table, weight, 0, 1, 0, 1) - used
            messages[0, e, 1] = -weight * (table[1, 0] - table[0, 0]) - left
            messages[1, e, 1] = -weight * (table[0, 1] - table[0, 0]) - used


@kernel
def _excess(table, weight, k, k2, m, m2):  # type: ignore[no-untyped-def]
    """``D`` of the labels k < k2 and m < m2: 0 beside a forbidden pair, and 0 where it is no more than rounding."""
    up, down = table[k, m2], table[k2, m]
    if up == -np.inf or down == -np.inf:
        return 0.0
    low, high = table[k, m], table[k2, m2]
    value = weight * (low - up + (high - down))
    noise = _EPS * abs(weight) * (abs(low) + abs(high) + abs(up) + abs(down))
    return value if value > noise else 0.0


@kernel
def alive_labels(net, alive, count, base):  # type: ignore[no-untyped-def]
    """Labels of each node that may be used, their number, and the first variable of each node; returns the number of variables."""
    total = 0
    for v in range(len(net.n_states)):
        n = 0
        for k in range(net.n_states[v]):
            if net.unary[v, k] > -np.inf:
                alive[v, n] = k
                n += 1
        count[v] = n
        base[v] = total
        total += n - 1
    base[len(net.n_states)] = total
    return total


@kernel
def list_arcs(net, alive, count, base, write, tail, head, cap, excess):  # type: ignore[no-untyped-def]
    """List all arcs and set the excesses (only count the arcs unless ``write``); returns the number of arcs."""
    n_nodes, n_labels = len(count), net.unary.shape[1]
    first, second = np.empty(n_labels), np.empty(n_labels)
    low, high = np.empty(n_labels, dtype=np.int64), np.empty(n_labels, dtype=np.int64)
    size = 0
    for v in range(n_nodes):
        for i in range(1, count[v]):
            x = base[v] + i - 1
            if write:
                excess[x] += net.unary[v, alive[v, i]] - net.unary[v, alive[v, i - 1]]
            if i > 1:
                if write:
                    tail[size], head[size], cap[size] = x, x - 1, np.inf
                size += 1
    for e in range(len(net.edge_table)):
        u, v = net.edges[e, 0], net.edges[e, 1]
        table, weight = net.tables[net.edge_table[e]], net.edge_weight[e]
        from_u, from_v = base[u] - 1, base[v] - 1
        for i in range(1, count[u]):
            for j in range(1, count[v]):
                value = _excess(table, weight, alive[u, i - 1], alive[u, i], alive[v, j - 1], alive[v, j])
                if value > 0.0:
                    if write:
                        tail[size], head[size], cap[size] = from_u + i, from_v + j, value
                        excess[from_u + i] += 0.5 * value
                        excess[from_v + j] += 0.5 * value
                    size += 1
        if write:
            _linear(table, weight, alive[u], count[u], alive[v], count[v], first, second)
            for i in range(1, count[u]):
                excess[from_u + i] += first[i]
            for j in range(1, count[v]):
                excess[from_v + j] += second[j]
        _band(table, alive[u], count[u], alive[v], count[v], low, high)
        for i in range(1, count[u]):
            if low[i] > low[i - 1]:
                if write:
                    tail[size], head[size], cap[size] = from_u + i, from_v + low[i], np.inf
                size += 1
            if high[i - 1] < high[i]:
                if write:
                    tail[size], head[size], cap[size] = from_v + high[i - 1] + 1, from_u + i, np.inf
                size += 1
    for c in range(len(net.clique_ptr) - 1):
        for label in range(n_labels):
            if not _pays(net, alive, count, c, label):
                continue
            z = base[n_nodes] + 2 * c + label
            if write:
                excess[z] = net.clique_weights[c, label] if label == 1 else -net.clique_weights[c, label]
            for i in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
                v = net.clique_nodes[i]
                if count[v] == 2:
                    if write:
                        tail[size], head[size], cap[size] = (z, base[v], np.inf) if label == 1 else (base[v], z, np.inf)
                    size += 1
    return size


@kernel
def _pays(net, alive, count, c, label):  # type: ignore[no-untyped-def]
    """Whether clique ``c`` has a reward for ``label`` that no fixed member rules out."""
    if net.clique_weights[c, label] <= 0.0:
        return False
    for i in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
        v = net.clique_nodes[i]
        if count[v] == 1 and alive[v, 0] != label:
            return False
    return True


@kernel
def _band(table, alive_u, n_u, alive_v, n_v, low, high):  # type: ignore[no-untyped-def]
    """First and last allowed partner of each label: both never decrease in a supermodular table."""
    for i in range(n_u):
        row = table[alive_u[i]]
        low[i], high[i] = 0, n_v - 1
        while low[i] < high[i] and row[alive_v[low[i]]] == -np.inf:
            low[i] += 1
        while high[i] > low[i] and row[alive_v[high[i]]] == -np.inf:
            high[i] -= 1


@kernel
def _linear(table, weight, alive_u, n_u, alive_v, n_v, first, second):  # type: ignore[no-untyped-def]
    """The terms of one variable: ``g(k, l) = g(0, 0) + sum first[1..k] + sum second[1..l] + sum D[1..k, 1..l]``.

    Read off on a path of allowed pairs, to the right where possible, so that ``D`` is 0 above each such step; else down; where
    only the diagonal is allowed its step is all ``first``'s.
    """
    i = j = 0
    while i < n_u - 1 or j < n_v - 1:
        here = table[alive_u[i], alive_v[j]]
        if j < n_v - 1 and table[alive_u[i], alive_v[j + 1]] > -np.inf:
            j += 1
            second[j] = weight * (table[alive_u[i], alive_v[j]] - here)
            continue
        i += 1
        if table[alive_u[i], alive_v[j]] == -np.inf:
            j += 1
            second[j] = 0.0
        first[i] = weight * (table[alive_u[i], alive_v[j]] - here)
        for m in range(1, j + 1):
            first[i] -= _excess(table, weight, alive_u[i - 1], alive_u[i], alive_v[m - 1], alive_v[m])


@kernel
def link_arcs(tail, head, cap, ptr, flow, back):  # type: ignore[no-untyped-def]
    """Arrange listed arcs and their sisters node by node; ``back[i]`` is the sister of listed arc ``i``, whose capacity is the flow.

    ``ptr`` (N + 1,) must be zero.
    """
    arc, residual = flow.arc, flow.cap
    for i in range(len(tail)):
        ptr[tail[i] + 1] += 1
        ptr[head[i] + 1] += 1
    for v in range(len(ptr) - 1):
        ptr[v + 1] += ptr[v]
    fill = ptr[:-1].copy()
    for i in range(len(tail)):
        a, s = fill[tail[i]], fill[head[i]]
        fill[tail[i]] += 1
        fill[head[i]] += 1
        arc[4 * a + 2], arc[4 * a + 3] = head[i], s
        arc[4 * s + 2], arc[4 * s + 3] = tail[i], a
        if cap[i] == np.inf:
            residual[2 * a], residual[2 * s] = np.inf, 0.0
        else:
            residual[2 * a], residual[2 * s] = 0.5 * cap[i], 0.5 * cap[i]
        back[i] = s


@kernel
def read_layers(net, alive, count, base, flow, back, messages, clique_messages, labels):  # type: ignore[no-untyped-def]
    """Labelling of the minimum cut and messages of the maximum flow, for `list_arcs`, whose order of arcs it follows.

    Flow ``f`` on an arc from :math:`x_u^i` to :math:`x_v^j` adds ``f`` to the labels ``>= i`` of ``u`` and takes it from those
    ``>= j`` of ``v``.
    """
    n_nodes, n_labels = len(count), net.unary.shape[1]
    first, second = np.empty(n_labels), np.empty(n_labels)
    low, high = np.empty(n_labels, dtype=np.int64), np.empty(n_labels, dtype=np.int64)
    size = 0
    for v in range(n_nodes):
        k = 0
        while k + 1 < count[v] and flow.node[4 * (base[v] + k) + 3] > 0:
            k += 1
        labels[v] = alive[v, k]
        size += max(count[v] - 2, 0)
    for e in range(len(net.edge_table)):
        u, v = net.edges[e, 0], net.edges[e, 1]
        table, weight = net.tables[net.edge_table[e]], net.edge_weight[e]
        _linear(table, weight, alive[u], count[u], alive[v], count[v], first, second)
        for i in range(1, count[u]):
            for j in range(1, count[v]):
                value = _excess(table, weight, alive[u, i - 1], alive[u, i], alive[v, j - 1], alive[v, j])
                if value > 0.0:
                    used = flow.cap[2 * back[size]]
                    first[i] += value - used
                    second[j] += used
                    size += 1
        _band(table, alive[u], count[u], alive[v], count[v], low, high)
        for i in range(1, count[u]):
            if low[i] > low[i - 1]:
                used = flow.cap[2 * back[size]]
                first[i] -= used
                second[low[i]] += used
                size += 1
            if high[i - 1] < high[i]:
                used = flow.cap[2 * back[size]]
                first[i] += used
                second[high[i - 1] + 1] -= used
                size += 1
        total = 0.0
        for i in range(1, count[u]):
            total -= first[i]
            messages[0, e, alive[u, i]] = total
        total = 0.0
        for j in range(1, count[v]):
            total -= second[j]
            messages[1, e, alive[v, j]] = total
    for c in range(len(net.clique_ptr) - 1):
        for label in range(n_labels):
            if not _pays(net, alive, count, c, label):
                continue
            for i in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
                if count[net.clique_nodes[i]] == 2:
                    used = flow.cap[2 * back[size]]
                    clique_messages[i, 1] += -used if label == 1 else used
                    size += 1
