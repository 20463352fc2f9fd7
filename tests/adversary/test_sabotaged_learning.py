"""Learners with sabotaged kernels, and oracles that lie: what `LearningResult.verify` lets pass is true, by enumeration."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import maxsum as ms
from adversary.sabotage import EXPECTED, functions_called, sabotaged
from maxsum import kernels, learning
from maxsum.core.errors import MaxsumError
from maxsum.learning import BlockFrankWolfe, CuttingPlane, MarginObjective, Subgradient
from maxsum.models import GraphModel

LEARNERS = [BlockFrankWolfe(tol=1e-3, max_iter=15), CuttingPlane(tol=1e-3, max_iter=15), Subgradient(max_iter=15)]


CHAIN = ms.Graph.chain(4)


def make_objective(graph: ms.Graph = CHAIN, oracle: Any = None) -> MarginObjective:
    rng = np.random.default_rng(0)
    samples = [ms.GraphSample(rng.normal(size=(graph.n_nodes, 2)), graph) for _ in range(5)]
    labels = [(sample.X[:, 0] + 0.5 * rng.normal(size=graph.n_nodes) > 0).astype(int) for sample in samples]
    return MarginObjective(GraphModel().bind(samples, labels), C=2.0, oracle=oracle)


def true_objective(objective: MarginObjective, w: np.ndarray) -> float:
    """The objective by enumeration of all labellings."""
    total = 0.5 * float(w @ w)
    for j in range(objective.n_examples):
        problem = objective.loss_problem(w, j)
        every = itertools.product(*(range(k) for k in problem.n_states.tolist()))
        total += float(objective.c[j]) * (max(problem.score(y) for y in every) - problem.score(objective.model.truth(j)))
    return total


def survivors(objective: MarginObjective, result: Any, least: float) -> list[str]:
    """False claims of a result that its own check lets pass; ``least`` is the optimum, by an honest training."""
    try:
        result.verify(objective)
    except MaxsumError:
        return []
    true = true_objective(objective, result.weights)
    room, faults = 1e-6 * (1 + abs(true)), []
    if result.objective < true - room:
        faults.append(f"the objective is {result.objective}, but that of the weights {true}")
    if result.lower_bound > least + room:
        faults.append(f"the lower bound is {result.lower_bound}, but {least} is reached")
    return faults


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda own: type(own).__name__)
def test_no_claim_of_a_sabotaged_training_survives_its_check(learner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = make_objective()
    least = BlockFrankWolfe(tol=1e-9, max_iter=2000).fit(honest).objective
    spoiled = survived = 0
    called = functions_called(lambda: learner.fit(make_objective()), monkeypatch, learning, kernels)
    for seed, (module, name) in enumerate(called):
        calls, function = [0], getattr(module, name)
        wrong = sabotaged(function, np.random.default_rng(seed))

        def counting(*arguments: Any, wrong: Any = wrong, calls: list[int] = calls) -> Any:
            calls[0] += 1
            if calls[0] > 3000:  # a loop that wrong numbers keep from ending
                raise ArithmeticError
            return wrong(*arguments)

        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.setattr(module, name, counting)
            result = None
            with contextlib.suppress(*EXPECTED, IndexError):
                result = learner.fit(make_objective())
        spoiled += calls[0] > 0
        if result is not None and calls[0]:
            faults = survivors(honest, result, least)
            assert not faults, (module.__name__, name, faults)
            survived += 1
    assert spoiled >= 2 and survived >= 1


def lying(problem: ms.Problem) -> tuple[np.ndarray, float]:
    """Labels of some kind, and a bound that is far too low."""
    labels = problem.unary.argmin(axis=1)
    return labels, problem.score(labels) + 1e-3


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda own: type(own).__name__)
def test_an_oracle_that_lies_is_found_out(learner: Any) -> None:
    for graph in (CHAIN, ms.Graph.complete(4)):
        honest = make_objective(graph)
        least = BlockFrankWolfe(tol=1e-9, max_iter=2000).fit(honest).objective
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = learner.fit(make_objective(graph, lying))
            except MaxsumError:
                continue
        assert not survivors(honest, result, least)
