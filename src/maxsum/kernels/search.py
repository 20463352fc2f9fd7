"""One box of the exact search: shrink it, tighten its bound, choose where to branch."""

from __future__ import annotations

import numpy as np

from .box import list_labels, packed_edge_terms, tighten
from .consistency import arc_consistency
from .enumeration import enumerate_box
from .height import clique_terms
from .jit import kernel


@kernel
def restrict(net, base, domain):  # type: ignore[no-untyped-def]
    """Write the box into ``net.unary``: the scores ``base`` inside ``domain``, ``-inf`` outside."""
    for v in range(base.shape[0]):
        for k in range(base.shape[1]):
            net.unary[v, k] = base[v, k] if domain[v, k] else -np.inf


@kernel
def box_height(net, domain, edge_messages, clique_messages, slack, box):  # type: ignore[no-untyped-def]
    """Height of the box; ``slack[v, k]`` gets the loss of label ``k`` at its node (``inf`` outside the box)."""
    list_labels(net.n_states, domain, box.label, box.size)
    label, size = box.label, box.size
    total = packed_edge_terms(net, edge_messages, box)
    if len(net.clique_ptr) > 1:
        total += clique_terms(net, clique_messages, np.empty(0, dtype=np.int32))[0]
    for v in range(len(net.n_states)):
        for k in range(net.n_states[v]):
            slack[v, k] = net.unary[v, k]
        for i in range(net.ptr[v], net.ptr[v + 1]):
            e, side = net.adj_edge[i], net.adj_side[i]
            for a in range(size[v]):
                slack[v, label[v, a]] -= edge_messages[side, e, label[v, a]]
        for i in range(net.member_ptr[v], net.member_ptr[v + 1]):
            for a in range(size[v]):
                slack[v, label[v, a]] -= clique_messages[net.member[i], label[v, a]]
        top = -np.inf
        for k in range(net.n_states[v]):
            top = max(top, slack[v, k])
        total += top
        for k in range(net.n_states[v]):
            slack[v, k] = top - slack[v, k] if slack[v, k] > -np.inf else np.inf
    return total


@kernel
def shrink(net, base, domain, edge_messages, clique_messages, target, slack, queue, queued, hard, box):  # type: ignore[no-untyped-def]
    """Remove from the box what cannot exceed ``target``, by arc consistency and by the loss of each label.

    On entry ``queued`` marks the nodes that have lost labels; ``hard`` says whether there are hard constraints. Returns the height of what is left, ``-inf`` if nothing is.
    """
    while True:
        if hard and not arc_consistency(net, domain, queue, queued, False):
            queued[:] = 0
            return -np.inf
        restrict(net, base, domain)
        total = box_height(net, domain, edge_messages, clique_messages, slack, box)
        if total <= target:
            return -np.inf
        changed = False
        for v in range(len(net.n_states)):
            for k in range(net.n_states[v]):
                if domain[v, k] and total - slack[v, k] <= target:
                    domain[v, k] = 0
                    queued[v] = 1
                    changed = True
        if not changed:
            return total


@kernel
def probe(net, domain, trial, queue, queued, found):  # type: ignore[no-untyped-def]
    """Remove every label whose choice would empty a domain by arc consistency, until none is left.

    The removed (node, label) pairs are listed in ``found``, in order. Returns their number, and False if the box is empty.
    """
    n_nodes, n_found, quiet, v = len(net.n_states), 0, 0, 0
    while quiet < n_nodes:
        size = 0
        for k in range(net.n_states[v]):
            size += domain[v, k]
        changed = False
        for k in range(net.n_states[v] if size > 1 else 0):
            if not domain[v, k]:
                continue
            trial[:] = domain
            trial[v] = 0
            trial[v, k] = 1
            queued[:] = 0
            queued[v] = 1
            if arc_consistency(net, trial, queue, queued, False):
                continue
            found[n_found, 0] = v
            found[n_found, 1] = k
            n_found += 1
            domain[v, k] = 0
            queued[:] = 0
            queued[v] = 1
            changed = True
            if not arc_consistency(net, domain, queue, queued, False):
                return n_found, False
        quiet = 0 if changed else quiet + 1
        v = (v + 1) % n_nodes
    return n_found, True


@kernel
def choose(net, domain, slack):  # type: ignore[no-untyped-def]
    """Node and label to branch on, -1 if all are decided.

    The node has few labels that lose much on average (with hard constraints alone: few labels and many edges); the label
    is its best.
    """
    best_node, best_value = -1, np.inf
    for v in range(len(net.n_states)):
        size, loss = 0, 0.0
        for k in range(net.n_states[v]):
            if domain[v, k]:
                size += 1
                loss += slack[v, k]
        if size < 2:
            continue
        value = size / (loss / size + 1e-9 * (1.0 + net.ptr[v + 1] - net.ptr[v]))
        if value < best_value:
            best_node, best_value = v, value
    if best_node < 0:
        return -1, -1
    label, least = -1, np.inf
    for k in range(net.n_states[best_node]):
        if domain[best_node, k] and slack[best_node, k] < least:
            least, label = slack[best_node, k], k
    return best_node, label


@kernel
def middle(net, domain, v):  # type: ignore[no-untyped-def]
    """Label that halves the labels of ``v`` that are left (as many below it as from it on), and their number."""
    size = 0
    for k in range(net.n_states[v]):
        size += domain[v, k]
    below = 0
    for k in range(net.n_states[v]):
        if 2 * below >= size:
            return k, size
        below += domain[v, k]
    return net.n_states[v] - 1, size


@kernel
def visit(net, base, domain, edge_messages, clique_messages, limits, scratch, room, labels):  # type: ignore[no-untyped-def]
    """`shrink`, `box.tighten`, `shrink`, `enumerate_box` and `choose` in one:
    ``(passes, opened, height, score, node, label, middle, size)``.

    ``limits`` are the target, its distance from the best score, ``max_iter`` and ``least`` of `box.tighten`, and the work that an
    enumeration may take, in passes (0: none). ``labels`` with ``score`` (``-inf``: none) is a labelling met on the way;
    ``size`` is the number of labels of ``node``. ``opened`` is what an enumeration that closed the box has opened (0: it did
    not, or there was none; then ``height > -inf`` says that the box is open).
    """
    target, closed_gap, max_iter, least, work = limits
    slack, queue, queued, hard, box = scratch
    height = shrink(net, base, domain, edge_messages, clique_messages, target, slack, queue, queued, hard, box)
    if height == -np.inf:
        return 0, 0, -np.inf, -np.inf, -1, -1, -1, 0
    score, n_passes = tighten(net, domain, edge_messages, height, target, max_iter, least, box, labels)
    if score > -np.inf:
        target = max(target, score + closed_gap)
    height = shrink(net, base, domain, edge_messages, clique_messages, target, slack, queue, queued, hard, box)
    if height == -np.inf:
        return n_passes, 0, height, score, -1, -1, -1, 0
    n_labels, pairs = box.size.sum(), 0
    for e in range(len(net.edges)):
        pairs += box.size[net.edges[e, 0]] * box.size[net.edges[e, 1]]
    if work > 0 and n_labels <= room.loss.shape[1]:
        limit = 64 + work * pairs // n_labels
        opened, loss = enumerate_box(net, edge_messages, slack, box, room, height - target, closed_gap, limit, room.best)
        if height - loss > score:
            score = height - loss
            labels[:] = room.best
        if opened <= limit:
            return n_passes, opened + 1, -np.inf, score, -1, -1, -1, 0
    node, label = choose(net, domain, slack)
    at, size = middle(net, domain, node) if node >= 0 else (-1, 0)
    return n_passes, 0, height, score, node, label, at, size
