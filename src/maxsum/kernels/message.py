"""One max-sum message through a table: the inner loop of every message-passing algorithm.

Four rows at a time: the compiler keeps them in registers and vectorises over the contiguous label. Tables are indexed in
their bank rather than sliced out of it: a slice costs more than a message of a few labels.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def push_first(theta, tables, t, weight, n_first, n_second, out):  # type: ignore[no-untyped-def]
    """``out[l] = max_k theta[k] + weight * tables[t, k, l]``: from the edge's first node to its second."""
    for m in range(n_second):
        out[m] = -np.inf
    k = 0
    while k + 4 <= n_first:
        a, b, c, d = theta[k], theta[k + 1], theta[k + 2], theta[k + 3]
        if max(max(a, b), max(c, d)) > -np.inf:
            for m in range(n_second):
                low = max(a + weight * tables[t, k, m], b + weight * tables[t, k + 1, m])
                high = max(c + weight * tables[t, k + 2, m], d + weight * tables[t, k + 3, m])
                out[m] = max(out[m], max(low, high))
        k += 4
    while k < n_first:
        a = theta[k]
        for m in range(n_second):
            out[m] = max(out[m], a + weight * tables[t, k, m])
        k += 1


@kernel
def push_second(theta, tables, t, weight, n_first, n_second, out):  # type: ignore[no-untyped-def]
    """``out[k] = max_l theta[l] + weight * tables[t, k, l]``: from the edge's second node to its first."""
    k = 0
    while k + 4 <= n_first:
        a = b = c = d = -np.inf
        for m in range(n_second):
            x = theta[m]
            a = max(a, x + weight * tables[t, k, m])
            b = max(b, x + weight * tables[t, k + 1, m])
            c = max(c, x + weight * tables[t, k + 2, m])
            d = max(d, x + weight * tables[t, k + 3, m])
        out[k], out[k + 1], out[k + 2], out[k + 3] = a, b, c, d
        k += 4
    while k < n_first:
        best = -np.inf
        for m in range(n_second):
            best = max(best, theta[m] + weight * tables[t, k, m])
        out[k] = best
        k += 1


@kernel
def push(tables, turned, t, weight, side, theta, n_from, n_to, out):  # type: ignore[no-untyped-def]
    """Message through an edge with table ``t`` from its end ``side`` to the other end."""
    if side == 0:
        push_first(theta, tables, t, weight, n_from, n_to, out)
    elif len(turned):
        push_first(theta, turned, t, weight, n_from, n_to, out)
    else:
        push_second(theta, tables, t, weight, n_to, n_from, out)
