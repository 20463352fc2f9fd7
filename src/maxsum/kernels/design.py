"""Feature differences of labellings: the vectors z that large-margin learning is about, straight from the labels."""

from __future__ import annotations

from .jit import kernel


@kernel
def node_score(design, v, w, out):  # type: ignore[no-untyped-def]
    """Scores of all labels of node ``v`` under the weights ``w``."""
    n_labels = design.node_index.shape[1]
    for k in range(n_labels):
        out[k] = 0.0
    if design.node_step[1]:
        for k in range(n_labels):
            r = v * design.node_step[0] + k
            for i in range(design.x_ptr[r], design.x_ptr[r + 1]):
                out[k] += design.x_val[i] * w[design.x_col[i]]
        return
    for i in range(design.x_ptr[v], design.x_ptr[v + 1]):
        f, x = design.x_col[i], design.x_val[i]
        base = design.node_base[f]
        if base >= 0:
            row = w[base : base + n_labels]
            for k in range(n_labels):
                out[k] += x * row[k]
        else:
            for k in range(n_labels):
                p = design.node_index[f, k]
                if p >= 0:
                    out[k] += x * w[p]


@kernel
def augmented_scores(design, examples, w, scores):  # type: ignore[no-untyped-def]
    """Loss-augmented node scores of some examples, written to their rows of the union."""
    for i in range(len(examples)):
        for v in range(design.node_ptr[examples[i]], design.node_ptr[examples[i] + 1]):
            node_score(design, v, w, scores[v])
            for k in range(scores.shape[1]):
                scores[v, k] += design.loss[v, k]


@kernel
def _common(design, c, labels, first):  # type: ignore[no-untyped-def]
    """The label that all members of clique ``c`` have, or -1; ``labels[0]`` is that of node ``first``."""
    k = labels[design.member[design.member_ptr[c]] - first]
    for i in range(design.member_ptr[c] + 1, design.member_ptr[c + 1]):
        if labels[design.member[i] - first] != k:
            return -1
    return k


@kernel
def difference(design, j, labels, index, value):  # type: ignore[no-untyped-def]
    r"""Entries of :math:`z = \Psi(x_j, y_j) - \Psi(x_j, y)`, repeated indices left apart; returns (their number, the loss)."""
    first, last = design.node_ptr[j], design.node_ptr[j + 1]
    n, loss = 0, 0.0
    for v in range(first, last):
        k, t = labels[v - first], design.truth[v]
        if k == t:
            continue
        loss += design.loss[v, k]
        r = v * design.node_step[0] + t * design.node_step[1]
        for i in range(design.x_ptr[r], design.x_ptr[r + 1]):
            p = design.node_index[design.x_col[i], t]
            if p >= 0:
                index[n], value[n] = p, design.x_val[i]
                n += 1
        r = v * design.node_step[0] + k * design.node_step[1]
        for i in range(design.x_ptr[r], design.x_ptr[r + 1]):
            p = design.node_index[design.x_col[i], k]
            if p >= 0:
                index[n], value[n] = p, -design.x_val[i]
                n += 1
    n_labels = design.loss.shape[1]
    for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
        u, v = design.edges[e, 0], design.edges[e, 1]
        k, m, s, t = labels[u - first], labels[v - first], design.truth[u], design.truth[v]
        if k == s and m == t:
            continue
        r = e * design.edge_step[0] + (s * n_labels + t) * design.edge_step[1]
        for i in range(design.f_ptr[r], design.f_ptr[r + 1]):
            p = design.edge_index[design.f_col[i], s, t]
            if p >= 0:
                index[n], value[n] = p, design.f_val[i]
                n += 1
        r = e * design.edge_step[0] + (k * n_labels + m) * design.edge_step[1]
        for i in range(design.f_ptr[r], design.f_ptr[r + 1]):
            p = design.edge_index[design.f_col[i], k, m]
            if p >= 0:
                index[n], value[n] = p, -design.f_val[i]
                n += 1
    if len(design.clique_ptr):
        for c in range(design.clique_ptr[j], design.clique_ptr[j + 1]):
            k, t = _common(design, c, labels, first), _common(design, c, design.truth, 0)
            if k == t:
                continue
            for i in range(design.h_ptr[c], design.h_ptr[c + 1]):
                p = design.clique_index[design.h_col[i], t] if t >= 0 else -1
                if p >= 0:
                    index[n], value[n] = p, design.h_val[i]
                    n += 1
                p = design.clique_index[design.h_col[i], k] if k >= 0 else -1
                if p >= 0:
                    index[n], value[n] = p, -design.h_val[i]
                    n += 1
    return n, loss
