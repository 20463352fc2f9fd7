"""The pass of `kernels.trws` for the usual case: all nodes have all labels, nothing is forbidden, there are no cliques.

For a few numbers of labels they are a constant of the compiled code, so that its loops are unrolled, and only the forms of
tables that a problem has are compiled in: a constant plus a larger diagonal (Potts, associative) takes O(K) a message, tables
of the distance of labels (`kernels.distance`) take O(K) as well, general ones O(K^2) over the contiguous label of the receiver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import carray

from .distance import ASSOCIATIVE, BAND, GENERAL, LINEAR, QUADRATIC, linear, quadratic
from .jit import COMPILED, kernel
from .stack import stack

UNROLLED = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64) if COMPILED else ()
TURNED = 32
_ROWS = 40  # with more labels than that, constant, one row of a table at a time is faster than four


def uniform_sweep(n_labels: int, forms: int) -> Callable[..., float]:
    """The compiled pass for a number of labels and the forms (sum of kinds) of the tables."""
    return _make(n_labels if n_labels in UNROLLED else 0, forms)


@cache
def _make(constant: int, forms: int) -> Any:
    @kernel
    def sweep(  # type: ignore[no-untyped-def]
        unary, edges, edge_table, edge_weight, bank, kind, width, slope, ptr, adj_edge, adj_side, n_labels, messages, forward,
        first_row, last_row, first_column, last_column, n_columns,
    ):  # fmt: skip
        n_edges, n_tables = len(edge_table), len(kind)
        K = constant if constant > 0 else n_labels
        if constant > 0:
            theta, own, out = carray(stack(), (K,)), carray(stack(), (K,)), carray(stack(), (K,))
            wide, work = carray(stack(), (3 * K,)), carray(stack(), (K,))
        else:
            theta, own, out, wide, work = np.empty(K), np.empty(K), np.empty(K), np.empty(3 * K), np.empty(K)
        hull = np.empty(K if forms & QUADRATIC else 0, dtype=np.int64)
        if forms & BAND:
            for k in range(3 * K):
                wide[k] = -np.inf
        cells = K * K
        bound = 0.0
        for r in range(last_row - first_row):
            row = first_row + r if forward else last_row - 1 - r
            for c in range(last_column - first_column):
                v = row * n_columns + (first_column + c if forward else last_column - 1 - c)
                first, last = ptr[np.uintp(v)], ptr[np.uintp(v + 1)]
                base = v * K
                for k in range(K):
                    theta[k] = unary[np.uintp(base + k)]
                n_later = 0
                for i in range(first, last):
                    e, side = np.intp(adj_edge[np.uintp(i)]), np.intp(adj_side[np.uintp(i)])
                    mine = (side * n_edges + e) * K
                    for k in range(K):
                        theta[k] -= messages[np.uintp(mine + k)]
                    if (edges[np.uintp(2 * e + 1 - side)] > v) == forward:
                        n_later += 1
                top = -np.inf
                for k in range(K):
                    top = max(top, theta[k])
                if n_later == 0:
                    bound += top
                    continue
                share = 1.0 / max(n_later, last - first - n_later)
                bound += (1.0 - n_later * share) * top
                for i in range(first, last):
                    e, side = np.intp(adj_edge[np.uintp(i)]), np.intp(adj_side[np.uintp(i)])
                    if (edges[np.uintp(2 * e + 1 - side)] > v) != forward:
                        continue
                    t, weight = np.intp(edge_table[np.uintp(e)]), edge_weight[np.uintp(e)]
                    mine, theirs = (side * n_edges + e) * K, ((1 - side) * n_edges + e) * K
                    table = t * cells
                    high = -np.inf
                    for k in range(K):
                        value = messages[np.uintp(mine + k)] + share * theta[k]
                        own[k] = value
                        messages[np.uintp(mine + k)] = value
                        high = max(high, value)
                    form = kind[np.uintp(t)] if weight >= 0 else GENERAL
                    if forms & ASSOCIATIVE and form == ASSOCIATIVE:
                        apart = high + weight * bank[np.uintp(table + 1)]
                        for k in range(K):
                            out[k] = max(apart, own[k] + weight * bank[np.uintp(table + k * (K + 1))])
                    elif forms & BAND and form == BAND:
                        apart = high + weight * bank[np.uintp(table + K - 1)]
                        same = weight * bank[np.uintp(table)]
                        for k in range(K):
                            wide[np.uintp(K + k)] = own[k]
                            out[k] = max(apart, own[k] + same)
                        for d in range(1, width[np.uintp(t)]):
                            gain = weight * bank[np.uintp(table + d)]
                            above, below = K + d, K - d
                            for k in range(K):
                                out[k] = max(out[k], max(wide[np.uintp(above + k)], wide[np.uintp(below + k)]) + gain)
                    elif forms & LINEAR and form == LINEAR:
                        apart, same = high + weight * bank[np.uintp(table + K - 1)], weight * bank[np.uintp(table)]
                        linear(own, K, weight * slope[np.uintp(t)], same, apart, out, work)
                    elif forms & QUADRATIC and form == QUADRATIC:
                        apart, same = high + weight * bank[np.uintp(table + K - 1)], weight * bank[np.uintp(table)]
                        quadratic(own, K, weight * slope[np.uintp(t)], same, apart, out, work, hull)
                    elif forms & GENERAL:
                        if side == 1 and not forms & TURNED:
                            for k in range(K):
                                at = table + k * K
                                best = -np.inf
                                for m in range(K):
                                    best = max(best, own[m] + weight * bank[np.uintp(at + m)])
                                out[k] = best
                        else:
                            table = (side * n_tables + t) * cells
                            for m in range(K):
                                out[m] = -np.inf
                            fours = K - K % 4 if constant <= _ROWS else 0
                            for k in range(0, fours, 4):
                                a, b, third, fourth = own[k], own[k + 1], own[k + 2], own[k + 3]
                                at = table + k * K
                                for m in range(K):
                                    low = max(a + weight * bank[np.uintp(at + m)], b + weight * bank[np.uintp(at + K + m)])
                                    rest = max(
                                        third + weight * bank[np.uintp(at + 2 * K + m)],
                                        fourth + weight * bank[np.uintp(at + 3 * K + m)],
                                    )
                                    out[m] = max(out[m], max(low, rest))
                            for k in range(fours, K):
                                a = own[k]
                                at = table + k * K
                                for m in range(K):
                                    out[m] = max(out[m], a + weight * bank[np.uintp(at + m)])
                    peak = -np.inf
                    for k in range(K):
                        peak = max(peak, out[k])
                    bound += peak
                    for k in range(K):
                        messages[np.uintp(theirs + k)] = peak - out[k]
        return bound

    return sweep
