"""Trainings beside each other, all to the same end: approximate cutting planes, and learners of LP-M3N.

All run on one thread, and limits are in processor seconds, so that others who use the machine do not change who wins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...inference.dispatch import solve
from ...learning.driver import Learner
from ...learning.learners.block_frank_wolfe import BlockFrankWolfe
from ...learning.learners.cutting_plane import CuttingPlane
from ...learning.objectives.lp import LPObjective
from ...learning.objectives.margin import MarginObjective, loss_table
from ...learning.oracles.base import Effort, Key
from ...learning.oracles.solver import SolverOracle
from ...learning.result import LearningResult
from ...losses import as_loss
from ...models.bound import BoundModel

TOL = 1e-2
_FINEST = 1e-5  # relative gap at which a learner that is still behind gives up
_SHORTEST = 0.05  # seconds that a solver has after the deadline, so that it returns a labelling
_SLOWEST = 3.0  # wall seconds for a processor second, on a machine that others use


class Run(NamedTuple):
    """One training: its objective, relative gap, wall and processor seconds, and whether it got where it was meant to."""

    objective: float
    gap: float
    seconds: float
    processor: float
    done: bool
    result: LearningResult

    def __str__(self) -> str:
        return f"{self.objective:.4f} in {'' if self.done else '>'}{self.seconds:.1f} s"


class Once(SolverOracle):
    """A solver as oracle that is asked once at each point, and that a deadline in processor seconds ends."""

    def __init__(self, model: BoundModel, solver: Any, ends: float):
        super().__init__(model, model.design(loss_table(model, as_loss("hamming"))), solver, False)
        self.ends = ends
        self.at, self.known = np.zeros(0), dict[int, tuple[Key, float]]()

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Labellings and gaps, from memory where these weights were asked for before."""
        if not np.array_equal(self.at, w):
            self.at, self.known = w.copy(), {}
        new = np.array([j for j in examples.tolist() if j not in self.known], dtype=np.int64)
        if len(new):
            self.known |= dict(zip(new.tolist(), zip(*super().answer(w, new, effort, n_jobs), strict=True), strict=True))
        found = [self.known[j] for j in examples.tolist()]
        return [key for key, _ in found], np.array([gap for _, gap in found])

    def _ask(self, item: Any) -> tuple[np.ndarray, float]:
        left = max(_SHORTEST, self.ends - time.process_time())
        solver: Any = self.solver
        result: Any = solve(item[1], solver if left == np.inf else replace(solver, time_limit=left))
        return result.labels, result.gap


def timed(train: Callable[[float], LearningResult], limit: float | None, done: Callable[[LearningResult], bool]) -> Run:
    """Run a training that is given the processor time when it has to end."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = train(np.inf if limit is None else cpu + limit)
    seconds = (time.perf_counter() - wall, time.process_time() - cpu)
    return Run(result.objective, result.relative_gap, *seconds, done(result), result)


def cutting_plane(model: BoundModel, C: float, solver: Any, target: float, limit: float | None) -> Run:
    """ACP until its objective, with the solver's bounds as slacks, is at most the target; or what it reaches within the limit."""

    def train(ends: float) -> LearningResult:
        objective = MarginObjective(model, C, oracle=Once(model, solver, ends))
        return CuttingPlane(tol=_FINEST).fit(
            objective, lambda point: bool(point.objective <= target) or time.process_time() >= ends
        )

    return timed(train, limit, lambda result: result.objective <= target)


def to_target(model: BoundModel, C: float, learner: Learner, target: float, limit: float | None) -> Run:
    """A learner of LP-M3N until its objective is at most the target."""

    def train(ends: float) -> LearningResult:
        def stop(point: Any) -> bool:
            return bool(point.objective <= target) or time.process_time() >= ends

        return replace(learner, tol=_FINEST, time_limit=limit and _SLOWEST * limit).fit(LPObjective(model, C), stop)

    return timed(train, limit, lambda result: result.objective <= target)


def to_gap(model: BoundModel, C: float, target: float, limit: float | None, gap: float = TOL) -> Run:
    """The default learner of LP-M3N until it has proven a relative gap itself, and its objective is at most the target."""

    def train(ends: float) -> LearningResult:
        objective, start, tol = LPObjective(model, C), None, gap
        while True:
            result = BlockFrankWolfe(tol=tol).fit(objective, lambda point: time.process_time() >= ends, start)
            if result.objective <= target or tol <= _FINEST or time.process_time() >= ends:
                return result
            start, tol = result.extra["planes"], 0.5 * tol

    return timed(train, limit, lambda result: result.objective <= target and result.relative_gap <= gap)
