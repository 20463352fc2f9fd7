"""Regions: the parts of a graph where stored labellings disagree, each with labellings and multipliers of its own.

Two nodes are linked by an edge or a clique. Where no node of one region is linked to a node of another, scores and features of
a labelling are sums over regions, so every region may mix its labellings independently of the others.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .records import Regions

_START = 1469598103934665603  # the hash FNV-1a (Fowler, Noll & Vo): its first value,
_FACTOR = 1099511628211  # and the prime that it multiplies with


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
            stop, last = np.inf, True
            for i in range(n_parts):
                o = parts[i]
                if _next_atom(old, at[o], o) >= 0:
                    stop, last = min(stop, level[o]), False
            if last:
                stop = 1.0
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
