r"""Dual block-coordinate ascent where an example has so few labellings that all of them are planes.

Block :math:`j` holds a multiplier for every subset :math:`S` of labels. A step moves some of it from the worst subset in use to
the best one. Scores of all subsets cost less than one product with the features, so nothing is cached.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .simplex import ends, exchange, is_flat


@kernel
def scores(own, pair, column, total):  # type: ignore[no-untyped-def]
    """``total[S]``: sum of ``own[l]`` over ``l`` in ``S`` and of ``pair[l, m]`` over ``l < m`` in ``S``."""
    total[0] = 0.0
    for m in range(len(own)):
        half = 1 << m
        column[0] = own[m]
        for i in range(m):
            size = 1 << i
            for s in range(size):
                column[size + s] = column[s] + pair[i, m]
        for s in range(half):
            total[half + s] = total[s] + column[s]


@kernel
def _dot(a, b):  # type: ignore[no-untyped-def]
    """A product with eight sums, so that it does not wait for each addition."""
    n = len(a) // 8 * 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for p in range(0, n, 8):
        s0 += a[p] * b[p]
        s1 += a[p + 1] * b[p + 1]
        s2 += a[p + 2] * b[p + 2]
        s3 += a[p + 3] * b[p + 3]
        s4 += a[p + 4] * b[p + 4]
        s5 += a[p + 5] * b[p + 5]
        s6 += a[p + 6] * b[p + 6]
        s7 += a[p + 7] * b[p + 7]
    for p in range(n, len(a)):
        s0 += a[p] * b[p]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@kernel
def _add_to_table(tables, own, pair, edges, e, subset, amount):  # type: ignore[no-untyped-def]
    """Add to the entry of table ``e`` that a subset uses, and to what `scores` reads."""
    u, v = edges[e, 0], edges[e, 1]
    p, q = (subset >> u) & 1, (subset >> v) & 1
    tables[e, p, q] += amount
    if p == q:
        pair[min(u, v), max(u, v)] += amount
        if p == 0:
            own[u] -= amount
            own[v] -= amount
    else:
        pair[min(u, v), max(u, v)] -= amount
        if p == 1:
            own[u] += amount
        else:
            own[v] += amount


@kernel
def ascend(order, x, x_ptr, x_col, x_val, norm, loss, edges, alpha, node, tables, own, pair, max_steps, gaps):  # type: ignore[no-untyped-def]
    """Visit the examples of ``order``; ``gaps[j]`` is the gap of block ``j`` before. Returns the gain of the dual.

    ``x`` (n, d) holds dense features, or none (0, 0) and they are the CSR arrays. ``norm`` are squared norms of rows, ``loss``
    (n, L) is the loss of label 1 minus that of 0. ``node`` (L, d), ``tables``, ``own`` and ``pair`` are the weights, changed in place.
    """
    n_labels, n_subsets = loss.shape[1], alpha.shape[1]
    total, column = np.zeros(n_subsets), np.zeros(n_subsets)
    score, moved, all_own = np.zeros(n_labels), np.zeros(n_labels), np.zeros(n_labels)
    dense = len(x) > 0
    gain = 0.0
    for i in range(len(order)):
        j = order[i]
        for m in range(n_labels):
            moved[m] = 0.0
            if dense:
                score[m] = loss[j, m] + _dot(node[m], x[j])
            else:
                product = 0.0
                for p in range(x_ptr[j], x_ptr[j + 1]):
                    product += x_val[p] * node[m, x_col[p]]
                score[m] = loss[j, m] + product
        gaps[j] = 0.0
        for step in range(max_steps):
            for m in range(n_labels):
                all_own[m] = score[m] + own[m]
            scores(all_own, pair, column, total)
            high, low = ends(total, alpha[j], 0, n_subsets)
            if low < 0:
                break
            if step == 0:
                for s in range(n_subsets):
                    if alpha[j, s] > 0.0:
                        gaps[j] += alpha[j, s] * (total[high] - total[s])
            if is_flat(total, high, low):
                break
            slope = total[high] - total[low]
            curve = 0.0
            for m in range(n_labels):
                if ((high ^ low) >> m) & 1:
                    curve += norm[j]
            for e in range(len(edges)):
                if ((high ^ low) >> edges[e, 0]) & 1 or ((high ^ low) >> edges[e, 1]) & 1:
                    curve += 2.0
            size = exchange(alpha[j], high, low, slope, curve)
            for m in range(n_labels):
                change = size * (((low >> m) & 1) - ((high >> m) & 1))
                moved[m] += change
                score[m] += change * norm[j]
            for e in range(len(edges)):
                if ((high ^ low) >> edges[e, 0]) & 1 or ((high ^ low) >> edges[e, 1]) & 1:
                    _add_to_table(tables, own, pair, edges, e, low, size)
                    _add_to_table(tables, own, pair, edges, e, high, -size)
            gained = size * (slope - 0.5 * size * curve)
            gain += gained
            if gained < 1e-3 * gaps[j]:
                break
        for m in range(n_labels):
            if moved[m] != 0.0:
                if dense:
                    for p in range(x.shape[1]):
                        node[m, p] += moved[m] * x[j, p]
                else:
                    for p in range(x_ptr[j], x_ptr[j + 1]):
                        node[m, x_col[p]] += moved[m] * x_val[p]
    return gain
