"""Sabotaged kernels: a wrong number in a solver costs the answer its quality, or the run an error; no false claim survives."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest
from reference.rational import every_score

import maxsum as ms
from adversary.judging import faults_of_answer
from adversary.sabotage import EXPECTED, functions_called, sabotaged
from maxsum import inference, kernels
from maxsum.inference.registry import SOLVERS

SHORT = {
    "BranchAndBound": dict(max_nodes=60, time_limit=2.0),
    "AugmentingDAG": dict(time_limit=1.0),
    "ConvexBP": dict(time_limit=1.0),
    "DualDecomposition": dict(time_limit=1.0),
    "LPFinisher": dict(time_limit=1.0),
    "MaxFlow": dict(time_limit=1.0),
    "AlphaExpansion": dict(time_limit=1.0),
    "QPRelaxation": dict(time_limit=1.0),
    "LocalSearch": dict(max_iter=50),
    "TRWS": dict(max_iter=60),
}
LEFT_OUT = {"Toulbar2"}  # a process of its own, which does not see the sabotage
PROBLEMS = [
    ms.Problem(
        ms.Graph.chain(5), np.random.default_rng(0).normal(size=(5, 3)), np.random.default_rng(1).normal(size=(4, 3, 3))
    ),
    ms.Problem(
        ms.Graph.complete(4), np.random.default_rng(2).normal(size=(4, 3)), np.random.default_rng(3).normal(size=(6, 3, 3))
    ),
    ms.Problem(ms.Graph.grid(2, 3), np.random.default_rng(4).normal(size=(6, 2)), 0.7 * np.eye(2)),
]
SCORES = [every_score(problem) for problem in PROBLEMS]


def solve_all(solver: Any) -> list[tuple[int, ms.Result]]:
    """Number and answer of every problem that the solver takes, does not fail at, and has not prepared before."""
    found = []
    for number, problem in enumerate(PROBLEMS):
        problem.__dict__.pop("_prepared", None)
        if solver.supports(problem):
            with warnings.catch_warnings(), contextlib.suppress(*EXPECTED):
                warnings.simplefilter("ignore")
                found.append((number, solver.solve(problem)))
        problem.__dict__.pop("_prepared", None)
    return found


@pytest.mark.parametrize("name", sorted(set(SOLVERS) - LEFT_OUT))
def test_no_claim_of_a_sabotaged_solver_is_false(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    solver = SOLVERS[name](**SHORT.get(name, {}))
    called = functions_called(lambda: solve_all(solver), monkeypatch, inference, kernels)
    assert called or name in ("Exhaustive",)  # plain numpy
    for seed, (module, function) in enumerate(called):
        with monkeypatch.context() as patch:
            patch.setattr(module, function, sabotaged(getattr(module, function), np.random.default_rng(seed)))
            answers = solve_all(solver)
        for number, result in answers:
            faults = faults_of_answer(PROBLEMS[number], SCORES[number], result)
            assert not faults, (module.__name__, function, faults)
