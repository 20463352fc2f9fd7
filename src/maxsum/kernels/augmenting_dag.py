r"""Augmenting DAG (Koval and Schlesinger 1976; Werner 2007): descent of the height through failed arc consistency.

With the messages :math:`\varphi`, a label whose score lies more than :math:`\epsilon` below the best of its node, and a pair
of labels that lies more than :math:`\epsilon` below the best of its edge, are *slack*. Arc consistency deletes slack labels
first, then every label that has, at some edge, no pair left that is neither slack nor deleted at its other end; the edge is
the *cause* of the deletion. Where a node loses all its labels, the deletions in reverse order give a direction: every
label of that node asks for 1 unit. A label that is asked for :math:`R` units takes them from its cause
(:math:`\Delta\varphi_v(k) = R`); each pair of that row that is not slack asks the label at its other end, deleted earlier, for
as much (:math:`\Delta\varphi_w(l) = -\max R` over the labels that ask through this edge). In the end slack pairs and slack labels pay.
All of :math:`R` are whole numbers, so the direction is exact; the step is the largest at which no slack falls below 0,
and the height falls by exactly the step.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

BUDGET, CONSISTENT, ROUNDED = range(3)


@kernel
def _edge_top(tables, t, weight, messages, e, theta, u, v, n_first, n_second):  # type: ignore[no-untyped-def]
    """Best reparametrised pair of an edge among the labels that are not excluded."""
    top = -np.inf
    for k in range(n_first):
        if theta[u, k] > -np.inf:
            for m in range(n_second):
                if theta[v, m] > -np.inf:
                    top = max(top, weight * tables[t, k, m] + messages[0, e, k] + messages[1, e, m])
    return top


@kernel
def _node_top(unary, ptr, adj_edge, adj_side, messages, v, states, theta):  # type: ignore[no-untyped-def]
    """Reparametrised scores of node ``v`` into ``theta[v]``; returns the best."""
    for k in range(states):
        theta[v, k] = unary[v, k]
    for i in range(ptr[v], ptr[v + 1]):
        e, side = adj_edge[i], adj_side[i]
        for k in range(states):
            theta[v, k] -= messages[side, e, k]
    top = -np.inf
    for k in range(states):
        top = max(top, theta[v, k])
    return top


@kernel
def refresh(net, messages, dag):  # type: ignore[no-untyped-def]
    """Scores and maxima of all nodes and edges; returns the height."""
    total = 0.0
    for v in range(len(net.n_states)):
        states = net.n_states[v]
        dag.node_top[v] = _node_top(net.unary, net.ptr, net.adj_edge, net.adj_side, messages, v, states, dag.theta)
        total += dag.node_top[v]
    for e in range(len(net.edges)):
        u, v = net.edges[e, 0], net.edges[e, 1]
        t, weight = net.edge_table[e], net.edge_weight[e]
        dag.edge_top[e] = _edge_top(net.tables, t, weight, messages, e, dag.theta, u, v, net.n_states[u], net.n_states[v])
        total += dag.edge_top[e]
    return total


@kernel
def _pair(tables, t, weight, messages, e, side, k, m):  # type: ignore[no-untyped-def]
    """Reparametrised score of label ``k`` at end ``side`` of the edge with ``m`` at its other end."""
    score = tables[t, k, m] if side == 0 else tables[t, m, k]
    return weight * score + messages[side, e, k] + messages[1 - side, e, m]


@kernel
def _supported(tables, t, weight, messages, e, side, k, w, n_other, least, order, support):  # type: ignore[no-untyped-def]
    """Whether label ``k`` at end ``side`` has a partner at node ``w`` that is left, with a pair of at least ``least``."""
    last = support[side, e, k]
    if order[w, last] < 0 and _pair(tables, t, weight, messages, e, side, k, last) >= least:
        return True
    for m in range(n_other):
        if order[w, m] < 0 and _pair(tables, t, weight, messages, e, side, k, m) >= least:
            support[side, e, k] = m
            return True
    return False


@kernel
def propagate(net, messages, epsilon, dag):  # type: ignore[no-untyped-def]
    """Arc consistency at threshold ``epsilon``; returns the first node without labels (-1 if none) and the number of deletions."""
    n_nodes, n_labels = net.unary.shape
    tables, order, cause, queue, left, support = net.tables, dag.order, dag.cause, dag.queue, dag.left, dag.support
    size = 0
    for v in range(n_nodes):
        left[v] = 0
        least = dag.node_top[v] - epsilon
        for k in range(net.n_states[v]):
            cause[v, k] = -1
            if dag.theta[v, k] >= least:
                order[v, k] = -1
                left[v] += 1
            else:
                order[v, k] = size
                queue[size] = v * n_labels + k
                size += 1
    head = size
    for e in range(len(net.edges)):
        t, weight, least = net.edge_table[e], net.edge_weight[e], dag.edge_top[e] - epsilon
        for side in range(2):
            v, w = net.edges[e, side], net.edges[e, 1 - side]
            n_other = net.n_states[w]
            for k in range(net.n_states[v]):
                if order[v, k] < 0 and not _supported(
                    tables, t, weight, messages, e, side, k, w, n_other, least, order, support
                ):
                    order[v, k], cause[v, k] = size, e
                    queue[size] = v * n_labels + k
                    size += 1
                    left[v] -= 1
                    if left[v] == 0:
                        return v, size
    while head < size:
        w, m = queue[head] // n_labels, queue[head] % n_labels
        head += 1
        for i in range(net.ptr[w], net.ptr[w + 1]):
            e, side = net.adj_edge[i], 1 - net.adj_side[i]
            v, n_other = net.edges[e, side], net.n_states[w]
            t, weight, least = net.edge_table[e], net.edge_weight[e], dag.edge_top[e] - epsilon
            for k in range(net.n_states[v]):
                if order[v, k] >= 0 or _pair(tables, t, weight, messages, e, side, k, m) < least:
                    continue
                if not _supported(tables, t, weight, messages, e, side, k, w, n_other, least, order, support):
                    order[v, k], cause[v, k] = size, e
                    queue[size] = v * n_labels + k
                    size += 1
                    left[v] -= 1
                    if left[v] == 0:
                        return v, size
    return -1, size


@kernel
def direct(net, messages, epsilon, dag, node, size):  # type: ignore[no-untyped-def]
    """The direction that lowers ``node`` by 1, from the ``size`` deletions; returns its number of edges."""
    n_nodes, n_labels = net.unary.shape
    asked, direction, marked = dag.asked, dag.direction, dag.marked
    n_touched = 0
    for k in range(net.n_states[node]):
        asked[node, k] = 1.0
    for i in range(size - 1, -1, -1):
        v, k = dag.queue[i] // n_labels, dag.queue[i] % n_labels
        e = dag.cause[v, k]
        if asked[v, k] == 0.0 or e < 0:
            continue
        side = 0 if net.edges[e, 0] == v else 1
        w = net.edges[e, 1 - side]
        t, weight, least = net.edge_table[e], net.edge_weight[e], dag.edge_top[e] - epsilon
        if not marked[n_nodes + e]:
            marked[n_nodes + e] = 1
            dag.touched[n_touched] = e
            n_touched += 1
        units = asked[v, k]
        direction[side, e, k] += units
        for m in range(net.n_states[w]):
            if dag.theta[w, m] == -np.inf or _pair(net.tables, t, weight, messages, e, side, k, m) < least:
                continue
            given = -direction[1 - side, e, m]
            if units > given:
                asked[w, m] += units - given
                direction[1 - side, e, m] = -units
    return n_touched


@kernel
def _length(net, messages, dag, node, n_touched):  # type: ignore[no-untyped-def]
    """Largest step along the direction at which no slack of the edges and nodes that it changes falls below 0."""
    n_nodes = len(net.n_states)
    step = np.inf
    for i in range(n_touched):
        e = dag.touched[i]
        u, v = net.edges[e, 0], net.edges[e, 1]
        t, weight, top = net.edge_table[e], net.edge_weight[e], dag.edge_top[e]
        for k in range(net.n_states[u]):
            if dag.theta[u, k] == -np.inf:
                continue
            for m in range(net.n_states[v]):
                rise = dag.direction[0, e, k] + dag.direction[1, e, m]
                if rise > 0.0 and dag.theta[v, m] > -np.inf:
                    step = min(step, (top - _pair(net.tables, t, weight, messages, e, 0, k, m)) / rise)
    for i in range(-1, 2 * n_touched):
        v = node if i < 0 else net.edges[dag.touched[i // 2], i % 2]
        if dag.marked[v]:
            continue
        dag.marked[v] = 1
        for k in range(net.n_states[v]):
            if dag.theta[v, k] == -np.inf:
                continue
            rise = 1.0 if v == node else 0.0
            for j in range(net.ptr[v], net.ptr[v + 1]):
                rise -= dag.direction[net.adj_side[j], net.adj_edge[j], k]
            if rise > 0.0:
                step = min(step, (dag.node_top[v] - dag.theta[v, k]) / rise)
    for i in range(n_touched):
        e = dag.touched[i]
        dag.marked[n_nodes + e] = 0
    return step


@kernel
def _local(net, messages, dag, node, n_touched):  # type: ignore[no-untyped-def]
    """Recompute the nodes and edges of the direction; returns by how much their maxima have risen in all."""
    change = 0.0
    for i in range(-1, 2 * n_touched):
        v = node if i < 0 else net.edges[dag.touched[i // 2], i % 2]
        if not dag.marked[v]:
            continue
        dag.marked[v] = 0
        top = _node_top(net.unary, net.ptr, net.adj_edge, net.adj_side, messages, v, net.n_states[v], dag.theta)
        change += top - dag.node_top[v]
        dag.node_top[v] = top
    for i in range(n_touched):
        e = dag.touched[i]
        u, v = net.edges[e, 0], net.edges[e, 1]
        t, weight = net.edge_table[e], net.edge_weight[e]
        top = _edge_top(net.tables, t, weight, messages, e, dag.theta, u, v, net.n_states[u], net.n_states[v])
        change += top - dag.edge_top[e]
        dag.edge_top[e] = top
    return change


@kernel
def advance(net, messages, dag, node, size, n_touched):  # type: ignore[no-untyped-def]
    """Step along the direction; returns the step and the change of the height, ``(step, 0)`` if rounding ate the gain."""
    n_labels = net.unary.shape[1]
    step = _length(net, messages, dag, node, n_touched)
    usable = step < np.inf
    for i in range(n_touched):
        e = dag.touched[i]
        for side in range(2):
            for k in range(n_labels):
                dag.saved[side, e, k] = messages[side, e, k]
                if usable:
                    messages[side, e, k] += step * dag.direction[side, e, k]
                dag.direction[side, e, k] = 0.0
    change = _local(net, messages, dag, node, n_touched)
    for i in range(size):
        dag.asked[dag.queue[i] // n_labels, dag.queue[i] % n_labels] = 0.0
    if usable and change <= -0.5 * step and change < 0.0:
        return step, change
    for i in range(n_touched):
        e = dag.touched[i]
        for side in range(2):
            for k in range(n_labels):
                messages[side, e, k] = dag.saved[side, e, k]
        dag.marked[net.edges[e, 0]] = 1
        dag.marked[net.edges[e, 1]] = 1
    _local(net, messages, dag, node, n_touched)
    return step, 0.0


@kernel
def descend(net, messages, epsilon, max_steps, dag):  # type: ignore[no-untyped-def]
    """Up to ``max_steps`` steps at one threshold, after `refresh`; returns ``(steps, change of the height, status)``.

    The status is ``CONSISTENT`` where arc consistency holds, ``ROUNDED`` where the step is lost in rounding, else ``BUDGET``.
    """
    total = 0.0
    for done in range(max_steps):
        node, size = propagate(net, messages, epsilon, dag)
        if node < 0:
            return done, total, CONSISTENT
        n_touched = direct(net, messages, epsilon, dag, node, size)
        change = advance(net, messages, dag, node, size, n_touched)[1]
        if change == 0.0:
            return done, total, ROUNDED
        total += change
    return max_steps, total, BUDGET


@kernel
def maximal_pairs(net, messages, epsilon, dag, nodes, pairs):  # type: ignore[no-untyped-def]
    """After `propagate`: masks of the labels that are left, and of the pairs of them within ``epsilon`` of their edge's best."""
    for v in range(len(net.n_states)):
        for k in range(net.n_states[v]):
            nodes[v, k] = dag.order[v, k] < 0
    for e in range(len(net.edges)):
        u, v = net.edges[e, 0], net.edges[e, 1]
        t, weight, least = net.edge_table[e], net.edge_weight[e], dag.edge_top[e] - epsilon
        for k in range(net.n_states[u]):
            for m in range(net.n_states[v]):
                if nodes[u, k] and nodes[v, m]:
                    pairs[e, k, m] = _pair(net.tables, t, weight, messages, e, 0, k, m) >= least
