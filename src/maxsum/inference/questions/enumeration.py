"""Labellings one after the other, best first: what `k_best` counts off, each way with the proof of its order."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.certificates.base import Certificate
from ...core.certificates.dual import own_labels
from ...core.certificates.elimination_order import EliminationOrder
from ...core.certificates.ranking import BoxRanking, EliminationRanking, Ranking, box_mask, branch_bounds
from ...core.conditioning import within
from ...core.errors import InfeasibleError
from ...core.problem import Messages, Problem
from ...core.result import Guarantee, Result
from ...executors.clock import Clock
from ..dispatch import solve
from .bags import BagTree, best

_SHARE = (
    0.3  # of the time that is left, for one box: half leaves too little to the fourth one, a tenth proves less of the first
)


class Enumeration(ABC):
    """Labellings in the order of their scores, as far as that is known; each is given once."""

    @abstractmethod
    def next(self) -> np.ndarray | None:
        """The next labelling; None if there is none, or none was found in time."""

    @abstractmethod
    def settle(self) -> None:
        """Tighten the bound of what was not given until it is no higher than what was, where that takes work."""

    @abstractmethod
    def proof(self) -> Ranking:
        """A bound of everything but the labellings that were given so far, in the order in which they were given."""


@dataclass
class _Row:
    """A labelling that was given: its labels and what they cost, node by node against the order of elimination, and the other labels
    after its own prefixes, cheapest first."""

    labels: list[int]
    costs: list[float]
    others: list[tuple[float, int, int]]


class BagEnumeration(Enumeration):
    r"""Exact, by dynamic programming: against the order of elimination the score is :math:`c - \sum_v s_v(y_v \mid y_S)`, with
    :math:`s_v = M_v - B_v \ge 0` and 0 for some label, whatever the labels of the separator are.

    So the best labelling with a given prefix costs what the prefix costs: every other label after a prefix of a known labelling is a
    box whose best score is known before its labelling is made (Lawler 1972 with exact bounds; Nilsson 1998 for junction trees).
    """

    def __init__(self, problem: Problem, order: EliminationOrder):
        self.problem, self.order = problem, order
        self.tree = BagTree(problem, order, best)
        self.first = [bag.argmax(axis=0) for bag in self.tree.rest]
        self.rows: list[_Row] = []
        self.heap: list[tuple[float, int, int]] = []  # cost, row, place in the list of its other labels

    def next(self) -> np.ndarray | None:
        if not self.tree.feasible:
            return None
        n = self.problem.n_nodes
        if not self.rows:
            return self._give([0] * n, [0.0] * n, n)
        if not self.heap:
            return None
        _, number, place = heapq.heappop(self.heap)
        row = self.rows[number]
        cost, i, label = row.others[place]
        self._push(number, place + 1)
        labels, costs = row.labels.copy(), row.costs.copy()
        labels[self.order.nodes[i]] = label
        costs[i] = cost - sum(row.costs[i + 1 :])
        return self._give(labels, costs, i)

    def _push(self, number: int, place: int) -> None:
        others = self.rows[number].others
        if place < len(others):
            heapq.heappush(self.heap, (others[place][0], number, place))

    def _give(self, labels: list[int], costs: list[float], known: int) -> np.ndarray:
        """Complete a labelling whose nodes from bag ``known`` on have their labels, and list the other labels before it."""
        nodes, separators, rest = self.order.nodes, self.order.separators, self.tree.rest
        spent, others = sum(costs[known:]), []
        for i in range(known - 1, -1, -1):
            at: tuple[Any, ...] = tuple([labels[w] for w in separators[i]])
            labels[nodes[i]] = chosen = int(self.first[i][at])
            costs[i] = 0.0
            every: tuple[Any, ...] = (slice(None), *at)
            values = rest[i][every].tolist()
            others += [(spent - value, i, k) for k, value in enumerate(values) if k != chosen and value > -np.inf]
        others.sort()
        self.rows.append(_Row(labels, costs, others))
        self._push(len(self.rows) - 1, 0)
        return np.array(labels, dtype=np.int32)

    def settle(self) -> None:
        return  # its bounds are exact

    def proof(self) -> Ranking:
        return EliminationRanking(self.tree.certificate())


@dataclass
class _Box:
    """Labellings that begin as a row and go on with another label than those used: their bound and, once solved, the best of them."""

    bound: float
    used: np.ndarray
    result: Result | None = None


class BoxEnumeration(Enumeration):
    """For every problem: boxes by Lawler's partition, bounded by messages, and solved when their bound is the largest of all.

    Parameters
    ----------
    problem : Problem
    gap : float or None
        Relative gap within which boxes are solved.
    clock : Clock
        When time is up no box is solved any more.
    """

    def __init__(self, problem: Problem, gap: float | None, clock: Clock):
        self.problem, self.gap, self.clock = problem, gap, clock
        self.own = own_labels(problem)
        # Nodes near each other come after each other, so that a prefix fixes whole neighbourhoods and its bound is tight.
        self.nodes = np.arange(problem.n_nodes)
        self.rows: list[np.ndarray] = []
        self.messages: list[Messages] = []
        self.around: list[Certificate | None] = []
        self.solved: dict[tuple[int, int], Certificate] = {}
        self.boxes: dict[tuple[int, int], _Box] = {}
        self.heap: list[tuple[float, tuple[int, int]]] = []
        self.start: Result | None = None

    def next(self) -> np.ndarray | None:
        if self.start is None:
            self.start = self._solve(self.problem, None)
            return self._give(self.start, -1) if _has_labels(self.start) else None
        self._look_above(-np.inf)
        known = [
            (box.result.score, -key[0], -key[1])
            for key, box in self.boxes.items()
            if box.result is not None and _has_labels(box.result)
        ]
        if not known:
            return None
        _, row, depth = max(known)
        return self._split((-row, -depth))

    def settle(self) -> None:
        if self.rows:
            self._look_above(min(self.problem.score(labels) for labels in self.rows))

    def _look_above(self, score: float) -> None:
        """Solve the box of the largest bound, until it is a solved one, or no larger than a score, or time is up."""
        while self.heap and self.clock.left > 0:
            bound, key = self.heap[0]
            box = self.boxes[key]
            if -bound > box.bound:  # it was lowered since
                heapq.heapreplace(self.heap, (-box.bound, key))
            elif box.result is None and box.bound > score:
                self._look_into(key, box)
            else:
                return

    def _solve(self, problem: Problem, init: Result | Messages | None) -> Result:
        # One hard box must not take the time of all others.
        left = None if self.clock.limit is None else _SHARE * self.clock.left
        return solve(problem, gap=self.gap, time_limit=left, init=init)

    def _look_into(self, key: tuple[int, int], box: _Box) -> None:
        row, depth = key
        try:
            problem = within(self.problem, box_mask(self.own, self.nodes, self.rows[row], depth, box.used))
        except InfeasibleError:
            box.bound = -np.inf
            return
        box.result = self._solve(problem, self.messages[row])
        if box.result.certificate is not None:
            self.solved[key] = box.result.certificate
        exact = box.result.guarantee == Guarantee.optimal
        box.bound = min(box.bound, box.result.score if exact else box.result.bound)

    def _split(self, key: tuple[int, int]) -> np.ndarray:
        """Give the labelling of a box; what is left of the box, and the boxes along the new prefix, take its place."""
        box = self.boxes[key]
        result, depth = box.result, key[1]
        assert result is not None and result.labels is not None
        box.used = box.used.copy()
        box.used[result.labels[self.nodes[depth]]] = True
        box.result = None
        if (box.used | ~self.own[self.nodes[depth]]).all():
            box.bound = -np.inf
        return self._give(result, depth)

    def _give(self, result: Result, depth: int) -> np.ndarray:
        labels, row, problem = np.array(result.labels), len(self.rows), self.problem
        messages = result.messages
        if messages is None:
            messages = problem.zero_messages() if not self.messages else self.messages[0]
        self.rows.append(labels)
        self.messages.append(messages)
        self.around.append(result.certificate)
        used = np.zeros(self.own.shape, dtype=bool)
        used[np.arange(problem.n_nodes), labels[self.nodes]] = True
        bounds = branch_bounds(problem, messages, self.nodes, labels, used)
        for place in range(depth + 1, problem.n_nodes):
            if bounds[place] > -np.inf:
                bound = min(float(bounds[place]), result.bound)
                self.boxes[row, place] = _Box(bound, used[place])
                heapq.heappush(self.heap, (-bound, (row, place)))
        return labels

    def proof(self) -> Ranking:
        nothing = self.start.certificate if self.start is not None and not self.rows else None
        return BoxRanking(tuple(self.nodes.tolist()), tuple(self.messages), tuple(self.around), dict(self.solved), nothing)


def _has_labels(result: Result) -> bool:
    return result.labels is not None and bool(np.isfinite(result.score))
