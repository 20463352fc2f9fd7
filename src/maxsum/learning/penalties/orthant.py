"""OrthantWise: L-BFGS that keeps to one orthant a step, for likelihoods with a penalty of absolute values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...core.errors import InvalidSampleError
from ...core.parameters import WholeNumber, settings
from ...core.result import Termination
from ...kernels.vectors import inner
from ..driver import Learner, Training
from ..objectives.smooth import Evaluation
from ..proofs.feature_sums import FeatureSum
from ..protocols import HasPenalty
from ..state import REBUILT
from .objective import PenalisedObjective, PenaltyCertificate


@dataclass(frozen=True)
class Tuning:
    """Numbers of the line search and of the memory.

    Attributes
    ----------
    enough : float
        Part of the decrease that the pseudo-gradient promises which a step has to reach (the usual value).
    shrink : float
        By how much a step that is too long is shortened.
    backtracks : int
        Most shorter steps of one line search.
    numbers : int
        Most numbers of all steps and gradient changes together, 1 GB.
    fewest_pairs : int
        Pairs that are kept however many weights there are.
    curved : float
        Cosine of a step and its gradient change below which a pair is rounding, not curvature.
    """

    enough: float = 1e-4
    shrink: float = 0.5
    backtracks: int = 30
    numbers: int = 2**27
    fewest_pairs: int = 5
    curved: float = 1e-10


_TUNING = Tuning()


@dataclass(frozen=True)
class OrthantWise(Learner):
    r"""Orthant-wise L-BFGS (Andrew & Gao 2007) for a `PenalisedObjective`: its weights are exactly zero where the penalty holds them there.

    At each iteration the direction of L-BFGS for the pseudo-gradient is cut to those entries that go down, and the line search is projected
    onto the orthant in which the step begins. The lower bound is that of the tangents at the points of the run.

    Parameters
    ----------
    memory : int
        Most pairs of steps and gradient changes that are kept; fewer with very many weights.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPenalty,)

    memory: int = 10

    _parameters = settings(memory=WholeNumber(1))

    def init(self, objective: Any, training: Training, start: Any = None) -> OrthantState:
        w = np.zeros(objective.n_weights) if start is None else np.array(start, dtype=np.float64)
        if w.shape != (objective.n_weights,) or not np.isfinite(w).all():
            raise InvalidSampleError(f"init has shape {w.shape}, wanted {objective.n_weights} finite weights.")
        training.weights = w.copy()
        return OrthantState(objective, w)

    def step(self, state: OrthantState, training: Training) -> None:
        """Move to better weights (the first step stays), record them and what is proven by now."""
        objective, most = state.objective, max(_TUNING.fewest_pairs, _TUNING.numbers // (2 * max(1, state.objective.n_weights)))
        if state.found is None:
            state.found = objective.loss(state.w)
        else:
            found = state.found
            answer = _better(objective, state, found) or (
                _better(objective, state.forget(), found) if len(state.steps) else None
            )
            if answer is None:
                training.end(Termination.stalled)
                return
            w, new = answer
            state.add(w - state.w, new.gradient - found.gradient + objective.l2 * (w - state.w), min(self.memory, most))
            state.w, state.found = w, new
        found, w = state.found, state.w
        value = found.value + objective.penalty(w)
        training.offer(w, value, True)
        slope = found.gradient
        offset = found.value - float(inner(slope, w))
        tangent = FeatureSum(-slope, np.zeros(len(w)), offset, 1e-12 * (abs(found.value) + abs(offset)))
        bound = objective.lowest(tangent)
        if bound >= state.bound:
            state.bound, state.point = bound, w.copy()
        training.bound(state.bound, state.certificate)  # type: ignore[arg-type]
        if not _pseudo(objective, w, slope).any():
            training.end(Termination.converged)


@dataclass(eq=False)
class OrthantState:
    """The present weights with their evaluation, the pairs, and the point whose tangent proves most so far."""

    objective: PenalisedObjective = field(metadata=REBUILT)
    w: np.ndarray
    found: Evaluation | None = None
    steps: list[np.ndarray] = field(default_factory=list)
    changes: list[np.ndarray] = field(default_factory=list)
    bound: float = -np.inf
    point: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def certificate(self) -> PenaltyCertificate:
        """The proof of the best bound."""
        return PenaltyCertificate((self.point.copy(),), np.ones(1))

    def forget(self) -> OrthantState:
        """Without pairs: the next direction is that of the pseudo-gradient."""
        self.steps, self.changes = [], []
        return self

    def add(self, step: np.ndarray, change: np.ndarray, most: int) -> None:
        """Keep a pair, unless its curvature is not safely positive."""
        if float(inner(step, change)) <= _TUNING.curved * (float(inner(step, step)) * float(inner(change, change))) ** 0.5:
            return
        self.steps, self.changes = [*self.steps, step][-most:], [*self.changes, change][-most:]

    def direction(self, slope: np.ndarray) -> np.ndarray:
        """Minus the inverse matrix times the pseudo-gradient, by the two loops of L-BFGS."""
        q, shares = slope.copy(), []
        for step, change in zip(reversed(self.steps), reversed(self.changes), strict=True):
            share = float(inner(step, q)) / float(inner(step, change))
            q -= share * change
            shares.append(share)
        if self.steps:
            q *= float(inner(self.steps[-1], self.changes[-1])) / float(inner(self.changes[-1], self.changes[-1]))
        for step, change, share in zip(self.steps, self.changes, reversed(shares), strict=True):
            q += (share - float(inner(change, q)) / float(inner(step, change))) * step
        return -q


def _pseudo(objective: PenalisedObjective, w: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The pseudo-gradient: where a weight is 0, what is left of the slope beyond the penalty."""
    slope, l1 = slope + objective.l2 * w, objective.l1
    at_zero = np.sign(slope) * np.maximum(np.abs(slope) - l1, 0.0)
    return np.where(w == 0, at_zero, slope + l1 * np.sign(w))


def _better(objective: PenalisedObjective, state: OrthantState, found: Evaluation) -> tuple[np.ndarray, Evaluation] | None:
    """Weights that are better by enough, in one orthant, and their evaluation; None if there are none."""
    w = state.w
    slope = _pseudo(objective, w, found.gradient)
    d = state.direction(slope)
    d[d * slope >= 0] = 0.0
    if not d.any():
        return None
    orthant = np.where(w == 0, -np.sign(slope), np.sign(w))
    value = found.value + objective.penalty(w)
    length = 1.0 if state.steps else min(1.0, 1.0 / float(inner(slope, slope)) ** 0.5)
    for _ in range(_TUNING.backtracks):
        point = w + length * d
        point[point * orthant <= 0] = 0.0
        promised = float(inner(slope, point - w))
        if promised < 0:
            new = objective.loss(point)
            if new.value + objective.penalty(point) <= value + _TUNING.enough * promised:
                return point, new
        length *= _TUNING.shrink
    return None
