r"""The flow network of an expansion move: every node keeps its label or takes ``alpha``.

With :math:`x_v = 1` where node ``v`` takes ``alpha``, an edge with labels ``k, l`` has the scores ``A = g(k, l)``,
``B = g(k, alpha)``, ``C = g(alpha, l)``, ``D = g(alpha, alpha)``, and is a constant plus

.. math:: (C - A) x_u + (B - A) x_v + (A + D - B - C) x_u x_v.

The last term is two arcs, ``s`` from ``u`` to ``v`` and ``A + D - B - C - s`` back, for any share ``s`` of it: the flow that
the last move of the same label left behind is the share with which its next move starts.

A clique has two more variables: one is 1 only if all members end with ``alpha`` and then pays that weight; one is 0 only if no
member of a clique that agrees on ``k`` moves, and then pays the weight of ``k``.

The arcs never change, only their capacities: those of node ``v`` are its edges, then two for each of its memberships.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .maxflow import NONE, ROOT

NO_SHARE = -1.0


@kernel
def link(net, flow, slot):  # type: ignore[no-untyped-def]
    """Heads and sisters of all arcs. ``flow.ptr`` is filled in here as well."""
    n_nodes, n_edges, n_members = len(net.n_states), len(net.edges), len(net.clique_nodes)
    ptr, arc = flow.ptr, flow.arc
    for v in range(n_nodes + 1):
        ptr[v] = net.ptr[v] + 2 * net.member_ptr[v]
    for v in range(n_nodes):
        at = ptr[v]
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            slot[e, side] = at
            arc[4 * at + 2] = net.edges[e, 1 - side]
            at += 1
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            m = net.member[i]
            c = net.member_clique[m]
            size = net.clique_ptr[c + 1] - net.clique_ptr[c]
            there = 2 * n_edges + 2 * n_members + net.clique_ptr[c] + m
            for take in range(2):
                arc[4 * at + 2], arc[4 * at + 3] = n_nodes + 2 * c + take, there
                arc[4 * there + 2], arc[4 * there + 3] = v, at
                there += size
                at += 1
    for e in range(n_edges):
        arc[4 * slot[e, 0] + 3] = slot[e, 1]
        arc[4 * slot[e, 1] + 3] = slot[e, 0]
    for c in range(len(net.clique_ptr) - 1):
        first = 2 * n_edges + 2 * n_members + 2 * net.clique_ptr[c]
        size = net.clique_ptr[c + 1] - net.clique_ptr[c]
        ptr[n_nodes + 2 * c + 1] = first + size
        ptr[n_nodes + 2 * c + 2] = first + 2 * size


@kernel
def shares_of_messages(net, messages, labels, alpha, shares):  # type: ignore[no-untyped-def]
    """Shares with which the move starts from the reparametrised scores: node ``u`` of an edge has
    :math:`C - A + s = \\varphi_u(k) - \\varphi_u(alpha)`."""
    for e in range(len(net.edges)):
        k, m = labels[net.edges[e, 0]], labels[net.edges[e, 1]]
        t, weight = net.edge_table[e], net.edge_weight[e]
        a, c = net.tables[t, k, m], net.tables[t, alpha, m]
        if a > -np.inf and c > -np.inf:
            shares[e] = max(messages[0, e, k] - messages[0, e, alpha] - weight * (c - a), 0.0)


@kernel
def choose_active(net, labels, alpha, hard, active):  # type: ignore[no-untyped-def]
    """Nodes that may take ``alpha``: it is not theirs yet, not forbidden, and no neighbour that must stay forbids it."""
    count = 0
    for v in range(len(labels)):
        active[v] = labels[v] != alpha and net.unary[v, alpha] > -np.inf
        count += active[v]
    changed = hard
    while changed:
        changed = False
        for e in range(len(net.edges)):
            u, v = net.edges[e, 0], net.edges[e, 1]
            if active[u] == active[v]:
                continue
            t = net.edge_table[e]
            if active[u] and net.tables[t, alpha, labels[v]] == -np.inf:
                active[u], changed = 0, True
                count -= 1
            elif active[v] and net.tables[t, labels[u], alpha] == -np.inf:
                active[v], changed = 0, True
                count -= 1
    return count


@kernel
def fill(net, flow, move, labels, alpha):  # type: ignore[no-untyped-def]
    """Capacities and excesses of the move to ``alpha``; returns how many variables have positive excess."""
    n_nodes = len(labels)
    cap, excess, active = flow.cap, flow.excess, move.active
    unary, tables, edges, slot, shares = net.unary, net.tables, net.edges, move.slot, move.shares
    for v in range(n_nodes):
        excess[v] = unary[v, alpha] - unary[v, labels[v]] if active[v] else 0.0
    for e in range(len(edges)):
        u, v = edges[e, 0], edges[e, 1]
        i, j = slot[e, 0], slot[e, 1]
        there, back, full = 0.0, 0.0, 0.0
        if active[u] or active[v]:
            t, weight = net.edge_table[e], net.edge_weight[e]
            k, m = labels[u], labels[v]
            stay = tables[t, k, m]
            if not active[v]:
                excess[u] += weight * (tables[t, alpha, m] - stay)
            elif not active[u]:
                excess[v] += weight * (tables[t, k, alpha] - stay)
            else:
                first, second, both = tables[t, alpha, m], tables[t, k, alpha], tables[t, alpha, alpha]
                if first > -np.inf and second > -np.inf:
                    full = max(weight * ((stay - first) + (both - second)), 0.0)
                    share = shares[alpha, e]
                    there = 0.5 * full if share == NO_SHARE else min(share, full)
                    back = full - there
                    excess[u] += weight * (first - stay) + there
                    excess[v] += weight * (second - stay) + back
                elif first > -np.inf:
                    back = np.inf
                    excess[u] += weight * (first - stay)
                    excess[v] += weight * (both - first)
                elif second > -np.inf:
                    there = np.inf
                    excess[u] += weight * (both - second)
                    excess[v] += weight * (second - stay)
                else:
                    there, back = np.inf, np.inf
                    excess[u] += weight * (both - stay)
        cap[2 * i], cap[2 * j], move.full[e] = there, back, full
    for c in range(len(net.clique_ptr) - 1):
        _fill_clique(net, flow, move, labels, alpha, c)
    sources = 0
    for v in range(len(excess)):
        sources += excess[v] > 0.0
    return sources


@kernel
def _fill_clique(net, flow, move, labels, alpha, c):  # type: ignore[no-untyped-def]
    n_nodes = len(labels)
    first, last = net.clique_ptr[c], net.clique_ptr[c + 1]
    common, free, possible = labels[net.clique_nodes[first]], 0, True
    for i in range(first, last):
        v = net.clique_nodes[i]
        if labels[v] != common:
            common = -1
        free += move.active[v]
        possible = possible and (move.active[v] == 1 or labels[v] == alpha)
    stay = net.clique_weights[c, common] if common >= 0 and common != alpha else 0.0
    take = net.clique_weights[c, alpha] if possible else 0.0
    base = 2 * len(net.edges) + 2 * len(net.clique_nodes) + first
    for kind in range(2):
        z = n_nodes + 2 * c + kind
        weight = take if kind == 1 else stay
        on = weight > 0.0 and free > 0
        total = 0.0
        for i in range(first, last):
            s = base + i + kind * (last - first)
            a = flow.arc[4 * s + 3]
            v = net.clique_nodes[i]
            flow.cap[2 * s], flow.cap[2 * a] = 0.0, 0.0
            if on and move.active[v]:
                used = move.rewards[alpha, kind, i]
                total += used
                if kind == 1:
                    flow.cap[2 * s], flow.cap[2 * a] = np.inf, used
                    flow.excess[v] += used
                else:
                    flow.cap[2 * a], flow.cap[2 * s] = np.inf, used
                    flow.excess[v] -= used
        flow.excess[z] = 0.0 if not on else (weight - total if kind == 1 else total - weight)


@kernel
def start_from_sources(flow):  # type: ignore[no-untyped-def]
    """As `maxflow.start`, but only sources are active: enough, and quick where there are few of them."""
    node, excess, size = flow.node, flow.excess, 0
    for v in range(len(excess)):
        node[4 * v + 1], node[4 * v + 2] = v, 0
        flow.queued[v] = 0
        if excess[v] > 0.0:
            node[4 * v], node[4 * v + 3] = ROOT, 1
            flow.queue[size] = v
            flow.queued[v] = 1
            size += 1
        elif excess[v] < 0.0:
            node[4 * v], node[4 * v + 3] = ROOT, -1
        else:
            node[4 * v], node[4 * v + 3] = NONE, 0
    flow.state[0], flow.state[1], flow.state[2] = 0, size, 0


@kernel
def keep(net, flow, move, alpha):  # type: ignore[no-untyped-def]
    """Remember the flow of the move for the next move to the same label."""
    for e in range(len(net.edges)):
        if move.full[e] > 0.0:
            move.shares[alpha, e] = max(flow.cap[2 * move.slot[e, 0]], 0.0)
    base = 2 * len(net.edges) + 2 * len(net.clique_nodes)
    for c in range(len(net.clique_ptr) - 1):
        first, last = net.clique_ptr[c], net.clique_ptr[c + 1]
        for kind in range(2):
            for i in range(first, last):
                s = base + first + i + kind * (last - first)
                back = flow.cap[2 * flow.arc[4 * s + 3]] if kind == 1 else flow.cap[2 * s]
                move.rewards[alpha, kind, i] = max(back, 0.0)


@kernel
def gain(net, flow, move, labels, alpha):  # type: ignore[no-untyped-def]
    """What the labelling gains if the nodes of the source tree take ``alpha``, their number, and the rounding error of the gain.

    ``active`` is 2 for these nodes afterwards.
    """
    active, moved = move.active, 0
    total, size = 0.0, 0.0
    for v in range(len(labels)):
        if active[v] and flow.node[4 * v + 3] > 0:
            active[v] = 2
            moved += 1
            term = net.unary[v, alpha] - net.unary[v, labels[v]]
            total += term
            size += abs(term)
    if moved == 0:
        return 0.0, 0, 0.0
    for e in range(len(net.edges)):
        u, v = net.edges[e, 0], net.edges[e, 1]
        if active[u] == 2 or active[v] == 2:
            t = net.edge_table[e]
            k, m = labels[u], labels[v]
            k2, m2 = alpha if active[u] == 2 else k, alpha if active[v] == 2 else m
            term = net.edge_weight[e] * (net.tables[t, k2, m2] - net.tables[t, k, m])
            total += term
            size += abs(term)
    for c in range(len(net.clique_ptr) - 1):
        first, last = net.clique_ptr[c], net.clique_ptr[c + 1]
        old = labels[net.clique_nodes[first]]
        new = alpha if active[net.clique_nodes[first]] == 2 else old
        for i in range(first, last):
            v = net.clique_nodes[i]
            old = old if labels[v] == old else -1
            new = new if (alpha if active[v] == 2 else labels[v]) == new else -1
        term = (net.clique_weights[c, new] if new >= 0 else 0.0) - (net.clique_weights[c, old] if old >= 0 else 0.0)
        total += term
        size += abs(term)
    return total, moved, 2.0**-50 * size


@kernel
def take(labels, active, alpha):  # type: ignore[no-untyped-def]
    """Make the move that `gain` has measured."""
    for v in range(len(labels)):
        if active[v] == 2:
            labels[v] = alpha


@kernel
def first_conflict(tables, number, sign, rows, cols, noise):  # type: ignore[no-untyped-def]
    """The first of some edges (each with a table, the sign of its weight and its label counts) that an expansion move makes not supermodular,
    the label of the move and the labels of the ends; -1 if there is none."""
    for i in range(len(number)):
        table, s = tables[number[i]], float(sign[i])
        for a in range(min(rows[i], cols[i]) if s != 0 else 0):
            own = s * table[a, a]
            if own == -np.inf:
                return i, a, a, a
            for k in range(rows[i]):
                to = s * table[k, a]
                size = abs(own) + (abs(to) if to > -np.inf else 0.0)
                for m in range(cols[i]):
                    here, there = s * table[k, m], s * table[a, m]
                    error = size + (abs(here) if here > -np.inf else 0.0) + (abs(there) if there > -np.inf else 0.0)
                    if own + here < there + to - noise * error:
                        return i, a, k, m
    return -1, -1, -1, -1
