"""Conjugate gradients for many independent block systems at once."""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .qp import multiply


@kernel
def scaled_residual(r, inverse, n_states, first, last):  # type: ignore[no-untyped-def]
    """``<r, r / D>`` and ``<r, r>`` over the nodes ``first .. last - 1``."""
    inner, square = 0.0, 0.0
    for v in range(first, last):
        for k in range(n_states[v]):
            inner += r[v, k] * r[v, k] * inverse[v, k]
            square += r[v, k] * r[v, k]
    return inner, square


@kernel
def solve_parts(rows, b, x, r, p, q, inverse, starts, part, n_parts, tol, max_iter, residual):  # type: ignore[no-untyped-def]
    r"""Solve :math:`\Theta x = b` on each of the parts ``part .. n_parts - 1``, from the ``x`` that is given.

    ``inverse`` are the inverses of the diagonal (the preconditioner); ``r``, ``p`` and ``q`` are work space. A part is done when
    its residual is at most ``tol`` times ``b``; ``residual[i]`` is what is left, relative. Returns the largest number of iterations.
    """
    n_states = rows.n_states
    most = 0
    for i in range(part, n_parts):
        first, last = starts[i], starts[i + 1]
        multiply(rows, x, q, first, last)
        size = 0.0
        for v in range(first, last):
            for k in range(n_states[v]):
                r[v, k] = b[v, k] - q[v, k]
                p[v, k] = r[v, k] * inverse[v, k]
                size += b[v, k] * b[v, k]
        inner, square = scaled_residual(r, inverse, n_states, first, last)
        steps = 0
        while square > tol * tol * size and steps < max_iter:
            curvature, _ = multiply(rows, p, q, first, last)
            if not curvature > 0.0:
                break
            length = inner / curvature
            for v in range(first, last):
                for k in range(n_states[v]):
                    x[v, k] += length * p[v, k]
                    r[v, k] -= length * q[v, k]
            before = inner
            inner, square = scaled_residual(r, inverse, n_states, first, last)
            turn = inner / before
            for v in range(first, last):
                for k in range(n_states[v]):
                    p[v, k] = r[v, k] * inverse[v, k] + turn * p[v, k]
            steps += 1
        residual[i] = np.sqrt(square / size) if size > 0.0 else 0.0
        most = max(most, steps)
    return most


@kernel
def block_diagonal(rows, out):  # type: ignore[no-untyped-def]
    """The diagonal of the matrix."""
    n_states, ptr, col, block = rows.n_states, rows.ptr, rows.col, rows.block
    weight, bank, diagonal = rows.weight, rows.bank, rows.diagonal
    for v in range(len(n_states)):
        for k in range(n_states[v]):
            out[v, k] = diagonal[v, k]
        for j in range(ptr[v], ptr[v + 1]):
            if col[j] == v:
                for k in range(n_states[v]):
                    out[v, k] += weight[j] * bank[block[j], k, k]
