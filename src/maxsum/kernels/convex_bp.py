r"""Convex belief propagation: the height with every maximum replaced by a soft maximum,

.. math:: U_\epsilon(\varphi) = \sum_v c_v \epsilon \log \sum_k \exp \frac{q^\varphi_v(k)}{c_v \epsilon}
          + \sum_{uv} c_{uv} \epsilon \log \sum_{k,l} \exp \frac{g^\varphi_{uv}(k, l)}{c_{uv} \epsilon}.

It is convex and smooth in the messages. Its derivative by :math:`\varphi_{uv}(k)` is the marginal of the edge's softmax at
:math:`k` less the softmax of the node. Over all messages at one node it is minimised in closed form: with
:math:`m_{uv}(k) = c_{uv} \epsilon \log \sum_l \exp [(g_{uv}(k, l) + \varphi_{vu}(l)) / (c_{uv} \epsilon)]`, all softmaxes at
:math:`u` agree where :math:`\varphi_{uv} = c_{uv} S / C - m_{uv}` for
:math:`S = q_u + \sum_v m_{uv}` and :math:`C = c_u + \sum_v c_{uv}`.

Forbidden pairs and excluded labels have probability 0; messages at excluded labels are left alone.

`chain_sweep` smooths the chains of TRW-S instead of the single terms: its passes are those of `kernels.trws` with soft maxima.
The exponentials of the tables are computed once a temperature, so a message takes K of them and not K^2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .jit import kernel
from .local_polytope import settle_table

_COLDEST = 1e-290  # temperature below which scores divided by it overflow
_NOTHING = -40.0  # exponent below which a term is lost in the rounding of a sum that holds a 1: exp(-40) < 2^-57
_ZERO = -700.0  # exponent below which exponentials are next to the smallest numbers, whose computation is slow
_FAINT = 1e-280  # sum of products below which these may have lost digits: it is computed anew in logarithms
_UNROLLED = (2, 3, 4, 5, 6, 8)  # numbers of labels for which loops are unrolled; each costs a compilation


@kernel
def _exp(x):  # type: ignore[no-untyped-def]
    """``exp(x)``, and 0 where the exact value is next to the smallest numbers (whose computation is slow)."""
    return np.exp(x) if x > _ZERO else 0.0


@kernel
def _node_beliefs(net, messages, v, heat, belief):  # type: ignore[no-untyped-def]
    """Softmax of the reparametrised scores of ``v`` into ``belief``; returns their soft maximum."""
    states = net.n_states[v]
    for k in range(states):
        belief[k] = net.unary[v, k]
    for i in range(net.ptr[v], net.ptr[v + 1]):
        e, side = net.adj_edge[i], net.adj_side[i]
        for k in range(states):
            belief[k] -= messages[side, e, k]
    top = -np.inf
    for k in range(states):
        top = max(top, belief[k])
    total = 0.0
    for k in range(states):
        belief[k] = _exp((belief[k] - top) / heat)
        total += belief[k]
    for k in range(states):
        belief[k] /= total
    return top + heat * np.log(total)


@kernel
def _edge_beliefs(net, messages, e, heat, table):  # type: ignore[no-untyped-def]
    """Softmax of the reparametrised table of edge ``e`` into ``table``; returns its soft maximum."""
    u, v = net.edges[e, 0], net.edges[e, 1]
    t, weight, n_first, n_second = net.edge_table[e], net.edge_weight[e], net.n_states[u], net.n_states[v]
    top = -np.inf
    for k in range(n_first):
        for m in range(n_second):
            inside = net.unary[u, k] > -np.inf and net.unary[v, m] > -np.inf
            table[k, m] = weight * net.tables[t, k, m] + messages[0, e, k] + messages[1, e, m] if inside else -np.inf
            top = max(top, table[k, m])
    total = 0.0
    for k in range(n_first):
        for m in range(n_second):
            table[k, m] = _exp((table[k, m] - top) / heat)
            total += table[k, m]
    for k in range(n_first):
        for m in range(n_second):
            table[k, m] /= total
    return top + heat * np.log(total)


@kernel
def smoothed_height(net, messages, epsilon, node_count, edge_count, gradient, beliefs):  # type: ignore[no-untyped-def]
    """Value of the smoothed height; fills its gradient (2, E, K) by the edge messages and the node beliefs (N, K)."""
    n_labels = net.unary.shape[1]
    table = np.empty((n_labels, n_labels))
    value = 0.0
    beliefs[:] = 0.0
    for v in range(len(net.n_states)):
        value += _node_beliefs(net, messages, v, max(node_count[v] * epsilon, _COLDEST), beliefs[v])
    for e in range(len(net.edges)):
        u, v = net.edges[e, 0], net.edges[e, 1]
        value += _edge_beliefs(net, messages, e, max(edge_count[e] * epsilon, _COLDEST), table)
        for k in range(n_labels):
            gradient[0, e, k] = -beliefs[u, k]
            gradient[1, e, k] = -beliefs[v, k]
        for k in range(net.n_states[u]):
            for m in range(net.n_states[v]):
                gradient[0, e, k] += table[k, m]
                gradient[1, e, m] += table[k, m]
    return value


@kernel
def _soft_push(tables, t, weight, unary, messages, e, side, v, w, n_own, n_other, heat, row, out):  # type: ignore[no-untyped-def]
    """``out[k] = heat log sum_l exp((g(k, l) + message(l)) / heat)`` for the labels ``k`` at end ``side`` of the edge."""
    cold = 1.0 / heat
    for k in range(n_own):
        if unary[v, k] == -np.inf:
            out[k] = -np.inf
            continue
        top = -np.inf
        for m in range(n_other):
            score = tables[t, k, m] if side == 0 else tables[t, m, k]
            row[m] = weight * score + messages[1 - side, e, m] if unary[w, m] > -np.inf else -np.inf
            top = max(top, row[m])
        total = 0.0
        for m in range(n_other):
            x = (row[m] - top) * cold
            if x > _NOTHING:
                total += np.exp(x)
        out[k] = top + heat * np.log(total)


@kernel
def star_sweep(net, messages, epsilon, node_count, edge_count, forward):  # type: ignore[no-untyped-def]
    """Minimise the smoothed height over the messages of each node in turn, in place."""
    n_nodes, n_labels = net.unary.shape
    degree = 0
    for v in range(n_nodes):
        degree = max(degree, net.ptr[v + 1] - net.ptr[v])
    inward, total, row = np.empty((degree, n_labels)), np.empty(n_labels), np.empty(n_labels)
    for step in range(n_nodes):
        v = step if forward else n_nodes - 1 - step
        states, start = net.n_states[v], net.ptr[v]
        for k in range(states):
            total[k] = net.unary[v, k]
        count = node_count[v]
        for i in range(start, net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            w, t, weight, heat = net.edges[e, 1 - side], net.edge_table[e], net.edge_weight[e], edge_count[e] * epsilon
            _soft_push(
                net.tables, t, weight, net.unary, messages, e, side, v, w, states, net.n_states[w], max(heat, _COLDEST), row,
                inward[i - start],
            )  # fmt: skip
            count += edge_count[e]
            top = -np.inf
            for k in range(states):
                top = max(top, inward[i - start, k])
            for k in range(states):
                inward[i - start, k] -= top
                total[k] += inward[i - start, k]
        top = -np.inf
        for k in range(states):
            top = max(top, total[k])
        for i in range(start, net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            share = edge_count[e] / count
            for k in range(states):
                if net.unary[v, k] > -np.inf:
                    messages[side, e, k] = share * (total[k] - top) - inward[i - start, k]


@kernel
def relaxed_value(net, messages, epsilon, edge_count, beliefs):  # type: ignore[no-untyped-def]
    r"""Score of a point of the local polytope: a lower bound on the value of its linear program.

    The node beliefs are kept, and those of each edge are moved to them by `settle_table`.
    Where this puts weight on a forbidden pair the answer is ``-inf``.
    """
    n_labels = net.unary.shape[1]
    table, short, lack = np.empty((n_labels, n_labels)), np.empty(n_labels), np.empty(n_labels)
    value = 0.0
    for v in range(len(net.n_states)):
        for k in range(net.n_states[v]):
            if beliefs[v, k] > 0.0:
                value += beliefs[v, k] * net.unary[v, k]
    for e in range(len(net.edges)):
        u, v = net.edges[e, 0], net.edges[e, 1]
        t, weight, n_first, n_second = net.edge_table[e], net.edge_weight[e], net.n_states[u], net.n_states[v]
        _edge_beliefs(net, messages, e, max(edge_count[e] * epsilon, _COLDEST), table)
        settle_table(beliefs, u, v, n_first, n_second, table, lack, short)
        for k in range(n_first):
            for m in range(n_second):
                if table[k, m] > 0.0:
                    value += table[k, m] * (weight * net.tables[t, k, m])
    return value


@cache
def chain_sweep(n_labels: int) -> Callable[..., float]:
    """One pass of TRW-S with soft maxima; the number of labels is a constant of the compiled code where it is small.

    ``bank[bank_of[e]]`` are the exponentials of the scores of edge ``e`` less their largest ``peaks[bank_of[e]]``; ``turned`` is
    the bank transposed, or empty. ``visited`` gets, for each node, its share of the reparametrised scores when it is visited:
    its beliefs are their softmax. Returns the smoothed bound.
    """
    return _make_chain_sweep(n_labels if n_labels in _UNROLLED else 0)


@kernel
def _soft_score(tables, t, weight, side, own, label, heat):  # type: ignore[no-untyped-def]
    """``heat log sum_k exp((own(k) + g(k, label)) / heat)``, also where the exponentials of the scores underflow."""
    top = -np.inf
    for k in range(len(own)):
        score = tables[t, k, label] if side == 0 else tables[t, label, k]
        top = max(top, own[k] + weight * score)
    total = 0.0
    for k in range(len(own)):
        score = tables[t, k, label] if side == 0 else tables[t, label, k]
        total += _exp((own[k] + weight * score - top) / heat)
    return top + heat * np.log(total)


def _make_chain_sweep(constant: int) -> Any:
    @kernel
    def sweep(  # type: ignore[no-untyped-def]
        unary, edges, edge_table, edge_weight, tables, ptr, adj_edge, adj_side, bank_of, bank, turned, peaks, messages, visited,
        epsilon, forward,
    ):  # fmt: skip
        n_nodes = unary.shape[0]
        n_labels = constant if constant > 0 else unary.shape[1]
        theta, own, weights, out = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
        cold, bound = 1.0 / epsilon, 0.0
        for step in range(n_nodes):
            v = step if forward else n_nodes - 1 - step
            first, last = ptr[v], ptr[v + 1]
            for k in range(n_labels):
                theta[k] = unary[v, k]
            n_later = 0
            for i in range(first, last):
                e, side = adj_edge[i], adj_side[i]
                for k in range(n_labels):
                    theta[k] -= messages[side, e, k]
                if (edges[e, 1 - side] > v) == forward:
                    n_later += 1
            share = 1.0 / max(n_later, last - first - n_later, 1)
            top = -np.inf
            for k in range(n_labels):
                theta[k] *= share
                visited[v, k] = theta[k]
                top = max(top, theta[k])
            if n_later * share < 1.0:
                total = 0.0
                for k in range(n_labels):
                    total += _exp((theta[k] - top) * cold)
                bound += (1.0 / share - n_later) * (top + epsilon * np.log(total))
            for i in range(first, last):
                e, side = adj_edge[i], adj_side[i]
                w = edges[e, 1 - side]
                if (w > v) != forward:
                    continue
                high = -np.inf
                for k in range(n_labels):
                    own[k] = messages[side, e, k] + theta[k]
                    high = max(high, own[k])
                for k in range(n_labels):
                    messages[side, e, k] = own[k] if own[k] > -np.inf else 0.0
                    weights[k] = _exp((own[k] - high) * cold)
                    out[k] = 0.0
                b = bank_of[e]
                if side == 1 and not len(turned):
                    for k in range(n_labels):
                        total = 0.0
                        for m in range(n_labels):
                            total += weights[m] * bank[b, k, m]
                        out[k] = total
                elif side == 0:
                    for k in range(n_labels):
                        for m in range(n_labels):
                            out[m] += weights[k] * bank[b, k, m]
                else:
                    for k in range(n_labels):
                        for m in range(n_labels):
                            out[m] += weights[k] * turned[b, k, m]
                total, least = 0.0, np.inf
                for m in range(n_labels):
                    if unary[w, m] > -np.inf:
                        total += out[m]
                        least = min(least, out[m])
                if least > _FAINT:
                    bound += high + peaks[b] + epsilon * np.log(total)
                    for m in range(n_labels):
                        messages[1 - side, e, m] = epsilon * np.log(total / out[m]) if unary[w, m] > -np.inf else 0.0
                    continue
                top = -np.inf
                for m in range(n_labels):
                    if unary[w, m] > -np.inf:
                        out[m] = _soft_score(tables, edge_table[e], edge_weight[e], side, own, m, epsilon)
                        top = max(top, out[m])
                total = 0.0
                for m in range(n_labels):
                    if unary[w, m] > -np.inf:
                        total += _exp((out[m] - top) * cold)
                top += epsilon * np.log(total)
                bound += top
                for m in range(n_labels):
                    messages[1 - side, e, m] = top - out[m] if unary[w, m] > -np.inf else 0.0
        return bound

    return sweep


@kernel
def chain_beliefs(unary, edges, messages, visited, epsilon, forward, joined, beliefs):  # type: ignore[no-untyped-def]
    """After a pass: node beliefs, and messages ``joined`` for which the softmax of an edge's table is its belief.

    Returns the largest change of a node belief since ``beliefs`` was filled last.
    """
    n_nodes, n_labels = unary.shape
    change = 0.0
    for v in range(n_nodes):
        top, total = -np.inf, 0.0
        for k in range(n_labels):
            top = max(top, visited[v, k])
        for k in range(n_labels):
            total += _exp((visited[v, k] - top) / epsilon)
        for k in range(n_labels):
            new = _exp((visited[v, k] - top) / epsilon) / total
            change = max(change, abs(new - beliefs[v, k]))
            beliefs[v, k] = new
    for e in range(len(edges)):
        last = 1 if (edges[e, 1] > edges[e, 0]) == forward else 0
        v = edges[e, last]
        for k in range(n_labels):
            joined[1 - last, e, k] = messages[1 - last, e, k]
            joined[last, e, k] = messages[last, e, k] + visited[v, k] if unary[v, k] > -np.inf else 0.0
    return change
