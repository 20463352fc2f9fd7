"""Enumeration of a box of a search in whole units of loss: exact, and many partial labellings at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .passes import CHUNK

if TYPE_CHECKING:
    from ...problem import Problem

_COARSE = 22  # binary digits of the units in which losses are counted where whole numbers leave much room: sums fit int32
_FINE = 52  # and elsewhere: the digits of a float
# Share that losses to nodes still open have in the choice of the next node (measured on radio link problems).
_OPEN_SHARE = 0.3


def unit_bits(problem: Problem, wanted: float, room: float) -> int:
    """Binary digits of the units that losses are counted in. Every term loses up to a unit, which must not fill the room."""
    degree = int(problem.graph.degrees.max(initial=0))
    if (problem.n_nodes + problem.n_edges) * wanted <= 0.05 * room * 2.0**_COARSE and degree < 256:
        return _COARSE
    return min(_FINE, 61 - ((problem.n_nodes + 1) * (degree + 2)).bit_length())


def enumerate_units(problem: Problem, domain: np.ndarray, node: np.ndarray, edge: np.ndarray, needed: int, limit: int) -> int:
    """Least loss of a labelling of the box, or of what was closed with at least the loss ``needed``.

    ``node`` (N, K) and ``edge`` (E, K, K) are losses in units. Nodes get their labels one after another, many partial
    labellings at a time; one is closed when its loss and, for each open node, the least loss of a label there reach ``needed``.
    At most ``limit`` partial labellings are opened.
    """
    order, pairs = _losses(problem, domain, node, edge, needed)
    sizes = domain[order].sum(axis=1).tolist()
    dtype = np.int32 if needed <= (1 << _COARSE) + 1 and problem.graph.degrees.max(initial=0) < 256 else np.int64
    pairs, ends = pairs.astype(dtype), np.cumsum(sizes).tolist()
    first = node[order][domain[order]].astype(dtype)
    stack = [(0, np.zeros(1, dtype=np.int64), first[None])]
    least, opened = 1 << 62, 0
    while stack:
        depth, spent, loss = stack.pop()
        starts = np.concatenate([[0], np.cumsum(sizes[depth:-1])]).astype(int)
        smallest = np.minimum.reduceat(loss, starts, axis=1)
        total = spent + smallest.sum(axis=1, dtype=np.int64)
        here = (total - smallest[:, 0])[:, None] + loss[:, : sizes[depth]]
        keep = here < needed
        if opened > limit or depth == len(sizes) - 1:
            least = min(least, int(here.min()))
            continue
        if not keep.all():
            least = min(least, int(here[~keep].min()))
        row, label = np.nonzero(keep)
        opened += len(row)
        rest = loss.shape[1] - sizes[depth]
        for begin in range(0, len(row), max(1, 4 * CHUNK // rest)):
            part = slice(begin, begin + max(1, 4 * CHUNK // rest))
            r, a = row[part], label[part]
            at = ends[depth] - sizes[depth] + a
            stack.append((depth + 1, spent[r] + loss[r, a], loss[r, sizes[depth] :] + pairs[at, ends[depth] :]))
    return least


def _losses(
    problem: Problem, domain: np.ndarray, node: np.ndarray, edge: np.ndarray, needed: int
) -> tuple[list[int], np.ndarray]:
    """Order of the nodes, and the losses of all pairs of labels of the box, in that order, of which the second is the later.

    First come nodes with few labels that lose much; what they lose to nodes that are still open counts less.
    """
    n, ends = domain.shape[0], problem.graph.edges
    size = domain.sum(axis=1)
    edge = np.where(domain[ends[:, 0]][:, :, None] & domain[ends[:, 1]][:, None], edge, 0)
    mean = np.zeros((n, n))
    each = edge.sum(axis=(1, 2)) / (size[ends[:, 0]] * size[ends[:, 1]])
    np.add.at(mean, (ends[:, 0], ends[:, 1]), each)
    mean += mean.T
    inside = np.where(domain, node, 0).sum(axis=1) / size + 1e-9 * needed
    outside = mean.sum(axis=1)
    order: list[int] = []
    value = np.empty(n)
    for _ in range(n):
        np.divide(size, inside + _OPEN_SHARE * outside, out=value)
        value[order] = np.inf
        v = int(value.argmin())
        order.append(v)
        inside += mean[v]
        outside -= mean[v]
    place = np.full(domain.shape, -1)
    place[order] = np.where(domain[order], np.cumsum(domain[order].ravel()).reshape(domain.shape) - 1, -1)
    e, k, m = np.nonzero(edge)
    first, second = place[ends[e, 0], k], place[ends[e, 1], m]
    pairs = np.zeros((int(size.sum()),) * 2, dtype=np.int64)
    np.add.at(pairs, (np.minimum(first, second), np.maximum(first, second)), edge[e, k, m])
    return order, pairs
