r"""Sums over all labellings of a forest: :math:`\log Z = \log\sum_y e^{F(y)}` with the marginals of nodes and edges.

Leaves to root, then back, component by component, in products of exponentials that are scaled node by node: a message takes
:math:`K^2` multiplications and no exponential. Where numbers leave the safe range (scores that differ by hundreds, ``-inf``) a
component is computed anew in logarithms.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

FAINT = 1e-150
_SMALL = 1e-20  # largest entry below which the products of a node are scaled, long before they underflow


@kernel
def _products(forest, unary, c, amount, slot, node, up, edge):  # type: ignore[no-untyped-def]
    """`log_sums` of component ``c`` in scaled products; (False, 0) where they might lose digits, with ``edge`` untouched."""
    n_states, edges, order = forest.n_states, forest.edges, forest.order
    parent_edge, parent_side, bank, turned = forest.parent_edge, forest.parent_side, forest.bank, forest.turned
    first, last, log_z = forest.starts[c], forest.starts[c + 1], 0.0
    for i in range(first, last):
        v = order[i]
        own, top, low = n_states[v], -np.inf, np.inf
        for k in range(own):
            top = max(top, unary[v, k])
            low = min(low, unary[v, k])
        if (
            not low > -np.inf
            or not low - top > -345.0
            or (parent_edge[v] >= 0 and not forest.safe[forest.table_of[parent_edge[v]]])
        ):
            return False, 0.0
        for k in range(own):
            node[v, k] = np.exp(unary[v, k] - top)
        log_z += top
    for i in range(last - 1, first - 1, -1):
        v = order[i]
        e, own, total, low = parent_edge[v], n_states[v], 0.0, np.inf
        for k in range(own):
            total += node[v, k]
            low = min(low, node[v, k])
        if not low > FAINT * total:
            return False, 0.0
        log_z += np.log(total)
        scale = 1.0 / total
        for k in range(own):
            node[v, k] *= scale
        if e < 0:
            continue
        side, t = parent_side[v], forest.table_of[e]
        p = edges[e, 1 - side]
        n_to, high = n_states[p], 0.0
        log_z += forest.peaks[t]
        for m in range(n_to):
            up[v, m] = 0.0
        if side == 0:
            for k in range(own):
                share = node[v, k]
                for m in range(n_to):
                    up[v, m] += share * bank[t, k, m]
        else:
            for k in range(own):
                share = node[v, k]
                for m in range(n_to):
                    up[v, m] += share * turned[t, k, m]
        for m in range(n_to):
            node[p, m] *= up[v, m]
            high = max(high, node[p, m])
        if high < _SMALL:
            if not high > 0.0:
                return False, 0.0
            log_z += np.log(high)
            scale = 1.0 / high
            for m in range(n_to):
                node[p, m] *= scale
    ratio, back = np.empty(unary.shape[1]), np.empty(unary.shape[1])
    for i in range(first + 1, last):
        v = order[i]
        e, side, own = parent_edge[v], parent_side[v], n_states[v]
        t, p, s, weight = forest.table_of[e], edges[e, 1 - side], slot[e], amount[e]
        n_to = n_states[p]
        for m in range(n_to):
            ratio[m] = node[p, m] / up[v, m]
        for k in range(own):
            back[k] = 0.0
        if side == 0:
            for m in range(n_to):
                share = ratio[m]
                for k in range(own):
                    back[k] += share * turned[t, m, k]
            for k in range(own):
                share = weight * node[v, k]
                for m in range(n_to):
                    edge[s, k, m] += share * ratio[m] * bank[t, k, m]
        else:
            for m in range(n_to):
                share = ratio[m]
                for k in range(own):
                    back[k] += share * bank[t, m, k]
                share *= weight
                for k in range(own):
                    edge[s, m, k] += share * node[v, k] * bank[t, m, k]
        for k in range(own):
            node[v, k] *= back[k]
    return True, log_z


@kernel
def _logarithms(forest, unary, c, amount, slot, node, up, edge):  # type: ignore[no-untyped-def]
    """`log_sums` of component ``c`` in logarithms, also with scores ``-inf``."""
    n_states, edges, order, tables = forest.n_states, forest.edges, forest.order, forest.tables
    first, last = forest.starts[c], forest.starts[c + 1]
    for i in range(first, last):
        v = order[i]
        for k in range(n_states[v]):
            node[v, k] = unary[v, k]
    for i in range(last - 1, first, -1):
        v = order[i]
        e, side, own = forest.parent_edge[v], forest.parent_side[v], n_states[v]
        t, p = forest.table_of[e], edges[e, 1 - side]
        for m in range(n_states[p]):
            top, total = -np.inf, 0.0
            for k in range(own):
                top = max(top, node[v, k] + (tables[t, k, m] if side == 0 else tables[t, m, k]))
            if top > -np.inf:
                for k in range(own):
                    total += np.exp(node[v, k] + (tables[t, k, m] if side == 0 else tables[t, m, k]) - top)
                top += np.log(total)
            up[v, m] = top
            node[p, m] += top
    root, log_z, total = order[first], -np.inf, 0.0
    for k in range(n_states[root]):
        log_z = max(log_z, node[root, k])
    if log_z > -np.inf:
        for k in range(n_states[root]):
            total += np.exp(node[root, k] - log_z)
        log_z += np.log(total)
    for k in range(n_states[root]):
        node[root, k] = np.exp(node[root, k] - log_z) if node[root, k] > -np.inf else 0.0
    for i in range(first + 1, last):
        v = order[i]
        e, side, own = forest.parent_edge[v], forest.parent_side[v], n_states[v]
        t, p, s, weight = forest.table_of[e], edges[e, 1 - side], slot[e], amount[e]
        for k in range(own):
            total = 0.0
            for m in range(n_states[p]):
                joint = node[v, k] + (tables[t, k, m] if side == 0 else tables[t, m, k])
                if node[p, m] > 0.0 and joint > -np.inf:
                    share = node[p, m] * np.exp(joint - up[v, m])
                    total += share
                    if side == 0:
                        edge[s, k, m] += weight * share
                    else:
                        edge[s, m, k] += weight * share
            node[v, k] = total
    return log_z


@kernel
def log_sums(forest, unary, amount, slot, first, last, node, up, edge, log_z):  # type: ignore[no-untyped-def]
    r""":math:`\log Z` of the components ``first .. last - 1`` into ``log_z``, and their marginals.

    ``node`` (N, K) gets the marginals of nodes, 0 for labels that do not exist; ``amount[e]`` times the marginals of edge ``e`` is
    added to ``edge[slot[e]]``, so that edges which share a table can share a sum. ``up`` (N, K) is work space. A component
    without any labelling has ``-inf`` and marginals 0.
    """
    for c in range(first, last):
        for i in range(forest.starts[c], forest.starts[c + 1]):
            v = forest.order[i]
            for k in range(forest.n_states[v], unary.shape[1]):
                node[v, k] = 0.0
        quick, value = _products(forest, unary, c, amount, slot, node, up, edge)
        if not quick:
            value = _logarithms(forest, unary, c, amount, slot, node, up, edge)
        log_z[c] = value


@kernel
def chain_colours(n_nodes, edges, later):  # type: ignore[no-untyped-def]
    """Edges in as few classes as a greedy choice finds, such that in each class no node has two edges to lower or two to higher
    nodes: a class is a set of monotone chains. ``later`` is work space (2, n_nodes, at least 2 * degree / 64 + 2) of zeros."""
    colours = np.empty(len(edges), dtype=np.int32)
    for e in range(len(edges)):
        low, high = min(edges[e, 0], edges[e, 1]), max(edges[e, 0], edges[e, 1])
        for word in range(later.shape[2]):
            used = later[0, low, word] | later[1, high, word]
            bit = 0
            while bit < 63 and (used >> bit) & 1:
                bit += 1
            if bit < 63:
                later[0, low, word] |= np.int64(1) << bit
                later[1, high, word] |= np.int64(1) << bit
                colours[e] = 63 * word + bit
                break
    return colours


@kernel
def reweighted_sweep(net, unary, tables, table_of, rho, messages, first, last, forward):  # type: ignore[no-untyped-def]
    r"""Tree-reweighted messages through the nodes ``first .. last - 1`` in turn, to higher nodes (``forward``) or to lower ones:

    .. math:: M_{u \to v}(l) = \rho\log\sum_k \exp\big(\Theta_u(k) + (\theta_{uv}(k, l) - M_{v \to u}(k)) / \rho\big),
              \qquad \Theta_u = \theta_u + \sum_w M_{w \to u},

    shifted to a maximum of 0; ``messages[s, e]`` is the one into the node at side ``s`` of edge ``e``. ``net`` holds ``n_states, edges, ptr,
    adj_edge, adj_side``.
    """
    n_states, edges, ptr, adj_edge, adj_side = net
    n_labels = unary.shape[1]
    total, rest, tops = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    for step in range(last - first):
        v = first + step if forward else last - 1 - step
        own = n_states[v]
        for k in range(own):
            total[k] = unary[v, k]
        for i in range(ptr[v], ptr[v + 1]):
            e, side = adj_edge[i], adj_side[i]
            for k in range(own):
                total[k] += messages[side, e, k]
        for i in range(ptr[v], ptr[v + 1]):
            e, side = adj_edge[i], adj_side[i]
            w = edges[e, 1 - side]
            if (w > v) != forward:
                continue
            t, n_to, cold, high = table_of[e], n_states[w], 1.0 / rho[e], -np.inf
            for k in range(own):
                rest[k] = total[k] - cold * messages[side, e, k]
            for m in range(n_to):
                tops[m] = -np.inf
                for k in range(own):
                    score = tables[t, k, m] if side == 0 else tables[t, m, k]
                    tops[m] = max(tops[m], rest[k] + cold * score)
                mass = 0.0
                for k in range(own):
                    score = tables[t, k, m] if side == 0 else tables[t, m, k]
                    mass += np.exp(rest[k] + cold * score - tops[m])
                messages[1 - side, e, m] = rho[e] * (tops[m] + np.log(mass))
                high = max(high, messages[1 - side, e, m])
            for m in range(n_to):
                messages[1 - side, e, m] -= high
