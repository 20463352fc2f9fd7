r"""All subsets of a few binary labels: the best one, and what each label is worth, by enumeration.

A binary pairwise function is, up to a constant, :math:`F(S) = \sum_{l \in S} a_l + \sum_{l < m \in S} b_{lm}`. Subset ``S`` is the
number whose bit ``l`` says whether it has label ``l``. The second sum does not depend on the example and is made once. `best_labellings` does the
same for small graphs of any kind.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def pair_sums(pair, out):  # type: ignore[no-untyped-def]
    """``out[S]``: sum of ``pair[l, m]`` over ``l < m`` in ``S``, for all ``2 ** L`` subsets."""
    out[0] = 0.0
    for m in range(len(pair)):
        for s in range(1 << m):
            total = out[s]
            for i in range(m):
                if (s >> i) & 1:
                    total += pair[i, m]
            out[s + (1 << m)] = total


@kernel
def _all_sums(gain, sums, total):  # type: ignore[no-untyped-def]
    """``total[S] = F(S)`` of one example."""
    total[0] = 0.0
    for m in range(len(gain)):
        half = 1 << m
        for s in range(half):
            total[half + s] = total[s] + gain[m]
    for s in range(len(sums)):
        total[s] += sums[s]


@kernel
def best_subsets(gain, sums, truth, total, labels):  # type: ignore[no-untyped-def]
    """The best subset of each row of ``gain`` (n, L) as 0/1 labels, the smallest number among equals.

    Returns how much each scores more than the subset ``truth[i]``.
    """
    n_labels = gain.shape[1]
    slack = np.zeros(len(gain))
    for i in range(len(gain)):
        _all_sums(gain[i], sums, total)
        best = 0
        for s in range(1, len(sums)):
            if total[s] > total[best]:
                best = s
        slack[i] = total[best] - total[truth[i]]
        for m in range(n_labels):
            labels[i, m] = (best >> m) & 1
    return slack


@kernel
def max_marginals(gain, sums, total, out):  # type: ignore[no-untyped-def]
    """``out[i, l]``: the best ``F`` with label ``l`` minus the best without it."""
    n_labels = gain.shape[1]
    for i in range(len(gain)):
        _all_sums(gain[i], sums, total)
        for m in range(n_labels):
            inside, outside = -np.inf, -np.inf
            for s in range(len(sums)):
                if (s >> m) & 1:
                    inside = max(inside, total[s])
                else:
                    outside = max(outside, total[s])
            out[i, m] = inside - outside


@kernel
def best_labellings(node_ptr, edge_ptr, edges, n_states, unary, bank, edge_table, edge_weight, examples, total, column, labels):  # type: ignore[no-untyped-def]
    """The best labelling of each example into its rows of ``labels``; the smallest number among equals, the first node counting least.

    ``total`` and ``column`` are scratch for as many numbers as an example has labellings. They grow node by node: the scores of all
    labellings of the nodes before, for each label of the next one with the scores of its edges to them, so a labelling costs two
    additions, whatever the number of edges.
    """
    n_labels = unary.shape[1]
    for i in range(len(examples)):
        first, last = node_ptr[examples[i]], node_ptr[examples[i] + 1]
        n_nodes = last - first
        pair = np.zeros((n_nodes, n_nodes, n_labels, n_labels))
        for e in range(edge_ptr[examples[i]], edge_ptr[examples[i] + 1]):
            u, v = edges[e, 0] - first, edges[e, 1] - first
            table, weight = bank[edge_table[e]], edge_weight[e]
            for a in range(n_labels):
                for b in range(n_labels):
                    if u < v:
                        pair[u, v, a, b] += weight * table[a, b]
                    else:
                        pair[v, u, b, a] += weight * table[a, b]
        count = 1
        total[0] = 0.0
        for m in range(n_nodes):
            # Downwards: label 0 replaces the scores that the others start from.
            for k in range(n_states[first + m] - 1, -1, -1):
                column[0] = unary[first + m, k]
                size = 1
                for u in range(m):
                    for a in range(n_states[first + u] - 1, -1, -1):
                        for s in range(size):
                            column[a * size + s] = column[s] + pair[u, m, a, k]
                    size *= n_states[first + u]
                for s in range(count):
                    total[k * count + s] = total[s] + column[s]
            count *= n_states[first + m]
        best = 0
        for s in range(1, count):
            if total[s] > total[best]:
                best = s
        for m in range(n_nodes):
            labels[first + m] = best % n_states[first + m]
            best //= n_states[first + m]
