"""Cholesky factors of dense matrices of a few hundred rows, on one thread: BLAS threads that wait for busy cores cost far more."""

from __future__ import annotations

import numpy as np

from .jit import kernel

_BLOCK = 32  # columns of a panel: 8 to 64 took the same time on 600 rows, 128 twice as long, as it leaves the cache


@kernel
def cholesky(matrix):  # type: ignore[no-untyped-def]
    """Overwrite the lower triangle with ``L``, ``L @ L.T == matrix``; False where the matrix is not positive definite."""
    n = len(matrix)
    panel = np.empty((_BLOCK, n))
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        for j in range(start, stop):
            pivot = matrix[j, j]
            for p in range(start, j):
                pivot -= matrix[j, p] * matrix[j, p]
            if not pivot > 0.0:
                return False
            pivot = np.sqrt(pivot)
            matrix[j, j] = pivot
            for i in range(j + 1, n):
                value = matrix[i, j]
                for p in range(start, j):
                    value -= matrix[i, p] * matrix[j, p]
                matrix[i, j] = value / pivot
        width = stop - start
        for p in range(_BLOCK):
            for i in range(stop, n):
                panel[p, i] = matrix[i, start + p] if p < width else 0.0
        for i in range(stop, n):
            for p in range(0, width, 4):
                a, b, c, d = panel[p, i], panel[p + 1, i], panel[p + 2, i], panel[p + 3, i]
                for k in range(stop, i + 1):
                    matrix[i, k] -= a * panel[p, k] + b * panel[p + 1, k] + c * panel[p + 2, k] + d * panel[p + 3, k]
    return True


@kernel
def substitute(factor, right):  # type: ignore[no-untyped-def]
    """Solve ``L @ L.T @ x == right``, with ``L`` in the lower triangle of ``factor``."""
    n = len(right)
    x = right.copy()
    for i in range(n):
        value = x[i]
        for p in range(i):
            value -= factor[i, p] * x[p]
        x[i] = value / factor[i, i]
    for i in range(n - 1, -1, -1):
        value = x[i] / factor[i, i]
        x[i] = value
        for p in range(i):
            x[p] -= factor[i, p] * value
    return x
