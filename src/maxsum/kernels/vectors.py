"""Inner products and combinations of long vectors, without the threads that a BLAS would start for each of them: these go on
spinning for a while, which takes a core away from other workers, and their number changes the last bits."""

from __future__ import annotations

from .jit import kernel


@kernel
def inner(x, y):  # type: ignore[no-untyped-def]
    """``<x, y>`` in four sums."""
    n = len(x)
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(0, n - 3, 4):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
    for i in range(n - n % 4, n):
        a += x[i] * y[i]
    return (a + b) + (c + d)


@kernel
def times(rows, x, out):  # type: ignore[no-untyped-def]
    """``out = rows @ x``."""
    for i in range(len(rows)):
        out[i] = inner(rows[i], x)


@kernel
def combine(rows, shares, out):  # type: ignore[no-untyped-def]
    """``out = shares @ rows``."""
    out[:] = 0.0
    for i in range(len(rows)):
        share = shares[i]
        if share != 0.0:
            for j in range(len(out)):
                out[j] += share * rows[i, j]
