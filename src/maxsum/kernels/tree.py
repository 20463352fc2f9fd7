"""Dynamic programming on forests: leaves to root, then back, component by component."""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .message import push


@kernel
def forest_order(n_nodes, edges, ptr, adj_edge, adj_side):  # type: ignore[no-untyped-def]
    """Nodes component by component, parents first; the edge to the parent and the side of the child on it.

    Returns ``(order, parent_edge, parent_side, starts)``; component ``c`` is ``order[starts[c]:starts[c + 1]]``. Roots,
    the lowest nodes of their components, have ``parent_edge`` -1.
    """
    order = np.empty(n_nodes, dtype=np.int32)
    parent_edge = np.full(n_nodes, -1, dtype=np.int32)
    parent_side = np.zeros(n_nodes, dtype=np.int8)
    seen = np.zeros(n_nodes, dtype=np.uint8)
    starts = np.empty(n_nodes + 1, dtype=np.int64)
    n_components, filled = 0, 0
    for root in range(n_nodes):
        if seen[root]:
            continue
        starts[n_components] = filled
        n_components += 1
        seen[root] = 1
        order[filled] = root
        head, filled = filled, filled + 1
        while head < filled:
            v = order[head]
            head += 1
            for i in range(ptr[v], ptr[v + 1]):
                e, side = adj_edge[i], adj_side[i]
                w = edges[e, 1 - side]
                if not seen[w]:
                    seen[w] = 1
                    parent_edge[w] = e
                    parent_side[w] = 1 - side
                    order[filled] = w
                    filled += 1
    starts[n_components] = filled
    return order, parent_edge, parent_side, starts[: n_components + 1].copy()


@kernel
def solve_forest(net, order, parent_edge, parent_side, starts, first, last, hard, messages, labels):  # type: ignore[no-untyped-def]
    r"""Best labelling of the components ``first .. last - 1``, with messages that prove it.

    Upwards, with :math:`\theta_v = q_v + \sum_{children} M`, the message of ``v`` to its parent is
    :math:`M(l) = \max_k \theta_v(k) + g(k, l)`, shifted to a maximum of 0. The certificate has :math:`\theta_v` on the
    child's side of the edge and :math:`-M` on the parent's: every node but the root then has score 0, and every edge
    reaches its maximum wherever :math:`M` does. ``hard`` says whether some label is excluded.
    """
    n_labels = net.unary.shape[1]
    root_theta, out = np.empty(n_labels), np.empty(n_labels)
    for c in range(first, last):
        for i in range(starts[c], starts[c + 1]):
            v = order[i]
            if parent_edge[v] >= 0:
                theta = messages[parent_side[v], parent_edge[v]]
            else:
                theta = root_theta
            for k in range(net.n_states[v]):
                theta[k] = net.unary[v, k]
        for i in range(starts[c + 1] - 1, starts[c], -1):
            v = order[i]
            e, side = parent_edge[v], parent_side[v]
            w = net.edges[e, 1 - side]
            theta, back = messages[side, e], messages[1 - side, e]
            n_to = net.n_states[w]
            push(net.tables, net.turned, net.edge_table[e], net.edge_weight[e], side, theta, net.n_states[v], n_to, out)
            top = -np.inf
            for k in range(n_to):
                top = max(top, out[k])
            if parent_edge[w] >= 0:
                above = messages[parent_side[w], parent_edge[w]]
            else:
                above = root_theta
            for k in range(n_to):
                above[k] += out[k] - top
            for k in range(n_to):
                back[k] = top - out[k] if out[k] > -np.inf else 0.0
        v = order[starts[c]]
        labels[v] = _argmax(root_theta, net.n_states[v])
        for i in range(starts[c] + 1, starts[c + 1]):
            v = order[i]
            e, side = parent_edge[v], parent_side[v]
            theta = messages[side, e]
            t, weight = net.edge_table[e], net.edge_weight[e]
            label = labels[net.edges[e, 1 - side]]
            states = net.n_states[v]
            if side == 1:
                row = net.tables[t, label]
                for k in range(states):
                    out[k] = theta[k] + weight * row[k]
            else:
                for k in range(states):
                    out[k] = theta[k] + weight * net.tables[t, k, label]
            labels[v] = _argmax(out, states)
            if hard:
                for k in range(states):
                    theta[k] = theta[k] if theta[k] > -np.inf else 0.0


@kernel
def solve_forests(net, order, parent_edge, parent_side, starts, ranges, hard, messages, labels):  # type: ignore[no-untyped-def]
    """`solve_forest` for several ranges of components, ``ranges[i, 0] .. ranges[i, 1] - 1``."""
    for i in range(len(ranges)):
        solve_forest(net, order, parent_edge, parent_side, starts, ranges[i, 0], ranges[i, 1], hard, messages, labels)


@kernel
def _argmax(values, n):  # type: ignore[no-untyped-def]
    best, label = -np.inf, 0
    for k in range(n):
        if values[k] > best:
            best, label = values[k], k
    return label
