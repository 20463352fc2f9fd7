"""Planes of examples as labellings: stored, compared, scored, dropped."""

from __future__ import annotations

import numpy as np

from .design import difference, node_score
from .jit import kernel


@kernel
def plane_value(design, j, labels, w, scratch):  # type: ignore[no-untyped-def]
    r"""(:math:`b`, :math:`b - \langle w, z\rangle`) of a labelling of example ``j``."""
    n, loss = difference(design, j, labels, scratch.index, scratch.value)
    product = 0.0
    for i in range(n):
        product += w[scratch.index[i]] * scratch.value[i]
    return loss, loss - product


@kernel
def values(design, examples, ptr, labels, w, scratch, out):  # type: ignore[no-untyped-def]
    """`plane_value` of one labelling for each of ``examples``; those of the i-th are ``labels[ptr[i]:ptr[i + 1]]``."""
    for i in range(len(examples)):
        out[i] = plane_value(design, examples[i], labels[ptr[i] : ptr[i + 1]], w, scratch)[1]


@kernel
def insert(design, planes, j, labels, scratch):  # type: ignore[no-untyped-def]
    """Store a labelling of example ``j``: its slot, or -1 if it is there already, or -2 if there is no room."""
    n_nodes = design.node_ptr[j + 1] - design.node_ptr[j]
    first, used = planes.slot_ptr[j], planes.used[j]
    capacity = planes.slot_ptr[j + 1] - first
    start = planes.pool_ptr[j]
    for i in range(used):
        same = True
        for v in range(n_nodes):
            if planes.pool[start + i * n_nodes + v] != labels[v]:
                same = False
                break
        if same:
            return -1
    if used == capacity:
        return -2
    for v in range(n_nodes):
        planes.pool[start + used * n_nodes + v] = labels[v]
    n, loss = difference(design, j, labels, scratch.index, scratch.value)
    for i in range(n):
        scratch.dense[scratch.index[i]] += scratch.value[i]
    base = planes.gram_ptr[j]
    planes.alpha[first + used] = 0.0
    planes.offset[first + used] = loss
    planes.age[first + used] = 0
    planes.used[j] = used + 1
    if len(planes.vector) > 0:
        new = planes.vector[first + used]
        for p in range(len(new)):
            new[p] = scratch.dense[p]
            scratch.dense[p] = 0.0
        multiply_vectors(planes, j, used)
        return used
    norm = 0.0
    for i in range(n):
        norm += scratch.dense[scratch.index[i]] * scratch.value[i]
    planes.gram[base + used * capacity + used] = norm
    needed_scores(design, planes, j, used, scratch.dense, scratch)
    products(design, planes, j, used, scratch.dense, scratch)
    for other in range(used):
        planes.gram[base + used * capacity + other] = scratch.gradient[other]
        planes.gram[base + other * capacity + used] = scratch.gradient[other]
    n, _ = difference(design, j, labels, scratch.index, scratch.value)
    for i in range(n):
        scratch.dense[scratch.index[i]] = 0.0
    return used


@kernel
def insert_vector(planes, j, n_nodes, vector, offset, mark):  # type: ignore[no-untyped-def]
    """Store a plane by its vector, its labels marked: its slot, or -2 if there is no room."""
    first, used = planes.slot_ptr[j], planes.used[j]
    if used == planes.slot_ptr[j + 1] - first:
        return -2
    start = planes.pool_ptr[j] + used * n_nodes
    for v in range(n_nodes):
        planes.pool[start + v] = mark if v == 0 else 0
    planes.alpha[first + used] = 0.0
    planes.offset[first + used] = offset
    planes.age[first + used] = 0
    planes.used[j] = used + 1
    for p in range(len(vector)):
        planes.vector[first + used, p] = vector[p]
    multiply_vectors(planes, j, used)
    return used


@kernel
def multiply_vectors(planes, j, i):  # type: ignore[no-untyped-def]
    """Products of the vector in slot ``i`` of example ``j`` with those of the slots before, and itself."""
    first, base = planes.slot_ptr[j], planes.gram_ptr[j]
    capacity = planes.slot_ptr[j + 1] - first
    for other in range(i + 1):
        product = dot(planes.vector[first + other], planes.vector[first + i])
        planes.gram[base + i * capacity + other] = product
        planes.gram[base + other * capacity + i] = product


@kernel
def dot(a, b):  # type: ignore[no-untyped-def]
    """Inner product, summed in the order of the entries."""
    total = 0.0
    for p in range(len(a)):
        total += a[p] * b[p]
    return total


@kernel
def needed_scores(design, planes, j, used, w, scratch):  # type: ignore[no-untyped-def]
    """Node scores of the labels that planes of example ``j`` (and its truth) have, at nodes where they differ; returns the work.

    Such nodes are left marked in ``scratch.active``. Nodes with many labels in use are scored for all labels at once.
    """
    first, last = design.node_ptr[j], design.node_ptr[j + 1]
    n_nodes, start = last - first, planes.pool_ptr[j]
    n_labels = design.node_index.shape[1]
    wanted, chosen = scratch.wanted, scratch.chosen
    work = 0
    for v in range(first, last):
        t, n = design.truth[v], 0
        for i in range(1, used):
            k = planes.pool[start + i * n_nodes + v - first]
            if k != t and not wanted[k]:
                wanted[k] = 1
                chosen[n] = k
                n += 1
        scratch.active[v - first] = 1 if n > 0 else 0
        if n == 0:
            continue
        chosen[n] = t
        n += 1
        for i in range(n):
            wanted[chosen[i]] = 0
        size = design.x_ptr[(v + 1) * design.node_step[0]] - design.x_ptr[v * design.node_step[0]]
        if 4 * n > n_labels and not design.node_step[1]:
            node_score(design, v, w, scratch.scores[v - first])
            work += size * n_labels
            continue
        work += 3 * size * n
        for i in range(n):
            k = chosen[i]
            total = 0.0
            if design.node_step[1]:
                r = v * design.node_step[0] + k
                for q in range(design.x_ptr[r], design.x_ptr[r + 1]):
                    total += design.x_val[q] * w[np.uint32(design.x_col[q])]
            else:
                for q in range(design.x_ptr[v], design.x_ptr[v + 1]):
                    f = np.uint32(design.x_col[q])
                    base = design.node_base[f]
                    if base >= 0:
                        total += design.x_val[q] * w[np.uint64(base + k)]
                    else:
                        p = design.node_index[f, k]
                        if p >= 0:
                            total += design.x_val[q] * w[p]
            scratch.scores[v - first, k] = total
    return work


@kernel
def products(design, planes, j, used, w, scratch):  # type: ignore[no-untyped-def]
    r""":math:`\langle w, z_i\rangle` of all planes of example ``j``, left in ``scratch.gradient``, after `needed_scores`."""
    first, last = design.node_ptr[j], design.node_ptr[j + 1]
    n_nodes, start = last - first, planes.pool_ptr[j]
    n_labels = design.node_index.shape[1]
    out = scratch.gradient
    for i in range(used):
        out[i] = 0.0
    for v in range(n_nodes):
        if scratch.active[v]:
            t = design.truth[first + v]
            own = scratch.scores[v, t]
            for i in range(1, used):
                k = planes.pool[start + i * n_nodes + v]
                if k != t:
                    out[i] += own - scratch.scores[v, k]
    for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
        u, v = design.edges[e, 0] - first, design.edges[e, 1] - first
        if not (scratch.active[u] or scratch.active[v]):
            continue
        s, t = design.truth[first + u], design.truth[first + v]
        own = 0.0
        r = e * design.edge_step[0] + (s * n_labels + t) * design.edge_step[1]
        for q in range(design.f_ptr[r], design.f_ptr[r + 1]):
            p = design.edge_index[design.f_col[q], s, t]
            if p >= 0:
                own += design.f_val[q] * w[p]
        for i in range(1, used):
            k, m = planes.pool[start + i * n_nodes + u], planes.pool[start + i * n_nodes + v]
            if k == s and m == t:
                continue
            out[i] += own
            r = e * design.edge_step[0] + (k * n_labels + m) * design.edge_step[1]
            for q in range(design.f_ptr[r], design.f_ptr[r + 1]):
                p = design.edge_index[design.f_col[q], k, m]
                if p >= 0:
                    out[i] -= design.f_val[q] * w[p]


@kernel
def entries(design, planes, scratch):  # type: ignore[no-untyped-def]
    """Vectors of all planes that are labellings, the first of each example left out, as (ptr, column, value) of their entries;
    repeated columns are added up, and ``scratch.dense`` is zero between uses."""
    ptr, room, used, row = np.zeros(planes.used.sum() - len(planes.used) + 1, dtype=np.int64), 1024, 0, 0
    column, value = np.empty(room, dtype=np.int32), np.empty(room)
    for j in range(len(planes.used)):
        n_nodes = design.node_ptr[j + 1] - design.node_ptr[j]
        for i in range(1, planes.used[j]):
            start = planes.pool_ptr[j] + i * n_nodes
            n, _ = difference(design, j, planes.pool[start : start + n_nodes], scratch.index, scratch.value)
            for q in range(n):
                scratch.dense[scratch.index[q]] += scratch.value[q]
            if used + n > room:
                room = 2 * (room + n)
                more, numbers = np.empty(room, dtype=np.int32), np.empty(room)
                more[:used], numbers[:used] = column[:used], value[:used]
                column, value = more, numbers
            for q in range(n):
                p = scratch.index[q]
                if scratch.dense[p] != 0.0:
                    column[used], value[used] = p, scratch.dense[p]
                    used += 1
                    scratch.dense[p] = 0.0
            row += 1
            ptr[row] = used
    return ptr, column[:used].copy(), value[:used].copy()


@kernel
def drop(design, planes, j, oldest):  # type: ignore[no-untyped-def]
    """Forget the planes of example ``j`` that had no weight in ``oldest`` visits; slot 0 stays. Returns how many."""
    n_nodes = design.node_ptr[j + 1] - design.node_ptr[j]
    first, used, start, base = planes.slot_ptr[j], planes.used[j], planes.pool_ptr[j], planes.gram_ptr[j]
    capacity = planes.slot_ptr[j + 1] - first
    kept = 1
    for i in range(1, used):
        if planes.alpha[first + i] == 0.0 and planes.age[first + i] >= oldest:
            continue
        if kept != i:
            planes.alpha[first + kept] = planes.alpha[first + i]
            planes.offset[first + kept] = planes.offset[first + i]
            planes.age[first + kept] = planes.age[first + i]
            for v in range(n_nodes):
                planes.pool[start + kept * n_nodes + v] = planes.pool[start + i * n_nodes + v]
            for p in range(planes.vector.shape[1]):
                planes.vector[first + kept, p] = planes.vector[first + i, p]
            for other in range(used):
                planes.gram[base + kept * capacity + other] = planes.gram[base + i * capacity + other]
            for other in range(used):
                planes.gram[base + other * capacity + kept] = planes.gram[base + other * capacity + i]
        kept += 1
    planes.used[j] = kept
    return used - kept


@kernel
def drop_all(design, planes, oldest):  # type: ignore[no-untyped-def]
    """`drop` the planes of every example ``j`` that had no weight in ``oldest[j]`` visits."""
    for j in range(len(oldest)):
        drop(design, planes, j, oldest[j])


@kernel
def insert_all(design, planes, examples, ptr, labels, oldest, scratch, full):  # type: ignore[no-untyped-def]
    """`insert` one labelling for each of ``examples``; ``full[i]`` is set where there was no room."""
    for i in range(len(examples)):
        j = examples[i]
        drop(design, planes, j, oldest)
        full[i] = insert(design, planes, j, labels[ptr[i] : ptr[i + 1]], scratch) == -2


@kernel
def copy_planes(sizes, old, old_capacity, new, new_capacity):  # type: ignore[no-untyped-def]
    """Move all planes to arrays with more room."""
    for j in range(len(sizes)):
        used = old.used[j]
        new.used[j] = used
        for i in range(used):
            a, b = old.slot_ptr[j] + i, new.slot_ptr[j] + i
            new.alpha[b], new.offset[b], new.age[b] = old.alpha[a], old.offset[a], old.age[a]
            for p in range(old.vector.shape[1]):
                new.vector[b, p] = old.vector[a, p]
            for other in range(used):
                new.gram[new.gram_ptr[j] + i * new_capacity[j] + other] = old.gram[
                    old.gram_ptr[j] + i * old_capacity[j] + other
                ]
        for i in range(used * sizes[j]):
            new.pool[new.pool_ptr[j] + i] = old.pool[old.pool_ptr[j] + i]


@kernel
def largest_difference(design):  # type: ignore[no-untyped-def]
    """Most entries that `difference` can write for any labelling of any example."""
    n_labels = design.loss.shape[1]
    largest = 0
    for j in range(len(design.node_ptr) - 1):
        count = 0
        for v in range(design.node_ptr[j], design.node_ptr[j + 1]):
            most = 0
            for k in range(n_labels if design.node_step[1] else 1):
                r = v * design.node_step[0] + k * design.node_step[1]
                most = max(most, design.x_ptr[r + 1] - design.x_ptr[r])
            count += 2 * most
        for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
            most = 0
            for k in range(n_labels * n_labels if design.edge_step[1] else 1):
                r = e * design.edge_step[0] + k * design.edge_step[1]
                most = max(most, design.f_ptr[r + 1] - design.f_ptr[r])
            count += 2 * most
        if len(design.clique_ptr):
            for c in range(design.clique_ptr[j], design.clique_ptr[j + 1]):
                count += 2 * (design.h_ptr[c + 1] - design.h_ptr[c])
        largest = max(largest, count)
    return largest
