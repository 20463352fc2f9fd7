"""Time limits: whose seconds count, and what is not begun any more. Time is a number that the tests advance; nothing waits for a clock."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from reference.seeds import seeds

import maxsum as ms
from maxsum.executors import clock as clocks
from maxsum.inference import TRWS, AlphaExpansion, BranchAndBound, LinearProgram, QPRelaxation, dispatch
from maxsum.inference.base import Interruptible
from maxsum.inference.relaxations import linear_program


class Time:
    """What the clocks read, and ways to let it pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time(monkeypatch) -> Time:
    made = Time()
    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=lambda: made.now))
    return made


def frustrated(n: int = 8, k: int = 3, seed: int = 0) -> ms.Problem:
    """A grid on which TRW-S leaves a gap."""
    rng = np.random.default_rng(seed)
    graph = ms.Graph.grid(n, n)
    return ms.Problem(graph, 0.1 * rng.normal(size=(n * n, k)), tables=rng.normal(size=(graph.n_edges, k, k)))


def once(action):
    """A callback that acts at its first call."""
    calls: list[int] = []

    def callback(_: object) -> bool:
        if not calls:
            action()
        calls.append(1)
        return False

    return callback


# ---- whose seconds count -------------------------------------------------------------------------------------------


def test_seconds_count_against_the_limit_of_a_solver(time):
    result = TRWS(time_limit=1.0).solve(frustrated(), callback=once(lambda: time.passes(5.0)))
    assert result.termination == "time_limit" and result.n_iter == 1


def test_the_stages_of_solve_share_what_is_left(time, monkeypatch):
    limits = []

    class Recorder(BranchAndBound):
        def solve(self, problem, init=None, callback=None, *, gap=None):
            limits.append(self.time_limit)
            return super().solve(problem, init, callback, gap=gap)

    monkeypatch.setattr(dispatch, "BranchAndBound", Recorder)
    monkeypatch.setattr(dispatch.PartialSearch, "supports", lambda self, problem: False)
    problem = frustrated(16)
    ms.solve(problem, time_limit=10.0, callback=once(lambda: time.passes(4.0)))
    assert limits == [6.0]


def test_the_search_for_a_row_is_part_of_the_time(time, monkeypatch):
    row = dispatch.TABLE[1]
    slow = dispatch.Row(row.condition, lambda p: time.passes(4.0) or row.fits(p), row.solver)
    monkeypatch.setattr(dispatch, "TABLE", (slow,))
    monkeypatch.setattr(dispatch, "_TUNING", replace(dispatch._TUNING, tried_nodes=0))
    limits = []
    monkeypatch.setattr(dispatch, "TRWS", lambda time_limit: limits.append(time_limit) or TRWS(time_limit=0.0))
    ms.solve(frustrated(), time_limit=10.0)
    assert limits == [6.0]


def test_seconds_count_against_the_limit_of_learning(time):
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(6, 2)) for _ in range(8)], [rng.integers(0, 3, size=6) for _ in range(8)]
    net = ms.SequenceLabeler(time_limit=1.0, tol=1e-4, max_iter=500, callback=once(lambda: time.passes(5.0)))
    with pytest.warns(UserWarning, match="time limit"):
        result = net.fit(X, y).result_
    assert result.termination == "time_limit" and result.n_iter == 1


def test_the_time_of_a_fit_begins_with_the_fit(time, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(6, 2)) for _ in range(4)], [rng.integers(0, 3, size=6) for _ in range(4)]
    net, seen = ms.SequenceLabeler(time_limit=3.0), []
    real, train = ms.SequenceLabeler._samples, ms.SequenceLabeler._train
    monkeypatch.setattr(ms.SequenceLabeler, "_samples", lambda *given: time.passes(2.0) or real(*given))
    monkeypatch.setattr(
        ms.SequenceLabeler, "_train", lambda self, prepared: seen.append(prepared.learner.time_limit) or train(self, prepared)
    )
    net.fit(X, y)
    assert seen[0] <= 1.0
    net.set_params(learner=ms.learning.BlockFrankWolfe(time_limit=3.0)).fit(X, y)
    assert seen[1] == 3.0  # a learner that is given keeps its own


# ---- what is not begun ---------------------------------------------------------------------------------------------


class Steps(Interruptible):
    pass


@pytest.mark.parametrize(("lap", "wanted"), [(0.5, 20), (3.0, 3), (30.0, 1)])
def test_a_step_that_would_end_late_is_not_begun(time, lap, wanted):
    run = Steps(10.0)
    assert not run.late()  # before the first step nothing is known
    n = 0
    while True:
        time.passes(lap)
        n += 1
        if run.late():
            break
    assert n == wanted
    assert lap > 10 or time.now - 100.0 <= 10.0 + 0.2 + 0.05 * 10.0


def test_without_a_limit_no_step_is_late(time):
    run = Steps(None)
    for _ in range(3):
        time.passes(1e6)
        assert not run.late()


def test_what_comes_after_the_last_step_is_kept_free(time):
    run = Steps(10.0)
    run.reserve = 3.0
    time.passes(6.0)
    assert run.seconds_left == 1.0
    time.passes(2.0)
    assert run.seconds_left == 0.0 and run.late()


def test_a_linear_program_that_cannot_be_set_up_in_time_is_not_begun(monkeypatch, time):
    monkeypatch.setattr(linear_program, "lp_model", lambda net: pytest.fail("the program was built"))
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.grid(30, 30), rng.normal(size=(900, 10)), tables=rng.normal(size=(10, 10)))
    result = LinearProgram(time_limit=0.1).solve(problem)
    assert result.termination == "time_limit" and "longer to set up" in result.message
    assert result.labels is not None and np.isfinite(result.bound)
    result.certificate.verify(problem, result.labels, result.score, result.bound)


def test_highs_is_left_alone_soon_after_the_limit():
    held = threading.Event()
    solver = SimpleNamespace(run=lambda: held.wait(60), cancelSolve=lambda: calls.append(1))
    calls: list[int] = []
    try:
        assert linear_program.run_interruptibly(solver, 0.0) == (False, False) and calls
    finally:
        held.set()


def test_a_quadratic_relaxation_that_cannot_be_set_up_in_time_is_not_begun(monkeypatch, time):
    from maxsum.inference.relaxations import qp

    monkeypatch.setattr(qp, "relax", lambda problem: pytest.fail("it was set up"))
    problem = frustrated(12, 8)
    result = QPRelaxation(time_limit=1e-4).solve(problem)
    assert result.termination == "time_limit" and result.labels is not None
    result.certificate.verify(problem, result.labels, result.score, result.bound)


@pytest.mark.parametrize("name", [name for name in ms.inference.registry.SOLVERS if name not in ("TreeDP", "Exhaustive")])
def test_a_limit_of_nothing_still_gives_a_checked_answer(name, time):
    graph = ms.Graph.grid(4, 4)
    tables = 0.3 * np.eye(2)
    problem = ms.Problem(graph, np.random.default_rng(1).normal(size=(16, 2)), tables=tables)
    solver = ms.inference.registry.SOLVERS[name]
    if not solver().supports(problem):
        pytest.skip(f"{name} does not take it")
    if "time_limit" not in solver.__dataclass_fields__:
        pytest.skip(f"{name} has no limit")
    result = solver(time_limit=0.0).solve(problem)
    assert result.labels is not None
    if result.certificate is not None:
        result.certificate.verify(problem, result.labels, result.score, result.bound)


def test_expansion_conflicts_are_those_of_the_definition():
    """The kernel that looks for them stands in for a loop over all labels of all tables."""
    for seed in seeds(60):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 5))
        spread = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
        table = -np.minimum(spread, rng.integers(1, 4)) + (rng.normal(size=(k, k)) if seed % 2 else 0.0) * rng.choice(
            [0.0, 0.3]
        )
        if seed % 5 == 0:
            table = np.where(rng.random((k, k)) < 0.1, -np.inf, table)
        problem = ms.Problem(ms.Graph.chain(2), np.zeros((2, k)), tables=table)
        conflict = any(
            np.isneginf(table[a, a]) or table[a, a] + table[i, j] < table[a, j] + table[i, a] - 1e-12
            for a in range(k)
            for i in range(k)
            for j in range(k)
        )
        assert bool(AlphaExpansion().supports(problem)) is not conflict, seed
