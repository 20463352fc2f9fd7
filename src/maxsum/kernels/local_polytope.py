"""Pseudo-marginals made consistent: any non-negative node and edge tables moved into the local polytope."""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def settle_nodes(n_states, node, first, last):  # type: ignore[no-untyped-def]
    """Nodes ``first .. last - 1`` made distributions over their own labels, in place; an empty row becomes uniform."""
    n_labels = node.shape[1]
    for v in range(first, last):
        total = 0.0
        for k in range(n_states[v]):
            node[v, k] = max(node[v, k], 0.0)
            total += node[v, k]
        for k in range(n_states[v], n_labels):
            node[v, k] = 0.0
        for k in range(n_states[v]):
            node[v, k] = node[v, k] / total if total > 0 else 1.0 / n_states[v]


@kernel
def add_edge_marginals(edges, edge, node):  # type: ignore[no-untyped-def]
    """Add both marginals of each edge table to the rows of its nodes, so that `settle_nodes` makes their average."""
    n_labels = node.shape[1]
    for e in range(len(edges)):
        u, v = edges[e, 0], edges[e, 1]
        for k in range(n_labels):
            for m in range(n_labels):
                node[u, k] += edge[e, k, m]
                node[v, m] += edge[e, k, m]


@kernel
def settle_table(node, u, v, n_first, n_second, table, lack, short):  # type: ignore[no-untyped-def]
    r"""A non-negative table moved, in place, to one with the marginals :math:`a` = ``node[u]`` and :math:`b` = ``node[v]``.

    Rows are scaled down to :math:`\sum_l P(k,l) \le a(k)`, then columns to :math:`\sum_k P(k,l) \le b(l)`; what is missing,
    :math:`r \ge 0` and :math:`s \ge 0` with equal sums, is added as :math:`r s^\top / \sum r` (Altschuler, Weed & Rigollet 2017).
    The table is changed by at most twice its distance from the marginals. ``lack`` and ``short`` are scratch.
    """
    for k in range(n_first):
        total = 0.0
        for m in range(n_second):
            total += table[k, m]
        scale = min(1.0, node[u, k] / total) if total > 0.0 else 0.0
        lack[k] = node[u, k]
        for m in range(n_second):
            table[k, m] *= scale
    missing = 0.0
    for m in range(n_second):
        total = 0.0
        for k in range(n_first):
            total += table[k, m]
        scale = min(1.0, node[v, m] / total) if total > 0.0 else 0.0
        short[m] = max(node[v, m] - scale * total, 0.0)
        for k in range(n_first):
            table[k, m] *= scale
            lack[k] -= table[k, m]
    for k in range(n_first):
        lack[k] = max(lack[k], 0.0)
        missing += lack[k]
    if missing > 0.0:
        for k in range(n_first):
            share = lack[k] / missing
            if share > 0.0:
                for m in range(n_second):
                    table[k, m] += share * short[m]


@kernel
def settle_edges(edges, node, edge, first, last):  # type: ignore[no-untyped-def]
    """Edges ``first .. last - 1`` moved, in place, to non-negative tables with the marginals that their nodes have."""
    n_labels = node.shape[1]
    lack, short = np.empty(n_labels), np.empty(n_labels)
    for e in range(first, last):
        table = edge[e]
        for k in range(n_labels):
            for m in range(n_labels):
                table[k, m] = max(table[k, m], 0.0)
        settle_table(node, edges[e, 0], edges[e, 1], n_labels, n_labels, table, lack, short)


@kernel
def expected_difference(design, c, node, edge, first, last, out):  # type: ignore[no-untyped-def]
    r"""Add :math:`\sum_j c_j (\Psi(y_j) - \Psi(\mu_j))` of the examples ``first .. last - 1`` to ``out``; returns
    :math:`\sum_j c_j \langle L_j, \mu_j\rangle`."""
    n_labels = design.loss.shape[1]
    value = 0.0
    for j in range(first, last):
        for v in range(design.node_ptr[j], design.node_ptr[j + 1]):
            t = design.truth[v]
            if node[v, t] == 1.0:
                continue
            for k in range(n_labels):
                amount = -c[j] * node[v, k]
                if k == t:
                    amount += c[j]
                else:
                    value -= amount * design.loss[v, k]
                if amount == 0.0:
                    continue
                r = v * design.node_step[0] + k * design.node_step[1]
                for i in range(design.x_ptr[r], design.x_ptr[r + 1]):
                    p = design.node_index[design.x_col[i], k]
                    if p >= 0:
                        out[p] += amount * design.x_val[i]
        for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
            s, t = design.truth[design.edges[e, 0]], design.truth[design.edges[e, 1]]
            if edge[e, s, t] == 1.0:
                continue
            for k in range(n_labels):
                for m in range(n_labels):
                    amount = -c[j] * edge[e, k, m]
                    if k == s and m == t:
                        amount += c[j]
                    if amount == 0.0:
                        continue
                    r = e * design.edge_step[0] + (k * n_labels + m) * design.edge_step[1]
                    for i in range(design.f_ptr[r], design.f_ptr[r + 1]):
                        p = design.edge_index[design.f_col[i], k, m]
                        if p >= 0:
                            out[p] += amount * design.f_val[i]
    return value
