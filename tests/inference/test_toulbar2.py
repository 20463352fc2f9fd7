"""Toulbar2: the adapter finds optima, and never passes a foreign claim off as proven."""

from __future__ import annotations

import importlib.util
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from common import check_result
from reference.families import FAMILIES, make

import maxsum as ms
from maxsum.inference.junction import JunctionTree
from maxsum.inference.toulbar2 import Toulbar2

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
def test_time_limit_and_signal_handler():
    rng = np.random.default_rng(1)
    problem = ms.Problem(ms.Graph.complete(40), rng.normal(size=(40, 4)), rng.normal(size=(780, 4, 4)))
    Toulbar2().solve(make("chain", 0).problem)
    before = signal.getsignal(signal.SIGINT)
    result = Toulbar2(time_limit=1).solve(problem)
    assert result.termination == "time_limit" and "was stopped" in result.message and result.seconds < 10
    assert result.guarantee == "within_gap"
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert Toulbar2(time_limit=0).solve(problem).termination == "time_limit"


@installed
def test_other_threads_get_the_same_answers():
    """toulbar2 keeps its options per thread and sets them in the importing thread only."""
    cases = [make("complete", seed) for seed in range(6)]
    alone = [Toulbar2().solve(case.problem).score for case in cases]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda case: Toulbar2(time_limit=60).solve(case.problem).score, cases))
    assert together == alone
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
