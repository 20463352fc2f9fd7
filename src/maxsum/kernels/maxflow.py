"""Maximum flow in a network whose terminal arcs are node excesses: a few sweeps of pushes, then two search trees.

The trees are those of Boykov and Kolmogorov (2004): one grows from the nodes with positive excess (sources), one from
those with negative excess (sinks). Where they meet, flow is pushed; nodes cut off from their root look for a new parent.

A node is four numbers in a row, an arc is 16 bytes, so that each visit costs one line of the cache.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

ROOT = -2  # parent of a node with excess; arcs have numbers from 0
NONE = -1  # parent of a node in neither tree
ORPHAN = -3  # parent of a node that has lost its own
_LAST_TIME = 2**31 - 2  # time stamps that int32 can hold, with one to spare: then all are set back
_QUANTA = 2.0**20  # parts of the largest excess that shares are multiples of: sums of them stay exact up to 2^33 terms


@kernel
def sweep(flow, backward):  # type: ignore[no-untyped-def]
    """Every node shares its excess among the arcs to later nodes (earlier ones if ``backward``).

    This is a pass of sequential tree-reweighted messages in terms of flow. Shares are multiples of a power of two, so
    that sums of whole numbers stay exact and ties stay ties.
    """
    ptr, arc, cap, excess = flow.ptr, flow.arc, flow.cap, flow.excess
    n = len(excess)
    top = 0.0
    for v in range(n):
        top = max(top, abs(excess[v]))
    if top < 1e-290:
        return
    scale = 2.0 ** (np.floor(np.log2(_QUANTA)) - np.floor(np.log2(top)))
    for k in range(n):
        v = n - 1 - k if backward else k
        t = excess[v]
        first, last = ptr[v], ptr[v + 1]
        later = 0
        for a in range(first, last):
            later += arc[4 * a + 2] > v
        mine = last - first - later if backward else later
        if mine == 0:
            continue
        count = max(later, last - first - later)
        share = np.trunc(t / count * scale) / scale
        for a in range(first, last):
            w = arc[4 * a + 2]
            if (w < v) == backward:
                mine -= 1
                wanted = t if mine == 0 and 2 * later == last - first else share
                s = arc[4 * a + 3]
                there, back = cap[2 * a], cap[2 * s]
                pushed = max(min(wanted, there), -back)
                cap[2 * a] = there - pushed
                cap[2 * s] = back + pushed
                excess[w] += pushed
                t -= pushed
        excess[v] = t


@kernel
def start(flow):  # type: ignore[no-untyped-def]
    """Trees of roots only: every node with excess, all of them active."""
    node, size = flow.node, 0
    for v in range(len(flow.excess)):
        node[4 * v + 2] = 0
        flow.queued[v] = 0
        if flow.excess[v] != 0.0:
            node[4 * v], node[4 * v + 1] = ROOT, v
            node[4 * v + 3] = 1 if flow.excess[v] > 0.0 else -1
            flow.queue[size] = v
            flow.queued[v] = 1
            size += 1
        else:
            node[4 * v], node[4 * v + 1], node[4 * v + 3] = NONE, v, 0
    flow.state[0], flow.state[1], flow.state[2] = 0, size, 0


@kernel
def advance(flow, budget):  # type: ignore[no-untyped-def]
    """Work on the flow for about ``budget`` node visits; True if it is maximal.

    Then the nodes of the source tree (distance > 0) are the smallest source side of a minimum cut.
    """
    ptr, arc, cap, node, queue, queued = flow.ptr, flow.arc, flow.cap, flow.node, flow.queue, flow.queued
    n = len(flow.excess)
    head, size = flow.state[0], flow.state[1]
    work = 0
    while size > 0 and work < budget:
        p = queue[head]
        dist, stamp = node[4 * p + 3], node[4 * p + 2]
        side = 1 if dist > 0 else -1
        met = -1
        work += 1
        if dist != 0:
            for a in range(ptr[p], ptr[p + 1]):
                s = arc[4 * a + 3]
                if cap[2 * (a if side > 0 else s)] <= 0.0:
                    continue
                q = arc[4 * a + 2]
                there = node[4 * q + 3] * side
                if there < 0:
                    met = a if side > 0 else s
                    break
                if there == 0:
                    if not queued[q]:
                        queued[q] = 1
                        end = head + size
                        queue[end - n if end >= n else end] = q
                        size += 1
                elif node[4 * q + 2] > stamp or there <= dist * side + 1:
                    continue
                node[4 * q], node[4 * q + 1], node[4 * q + 2], node[4 * q + 3] = s, p, stamp, dist + side
        if met < 0:
            queued[p] = 0
            head = head + 1 if head + 1 < n else 0
            size -= 1
            continue
        flow.state[0], flow.state[1] = head, size
        flow.state[2] += 1
        flow.state[3] += 1
        if flow.state[2] >= _LAST_TIME:
            start(flow)
        else:
            work += _adopt(flow, _augment(flow, met))
        head, size = flow.state[0], flow.state[1]
    flow.state[0], flow.state[1] = head, size
    return size == 0


@kernel
def _augment(flow, met):  # type: ignore[no-untyped-def]
    """Push what the path through arc ``met``, from the source tree to the sink tree, can take; returns the number of orphans.

    Orphans stand at the end of the buffer, those of the sink tree first, in each tree those nearest to the root first.
    """
    arc, cap, node, excess, orphans = flow.arc, flow.cap, flow.node, flow.excess, flow.orphans
    sister = arc[4 * met + 3]
    first, last = arc[4 * sister + 2], arc[4 * met + 2]
    room = cap[2 * met]
    x = first
    while node[4 * x] != ROOT:
        room = min(room, cap[2 * arc[4 * node[4 * x] + 3]])
        x = node[4 * x + 1]
    room = min(room, excess[x])
    x = last
    while node[4 * x] != ROOT:
        room = min(room, cap[2 * node[4 * x]])
        x = node[4 * x + 1]
    room = min(room, -excess[x])
    cap[2 * met] -= room
    cap[2 * sister] += room
    n, count = len(orphans), 0
    for side in range(2):
        x = first if side == 0 else last
        while node[4 * x] != ROOT:
            a, above = node[4 * x], node[4 * x + 1]
            s = arc[4 * a + 3]
            if side == 0:
                a, s = s, a
            left = cap[2 * a] - room
            cap[2 * a] = left
            cap[2 * s] += room
            if left <= 0.0:
                node[4 * x] = ORPHAN
                count += 1
                orphans[n - count] = x
            x = above
        excess[x] += room if side == 1 else -room
        if excess[x] == 0.0:
            node[4 * x] = ORPHAN
            count += 1
            orphans[n - count] = x
    return count


@kernel
def _adopt(flow, count):  # type: ignore[no-untyped-def]
    """Give each orphan the parent nearest to a root, or free it and make its children orphans; returns the work done.

    Nodes whose way to a root is known since this augmentation carry its time stamp.
    """
    ptr, arc, cap, node, orphans = flow.ptr, flow.arc, flow.cap, flow.node, flow.orphans
    queue, queued, state = flow.queue, flow.queued, flow.state
    n = len(orphans)
    now = np.int32(state[2])
    head, work = n - count, 0
    while count > 0:
        p = orphans[head]
        head = head + 1 if head + 1 < n else 0
        count -= 1
        side = 1 if node[4 * p + 3] > 0 else -1
        best, best_dist = -1, 2**31
        for a in range(ptr[p], ptr[p + 1]):
            q = arc[4 * a + 2]
            if node[4 * q + 3] * side <= 0 or cap[2 * (arc[4 * a + 3] if side > 0 else a)] <= 0.0:
                continue
            dist, x = 0, q
            while True:
                work += 1
                if node[4 * x + 2] == now:
                    dist += abs(node[4 * x + 3])
                    break
                dist += 1
                if node[4 * x] < 0:
                    if node[4 * x] == ORPHAN:
                        dist = 2**31
                    else:
                        node[4 * x + 2], node[4 * x + 3] = now, side
                    break
                x = node[4 * x + 1]
            if dist == 2**31:
                continue
            if dist < best_dist:
                best, best_dist = a, dist
            x = q
            while node[4 * x + 2] != now:
                node[4 * x + 2], node[4 * x + 3] = now, dist * side
                dist -= 1
                x = node[4 * x + 1]
        if best >= 0:
            node[4 * p], node[4 * p + 1] = best, arc[4 * best + 2]
            node[4 * p + 2], node[4 * p + 3] = now, (best_dist + 1) * side
            continue
        for a in range(ptr[p], ptr[p + 1]):
            q = arc[4 * a + 2]
            if node[4 * q + 3] * side <= 0:
                continue
            if not queued[q] and cap[2 * (arc[4 * a + 3] if side > 0 else a)] > 0.0:
                queued[q] = 1
                end = state[0] + state[1]
                queue[end - n if end >= n else end] = q
                state[1] += 1
            if node[4 * q] >= 0 and node[4 * q + 1] == p:
                node[4 * q] = ORPHAN
                end = head + count
                orphans[end - n if end >= n else end] = q
                count += 1
        node[4 * p], node[4 * p + 3] = NONE, 0
    return work
