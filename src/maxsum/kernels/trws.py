r"""Sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006), on the messages of the certificate.

A forward pass visits the nodes in order. At node ``v``, with :math:`\theta_v = q_v - \sum \varphi` over its terms and
:math:`\gamma_v = 1 / \max(n_{forward}, n_{backward})`, each edge to a later node ``w`` takes a share,
:math:`\varphi_v \leftarrow \varphi_v + \gamma_v \theta_v`, and passes on what it can:
:math:`\varphi_w(l) \leftarrow -\max_k [g(k, l) + \varphi_v(k)]`, shifted to a minimum of 0. After the pass the height of
the reparametrised problem is the bound of TRW-S, so the messages need no conversion. A backward pass is the same in
the opposite order. Cliques are visited likewise; a node first takes back what its clique holds for it.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .message import push


@kernel
def pull_clique(net, i, clique_messages, together):  # type: ignore[no-untyped-def]
    """Give clique member ``i`` all that its clique holds for it: its message becomes minus its max-marginal."""
    n_labels = net.unary.shape[1]
    c = net.member_clique[i]
    apart = 0.0
    together[:] = net.clique_weights[c]
    for j in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
        if j == i:
            continue
        w = net.clique_nodes[j]
        best = -np.inf
        for k in range(n_labels):
            if k < net.n_states[w] and net.unary[w, k] > -np.inf:
                together[k] += clique_messages[j, k]
                best = max(best, clique_messages[j, k])
            else:
                together[k] = -np.inf
        apart += best
    v = net.clique_nodes[i]
    for k in range(net.n_states[v]):
        clique_messages[i, k] = -max(apart, together[k]) if net.unary[v, k] > -np.inf else 0.0


@kernel
def ahead(net, i, forward):  # type: ignore[no-untyped-def]
    """Whether the clique of member ``i`` has a node that is still to come in this pass, and one that has been."""
    c, v = net.member_clique[i], net.clique_nodes[i]
    later, earlier = 0, 0
    for j in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
        if net.clique_nodes[j] > v:
            later = 1
        elif net.clique_nodes[j] < v:
            earlier = 1
    return (later, earlier) if forward else (earlier, later)


@kernel
def decode(net, forward, edge_messages, clique_messages, labels):  # type: ignore[no-untyped-def]
    """Labelling by conditioning, in the order of the next pass: each node takes its best label given the labels of its
    neighbours visited before and the messages of those to come.
    """
    n_nodes, n_labels = net.unary.shape
    theta, score, together = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    for step in range(n_nodes):
        v = step if forward else n_nodes - 1 - step
        states = net.n_states[v]
        for k in range(states):
            theta[k] = net.unary[v, k]
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            for k in range(states):
                theta[k] -= edge_messages[side, e, k]
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            for k in range(states):
                theta[k] -= clique_messages[net.member[i], k]
        for k in range(states):
            score[k] = theta[k]
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            w = net.edges[e, 1 - side]
            if (w > v) == forward:
                continue
            t, weight, y = net.edge_table[e], net.edge_weight[e], labels[w]
            if side == 1:
                for k in range(states):
                    score[k] += edge_messages[side, e, k] + weight * net.tables[t, y, k]
            else:
                for k in range(states):
                    score[k] += edge_messages[side, e, k] + weight * net.tables[t, k, y]
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            _condition_clique(net, net.member[i], forward, clique_messages, labels, score, together)
        best, label, alone, fallback = -np.inf, -1, -np.inf, 0
        for k in range(states):
            if score[k] > best:
                best, label = score[k], k
            if theta[k] > alone:
                alone, fallback = theta[k], k
        labels[v] = label if label >= 0 else fallback


@kernel
def _condition_clique(net, i, forward, clique_messages, labels, score, together):  # type: ignore[no-untyped-def]
    """Add to ``score`` what the clique of member ``i`` is worth when members visited before have their labels."""
    n_labels = net.unary.shape[1]
    c, v = net.member_clique[i], net.clique_nodes[i]
    together[:] = net.clique_weights[c]
    apart = 0.0
    for j in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
        w = net.clique_nodes[j]
        if j == i:
            continue
        best = -np.inf
        for k in range(n_labels):
            if (w > v) != forward:
                together[k] = together[k] if labels[w] == k else -np.inf
            elif k < net.n_states[w] and net.unary[w, k] > -np.inf:
                together[k] += clique_messages[j, k]
                best = max(best, clique_messages[j, k])
            else:
                together[k] = -np.inf
        apart += best if best > -np.inf else 0.0
    for k in range(net.n_states[v]):
        if score[k] > -np.inf:
            score[k] += clique_messages[i, k] + max(apart, together[k])


@kernel
def sweep(net, forward, edge_messages, clique_messages):  # type: ignore[no-untyped-def]
    """One pass; returns the bound of nodes and edges (cliques apart)."""
    n_nodes, n_labels = net.unary.shape
    theta, out, own = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    bound = 0.0
    for step in range(n_nodes):
        v = step if forward else n_nodes - 1 - step
        states = net.n_states[v]
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            pull_clique(net, net.member[i], clique_messages, out)
        for k in range(states):
            theta[k] = net.unary[v, k]
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            for k in range(states):
                theta[k] -= edge_messages[side, e, k]
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            for k in range(states):
                theta[k] -= clique_messages[net.member[i], k]
        n_later, n_earlier = 0, 0
        for i in range(net.ptr[v], net.ptr[v + 1]):
            if (net.edges[net.adj_edge[i], 1 - net.adj_side[i]] > v) == forward:
                n_later += 1
            else:
                n_earlier += 1
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            later, earlier = ahead(net, net.member[i], forward)
            n_later += later
            n_earlier += earlier
        top = -np.inf
        for k in range(states):
            top = max(top, theta[k])
        if n_later == 0:
            bound += top
            continue
        share = 1.0 / max(n_later, n_earlier)
        bound += (1.0 - n_later * share) * top
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            w = net.edges[e, 1 - side]
            if (w > v) != forward:
                continue
            for k in range(states):
                own[k] = edge_messages[side, e, k] + share * theta[k]
                edge_messages[side, e, k] = own[k] if own[k] > -np.inf else 0.0
            n_to = net.n_states[w]
            push(net.tables, net.turned, net.edge_table[e], net.edge_weight[e], side, own, states, n_to, out)
            peak = -np.inf
            for k in range(n_to):
                if net.unary[w, k] > -np.inf:
                    peak = max(peak, out[k])
            bound += peak
            for k in range(n_to):
                kept = net.unary[w, k] > -np.inf and out[k] > -np.inf
                edge_messages[1 - side, e, k] = peak - out[k] if kept else 0.0
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            if ahead(net, net.member[i], forward)[0]:
                message = clique_messages[net.member[i]]
                for k in range(states):
                    if theta[k] > -np.inf:
                        message[k] += share * theta[k]
    return bound
