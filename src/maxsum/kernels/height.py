"""Gap of a labelling under messages, term by term: the fast twin of `core.certificates.dual`, which shares no code with it.

Rounding may make a maximum fall short of a value it was taken over by an ulp, so each term is cut at 0.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .message import push_first


@kernel
def node_terms(net, edge_messages, clique_messages, labels):  # type: ignore[no-untyped-def]
    """Sum over nodes of the best reparametrised score, and of its distance from the labelling (where given)."""
    n_labels = net.unary.shape[1]
    theta = np.empty(n_labels)
    top_sum, gap = 0.0, 0.0
    for v in range(len(net.n_states)):
        states = net.n_states[v]
        for k in range(states):
            theta[k] = net.unary[v, k]
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            for k in range(states):
                theta[k] -= edge_messages[side, e, k]
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            member = net.member[i]
            for k in range(states):
                theta[k] -= clique_messages[member, k]
        top = -np.inf
        for k in range(states):
            top = max(top, theta[k])
        top_sum += top
        if len(labels):
            gap += max(top - theta[labels[v]], 0.0)
    return top_sum, gap


@kernel
def edge_terms(net, edge_messages, labels, first, last):  # type: ignore[no-untyped-def]
    """The same for the edges ``first .. last - 1``."""
    n_labels = net.unary.shape[1]
    own, out = np.empty(n_labels), np.empty(n_labels)
    top_sum, gap = 0.0, 0.0
    for e in range(first, last):
        u, v = net.edges[e, 0], net.edges[e, 1]
        t, weight = net.edge_table[e], net.edge_weight[e]
        top = -np.inf
        if n_labels <= 4:
            for k in range(net.n_states[u]):
                for m in range(net.n_states[v]):
                    if net.unary[u, k] > -np.inf and net.unary[v, m] > -np.inf:
                        top = max(top, (edge_messages[0, e, k] + weight * net.tables[t, k, m]) + edge_messages[1, e, m])
        else:
            for k in range(net.n_states[u]):
                own[k] = edge_messages[0, e, k] if net.unary[u, k] > -np.inf else -np.inf
            push_first(own, net.tables, t, weight, net.n_states[u], net.n_states[v], out)
            for m in range(net.n_states[v]):
                if net.unary[v, m] > -np.inf:
                    top = max(top, out[m] + edge_messages[1, e, m])
        top_sum += top
        if len(labels):
            k, m = labels[u], labels[v]
            at = (edge_messages[0, e, k] + weight * net.tables[t, k, m]) + edge_messages[1, e, m]
            gap += max(top - at, 0.0) if net.unary[u, k] > -np.inf and net.unary[v, m] > -np.inf else np.inf
    return top_sum, gap


@kernel
def clique_terms(net, clique_messages, labels):  # type: ignore[no-untyped-def]
    """The same for the cliques: the larger of the best without the reward and the best with it."""
    n_labels = net.unary.shape[1]
    together = np.empty(n_labels)
    top_sum, gap = 0.0, 0.0
    for c in range(len(net.clique_ptr) - 1):
        apart = 0.0
        together[:] = net.clique_weights[c]
        at, agree, common = 0.0, True, -1
        for i in range(net.clique_ptr[c], net.clique_ptr[c + 1]):
            v = net.clique_nodes[i]
            best = -np.inf
            for k in range(n_labels):
                psi = clique_messages[i, k] if k < net.n_states[v] and net.unary[v, k] > -np.inf else -np.inf
                together[k] += psi
                best = max(best, psi)
            apart += best
            if len(labels):
                at += clique_messages[i, labels[v]]
                if common < 0:
                    common = labels[v]
                elif common != labels[v]:
                    agree = False
        top = apart
        for k in range(n_labels):
            top = max(top, together[k])
        top_sum += top
        if len(labels):
            gap += max(top - (at + (net.clique_weights[c, common] if agree else 0.0)), 0.0)
    return top_sum, gap
