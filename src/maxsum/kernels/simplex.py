r"""Simplices: projection in expected linear time, and the pairwise step, which all dual ascents here are made of.

A concave quadratic over :math:`\{\alpha \ge 0, \mathbf 1^\top\alpha = c\}` rises fastest, among moves of two entries, when the entry with the
largest gradient (`ends`: high) takes from the one with the smallest that has any (low). Along this line the gradient falls by the
curvature, so the best length is known in closed form (`exchange`).
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

_SORTED = 32  # entries up to which sorting by insertion is used: faster than a general sort, and without allocation


@kernel
def threshold(z, n, work):  # type: ignore[no-untyped-def]
    r"""The :math:`\tau` with :math:`\sum_k \max(z_k - \tau, 0) = 1`, for ``z[:n]``; ``work`` has room for ``n`` numbers.

    Entries at most ``max(z) - 1`` are never above it and are left out. The rest is sorted if it is short, and partitioned
    around pivots (expected linear time) if it is long.
    """
    top = z[0]
    for k in range(1, n):
        top = max(top, z[k])
    count = 0
    for k in range(n):
        gain = z[k] - top
        if gain > -1.0:
            work[count] = gain
            count += 1
    if count <= _SORTED:
        total, tau = 0.0, 0.0
        for i in range(1, count):
            value = work[i]
            j = i - 1
            while j >= 0 and work[j] < value:
                work[j + 1] = work[j]
                j -= 1
            work[j + 1] = value
        for i in range(count):
            total += work[i]
            level = (total - 1.0) / (i + 1)
            if work[i] <= level:
                break
            tau = level
        return top + tau
    low, high, above, n_above = 0, count, 0.0, 0
    while low < high:
        middle = (low + high) // 2
        a, b, c = work[low], work[middle], work[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        # work[low:i] > pivot, work[i:j] == pivot, work[j:high] < pivot
        i, j, end, total = low, low, high, 0.0
        while j < end:
            value = work[j]
            if value > pivot:
                total += value
                work[j] = work[i]
                work[i] = value
                i += 1
                j += 1
            elif value < pivot:
                end -= 1
                work[j] = work[end]
                work[end] = value
            else:
                j += 1
        total += pivot * (j - i)
        n_equal = j - low
        if above + total - (n_above + n_equal) * pivot < 1.0:
            above += total
            n_above += n_equal
            low = j
        else:
            high = i
    return top + (above - 1.0) / n_above


@kernel
def ends(gradient, alpha, first, n):  # type: ignore[no-untyped-def]
    """Of ``n`` entries, with weights ``alpha[first:]``: the one with the largest gradient, and that with the smallest among those with weight (-1
    if none has any); the first of equal ones."""
    high, low = 0, -1
    for i in range(n):
        if gradient[i] > gradient[high]:
            high = i
        if alpha[first + i] > 0.0 and (low < 0 or gradient[i] < gradient[low]):
            low = i
    return high, low


@kernel
def exchange(alpha, high, low, slope, curve):  # type: ignore[no-untyped-def]
    """Move the best amount from ``alpha[low]`` to ``alpha[high]``, whose gradients differ by ``slope``, along a line of curvature ``curve``;
    returns the amount. An entry that gives all it has becomes 0 exactly."""
    size = min(slope / curve, alpha[low]) if slope < alpha[low] * curve else alpha[low]
    alpha[low] = alpha[low] - size if size < alpha[low] else 0.0
    alpha[high] += size
    return size


@kernel
def is_flat(gradient, high, low):  # type: ignore[no-untyped-def]
    """Whether two gradients differ by no more than the rounding of sums that made them."""
    return gradient[high] - gradient[low] <= 1e-13 * (abs(gradient[high]) + abs(gradient[low]))


@kernel
def pairwise_steps(gram, start, width, scale, gradient, alpha, first, n, change, n_steps, least, little):  # type: ignore[no-untyped-def]
    r"""Up to ``n_steps`` pairwise steps on a quadratic :math:`\langle g, \alpha\rangle - \tfrac s2 \alpha^\top G\alpha`; returns the gain.

    ``gradient`` and the ``n`` entries ``alpha[first:]`` are kept up to date, ``change`` adds up what was moved. ``gram`` is flat: the products of
    entry ``i`` are ``gram[start + i * width:]``. Ends when two gradients differ by at most ``least``, or by their rounding alone, or when a step gains less than
    ``little`` of all gained so far.
    """
    gain = 0.0
    for _ in range(n_steps):
        high, low = ends(gradient, alpha, first, n)
        if low < 0 or is_flat(gradient, high, low):
            break
        slope = gradient[high] - gradient[low]
        if slope <= least:
            break
        to, back = start + high * width, start + low * width
        curve = scale * (gram[to + high] + gram[back + low] - 2.0 * gram[to + low])
        size = exchange(alpha, first + high, first + low, slope, curve)
        change[high] += size
        change[low] -= size
        plus, minus = gram[to : to + n], gram[back : back + n]  # so that the loop is vectorised
        for i in range(n):
            gradient[i] -= size * scale * (plus[i] - minus[i])
        gained = size * (slope - 0.5 * size * curve)
        gain += gained
        if gained < little * gain:
            break
    return gain


@kernel
def project(points, n_states, out):  # type: ignore[no-untyped-def]
    """Nearest point of the simplex, row by row."""
    n_labels = points.shape[1]
    z, work = np.empty(n_labels), np.empty(n_labels)
    for v in range(len(n_states)):
        n = n_states[v]
        for k in range(n):
            z[k] = points[v, k]
        tau = threshold(z, n, work)
        for k in range(n):
            out[v, k] = max(z[k] - tau, 0.0)


@kernel
def least(row, n):  # type: ignore[no-untyped-def]
    """Smallest of the first ``n`` entries; four minima at a time, which do not wait for each other."""
    a = b = c = d = row[0]
    k = 0
    while k + 3 < n:
        a, b, c, d = min(a, row[k]), min(b, row[k + 1]), min(c, row[k + 2]), min(d, row[k + 3])
        k += 4
    while k < n:
        a = min(a, row[k])
        k += 1
    return min(min(a, b), min(c, d))
