"""BranchAndBound: exact depth-first search with messages as bounds and arc consistency for hard constraints."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...core.certificates.scale import UNIT
from ...core.certificates.search.certificate import MAX_ENUMERATED, target_gap
from ...core.certificates.search.passes import single
from ...core.parameters import Maybe, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...core.rows import row_max
from ...kernels import search as kernels
from ...kernels.height import clique_terms
from ...kernels.records import Box, room_for
from ...kernels.trws import decode, sweep
from ..base import Factored, Run, Solver, Support
from ..moves.icm import polish
from ..moves.local_search import ForestSearch
from ..prepare import NO_LABELS, Prepared, net_score, start
from ..relaxations.trws import ascend
from .record import Record

_OTHER, _SAME, _BELOW, _FROM = range(4)
_KEPT = (np.not_equal, np.equal, np.less, np.greater_equal)


@dataclass(frozen=True)
class Tuning:
    """The balance of passes, enumeration and local search in `BranchAndBound`, tried on complete graphs of 24 nodes with 4 labels and 14 with 12."""

    # Labels of all nodes up to which single labels are probed where constraints are hard; probing is quadratic in them.
    probe_size: int = 4096
    # Boxes closed in one dive before the best waiting box is taken; 5000 and 20 000 gave the same searches.
    most_dive: int = 10_000
    most_packed: int = 2**23  # entries of the packed tables of a box, 64 MB; larger problems take the slower way
    passes: int = 40  # TRW-S passes over a box at most; the next rule ends them earlier: 20 and 80 gave the same searches
    # Share of the way to closing that a pass must gain to be followed by another; half and double moved boxes and time by a
    # tenth, either way.
    least_gain: float = 0.15
    # Labels from which a third of that gain is enough: splitting off one of many labels helps less than passes; with 16, 3 %
    # fewer boxes. With more of them nodes are branched on by the sum of the squares of their labels' losses: on cores of 14 to 16 nodes with 44
    # labels 1.6 to 3.8 times as fast as the rule for few labels, on complete graphs of 20 nodes with 5 labels 1.04 to 1.15 times as slow. Weights by
    # conflicts (boxes closed below a node) were as fast as that rule, with 0.55 to 0.9 times the boxes; the node of the last conflict first took 2.7
    # times as long.
    few_labels: int = 8
    # Share of the time for the local search: a good labelling closes boxes; in searches of a second half and double changed
    # nothing.
    local_share: float = 0.25
    later_share: float = 0.05  # the same once it has found nothing for long
    local_delay: float = 0.25  # seconds of search that it is not given a share of: small problems are over by then
    local_first: int = 64  # moves of it before the first box; 32 and 128 gave the same searches
    first_share: float = 0.1  # of the time so far that these may take
    local_second: int = 2048  # moves before the second box, if one is not enough: 1 to 4 ms; 512 left every third of small searches without the optimum
    second_share: float = 1.0  # of the time so far that these may take
    early_boxes: int = (
        32  # boxes after which a better labelling does not make the search begin anew: they take a hundredth of a second
    )
    repeat_spare: float = 1.5  # times that a repetition may take longer than the search
    local_moves: int = 20_000  # moves without success after which it has the smaller share
    # Share of the gap that may be left open at which a box is closed, so that the checker, with messages of other last digits,
    # closes it too.
    close_share: float = 0.25
    close_share_whole: float = 0.95  # the same where scores are whole numbers, which leave so much room that little is lost
    # Passes whose cost an enumeration of a box may have before the box is split: on complete graphs of 20 nodes with 4 and 5 labels
    # 128 took as long to search and 1.3 times as long to check, 2048 1.1 times as long.
    enumeration_passes: int = 512
    # The same with more than `few_labels` labels, where losses tell labels apart less: with 44 labels 8 and 256 took 1.2 times as long
    # to search and check.
    enumeration_passes_many: int = 32
    # Failed enumerations in a row after which only one box in as many is tried; 4 took a tenth more boxes, 16 as many as 8.
    most_failures: int = 8
    waiting_bytes: int = 2**30  # memory for messages of boxes that wait; beyond it the search goes depth first
    few_nodes: int = 300  # nodes up to which so many boxes often end a search; with more, memory follows the messages:
    waiting_copies: int = 32  # boxes that may wait then, each with a copy of all messages in half precision
    waiting_floor: int = 2**27  # bytes that they may take in any case: as much as compiled code and imports do
    evaluations: int = 4  # evaluations of a box, in passes, that checking costs beside its passes
    # Growth of the proof after which the time of checking is measured anew: a third of the work is checked twice at most.
    measure_again: int = 4
    measure_from: float = 0.05  # from this share of the time left on: before it there is time enough, whatever it is
    measure_share: float = 0.2  # unless that would take more than this share of the time left
    check_spare: float = 1.2  # spare on the predicted time of checking, which varies from box to box
    first_rate: float = 4e-9  # seconds a table entry in checking, until it is measured


_TUNING = Tuning()


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
    tol : float
        Relative gap at which to stop: boxes that promise no more than that are closed. With 0, when the labelling is optimal.
    time_limit : float, optional
        Seconds.
    root_iter : int
        Largest number of TRW-S passes before the search.
    certificate_bytes : int
        Size up to which the search is recorded as proof. Of a larger search the certificate, and so the guarantee, has the
        part that fits.
    """

    max_nodes: int | None = None
    tol: float = 0.0
    time_limit: float | None = None
    root_iter: int = 400
    certificate_bytes: int = 2**29

    takes_factors = Factored.lifted
    does = "any problem: optimal or infeasible by search, in exponential time at worst"
    _parameters = settings(
        max_nodes=Maybe(WholeNumber(0)),
        root_iter=WholeNumber(0),
        certificate_bytes=WholeNumber(0),
    )

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
        if not run.halted:
            run.termination = Termination.converged
            _Search(problem, prepared, run, self, soft).explore(messages)


class _Box(NamedTuple):
    """A box that waits: its number in the record (-1: not there), its labels, the node that lost labels, the messages it
    inherits (float32, but where passes never change them) and the height of its parent.
    """

    number: int
    domain: np.ndarray
    node: int
    messages: Messages
    height: float


class _Seen(NamedTuple):
    """A box that was visited: number, messages, height (``-inf``: closed), the node to branch on (-1: none), its best label,
    its middle label and the number of its labels.
    """

    number: int
    messages: Messages
    height: float
    node: int = -1
    label: int = -1
    middle: int = -1
    size: int = 0


class _Search:
    """Depth-first search; all state of one run."""

    def __init__(self, problem: Problem, prepared: Prepared, run: Run, solver: BranchAndBound, soft: bool):
        self.problem, self.prepared, self.run, self.solver, self.soft = problem, prepared, run, solver, soft
        self.scored: tuple[np.ndarray | None, float] = (None, -np.inf)
        self.gap_of: tuple[np.ndarray | None, float] = (
            None,
            0.0,
        )  # a labelling, and the gap at which its certificate closes boxes
        self.base = prepared.net.unary
        self.unary = self.base.copy()  # scores of the present box, which kernels write
        self.net = prepared.net._replace(unary=self.unary)
        shape = self.base.shape
        self.slack = np.empty(shape)
        self.queue, self.queued = np.empty(shape[0], dtype=np.int32), np.zeros(shape[0], dtype=np.uint8)
        self.trial = np.zeros(shape, dtype=np.uint8)
        self.found = np.zeros((self.base.size + 1, 2), dtype=np.int32)
        self.labels = np.zeros(shape[0], dtype=np.int32)
        self.box = _room(problem)
        self.scratch = (self.slack, self.queue, self.queued, problem.has_hard_constraints, self.box)
        self.label_range = np.arange(shape[1])
        few = shape[1] <= _TUNING.few_labels
        self.many = not few
        self.least = _TUNING.least_gain if few else _TUNING.least_gain / 3
        self.worth = _TUNING.enumeration_passes if few else _TUNING.enumeration_passes_many
        self.record = Record(problem, solver.certificate_bytes)
        self.finished: tuple[Record, int] | None = None  # record and work of a search that ended, and is repeated
        self.packed = soft and len(self.box.table) > 0
        self.budget, self.n_closed, self.began_at = 1, 0, 0  # of dives, see `explore`; boxes visited before the last start
        n_labels = min(int((self.base > -np.inf).sum()), MAX_ENUMERATED) if shape[0] <= MAX_ENUMERATED else 0
        self.enumeration = room_for(shape[0], problem.n_edges, n_labels)
        self.failed, self.work, self.measured, self.check_rate, self.cut = 0, 0, 0, _TUNING.first_rate, False
        self.n_pairs = int(problem.n_states[problem.graph.edges].astype(np.int64).prod(axis=1).sum()) + 1
        self.most_waiting = _most_waiting(problem)
        self.stack: list[_Box] = []
        self.heap: list[tuple[float, int, _Box]] = []
        self.ticket = itertools.count()
        self.n_boxes = 0
        self.first_labels: np.ndarray | None = None  # the best labelling when the first box was visited
        self.sizes = 0.0  # largest sum of the sizes of messages that a box was judged by
        self.local: ForestSearch | None = None
        self.local_moves: Iterator[int] = iter(())
        self.local_seconds = 0.0

    @property
    def closed_gap(self) -> float:
        """Gap at which a box is closed: less than the checker's, whose messages differ in the last digits."""
        if self.run.labels is None:
            return 0.0
        if self.run.labels is not self.gap_of[0]:
            self.gap_of = (self.run.labels, target_gap(self.problem, self.run.labels))
        gap = self.gap_of[1]
        gap *= _TUNING.close_share_whole if self.problem.step else _TUNING.close_share
        return max(gap, _TUNING.close_share_whole * self.run.gap * abs(self.run.score)) if np.isfinite(self.run.score) else gap

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
        messages = _rounded(messages) if self.soft else messages
        clock = self.run.clock
        began = pulse = clock.seconds
        self.begin(messages)
        try:
            if self.soft:
                self.search_locally(_TUNING.first_share * clock.seconds, _TUNING.local_first)
            self.first_labels = self.run.labels
            while self.stack or self.heap:
                if self.solver.max_nodes is not None and self.n_boxes >= self.solver.max_nodes:
                    self.run.termination = Termination.iteration_limit
                    return
                if clock.seconds - pulse > 0.05 or self.run.seconds_left == 0:
                    pulse = clock.seconds
                    if self.run.step(self.n_boxes, max(self.open_height + self.prepared.constant, self.run.score)):
                        return
                    self.search_locally(self.local_share * (pulse - began - _TUNING.local_delay))
                    if self.check_in_time():
                        return
                if self.soft and len(self.stack) > self.most_waiting:
                    self.give_up()
                    return
                if not self.stack:
                    self.stack = [heapq.heappop(self.heap)[-1]]
                    self.n_closed = 0
                self.n_closed += self.visit(self.stack[-1])
                if self.n_closed > self.budget and self.stack and len(self.heap) < self.most_waiting:
                    self.put_back()
                    self.budget = min(2 * self.budget, _TUNING.most_dive)
                if (
                    self.packed and self.stack and self.n_boxes == 1
                ):  # one box was not enough: a good labelling is worth more now
                    self.search_locally(_TUNING.second_share * clock.seconds, _TUNING.local_second)
                if self.should_restart(clock.seconds - began):
                    self.begin(messages)
        finally:
            self.conclude()

    def begin(self, messages: Messages) -> None:
        """Put the whole problem on an empty stack, with an empty record."""
        if not self.stack and not self.heap and len(self.record):
            self.finished = self.record, self.work
        self.record = Record(self.problem, self.solver.certificate_bytes)
        domain = (self.base > -np.inf).astype(np.uint8)
        number = self.record.add_box(-1, 0, -1, _OTHER, np.inf, messages)
        self.stack, self.heap = [_Box(number, domain, 0, messages, np.inf)], []
        self.first_labels, self.sizes = self.run.labels, float(np.abs(messages.edge).max(axis=2, initial=0.0).sum())
        self.work, self.measured, self.budget, self.n_closed, self.began_at = 0, 0, 1, 0, self.n_boxes

    def should_restart(self, seconds: float) -> bool:
        """Whether to begin anew with a better labelling than that of the first box, which closes boxes earlier.

        It is so where few boxes were visited. A search of ``seconds`` that has ended is repeated once: that costs less than a check of its proof,
        which is needed where boxes were closed against several labellings (see `is_sure`).
        """
        if not self.packed or self.run.gap or self.run.labels is self.first_labels:
            return False
        n_boxes = self.n_boxes - self.began_at
        if self.solver.max_nodes is not None and self.n_boxes + 2 * n_boxes > self.solver.max_nodes:
            return False
        if self.stack or self.heap:
            return n_boxes <= _TUNING.early_boxes
        return self.finished is None and self.run.seconds_left > _TUNING.repeat_spare * seconds

    def give_up(self) -> None:
        """A dive that fills the memory of the search: what time there is goes to the local search."""
        run = self.run
        run.termination = Termination.stalled
        while run.time_limit is not None and not self.check_in_time() and not run.step(self.n_boxes):
            self.search_locally(self.local_seconds + _TUNING.local_delay)
        run.message = (
            f"BranchAndBound: after {self.n_boxes} boxes the messages of those that wait filled the memory that a search of "
            f"{self.problem.n_nodes} nodes may take ({run.termination.replace('_', ' ')})."
        )

    def check_in_time(self) -> bool:
        """Whether it is time to stop, so that the proof can be checked inside the time limit.

        What checking costs is measured on the proof of what was searched so far, again whenever that has grown much; the bound
        of such a proof is kept.
        """
        if self.run.time_limit is None:
            return False
        predicted, left = self.check_rate * self.work, self.run.seconds_left
        if (
            self.work > _TUNING.measure_again * self.measured
            and _TUNING.measure_from * left < predicted < _TUNING.measure_share * left
        ):
            self.prove()
        if self.run.seconds_left < _TUNING.check_spare * self.check_rate * self.work:
            self.run.termination = Termination.time_limit
            return True
        return False

    @property
    def local_share(self) -> float:
        """Share of the time that goes to the local search; a smaller one when it has found nothing for long."""
        if self.local is None:
            return _TUNING.local_share
        return (
            _TUNING.local_share
            if self.local.n_moves < max(_TUNING.local_moves, 4 * self.local.improved_at)
            else _TUNING.later_share
        )

    def search_locally(self, seconds: float, max_moves: int = 2**62) -> None:
        """Go on with the local search until it has had so many seconds, or moves, in all."""
        if self.local is None:
            self.local = ForestSearch(self.problem, self.run)
            self.local_moves = self.local.moves()
        while self.local_seconds < seconds and self.local.n_moves < max_moves:
            started = self.run.clock.seconds
            next(self.local_moves)
            self.local_seconds += self.run.clock.seconds - started

    @property
    def open_height(self) -> float:
        """Largest height of a box that is not closed."""
        waiting = -self.heap[0][0] if self.heap else -np.inf
        return max([waiting] + [box.height for box in self.stack])

    def put_back(self) -> None:
        """Move the boxes of the dive to the heap."""
        for box in self.stack:
            heapq.heappush(self.heap, (-box.height, next(self.ticket), box))
        self.stack = []

    def shrink(self, domain: np.ndarray, messages: Messages) -> float:
        slack, queue, queued, hard, box = self.scratch
        pair = messages.edge, messages.clique
        return kernels.shrink(self.net, self.unary, self.base, domain, *pair, self.target, slack, queue, queued, hard, box)

    def visit(self, box: _Box) -> bool:
        """Close the box on top of the stack or put its two halves in its place (in one step: ``Ctrl-C`` loses no box).

        Returns whether it was closed.
        """
        domain = box.domain.copy()
        self.queued[:] = 0
        self.queued[box.node] = 1
        seen = self.look(box, domain) if self.packed else self.look_slowly(box, domain)
        if seen.height > -np.inf and seen.node < 0:
            self.run.offer(domain.argmax(axis=1))
        halves: list[_Box] = []
        recorded = seen.number >= 0 and not self.record.full
        if seen.node >= 0 and not recorded and seen.number >= 0:
            self.record.frozen = max(self.record.frozen, seen.height)
        for relation, at in self.branches(seen) if seen.node >= 0 else ():
            half = domain.copy()
            half[seen.node] &= _KEPT[relation](self.label_range, at)
            child = self.record.add_box(seen.number, seen.node, at, relation, seen.height) if recorded else -1
            halves.append(_Box(child, half, seen.node, seen.messages, seen.height))
        self.stack[-1:] = halves
        self.n_boxes += 1
        return not halves

    def look(self, box: _Box, domain: np.ndarray) -> _Seen:
        """Shrink the box, tighten its bound, shrink it again, enumerate what is left if that is cheap, and choose where to
        branch, all in one kernel.
        """
        messages = Messages(box.messages.edge.astype(float), np.zeros((0, domain.shape[1])))
        # Enumerations that fail again and again are tried more rarely, but not given up: boxes get smaller.
        hopeful = self.failed < _TUNING.most_failures or self.n_boxes % _TUNING.most_failures == 0
        limits = (self.target, self.closed_gap, _TUNING.passes, self.least, self.worth if hopeful else 0, self.many)
        pair = messages.edge, messages.clique
        found = kernels.visit(
            self.net, self.unary, self.base, domain, *pair, limits, self.scratch, self.enumeration, self.labels
        )
        passes, opened, height, score, node, label, at, size, sizes = found
        self.sizes = max(self.sizes, sizes)
        if score > self.best_score:
            self.run.offer(self.labels)
        self.failed = 0 if opened else self.failed + (hopeful and node >= 0)
        self.work += (passes + _TUNING.evaluations) * self.n_pairs + opened * domain.size
        self.record.note(box.number, height, passes, opened)
        rounded = _rounded(messages) if node >= 0 else box.messages
        return _Seen(box.number, rounded, height, node, label, at, size)

    def look_slowly(self, box: _Box, domain: np.ndarray) -> _Seen:
        """The same for problems with cliques or very large tables, and for hard constraints alone, by probing."""
        number, messages = box.number, box.messages
        if self.soft:
            messages = Messages(*(part.astype(float) for part in messages))
        height = self.shrink(domain, messages)
        self.work += _TUNING.evaluations * self.n_pairs
        if height > -np.inf and self.soft:
            self.tighten(height, messages)
            messages = _rounded(messages)
            if number >= 0:
                self.record.note(number, height)
                if self.record.full:
                    self.record.frozen, number = max(self.record.frozen, height), -1
                else:
                    number = self.record.add_box(number, box.node, -1, _OTHER, height, messages)
            messages = Messages(*(part.astype(float) for part in messages))
            height = self.shrink(domain, messages)
        elif height > -np.inf and self.base.size <= _TUNING.probe_size:
            number = self.probe(domain, number, height)
            height = self.shrink(domain, messages)
        self.record.note(number, height)
        node, label = (-1, -1) if height == -np.inf else kernels.choose(self.net, domain, self.slack, self.many)
        at, size = kernels.middle(self.net, domain, node) if node >= 0 else (-1, 0)
        return _Seen(number, _rounded(messages) if self.soft else messages, height, node, label, at, size)

    def branches(self, seen: _Seen) -> list[tuple[int, int]]:
        """Relation and label of the two parts, the more promising one last: lower and upper half of the labels, so that
        both bounds fall; with hard constraints alone, one label and the others.
        """
        if seen.size == 2 or not self.soft:
            return [(_OTHER, seen.label), (_SAME, seen.label)]
        lower, upper = (_BELOW, seen.middle), (_FROM, seen.middle)
        return [upper, lower] if seen.label < seen.middle else [lower, upper]

    def probe(self, domain: np.ndarray, number: int, height: float) -> int:
        """Remove labels that fail at once when chosen, each recorded as a branching; returns the last box."""
        n_found, alive = kernels.probe(self.net, domain, self.trial, self.queue, self.queued, self.found)
        for node, label in self.found[:n_found].tolist():
            if number < 0:
                break
            self.record.note(number, height)
            if self.record.full:
                self.record.frozen, number = max(self.record.frozen, height), -1
                break
            self.record.note(self.record.add_box(number, node, label, _SAME, height), -np.inf)
            number = self.record.add_box(number, node, label, _OTHER, height)
        self.queued[:] = 0 if alive else 1
        return number

    def tighten(self, height: float, messages: Messages) -> None:
        """TRW-S passes on the box as long as they promise to close it."""
        for iteration in range(_TUNING.passes):
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
        """The best bound that is proven now, and its certificate."""
        self.run.n_iter = self.n_boxes
        if (self.stack or self.heap) and self.finished is not None:  # the repetition was cut short
            self.stack, self.heap = [], []
            self.record, self.work = self.finished
            self.first_labels = None
        if self.is_sure:
            certificate = self.record.certificate(self.target, self.best_score, self.target)
            if certificate is not None and len(certificate) == len(self.record) and self.run.labels is not None:
                gap = target_gap(self.problem, self.run.labels)
                certificate.remember(self.problem, self.run.labels, gap)
                self.run.bound, self.run.certificate = self.run.score + gap, certificate
                return
        if self.run.seconds_left >= 0.5 * self.check_rate * self.work:
            self.prove()
        if self.cut and self.run.bound > self.run.score + self.closed_gap:
            done = "finished, so the labelling is optimal" if not self.stack and not self.heap else "did not finish"
            self.run.message = (
                f"BranchAndBound: the search {done}, but its proof is larger than certificate_bytes = "
                f"{self.record.limit}; the certificate proves what the largest part that fits does."
            )

    @property
    def is_sure(self) -> bool:
        """Whether all boxes are closed, and the checker is sure to close them too, so that its replay would tell nothing new.

        So it is if each was closed against the final labelling, whose labels and bounds are then those of the replay up to rounding,
        and what rounding may hide, here and there, is less than what `closed_gap` leaves of the gap that the checker closes at.
        """
        run = self.run
        if self.stack or self.heap or not self.packed or run.gap or run.labels is None or run.labels is not self.first_labels:
            return False
        spare = target_gap(self.problem, run.labels) - self.closed_gap
        return self.record.frozen == -np.inf and not self.record.full and 2 * self.rounding <= spare

    @property
    def rounding(self) -> float:
        r"""What rounding may hide of the height of a box, of the loss of a label or of a labelling, against the score of the best one.

        With :math:`X` the sum of the sizes of all terms (the largest score of each node and edge, and each message once at its node, once
        at its edge), and :math:`u` the unit of rounding: a node with ``d`` messages is off by :math:`(d + 2)u` of its sizes, an edge by
        :math:`4u`, the sum of ``n`` terms by :math:`nuX`, as is the score of the labelling; the losses that an enumeration adds up
        take four operations a term, on numbers of at most :math:`2X`.
        """
        net, problem = self.prepared.net, self.problem
        node = row_max(np.where(np.isfinite(self.base), np.abs(self.base), 0.0)).sum()
        tables = np.where(np.isfinite(net.tables), np.abs(net.tables), 0.0).max(axis=(1, 2), initial=0.0)
        size = float(node + (np.abs(net.edge_weight) * tables[net.edge_table]).sum()) + 2 * self.sizes
        n_operations = 10 * (problem.n_nodes + problem.n_edges) + 8 * int(problem.graph.degrees.max(initial=0)) + 64
        return UNIT * n_operations * size + self.prepared.rounding

    def prove(self) -> None:
        """Cut a proof from the record, evaluate it, and keep it if it is the best so far."""
        run = self.run
        closed = max(self.open_height, self.record.frozen, self.target)
        certificate = self.record.certificate(closed, self.best_score, self.target)
        self.cut = self.record.frozen > -np.inf or certificate is None or certificate.level > max(closed - self.best_score, 0.0)
        if certificate is None:
            return
        started = run.clock.seconds
        # beyond the limit only as far as a run may be late
        bound, gap, _ = certificate.assess(self.problem, run.labels, run.seconds_left + 0.02 * (run.time_limit or 0.0) + 0.05)
        self.check_rate = (run.clock.seconds - started) / max(1, self.work)
        self.measured = self.work
        if bound < run.bound or (run.labels is not None and gap <= target_gap(self.problem, run.labels)):
            run.bound, run.certificate = bound, certificate


def _most_waiting(problem: Problem) -> int:
    """Boxes that may wait: with few nodes their messages may fill a gigabyte, with many a number of copies of all messages."""
    each = 4 * sum(part.size for part in problem.zero_messages()) + 1
    if problem.n_nodes <= _TUNING.few_nodes:
        return _TUNING.waiting_bytes // each
    return max(_TUNING.waiting_copies, _TUNING.waiting_floor // each)


def _rounded(messages: Messages) -> Messages:
    """Messages as boxes hand them to their parts: half the memory, and as the checker rounds them."""
    return Messages(single(messages.edge), single(messages.clique))


def _room(problem: Problem) -> Box:
    """Scratch for one box; without room for tables where they are too large, or where there are cliques."""
    n, e, k = problem.n_nodes, problem.n_edges, problem.n_labels
    rows = int(problem.n_states[problem.graph.edges].sum())
    rows = 0 if len(problem.cliques) or rows * k > _TUNING.most_packed else rows
    lists = (np.zeros((n, k), dtype=np.int32), np.zeros(n, dtype=np.int32), np.zeros((2, e), dtype=np.int64))
    message = np.zeros((2, e if rows else 0, k))
    return Box(*lists, np.zeros((rows, k)), message, np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(n, dtype=np.int32))
