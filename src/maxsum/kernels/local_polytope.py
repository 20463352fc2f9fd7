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
def settle_edges(edges, node, edge, first, last):  # type: ignore[no-untyped-def]
    r"""Edges ``first .. last - 1`` moved, in place, to tables with the marginals that their nodes have.

    Rows are scaled down to :math:`\sum_l P(k,l) \le a(k)`, then columns to :math:`\sum_k P(k,l) \le b(l)`; what is missing,
    :math:`r \ge 0` and :math:`s \ge 0` with equal sums, is added as :math:`r s^\top / \sum r` (Altschuler, Weed & Rigollet 2017).
    A table is changed by at most twice its distance from the marginals. Tables are non-negative before and after.
    """
    n_labels = node.shape[1]
    lack, short = np.empty(n_labels), np.empty(n_labels)
    for e in range(first, last):
        u, v = edges[e, 0], edges[e, 1]
        for k in range(n_labels):
            total = 0.0
            for m in range(n_labels):
                edge[e, k, m] = max(edge[e, k, m], 0.0)
                total += edge[e, k, m]
            if total > node[u, k]:
                scale = node[u, k] / total
                for m in range(n_labels):
                    edge[e, k, m] *= scale
        for m in range(n_labels):
            total = 0.0
            for k in range(n_labels):
                total += edge[e, k, m]
            if total > node[v, m]:
                scale = node[v, m] / total
                for k in range(n_labels):
                    edge[e, k, m] *= scale
                total = node[v, m]
            short[m] = node[v, m] - total
        missing = 0.0
        for k in range(n_labels):
            total = 0.0
            for m in range(n_labels):
                total += edge[e, k, m]
            lack[k] = max(node[u, k] - total, 0.0)
            missing += lack[k]
        if missing > 0.0:
            for k in range(n_labels):
                share = lack[k] / missing
                if share > 0.0:
                    for m in range(n_labels):
                        edge[e, k, m] += share * short[m]


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
