"""`solve`: read the table from top to bottom, take the first row that fits, say which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError, InvalidProblemError
from ..core.parameters import TIME_LIMIT, check_value
from ..core.problem import Problem
from ..core.result import Guarantee, Result, Termination
from ..kernels.clock import Clock
from .base import Callback, Run, Solver
from .exact.junction import JunctionTree, has_small_width
from .exact.maxflow import MaxFlow
from .exact.search import BranchAndBound
from .exact.tree import TreeDP
from .registry import SOLVERS
from .relaxations.finisher import LPFinisher
from .relaxations.trws import TRWS


@dataclass(frozen=True)
class Tuning:
    """Where rows of the dispatch table end."""

    # Cells of a junction tree's largest bag, 32 MB: at about 0.1 s a bag the exact answer costs less than passes and a search.
    small_cells: int = 2**22
    small_nodes: int = 300  # nodes up to which an exact search often ends
    search_seconds: float = 60.0  # that it has then, where no limit is given
    large_search_seconds: float = 10.0  # and with more nodes, where it rarely ends
    # Node marginals up to which the linear program takes a fraction of a second, so that its bound comes before the search.
    finisher_marginals: int = 1000


_TUNING = Tuning()


@dataclass(frozen=True)
class Row:
    """A row of the table: the condition in words, the test, and the solver."""

    condition: str
    fits: Callable[[Problem], bool]
    solver: Callable[[float | None], Solver]


TABLE: tuple[Row, ...] = (
    Row("forest", lambda p: bool(TreeDP().supports(p)), lambda limit: TreeDP(n_jobs=-1)),
    Row("supermodular", lambda p: bool(MaxFlow().supports(p)), lambda limit: MaxFlow(time_limit=limit)),
    Row(
        "small width",
        lambda p: has_small_width(p, _TUNING.small_cells),
        lambda limit: JunctionTree(max_cells=_TUNING.small_cells, time_limit=limit),
    ),
)


def solve(
    problem: Problem,
    solver: Solver | str | None = None,
    *,
    time_limit: float | None = None,
    init: Any = None,
    callback: Callback | None = None,
) -> Result:
    """Find the best labelling, with a proof of how good it is.

    Without a solver the structure of the problem decides; `Result.message` says which row fired:

    1. no edges and no cliques: the best label of each node;
    2. forest: `TreeDP`;
    3. supermodular tables (two labels, or ordered ones): `MaxFlow`;
    4. small width: `JunctionTree`;
    5. otherwise `TRWS`, then, if the gap is still open, `LPFinisher` (small problems without hard constraints) and
       `BranchAndBound`, which shares its time with `LocalSearch`.

    Parameters
    ----------
    problem : Problem
    solver : Solver or str, optional
        A solver, or its name in `maxsum.inference.SOLVERS`.
    time_limit : float, optional
        Seconds for everything. Without one only the exact search of row 5, whose time may be exponential, is
        limited: to 60 seconds, and to 10 for more than 300 nodes.
    init : Result, Messages or ndarray, optional
        Warm start.
    callback : callable, optional
        Called with a `TracePoint` at each step; a true return value stops the run.

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
    clock = Clock(time_limit)
    if solver is not None:
        return _named(solver, time_limit).solve(problem, init, callback)
    if not problem.n_edges and not len(problem.cliques):
        return _argmax(problem)
    for number, row in enumerate(TABLE, start=2):
        if row.fits(problem):
            result = row.solver(_left(clock)).solve(problem, init, callback)
            return replace(result, message=f"row {number} ({row.condition}): {result.message}")
    return _search(problem, clock, init, callback)


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


def _search(problem: Problem, clock: Clock, init: Any, callback: Callback | None) -> Result:
    """Stages of row 5: each starts from the result of the one before, until the gap is closed or time is over."""
    why = f"row {len(TABLE) + 2} (general)"
    first = TRWS(time_limit=_left(clock)).solve(problem, init, callback)
    if _over(first, problem.resolution):
        return replace(first, message=f"{why}: {first.message}")
    why += f": TRWS left a gap of {first.gap:.3g}"
    patience = _TUNING.search_seconds if problem.n_nodes <= _TUNING.small_nodes else _TUNING.large_search_seconds
    rest = Clock(patience) if clock.limit is None else clock
    best = first
    if _finisher_fits(problem):
        lp = LPFinisher(tol=1e-4, time_limit=0.2 * rest.left).solve(problem, first, callback)
        best = _after(first, lp) if lp.gap < first.gap else replace(first, seconds=first.seconds + lp.seconds)
        why += f", the LP one of {lp.gap:.3g}"
        if _over(lp, problem.resolution) and lp.termination != Termination.time_limit:
            return replace(best, message=f"{why}: {lp.message}")
    last = BranchAndBound(time_limit=rest.left).solve(problem, best, callback)
    return replace(_after(best, last), message=f"{why}; {last.message}")


def _over(result: Result, resolution: float) -> bool:
    """Whether there is nothing left to do, or no time to do it: a gap below the resolution is rounding, which no search takes away."""
    if result.guarantee in (Guarantee.optimal, Guarantee.infeasible) or result.gap <= resolution:
        return True
    return result.termination in (Termination.time_limit, Termination.interrupted, Termination.stopped)


def _after(before: Result, result: Result) -> Result:
    """The result of a later stage, with the seconds and the trace of the earlier ones before its own."""
    trace = tuple(replace(point, seconds=point.seconds + before.seconds) for point in result.trace)
    return replace(
        result,
        seconds=before.seconds + result.seconds,
        compile_seconds=before.compile_seconds + result.compile_seconds,
        trace=before.trace + trace,
    )


def _finisher_fits(problem: Problem) -> bool:
    """Whether the LP value can be had in a fraction of the time of a search."""
    return (
        not problem.has_hard_constraints
        and not len(problem.cliques)
        and int(problem.n_states.sum()) <= _TUNING.finisher_marginals
    )
