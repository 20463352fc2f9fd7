"""Long vectors of limited-memory quasi-Newton methods, in blocks that stay in the cache, and the small program over their tangents."""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .simplex import pairwise_steps
from .vectors import inner

_BLOCK = 2048  # numbers of each vector at a time: 16 kB, so that a block of some vectors stays in the nearest cache


@kernel
def products(rows, first, second, out):  # type: ignore[no-untyped-def]
    """``out[i, j] = <rows[first[i]], rows[second[j]]>`` in one pass over all of them."""
    n = rows.shape[1]
    out[:] = 0.0
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        for i in range(len(first)):
            row = rows[first[i], start:stop]
            for j in range(len(second)):
                out[i, j] += inner(row, rows[second[j], start:stop])


@kernel
def combination(rows, which, shares, out):  # type: ignore[no-untyped-def]
    """``out = sum_i shares[i] * rows[which[i]]`` in one pass."""
    n = rows.shape[1]
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        for k in range(start, stop):
            out[k] = 0.0
        for i in range(len(which)):
            share, r = shares[i], which[i]
            if share != 0.0:
                for k in range(start, stop):
                    out[k] += share * rows[r, k]


@kernel
def best_shares(offsets, square, alpha, enough, n_steps):  # type: ignore[no-untyped-def]
    r"""Maximise :math:`\langle a, \alpha\rangle - \tfrac12\alpha^\top Q\alpha` over shares >= 0 with sum 1, in place, by pairwise
    steps, until no step can gain more than about ``enough``."""
    n = len(offsets)
    slope = np.empty(n)
    for t in range(n):
        slope[t] = offsets[t]
        for s in range(n):
            slope[t] -= square[t, s] * alpha[s]
    pairwise_steps(
        np.ascontiguousarray(square).reshape(n * n), 0, n, 1.0, slope, alpha, 0, n, np.zeros(n), n_steps, enough, 0.0
    )
