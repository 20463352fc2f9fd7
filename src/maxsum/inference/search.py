"""BranchAndBound: exact depth-first search with messages as bounds and arc consistency for hard constraints."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.certificate import SearchCertificate
from ..core.problem import Messages, Problem
from ..core.result import Termination
from ..kernels import box as packed
from ..kernels import search as kernels
from ..kernels.height import clique_terms
from ..kernels.trws import decode, sweep
from .base import Run, Solver, Support
from .icm import polish
from .local_search import ForestSearch
from .prepare import NO_LABELS, Prepared, net_score, start
from .trws import ascend

_OTHER, _SAME, _BELOW, _FROM = range(4)
_KEPT = (np.not_equal, np.equal, np.less, np.greater_equal)
_PROBE_SIZE = 4096
_MAX_DIVE = 10_000
_MAX_PACKED = 2**23
_PASSES = 40
_LEAST_GAIN, _FEW_LABELS = 0.15, 8
_LOCAL_SHARE, _LATER_SHARE = 0.25, 0.05
_LOCAL_DELAY = 0.25
_LOCAL_FIRST = 64
_LOCAL_MOVES = 20_000


@dataclass(frozen=True)
class BranchAndBound(Solver):
    """Exact search for any problem.

    Each box (a set of labels per node) is shrunk by arc consistency and by the loss of each label under its messages,
    which a few TRW-S passes tighten first. A box whose bound does not exceed the best labelling is closed; others are
    split at a node with few labels into "this label" and "any other". Up to a quarter of the time goes to `LocalSearch`: a
    good labelling closes boxes.

    Parameters
    ----------
    max_nodes : int, optional
        Largest number of boxes.
    time_limit : float, optional
        Seconds.
    root_iter : int
        Largest number of TRW-S passes before the search.
    certificate_bytes : int
        Size up to which the search is recorded as proof. A larger search still returns its labelling, but the
        certificate, and so the guarantee, falls back to the bound before the search.
    """

    max_nodes: int | None = None
    time_limit: float | None = None
    root_iter: int = 400
    certificate_bytes: int = 2**29

    does = "any problem: optimal or infeasible by search, in exponential time at worst"

    def supports(self, problem: Problem) -> Support:
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        soft = problem.resolution > 0
        if ascend(problem, prepared, messages, run, self.root_iter if soft else 2, 1e-2):
            return
        if run.termination not in (Termination.time_limit, Termination.stopped):
            run.termination = Termination.converged
            _Search(problem, prepared, run, self, soft).explore(messages)


class _Box(NamedTuple):
    """A box that waits: its number in the record, its labels, the node that lost labels, the messages it inherits."""

    number: int
    domain: np.ndarray
    node: int
    messages: Messages | None
    message_set: int
    height: float


class _Seen(NamedTuple):
    """A box that was visited: number, messages, height (``-inf``: closed), the node to branch on (-1: none), its best label,
    its middle label and the number of its labels.
    """

    number: int
    messages: Messages
    message_set: int
    height: float
    node: int = -1
    label: int = -1
    middle: int = -1
    size: int = 0


class _Record:
    """The branching tree as it grows; ``full`` once it has passed its size.

    The sets of messages are kept sparsely, one after the other, in buffers that grow in place.
    """

    def __init__(self, problem: Problem, limit: int):
        edge, clique = problem.zero_messages()
        self.limit, self.shapes, self.entries = limit, (edge.shape, clique.shape), edge.size + clique.size
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.ptr = [0]
        self.index = np.empty(self.entries, dtype=np.int32 if self.entries < 2**31 else np.int64)
        self.value = np.empty(self.entries)

    @property
    def full(self) -> bool:
        return 40 * len(self.rows) + self.ptr[-1] * (8 + self.index.itemsize) > self.limit

    def add_box(self, parent: int, node: int, label: int, relation: int, message_set: int) -> int:
        if not self.full:
            self.rows.append((parent, node, label, relation, message_set))
        return len(self.rows) - 1

    def add_messages(self, messages: Messages) -> int:
        if not self.full:
            used = self.ptr[-1]
            if used + self.entries > len(self.value):
                size = len(self.value) + len(self.value) // 8 + 4 * self.entries
                self.index.resize(
                    size, refcheck=False
                )  # by realloc, which mostly moves no memory: a copy takes seconds at last
                self.value.resize(size, refcheck=False)
            self.ptr.append(packed.pack_messages(*messages, self.index, self.value, used))
        return len(self.ptr) - 2

    def unpack(self, message_set: int) -> Messages:
        flat = np.zeros(self.entries)
        part = slice(self.ptr[message_set], self.ptr[message_set + 1])
        flat[self.index[part]] = self.value[part]
        n_edge = int(np.prod(self.shapes[0]))
        return Messages(flat[:n_edge].reshape(self.shapes[0]), flat[n_edge:].reshape(self.shapes[1]))

    def certificate(self) -> SearchCertificate:
        parent, node, label, relation, message_set = np.array(self.rows).T
        sets = (np.array(self.ptr), self.index[: self.ptr[-1]], self.value[: self.ptr[-1]])
        return SearchCertificate(parent, node, label, relation, message_set, *sets)


class _Search:
    """Depth-first search; all state of one run."""

    def __init__(self, problem: Problem, prepared: Prepared, run: Run, solver: BranchAndBound, soft: bool):
        self.problem, self.prepared, self.run, self.solver, self.soft = problem, prepared, run, solver, soft
        self.scored: tuple[np.ndarray | None, float] = (None, -np.inf)
        self.closed_gap = max(0.25 * problem.resolution, problem.step - 4 * problem.resolution)
        self.base = prepared.net.unary
        self.net = prepared.net._replace(unary=self.base.copy())
        shape = self.base.shape
        self.slack = np.empty(shape)
        self.queue, self.queued = np.empty(shape[0], dtype=np.int32), np.zeros(shape[0], dtype=np.uint8)
        self.trial = np.zeros(shape, dtype=np.uint8)
        self.found = np.zeros((self.base.size + 1, 2), dtype=np.int32)
        self.labels = np.zeros(shape[0], dtype=np.int32)
        self.box = _room(problem)
        self.scratch = (self.slack, self.queue, self.queued, problem.has_hard_constraints, self.box)
        self.label_range = np.arange(shape[1])
        self.least = _LEAST_GAIN if shape[1] <= _FEW_LABELS else _LEAST_GAIN / 3
        self.record = _Record(problem, solver.certificate_bytes)
        self.stack: list[_Box] = []
        self.heap: list[tuple[float, int, _Box]] = []
        self.ticket = itertools.count()
        self.n_boxes = 0
        self.local: ForestSearch | None = None
        self.local_moves: Iterator[int] = iter(())
        self.local_seconds = 0.0

    @property
    def target(self) -> float:
        """A box is closed at this height, in the scores of the net."""
        return self.best_score + self.closed_gap

    @property
    def best_score(self) -> float:
        """Score of the best labelling, in the scores of the net."""
        if self.run.labels is not self.scored[0]:
            self.scored = (self.run.labels, net_score(self.prepared.net, self.run.labels))
        return self.scored[1]

    def explore(self, messages: Messages) -> None:
        """Best-first choice of a box, then depth-first from it until a number of boxes was closed; that number adapts."""
        domain = (self.base > -np.inf).astype(np.uint8)
        number = self.record.add_box(-1, 0, -1, _OTHER, self.record.add_messages(messages))
        self.stack = [_Box(number, domain, 0, messages, 0, np.inf)]
        clock = self.run.clock
        began = pulse = clock.used
        budget, closed = 1, 0
        try:
            if self.soft:
                self.search_locally(0.1 * clock.used, _LOCAL_FIRST)
            while self.stack or self.heap:
                if self.solver.max_nodes is not None and self.n_boxes >= self.solver.max_nodes:
                    self.run.termination = Termination.iteration_limit
                    return
                if clock.used - pulse > 0.05 or self.run.seconds_left == 0:
                    pulse = clock.used
                    if self.run.step(self.n_boxes, max(self.open_height + self.prepared.constant, self.run.score)):
                        return
                    self.search_locally(self.local_share * (pulse - began - _LOCAL_DELAY))
                if not self.stack:
                    self.take_best()
                    closed = 0
                closed += self.visit(self.stack[-1])
                if closed > budget and self.stack:
                    self.put_back()
                    budget = min(2 * budget, _MAX_DIVE)
        finally:
            self.conclude()

    @property
    def local_share(self) -> float:
        """Share of the time that goes to the local search; a smaller one when it has found nothing for long."""
        if self.local is None:
            return _LOCAL_SHARE
        return _LOCAL_SHARE if self.local.n_moves < max(_LOCAL_MOVES, 4 * self.local.improved_at) else _LATER_SHARE

    def search_locally(self, seconds: float, max_moves: int = 2**62) -> None:
        """Go on with the local search until it has had so many seconds, or moves, in all."""
        if self.local is None:
            self.local = ForestSearch(self.problem, self.run)
            self.local_moves = self.local.moves()
        while self.local_seconds < seconds and self.local.n_moves < max_moves:
            started = self.run.clock.used
            next(self.local_moves)
            self.local_seconds += self.run.clock.used - started

    @property
    def open_height(self) -> float:
        """Largest height of a box that is not closed."""
        waiting = -self.heap[0][0] if self.heap else -np.inf
        return max([waiting] + [box.height for box in self.stack])

    def put_back(self) -> None:
        """Move the boxes of the dive to the heap; their messages are read back from the record when needed."""
        for box in self.stack:
            held = box if self.record.full else box._replace(messages=None)
            heapq.heappush(self.heap, (-box.height, next(self.ticket), held))
        self.stack = []

    def take_best(self) -> None:
        box = self.heap[0][-1]
        messages = box.messages if box.messages is not None else self.record.unpack(box.message_set)
        self.stack = [box._replace(messages=messages)]
        heapq.heappop(self.heap)

    def shrink(self, domain: np.ndarray, messages: Messages) -> float:
        return kernels.shrink(self.net, self.base, domain, *messages, self.target, *self.scratch)

    def visit(self, box: _Box) -> bool:
        """Close the box on top of the stack or put its two halves in its place (in one step: ``Ctrl-C`` loses no box).

        Returns whether it was closed.
        """
        assert box.messages is not None
        domain = box.domain.copy()
        self.queued[:] = 0
        self.queued[box.node] = 1
        if self.soft and len(self.box.table):
            seen = self.look(box, domain)
        else:
            seen = self.look_slowly(box, domain)
        if seen.height > -np.inf and seen.node < 0:
            self.run.offer(domain.argmax(axis=1))
        halves: list[_Box] = []
        for relation, at in self.branches(seen) if seen.node >= 0 else ():
            half = domain.copy()
            half[seen.node] &= _KEPT[relation](self.label_range, at)
            child = self.record.add_box(seen.number, seen.node, at, relation, seen.message_set)
            halves.append(_Box(child, half, seen.node, seen.messages, seen.message_set, seen.height))
        self.stack[-1:] = halves
        self.n_boxes += 1
        return not halves

    def look(self, box: _Box, domain: np.ndarray) -> _Seen:
        """Shrink the box, tighten its bound, shrink it again and choose where to branch, all in one kernel."""
        assert box.messages is not None
        messages = Messages(box.messages.edge.copy(), box.messages.clique)
        limits = (self.target, self.closed_gap, _PASSES, self.least)
        found = kernels.visit(self.net, self.base, domain, *messages, limits, self.scratch, self.labels)
        tightened, height, score, node, label, at, size = found
        if score > self.best_score:
            self.run.offer(self.labels)
        if not tightened:
            return _Seen(box.number, box.messages, box.message_set, -np.inf)
        message_set = self.record.add_messages(messages)
        number = self.record.add_box(box.number, box.node, -1, _OTHER, message_set)
        return _Seen(number, messages, message_set, height, node, label, at, size)

    def look_slowly(self, box: _Box, domain: np.ndarray) -> _Seen:
        """The same for problems with cliques or very large tables, and for hard constraints alone, by probing."""
        assert box.messages is not None
        number, messages, message_set = box.number, box.messages, box.message_set
        height = self.shrink(domain, messages)
        if height > -np.inf and self.soft:
            messages = Messages(messages.edge.copy(), messages.clique.copy())
            self.tighten(height, messages)
            message_set = self.record.add_messages(messages)
            number = self.record.add_box(number, box.node, -1, _OTHER, message_set)
            height = self.shrink(domain, messages)
        elif height > -np.inf and self.base.size <= _PROBE_SIZE:
            number = self.probe(domain, number, message_set)
            height = self.shrink(domain, messages)
        node, label = (-1, -1) if height == -np.inf else kernels.choose(self.net, domain, self.slack)
        at, size = kernels.middle(self.net, domain, node) if node >= 0 else (-1, 0)
        return _Seen(number, messages, message_set, height, node, label, at, size)

    def branches(self, seen: _Seen) -> list[tuple[int, int]]:
        """Relation and label of the two parts, the more promising one last: lower and upper half of the labels, so that
        both bounds fall; with hard constraints alone, one label and the others.
        """
        if seen.size == 2 or not self.soft:
            return [(_OTHER, seen.label), (_SAME, seen.label)]
        lower, upper = (_BELOW, seen.middle), (_FROM, seen.middle)
        return [upper, lower] if seen.label < seen.middle else [lower, upper]

    def probe(self, domain: np.ndarray, number: int, message_set: int) -> int:
        """Remove labels that fail at once when chosen, each recorded as a branching; returns the last box."""
        n_found, alive = kernels.probe(self.net, domain, self.trial, self.queue, self.queued, self.found)
        for node, label in self.found[:n_found].tolist():
            self.record.add_box(number, node, label, _SAME, message_set)
            number = self.record.add_box(number, node, label, _OTHER, message_set)
        self.queued[:] = 0 if alive else 1
        return number

    def tighten(self, height: float, messages: Messages) -> None:
        """TRW-S passes on the box as long as they promise to close it."""
        for iteration in range(_PASSES):
            bound = sweep(self.net, iteration % 2 == 1, messages.edge, messages.clique)
            bound += clique_terms(self.net, messages.clique, NO_LABELS)[0]
            if iteration == 0:
                decode(self.net, True, messages.edge, messages.clique, self.labels)
                self.run.offer(polish(self.net, self.labels, 10))
            if iteration % 2 == 0:
                continue
            if bound <= self.target or height - bound < self.least * (bound - self.target):
                return
            height = bound

    def conclude(self) -> None:
        """The bound that is proven now, and its certificate."""
        run = self.run
        run.n_iter = self.n_boxes
        finished = not self.stack and not self.heap
        if self.record.full:
            done = "finished, so the labelling is optimal" if finished else "did not finish"
            run.message = (
                f"BranchAndBound: the search {done}, but its proof is larger than certificate_bytes = "
                f"{self.record.limit}; the certificate proves the bound before the search only."
            )
            return
        above = self.open_height - self.best_score if run.labels is not None else np.inf
        bound = self.open_height + self.prepared.constant if run.labels is None else run.score + max(above, 0.0)
        if finished or bound < run.bound:
            run.bound, run.certificate = bound, self.record.certificate()


def _room(problem: Problem) -> packed.Box:
    """Scratch for one box; without room for tables where they are too large, or where there are cliques."""
    n, e, k = problem.n_nodes, problem.n_edges, problem.n_labels
    rows = int(problem.n_states[problem.graph.edges].sum())
    rows = 0 if len(problem.cliques) or rows * k > _MAX_PACKED else rows
    lists = (np.zeros((n, k), dtype=np.int32), np.zeros(n, dtype=np.int32), np.zeros((2, e), dtype=np.int64))
    message = np.zeros((2, e if rows else 0, k))
    return packed.Box(*lists, np.zeros((rows, k)), message, np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(n, dtype=np.int32))
