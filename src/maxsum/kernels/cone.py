"""The cone of supermodular tables: multipliers of the projection, and a repair of the last few ulps."""

from __future__ import annotations

import numpy as np

from .jit import kernel

# Rounds of block pivoting without fewer faults before one row at a time is exchanged, which is sure to end; 3 is usual.
_PATIENCE = 3
_TINY = 4.9e-324  # the smallest number above 0


@kernel
def _solve_free(band, target, free, m, chol, mu):  # type: ignore[no-untyped-def]
    """``mu[free] = -G[free, free]^-1 target[free]`` by a banded Cholesky factor, refined once."""
    width = band.shape[1]
    for i in range(m):
        for d in range(width):
            chol[i, d] = 0.0
        first = max(0, i - width + 1)
        for j in range(first, i + 1):
            apart = free[i] - free[j]
            total = band[free[i], apart] if apart < width else 0.0
            for k in range(first, j):
                if j - k < width:
                    total -= chol[i, i - k] * chol[j, j - k]
            if j < i:
                chol[i, i - j] = total / chol[j, 0]
            else:
                chol[i, 0] = np.sqrt(max(total, 1e-300))
    x, rest = np.zeros(m), np.empty(m)
    for turn in range(2):
        for i in range(m):
            total = -target[free[i]]
            if turn:
                for j in range(max(0, i - width + 1), min(m, i + width)):
                    apart = abs(free[i] - free[j])
                    if apart < width:
                        total -= band[max(free[i], free[j]), apart] * x[j]
            rest[i] = total
        for i in range(m):
            total = rest[i]
            for j in range(max(0, i - width + 1), i):
                total -= chol[i, i - j] * rest[j]
            rest[i] = total / chol[i, 0]
        for i in range(m - 1, -1, -1):
            total = rest[i]
            for j in range(i + 1, min(m, i + width)):
                total -= chol[j, j - i] * rest[j]
            rest[i] = total / chol[i, 0]
            x[i] += rest[i]
    mu[:] = 0.0
    for i in range(m):
        mu[free[i]] = x[i]


@kernel
def project_duals(band, targets, multipliers, max_rounds):  # type: ignore[no-untyped-def]
    r"""Multipliers of the projection onto ``D w >= 0``, one table a row, by block principal pivoting (Judice and Pires 1994).

    Solves :math:`s = D u + G \mu \ge 0,\ \mu \ge 0,\ s^T \mu = 0` with :math:`G = D D^T`, given by its lower diagonals:
    ``band[i, d] = G[i, i - d]``. The support of ``multipliers`` is the start. Returns how many tables took ``max_rounds``.
    """
    n_rows, width = band.shape
    free, chol = np.empty(n_rows, dtype=np.int64), np.empty((n_rows, width))
    is_free, slack, mu = np.empty(n_rows, dtype=np.bool_), np.empty(n_rows), np.empty(n_rows)
    failed = 0
    for t in range(len(targets)):
        scale, any_start = 0.0, False
        for i in range(n_rows):
            scale = max(scale, abs(targets[t, i]))
            any_start |= multipliers[t, i] > 0
        for i in range(n_rows):
            is_free[i] = multipliers[t, i] > 0 if any_start else targets[t, i] < 0
        fewest, patience, done = n_rows + 1, _PATIENCE, False
        for _ in range(max_rounds):
            m = 0
            for i in range(n_rows):
                if is_free[i]:
                    free[m] = i
                    m += 1
            _solve_free(band, targets[t], free, m, chol, mu)
            top = 0.0
            for i in range(n_rows):
                top = max(top, abs(mu[i]))
            wrong, last = 0, -1
            for i in range(n_rows):
                total = targets[t, i]
                for j in range(max(0, i - width + 1), min(n_rows, i + width)):
                    total += band[max(i, j), abs(i - j)] * mu[j]
                slack[i] = total
                if (is_free[i] and mu[i] < -1e-15 * top) or (not is_free[i] and total < -4e-15 * (scale + 16 * top)):
                    wrong, last = wrong + 1, i
            if wrong == 0:
                done = True
                break
            whole = True
            if wrong < fewest:
                fewest, patience = wrong, _PATIENCE
            elif patience > 0:
                patience -= 1
            else:
                whole = False
            for i in range(n_rows):
                if whole or i == last:
                    if is_free[i]:
                        is_free[i] = not mu[i] < -1e-15 * top
                    else:
                        is_free[i] = slack[i] < -4e-15 * (scale + 16 * top)
        for i in range(n_rows):
            multipliers[t, i] = max(mu[i], 0.0)
        failed += not done
    return failed


@kernel
def holds(a, d, b, c):  # type: ignore[no-untyped-def]
    """``a + d - b - c >= 0`` in every order in which it is evaluated anywhere."""
    both = a + d
    return both >= b + c and (both - b) - c >= 0 and (both - c) - b >= 0


@kernel
def raise_corners(weights, quads):  # type: ignore[no-untyped-def]
    """Raise the last corner of each quadruple ``(a, d, b, c)`` that does not hold; later quadruples see the change."""
    for r in range(len(quads)):
        a, b, c = weights[quads[r, 0]], weights[quads[r, 2]], weights[quads[r, 3]]
        d = weights[quads[r, 1]]
        if holds(a, d, b, c):
            continue
        d = max(d, (b + c) - a)
        step = max(2.3e-16 * max(abs(a), abs(b), abs(c), abs(d)), _TINY)
        while not holds(a, d, b, c):
            d += step
            step *= 2
        weights[quads[r, 1]] = d
