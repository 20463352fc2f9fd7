"""Energies and second moments of points in products of simplices, for learning quadratic forms."""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .qp import multiply


@kernel
def energies(rows, theta, mu, work, starts, first, last, out):  # type: ignore[no-untyped-def]
    r"""``out[i]`` = :math:`\langle\theta, \mu\rangle + \tfrac12\langle\mu, \Theta\mu\rangle` of the parts ``first .. last - 1``."""
    n_states = rows.n_states
    for i in range(first, last):
        square, _ = multiply(rows, mu, work, starts[i], starts[i + 1])
        linear = 0.0
        for v in range(starts[i], starts[i + 1]):
            for k in range(n_states[v]):
                if mu[v, k] != 0.0:
                    linear += theta[v, k] * mu[v, k]
        out[i] = linear + 0.5 * square


@kernel
def pair_moments(x, y, edges, n_states, indptr, indices, values, weight, first, last, out):  # type: ignore[no-untyped-def]
    r"""``out[p]`` += :math:`\tfrac12\sum_e c_e f_{ep}\, z_e z_e'^\top` over the edges ``first .. last - 1``.

    :math:`z_e = (x_u, x_v)` and :math:`z'_e = (y_u, y_v)` stack the rows of both ends, the second end from row K on; entries of
    zero cost nothing.
    """
    n_labels = x.shape[1]
    place, size = np.empty(2 * n_labels, dtype=np.int64), np.empty(2 * n_labels)
    other, amount = np.empty(2 * n_labels, dtype=np.int64), np.empty(2 * n_labels)
    for e in range(first, last):
        count, n_other = 0, 0
        for end in range(2):
            v = edges[e, end]
            for k in range(n_states[v]):
                if x[v, k] != 0.0:
                    place[count] = end * n_labels + k
                    size[count] = x[v, k]
                    count += 1
                if y[v, k] != 0.0:
                    other[n_other] = end * n_labels + k
                    amount[n_other] = y[v, k]
                    n_other += 1
        for j in range(indptr[e], indptr[e + 1]):
            p, factor = indices[j], 0.5 * weight[e] * values[j]
            for a in range(count):
                share, i = factor * size[a], place[a]
                for b in range(n_other):
                    out[p, i, other[b]] += share * amount[b]
