r"""All subsets of a few binary labels: the best one, and what each label is worth, by enumeration.

A binary pairwise function is, up to a constant, :math:`F(S) = \sum_{l \in S} a_l + \sum_{l < m \in S} b_{lm}`. Subset ``S`` is the
number whose bit ``l`` says whether it has label ``l``. The second sum does not depend on the example and is made once.
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
