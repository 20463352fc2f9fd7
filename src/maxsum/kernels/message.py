"""One max-sum message through a table: the inner loop of every message-passing algorithm.

Four rows at a time: the compiler keeps them in registers and vectorises over the contiguous label.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def push_first(theta, table, weight, n_first, n_second, out):  # type: ignore[no-untyped-def]
    """``out[l] = max_k theta[k] + weight * table[k, l]``: from the edge's first node to its second."""
    for m in range(n_second):
        out[m] = -np.inf
    k = 0
    while k + 4 <= n_first:
        a, b, c, d = theta[k], theta[k + 1], theta[k + 2], theta[k + 3]
        if max(max(a, b), max(c, d)) == -np.inf:
            k += 4
            continue
        ra, rb, rc, rd = table[k], table[k + 1], table[k + 2], table[k + 3]
        for m in range(n_second):
            low = max(a + weight * ra[m], b + weight * rb[m])
            high = max(c + weight * rc[m], d + weight * rd[m])
            out[m] = max(out[m], max(low, high))
        k += 4
    while k < n_first:
        a, ra = theta[k], table[k]
        for m in range(n_second):
            out[m] = max(out[m], a + weight * ra[m])
        k += 1


@kernel
def push_second(theta, table, weight, n_first, n_second, out):  # type: ignore[no-untyped-def]
    """``out[k] = max_l theta[l] + weight * table[k, l]``: from the edge's second node to its first."""
    k = 0
    while k + 4 <= n_first:
        a = b = c = d = -np.inf
        ra, rb, rc, rd = table[k], table[k + 1], table[k + 2], table[k + 3]
        for m in range(n_second):
            x = theta[m]
            a = max(a, x + weight * ra[m])
            b = max(b, x + weight * rb[m])
            c = max(c, x + weight * rc[m])
            d = max(d, x + weight * rd[m])
        out[k], out[k + 1], out[k + 2], out[k + 3] = a, b, c, d
        k += 4
    while k < n_first:
        best, row = -np.inf, table[k]
        for m in range(n_second):
            best = max(best, theta[m] + weight * row[m])
        out[k] = best
        k += 1


@kernel
def push(net, e, side, theta, n_from, n_to, out):  # type: ignore[no-untyped-def]
    """Message through edge ``e`` from its end ``side`` to the other end."""
    t, weight = net.edge_table[e], net.edge_weight[e]
    if side == 0:
        push_first(theta, net.tables[t], weight, n_from, n_to, out)
    elif len(net.turned):
        push_first(theta, net.turned[t], weight, n_from, n_to, out)
    else:
        push_second(theta, net.tables[t], weight, n_to, n_from, out)
