r"""Kernels of dual decomposition: forests of a graph, and the master problem of the bundle.

A *copy* is a node in one of the trees of the decomposition. The copies of a tree are consecutive, ``starts[c] .. starts[c + 1]``,
parents first. A column is a labelling of a tree; tree ``c`` keeps up to ``J`` of them, with weights :math:`\lambda_{cj} \ge 0` that
sum to 1. Their mean is :math:`x` (copies, K), the mean of that over the copies of a node :math:`\bar x` (N, K).
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .simplex import pairwise_steps


@kernel
def split_forests(n_nodes, edges, order, largest):  # type: ignore[no-untyped-def]
    """Forest of each edge: the first one is a maximal forest of all edges, taken in ``order``, the next of those left, ...

    No tree gets more than ``largest`` nodes.
    """
    n_edges = len(edges)
    forest = np.full(n_edges, -1, dtype=np.int32)
    rest = order.copy()
    left, current = n_edges, 0
    root, size = np.empty(n_nodes, dtype=np.int32), np.empty(n_nodes, dtype=np.int32)
    while left:
        for v in range(n_nodes):
            root[v], size[v] = v, 1
        kept = 0
        for i in range(left):
            e = rest[i]
            a, b = edges[e, 0], edges[e, 1]
            while root[a] != a:
                root[a] = root[root[a]]
                a = root[a]
            while root[b] != b:
                root[b] = root[root[b]]
                b = root[b]
            if a != b and size[a] + size[b] <= largest:
                root[a] = b
                size[b] += size[a]
                forest[e] = current
            else:
                rest[kept] = e
                kept += 1
        left = kept
        current += 1
    return forest


@kernel
def column_scores(starts, filled, columns, constant, shares, linear):  # type: ignore[no-untyped-def]
    """``linear[c, j]``: score of column ``j`` of tree ``c`` under the node shares."""
    for c in range(len(starts) - 1):
        for j in range(filled[c]):
            total = constant[c, j]
            for i in range(starts[c], starts[c + 1]):
                total += shares[i, columns[j, i]]
            linear[c, j] = total


@kernel
def add_columns(starts, copy_weight, labels, value, filled, columns, constant, weights, idle, gram):  # type: ignore[no-untyped-def]
    """Give each tree the column ``labels`` with the edge score ``value[c]``, unless it has it; returns how many are new.

    A tree without room loses the column that has had no weight for longest or, if all have some, the one with the least, whose
    weight goes to the heaviest.
    """
    room = len(columns)
    added = 0
    for c in range(len(starts) - 1):
        first, last = starts[c], starts[c + 1]
        known = False
        for j in range(filled[c]):
            same = True
            for i in range(first, last):
                if columns[j, i] != labels[i]:
                    same = False
                    break
            if same:
                idle[c, j] = 0
                known = True
                break
        if known:
            continue
        added += 1
        if filled[c] < room:
            slot = filled[c]
            filled[c] += 1
        else:
            slot, heavy = 0, 0
            for j in range(1, room):
                if weights[c, j] < weights[c, slot] or (weights[c, j] == weights[c, slot] and idle[c, j] > idle[c, slot]):
                    slot = j
                if weights[c, j] > weights[c, heavy]:
                    heavy = j
            weights[c, heavy] += weights[c, slot]
        for i in range(first, last):
            columns[slot, i] = labels[i]
        constant[c, slot] = value[c]
        weights[c, slot] = 1.0 if filled[c] == 1 else 0.0
        idle[c, slot] = 0
        for j in range(filled[c]):
            common = 0.0
            for i in range(first, last):
                if columns[j, i] == labels[i]:
                    common += copy_weight[i]
            gram[c, j, slot] = common
            gram[c, slot, j] = common
    return added


@kernel
def spread_weights(starts, copy_node, node_share, filled, columns, weights, x, mean):  # type: ignore[no-untyped-def]
    """Means ``x`` of the columns of each tree, and ``mean`` of the copies of each node (``node_share`` is 1 / copies)."""
    x[:] = 0.0
    mean[:] = 0.0
    for c in range(len(starts) - 1):
        for j in range(filled[c]):
            if weights[c, j] > 0.0:
                for i in range(starts[c], starts[c + 1]):
                    x[i, columns[j, i]] += weights[c, j]
    for i in range(len(copy_node)):
        v = copy_node[i]
        for k in range(x.shape[1]):
            mean[v, k] += node_share[v] * x[i, k]


@kernel
def master(starts, copy_node, node_share, filled, columns, linear, gram, weights, idle, x, mean, step, tol, max_sweeps):  # type: ignore[no-untyped-def]
    r"""Weights that maximise :math:`\sum \lambda a - \tfrac{t}{2} \sum \|x - \bar x\|^2` over a product of simplices.

    Tree after tree, pairs of columns exchange weight (the one with the largest gradient gains from the one with the smallest)
    until the tree is optimal given the others. Returns the value and what it may lack of the maximum.
    """
    n_trees, n_labels = len(starts) - 1, x.shape[1]
    room, products = len(columns), gram.reshape(gram.size)
    gradient, change = np.empty(room), np.zeros(room)
    before = np.empty(n_labels)
    lack = np.inf
    for _ in range(max_sweeps):
        lack = 0.0
        for c in range(n_trees):
            first, last, n = starts[c], starts[c + 1], filled[c]
            reached, top = 0.0, -np.inf
            for j in range(n):
                pull = 0.0
                for i in range(first, last):
                    k = columns[j, i]
                    pull += x[i, k] - mean[copy_node[i], k]
                gradient[j] = linear[c, j] - step * pull
                reached += weights[c, j] * gradient[j]
                top = max(top, gradient[j])
            lack += max(top - reached, 0.0)
            if top - reached <= 0.1 * tol / n_trees:
                continue
            enough = 0.1 * tol / n_trees
            if (
                pairwise_steps(
                    products, c * room * room, room, step, gradient, weights[c], 0, n, change, 4 * n + 20, enough, 0.0
                )
                > 0.0
            ):
                for i in range(first, last):
                    for k in range(n_labels):
                        before[k] = x[i, k]
                        x[i, k] = 0.0
                    for j in range(n):
                        if weights[c, j] > 0.0:
                            x[i, columns[j, i]] += weights[c, j]
                    v = copy_node[i]
                    for k in range(n_labels):
                        mean[v, k] += node_share[v] * (x[i, k] - before[k])
        if lack <= tol:
            break
    value = 0.0
    for c in range(n_trees):
        for j in range(filled[c]):
            value += weights[c, j] * linear[c, j]
            idle[c, j] = 0 if weights[c, j] > 0.0 else idle[c, j] + 1
    return value, lack


@kernel
def edge_means(tree, edges, filled, columns, weights, out):  # type: ignore[no-untyped-def]
    """Pairwise marginals (E, K, K) of the weights; ``edges`` join copies, ``tree[e]`` is where edge ``e`` lies."""
    out[:] = 0.0
    for e in range(len(edges)):
        c, u, v = tree[e], edges[e, 0], edges[e, 1]
        for j in range(filled[c]):
            if weights[c, j] > 0.0:
                out[e, columns[j, u], columns[j, v]] += weights[c, j]
