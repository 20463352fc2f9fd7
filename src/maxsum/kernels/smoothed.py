r"""LP-M3N with soft maxima: every :math:`\max_k \theta(k)` of the dual bound (3) of Franc & Laskov 2011 becomes
:math:`\epsilon\log\sum_k e^{\theta(k)/\epsilon}`, for nodes and for edges (Hazan & Urtasun 2010, counting numbers 1).

The gradient is a difference of beliefs: softmaxes of nodes, and of edges with their two marginals. Over the messages at one node
the minimum has a closed form (see `kernels.convex_bp`). Tables come as exponentials
``bank[b] = exp((table - peak[b]) / epsilon)``, so that a message takes K exponentials and K logarithms, not K^2; where those
underflow, everything is computed anew from the tables.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .local_polytope import settle_table

ZERO = -700.0
_FAINT = 1e-250  # sum of products below which these may have lost digits: it is computed anew from the tables


@kernel
def _exp(x):  # type: ignore[no-untyped-def]
    """``exp(x)``, and 0 where the exact value is next to the smallest numbers (whose computation is slow)."""
    return np.exp(x) if x > ZERO else 0.0


@kernel
def _slow_push(tables, t, side, messages, e, n_own, n_other, heat, out):  # type: ignore[no-untyped-def]
    """``out[k] = heat log sum_l exp((g(k, l) + message(l)) / heat)``, also where the exponentials of the tables underflow."""
    for k in range(n_own):
        top = -np.inf
        for m in range(n_other):
            score = tables[t, k, m] if side == 0 else tables[t, m, k]
            top = max(top, score + messages[1 - side, e, m])
        total = 0.0
        for m in range(n_other):
            score = tables[t, k, m] if side == 0 else tables[t, m, k]
            total += _exp((score + messages[1 - side, e, m] - top) / heat)
        out[k] = top + heat * np.log(total)


@kernel
def sweep(soft, messages, heat, j, forward):  # type: ignore[no-untyped-def]
    """Minimise the smoothed bound of example ``j`` over the messages of each node in turn, in place."""
    n_states, edges, ptr, adj_edge, adj_side = soft.n_states, soft.edges, soft.ptr, soft.adj_edge, soft.adj_side
    unary, table_of, bank, turned = soft.unary, soft.table_of, soft.bank, soft.turned
    first, last, n_labels = soft.node_ptr[j], soft.node_ptr[j + 1], soft.unary.shape[1]
    degree = 0
    for v in range(first, last):
        degree = max(degree, ptr[v + 1] - ptr[v])
    inward, total, share = np.empty((degree, n_labels)), np.empty(n_labels), np.empty(n_labels)
    cold = 1.0 / heat
    for step in range(last - first):
        v = first + step if forward else last - 1 - step
        own, start, stop = n_states[v], ptr[v], ptr[v + 1]
        if start == stop:
            continue
        for k in range(own):
            total[k] = unary[v, k]
        for i in range(start, stop):
            e, side = adj_edge[i], adj_side[i]
            t, other, row = table_of[e], n_states[edges[e, 1 - side]], i - start
            top = -np.inf
            for m in range(other):
                top = max(top, messages[1 - side, e, m])
            for k in range(own):
                inward[row, k] = 0.0
            for m in range(other):
                share[m] = _exp((messages[1 - side, e, m] - top) * cold)
                if side == 0:
                    for k in range(own):
                        inward[row, k] += share[m] * turned[t, m, k]
                else:
                    for k in range(own):
                        inward[row, k] += share[m] * bank[t, m, k]
            least, most = np.inf, -np.inf
            for k in range(own):
                least = min(least, inward[row, k])
            if least > _FAINT:
                for k in range(own):
                    inward[row, k] = heat * np.log(inward[row, k])
            else:
                _slow_push(soft.tables, t, side, messages, e, own, other, heat, inward[row])
            for k in range(own):
                most = max(most, inward[row, k])
            for k in range(own):
                inward[row, k] -= most
                total[k] += inward[row, k]
        top = -np.inf
        for k in range(own):
            top = max(top, total[k])
        part = 1.0 / (1.0 + (stop - start))
        for i in range(start, stop):
            e, side, row, mean = adj_edge[i], adj_side[i], i - start, 0.0
            for k in range(own):
                inward[row, k] = part * (total[k] - top) - inward[row, k]
                mean += inward[row, k]
            mean /= own
            for k in range(own):
                messages[side, e, k] = inward[row, k] - mean


@kernel
def node_beliefs(soft, messages, heat, j, beliefs):  # type: ignore[no-untyped-def]
    """Softmaxes of the nodes of example ``j`` into ``beliefs``; returns the sum of (soft maximum less score of the truth), and of
    (maximum less score of the truth)."""
    n_states, ptr, adj_edge, adj_side, unary = soft.n_states, soft.ptr, soft.adj_edge, soft.adj_side, soft.unary
    cold, value, hard = 1.0 / heat, 0.0, 0.0
    for v in range(soft.node_ptr[j], soft.node_ptr[j + 1]):
        own = n_states[v]
        for k in range(own):
            beliefs[v, k] = unary[v, k]
        for i in range(ptr[v], ptr[v + 1]):
            e, side = adj_edge[i], adj_side[i]
            for k in range(own):
                beliefs[v, k] -= messages[side, e, k]
        top = -np.inf
        for k in range(own):
            top = max(top, beliefs[v, k])
        right = top - beliefs[v, soft.truth[v]]
        total = 0.0
        for k in range(own):
            beliefs[v, k] = _exp((beliefs[v, k] - top) * cold)
            total += beliefs[v, k]
        for k in range(own):
            beliefs[v, k] /= total
        for k in range(own, beliefs.shape[1]):
            beliefs[v, k] = 0.0
        value += right + heat * np.log(total)
        hard += right
    return value, hard


@kernel
def _edge_beliefs(tables, bank, t, peak, messages, e, n_first, n_second, heat, left, right, table):  # type: ignore[no-untyped-def]
    """Softmax of the reparametrised table of edge ``e`` into ``table``; returns its soft maximum."""
    cold, high, low = 1.0 / heat, -np.inf, -np.inf
    for k in range(n_first):
        high = max(high, messages[0, e, k])
    for m in range(n_second):
        low = max(low, messages[1, e, m])
    for k in range(n_first):
        left[k] = _exp((messages[0, e, k] - high) * cold)
    for m in range(n_second):
        right[m] = _exp((messages[1, e, m] - low) * cold)
    total = 0.0
    for k in range(n_first):
        for m in range(n_second):
            table[k, m] = left[k] * right[m] * bank[t, k, m]
            total += table[k, m]
    top = high + low + peak
    if not total > _FAINT:
        top, total = -np.inf, 0.0
        for k in range(n_first):
            for m in range(n_second):
                table[k, m] = tables[t, k, m] + messages[0, e, k] + messages[1, e, m]
                top = max(top, table[k, m])
        for k in range(n_first):
            for m in range(n_second):
                table[k, m] = _exp((table[k, m] - top) * cold)
                total += table[k, m]
    for k in range(n_first):
        for m in range(n_second):
            table[k, m] /= total
    return top + heat * np.log(total)


@kernel
def measure(soft, messages, heat, j, beliefs, marginals, keep):  # type: ignore[no-untyped-def]
    r"""Smoothed slack of example ``j``, the most by which better messages could lower it, and the slack without smoothing.

    Node beliefs are kept and the beliefs :math:`P_e` of each edge moved to tables :math:`P'_e` with their marginals; this point of
    the local polytope proves that the smoothed slack is at most :math:`\epsilon\sum_e KL(P'_e\|P_e)` above its minimum.
    ``marginals`` (E, K, K) is filled with the :math:`P'_e` if ``keep``.
    """
    value, hard = node_beliefs(soft, messages, heat, j, beliefs)
    n_states, edges, tables, n_labels = soft.n_states, soft.edges, soft.tables, soft.unary.shape[1]
    left, right, table = np.empty(n_labels), np.empty(n_labels), np.empty((n_labels, n_labels))
    error = 0.0
    for e in range(soft.edge_ptr[j], soft.edge_ptr[j + 1]):
        u, v, t = edges[e, 0], edges[e, 1], soft.table_of[e]
        n_first, n_second = n_states[u], n_states[v]
        height = _edge_beliefs(tables, soft.bank, t, soft.peaks[t], messages, e, n_first, n_second, heat, left, right, table)
        s, r = soft.truth[u], soft.truth[v]
        at_truth = tables[t, s, r] + messages[0, e, s] + messages[1, e, r]
        value += height - at_truth
        settle_table(beliefs, u, v, n_first, n_second, table, left, right)
        top = -np.inf
        for k in range(n_first):
            for m in range(n_second):
                score = tables[t, k, m] + messages[0, e, k] + messages[1, e, m]
                top = max(top, score)
                if table[k, m] > 0.0:
                    error += table[k, m] * (heat * np.log(table[k, m]) - (score - height))
        hard += top - at_truth
        if keep:
            for k in range(n_labels):
                for m in range(n_labels):
                    marginals[e, k, m] = table[k, m] if k < n_first and m < n_second else 0.0
    return value, max(error, 0.0), hard


@kernel
def _leap(messages, before, first, last, speed):  # type: ignore[no-untyped-def]
    """Go on by ``speed`` times the last step; ``before`` gets where it started."""
    for side in range(2):
        for e in range(first, last):
            for k in range(messages.shape[2]):
                now = messages[side, e, k]
                messages[side, e, k] = now + speed * (now - before[0, side, e, k])
                before[0, side, e, k] = now
                before[1, side, e, k] = messages[side, e, k]


@kernel
def _turns_back(messages, before, first, last):  # type: ignore[no-untyped-def]
    """Whether the sweeps went against the direction of the leap."""
    inner = 0.0
    for side in range(2):
        for e in range(first, last):
            for k in range(messages.shape[2]):
                now = messages[side, e, k]
                inner += (before[1, side, e, k] - now) * (now - before[0, side, e, k])
    return inner > 0.0


@kernel
def relax(soft, messages, heat, c, allowed, n_rounds, first, last, before, beliefs, marginals, out):  # type: ignore[no-untyped-def]
    """Improve the messages of each of the examples ``first .. last - 1`` until ``c * error`` is at most ``allowed``.

    A round is a sweep forwards and one backwards, with momentum that starts anew where it leads astray. ``before`` (2, 2, E, K) is
    work space. ``out[:, j]`` gets smoothed slack, error, slack without smoothing, and the rounds done; node beliefs and edge
    marginals are those of the last messages.
    """
    for j in range(first, last):
        start, stop = soft.edge_ptr[j], soft.edge_ptr[j + 1]
        done, pause, pace = 0, 1, 0.0
        while True:
            value, error, hard = measure(soft, messages, heat, j, beliefs, marginals, True)
            if not c[j] * error > allowed[j] or done >= n_rounds:
                break
            for _ in range(min(pause, n_rounds - done)):
                faster = 0.5 + np.sqrt(0.25 + pace * pace)
                _leap(messages, before, start, stop, max(pace - 1.0, 0.0) / faster)
                pace = faster
                for back in range(2):
                    sweep(soft, messages, heat, j, back == 0)
                done += 1
                if _turns_back(messages, before, start, stop):
                    pace = 0.0
            pause = max(1, done // 3)
        out[0, j], out[1, j], out[2, j], out[3, j] = value, error, hard, done


@kernel
def message_gradient(soft, messages, heat, c, first, last, beliefs, marginals, gradient):  # type: ignore[no-untyped-def]
    """Derivative (2, E, K) of the smoothed slacks of the examples ``first .. last - 1``, times ``c``, by their messages. Softmaxes
    of nodes and edges are filled in; they give the derivative by the weights. Returns the sum of ``c`` times the slacks."""
    n_states, edges, tables, n_labels = soft.n_states, soft.edges, soft.tables, soft.unary.shape[1]
    left, right, table = np.empty(n_labels), np.empty(n_labels), np.empty((n_labels, n_labels))
    total = 0.0
    for j in range(first, last):
        value, _ = node_beliefs(soft, messages, heat, j, beliefs)
        for e in range(soft.edge_ptr[j], soft.edge_ptr[j + 1]):
            u, v, t = edges[e, 0], edges[e, 1], soft.table_of[e]
            n_first, n_second = n_states[u], n_states[v]
            value += _edge_beliefs(
                tables, soft.bank, t, soft.peaks[t], messages, e, n_first, n_second, heat, left, right, table
            )
            value -= tables[t, soft.truth[u], soft.truth[v]] + messages[0, e, soft.truth[u]] + messages[1, e, soft.truth[v]]
            for k in range(n_labels):
                gradient[0, e, k] = -c[j] * beliefs[u, k]
                gradient[1, e, k] = -c[j] * beliefs[v, k]
                for m in range(n_labels):
                    marginals[e, k, m] = table[k, m] if k < n_first and m < n_second else 0.0
            for k in range(n_first):
                for m in range(n_second):
                    gradient[0, e, k] += c[j] * table[k, m]
                    gradient[1, e, m] += c[j] * table[k, m]
        total += c[j] * value
    return total
