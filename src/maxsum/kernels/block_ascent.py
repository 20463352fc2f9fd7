r"""Dual block-coordinate ascent of the n-slack problem on stored planes.

.. math:: \max_{\alpha, \mu}\; \sum_i \alpha_i b_i - \tfrac12\|w\|^2,\quad w = \sum_i \alpha_i z_i + A^\top\mu,\quad
          \sum_{i \in j}\alpha_i = c_j,\ \alpha \ge 0,\ \mu \ge 0

The planes of an example are labellings; their vectors :math:`z_i` are made on the fly from the features. Slot 0 of each
example is its true labelling (:math:`b = 0, z = 0`).
"""

from __future__ import annotations

import numpy as np

from .jit import kernel
from .planes import dot, needed_scores, products
from .simplex import pairwise_steps

LITTLE = 1e-2  # a visit ends with a step that gains less than this part of the visit: the next example has more to give


@kernel
def ascend_rows(weights):  # type: ignore[no-untyped-def]
    r"""One sweep of exact coordinate steps on the multipliers: :math:`\mu_r \leftarrow \max(0, \mu_r - A_r w / \|A_r\|^2)`."""
    for r in range(len(weights.mu)):
        product = 0.0
        for i in range(weights.row_ptr[r], weights.row_ptr[r + 1]):
            product += weights.row_val[i] * weights.plain[weights.row_col[i]]
        mu = max(0.0, weights.mu[r] - product / weights.row_norm[r])
        step = mu - weights.mu[r]
        if step != 0.0:
            weights.mu[r] = mu
            for i in range(weights.row_ptr[r], weights.row_ptr[r + 1]):
                add(weights, weights.row_col[i], step * weights.row_val[i])


@kernel
def visit(design, planes, weights, j, max_steps, scratch):  # type: ignore[no-untyped-def]
    """Improve the dual in the block of example ``j`` by pairwise steps with closed-form line search.

    With ``max_steps`` 0 a single Frank-Wolfe step towards the best plane is taken instead. Returns (gain of the dual, gap of the
    block before, entries touched). The gain is exact without a cone and a lower bound
    with one: cutting off what leaves the cone only shortens ``w``. With ``weights.sigma`` it is that of the model in which all
    curvature is so much larger.
    """
    n_nodes = design.node_ptr[j + 1] - design.node_ptr[j]
    first, used, base = planes.slot_ptr[j], planes.used[j], planes.gram_ptr[j]
    capacity = planes.slot_ptr[j + 1] - first
    gradient, change = scratch.gradient, scratch.change
    gradient[0] = 0.0
    change[0] = 0.0
    explicit = len(planes.vector) > 0
    if explicit:
        work = used * len(weights.value)
        for i in range(1, used):
            gradient[i] = dot(planes.vector[first + i], weights.value)
    else:
        work = needed_scores(design, planes, j, used, weights.value, scratch) + used * n_nodes
        products(design, planes, j, used, weights.value, scratch)
    for i in range(1, used):
        gradient[i] = planes.offset[first + i] - gradient[i]
        change[i] = 0.0
    gap = 0.0
    if max_steps == 0:
        gain, gap = frank_wolfe_step(planes, j, used, gradient, change, weights.sigma)
    else:
        top = 0.0
        for i in range(1, used):
            top = max(top, gradient[i])
        for i in range(used):
            gap += planes.alpha[first + i] * (top - gradient[i])
        gain = pairwise_steps(
            planes.gram, base, capacity, weights.sigma, gradient, planes.alpha, first, used, change, max_steps, 0.0, LITTLE
        )
    for i in range(used):
        planes.age[first + i] = 0 if planes.alpha[first + i] > 0.0 else planes.age[first + i] + 1
        change[i] *= weights.sigma
    if explicit:
        move_explicit(planes, weights, first, used, change)
    else:
        work += move(design, planes, weights, j, used, scratch)
    if len(weights.mu) > 0:
        ascend_rows(weights)
    return gain, gap, work


@kernel
def frank_wolfe_step(planes, j, used, gradient, change, sigma):  # type: ignore[no-untyped-def]
    """A step of the whole block towards its best plane, with closed-form line search; returns (gain, gap before)."""
    first, base = planes.slot_ptr[j], planes.gram_ptr[j]
    capacity = planes.slot_ptr[j + 1] - first
    best, total = 0, 0.0
    for i in range(used):
        total += planes.alpha[first + i]
        if gradient[i] > gradient[best]:
            best = i
    slope, curve = 0.0, total * total * planes.gram[base + best * capacity + best]
    for i in range(used):
        a = planes.alpha[first + i]
        slope += a * (gradient[best] - gradient[i])
        curve -= 2.0 * total * a * planes.gram[base + best * capacity + i]
        for k in range(used):
            curve += a * planes.alpha[first + k] * planes.gram[base + i * capacity + k]
    if slope <= 0.0:
        return 0.0, 0.0
    curve *= sigma
    size = 1.0 if slope >= curve else slope / curve
    for i in range(used):
        target = total if i == best else 0.0
        change[i] = size * (target - planes.alpha[first + i])
        planes.alpha[first + i] = target if size == 1.0 else planes.alpha[first + i] + change[i]
    return size * (slope - 0.5 * size * curve), slope


@kernel
def move_explicit(planes, weights, first, used, change):  # type: ignore[no-untyped-def]
    """``w += change[i] * z_i`` over the planes of an example whose vectors are stored."""
    for i in range(1, used):
        if change[i] != 0.0:
            row = planes.vector[first + i]
            for p in range(len(row)):
                weights.plain[p] += change[i] * row[p]
    for p in range(len(weights.nonneg)):
        weights.value[p] = 0.0 if weights.nonneg[p] and weights.plain[p] < 0.0 else weights.plain[p]


@kernel
def move(design, planes, weights, j, used, scratch):  # type: ignore[no-untyped-def]
    """``w += change[i] * z_i`` over all planes of example ``j`` at once, node by node; returns the entries touched."""
    first, last = design.node_ptr[j], design.node_ptr[j + 1]
    n_nodes, start = last - first, planes.pool_ptr[j]
    n_labels = design.node_index.shape[1]
    change, share, moving = scratch.change, scratch.share, scratch.moving
    wanted, chosen = scratch.wanted, scratch.chosen
    work, n_moving = 0, 0
    for i in range(1, used):
        if change[i] != 0.0:
            moving[n_moving] = i
            n_moving += 1
    if n_moving == 0:
        return 0
    for v in range(first, last):
        if not scratch.active[v - first]:
            continue
        t, n, own = design.truth[v], 0, 0.0
        for a in range(n_moving):
            i = moving[a]
            k = planes.pool[start + i * n_nodes + v - first]
            if k != t:
                if not wanted[k]:
                    wanted[k] = 1
                    chosen[n] = k
                    share[k] = 0.0
                    n += 1
                own += change[i]
                share[k] -= change[i]
        seen, n = n, 0
        for q in range(seen):
            k = chosen[q]
            wanted[k] = 0
            if share[k] != 0.0:
                chosen[n] = k
                n += 1
        if own != 0.0:
            chosen[n] = t
            share[t] = own
            n += 1
        if n == 0:
            continue
        if design.node_step[1]:
            for q in range(n):
                r = v * design.node_step[0] + chosen[q]
                for i in range(design.x_ptr[r], design.x_ptr[r + 1]):
                    add(weights, design.x_col[i], share[chosen[q]] * design.x_val[i])
            continue
        work += 3 * (design.x_ptr[v + 1] - design.x_ptr[v]) * n
        for i in range(design.x_ptr[v], design.x_ptr[v + 1]):
            f, x = design.x_col[i], design.x_val[i]
            base = design.node_base[f]
            if base >= 0 and len(weights.nonneg) == 0:
                for q in range(n):
                    k = chosen[q]
                    weights.plain[np.uint64(base + k)] += x * share[k]
            else:
                for q in range(n):
                    k = chosen[q]
                    p = design.node_index[f, k]
                    if p >= 0:
                        add(weights, p, x * share[k])
    for e in range(design.edge_ptr[j], design.edge_ptr[j + 1]):
        u, v = design.edges[e, 0], design.edges[e, 1]
        s, t = design.truth[u], design.truth[v]
        if not (scratch.active[u - first] or scratch.active[v - first]):
            continue
        total = 0.0
        for a in range(n_moving):
            i = moving[a]
            k, m = planes.pool[start + i * n_nodes + u - first], planes.pool[start + i * n_nodes + v - first]
            if k != s or m != t:
                total += change[i]
                r = e * design.edge_step[0] + (k * n_labels + m) * design.edge_step[1]
                for q in range(design.f_ptr[r], design.f_ptr[r + 1]):
                    p = design.edge_index[design.f_col[q], k, m]
                    if p >= 0:
                        add(weights, p, -change[i] * design.f_val[q])
        if total != 0.0:
            r = e * design.edge_step[0] + (s * n_labels + t) * design.edge_step[1]
            for q in range(design.f_ptr[r], design.f_ptr[r + 1]):
                p = design.edge_index[design.f_col[q], s, t]
                if p >= 0:
                    add(weights, p, total * design.f_val[q])
    return work + used * (design.edge_ptr[j + 1] - design.edge_ptr[j])


@kernel
def add(weights, p, amount):  # type: ignore[no-untyped-def]
    """``w[p] += amount``, cut off at 0 where the cone says so."""
    weights.plain[p] += amount
    if len(weights.nonneg) > 0:
        weights.value[p] = 0.0 if weights.nonneg[p] and weights.plain[p] < 0.0 else weights.plain[p]


@kernel
def cached_passes(design, planes, weights, order, n_passes, max_steps, active, least, gain, work, gaps, scratch):  # type: ignore[no-untyped-def]
    """Passes over the stored planes of the examples in ``order`` (reordered in place) while they pay.

    A pass pays if its gain for its work is no less than ``gain / work`` so far, and more than ``least``. Examples whose gap is
    below ``active`` times the mean are left out of the next pass. Returns (passes done, gain, work).
    """
    n, done = len(order), 0
    while done < n_passes and n > 0:
        more, touched, total = 0.0, 0, 0.0
        for i in range(n):
            j = order[i]
            a, gaps[j], c = visit(design, planes, weights, j, max_steps, scratch)
            more += a
            touched += c
            total += gaps[j]
        done += 1
        pays = more * work >= gain * touched and more > least
        gain += more
        work += touched
        if not pays:
            break
        kept = 0
        for i in range(n):
            j = order[i]
            if gaps[j] * n > active * total:
                order[i], order[kept] = order[kept], j
                kept += 1
        n = kept
    return done, gain, work


@kernel
def rebuild(design, planes, weights, scratch):  # type: ignore[no-untyped-def]
    """Recompute ``w`` from planes and multipliers, without the rounding of many small steps; returns sum of alpha * b."""
    total = 0.0
    for p in range(len(weights.plain)):
        weights.plain[p] = 0.0
    for j in range(len(planes.used)):
        first, used = planes.slot_ptr[j], planes.used[j]
        for i in range(used):
            scratch.change[i] = planes.alpha[first + i]
            total += planes.alpha[first + i] * planes.offset[first + i]
        if len(planes.vector) > 0:
            move_explicit(planes, weights, first, used, scratch.change)
        else:
            for v in range(design.node_ptr[j + 1] - design.node_ptr[j]):
                scratch.active[v] = 1
            move(design, planes, weights, j, used, scratch)
    for r in range(len(weights.mu)):
        for i in range(weights.row_ptr[r], weights.row_ptr[r + 1]):
            weights.plain[weights.row_col[i]] += weights.mu[r] * weights.row_val[i]
    for p in range(len(weights.nonneg)):
        weights.value[p] = 0.0 if weights.nonneg[p] and weights.plain[p] < 0.0 else weights.plain[p]
    return total
