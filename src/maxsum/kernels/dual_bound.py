"""Kernels of the dual bound inside learning: trees on copies of nodes, their best labellings, and what those mean as planes.

A *copy* is a node in one of the trees. The copies of tree ``c`` are ``starts[c] .. starts[c + 1] - 1``, parents first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import carray

from .jit import COMPILED, kernel
from .stack import stack

UNROLLED = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32) if COMPILED else ()


@kernel
def share_scores(copies, scores, phi, first, last, theta):  # type: ignore[no-untyped-def]
    """Scores of the copies of the examples ``first .. last - 1``: a share of their node's, and the messages."""
    n_labels = scores.shape[1]
    for i in range(copies.starts[copies.tree_ptr[first]], copies.starts[copies.tree_ptr[last]]):
        v, share = copies.owner[i], copies.share[i]
        for k in range(n_labels):
            theta[i, k] = share * scores[v, k]
    for r in range(copies.row_ptr[first], copies.row_ptr[last]):
        a, b = copies.free[r], copies.last[r]
        for k in range(n_labels):
            theta[a, k] += phi[r, k]
            theta[b, k] -= phi[r, k]


def best_labellings(n_labels: int) -> Callable[..., None]:
    """The compiled `_make` for a number of labels."""
    return _make(n_labels if n_labels in UNROLLED else 0)


@cache
def _make(constant: int) -> Any:
    @kernel
    def best(  # type: ignore[no-untyped-def]
        starts, n_states, edges, parent_edge, parent_side, edge_table, edge_weight, tables, turned, n_labels, first, last, theta,
        labels, value,
    ):  # fmt: skip
        """Best labellings of the trees ``first .. last - 1`` and their scores, by dynamic programming; arrays are flat.

        ``theta`` holds the scores of the copies and is overwritten.
        """
        K = constant if constant > 0 else n_labels
        out = carray(stack(), (K,)) if constant > 0 else np.empty(K)
        for c in range(first, last):
            for i in range(starts[c + 1] - 1, starts[c], -1):
                e, side = np.intp(parent_edge[np.uintp(i)]), np.intp(parent_side[np.uintp(i)])
                above = np.intp(edges[np.uintp(2 * e + 1 - side)]) * K
                own = i * K
                weight, base = edge_weight[np.uintp(e)], np.intp(edge_table[np.uintp(e)]) * K * K
                for m in range(K):
                    out[m] = -np.inf
                if side == 0:
                    for k in range(n_states[np.uintp(i)]):
                        x, row = theta[np.uintp(own + k)], base + k * K
                        for m in range(K):
                            out[m] = max(out[m], x + weight * tables[np.uintp(row + m)])
                else:
                    for k in range(n_states[np.uintp(i)]):
                        x, row = theta[np.uintp(own + k)], base + k * K
                        for m in range(K):
                            out[m] = max(out[m], x + weight * turned[np.uintp(row + m)])
                for m in range(K):
                    theta[np.uintp(above + m)] += out[m]
            root = starts[c]
            top, label = -np.inf, 0
            for k in range(n_states[np.uintp(root)]):
                if theta[np.uintp(root * K + k)] > top:
                    top, label = theta[np.uintp(root * K + k)], k
            value[c] = top
            labels[np.uintp(root)] = label
            for i in range(starts[c] + 1, starts[c + 1]):
                e, side = np.intp(parent_edge[np.uintp(i)]), np.intp(parent_side[np.uintp(i)])
                other = np.intp(labels[np.uintp(edges[np.uintp(2 * e + 1 - side)])])
                weight, base = edge_weight[np.uintp(e)], np.intp(edge_table[np.uintp(e)]) * K * K + other * K
                own = i * K
                top, label = -np.inf, 0
                if side == 0:
                    for k in range(n_states[np.uintp(i)]):
                        x = theta[np.uintp(own + k)] + weight * turned[np.uintp(base + k)]
                        if x > top:
                            top, label = x, k
                else:
                    for k in range(n_states[np.uintp(i)]):
                        x = theta[np.uintp(own + k)] + weight * tables[np.uintp(base + k)]
                        if x > top:
                            top, label = x, k
                labels[np.uintp(i)] = label

    return best


@kernel
def truth_scores(design, scores, edge_table, edge_weight, tables, first, last, out):  # type: ignore[no-untyped-def]
    """Score of the true labelling of each of the examples ``first .. last - 1``; its loss is 0."""
    for j in range(first, last):
        total = 0.0
        for v in range(design.node_ptr[j], design.node_ptr[j + 1]):
            total += scores[v, design.truth[v]]
        for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
            s, t = design.truth[design.edges[e, 0]], design.truth[design.edges[e, 1]]
            total += edge_weight[e] * tables[edge_table[e], s, t]
        out[j] = total


@kernel
def shared_difference(design, copies, j, labels, dense):  # type: ignore[no-untyped-def]
    r"""Add :math:`z = \Psi(y_j) - \Psi(\text{labels})` to ``dense``, every copy with its share; returns the loss, shared alike."""
    n_labels = design.loss.shape[1]
    loss = 0.0
    for i in range(copies.starts[copies.tree_ptr[j]], copies.starts[copies.tree_ptr[j + 1]]):
        v, share, k = copies.owner[i], copies.share[i], np.intp(labels[i])
        t = design.truth[v]
        if k == t or share == 0.0:
            continue
        loss += share * design.loss[v, k]
        r = v * design.node_step[0] + t * design.node_step[1]
        for q in range(design.x_ptr[r], design.x_ptr[r + 1]):
            p = design.node_index[design.x_col[q], t]
            if p >= 0:
                dense[p] += share * design.x_val[q]
        r = v * design.node_step[0] + k * design.node_step[1]
        for q in range(design.x_ptr[r], design.x_ptr[r + 1]):
            p = design.node_index[design.x_col[q], k]
            if p >= 0:
                dense[p] -= share * design.x_val[q]
    for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
        k, m = np.intp(labels[copies.edges[e, 0]]), np.intp(labels[copies.edges[e, 1]])
        s, t = design.truth[design.edges[e, 0]], design.truth[design.edges[e, 1]]
        if k == s and m == t:
            continue
        r = e * design.edge_step[0] + (s * n_labels + t) * design.edge_step[1]
        for q in range(design.f_ptr[r], design.f_ptr[r + 1]):
            p = design.edge_index[design.f_col[q], s, t]
            if p >= 0:
                dense[p] += design.f_val[q]
        r = e * design.edge_step[0] + (k * n_labels + m) * design.edge_step[1]
        for q in range(design.f_ptr[r], design.f_ptr[r + 1]):
            p = design.edge_index[design.f_col[q], k, m]
            if p >= 0:
                dense[p] -= design.f_val[q]
    return loss


@kernel
def disagreements(copies, j, labels, row, plus, minus):  # type: ignore[no-untyped-def]
    r"""The part of a subgradient in the messages of example ``j``: +1 at (``row``, ``plus``), -1 at (``row``, ``minus``).

    Returns how many rows there are: those whose two copies have different labels.
    """
    n = 0
    for r in range(copies.row_ptr[j], copies.row_ptr[j + 1]):
        a, b = labels[copies.free[r]], labels[copies.last[r]]
        if a != b:
            row[n], plus[n], minus[n] = r, a, b
            n += 1
    return n


@kernel
def add_labelling(copies, design, weight, j, labels, node, edge):  # type: ignore[no-untyped-def]
    """Add ``weight`` times a labelling of the trees of example ``j`` to its tables; a node is the mean of its copies."""
    for i in range(copies.starts[copies.tree_ptr[j]], copies.starts[copies.tree_ptr[j + 1]]):
        node[copies.owner[i], np.intp(labels[i])] += weight
    for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
        edge[e, np.intp(labels[copies.edges[e, 0]]), np.intp(labels[copies.edges[e, 1]])] += weight


@kernel
def message_products(row, plus, minus, ptr, blocks, block, phi, weight, out):  # type: ignore[no-untyped-def]
    r""":math:`\langle\varphi, s_i\rangle` of the stored subgradients of one block (of all if it is -1), 0 for the others; row ``r``
    of a subgradient counts ``weight[r]`` times."""
    for i in range(len(ptr) - 1):
        total = 0.0
        if block >= 0 and blocks[i] != block:
            out[i] = 0.0
            continue
        for q in range(ptr[i], ptr[i + 1]):
            r = row[q]
            total += weight[r] * (phi[r, np.intp(plus[q])] - phi[r, np.intp(minus[q])])
        out[i] = total


@kernel
def combine_messages(row, plus, minus, ptr, alpha, weight, out):  # type: ignore[no-untyped-def]
    r"""Add :math:`\sum_i \alpha_i s_i` to ``out``."""
    for i in range(len(ptr) - 1):
        if alpha[i] != 0.0:
            for q in range(ptr[i], ptr[i + 1]):
                r = row[q]
                out[r, np.intp(plus[q])] += alpha[i] * weight[r]
                out[r, np.intp(minus[q])] -= alpha[i] * weight[r]


@kernel
def add_tree_labellings(copies, planes, c, node, edge):  # type: ignore[no-untyped-def]
    """Add the mixture of labellings that each tree has to the tables; a node is the mean of its copies."""
    for t in range(len(planes.used)):
        first, size = copies.starts[t], copies.starts[t + 1] - copies.starts[t]
        for i in range(planes.used[t]):
            share = planes.alpha[planes.slot_ptr[t] + i] / c[t] if c[t] > 0.0 else 0.0
            if share > 0.0:
                at = planes.pool_ptr[t] + i * size
                for q in range(size):
                    k = planes.pool[at + q]
                    node[copies.owner[first + q], k] += share
                    e = copies.parent_edge[first + q]
                    if e >= 0:
                        side = copies.parent_side[first + q]
                        m = planes.pool[at + copies.edges[e, 1 - side] - first]
                        if side == 0:
                            edge[e, k, m] += share
                        else:
                            edge[e, m, k] += share
