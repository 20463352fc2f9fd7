"""Projection of many small symmetric matrices onto those whose eigenvalues are at least a floor."""

from __future__ import annotations

import numpy as np

from .eigen import symmetric_eigen
from .jit import kernel


@kernel
def is_definite(matrix, floor, work):  # type: ignore[no-untyped-def]
    """Whether ``matrix - floor`` has a Cholesky factor, which is left in the lower half of ``work``."""
    n = len(matrix)
    for j in range(n):
        pivot = matrix[j, j] - floor
        for k in range(j):
            pivot -= work[j, k] * work[j, k]
        if not pivot > 0.0:
            return False
        root = np.sqrt(pivot)
        work[j, j] = root
        for i in range(j + 1, n):
            value = matrix[i, j]
            for k in range(j):
                value -= work[i, k] * work[j, k]
            work[i, j] = value / root
    return True


@kernel
def clip_eigenvalues(weights, starts, size, floor):  # type: ignore[no-untyped-def]
    r"""Project matrices in place; that of ``starts[t]`` is stored by rows from its diagonal on, off it times :math:`\sqrt2`.

    What is below the floor is lifted to it, :math:`W + \sum_k (\text{floor} - \lambda_k)_+ v_k v_k^\top`, or the matrix is made
    anew from what is above, whichever takes fewer terms.
    """
    matrix, work = np.empty((size, size)), np.empty((size, size))
    values, spare = np.empty(size), np.empty(size)
    root = np.sqrt(0.5)
    for t in range(len(starts)):
        at = starts[t]
        for i in range(size):
            for j in range(i, size):
                value = weights[at] * (1.0 if i == j else root)
                matrix[i, j] = value
                matrix[j, i] = value
                at += 1
        if is_definite(matrix, floor, work):
            continue
        for i in range(size):
            for j in range(size):
                work[i, j] = matrix[i, j]
        symmetric_eigen(work, values, spare)
        n_low = 0
        for k in range(size):
            n_low += values[k] < floor
        if n_low == 0:
            continue
        lift = 2 * n_low <= size
        if not lift:
            for i in range(size):
                for j in range(size):
                    matrix[i, j] = floor if i == j else 0.0
        for k in range(size):
            gain = floor - values[k] if lift else values[k] - floor
            if gain > 0.0:
                for i in range(size):
                    share = gain * work[k, i]
                    for j in range(i, size):
                        matrix[i, j] += share * work[k, j]
        at = starts[t]
        for i in range(size):
            for j in range(i, size):
                weights[at] = matrix[i, j] / (1.0 if i == j else root)
                at += 1
