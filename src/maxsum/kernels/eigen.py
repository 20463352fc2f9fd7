"""Eigenvalues and vectors of small symmetric matrices, without the threads that a BLAS would start."""

from __future__ import annotations

import numpy as np

from .jit import kernel

_EPS = 2.220446049250313e-16  # spacing of floats at 1: what is smaller beside its neighbours counts as 0


@kernel
def symmetric_eigen(u, d, e):  # type: ignore[no-untyped-def]
    """Replace the symmetric matrix ``u`` by its eigenvectors, one a row, and ``d`` by the eigenvalues; ``e`` is work space.

    Householder reduction to a tridiagonal matrix and implicit QL iterations, as ``tred2`` and ``tql2`` of EISPACK, on the
    transposed matrix so that inner loops are contiguous.
    """
    n = len(u)
    largest = 0.0
    for i in range(n):
        for j in range(n):
            largest = max(largest, abs(u[i, j]))
    if largest == 0.0:
        for i in range(n):
            d[i] = 0.0
            u[i, i] = 1.0
        return
    for i in range(n):
        for j in range(n):
            u[i, j] /= largest
    _tridiagonal(u, d, e)
    for i in range(1, n):
        e[i - 1] = e[i]
    e[n - 1] = 0.0
    shift, size = 0.0, 0.0
    for low in range(n):
        size = max(size, abs(d[low]) + abs(e[low]))
        m = low
        while abs(e[m]) > _EPS * size:
            m += 1
        while m > low:
            g = d[low]
            p = (d[low + 1] - g) / (2.0 * e[low])
            r = np.sqrt(p * p + 1.0) if abs(p) < 1e150 else abs(p)
            if p < 0.0:
                r = -r
            d[low] = e[low] / (p + r)
            d[low + 1] = e[low] * (p + r)
            next_d, h = d[low + 1], g - d[low]
            for i in range(low + 2, n):
                d[i] -= h
            shift += h
            p = d[m]
            c, c2, c3, s, s2 = 1.0, 1.0, 1.0, 0.0, 0.0
            next_e = e[low + 1]
            for i in range(m - 1, low - 1, -1):
                c3, c2, s2 = c2, c, s
                g, h = c * e[i], c * p
                r = np.sqrt(p * p + e[i] * e[i])
                e[i + 1] = s * r
                if r > 0.0:
                    s, c = e[i] / r, p / r
                else:
                    s, c = 0.0, 1.0
                p = c * d[i] - s * g
                d[i + 1] = h + s * (c * g + s * d[i])
                for k in range(n):
                    h = u[i + 1, k]
                    u[i + 1, k] = s * u[i, k] + c * h
                    u[i, k] = c * u[i, k] - s * h
            p = -s * s2 * c3 * next_e * e[low] / next_d if next_d != 0.0 else 0.0
            e[low], d[low] = s * p, c * p
            if abs(e[low]) <= _EPS * size:
                break
        d[low] += shift
        e[low] = 0.0
    for i in range(n):
        d[i] *= largest


@kernel
def _tridiagonal(u, d, e):  # type: ignore[no-untyped-def]
    n = len(u)
    for j in range(n):
        d[j] = u[j, n - 1]
    for i in range(n - 1, 0, -1):
        scale, h = 0.0, 0.0
        for k in range(i):
            scale += abs(d[k])
        if scale == 0.0:
            e[i] = d[i - 1]
            for j in range(i):
                d[j] = u[j, i - 1]
                u[j, i] = 0.0
                u[i, j] = 0.0
        else:
            for k in range(i):
                d[k] /= scale
                h += d[k] * d[k]
            f = d[i - 1]
            g = -np.sqrt(h) if f > 0.0 else np.sqrt(h)
            e[i] = scale * g
            h -= f * g
            d[i - 1] = f - g
            for j in range(i):
                e[j] = 0.0
            for j in range(i):
                f = d[j]
                u[i, j] = f
                g = e[j] + u[j, j] * f
                for k in range(j + 1, i):
                    g += u[j, k] * d[k]
                    e[k] += u[j, k] * f
                e[j] = g
            f = 0.0
            for j in range(i):
                e[j] /= h
                f += e[j] * d[j]
            half = f / (h + h)
            for j in range(i):
                e[j] -= half * d[j]
            for j in range(i):
                f, g = d[j], e[j]
                for k in range(j, i):
                    u[j, k] -= f * e[k] + g * d[k]
                d[j] = u[j, i - 1]
                u[j, i] = 0.0
        d[i] = h
    for i in range(n - 1):
        u[i, n - 1] = u[i, i]
        u[i, i] = 1.0
        h = d[i + 1]
        if h != 0.0:
            for k in range(i + 1):
                d[k] = u[i + 1, k] / h
            for j in range(i + 1):
                g = 0.0
                for k in range(i + 1):
                    g += u[i + 1, k] * u[j, k]
                for k in range(i + 1):
                    u[j, k] -= g * d[k]
        for k in range(i + 1):
            u[i + 1, k] = 0.0
    for j in range(n):
        d[j] = u[j, n - 1]
        u[j, n - 1] = 0.0
    u[n - 1, n - 1] = 1.0
    e[0] = 0.0


@kernel
def inverse_of(matrix, tol, out):  # type: ignore[no-untyped-def]
    """Pseudo-inverse of a symmetric matrix, which is destroyed; eigenvalues of at most ``tol`` of the largest count as 0."""
    n = len(matrix)
    d, e = np.empty(n), np.empty(n)
    symmetric_eigen(matrix, d, e)
    largest = 0.0
    for k in range(n):
        largest = max(largest, abs(d[k]))
    out[:] = 0.0
    for k in range(n):
        if abs(d[k]) > tol * largest:
            for i in range(n):
                share = matrix[k, i] / d[k]
                for j in range(n):
                    out[i, j] += share * matrix[k, j]
