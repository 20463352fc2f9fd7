"""Perceptron steps: on the inequalities of strictly trivial equivalents, of labellings, and of supermodular tables."""

from __future__ import annotations

import numpy as np

from .design import difference
from .jit import kernel

STRICT = 1e-6
"""An inequality (9) counts as violated up to so much of a step: a sum of four weights of a million steps has a rounding error of 1e-9 steps, so
that what is above holds by more than rounding; it is far below a step, so that the number of updates does not change."""


@kernel
def _dot(ptr, col, val, index, r, c, w):  # type: ignore[no-untyped-def]
    """Score of feature row ``r`` at column ``c`` of the index map."""
    total = 0.0
    for i in range(ptr[r], ptr[r + 1]):
        p = index[col[i], c]
        if p >= 0:
            total += val[i] * w[p]
    return total


@kernel
def _add(ptr, col, val, index, r, c, sign, w):  # type: ignore[no-untyped-def]
    """The adjoint of `_dot`: ``sign`` times the features added to their weights."""
    for i in range(ptr[r], ptr[r + 1]):
        p = index[col[i], c]
        if p >= 0:
            w[p] += sign * val[i]


@kernel
def _bring(ptr, col, val, index, change, w):  # type: ignore[no-untyped-def]
    """Add ``change`` (N, K), multiples of the features of each node, to the weights, and make it 0."""
    for v in range(len(change)):
        for k in range(change.shape[1]):
            if change[v, k] != 0.0:
                _add(ptr, col, val, index, v, k, change[v, k], w)
                change[v, k] = 0.0


@kernel
def _all_scores(ptr, col, val, index, w, row, scores):  # type: ignore[no-untyped-def]
    """Scores (K, N) of all nodes whose every feature has a weight for each label; ``row`` is work space."""
    for v in range(scores.shape[1]):
        row[:] = 0.0
        for i in range(ptr[v], ptr[v + 1]):
            f, x = col[i], val[i]
            for k in range(len(row)):
                row[k] += x * w[index[f, k]]
        scores[:, v] = row


@kernel
def trivial_sweeps(design, ptr, adj_edge, adj_side, n_states, examples, max_sweeps, shared, gram, w, phi, sums, bank, total):  # type: ignore[no-untyped-def]
    r"""Algorithm 3 of Franc & Savchynskyy 2008: sweeps over all inequalities (20) of some examples, until one makes no update.

    Of each example the nodes come first (Steps 2 and 3), then the edges (Steps 4 and 5); each violated inequality is met by one
    update, and the next one sees it.

    Parameters
    ----------
    design : Design
    ptr, adj_edge, adj_side : ndarray
        Edges at each node of the union.
    n_states : ndarray of int32, shape (N,)
    shared : int
        Tables are read from ``bank`` if 1 or 2: each edge has a single feature, and no weight is in the tables of two; 2 if no
        weight is twice in one table either.
    gram : ndarray, shape (N, N) or (0, 0)
        Products of the features of all nodes, or nothing. With them the scores of all nodes are kept, and the weights of node
        features follow at the end. Each feature and label must have a weight of its own, and ``total`` be empty; sweeps end only
        if one without updates starts from scores of the weights themselves.
    w : ndarray, shape (P + 2 E K,)
        Weights of the model, then potentials.
    phi : ndarray, shape (E, 2, K)
        The potentials in ``w``: :math:`\varphi_{tt'}(k)` is ``phi[e, 0, k]`` for the edge ``e = (t, t')``, and
        ``phi[e, 1, k]`` the other way.
    sums, bank : ndarray, shapes (N, K) and (F, K * K)
        Work space: the potentials at each node added up, and the tables.
    total : ndarray, shape (P + 2 E K,) or (0,)
        The weights after each sweep are added to it.

    Returns
    -------
    tuple
        (sweeps, updates, updates of the last sweep)
    """
    truth, edges = design.truth, design.edges
    x_ptr, x_col, x_val, node_index = design.x_ptr, design.x_col, design.x_val, design.node_index
    f_ptr, f_col, f_val = design.f_ptr, design.f_col, design.f_val
    size = design.edge_index.shape[1]
    edge_index = design.edge_index.reshape((len(design.edge_index), size * size))
    node_step, node_part = design.node_step[0], design.node_step[1]
    edge_step, edge_part = design.edge_step[0], design.edge_step[1]
    kept = len(gram) > 0
    scores, change, part = np.zeros((size, len(gram))), np.zeros((len(gram), size)), np.zeros(size)
    changed, unsure = True, False
    sums[:] = 0.0
    for v in range(len(ptr) - 1):
        for i in range(ptr[v], ptr[v + 1]):
            for k in range(size):
                sums[v, k] += phi[adj_edge[i], adj_side[i], k]
    for f in range(len(bank)):
        for i in range(size * size):
            bank[f, i] = w[edge_index[f, i]] if edge_index[f, i] >= 0 else 0.0
    updates, last, sweeps = 0, 1, 0
    while sweeps < max_sweeps and last > 0:
        if kept and changed:
            _bring(x_ptr, x_col, x_val, node_index, change, w)
            _all_scores(x_ptr, x_col, x_val, node_index, w, part, scores)
        changed = False
        sweeps += 1
        last = 0
        for j in examples:
            for v in range(design.node_ptr[j], design.node_ptr[j + 1]):
                t = truth[v]
                r = v * node_step + t * node_part
                if kept:
                    own = scores[t, v] - sums[v, t]
                else:
                    own = -sums[v, t]
                    for i in range(x_ptr[r], x_ptr[r + 1]):
                        p = node_index[x_col[i], t]
                        if p >= 0:
                            own += x_val[i] * w[p]
                for k in range(n_states[v]):
                    if k == t:
                        continue
                    s = v * node_step + k * node_part
                    if kept:
                        other = scores[k, v] - sums[v, k]
                    else:
                        other = -sums[v, k]
                        for i in range(x_ptr[s], x_ptr[s + 1]):
                            p = node_index[x_col[i], k]
                            if p >= 0:
                                other += x_val[i] * w[p]
                    if own > other:
                        continue
                    last += 1
                    if kept:
                        change[v, t] += 1.0
                        change[v, k] -= 1.0
                        for u in range(len(gram)):
                            scores[t, u] += gram[v, u]
                            scores[k, u] -= gram[v, u]
                    else:
                        _add(x_ptr, x_col, x_val, node_index, r, t, 1.0, w)
                        _add(x_ptr, x_col, x_val, node_index, s, k, -1.0, w)
                    for i in range(ptr[v], ptr[v + 1]):
                        phi[adj_edge[i], adj_side[i], t] -= 1.0
                        phi[adj_edge[i], adj_side[i], k] += 1.0
                    sums[v, t] -= ptr[v + 1] - ptr[v]
                    sums[v, k] += ptr[v + 1] - ptr[v]
                    if kept:
                        own = scores[t, v] - sums[v, t]
                    else:
                        own = _dot(x_ptr, x_col, x_val, node_index, r, t, w) - sums[v, t]
            for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
                u, v = edges[e, 0], edges[e, 1]
                s, t = truth[u], truth[v]
                at = s * size + t
                r = e * edge_step + at * edge_part
                f, weight = 0, 0.0
                if shared:
                    f, weight = f_col[f_ptr[e]], f_val[f_ptr[e]]
                    own = weight * bank[f, at] + phi[e, 1, t] + phi[e, 0, s]
                else:
                    own = _dot(f_ptr, f_col, f_val, edge_index, r, at, w) + phi[e, 1, t] + phi[e, 0, s]
                for k in range(n_states[u]):
                    if shared:
                        top = -np.inf
                        for m in range(n_states[v]):
                            top = max(top, weight * bank[f, k * size + m] + phi[e, 1, m])
                        if top + phi[e, 0, k] < own:
                            continue
                    for m in range(n_states[v]):
                        if k == s and m == t:
                            continue
                        to = k * size + m
                        row = e * edge_step + to * edge_part
                        if shared:
                            other = weight * bank[f, to] + phi[e, 1, m] + phi[e, 0, k]
                        else:
                            other = _dot(f_ptr, f_col, f_val, edge_index, row, to, w) + phi[e, 1, m] + phi[e, 0, k]
                        if own > other:
                            continue
                        last += 1
                        phi[e, 0, s] += 1.0
                        phi[e, 0, k] -= 1.0
                        phi[e, 1, t] += 1.0
                        phi[e, 1, m] -= 1.0
                        sums[u, s] += 1.0
                        sums[u, k] -= 1.0
                        sums[v, t] += 1.0
                        sums[v, m] -= 1.0
                        if shared:
                            p, q = edge_index[f, at], edge_index[f, to]
                            if p >= 0:
                                w[p] += weight
                            if q >= 0:
                                w[q] -= weight
                            if shared == 1:
                                for i in range(size * size):
                                    if edge_index[f, i] >= 0:
                                        bank[f, i] = w[edge_index[f, i]]
                            else:
                                bank[f, at] = w[p] if p >= 0 else 0.0
                                bank[f, to] = w[q] if q >= 0 else 0.0
                            own = weight * bank[f, at] + phi[e, 1, t] + phi[e, 0, s]
                        else:
                            _add(f_ptr, f_col, f_val, edge_index, r, at, 1.0, w)
                            _add(f_ptr, f_col, f_val, edge_index, row, to, -1.0, w)
                            own = _dot(f_ptr, f_col, f_val, edge_index, r, at, w) + phi[e, 1, t] + phi[e, 0, s]
        updates += last
        for i in range(len(total)):
            total[i] += w[i]
        unsure = unsure or last > 0
        if kept and unsure and last == 0:
            changed, unsure, last = True, False, 1
    if kept:
        _bring(x_ptr, x_col, x_val, node_index, change, w)
    return sweeps, updates, last


@kernel
def trivial_check(design, ptr, adj_edge, adj_side, n_states, examples, w, phi, row, least, keys, violated):  # type: ignore[no-untyped-def]
    r"""Exhaustive search over the inequalities :math:`\langle z, w\rangle > 0` of (20) for some examples.

    Writes for each example the smallest :math:`\langle z, w\rangle` (``inf`` if it has no inequality), where it is
    (node, label, -1) or (edge, label, label) in numbers of the example, and how many are :math:`\le 0`.
    """
    truth, edges = design.truth, design.edges
    x_ptr, x_col, x_val, node_index = design.x_ptr, design.x_col, design.x_val, design.node_index
    f_ptr, f_col, f_val = design.f_ptr, design.f_col, design.f_val
    size = design.edge_index.shape[1]
    edge_index = design.edge_index.reshape((len(design.edge_index), size * size))
    node_step, node_part = design.node_step[0], design.node_step[1]
    edge_step, edge_part = design.edge_step[0], design.edge_step[1]
    for i in range(len(examples)):
        j = examples[i]
        first, first_edge = design.node_ptr[j], design.edge_ptr[j]
        found, a, b, c, wrong = 1e308, -1, -1, -1, 0
        for v in range(first, design.node_ptr[j + 1]):
            t = truth[v]
            for k in range(n_states[v]):
                row[k] = _dot(x_ptr, x_col, x_val, node_index, v * node_step + k * node_part, k, w)
            for n in range(ptr[v], ptr[v + 1]):
                for k in range(n_states[v]):
                    row[k] -= phi[adj_edge[n], adj_side[n], k]
            for k in range(n_states[v]):
                if k == t:
                    continue
                product = row[t] - row[k]
                wrong += product <= 0
                if product < found:
                    found, a, b, c = product, v - first, k, -1
        for e in range(first_edge, design.edge_ptr[j + 1]):
            u, v = edges[e, 0], edges[e, 1]
            s, t = truth[u], truth[v]
            at = s * size + t
            own = _dot(f_ptr, f_col, f_val, edge_index, e * edge_step + at * edge_part, at, w) + phi[e, 1, t] + phi[e, 0, s]
            for k in range(n_states[u]):
                for m in range(n_states[v]):
                    if k == s and m == t:
                        continue
                    to = k * size + m
                    other = _dot(f_ptr, f_col, f_val, edge_index, e * edge_step + to * edge_part, to, w)
                    product = own - (other + phi[e, 1, m] + phi[e, 0, k])
                    wrong += product <= 0
                    if product < found:
                        found, a, b, c = product, e - first_edge, k, m
        least[i], violated[i] = found, wrong
        keys[i, 0], keys[i, 1], keys[i, 2] = a, b, c


@kernel
def enter_cone(nonneg, quads, step, count, w, drift):  # type: ignore[no-untyped-def]
    """Steps 2 and 3 of Algorithm 2 of Franc & Savchynskyy (2008) until every table is strictly supermodular, by more than `STRICT` of a
    ``step``; negative weights of ``nonneg`` become 0.

    ``drift`` collects ``count`` times each change. Returns the number of updates.
    """
    updates = 0
    for p in range(len(nonneg)):
        if nonneg[p] and w[p] < 0:
            drift[p] -= count * w[p]
            w[p] = 0.0
            updates += 1
    again = True
    while again:
        again = False
        for i in range(len(quads)):
            if w[quads[i, 0]] + w[quads[i, 1]] - w[quads[i, 2]] - w[quads[i, 3]] <= STRICT * step:
                again = True
                updates += 1
                for c in range(4):
                    change = step if c < 2 else -step
                    w[quads[i, c]] += change
                    drift[quads[i, c]] += count * change
    return updates


@kernel
def margin_pass(design, examples, key_ptr, labels, margin, nonneg, quads, step, count, index, value, w, drift):  # type: ignore[no-untyped-def]
    r"""Step 3 of Algorithm 1: :math:`w := w + z` for each example whose labelling still has :math:`\langle w, z\rangle \le`
    ``margin`` times the number of wrong nodes; the cone holds again after each.

    ``drift`` collects each change times the number of examples seen before it (``count`` at the start), so that the average of
    the weights over all examples seen is ``w - drift / count``. Returns (updates, updates of the cone).
    """
    updates, fixes = 0, 0
    for i in range(len(examples)):
        j = examples[i]
        first = design.node_ptr[j]
        own = labels[key_ptr[i] : key_ptr[i + 1]]
        wrong = 0
        for v in range(len(own)):
            wrong += own[v] != design.truth[first + v]
        if wrong:
            n, _ = difference(design, j, own, index, value)
            product = 0.0
            for c in range(n):
                product += value[c] * w[index[c]]
            if product <= margin * wrong:
                updates += 1
                for c in range(n):
                    w[index[c]] += value[c]
                    drift[index[c]] += (count + i) * value[c]
                fixes += enter_cone(nonneg, quads, step, count + i, w, drift)
    return updates, fixes


@kernel
def products(design, examples, key_ptr, labels, index, value, w, product, wrong):  # type: ignore[no-untyped-def]
    r"""For a labelling of each example: :math:`\langle w, z\rangle` and the number of wrong nodes."""
    for i in range(len(examples)):
        j = examples[i]
        first = design.node_ptr[j]
        own = labels[key_ptr[i] : key_ptr[i + 1]]
        wrong[i] = 0
        for v in range(len(own)):
            wrong[i] += own[v] != design.truth[first + v]
        n, _ = difference(design, j, own, index, value)
        product[i] = 0.0
        for c in range(n):
            product[i] += value[c] * w[index[c]]
