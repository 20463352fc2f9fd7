"""Spectral projected gradient with conjugate directions for a convex quadratic over a product of simplices.

All vectors are (N, K) arrays, one simplex a row; only the first ``n_states[v]`` entries of row ``v`` are ever touched. A label
is forbidden by a linear cost of `FORBIDDEN`, so large that its entry stays at zero and so small that nothing overflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import kernel

FORBIDDEN = 1e300
VALUE, GAP, SIZE, ALPHA, N_ITER, N_PRODUCTS = 0, 1, 2, 3, 4, 5
STATUS, CURVATURE, LAST, NORM, ALLOWED, N_STATE = 6, 7, 8, 9, 10, 11
RUNNING, CONVERGED, STALLED, INDEFINITE = 0.0, 1.0, 2.0, 3.0
_SORTED = 32
_LONGER = 1.1
_WORTH = 0.1
REFRESH = 50


class BlockRows(NamedTuple):
    r"""A symmetric matrix by rows of blocks from a shared bank, plus a diagonal:

    .. math:: (\Theta x)_v(k) = D_v(k) x_v(k) + \sum_{j = ptr_v}^{ptr_{v+1} - 1} w_j \sum_l bank_{b_j}(l, k) x_{c_j}(l).

    Blocks are stored with the label of the *other* node first, so that the inner loop is contiguous.
    """

    n_states: np.ndarray  # int32 (N,)
    ptr: np.ndarray  # int64 (N + 1,)
    col: np.ndarray  # int32 (nnz,): the other node, or v itself
    block: np.ndarray  # int32 (nnz,): which block of the bank
    weight: np.ndarray  # float64 (nnz,)
    bank: np.ndarray  # float64 (B, K, K)
    diagonal: np.ndarray  # float64 (N, K)


@kernel
def multiply(rows, x, out, first, last):  # type: ignore[no-untyped-def]
    """``out = Theta x`` for the nodes ``first .. last - 1``; returns ``<x, out>`` and ``<out, out>`` over them."""
    n_states, ptr, col, block = rows.n_states, rows.ptr, rows.col, rows.block
    weight, bank, diagonal = rows.weight, rows.bank, rows.diagonal
    inner, square = 0.0, 0.0
    for v in range(first, last):
        states = n_states[v]
        for k in range(states):
            out[v, k] = diagonal[v, k] * x[v, k]
        for j in range(ptr[v], ptr[v + 1]):
            u, b, w = col[j], block[j], weight[j]
            others = n_states[u]
            i = 0
            while i + 3 < others:
                x0, x1, x2, x3 = w * x[u, i], w * x[u, i + 1], w * x[u, i + 2], w * x[u, i + 3]
                if x0 != 0.0 or x1 != 0.0 or x2 != 0.0 or x3 != 0.0:
                    for k in range(states):
                        out[v, k] += (bank[b, i, k] * x0 + bank[b, i + 1, k] * x1) + (
                            bank[b, i + 2, k] * x2 + bank[b, i + 3, k] * x3
                        )
                i += 4
            while i < others:
                x0 = w * x[u, i]
                if x0 != 0.0:
                    for k in range(states):
                        out[v, k] += bank[b, i, k] * x0
                i += 1
        for k in range(states):
            inner += x[v, k] * out[v, k]
            square += out[v, k] * out[v, k]
    return inner, square


@kernel
def products(x, y, n_states, first, last):  # type: ignore[no-untyped-def]
    """``<x, y>`` and ``<y, y>``: what `multiply` returns, for a product that was made elsewhere."""
    inner, square = 0.0, 0.0
    for v in range(first, last):
        for k in range(n_states[v]):
            inner += x[v, k] * y[v, k]
            square += y[v, k] * y[v, k]
    return inner, square


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
def direction(mu, grad, n_states, first, last, alpha, step, z, work):  # type: ignore[no-untyped-def]
    """``step = P(mu - alpha grad) - mu``; returns ``<grad, step>`` and ``<step, step>``.

    A step sums to 0 in every row, so the smallest entry of the gradient may be taken from all of them: close to the optimum
    nothing is lost to cancellation.
    """
    slope, square = 0.0, 0.0
    for v in range(first, last):
        n = n_states[v]
        low = grad[v, 0]
        for k in range(1, n):
            low = min(low, grad[v, k])
        for k in range(n):
            z[k] = mu[v, k] - alpha * (grad[v, k] - low)
        tau = threshold(z, n, work)
        for k in range(n):
            move = max(z[k] - tau, 0.0) - mu[v, k]
            step[v, k] = move
            if move != 0.0:
                slope += move * (grad[v, k] - low)
                square += move * move
    return slope, square


@kernel
def advance(mu, grad, step, turn, theta, n_states, first, last, length, state):  # type: ignore[no-untyped-def]
    r"""``mu += length * step``, ``grad += length * turn``; value, Frank-Wolfe gap and their scale go to ``state``.

    The gap :math:`\sum_v \sum_k \mu_v(k) (\nabla_v(k) - \min_l \nabla_v(l))` is summed from terms that are not negative.
    Rows are rescaled to the sum 1, which they lose to rounding only.
    """
    value, gap, size = 0.0, 0.0, 0.0
    for v in range(first, last):
        n = n_states[v]
        if length != 0.0:
            total = 0.0
            for k in range(n):
                mu[v, k] = max(mu[v, k] + length * step[v, k], 0.0)
                grad[v, k] += length * turn[v, k]
                total += mu[v, k]
            for k in range(n):
                mu[v, k] /= total
        low = grad[v, 0]
        for k in range(1, n):
            low = min(low, grad[v, k])
        size += abs(low)
        for k in range(n):
            share = mu[v, k]
            if share > 0.0:
                gap += share * (grad[v, k] - low)
                value += share * (grad[v, k] + theta[v, k])
                size += share * (abs(grad[v, k]) + abs(theta[v, k]))
    state[VALUE], state[GAP], state[SIZE] = 0.5 * value, gap, size


@kernel
def first_step(grad, n_states, first, last):  # type: ignore[no-untyped-def]
    """A first step length that is free of scale: the largest spread of the gradient in a row moves one unit."""
    spread = 0.0
    for v in range(first, last):
        low, high = FORBIDDEN, -FORBIDDEN
        for k in range(n_states[v]):
            if grad[v, k] < 0.5 * FORBIDDEN:
                low = min(low, grad[v, k])
                high = max(high, grad[v, k])
        spread = max(spread, high - low)
    return 1.0 / spread if spread > 0.0 else 1.0


@kernel
def is_done(state, tol):  # type: ignore[no-untyped-def]
    """Whether the gap is at most ``tol`` of the value, at most what is allowed, or nothing but rounding."""
    value, gap = state[VALUE], state[GAP]
    return gap <= max(tol * max(abs(value), abs(value - gap)), state[ALLOWED]) or gap <= 8 * 2.220446049250313e-16 * state[SIZE]


@kernel
def search(slope, square, curvature, state):  # type: ignore[no-untyped-def]
    r"""Length of the step and the next spectral step, both without a further product.

    Along the step the energy is :math:`E + \lambda s + \lambda^2 c / 2`; the length is its minimiser, at most 1. The next
    spectral step is a little above the longer one of Barzilai and Borwein, ``<step, step> / <step, Theta step>``, so that the
    minimiser lies within the step most of the time.
    """
    alpha = state[ALPHA]
    state[LAST] = alpha
    longest = 1e10 * alpha
    state[ALPHA] = min(max(_LONGER * square / curvature, 1e-10 * alpha), longest) if curvature > 1e-300 else 10.0 * alpha
    return min(1.0, -slope / curvature) if curvature > 0.0 else 1.0


@kernel
def conjugate(mu, grad, pull, back, step, n_states, first, last, slope, square, state, z, work):  # type: ignore[no-untyped-def]
    r"""Turn the step of the projected gradient, ``pull``, by the last ``step``, which it replaces; returns slope and square.

    With :math:`G = -pull / \alpha`, the projected gradient (``back`` holds the one before and gets the new one), it is

    .. math:: P(\mu + \alpha d) - \mu, \qquad d = -G + \max\Bigl(0, \frac{\langle G, G - G_- \rangle}{\|G_-\|^2}\Bigr) d_-.

    Where nothing is projected, these are the conjugate gradients of Polak and Ribiere. If it hardly leads down, ``pull`` itself is taken.
    """
    alpha, before = state[ALPHA], state[LAST]
    inner, norm = 0.0, 0.0
    for v in range(first, last):
        for k in range(n_states[v]):
            new, old = -pull[v, k] / alpha, back[v, k]
            inner += new * (new - old)
            norm += old * old
            back[v, k] = new
    if before > 0.0 and inner > 0.0 and norm > 0.0 and inner < 1e3 * norm:
        turn = inner / norm * alpha / before
        new_slope, new_square = 0.0, 0.0
        for v in range(first, last):
            n = n_states[v]
            low = grad[v, 0]
            for k in range(1, n):
                low = min(low, grad[v, k])
            for k in range(n):
                z[k] = mu[v, k] + (pull[v, k] + turn * step[v, k])
            tau = threshold(z, n, work)
            for k in range(n):
                move = max(z[k] - tau, 0.0) - mu[v, k]
                step[v, k] = move
                if move != 0.0:
                    new_slope += move * (grad[v, k] - low)
                    new_square += move * move
        if new_slope < _WORTH * slope:
            return new_slope, new_square
    for v in range(first, last):
        for k in range(n_states[v]):
            step[v, k] = pull[v, k]
    return slope, square


@kernel
def is_indefinite(square, curvature, turn_square, state):  # type: ignore[no-untyped-def]
    """Whether a step, its product and their inner product show a negative curvature that is not rounding.

    A step in the null space has a product of nothing but rounding, so the curvature is also compared with the largest ratio of
    a product to its vector that was seen.
    """
    if square > 0.0:
        state[NORM] = max(state[NORM], np.sqrt(turn_square / square))
    if curvature < -1e-7 * np.sqrt(square * turn_square) and curvature < -1e-12 * state[NORM] * square:
        state[STATUS], state[CURVATURE] = INDEFINITE, curvature / square
        return True
    return False


@kernel
def begin(mu, grad, theta, n_states, first, last, state):  # type: ignore[no-untyped-def]
    """Fill ``state`` from a gradient that was just computed."""
    advance(mu, grad, mu, mu, theta, n_states, first, last, 0.0, state)
    square, turn_square = 0.0, 0.0
    for v in range(first, last):
        for k in range(n_states[v]):
            if theta[v, k] < 0.5 * FORBIDDEN:
                turn = grad[v, k] - theta[v, k]
                turn_square += turn * turn
                square += mu[v, k] * mu[v, k]
    if square > 0.0:
        state[NORM] = max(state[NORM], np.sqrt(turn_square / square))
    if state[N_ITER] == 0.0:
        state[ALPHA] = first_step(grad, n_states, first, last)


@kernel
def gradient(rows, theta, mu, grad, first, last):  # type: ignore[no-untyped-def]
    """``grad = theta + Theta mu``."""
    multiply(rows, mu, grad, first, last)
    for v in range(first, last):
        for k in range(rows.n_states[v]):
            grad[v, k] += theta[v, k]


@kernel
def descend(  # type: ignore[no-untyped-def]
    rows, theta, mu, grad, pull, back, step, turn, starts, part, n_parts, tol, n_steps, max_iter, states
):
    """Up to ``n_steps`` iterations on each of the parts ``part .. n_parts - 1`` that still runs; returns how many still do.

    Part ``i`` is the nodes ``starts[i] .. starts[i + 1] - 1``, which no block joins to others; each part has its own step
    lengths and ``states[i]``. The gradient is carried from product to product, and computed anew from time to
    time and before the end is declared.
    """
    n_labels = mu.shape[1]
    z, work = np.empty(n_labels), np.empty(n_labels)
    running = 0
    for i in range(part, n_parts):
        state = states[i]
        first, last = starts[i], starts[i + 1]
        fresh = False
        if state[STATUS] == RUNNING and state[N_PRODUCTS] == 0.0:
            gradient(rows, theta, mu, grad, first, last)
            state[N_PRODUCTS] += 1.0
            begin(mu, grad, theta, rows.n_states, first, last, state)
            fresh = True
        taken = 0
        while state[STATUS] == RUNNING:
            done, stuck = is_done(state, tol), False
            slope, square = 0.0, 0.0
            if not done:
                if taken == n_steps or state[N_ITER] >= max_iter:
                    break
                slope, square = direction(mu, grad, rows.n_states, first, last, state[ALPHA], pull, z, work)
                stuck = not slope < 0.0
            if (done or stuck or state[N_ITER] % REFRESH == REFRESH - 1) and not fresh:
                gradient(rows, theta, mu, grad, first, last)
                state[N_PRODUCTS] += 1.0
                begin(mu, grad, theta, rows.n_states, first, last, state)
                fresh = True
                continue
            if done or stuck:
                state[STATUS] = CONVERGED if done else STALLED
                break
            slope, square = conjugate(
                mu, grad, pull, back, step, rows.n_states, first, last, slope, square, state, z, work
            )  # fmt: skip
            curvature, turn_square = multiply(rows, step, turn, first, last)
            state[N_PRODUCTS] += 1.0
            if is_indefinite(square, curvature, turn_square, state):
                break
            length = search(slope, square, curvature, state)
            advance(mu, grad, step, turn, theta, rows.n_states, first, last, length, state)
            state[N_ITER] += 1.0
            fresh = False
            taken += 1
        if state[STATUS] == RUNNING:
            running += 1
    return running
