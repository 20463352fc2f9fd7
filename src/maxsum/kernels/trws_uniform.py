"""The pass of `kernels.trws` for the usual case: all nodes have all labels, nothing is forbidden, there are no cliques.

For a few labels their number is a constant of the compiled code, so that its loops are unrolled; tables that are a constant
plus a larger diagonal (Potts and associative ones) take O(K) a message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .jit import kernel

UNROLLED = (2, 3, 4, 5, 6, 8)


@cache
def uniform_sweep(n_labels: int) -> Callable[..., float]:
    """The compiled pass for a number of labels."""
    return _make(n_labels if n_labels in UNROLLED else 0)


def _make(constant: int) -> Any:
    @kernel
    def sweep(  # type: ignore[no-untyped-def]
        unary, edges, edge_table, edge_weight, tables, turned, associative, ptr, adj_edge, adj_side, messages, forward
    ):
        n_nodes = unary.shape[0]
        n_labels = constant if constant > 0 else unary.shape[1]
        theta, own, out = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
        bound = 0.0
        for step in range(n_nodes):
            v = step if forward else n_nodes - 1 - step
            first, last = ptr[v], ptr[v + 1]
            for k in range(n_labels):
                theta[k] = unary[v, k]
            n_later = 0
            for i in range(first, last):
                e, side = adj_edge[i], adj_side[i]
                for k in range(n_labels):
                    theta[k] -= messages[side, e, k]
                if (edges[e, 1 - side] > v) == forward:
                    n_later += 1
            top = -np.inf
            for k in range(n_labels):
                top = max(top, theta[k])
            if n_later == 0:
                bound += top
                continue
            share = 1.0 / max(n_later, last - first - n_later)
            bound += (1.0 - n_later * share) * top
            for i in range(first, last):
                e, side = adj_edge[i], adj_side[i]
                if (edges[e, 1 - side] > v) != forward:
                    continue
                t, weight = edge_table[e], edge_weight[e]
                high = -np.inf
                for k in range(n_labels):
                    value = messages[side, e, k] + share * theta[k]
                    own[k] = value
                    messages[side, e, k] = value
                    high = max(high, value)
                if associative[t] and weight >= 0:
                    apart = high + weight * tables[t, 0, 1]
                    for k in range(n_labels):
                        out[k] = max(apart, own[k] + weight * tables[t, k, k])
                elif side == 1 and not len(turned):
                    for k in range(n_labels):
                        best = -np.inf
                        for m in range(n_labels):
                            best = max(best, own[m] + weight * tables[t, k, m])
                        out[k] = best
                else:
                    bank = tables if side == 0 else turned
                    for m in range(n_labels):
                        out[m] = -np.inf
                    for k in range(0, n_labels - n_labels % 4, 4):
                        a, b, c, d = own[k], own[k + 1], own[k + 2], own[k + 3]
                        for m in range(n_labels):
                            low = max(a + weight * bank[t, k, m], b + weight * bank[t, k + 1, m])
                            rest = max(c + weight * bank[t, k + 2, m], d + weight * bank[t, k + 3, m])
                            out[m] = max(out[m], max(low, rest))
                    for k in range(n_labels - n_labels % 4, n_labels):
                        a = own[k]
                        for m in range(n_labels):
                            out[m] = max(out[m], a + weight * bank[t, k, m])
                peak = -np.inf
                for k in range(n_labels):
                    peak = max(peak, out[k])
                bound += peak
                for k in range(n_labels):
                    messages[1 - side, e, k] = peak - out[k]
        return bound

    return sweep
