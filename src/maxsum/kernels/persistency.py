"""What each label of a box loses: the fast twin of `core.persistency` for problems without hard constraints and cliques."""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def box_losses(  # type: ignore[no-untyped-def]
    unary, edges, edge_table, edge_weight, tables, ptr, adj_edge, adj_side, messages, domain, labels, loss
):
    r"""How far the best of a box may lie above a known labelling; what each of its labels loses is put into ``loss``.

    With :math:`\theta` the reparametrised scores and maxima over the labels in ``domain`` (uint8, some at each node), the
    answer is :math:`\sum_v (\max \theta_v - \theta_v(y_v)) + \sum_{uv} (\max \theta_{uv} - \theta_{uv}(y_u, y_v))`, and
    ``loss[v, k]`` sums what ``k`` falls short of these maxima at the node and its edges.
    """
    n_nodes, n_labels = unary.shape
    theta, first, second = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    total = 0.0
    for v in range(n_nodes):
        for k in range(n_labels):
            theta[k] = unary[v, k]
        for i in range(ptr[v], ptr[v + 1]):
            e, side = adj_edge[i], adj_side[i]
            for k in range(n_labels):
                theta[k] -= messages[side, e, k]
        top = -np.inf
        for k in range(n_labels):
            if domain[v, k]:
                top = max(top, theta[k])
        for k in range(n_labels):
            loss[v, k] = top - theta[k]
        total += top - theta[labels[v]]
    for e in range(len(edge_table)):
        u, v, t, weight = edges[e, 0], edges[e, 1], edge_table[e], edge_weight[e]
        for k in range(n_labels):
            second[k] = -np.inf
        top = -np.inf
        for k in range(n_labels):
            first[k] = -np.inf
            if not domain[u, k]:
                continue
            for m in range(n_labels):
                if domain[v, m]:
                    value = (messages[0, e, k] + weight * tables[t, k, m]) + messages[1, e, m]
                    first[k] = max(first[k], value)
                    second[m] = max(second[m], value)
            top = max(top, first[k])
        for k in range(n_labels):
            if domain[u, k]:
                loss[u, k] += top - first[k]
            if domain[v, k]:
                loss[v, k] += top - second[k]
        k, m = labels[u], labels[v]
        total += top - ((messages[0, e, k] + weight * tables[t, k, m]) + messages[1, e, m])
    return total
