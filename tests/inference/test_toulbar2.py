"""Toulbar2: the adapter finds optima, and never passes a foreign claim off as proven."""

from __future__ import annotations

import importlib.util
import inspect
import os
import signal
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from contracts.common import check_result
from reference.families import FAMILIES, make

import maxsum as ms
from maxsum.inference.exact.junction import JunctionTree
from maxsum.inference.exact.toulbar2 import Toulbar2

installed = pytest.mark.skipif(importlib.util.find_spec("pytoulbar2") is None, reason="pytoulbar2 is not installed")


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    reason = Toulbar2().supports(make("chain", 0).problem).reason
    assert reason == "needs pytoulbar2 (pip install maxsum[toulbar2])"


@installed
@pytest.mark.parametrize("family", FAMILIES)
def test_optimal_labellings_without_false_claims(family):
    for seed in range(6):
        case = make(family, seed)
        if len(case.problem.cliques):
            assert "takes no cliques" in Toulbar2().supports(case.problem).reason
            continue
        result = Toulbar2().solve(case.problem)
        check_result(case, result)
        if not case.raw.feasible:
            assert result.labels is None
        elif family == "one_huge_edge":
            assert "rounded" in result.message or case.raw.regret(result.labels.tolist()) <= case.problem.resolution
        else:
            assert case.raw.regret(result.labels.tolist()) <= case.problem.resolution + case.raw.fuzz, (case, result)


@installed
def test_bound_is_ours_and_the_claim_stands_in_the_message():
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.grid(6, 8), rng.normal(size=(48, 3)), rng.normal(size=(82, 3, 3)))
    exact = JunctionTree().solve(problem)
    result = Toulbar2().solve(problem)
    assert result.score == pytest.approx(exact.score, abs=problem.resolution) and result.termination == "converged"
    assert result.guarantee == "within_gap" and result.bound == pytest.approx(problem.bound())
    assert "toulbar2 reports an optimal labelling" in result.message and f"{exact.score:.9g}" in result.message
    warm = Toulbar2().solve(problem, init=exact)
    assert warm.guarantee == "optimal"


@installed
@pytest.mark.parametrize("limit", [0.01, 1.0])
def test_time_limit_is_kept(limit):
    """Also where toulbar2 itself does not look at the clock: it preprocesses the grid for minutes."""
    rng = np.random.default_rng(1)
    complete = ms.Problem(ms.Graph.complete(40), rng.normal(size=(40, 4)), rng.normal(size=(780, 4, 4)))
    grid = ms.Problem(ms.Graph.grid(25, 25), rng.normal(size=(625, 5)), rng.normal(size=(1200, 5, 5)))
    for problem in (complete, grid):
        Toulbar2(time_limit=0).solve(problem)
        result = Toulbar2(time_limit=limit).solve(problem)
        assert result.termination == "time_limit" and ("was stopped" in result.message or "was not begun" in result.message)
        assert result.guarantee == "within_gap" and result.seconds < limit + 2.5
    assert Toulbar2(time_limit=0).solve(problem).termination == "time_limit"


@installed
@pytest.mark.usefixtures("interrupts")
@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process on Windows")
def test_ctrl_c_returns_the_best_so_far_and_is_ours_again():
    rng = np.random.default_rng(1)
    problem = ms.Problem(ms.Graph.complete(40), rng.normal(size=(40, 4)), rng.normal(size=(780, 4, 4)))
    Toulbar2(time_limit=0).solve(problem)
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    result = Toulbar2(time_limit=60).solve(problem)
    timer.join()
    assert result.termination == "interrupted" and result.guarantee == "within_gap" and result.seconds < 10
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@installed
def test_a_dead_process_is_no_claim(monkeypatch):
    def dies() -> None:
        raise SystemExit(3)

    source = textwrap.dedent(inspect.getsource(dies)).replace("def dies", "def _work")
    monkeypatch.setattr(inspect, "getsource", lambda function: source)
    result = Toulbar2().solve(make("complete", 0).problem)
    assert "ended with code 3" in result.message
    assert result.termination == "stalled" and result.guarantee == "within_gap"


@installed
def test_threads_get_the_same_answers():
    cases = [make("complete", seed) for seed in range(6)]
    alone = [Toulbar2().solve(case.problem).score for case in cases]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda case: Toulbar2(time_limit=60).solve(case.problem).score, cases))
    assert together == alone


@installed
def test_ternary_tables_without_a_known_cost_do_not_end_its_process(data_folder):
    """Without an upper bound toulbar2 ended by a segmentation fault on this file and nine others."""
    problem = ms.read_problem(data_folder / "uai2014" / "MAP" / "Promedas_55.uai.xz", evidence="auto")
    result = Toulbar2(time_limit=20).solve(problem)
    assert result.score == pytest.approx(-29.2783796, abs=1e-6) and "claim" in result.message
