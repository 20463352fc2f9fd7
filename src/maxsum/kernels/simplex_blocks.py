r"""Concave quadratics over a product of simplices and a non-negative orthant, by pairwise steps.

.. math:: \max_a\; b^T a - \tfrac12 a^T H a, \qquad a \ge 0,\quad \textstyle\sum_{i \in j} a_i = c_j \ (\text{or} \le c_j)

``order[ptr[j]:ptr[j + 1]]`` are the variables of block ``j``; the part after the last block are the non-negative ones. ``rest[j]``
is ``c_j - sum``, a variable with a zero column; it takes part in block ``j`` where ``loose`` is set.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

_FLAT = 1e-14
VALUE, GAP, TOP, N_STATE = 0, 1, 2, 3


@kernel
def block_gap(alpha, grad, order, first, last, rest, loose):  # type: ignore[no-untyped-def]
    """``sum a_i (max g - g_i)`` over a block, term by term, and ``max g``."""
    top = 0.0 if loose else -np.inf
    for p in range(first, last):
        top = max(top, grad[order[p]])
    gap = rest * top if loose else 0.0
    for p in range(first, last):
        gap += alpha[order[p]] * (top - grad[order[p]])
    return gap, top


@kernel
def measure(alpha, grad, offset, order, ptr, rest, loose, noise, cost, state):  # type: ignore[no-untyped-def]
    """Value and gap into ``state``: the blocks, ``-a_i g_i`` of the orthant, and the cost of making it feasible.

    To lower every gradient of the orthant by ``t`` costs at most ``cost[0] t + cost[1] t**2``.
    """
    n_blocks = len(ptr) - 2
    gap = 0.0
    for j in range(n_blocks):
        if ptr[j + 1] > ptr[j]:
            gap += block_gap(alpha, grad, order, ptr[j], ptr[j + 1], rest[j], loose)[0]
    top = 0.0
    for p in range(ptr[n_blocks], ptr[n_blocks + 1]):
        i = order[p]
        gap -= alpha[i] * grad[i]
        if grad[i] > noise[i]:
            top = max(top, grad[i])
    twice = 0.0
    for i in range(len(alpha)):
        twice += alpha[i] * (offset[i] + grad[i])
    state[VALUE], state[TOP] = 0.5 * twice, top
    state[GAP] = gap + top * (cost[0] + top * cost[1]) if top > 0 else gap


@kernel
def _block_steps(gram, diag, alpha, grad, order, first, last, rest, j, loose, target, max_steps, local, weight, change):  # type: ignore[no-untyped-def]
    """Pairwise steps inside one block on its own gradient, until its gap is at most ``target``; returns their number.

    The variable with the largest gradient takes from the one that promises the largest gain to second order.
    """
    size = last - first
    for p in range(size):
        local[p], weight[p], change[p] = grad[order[first + p]], alpha[order[first + p]], 0.0
    steps = 0
    while steps < max_steps:
        up, top, gap = -1, (0.0 if loose else -np.inf), 0.0
        for p in range(size):
            if local[p] > top:
                up, top = p, local[p]
        gain, down, length = 0.0, -2, 0.0
        if up >= 0:
            i = order[first + up]
            h = diag[i]
            for p in range(size):
                if weight[p] > 0.0:
                    k = order[first + p]
                    apart = top - local[p]
                    gap += weight[p] * apart
                    own = h + diag[k]
                    bend = max(own - 2.0 * gram[i, k], _FLAT * own)
                    t = weight[p] if apart >= bend * weight[p] else apart / bend
                    found = t * (apart - 0.5 * t * bend)
                    if found > gain:
                        gain, down, length = found, p, t
            if loose and rest[j] > 0.0:
                gap += rest[j] * top
                t = rest[j] if top >= h * rest[j] else top / h
                found = t * (top - 0.5 * t * h)
                if found > gain:
                    gain, down, length = found, -1, t
        else:
            for p in range(size):
                if weight[p] > 0.0:
                    k = order[first + p]
                    gap -= weight[p] * local[p]
                    h = diag[k]
                    t = weight[p] if -local[p] >= h * weight[p] else -local[p] / h
                    found = t * (-local[p] - 0.5 * t * h)
                    if found > gain:
                        gain, down, length = found, p, t
        if gap <= target or down == -2:
            break
        steps += 1
        if up >= 0:
            change[up] += length
            weight[up] += length
            i = order[first + up]
            for p in range(size):
                local[p] -= length * gram[i, order[first + p]]
        else:
            rest[j] += length
        if down >= 0:
            change[down] -= length
            weight[down] = weight[down] - length if length < weight[down] else 0.0
            k = order[first + down]
            for p in range(size):
                local[p] += length * gram[k, order[first + p]]
        else:
            rest[j] = rest[j] - length if length < rest[j] else 0.0
    return steps


@kernel
def _apply(gram, alpha, grad, order, first, size, weight, change):  # type: ignore[no-untyped-def]
    """Write the new weights of a block and subtract its columns from the gradient, four at a time."""
    n = len(alpha)
    rows = np.empty(4, dtype=np.int64)
    count = 0
    for p in range(size):
        i = order[first + p]
        step = weight[p] - alpha[i]
        alpha[i] = weight[p]
        change[p] = step
        if step != 0.0:
            rows[count] = p
            count += 1
        if count == 4:
            i0, i1, i2, i3 = order[first + rows[0]], order[first + rows[1]], order[first + rows[2]], order[first + rows[3]]
            d0, d1, d2, d3 = change[rows[0]], change[rows[1]], change[rows[2]], change[rows[3]]
            for k in range(n):
                grad[k] -= (d0 * gram[i0, k] + d1 * gram[i1, k]) + (d2 * gram[i2, k] + d3 * gram[i3, k])
            count = 0
    for q in range(count):
        i, d = order[first + rows[q]], change[rows[q]]
        for k in range(n):
            grad[k] -= d * gram[i, k]


@kernel
def _orthant_steps(gram, alpha, grad, order, first, last, local, weight):  # type: ignore[no-untyped-def]
    """One pass of coordinate steps over the non-negative variables."""
    size = last - first
    for p in range(size):
        local[p], weight[p] = grad[order[first + p]], alpha[order[first + p]]
    steps = 0
    for p in range(size):
        i = order[first + p]
        h = gram[i, i]
        if h <= 0.0:
            weight[p] = 0.0
            continue
        t = max(local[p] / h, -weight[p])
        if t != 0.0:
            steps += 1
            weight[p] = max(weight[p] + t, 0.0)
            for q in range(size):
                local[q] -= t * gram[i, order[first + q]]
    return steps


@kernel
def ascend(gram, offset, alpha, grad, order, ptr, rest, loose, noise, cost, tol, floor, max_work, state):  # type: ignore[no-untyped-def]
    """Sweeps over the blocks until the gap is at most ``max(tol * value, floor)`` or ``max_work`` numbers were touched.

    Blocks that hold little of the gap are passed over until the others have caught up. Returns the number of pair steps.
    """
    n, n_blocks = len(alpha), len(ptr) - 2
    largest = 0
    for j in range(n_blocks + 1):
        largest = max(largest, ptr[j + 1] - ptr[j])
    local, weight, change = np.empty(largest), np.empty(largest), np.empty(largest)
    diag = np.empty(n)
    for i in range(n):
        diag[i] = gram[i, i]
    work, steps = 0, 0
    while True:
        measure(alpha, grad, offset, order, ptr, rest, loose, noise, cost, state)
        wanted = max(tol * max(abs(state[VALUE]), abs(state[VALUE] + state[GAP])), floor)
        if state[GAP] <= wanted or work >= max_work:
            break
        share = max(0.1 * state[GAP], 0.3 * wanted) / max(n_blocks, 1)
        moved = 0
        first, last = ptr[n_blocks], ptr[n_blocks + 1]
        if last > first:
            moved += _orthant_steps(gram, alpha, grad, order, first, last, local, weight)
            _apply(gram, alpha, grad, order, first, last - first, weight, change)
            work += moved * (n + last - first)
        for j in range(n_blocks):
            first, last = ptr[j], ptr[j + 1]
            if last == first:
                continue
            gap = block_gap(alpha, grad, order, first, last, rest[j], loose)[0]
            if gap <= share:
                continue
            size = last - first
            target = max(0.1 * gap, 0.5 * share)
            done = _block_steps(
                gram, diag, alpha, grad, order, first, last, rest, j, loose, target, 20 + 4 * size, local, weight, change
            )
            _apply(gram, alpha, grad, order, first, size, weight, change)
            moved += done
            work += done * 3 * size + min(size, 2 * done) * n
        work += 2 * n
        steps += moved
        if moved == 0:
            break
    return steps
