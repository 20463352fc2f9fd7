"""Regions: the parts of a graph where stored labellings disagree, each with labellings and multipliers of its own.

Two nodes are linked by an edge or a clique. Where no node of one region is linked to a node of another, scores and features of
a labelling are sums over regions, so every region may mix its labellings independently of the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .design import difference
from .jit import kernel
from .vectors import inner

_ALL = 8
_START, _FACTOR = 1469598103934665603, 1099511628211


class Regions(NamedTuple):
    """Labellings of regions; that of node ``v`` outside of all is ``base[v]``."""

    base: np.ndarray  # int32 (N,)
    region: np.ndarray  # int64 (N,): region of each node, or -1
    place: np.ndarray  # int64 (N,): its number in the region
    node_ptr: np.ndarray  # int64 (R + 1,)
    node: np.ndarray  # int64: nodes of region r are node[node_ptr[r]:node_ptr[r + 1]]
    atom_ptr: np.ndarray  # int64 (R + 1,): labellings of region r
    label_ptr: np.ndarray  # int64 (R + 1,): labels of the i-th of them start at label_ptr[r] + i * nodes of r
    label: np.ndarray  # int32
    alpha: np.ndarray  # float64: multipliers, sum 1 in each region
    age: np.ndarray  # int64: for how long a labelling had no weight


@kernel
def _root(parent, v):  # type: ignore[no-untyped-def]
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@kernel
def _join(parent, u, v):  # type: ignore[no-untyped-def]
    a, b = _root(parent, u), _root(parent, v)
    if a < b:
        parent[b] = a
    elif b < a:
        parent[a] = b


@kernel
def _undecided(old, labels, memory, base):  # type: ignore[no-untyped-def]
    """Mark nodes with several labels among those to keep and the new one; write the label of the others to ``base``."""
    active = np.zeros(len(base), dtype=np.uint8)
    for v in range(len(base)):
        r = old.region[v]
        base[v] = old.base[v]
        if r >= 0:
            size, known = old.node_ptr[r + 1] - old.node_ptr[r], False
            for a in range(old.atom_ptr[r + 1] - old.atom_ptr[r]):
                if old.alpha[old.atom_ptr[r] + a] > 0 or old.age[old.atom_ptr[r] + a] < memory:
                    k = old.label[old.label_ptr[r] + a * size + old.place[v]]
                    if not known:
                        base[v], known = k, True
                    elif k != base[v]:
                        active[v] = 1
        if labels[v] != base[v]:
            active[v] = 1
    return active


@kernel
def _components(design, active):  # type: ignore[no-untyped-def]
    """Regions of linked active nodes: (region, place, node_ptr, node)."""
    n_nodes = len(active)
    parent = np.arange(n_nodes)
    for e in range(len(design.edges)):
        if active[design.edges[e, 0]] and active[design.edges[e, 1]]:
            _join(parent, design.edges[e, 0], design.edges[e, 1])
    for c in range(len(design.member_ptr) - 1):
        last = -1
        for i in range(design.member_ptr[c], design.member_ptr[c + 1]):
            if active[design.member[i]]:
                if last >= 0:
                    _join(parent, last, design.member[i])
                last = design.member[i]
    region, place = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=np.int64)
    count = 0
    for v in range(n_nodes):
        if active[v]:
            root = _root(parent, v)
            if root == v:
                region[v] = count
                count += 1
            else:
                region[v] = region[root]
    ptr = np.zeros(count + 1, dtype=np.int64)
    for v in range(n_nodes):
        if region[v] >= 0:
            place[v] = ptr[region[v] + 1]
            ptr[region[v] + 1] += 1
    for r in range(count):
        ptr[r + 1] += ptr[r]
    node = np.empty(ptr[count], dtype=np.int64)
    for v in range(n_nodes):
        if region[v] >= 0:
            node[ptr[region[v]] + place[v]] = v
    return region, place, ptr, node


@kernel
def _next_atom(old, a, r):  # type: ignore[no-untyped-def]
    """The next labelling of region ``r`` with weight, or -1."""
    for b in range(a + 1, old.atom_ptr[r + 1]):
        if old.alpha[b] > 0:
            return b
    return -1


@kernel
def _same(label, first, n_atoms, size, marks):  # type: ignore[no-untyped-def]
    """Which of ``n_atoms`` labellings from ``first`` on equals the one behind them, or -1; its mark is written."""
    new, mark = first + n_atoms * size, np.uint64(_START)
    for i in range(size):
        mark = (mark ^ np.uint64(label[new + i] + 1)) * np.uint64(_FACTOR)
    marks[n_atoms] = mark
    for a in range(n_atoms):
        if marks[a] == mark:
            i = 0
            while i < size and label[first + a * size + i] == label[new + i]:
                i += 1
            if i == size:
                return a
    return -1


@kernel
def extend(design, old, labels, memory):  # type: ignore[no-untyped-def]
    """Regions with a new labelling of all nodes.

    Marginals of all terms stay what they were: a region that falls apart keeps the marginals of its parts, and regions that
    grow together are coupled by their cumulated multipliers. Labellings that had no weight ``memory`` times are dropped.
    """
    base = np.empty(len(old.base), dtype=np.int32)
    active = _undecided(old, labels, memory, base)
    region, place, node_ptr, node = _components(design, active)
    n_regions, n_old = len(node_ptr) - 1, len(old.node_ptr) - 1
    seen = np.full(n_old, -1)
    room, room_labels, most = 0, 0, 0
    for r in range(n_regions):
        count = 2
        for i in range(node_ptr[r], node_ptr[r + 1]):
            o = old.region[node[i]]
            if o >= 0 and seen[o] != r:
                seen[o] = r
                count += old.atom_ptr[o + 1] - old.atom_ptr[o]
        room += count
        room_labels += count * (node_ptr[r + 1] - node_ptr[r])
        most = max(most, count)
    atom_ptr, label_ptr = np.zeros(n_regions + 1, dtype=np.int64), np.zeros(n_regions + 1, dtype=np.int64)
    label, alpha, age = np.empty(room_labels, dtype=np.int32), np.zeros(room), np.zeros(room, dtype=np.int64)
    marks = np.empty(most, dtype=np.uint64)
    parts, at, level = np.empty(n_old, dtype=np.int64), np.empty(n_old, dtype=np.int64), np.empty(n_old)
    seen[:] = -1
    atoms, used = 0, 0
    for r in range(n_regions):
        first, size, n_parts, n_atoms = node_ptr[r], node_ptr[r + 1] - node_ptr[r], 0, 0
        for i in range(first, node_ptr[r + 1]):
            o = old.region[node[i]]
            if o >= 0 and seen[o] != r:
                seen[o] = r
                parts[n_parts] = o
                n_parts += 1
                at[o] = _next_atom(old, old.atom_ptr[o] - 1, o)
                level[o] = old.alpha[at[o]]
        start = 0.0
        while True:
            stop, last = 1.0, True
            for i in range(n_parts):
                o = parts[i]
                if _next_atom(old, at[o], o) >= 0:
                    stop, last = min(stop, level[o]), False
            for i in range(size):
                v = node[first + i]
                o = old.region[v]
                if o < 0:
                    label[used + n_atoms * size + i] = base[v]
                else:
                    row = (at[o] - old.atom_ptr[o]) * (old.node_ptr[o + 1] - old.node_ptr[o])
                    label[used + n_atoms * size + i] = old.label[old.label_ptr[o] + row + old.place[v]]
            if stop > start:
                same = _same(label, used, n_atoms, size, marks)
                if same >= 0:
                    alpha[atoms + same] += stop - start
                else:
                    alpha[atoms + n_atoms] = stop - start
                    n_atoms += 1
                start = stop
            if last:
                break
            for i in range(n_parts):
                o = parts[i]
                following = _next_atom(old, at[o], o)
                if level[o] <= stop and following >= 0:
                    at[o] = following
                    level[o] += old.alpha[following]
        for q in range(n_parts):
            o = parts[q]
            for a in range(old.atom_ptr[o], old.atom_ptr[o + 1]):
                if old.alpha[a] > 0 or old.age[a] >= memory:
                    continue
                row = old.label_ptr[o] + (a - old.atom_ptr[o]) * (old.node_ptr[o + 1] - old.node_ptr[o])
                for i in range(size):
                    v = node[first + i]
                    label[used + n_atoms * size + i] = old.label[row + old.place[v]] if old.region[v] == o else label[used + i]
                if _same(label, used, n_atoms, size, marks) < 0:
                    alpha[atoms + n_atoms], age[atoms + n_atoms] = 0.0, old.age[a] + 1
                    n_atoms += 1
        for i in range(size):
            label[used + n_atoms * size + i] = labels[node[first + i]]
        if _same(label, used, n_atoms, size, marks) < 0:
            alpha[atoms + n_atoms], age[atoms + n_atoms] = 0.0, 0
            n_atoms += 1
        total = 0.0
        for a in range(n_atoms):
            total += alpha[atoms + a]
        for a in range(n_atoms):
            alpha[atoms + a] /= total
        atoms += n_atoms
        used += n_atoms * size
        atom_ptr[r + 1], label_ptr[r + 1] = atoms, used
    return Regions(
        base, region, place, node_ptr, node, atom_ptr, label_ptr, label[:used].copy(), alpha[:atoms].copy(), age[:atoms].copy()
    )


@kernel
def _label(regions, r, labels, v):  # type: ignore[no-untyped-def]
    """Label of node ``v`` where region ``r`` has ``labels``."""
    return labels[regions.place[v]] if regions.region[v] == r else regions.base[v]


@kernel
def vectors(design, regions, ptr, adj_edge, member_ptr, member_clique, z, offset):  # type: ignore[no-untyped-def]
    r""":math:`z` and loss of the terms that each labelling of each region touches, less those of the region's first labelling."""
    n_labels = design.loss.shape[1]
    table = design.edge_index.reshape(len(design.edge_index), n_labels * n_labels)
    for r in range(len(regions.node_ptr) - 1):
        nodes = regions.node[regions.node_ptr[r] : regions.node_ptr[r + 1]]
        size, first = len(nodes), regions.atom_ptr[r]
        for a in range(first, regions.atom_ptr[r + 1]):
            row = regions.label_ptr[r] + (a - first) * size
            labels, out = regions.label[row : row + size], z[a]
            out[:] = 0.0
            offset[a] = 0.0
            for i in range(size):
                v, k, t = nodes[i], labels[i], design.truth[nodes[i]]
                if k != t:
                    offset[a] += design.loss[v, k]
                    _add_features(design.x_ptr, design.x_col, design.x_val, v, design.node_step, k, t, design.node_index, out)
                for q in range(ptr[v], ptr[v + 1]):
                    e = adj_edge[q]
                    u, w = design.edges[e, 0], design.edges[e, 1]
                    other = w if u == v else u
                    if regions.region[other] == r and other < v:
                        continue
                    k, t = _label(regions, r, labels, u), design.truth[u]
                    m, s = _label(regions, r, labels, w), design.truth[w]
                    if k == t and m == s:
                        continue
                    pair, true_pair = k * n_labels + m, t * n_labels + s
                    _add_features(design.f_ptr, design.f_col, design.f_val, e, design.edge_step, pair, true_pair, table, out)
                for q in range(member_ptr[v], member_ptr[v + 1]):
                    c = member_clique[q]
                    if not _leads(design, regions, c, r, v):
                        continue
                    k = _label(regions, r, labels, design.member[design.member_ptr[c]])
                    t = design.truth[design.member[design.member_ptr[c]]]
                    for j in range(design.member_ptr[c] + 1, design.member_ptr[c + 1]):
                        if _label(regions, r, labels, design.member[j]) != k:
                            k = -1
                        if design.truth[design.member[j]] != t:
                            t = -1
                    for j in range(design.h_ptr[c], design.h_ptr[c + 1]):
                        if t >= 0:
                            out[design.clique_index[design.h_col[j], t]] += design.h_val[j]
                        if k >= 0:
                            out[design.clique_index[design.h_col[j], k]] -= design.h_val[j]
        for a in range(regions.atom_ptr[r + 1] - 1, first - 1, -1):
            offset[a] -= offset[first]
            for p in range(z.shape[1]):
                z[a, p] -= z[first, p]


@kernel
def _add_features(ptr, column, value, item, step, k, t, index, out):  # type: ignore[no-untyped-def]
    """Add the features of an item with its true label (or pair) ``t`` and subtract those with ``k``."""
    row = item * step[0] + t * step[1]
    for i in range(ptr[row], ptr[row + 1]):
        p = index[column[i], t]
        if p >= 0:
            out[p] += value[i]
    row = item * step[0] + k * step[1]
    for i in range(ptr[row], ptr[row + 1]):
        p = index[column[i], k]
        if p >= 0:
            out[p] -= value[i]


@kernel
def _leads(design, regions, c, r, v):  # type: ignore[no-untyped-def]
    """Whether ``v`` is the first member of clique ``c`` in region ``r``, so that a clique is counted once."""
    for j in range(design.member_ptr[c], design.member_ptr[c + 1]):
        if regions.region[design.member[j]] == r:
            return design.member[j] == v
    return False


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
def ascend(z, offset, alpha, atom_ptr, c, u, nonneg, heaviness, centre, n_passes, n_steps, enough):  # type: ignore[no-untyped-def]
    r"""Pairwise steps in every region, in passes over them, on the dual of :math:`F_{model}(w) + \tfrac\tau2\|w - \hat w\|^2`.

    ``u`` is :math:`\sum c\,\alpha z`, and :math:`w = [u + \tau\hat w]_+ / (1 + \tau)` is returned, with ``heaviness``
    :math:`\tau`. Stops when the gap of a pass over all regions is at most ``enough``; most
    passes leave out regions whose own gap is small.
    """
    size, scale = len(u), 1.0 / (1.0 + heaviness)
    w = np.empty(size)
    for p in range(size):
        w[p] = (u[p] + heaviness * centre[p]) * scale
        if nonneg[p] and w[p] < 0:
            w[p] = 0.0
    n_regions, most = len(atom_ptr) - 1, 1
    for r in range(n_regions):
        most = max(most, atom_ptr[r + 1] - atom_ptr[r])
    score, gaps = np.empty(most), np.full(n_regions, np.inf)
    every, share = True, 0.5 * enough / max(1, n_regions)
    for turn in range(n_passes):
        for r in range(n_regions):
            if not every and gaps[r] <= share:
                continue
            first, count = atom_ptr[r], atom_ptr[r + 1] - atom_ptr[r]
            for step in range(n_steps):
                high, low, mean = 0, -1, 0.0
                for a in range(count):
                    score[a] = offset[first + a] - inner(w, z[first + a])
                    mean += alpha[first + a] * score[a]
                    if score[a] > score[high]:
                        high = a
                    if alpha[first + a] > 0 and (low < 0 or score[a] < score[low]):
                        low = a
                if step == 0:
                    gaps[r] = c[r] * (score[high] - mean)
                if not score[high] > score[low]:
                    break
                to, back, norm = z[first + high], z[first + low], 0.0
                for p in range(size):
                    norm += (to[p] - back[p]) ** 2
                moved = alpha[first + low]
                if c[r] * norm * moved * scale > score[high] - score[low]:
                    moved = (score[high] - score[low]) / (c[r] * norm * scale)
                    alpha[first + low] -= moved
                else:
                    alpha[first + low] = 0.0
                alpha[first + high] += moved
                for p in range(size):
                    u[p] += c[r] * moved * (to[p] - back[p])
                    w[p] = (u[p] + heaviness * centre[p]) * scale
                    if nonneg[p] and w[p] < 0:
                        w[p] = 0.0
        if gaps.sum() > enough:
            every = turn % _ALL == 0
        elif every:
            break
        else:
            every = True
    return w


@kernel
def marginals(regions, node, edges, edge):  # type: ignore[no-untyped-def]
    """Marginals of the nodes of regions, a row a node as in ``regions.node``, and of edges inside one region."""
    for r in range(len(regions.node_ptr) - 1):
        size = regions.node_ptr[r + 1] - regions.node_ptr[r]
        for a in range(regions.atom_ptr[r + 1] - regions.atom_ptr[r]):
            weight = regions.alpha[regions.atom_ptr[r] + a]
            for i in range(size):
                node[regions.node_ptr[r] + i, regions.label[regions.label_ptr[r] + a * size + i]] += weight
    for e in range(len(edges)):
        r = regions.region[edges[e, 0]]
        size = regions.node_ptr[r + 1] - regions.node_ptr[r]
        for a in range(regions.atom_ptr[r + 1] - regions.atom_ptr[r]):
            row = regions.label_ptr[r] + a * size
            k, m = regions.label[row + regions.place[edges[e, 0]]], regions.label[row + regions.place[edges[e, 1]]]
            edge[e, k, m] += regions.alpha[regions.atom_ptr[r] + a]
