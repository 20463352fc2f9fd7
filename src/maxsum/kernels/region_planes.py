"""Planes of regions: vectors and losses of their labellings, and dual ascent on the multipliers of all of them."""

from __future__ import annotations

import numpy as np

from .design import difference
from .jit import kernel
from .records import Products
from .simplex import ends, exchange, is_flat

_ALL = 8  # every so many passes visit all regions, not the active ones alone
_LITTLE = 1e-2  # of what the steps of a visit gained so far: a step that gains less is the last of it


@kernel
def _difference(design, ptr, adj_edge, member_ptr, member_clique, nodes, labels, before, out, touched):  # type: ignore[no-untyped-def]
    """Add the vector of the nodes ``nodes`` with ``labels`` less that with the labels ``before``, both of all nodes; returns the difference
    of losses, and how many entries of ``touched``, if it has any, say where."""
    n_labels = design.loss.shape[1]
    table = design.edge_index.reshape(len(design.edge_index), n_labels * n_labels)
    truth_loss, edges, x_index = design.loss, design.edges, design.node_index
    x_ptr, x_col, x_val, x_step = design.x_ptr, design.x_col, design.x_val, design.node_step
    f_ptr, f_col, f_val, f_step = design.f_ptr, design.f_col, design.f_val, design.edge_step
    loss, n = 0.0, 0
    for i in range(len(nodes)):
        v = nodes[i]
        k, t = labels[v], before[v]
        if k == t:
            continue
        loss += truth_loss[v, k] - truth_loss[v, t]
        n = _add(x_ptr, x_col, x_val, v, x_step, k, t, x_index, out, touched, n)
        for q in range(ptr[v], ptr[v + 1]):
            e = adj_edge[q]
            u, w = edges[e, 0], edges[e, 1]
            other = w if u == v else u
            if other < v and labels[other] != before[other]:
                continue
            pair, old = labels[u] * n_labels + labels[w], before[u] * n_labels + before[w]
            n = _add(f_ptr, f_col, f_val, e, f_step, pair, old, table, out, touched, n)
        for q in range(member_ptr[v], member_ptr[v + 1]):
            c = member_clique[q]
            lead = design.member_ptr[c]
            while labels[design.member[lead]] == before[design.member[lead]]:
                lead += 1
            if design.member[lead] != v:
                continue
            members = design.member[design.member_ptr[c] : design.member_ptr[c + 1]]
            k, t = _common(members, labels), _common(members, before)
            for j in range(design.h_ptr[c], design.h_ptr[c + 1]):
                if t >= 0:
                    n = _put(design.clique_index[design.h_col[j], t], design.h_val[j], out, touched, n)
                if k >= 0:
                    n = _put(design.clique_index[design.h_col[j], k], -design.h_val[j], out, touched, n)
    return loss, n


@kernel
def _common(members, labels):  # type: ignore[no-untyped-def]
    """The label that all members of a clique have, or -1."""
    for v in members:
        if labels[v] != labels[members[0]]:
            return -1
    return labels[members[0]]


@kernel
def _add(ptr, column, value, item, step, k, t, index, out, touched, n):  # type: ignore[no-untyped-def]
    """Add the features of an item with its true label (or pair) ``t`` and subtract those with ``k``."""
    row = item * step[0] + t * step[1]
    for i in range(ptr[row], ptr[row + 1]):
        n = _put(index[column[i], t], value[i], out, touched, n)
    row = item * step[0] + k * step[1]
    for i in range(ptr[row], ptr[row + 1]):
        n = _put(index[column[i], k], -value[i], out, touched, n)
    return n


@kernel
def _put(p, amount, out, touched, n):  # type: ignore[no-untyped-def]
    if p < 0:
        return n
    out[p] += amount
    if len(touched) == 0:
        return n
    touched[n] = p
    return n + 1


@kernel
def sparse_vectors(design, regions, ptr, adj_edge, member_ptr, member_clique, dense, touched, offset):  # type: ignore[no-untyped-def]
    r""":math:`z` and loss of each labelling of each region, less those of the region's first labelling, as (ptr, column, value) of their
    entries; ``dense`` is zero between uses."""
    z_ptr, room, used = np.zeros(len(regions.alpha) + 1, dtype=np.int64), len(regions.label) + 64, 0
    column, value = np.empty(room, dtype=np.int32), np.empty(room)
    labels, before = regions.base.copy(), regions.base.copy()
    for r in range(len(regions.node_ptr) - 1):
        nodes = regions.node[regions.node_ptr[r] : regions.node_ptr[r + 1]]
        size, first = regions.node_ptr[r + 1] - regions.node_ptr[r], regions.atom_ptr[r]
        rows = regions.label[regions.label_ptr[r] : regions.label_ptr[r + 1]].reshape((regions.atom_ptr[r + 1] - first, size))
        before[nodes] = rows[0]
        for a in range(len(rows)):
            labels[nodes] = rows[a]
            offset[first + a], n = _difference(
                design, ptr, adj_edge, member_ptr, member_clique, nodes, labels, before, dense, touched
            )
            if used + n > room:
                room = 2 * (room + n)
                more, numbers = np.empty(room, dtype=np.int32), np.empty(room)
                more[:used] = column[:used]
                numbers[:used] = value[:used]
                column, value = more, numbers
            for i in range(n):
                p = touched[i]
                if dense[p] != 0.0:
                    column[used], value[used] = p, dense[p]
                    used += 1
                    dense[p] = 0.0
            z_ptr[first + a + 1] = used
    return z_ptr, column[:used].copy(), value[:used].copy()


@kernel
def base_plane(design, regions, c, index, value, u):  # type: ignore[no-untyped-def]
    r"""Add :math:`\sum_j c_j z_j` of the labelling where every region has its first one; returns :math:`\sum_j c_j b_j`."""
    labels = regions.base.copy()
    for r in range(len(regions.node_ptr) - 1):
        for i in range(regions.node_ptr[r + 1] - regions.node_ptr[r]):
            labels[regions.node[regions.node_ptr[r] + i]] = regions.label[regions.label_ptr[r] + i]
    total = 0.0
    for j in range(len(design.node_ptr) - 1):
        n, loss = difference(design, j, labels[design.node_ptr[j] : design.node_ptr[j + 1]], index, value)
        total += c[j] * loss
        for i in range(n):
            u[index[i]] += c[j] * value[i]
    return total


@kernel
def _query(u, heaviness, centre, nonneg):  # type: ignore[no-untyped-def]
    r""":math:`[u + \tau\hat w]_+ / (1 + \tau)`, cut off where ``nonneg`` says so."""
    w = (u + heaviness * centre) * (1.0 / (1.0 + heaviness))
    for p in range(len(u)):
        if nonneg[p] and w[p] < 0:
            w[p] = 0.0
    return w


@kernel
def new_products(atom_ptr, dense):  # type: ignore[no-untyped-def]
    """Room for the products of all regions."""
    ptr, most = np.zeros(len(atom_ptr), dtype=np.int64), 1
    for r in range(len(atom_ptr) - 1):
        count = atom_ptr[r + 1] - atom_ptr[r]
        ptr[r + 1] = ptr[r] + count * count
        most = max(most, count)
    known = np.zeros(atom_ptr[-1], dtype=np.uint8)
    return Products(ptr, np.empty(ptr[-1]), known, dense, np.empty(most), np.empty(most))


@kernel
def _row(z_ptr, column, value, products, r, first, count, a):  # type: ignore[no-untyped-def]
    """Products of atom ``a`` of region ``r`` with all of them."""
    start = products.ptr[r] + a * count
    row, dense = products.value[start : start + count], products.dense
    if not products.known[first + a]:
        products.known[first + a] = 1
        for i in range(z_ptr[first + a], z_ptr[first + a + 1]):
            dense[column[i]] = value[i]
        for b in range(count):
            row[b] = 0.0
            for i in range(z_ptr[first + b], z_ptr[first + b + 1]):
                row[b] += value[i] * dense[column[i]]
        for i in range(z_ptr[first + a], z_ptr[first + a + 1]):
            dense[column[i]] = 0.0
    return row


@kernel
def sparse_ascend(z_ptr, column, value, offset, alpha, atom_ptr, c, u, nonneg, heaviness, centre, n_passes, n_steps, enough):  # type: ignore[no-untyped-def]
    r"""Pairwise steps in every region, in passes over them, on the dual of :math:`F_{model}(w) + \tfrac\tau2\|w - \hat w\|^2`.

    ``u`` is :math:`\sum c\,\alpha z`, and :math:`w = [u + \tau\hat w]_+ / (1 + \tau)` is returned, with ``heaviness`` :math:`\tau`. Stops when
    the gap of a pass over all regions is at most ``enough``; most passes leave out regions whose own gap is small.
    """
    w = _query(u, heaviness, centre, nonneg)
    n_regions, products = len(atom_ptr) - 1, new_products(atom_ptr, np.zeros(len(u)))
    gaps, every, share = np.full(n_regions, np.inf), True, 0.5 * enough / max(1, n_regions)
    for turn in range(n_passes):
        least = -1.0 if every else share
        _pass(z_ptr, column, value, offset, alpha, atom_ptr, c, u, w, nonneg, heaviness, centre, n_steps, products, gaps, least)
        if gaps.sum() > enough:
            every = turn % _ALL == 0
        elif every:
            break
        else:
            every = True
    return w


@kernel
def _pass(z_ptr, column, value, offset, alpha, atom_ptr, c, u, w, nonneg, heaviness, centre, n_steps, products, gaps, least):  # type: ignore[no-untyped-def]
    """One pass over the regions whose last known gap is more than ``least``.

    Returns the gain of the dual, exact without a cone and a lower bound with one, and the entries touched.
    """
    scale, gain, work = 1.0 / (1.0 + heaviness), 0.0, 0
    score, change = products.score, products.change
    for r in range(len(atom_ptr) - 1):
        if gaps[r] <= least:
            continue
        first, count, own_gain, mean = atom_ptr[r], atom_ptr[r + 1] - atom_ptr[r], 0.0, 0.0
        for a in range(count):
            product = 0.0
            for i in range(z_ptr[first + a], z_ptr[first + a + 1]):
                product += value[i] * w[column[i]]
            score[a], change[a] = offset[first + a] - product, 0.0
            mean += alpha[first + a] * score[a]
        work += z_ptr[first + count] - z_ptr[first] + count
        for step in range(n_steps):
            high, low = ends(score, alpha, first, count)
            if step == 0:
                gaps[r] = c[r] * (score[high] - mean)
            if is_flat(score, high, low):
                break
            slope = score[high] - score[low]
            to = _row(z_ptr, column, value, products, r, first, count, high)
            back = _row(z_ptr, column, value, products, r, first, count, low)
            norm = to[high] + back[low] - to[low] - back[high]
            moved = c[r] * exchange(alpha, first + high, first + low, slope, c[r] * norm * scale)
            change[high] += moved
            change[low] -= moved
            for a in range(count):
                score[a] -= moved * scale * (to[a] - back[a])
            gained = moved * (slope - 0.5 * moved * norm * scale)
            own_gain += gained
            if gained < _LITTLE * own_gain:
                break
        gain += own_gain
        for a in range(count):
            if change[a] != 0.0:
                for i in range(z_ptr[first + a], z_ptr[first + a + 1]):
                    p = column[i]
                    u[p] += change[a] * value[i]
                    w[p] = (u[p] + heaviness * centre[p]) * scale
                    if nonneg[p] and w[p] < 0:
                        w[p] = 0.0
    return gain, work


@kernel
def region_passes(
    z_ptr, column, value, offset, alpha, atom_ptr, c, plain, w, nonneg, n_passes, n_steps, least, gain, work, dense, gaps
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Passes without a proximal term while they pay: while their gain for their work is no less than ``gain / work`` so far, and more than
    ``least``. Most leave out regions whose own gap is small. Returns gain and work in all."""
    share, products = 0.0, new_products(atom_ptr, dense)
    for done in range(n_passes):
        more, touched = _pass(
            z_ptr, column, value, offset, alpha, atom_ptr, c, plain, w, nonneg, 0.0, plain, n_steps, products, gaps,
            share if done % _ALL else -1.0,
        )  # fmt: skip
        pays = more * work >= gain * touched and more > least
        gain += more
        work += touched
        if not pays:
            break
        share = 0.5 * gaps.mean()
    return gain, work
