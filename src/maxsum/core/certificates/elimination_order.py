"""Elimination orders: in which order the junction tree removes nodes, and how wide it gets."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True)
class EliminationOrder:
    """Nodes in the order of elimination and, for each, its neighbours at that moment (its separator).

    ``width`` is the size of the largest separator; ``cells`` the number of table entries of all bags together.
    """

    nodes: tuple[int, ...]
    separators: Sequence[tuple[int, ...]]
    width: int
    cells: float


class FlatSeparators(Sequence[tuple[int, ...]]):
    """The separators of an order as arrays: that of ``nodes[i]`` is ``members[ptr[i]:ptr[i + 1]]``. Tuples are made when they are asked for."""

    def __init__(self, nodes: np.ndarray, ptr: np.ndarray, members: np.ndarray):
        self.nodes, self.ptr, self.members = nodes, ptr, members

    @cached_property
    def _tuples(self) -> tuple[tuple[int, ...], ...]:
        flat, cuts = tuple(self.members.tolist()), self.ptr.tolist()
        return tuple(flat[first:last] for first, last in pairwise(cuts))

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self._tuples)

    @overload
    def __getitem__(self, i: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[tuple[int, ...], ...]: ...
    def __getitem__(self, i: int | slice) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        return self._tuples[i]


class FlatTables(Sequence[np.ndarray]):
    """Separator tables one after another in ``values``, table ``i`` from ``ptr[i]`` on; views of their shapes are made when they are asked for."""

    def __init__(self, values: np.ndarray, ptr: np.ndarray, separators: FlatSeparators, n_states: np.ndarray):
        self.values, self.ptr, self.separators, self.n_states = values, ptr, separators, n_states

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @overload
    def __getitem__(self, i: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[np.ndarray, ...]: ...
    def __getitem__(self, i: int | slice) -> np.ndarray | tuple[np.ndarray, ...]:
        if isinstance(i, slice):
            return tuple(self[j] for j in range(*i.indices(len(self))))
        i = range(len(self))[i]
        members = self.separators.members[self.separators.ptr[i] : self.separators.ptr[i + 1]]
        return self.values[self.ptr[i] : self.ptr[i + 1]].reshape(self.n_states[members])


def elimination_order(
    problem: Problem, max_width: int | None = None, max_cells: float | None = None
) -> EliminationOrder | None:
    """Greedy min-fill order, ties to fewer table cells, then to the lowest node; None as soon as a limit is passed.

    Nodes are kept in a heap with the fill that they had when they were last looked at; an entry is recomputed when it
    comes up, as an elimination changes the fill only near the eliminated node.
    """
    states, neighbours = problem.n_states.tolist(), _neighbours(problem, max_width)
    if neighbours is None:
        return None

    def key(v: int) -> tuple[int, float, int]:
        near = neighbours[v]
        if len(near) < 2:
            fill = 0
        else:
            fill = sum(len(near) - 1 - len(neighbours[w] & near) for w in near) // 2
        cells = float(states[v])
        for w in near:
            cells *= states[w]
        return fill, cells, v

    heap = [key(v) for v in range(problem.n_nodes)]
    heapq.heapify(heap)
    done = [False] * problem.n_nodes
    nodes, separators, width, total = [], [], 0, 0.0
    while heap:
        entry = heapq.heappop(heap)
        v = entry[2]
        if done[v]:
            continue
        now = key(v)
        if now != entry and heap and now > heap[0]:
            heapq.heappush(heap, now)
            continue
        near = neighbours[v]
        width = max(width, len(near))
        total += now[1]
        if (max_width is not None and width > max_width) or (max_cells is not None and total > max_cells):
            return None
        done[v] = True
        nodes.append(v)
        separators.append(tuple(sorted(near)))
        for w in near:
            neighbours[w] |= near
            neighbours[w] -= {v, w}
        for w in near:
            heapq.heappush(heap, key(w))
        neighbours[v] = set()
    return EliminationOrder(tuple(nodes), tuple(separators), width, total)


def order_along(
    problem: Problem, nodes: list[int], max_width: int | None = None, max_cells: float | None = None
) -> EliminationOrder | None:
    """The order that removes the nodes as they are listed; None as soon as a limit is passed."""
    states, neighbours = problem.n_states.tolist(), _neighbours(problem, max_width)
    if neighbours is None:
        return None
    separators, width, total = [], 0, 0.0
    for v in nodes:
        near = neighbours[v]
        width = max(width, len(near))
        total += states[v] * math.prod(float(states[w]) for w in near)
        if (max_width is not None and width > max_width) or (max_cells is not None and total > max_cells):
            return None
        separators.append(tuple(sorted(near)))
        for w in near:
            neighbours[w] |= near
            neighbours[w] -= {v, w}
    return EliminationOrder(tuple(nodes), tuple(separators), width, total)


def _neighbours(problem: Problem, max_width: int | None) -> list[set[int]] | None:
    """Neighbours of each node, by edges, cliques and factors; None where one of these alone is too wide."""
    neighbours: list[set[int]] = [set() for _ in range(problem.n_nodes)]
    for u, v in problem.graph.edges.tolist():
        neighbours[u].add(v)
        neighbours[v].add(u)
    terms = [problem.cliques.members(c).tolist() for c in range(len(problem.cliques))]
    terms += [nodes.tolist() for nodes, _ in problem.factors.items()]
    for members in terms:
        if max_width is not None and len(members) > max_width + 1:
            return None
        for u in members:
            neighbours[u].update(members)
            neighbours[u].discard(u)
    return neighbours
