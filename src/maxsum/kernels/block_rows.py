"""Symmetric matrices by rows of shared blocks, and their products."""

from __future__ import annotations

from .jit import kernel


@kernel
def add_block(bank, b, w, x, u, others, out, v, states):  # type: ignore[no-untyped-def]
    """``out[v] += w x[u] bank[b]``, four entries of ``x[u]`` that are not 0 at a time."""
    count, i0, i1, i2, x0, x1, x2 = 0, 0, 0, 0, 0.0, 0.0, 0.0
    for i in range(others):
        x3 = x[u, i]
        if x3 == 0.0:
            continue
        x3 *= w
        if count == 0:
            i0, x0 = i, x3
        elif count == 1:
            i1, x1 = i, x3
        elif count == 2:
            i2, x2 = i, x3
        else:
            for k in range(states):
                out[v, k] += (bank[b, i0, k] * x0 + bank[b, i1, k] * x1) + (bank[b, i2, k] * x2 + bank[b, i, k] * x3)
            count = -1
        count += 1
    if count == 1:
        for k in range(states):
            out[v, k] += bank[b, i0, k] * x0
    elif count == 2:
        for k in range(states):
            out[v, k] += bank[b, i0, k] * x0 + bank[b, i1, k] * x1
    elif count == 3:
        for k in range(states):
            out[v, k] += (bank[b, i0, k] * x0 + bank[b, i1, k] * x1) + bank[b, i2, k] * x2


@kernel
def multiply(rows, x, out, first, last):  # type: ignore[no-untyped-def]
    """``out = Theta x`` for the nodes ``first .. last - 1``; returns ``<x, out>`` and ``<out, out>`` over them."""
    n_states, ptr, col, block = rows.n_states, rows.ptr, rows.col, rows.block
    weight, bank, diagonal = rows.weight, rows.bank, rows.diagonal
    inner, square = 0.0, 0.0
    for v in range(first, last):
        states = n_states[v]
        for k in range(states):
            out[v, k] = diagonal[v, k] * x[v, k]
        for j in range(ptr[v], ptr[v + 1]):
            u = col[j]
            add_block(bank, block[j], weight[j], x, u, n_states[u], out, v, states)
        for k in range(states):
            inner += x[v, k] * out[v, k]
            square += out[v, k] * out[v, k]
    return inner, square
