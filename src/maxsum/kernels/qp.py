"""Spectral projected gradient with conjugate directions for a convex quadratic over a product of simplices.

All vectors are (N, K) arrays, one simplex a row; only the first ``n_states[v]`` entries of row ``v`` are ever touched. A label
is forbidden by a linear cost of `FORBIDDEN`, so large that its entry stays at zero and so small that nothing overflows.

Most rows soon rest at a corner that the gradient does not leave. Bits in ``live`` (N,) say what of a row is not zero: `PULLED`
(``pull``), `BACKED` (``back``), `STEPPED` (``step``); `CORNER` marks those at rest. ``low`` (N,) holds the smallest entries of the gradient.
Rows of zeros are neither read nor written.
"""

from __future__ import annotations

import numpy as np

from .block_rows import add_block, multiply
from .jit import kernel
from .simplex import least, threshold
from .simplex import project as project

FORBIDDEN = 1e300
VALUE = 0  # place in the state: the energy
GAP = 1  # place in the state: the Frank-Wolfe gap
SIZE = 2  # place in the state: size of the terms, for rounding
ALPHA = 3  # place in the state: the next spectral step
N_ITER = 4  # place in the state: steps so far
N_PRODUCTS = 5  # place in the state: products with the matrix
STATUS = 6  # place in the state: one of the four below
CURVATURE = 7  # place in the state: the negative curvature that was met
LAST = 8  # place in the state: the spectral step before
NORM = 9  # place in the state: a lower bound on the norm of the matrix
ALLOWED = 10  # place in the state: gap that is small enough whatever the value
N_STATE = 11  # numbers of the state
RUNNING = 0.0  # status: goes on
CONVERGED = 1.0  # status: the gap is small enough
STALLED = 2.0  # status: rounding lets no step be taken
INDEFINITE = 3.0  # status: a direction of negative curvature was met
PULLED = 1  # bit of a row: its projected gradient is not zero
BACKED = 2  # bit of a row: the gradient before was not zero
STEPPED = 4  # bit of a row: its step is not zero
CORNER = 8  # bit of a row: it rests at a corner
_LONGER = 1.1  # factor on the spectral step, so that the minimiser lies within the step most of the time
_WORTH = 0.1  # a conjugate step is taken where it falls at least this share as steeply as the plain one
ALL = PULLED | BACKED | STEPPED | CORNER
REFRESH = 50


@kernel
def multiply_live(rows, x, out, first, last, live):  # type: ignore[no-untyped-def]
    """`multiply` for an ``x`` whose rows are zero where ``live`` lacks `STEPPED`."""
    n_states, ptr, col, block = rows.n_states, rows.ptr, rows.col, rows.block
    weight, bank, diagonal = rows.weight, rows.bank, rows.diagonal
    inner, square = 0.0, 0.0
    for v in range(first, last):
        states, touched = n_states[v], live[v] & STEPPED != 0
        if touched:
            for k in range(states):
                out[v, k] = diagonal[v, k] * x[v, k]
        else:
            for k in range(states):
                out[v, k] = 0.0
        for j in range(ptr[v], ptr[v + 1]):
            u = col[j]
            if live[u] & STEPPED:
                add_block(bank, block[j], weight[j], x, u, n_states[u], out, v, states)
                touched = True
        if touched:
            s0, s1 = 0.0, 0.0
            for k in range(0, states - 1, 2):
                s0 += out[v, k] * out[v, k]
                s1 += out[v, k + 1] * out[v, k + 1]
            if states % 2:
                s0 += out[v, states - 1] * out[v, states - 1]
            square += s0 + s1
        if live[v] & STEPPED:
            for k in range(states):
                inner += x[v, k] * out[v, k]
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
def move(mu, grad, low, step, v, n, z, work):  # type: ignore[no-untyped-def]
    """``step[v] = P(z) - mu[v]``; returns ``<grad, step>`` and ``<step, step>`` of the row.

    A step sums to 0 in every row, so the smallest entry of the gradient may be taken from all of them: close to the optimum
    nothing is lost to cancellation.
    """
    slope, square = 0.0, 0.0
    tau = threshold(z, n, work)
    for k in range(n):
        own = max(z[k] - tau, 0.0) - mu[v, k]
        step[v, k] = own
        if own != 0.0:
            slope += own * (grad[v, k] - low)
            square += own * own
    return slope, square


@kernel
def direction(mu, grad, n_states, first, last, alpha, pull, low, live, z, work):  # type: ignore[no-untyped-def]
    """``pull = P(mu - alpha grad) - mu``; returns ``<grad, pull>`` and ``<pull, pull>``."""
    slope, square = 0.0, 0.0
    for v in range(first, last):
        n = n_states[v]
        if live[v] & CORNER:
            if live[v] & PULLED:
                for k in range(n):
                    pull[v, k] = 0.0
                live[v] ^= PULLED
            continue
        for k in range(n):
            z[k] = mu[v, k] - alpha * (grad[v, k] - low[v])
        own_slope, own_square = move(mu, grad, low[v], pull, v, n, z, work)
        slope += own_slope
        square += own_square
        live[v] |= PULLED
    return slope, square


@kernel
def advance(mu, grad, step, turn, theta, n_states, first, last, length, low, live, state):  # type: ignore[no-untyped-def]
    r"""``mu += length * step``, ``grad += length * turn``; value, Frank-Wolfe gap and their scale go to ``state``.

    The gap :math:`\sum_v \sum_k \mu_v(k) (\nabla_v(k) - \min_l \nabla_v(l))` is summed from terms that are not negative.
    Rows are rescaled to the sum 1, which they lose to rounding only.
    """
    value, gap, size = 0.0, 0.0, 0.0
    for v in range(first, last):
        n = n_states[v]
        if length != 0.0:
            for k in range(n):
                grad[v, k] += length * turn[v, k]
            if live[v] & STEPPED:
                total = 0.0
                for k in range(n):
                    mu[v, k] = max(mu[v, k] + length * step[v, k], 0.0)
                    total += mu[v, k]
                for k in range(n):
                    mu[v, k] /= total
        least_grad = least(grad[v], n)
        low[v] = least_grad
        live[v] &= ALL ^ CORNER
        size += abs(least_grad)
        for k in range(n):
            share = mu[v, k]
            if share > 0.0:
                if share == 1.0 and grad[v, k] == least_grad:
                    live[v] |= CORNER
                gap += share * (grad[v, k] - least_grad)
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
def conjugate(mu, grad, pull, back, step, n_states, first, last, slope, square, state, low, live, z, work):  # type: ignore[no-untyped-def]
    r"""Turn the step of the projected gradient, ``pull``, by the last ``step``, which it replaces; returns slope and square.

    With :math:`G = -pull / \alpha`, the projected gradient (``back`` holds the one before and gets the new one), it is

    .. math:: P(\mu + \alpha d) - \mu, \qquad d = -G + \max\Bigl(0, \frac{\langle G, G - G_- \rangle}{\|G_-\|^2}\Bigr) d_-.

    Where nothing is projected, these are the conjugate gradients of Polak and Ribiere. If it hardly leads down, ``pull`` itself is taken.
    """
    alpha, before = state[ALPHA], state[LAST]
    inner, norm = 0.0, 0.0
    for v in range(first, last):
        if live[v] & (PULLED | BACKED):
            for k in range(n_states[v]):
                new, old = -pull[v, k] / alpha, back[v, k]
                inner += new * (new - old)
                norm += old * old
                back[v, k] = new
            live[v] = live[v] & (ALL ^ BACKED) | (BACKED if live[v] & PULLED else 0)
    if before > 0.0 and inner > 0.0 and norm > 0.0 and inner < 1e3 * norm:
        turn = inner / norm * alpha / before
        new_slope, new_square = 0.0, 0.0
        for v in range(first, last):
            if live[v] & (PULLED | STEPPED):
                n = n_states[v]
                for k in range(n):
                    z[k] = mu[v, k] + (pull[v, k] + turn * step[v, k])
                own_slope, own_square = move(mu, grad, low[v], step, v, n, z, work)
                new_slope += own_slope
                new_square += own_square
                live[v] = live[v] & (ALL ^ STEPPED) | (STEPPED if own_square > 0.0 else 0)
        if new_slope < _WORTH * slope:
            return new_slope, new_square
    for v in range(first, last):
        if live[v] & (PULLED | STEPPED):
            for k in range(n_states[v]):
                step[v, k] = pull[v, k]
            live[v] = live[v] & (ALL ^ STEPPED) | (STEPPED if live[v] & PULLED else 0)
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
def begin(mu, grad, theta, n_states, first, last, low, live, state):  # type: ignore[no-untyped-def]
    """Fill ``state`` from a gradient that was just computed."""
    advance(mu, grad, mu, mu, theta, n_states, first, last, 0.0, low, live, state)
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
    rows, theta, mu, grad, pull, back, step, turn, low, live, starts, part, n_parts, tol, n_steps, max_iter, states
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
            begin(mu, grad, theta, rows.n_states, first, last, low, live, state)
            fresh = True
        taken = 0
        while state[STATUS] == RUNNING:
            done, stuck = is_done(state, tol), False
            slope, square = 0.0, 0.0
            if not done:
                if taken == n_steps or state[N_ITER] >= max_iter:
                    break
                slope, square = direction(mu, grad, rows.n_states, first, last, state[ALPHA], pull, low, live, z, work)
                stuck = not slope < 0.0
            if (done or stuck or state[N_ITER] % REFRESH == REFRESH - 1) and not fresh:
                gradient(rows, theta, mu, grad, first, last)
                state[N_PRODUCTS] += 1.0
                begin(mu, grad, theta, rows.n_states, first, last, low, live, state)
                fresh = True
                continue
            if done or stuck:
                state[STATUS] = CONVERGED if done else STALLED
                break
            slope, square = conjugate(
                mu, grad, pull, back, step, rows.n_states, first, last, slope, square, state, low, live, z, work
            )  # fmt: skip
            curvature, turn_square = multiply_live(rows, step, turn, first, last, live)
            state[N_PRODUCTS] += 1.0
            if is_indefinite(square, curvature, turn_square, state):
                break
            length = search(slope, square, curvature, state)
            advance(mu, grad, step, turn, theta, rows.n_states, first, last, length, low, live, state)
            state[N_ITER] += 1.0
            fresh = False
            taken += 1
        if state[STATUS] == RUNNING:
            running += 1
    return running
