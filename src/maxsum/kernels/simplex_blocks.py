r"""Concave quadratics over a product of simplices and a non-negative orthant, by pairwise steps.

.. math:: \max_a\; b^T a - \tfrac12 a^T H a, \qquad a \ge 0,\quad \textstyle\sum_{i \in j} a_i = c_j \ (\text{or} \le c_j)

``order[ptr[j]:ptr[j + 1]]`` are the variables of block ``j``; the part after the last block are the non-negative ones. ``rest[j]``
is ``c_j - sum``, a variable with a zero column; it takes part in block ``j`` where ``loose`` is set.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .simplex import ends, exchange, is_flat

_FLAT = 1e-14  # of a diagonal entry: the least curvature of a step, so that rounding of equal columns divides by nothing near 0
VALUE = 0  # places of the state: the value of the program,
GAP = 1  # its duality gap,
TOP = 2  # and the largest gradient
N_STATE = 3


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
def _block_steps(gram, diag, alpha, grad, order, first, last, rest, j, loose, target, max_steps, local, weight):  # type: ignore[no-untyped-def]
    """Pairwise steps inside one block on its own gradient, until its gap is at most ``target``; returns their number.

    What is left of the block's sum is its last entry there. (Choosing the giver by what it promises to second order, as LIBSVM does, takes
    as many steps on these problems, and more work in each.)
    """
    size, steps = last - first, 0
    for p in range(size):
        local[p], weight[p] = grad[order[first + p]], alpha[order[first + p]]
    local[size], weight[size] = 0.0, rest[j]
    count = size + 1 if loose else size
    while steps < max_steps:
        high, low = ends(local, weight, 0, count)
        gap = 0.0
        for p in range(count):
            gap += weight[p] * (local[high] - local[p])
        if gap <= target or low < 0 or is_flat(local, high, low):
            break
        i, k = order[first + high] if high < size else -1, order[first + low] if low < size else -1
        own = (diag[i] if i >= 0 else 0.0) + (diag[k] if k >= 0 else 0.0)
        bend = max(own - 2.0 * gram[i, k], _FLAT * own) if i >= 0 and k >= 0 else own
        length = exchange(weight, high, low, local[high] - local[low], bend)
        steps += 1
        for p in range(size):
            o = order[first + p]
            local[p] -= length * ((gram[i, o] if i >= 0 else 0.0) - (gram[k, o] if k >= 0 else 0.0))
    rest[j] = weight[size] if loose else rest[j]
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
    local, weight, change = np.empty(largest + 1), np.empty(largest + 1), np.empty(largest + 1)
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
                gram, diag, alpha, grad, order, first, last, rest, j, loose, target, 20 + 4 * size, local, weight
            )
            _apply(gram, alpha, grad, order, first, size, weight, change)
            moved += done
            work += done * 3 * size + min(size, 2 * done) * n
        work += 2 * n
        steps += moved
        if moved == 0:
            break
    return steps
