r"""Dual ascent over nodes and edges: each is a block with a simplex of its own, and messages make blocks agree.

Block :math:`t` of nodes has masses :math:`\nu_t(k) \ge 0`, block :math:`e` of edges :math:`\nu_e(k, l) \ge 0`, both with the sum :math:`c` of their example. Steps
ascend

.. math:: \langle L, \nu\rangle - \tfrac12\|w\|^2 - \langle\varphi, d\rangle - \tfrac\rho2\|d\|^2,\qquad w = [\Psi(c\,y) - \Psi(\nu)]_+,\quad
          d_{et}(k) = \nu_t(k) - \textstyle\sum_l \nu_e(k, l),

block by block. Weights and :math:`m = \varphi + \rho d` are all that a block has to know of the others, so these are what is kept.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .simplex import ends, exchange, is_flat, threshold


@kernel
def _node_scores(design, factors, w, messages, v, score):  # type: ignore[no-untyped-def]
    """Scores of the labels of a node less its messages, without the loss; returns that of the truth before messages."""
    n_labels = len(score)
    for k in range(n_labels):
        score[k] = 0.0
    for i in range(design.x_ptr[v], design.x_ptr[v + 1]):
        f, x = design.x_col[i], design.x_val[i]
        base = design.node_base[f]
        if base >= 0:
            row = w[base : base + n_labels]
            for k in range(n_labels):
                score[k] += x * row[k]
        else:
            for k in range(n_labels):
                p = design.node_index[f, k]
                if p >= 0:
                    score[k] += x * w[p]
    truth = score[design.truth[v]]
    for q in range(factors.ptr[v], factors.ptr[v + 1]):
        own = messages[factors.adj_side[q], factors.adj_edge[q]]
        for k in range(n_labels):
            score[k] -= own[k]
    return truth


@kernel
def _edge_scores(design, w, messages, e, score):  # type: ignore[no-untyped-def]
    """Scores of the pairs of an edge, with its messages; returns that of the truth before messages."""
    n_labels = messages.shape[2]
    for pair in range(len(score)):
        score[pair] = 0.0
    for i in range(design.f_ptr[e], design.f_ptr[e + 1]):
        index, x = design.edge_index[design.f_col[i]], design.f_val[i]
        for k in range(n_labels):
            for m in range(n_labels):
                p = index[k, m]
                if p >= 0:
                    score[k * n_labels + m] += x * w[p]
    truth = score[design.truth[design.edges[e, 0]] * n_labels + design.truth[design.edges[e, 1]]]
    for k in range(n_labels):
        for m in range(n_labels):
            score[k * n_labels + m] += messages[0, e, k] + messages[1, e, m]
    return truth


@kernel
def _add(factors, p, amount):  # type: ignore[no-untyped-def]
    """Change a weight; returns by how much it changes after the cut-off."""
    before = factors.value[p]
    factors.plain[p] += amount
    factors.value[p] = max(factors.plain[p], 0.0) if factors.nonneg[p] else factors.plain[p]
    return factors.value[p] - before


@kernel
def _visit_node(design, factors, rho, v, score, change, work):  # type: ignore[no-untyped-def]
    """The best masses of a node, all else fixed: a projection, as its labels meet different weights. Returns its gap before."""
    n, limit, mass = factors.n_states[v], factors.node_limit[v], factors.node[v]
    _node_scores(design, factors, factors.value, factors.messages, v, score)
    top, mean = -np.inf, 0.0
    for k in range(n):
        score[k] += design.loss[v, k]
        top = max(top, score[k])
        mean += score[k] * mass[k]
    curve = factors.node_curve[v] + rho * (factors.ptr[v + 1] - factors.ptr[v])
    if curve > 0.0:
        for k in range(n):
            change[k] = (mass[k] + score[k] / curve) / limit
        tau = threshold(change, n, work)
        for k in range(n):
            change[k] = limit * max(change[k] - tau, 0.0) - mass[k]
    else:  # neither features nor edges: any label with the largest loss
        best = 0
        for k in range(n):
            best = k if score[k] > score[best] else best
        for k in range(n):
            change[k] = (limit if k == best else 0.0) - mass[k]
    for k in range(n):
        if change[k] != 0.0:
            mass[k] = max(mass[k] + change[k], 0.0)
            for i in range(design.x_ptr[v], design.x_ptr[v + 1]):
                p = design.node_index[design.x_col[i], k]
                if p >= 0:
                    _add(factors, p, -design.x_val[i] * change[k])
            for q in range(factors.ptr[v], factors.ptr[v + 1]):
                factors.messages[factors.adj_side[q], factors.adj_edge[q], k] += rho * change[k]
    return limit * top - mean


@kernel
def _visit_edge(design, factors, rho, e, n_steps, score):  # type: ignore[no-untyped-def]
    """Pairwise steps on the masses of an edge; returns its gap before."""
    n_labels, mass, messages = factors.messages.shape[2], factors.edge[e], factors.messages
    first, second = factors.n_states[design.edges[e, 0]], factors.n_states[design.edges[e, 1]]
    _edge_scores(design, factors.value, messages, e, score)
    for k in range(n_labels):
        for m in range(n_labels):
            if k >= first or m >= second:
                score[k * n_labels + m] = -np.inf
    gap = 0.0
    for step in range(n_steps):
        high, low = ends(score, mass, 0, len(mass))
        if step == 0:
            for pair in range(len(mass)):
                if mass[pair] > 0.0:
                    gap += mass[pair] * (score[high] - score[pair])
        if low < 0 or is_flat(score, high, low):
            break
        k, m, s, t = high // n_labels, high % n_labels, low // n_labels, low % n_labels
        curve = 2.0 * rho * ((k != s) + (m != t))
        for i in range(design.f_ptr[e], design.f_ptr[e + 1]):
            if design.edge_index[design.f_col[i], k, m] != design.edge_index[design.f_col[i], s, t]:
                curve += 2.0 * factors.edge_repeat * design.f_val[i] ** 2
        size = exchange(mass, high, low, score[high] - score[low], curve)
        # Weights and messages follow, and the scores of all pairs that they belong to.
        for i in range(design.f_ptr[e], design.f_ptr[e + 1]):
            index, x = design.edge_index[design.f_col[i]].ravel(), design.f_val[i]
            to, back = index[high], index[low]
            if to == back:
                continue
            if to >= 0:
                turn = x * _add(factors, to, -x * size)
                for pair in range(len(mass)):
                    if index[pair] == to:
                        score[pair] += turn
            if back >= 0:
                turn = x * _add(factors, back, x * size)
                for pair in range(len(mass)):
                    if index[pair] == back:
                        score[pair] += turn
        turn = rho * size
        if k != s:
            messages[0, e, k] -= turn
            messages[0, e, s] += turn
            for other in range(n_labels):
                score[k * n_labels + other] -= turn
                score[s * n_labels + other] += turn
        if m != t:
            messages[1, e, m] -= turn
            messages[1, e, t] += turn
            for other in range(n_labels):
                score[other * n_labels + m] -= turn
                score[other * n_labels + t] += turn
    return gap


@kernel
def factor_passes(design, factors, rho, order, n_passes, n_steps):  # type: ignore[no-untyped-def]
    """Visit the blocks ``order`` (nodes, then edges after the number of nodes) so many times; returns the sum of the gaps that they had in the last
    pass."""
    n_nodes, n_labels = factors.node.shape
    score, change, work, pairs = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels * n_labels)
    gap = 0.0
    for _ in range(n_passes):
        gap = 0.0
        for i in order:
            if i < n_nodes:
                gap += _visit_node(design, factors, rho, i, score, change, work)
            else:
                gap += _visit_edge(design, factors, rho, i - n_nodes, n_steps, pairs)
    return gap


@kernel
def agree(design, factors, rho):  # type: ignore[no-untyped-def]
    r"""The step of the multipliers, :math:`m \leftarrow m + \rho d`."""
    n_labels = factors.messages.shape[2]
    for e in range(len(design.edges)):
        table = factors.edge[e].reshape((n_labels, n_labels))
        for k in range(n_labels):
            row, column = 0.0, 0.0
            for m in range(n_labels):
                row += table[k, m]
                column += table[m, k]
            factors.messages[0, e, k] += rho * (factors.node[design.edges[e, 0], k] - row)
            factors.messages[1, e, k] += rho * (factors.node[design.edges[e, 1], k] - column)


@kernel
def message_bounds(design, factors, w, messages, slack):  # type: ignore[no-untyped-def]
    r"""The slack of each example that messages prove for weights: :math:`\sum_t \max_k + \sum_e \max_{kl}` less the score of the truth."""
    n_labels = factors.node.shape[1]
    score, pairs = np.empty(n_labels), np.empty(n_labels * n_labels)
    for j in range(len(slack)):
        total = 0.0
        for v in range(design.node_ptr[j], design.node_ptr[j + 1]):
            truth, top = _node_scores(design, factors, w, messages, v, score), -np.inf
            for k in range(factors.n_states[v]):
                top = max(top, score[k] + design.loss[v, k])
            total += top - truth
        for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
            truth, top = _edge_scores(design, w, messages, e, pairs), -np.inf
            for k in range(factors.n_states[design.edges[e, 0]]):
                for m in range(factors.n_states[design.edges[e, 1]]):
                    top = max(top, pairs[k * n_labels + m])
            total += top - truth
        slack[j] = total
