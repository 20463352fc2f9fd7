"""`solve`: read the table from top to bottom, take the first row that fits, say which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError, InvalidProblemError
from ..core.factors.lifting import lifted_size, unliftable
from ..core.parameters import RELATIVE_GAP, TIME_LIMIT, VERBOSE, Maybe, check_value
from ..core.problem import Problem
from ..core.result import Guarantee, Result, Termination
from ..executors.clock import Clock
from ..progress import watched, write
from .base import KEPT, Callback, Run, Solver
from .exact.cores import CoreSearch
from .exact.elimination import FlatOrder
from .exact.junction import JunctionTree, affordable_order, elimination_seconds, has_small_width, is_surely_wide, narrow_order
from .exact.lp_search import LPSearch
from .exact.maxflow import MaxFlow
from .exact.partial import PartialSearch
from .exact.search import BranchAndBound
from .exact.tree import TreeDP
from .moves.local_search import LocalSearch
from .registry import SOLVERS
from .relaxations.trws import TRWS


@dataclass(frozen=True)
class Tuning:
    """Where rows of the dispatch table end."""

    # Cells of all bags of a junction tree up to which the exact answer, in 0.1 s, costs less than passes and a search.
    small_cells: int = 2**24
    lifted_cells: int = 2**22  # the same where factors are written with nodes and edges first, which takes as long
    # The same as a multiple of the cells that one pass of `TRWS` looks at: an elimination looks at each two or three times, with its proof,
    # and passes rarely end before the tenth. Chains of tables of three nodes have a multiple of 1, whatever their length.
    small_passes: float = 8.0
    # Small problems with many cycles are searched at once: their bags have at least so many cells, where eliminating them takes as long
    # (half and double: within a tenth of a millisecond on complete graphs of 10 nodes) ...
    searched_cells: int = 2**15
    # ... and they have at most so many pairs of labels, such as complete graphs of 20 nodes with 5 labels, whose search ends in a second and
    # is not faster with the messages of the linear program.
    searched_pairs: int = 6000
    searched_nodes: int = 32  # and at most so many nodes: with more of them and fewer edges at each, relaxations tell more
    # Problems with up to so many nodes and pairs of labels are tried with a few boxes of the search before anything that takes longer: sparse
    # graphs and Potts models of 40 nodes end in 1 to 60 boxes, five times as fast as by rounds over cycles.
    tried_nodes: int = 64
    tried_boxes: int = 96  # 60 of these problems took 1 to 44; 96 take at most 0.1 s
    # Table cells from which eliminating takes longer than those few boxes, 5 to 10 ms; with four times as many, 55 ms in place of 6.
    tried_cells: int = 2**20
    small_nodes: int = 300  # nodes up to which an exact search often ends, so that the proof is pursued
    # Relative gap at which larger problems are left where none is stated: less than models and data are known to, and what
    # message passing reaches on many of them.
    large_gap: float = 1e-5
    search_seconds: float = 60.0  # that search, or elimination, may take where no limit is given
    large_search_seconds: float = 10.0  # and search with more nodes, where it rarely ends
    # Pairs of labels that the moves of the local search on larger problems look at, 1 to 2 s: on five grids and graphs of 1000 to
    # 40 000 nodes it closed up to half of the gap, more than a search or further passes did, and ten times as many 0 to 5 % more.
    local_pairs: float = 1e8
    least_moves: int = 64  # the first rounds, which find most
    # Seconds that the elimination may be estimated to take to come before linear programs and their search, which have up to 24 s.
    quick_seconds: float = 5.0
    # Share of the time left that the elimination may be estimated to take: estimates were up to half of the time and never less.
    sure_share: float = 0.8
    # Share of the time that is left which rounds over cycles may take: they end by themselves when they gain no more, on graphs of up to 1600
    # nodes after 1 to 3 s.
    tighten_share: float = 0.5
    # Share of what messages of 0 leave open that passes take away at least where they tell something: 4 % on the frequency assignment scen06, whose
    # losses sit in a core.
    least_passes_take: float = 0.2
    tighten_seconds: float = 10.0  # of them at most where no limit is given: a grid of 200 by 200 nodes and 6 labels took 6
    # Table entries of a problem with factors, written with nodes and edges, up to which linear programs are solved before the search: 0.1 to 3 s
    # for 31 medical networks of 600 to 2100 nodes, where passes stall far above its value.
    program_entries: float = 3e5
    # Of the time that is left, at most; with 0.4 one of these networks missed its proof in 4 s, and the search that follows never found one.
    program_share: float = 0.7


_TUNING = Tuning()


@dataclass(frozen=True)
class Row:
    """A row of the table: the condition in words, the test, the solver, and whether it gives way to a search that is faster."""

    condition: str
    fits: Callable[[Problem], bool]
    solver: Callable[[Problem, float | None], Solver]
    gives_way: bool = False


def _few_cells(problem: Problem) -> int:
    """Table cells that are few: in numbers, or for a problem of this size."""
    one_pass = problem.n_edges * problem.n_labels**2 + problem.factors.n_cells
    return max(_TUNING.small_cells, int(_TUNING.small_passes * one_pass))


TABLE: tuple[Row, ...] = (
    Row("forest", lambda p: bool(TreeDP().supports(p)), lambda p, limit: TreeDP(n_jobs=-1)),
    Row("supermodular", lambda p: bool(MaxFlow().supports(p)), lambda p, limit: MaxFlow(time_limit=limit)),
    Row(
        "small width",
        lambda p: has_small_width(p, _few_cells(p), _TUNING.lifted_cells),
        lambda p, limit: JunctionTree(max_cells=_few_cells(p), time_limit=limit),
        gives_way=True,
    ),
)


def is_easy(problem: Problem) -> bool:
    """Whether the table has an exact solver for the problem: one of its rows, or nothing but nodes."""
    plain = not problem.n_edges and not len(problem.cliques) and not len(problem.factors)
    return plain or any(row.fits(problem) for row in TABLE)


def solve(
    problem: Problem,
    solver: Solver | str | None = None,
    *,
    gap: float | None = None,
    time_limit: float | None = None,
    init: Any = None,
    callback: Callback | None = None,
    fixed: Mapping[int, int] | None = None,
    allowed: Any = None,
    verbose: int = 0,
) -> Result:
    """Find the best labelling, with a proof of how good it is.

    Without a solver the structure of the problem decides; `Result.message` says which row fired:

    1. no edges, no cliques and no factors: the best label of each node;
    2. forest: `TreeDP`;
    3. supermodular tables (two labels, or ordered ones): `MaxFlow`;
    4. small width: `JunctionTree`, unless the problem is small and dense (few pairs of labels, bags of many cells), where `BranchAndBound`
       ends sooner, or has up to 64 nodes and few pairs of labels: then a few boxes of `BranchAndBound` are tried before a large elimination;
    5. otherwise, for small problems after as few boxes, `TRWS`, then, where that has told next to nothing, `CoreSearch`, then, if the gap is still open, `PartialSearch` (problems of nodes and edges) or `LPSearch` (problems with
       factors that are not too large); then
       `JunctionTree` if its tables fit in a quarter of the memory that is left and it is estimated to end in time, after
       `BranchAndBound` has had as long as that; otherwise `BranchAndBound`, which shares its time with `LocalSearch`, or, on
       more than 300 nodes where neither a gap nor a time limit is given, a number of moves of `LocalSearch` alone.

    Parameters
    ----------
    problem : Problem
    solver : Solver or str, optional
        A solver, or its name in `maxsum.inference.SOLVERS`.
    gap : float, optional
        Stop when the labelling is proven to be within this relative gap. By default the proof is pursued to the end (0), but
        for row 5 with more than 300 nodes, which stops at 1e-5.
    time_limit : float, optional
        Seconds for everything. Without one only the exact search of row 5, whose time may be exponential, is limited: to 60
        seconds, and to 10 for more than 300 nodes; the answer then says ``stalled``.
    init : Result, Messages or ndarray, optional
        Warm start: the result, or messages, of this or a changed problem. `Result.message` says what bound they gave at the start.
    callback : callable, optional
        Called with a `TracePoint` at each step; a true return value stops the run.
    fixed : dict, optional
        ``{node: label}`` that the labelling must have.
    allowed : ndarray of bool, shape (n_nodes, K), or dict, optional
        Labels that nodes may have, as a mask or as ``{node: labels}``. With ``fixed`` or ``allowed`` the answer and its certificate are about
        ``problem.restrict(fixed, allowed)``: ``result.verify(problem.restrict(fixed, allowed))``.
    verbose : int
        1 shows score, bound and gap on stderr while the solver runs: one live line on a terminal, at most a line a second elsewhere.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> r = ms.solve(ms.Problem(ms.Graph.chain(3), [[0, 1], [0, 0], [2, 0]], tables=np.eye(2)))
    >>> r.labels.tolist(), r.score, str(r.guarantee)
    ([0, 0, 0], 4.0, 'optimal')
    """
    if not isinstance(problem, Problem):
        raise InvalidProblemError(f"solve() was given a {type(problem).__name__}, wanted a maxsum.Problem.")
    check_value("time_limit", time_limit, TIME_LIMIT)
    check_value("gap", gap, Maybe(RELATIVE_GAP))
    check_value("verbose", verbose, VERBOSE)
    if verbose:
        with watched(verbose, callback, time_limit=time_limit) as shown:
            result = solve(
                problem, solver, gap=gap, time_limit=time_limit, init=init, callback=shown, fixed=fixed, allowed=allowed
            )
        write(str(result))
        return result
    if fixed is not None or allowed is not None:
        result = solve(problem.restrict(fixed, allowed), solver, gap=gap, time_limit=time_limit, init=init, callback=callback)
        said = "Labels were fixed or left out: the certificate is for problem.restrict(fixed, allowed)."
        return replace(result, message=f"{result.message} {said}")
    clock = Clock(time_limit)
    if solver is not None:
        return _named(solver, time_limit).solve(problem, init, callback, gap=gap)
    if not problem.n_edges and not len(problem.cliques) and not len(problem.factors):
        return _argmax(problem)
    is_dense = _is_small_and_dense(problem)
    stages = _Stages(problem, gap, clock, callback)
    is_tried = not is_dense and _is_small(problem)
    for number, row in enumerate(TABLE, start=2):
        if not (is_dense and row.gives_way) and row.fits(problem):
            tried = None
            if is_tried and row.gives_way and narrow_order(problem, _TUNING.tried_cells) is None:
                tried = stages.try_search(init)
            result = tried or row.solver(problem, _left(clock)).solve(problem, init, callback, gap=gap)
            return replace(result, message=f"row {number} ({row.condition}): {result.message}")
    if is_tried and (tried := stages.try_search(init)) is not None:
        return stages.answer(tried, tried)
    return stages.search_at_once(init) if is_dense else stages.run(init)


def _left(clock: Clock) -> float | None:
    """Time limit of a solver that starts now."""
    return None if clock.limit is None else clock.left


def _named(solver: Solver | str, time_limit: float | None) -> Solver:
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise InvalidParameterError(f"there is no solver {solver!r}; known are {', '.join(SOLVERS)}.")
        solver = SOLVERS[solver]()
    if not isinstance(solver, Solver):
        raise InvalidParameterError(f"solver is {solver!r}, wanted a solver such as TRWS(), or a name: {', '.join(SOLVERS)}.")
    if time_limit is None or not hasattr(solver, "__dataclass_fields__") or "time_limit" not in solver.__dataclass_fields__:
        return solver
    return replace(solver, time_limit=time_limit)  # type: ignore[type-var]


def _argmax(problem: Problem) -> Result:
    from ..core.certificates.base import MessageCertificate

    run = Run("argmax", problem)
    run.offer(problem.unary.argmax(axis=1) if problem.unary.size else np.zeros(problem.n_nodes, dtype=np.int32))
    run.certify(run.score, MessageCertificate(problem.zero_messages()))
    run.message = "row 1 (no edges): each node has its best label, which is optimal."
    return run.result()


class _Stages:
    """Row 5: each stage starts from the result of the one before, until the gap is closed or time is over."""

    def __init__(self, problem: Problem, gap: float | None, clock: Clock, callback: Callback | None):
        self.problem, self.clock, self.callback = problem, clock, callback
        self.large = problem.n_nodes > _TUNING.small_nodes
        self.patient = not self.large or gap is not None or clock.limit is not None
        self.gap = (_TUNING.large_gap if self.large else 0.0) if gap is None else gap
        self.rest = clock
        self.why = f"row {len(TABLE) + 2} (general)"
        self.passes: Result | None = None  # of message passing, for searches to start from
        self.kept = ""  # what the messages of the caller gave, in words

    def run(self, init: Any) -> Result:
        """Message passing, the linear program, and what pays after them."""
        problem = self.problem
        if (
            len(problem.factors) and not problem.resolution > 0
        ):  # constraints alone: passes would find nothing that propagation does not
            if self.clock.limit is None:
                self.rest = Clock(_TUNING.search_seconds)
            solver: Solver = BranchAndBound(time_limit=self.rest.left)
            if solver.supports(problem):
                only = solver.solve(problem, init, self.callback, gap=self.gap)
                return self.answer(only, only)
        best = TRWS(time_limit=_left(self.clock)).solve(problem, init, self.callback, gap=self.gap)
        if KEPT in best.message:
            self.kept = best.message[best.message.index(KEPT) - 1 :]
        if self.is_proven(best) or _was_stopped(best) or best.termination == Termination.time_limit:
            return self.answer(best, best)
        self.why += f": TRWS left a gap of {best.gap:.3g}"
        if self.clock.limit is None:
            self.rest = Clock(_TUNING.search_seconds)
        if CoreSearch().supports(problem) and not _is_few_and_wide(problem) and self.is_far(best):
            found = CoreSearch(time_limit=_TUNING.sure_share * self.rest.left).solve(problem, best, self.callback, gap=self.gap)
            self.passes, best = best, _better(problem, best, found)
            self.why += f", cores one of {best.gap:.3g}"
            if self.is_proven(best) or _was_stopped(found):
                return self.answer(best, found)
        if not len(problem.factors) and PartialSearch().supports(problem) and not _is_few_and_wide(problem):
            seconds = _TUNING.tighten_share * self.rest.left
            tight = PartialSearch(time_limit=seconds if self.clock.limit is not None else min(seconds, _TUNING.tighten_seconds))
            lp = tight.solve(problem, best, self.callback, gap=self.gap)
            self.passes, best = best, _better(problem, best, lp)
            self.why += f", cycles one of {lp.gap:.3g}"
            if self.is_proven(lp) or _was_stopped(lp):
                return self.answer(best, lp)
        order = affordable_order(problem, min(_TUNING.quick_seconds, _TUNING.sure_share * self.rest.left))
        if order is not None:
            return self.eliminate(best, order)
        if len(problem.factors) and _program_fits(problem):
            lp = LPSearch(time_limit=_TUNING.program_share * self.rest.left).solve(problem, best, self.callback, gap=self.gap)
            best = _after(best, lp) if lp.gap <= best.gap else replace(best, seconds=best.seconds + lp.seconds)
            if self.is_proven(lp) or _was_stopped(lp):
                return self.answer(best, lp)
            self.why += f", LPSearch one of {lp.gap:.3g}"
        order = affordable_order(problem, _TUNING.sure_share * self.rest.left)
        if order is not None:
            return self.eliminate(best, order)
        if len(problem.factors) and unliftable(problem):
            self.why += ", and its factors are too large for a search"
            return self.answer(best, best)
        if self.patient or not np.isfinite(best.score):  # hard constraints want a search
            return self.search(best)
        return self.look_around(best)

    def search_at_once(self, init: Any) -> Result:
        """The exact search alone, which has passes of its own: for small dense problems."""
        if self.clock.limit is None:
            self.rest = Clock(_TUNING.search_seconds)
        only = self.ended(BranchAndBound(time_limit=self.rest.left).solve(self.problem, init, self.callback, gap=self.gap))
        return self.answer(only, only)

    def try_search(self, init: Any) -> Result | None:
        """A few boxes of the exact search, which often are enough for a small problem; None if they were not."""
        few = BranchAndBound(max_nodes=_TUNING.tried_boxes, time_limit=_left(self.clock))
        found = few.solve(self.problem, init, self.callback, gap=self.gap)
        is_last = self.is_proven(found) or _was_stopped(found) or found.termination == Termination.time_limit
        return found if is_last else None

    def eliminate(self, best: Result, order: FlatOrder) -> Result:
        """The exact search for as long as the elimination will take, then the elimination: at most twice the time of the better one."""
        known, seconds = best, elimination_seconds(self.problem, order)
        if 2 * seconds <= _TUNING.sure_share * self.rest.left:
            last = BranchAndBound(time_limit=seconds).solve(self.problem, self.begin(best), self.callback, gap=self.gap)
            best = _better(self.problem, best, last)
            if self.is_proven(last) or _was_stopped(last):
                return self.answer(best, last)
            self.why += f", the search one of {last.gap:.3g}"
            known = replace(known, labels=last.labels, score=last.score)  # its proof would be checked again
        if not JunctionTree().supports(self.problem):  # others have taken the memory since
            return self.search(best)
        solver = JunctionTree(max_cells=ceil(order.cells), time_limit=_left(self.clock))
        last = solver.solve(self.problem, known, self.callback, gap=self.gap)
        if last.gap > best.gap:  # it was cut short
            return self.answer(replace(best, seconds=best.seconds + last.seconds, termination=last.termination), last)
        return self.answer(_after(best, last), last)

    def search(self, best: Result) -> Result:
        """The exact search, which shares its time with the local search."""
        seconds = self.rest.left
        if self.large and self.clock.limit is None:
            seconds = min(seconds, _TUNING.large_search_seconds)
        found = BranchAndBound(time_limit=seconds).solve(self.problem, self.begin(best), self.callback, gap=self.gap)
        last = self.ended(found, seconds)
        return self.answer(_better(self.problem, best, last), last)

    def begin(self, best: Result) -> Result:
        """Where a search starts: the best labelling, with messages for the tables as they are given."""
        if self.passes is None or best.labels is None:
            return best
        return replace(self.passes, labels=best.labels, score=best.score)

    def ended(self, last: Result, seconds: float = _TUNING.search_seconds) -> Result:
        """The result of a search, with the right word where it had ``seconds`` because no limit was given."""
        if last.termination != Termination.time_limit or self.clock.limit is not None:
            return last
        said = f"BranchAndBound did not end in the {seconds:.0f} s that it has where no time_limit is given (stalled)."
        return replace(last, termination=Termination.stalled, message=said)

    def look_around(self, best: Result) -> Result:
        """A local search: on large problems it gains more than an exact one, which does not end."""
        pairs = self.problem.n_edges * self.problem.n_labels**2 + 1
        moves = max(_TUNING.least_moves, int(_TUNING.local_pairs / pairs))
        last = LocalSearch(max_iter=moves).solve(self.problem, self.begin(best), self.callback, gap=self.gap)
        if last.termination == Termination.iteration_limit:
            said = f"LocalSearch left one of {last.gap:.3g} after {moves} moves; gap=0 or a time_limit searches on (stalled)."
            last = replace(last, termination=Termination.stalled, message=said)
        return self.answer(_better(self.problem, best, last), last)

    def answer(self, best: Result, last: Result) -> Result:
        """The result, with the rows and stages in its message."""
        between = ": " if self.why.endswith(")") else "; "
        kept = "" if KEPT in last.message else self.kept
        return replace(best, message=f"{self.why}{between}{last.message}{kept}")

    def is_far(self, result: Result) -> bool:
        """Whether message passing has told next to nothing, although there is something to weigh."""
        trivial = self.problem.bound()
        told = trivial - result.bound < _TUNING.least_passes_take * (trivial - result.score)
        return bool(told and np.isfinite(result.score) and self.problem.resolution > 0)

    def is_proven(self, result: Result) -> bool:
        """Whether there is nothing left to do: a gap below the resolution is rounding, which no search takes away."""
        if result.guarantee in (Guarantee.optimal, Guarantee.infeasible) or result.gap <= self.problem.resolution:
            return True
        return result.relative_gap <= self.gap


def _was_stopped(result: Result) -> bool:
    return result.termination in (Termination.interrupted, Termination.stopped)


def _after(before: Result, result: Result) -> Result:
    """The result of a later stage, with the seconds and the trace of the earlier ones before its own."""
    trace = tuple(replace(point, seconds=point.seconds + before.seconds) for point in result.trace)
    return replace(
        result,
        seconds=before.seconds + result.seconds,
        trace=before.trace + trace,
    )


def _better(problem: Problem, before: Result, result: Result) -> Result:
    """The later result; with the proof of the earlier one where that proves more."""
    after = _after(before, result)
    if result.bound <= before.bound or before.certificate is None:
        return after
    run = Run(result.solver, problem)
    for labels in (before.labels, result.labels):
        if labels is not None:
            run.offer(labels)
    run.certify(before.bound, before.certificate)
    both = run.result()
    return replace(
        after,
        labels=both.labels,
        score=both.score,
        bound=both.bound,
        gap=both.gap,
        guarantee=both.guarantee,
        certificate=both.certificate,
    )


def _is_small_and_dense(problem: Problem) -> bool:
    """Whether a search is the fastest way to the proof: few pairs of labels, and bags of many cells wherever elimination begins."""
    pairs = problem.n_edges * problem.n_labels**2
    if problem.n_nodes > _TUNING.searched_nodes or len(problem.cliques) or len(problem.factors) or not problem.resolution > 0:
        return False
    return pairs <= _TUNING.searched_pairs and is_surely_wide(problem, _TUNING.searched_cells)


def _is_few_and_wide(problem: Problem) -> bool:
    """Whether there are so few nodes, each with so many neighbours, that a search ends before rounds over all their cycles gain anything."""
    return problem.n_nodes <= _TUNING.searched_nodes and is_surely_wide(problem, _TUNING.searched_cells)


def _is_small(problem: Problem) -> bool:
    """Whether a few boxes of the search are tried first."""
    few = problem.n_nodes <= _TUNING.tried_nodes and problem.n_edges * problem.n_labels**2 <= _TUNING.searched_pairs
    return few and not len(problem.cliques) and not len(problem.factors) and problem.resolution > 0


def _program_fits(problem: Problem) -> bool:
    """Whether factors can be written with nodes and edges, the linear program of these is small, and there is anything to weigh."""
    return problem.resolution > 0 and not unliftable(problem) and lifted_size(problem) <= _TUNING.program_entries
