"""Moves of the local search: many nodes at once, each time the best labelling of a random forest while all others keep theirs.

All scores are finite here: the caller has put a penalty in place of every ``-inf``.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .message import push


@kernel
def total_score(net, labels):  # type: ignore[no-untyped-def]
    """Score of a labelling."""
    total = 0.0
    for v in range(len(net.n_states)):
        total += net.unary[v, labels[v]]
    for e in range(len(net.edges)):
        total += net.edge_weight[e] * net.tables[net.edge_table[e], labels[net.edges[e, 0]], labels[net.edges[e, 1]]]
    for c in range(len(net.clique_ptr) - 1):
        common = labels[net.clique_nodes[net.clique_ptr[c]]]
        for i in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
            if labels[net.clique_nodes[i]] != common:
                common = -1
                break
        if common >= 0:
            total += net.clique_weights[c, common]
    return total


@kernel
def _random(state):  # type: ignore[no-untyped-def]
    """Next number of xorshift64* (64 bits, the upper ones good)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(2685821657736338717)


@kernel
def _below(n, state):  # type: ignore[no-untyped-def]
    """A random number in ``0 .. n - 1``."""
    return int(np.float64(_random(state) >> np.uint64(11)) * 2.0**-53 * n)


@kernel
def grow_forest(net, state, order, touch, up, frontier):  # type: ignore[no-untyped-def]
    """A random set of nodes without a cycle among them, to which no node could be added; returns its size.

    ``order`` lists its nodes, parents first; ``up[v]`` is the place of the edge to the parent of ``v`` in the adjacency of
    that parent, -1 at a root. A node joins if one edge leads to the set, or if it starts a tree; ``touch`` counts those
    edges (two for a clique that has a member in the set, so that no clique has two).
    """
    n_nodes = len(net.n_states)
    touch[:] = 0
    size, n_frontier, start = 0, 0, _below(n_nodes, state)
    for j in range(n_nodes):
        root = (start + j) % n_nodes
        if touch[root]:
            continue
        up[root] = -1
        frontier[0] = root
        n_frontier = 1
        while n_frontier:
            pick = _below(n_frontier, state)
            v = frontier[pick]
            n_frontier -= 1
            frontier[pick] = frontier[n_frontier]
            if touch[v] > 1:
                continue
            order[size] = v
            size += 1
            touch[v] = 2
            for i in range(net.ptr[v], net.ptr[v + 1]):
                w = net.edges[net.adj_edge[i], 1 - net.adj_side[i]]
                touch[w] += 1
                if touch[w] == 1:
                    up[w] = i
                    frontier[n_frontier] = w
                    n_frontier += 1
            for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
                c = net.member_clique[net.member[i]]
                for m in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
                    touch[net.clique_nodes[m]] += 2
    return size


@kernel
def _outside_scores(net, v, labels, inside, theta):  # type: ignore[no-untyped-def]
    """Add to ``theta[v]`` the terms that join ``v`` to nodes which keep their labels."""
    states = net.n_states[v]
    for i in range(net.ptr[v], net.ptr[v + 1]):
        e, side = net.adj_edge[i], net.adj_side[i]
        w = net.edges[e, 1 - side]
        if inside[w]:
            continue
        t, weight, y = net.edge_table[e], net.edge_weight[e], labels[w]
        if side == 1:
            for k in range(states):
                theta[v, k] += weight * net.tables[t, y, k]
        elif len(net.turned):
            for k in range(states):
                theta[v, k] += weight * net.turned[t, y, k]
        else:
            for k in range(states):
                theta[v, k] += weight * net.tables[t, k, y]
    for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
        c, common = net.member_clique[net.member[i]], -1
        if net.clique_ptr[c + 1] - net.clique_ptr[c] == 1:
            for k in range(states):
                theta[v, k] += net.clique_weights[c, k]
        for j in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
            w = net.clique_nodes[j]
            if w == v:
                continue
            if common >= 0 and labels[w] != common:
                common = -2
                break
            common = labels[w]
        if common >= 0 and common < states:
            theta[v, common] += net.clique_weights[c, common]


@kernel
def _noise(v, states, temperature, gumbel, state, theta):  # type: ignore[no-untyped-def]
    """Add ``temperature`` times a random entry of ``gumbel`` (4096 numbers) to each score of ``v``."""
    bits, left = np.uint64(0), 0
    for k in range(states):
        if left == 0:
            bits, left = _random(state) >> np.uint64(4), 5
        theta[v, k] += temperature * gumbel[bits & np.uint64(4095)]
        bits >>= np.uint64(12)
        left -= 1


@kernel
def forest_moves(net, n_moves, temperature, factor, gumbel, state, labels, best, levels, work):  # type: ignore[no-untyped-def]
    """Give a random forest its best labelling, ``n_moves`` times; returns the temperature after them.

    The scores of its nodes are perturbed by Gumbel noise times the temperature (for a single node that is Gibbs sampling),
    which each move multiplies by ``factor``. ``labels`` changes in place; ``best`` and its score ``levels[0]`` are replaced
    by every better labelling.
    """
    order, touch, frontier, inside, up, theta, out = work
    for _ in range(n_moves):
        size = grow_forest(net, state, order, touch, up, frontier)
        for j in range(size):
            inside[order[j]] = 1
        for j in range(size):
            v = order[j]
            for k in range(net.n_states[v]):
                theta[v, k] = net.unary[v, k]
            if temperature > 0.0:
                _noise(v, net.n_states[v], temperature, gumbel, state, theta)
            _outside_scores(net, v, labels, inside, theta)
        for j in range(size - 1, -1, -1):
            v, i = order[j], up[order[j]]
            if i < 0:
                continue
            e, side = net.adj_edge[i], net.adj_side[i]
            parent = net.edges[e, side]
            states = net.n_states[parent]
            push(
                net.tables, net.turned, net.edge_table[e], net.edge_weight[e], 1 - side, theta[v], net.n_states[v], states, out
            )
            for k in range(states):
                theta[parent, k] += out[k]
        for j in range(size):
            v, i = order[j], up[order[j]]
            inside[v] = 0
            if i >= 0:
                e, side = net.adj_edge[i], net.adj_side[i]
                t, weight, y = net.edge_table[e], net.edge_weight[e], labels[net.edges[e, side]]
                for k in range(net.n_states[v]):
                    theta[v, k] += weight * (net.tables[t, y, k] if side == 0 else net.tables[t, k, y])
            top, label = -np.inf, 0
            for k in range(net.n_states[v]):
                if theta[v, k] > top:
                    top, label = theta[v, k], k
            labels[v] = label
        score = total_score(net, labels)
        if score > levels[0]:
            levels[0] = score
            best[:] = labels
        temperature *= factor
    return temperature
