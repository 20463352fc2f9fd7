"""ProjectedQuasiNewton: a limited-memory model of the objective, minimised over the allowed weights at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ...core.errors import InvalidSampleError
from ...core.parameters import Real, WholeNumber, settings
from ...core.result import Termination
from ...kernels.eigen import inverse_of
from ...kernels.vectors import combine, inner, times
from ..driver import Learner, LearningCallback, Training
from ..objectives.smooth import Bundle, Evaluation, SmoothObjective, proven_again
from ..protocols import HasGradient
from ..result import LearningResult
from ..state import REBUILT


@dataclass(frozen=True)
class Tuning:
    """Numbers of the line search and of the model.

    Attributes
    ----------
    enough : float
        Part of the decrease that the slope promises which a step has to reach (Armijo's rule, the usual value).
    backtracks : int
        Most shorter steps of one line search.
    attempts : int
        Directions that are tried, with smaller errors of the evaluation, before the training is said to have stalled.
    flat_steps : int
        Iterations without progress after which a training without a lower bound ends.
    bound_steps : int
        Pairwise steps on the shares of the tangents an iteration: they are few, and start from the last shares.
    inner_tol : float
        Squared norm at which the model counts as minimised, in units of its first one.
    """

    enough: float = 1e-4
    backtracks: int = 30
    attempts: int = 6
    flat_steps: int = 10
    bound_steps: int = 15
    inner_tol: float = 1e-8


_TUNING = Tuning()
_NOT_CONVEX = "The objective is not convex: a local solution at best, and no lower bound is claimed."


@dataclass(frozen=True)
class ProjectedQuasiNewton(Learner):
    r"""Projected quasi-Newton of Schmidt, van den Berg, Friedlander and Murphy (2009) for a `SmoothObjective`.

    At each iteration the quadratic model :math:`\langle g, d\rangle + \tfrac12 d^\top B d`, with :math:`B` the compact
    limited-memory BFGS matrix, is minimised over the allowed weights by spectral projected gradient; a line search along
    :math:`d` needs no further projection. Without constraints the model is minimised in closed form: L-BFGS.

    For a strongly convex objective the lower bound is that of the best combination of the tangents of the last iterations
    (`maxsum.learning.objectives.smooth`), and learning ends at the relative gap ``tol``. Otherwise no bound is claimed, and it ends when the
    projected gradient :math:`\Pi(w - g) - w` has shrunk to ``gradient_tol`` of its first norm; when ten iterations lower the
    objective by less than a tenth of ``tol`` (relative) it has ``stalled``, which is not to be converged.

    Parameters
    ----------
    memory : int
        Pairs of steps and gradient changes that are kept.
    inner : int
        Most iterations of spectral projected gradient on the model.
    gradient_tol : float
        See above; 0 runs to ``max_iter`` or until the objective cannot be lowered.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasGradient,)

    memory: int = 20
    inner: int = 50
    gradient_tol: float = 1e-5

    _parameters = settings(memory=WholeNumber(1), inner=WholeNumber(1), gradient_tol=Real(0.0))

    def fit(self, objective: Any, callback: LearningCallback | None = None, init: Any = None) -> LearningResult:
        """Minimise a smooth objective.

        Parameters
        ----------
        objective : SmoothObjective
        callback : callable, optional
            Called with a `LearningPoint` after each iteration; a true return value stops the training.
        init : array-like, shape (n_weights,), optional
            Weights to start from.
        """
        result = super().fit(objective, callback, init)
        if objective.convex:
            return _inside(objective, proven_again(objective, result))
        return _inside(objective, replace(result, message=f"{result.message.rstrip('.')}. {_NOT_CONVEX}"))

    def init(self, objective: Any, training: Training, start: Any = None) -> QuasiNewtonState:
        w = _first(objective, start)
        training.weights = w.copy()
        return QuasiNewtonState(objective, w, Pairs(self.memory, objective.scale()), Bundle(objective, self.memory))

    def step(self, state: QuasiNewtonState, training: Training) -> None:
        """Move to better weights (the first step stays), record them and what is proven by now."""
        objective, w, pairs = state.objective, state.w, state.pairs
        # the step
        if state.found is None:
            new = objective.ask(w)
        else:
            step = self._step(objective, pairs, w, state.found)
            if step is None:
                training.end(Termination.stalled)
                return
            found, state.w, new = step
            change, move = new.gradient - found.gradient, state.w - w
            if found.error + new.error <= abs(inner(change, move)):
                pairs.add(move, change)
        # what it gives
        state.found = found = self._report(objective, training, state.bundle, state.w, new)
        pull = objective.project(state.w - found.gradient) - state.w
        norm = float(inner(pull, pull)) ** 0.5
        state.first = state.first or norm
        training.extra["projected_gradient"] = norm
        # whether it was the last one
        state.recent = [*state.recent[-_TUNING.flat_steps :], training.primal]
        flat = len(state.recent) > _TUNING.flat_steps and state.recent[0] - state.recent[-1] <= 0.1 * self.tol * abs(
            state.recent[-1]
        )
        if norm == 0.0 or (not _proves(objective) and norm <= self.gradient_tol * state.first):
            training.end(Termination.converged)
        elif flat and not _proves(objective):
            share = norm / state.first
            words = f"{type(self).__name__}: ten steps without progress, at a projected gradient of {share:.2g} of the first; not converged."
            training.end(Termination.stalled, words)

    def _report(self, objective: Any, training: Training, bundle: Bundle, w: np.ndarray, found: Evaluation) -> Evaluation:
        """Record weights and bound; where the error of the evaluation is what keeps the gap open, it is made smaller first."""
        while True:
            training.offer(w, found.value + found.error, found.error <= 1e-9 * abs(found.value))
            if not _proves(objective):
                return found
            bundle.add(w, found)
            training.bound(*bundle.bound(_TUNING.bound_steps))  # type: ignore[arg-type]
            gap = found.value + found.error - training.dual
            if found.error <= 0.5 * gap or gap <= self.tol * abs(found.value) or not objective.tighten(0.1 * found.error):
                return found
            found = objective.ask(w)

    def _step(
        self, objective: Any, pairs: Pairs, w: np.ndarray, found: Evaluation
    ) -> tuple[Evaluation, np.ndarray, Evaluation] | None:
        """The evaluation at ``w`` that was used, weights that are better by enough, and their evaluation; None if there are none."""
        for attempt in range(_TUNING.attempts):
            if attempt == _TUNING.attempts - 1:
                pairs.clear()
            d = pairs.direction(objective, w, found.gradient, self.inner)
            slope = float(inner(found.gradient, d))
            if slope < 0:
                if found.error > -0.05 * slope and objective.tighten(-0.01 * slope):
                    found = objective.ask(w)
                    continue
                answer = _search(objective, w, found, d, slope, 1.0 if len(pairs) else _careful(d, w))
                if answer is not None:
                    return found, *answer
            if objective.tighten(0.1 * found.error):
                found = objective.ask(w)
            else:
                pairs.clear()
        return None


def _inside(objective: Any, result: LearningResult) -> LearningResult:
    """The result with weights exactly in the cone of the objective, which projections miss by rounding."""
    w = result.weights if objective.free or not hasattr(objective, "cone") else objective.cone.repair(result.weights)
    if np.array_equal(w, result.weights):
        return result
    found = objective.ask(w)
    return replace(result, weights=w, objective=found.value + found.error)


def _proves(objective: SmoothObjective) -> bool:
    """Whether tangents give lower bounds."""
    return objective.convex and objective.modulus > 0


@dataclass(eq=False)
class QuasiNewtonState:
    """The present weights with their evaluation, the pairs that model the objective, the tangents that bound it.

    Attributes
    ----------
    first : float
        Norm of the first projected gradient.
    recent : list of float
        Best objectives of the last iterations.
    """

    objective: Any = field(metadata=REBUILT)
    w: np.ndarray
    pairs: Pairs
    bundle: Bundle
    found: Evaluation | None = None
    first: float = 0.0
    recent: list[float] = field(default_factory=list)


@dataclass(eq=False)
class Pairs:
    """Steps and gradient changes, and the compact BFGS matrix that they make; in weights divided by ``scale``."""

    size: int
    scale: np.ndarray = field(metadata=REBUILT)
    steps: np.ndarray = field(init=False)
    changes: np.ndarray = field(init=False)
    square: np.ndarray = field(init=False)
    cross: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.clear()

    def __len__(self) -> int:
        return len(self.steps)

    def clear(self) -> None:
        """Forget all pairs."""
        n = len(self.scale)
        self.steps, self.changes = np.zeros((0, n)), np.zeros((0, n))
        self.square, self.cross = np.zeros((0, 0)), np.zeros((0, 0))

    def add(self, step: np.ndarray, change: np.ndarray) -> None:
        """Keep a pair, unless its curvature is not safely positive."""
        step, change = step / self.scale, change * self.scale
        curvature = inner(step, change)
        if not curvature > 1e-10 * (inner(step, step) * inner(change, change)) ** 0.5:
            return
        first = 1 if len(self.steps) == self.size else 0
        self.steps, self.changes = np.vstack([self.steps[first:], step]), np.vstack([self.changes[first:], change])
        n = len(self.steps)
        square, cross = np.empty((n, n)), np.empty((n, n))
        square[:-1, :-1], cross[:-1, :-1] = self.square[first:, first:], self.cross[first:, first:]
        times(self.steps, step, square[-1])
        square[:, -1] = square[-1]
        times(self.changes, step, cross[-1])
        column = np.empty(n)
        times(self.steps, change, column)
        cross[:, -1] = column
        self.square, self.cross = square, cross

    def direction(self, objective: SmoothObjective, w: np.ndarray, g: np.ndarray, n_steps: int) -> np.ndarray:
        """Step to the (approximate) minimiser of the model over the allowed weights."""
        scale = self.scale
        g = g * scale
        if not len(self):
            return objective.project(w - scale * g) - w
        if objective.free:
            return -scale * self.solve(g)
        return scale * _spg(
            lambda v: objective.project(scale * v) / scale, w / scale, g, self.matrix(), -self.solve(g), n_steps
        )

    def solve(self, g: np.ndarray) -> np.ndarray:
        """The inverse of the matrix times ``g``, by the two loops of L-BFGS."""
        q, shares, n = g.copy(), np.zeros(len(self)), len(self)
        for i in range(n - 1, -1, -1):
            shares[i] = inner(self.steps[i], q) / self.cross[i, i]
            q -= shares[i] * self.changes[i]
        q *= self.cross[-1, -1] / inner(self.changes[-1], self.changes[-1])
        for i in range(n):
            q += (shares[i] - inner(self.changes[i], q) / self.cross[i, i]) * self.steps[i]
        return q

    def matrix(self) -> tuple[float, np.ndarray, np.ndarray]:
        r"""``sigma``, ``N'`` and the inverse of ``M`` of :math:`B = \sigma I - N M^{-1} N'` (Byrd, Nocedal and Schnabel 1994)."""
        sigma = inner(self.changes[-1], self.changes[-1]) / float(self.cross[-1, -1])
        low, diagonal = np.tril(self.cross, -1), np.diag(np.diagonal(self.cross))
        middle = np.block([[sigma * self.square, low], [low.T, -diagonal]])
        inverse = np.empty_like(middle)
        inverse_of(middle, 1e-15, inverse)
        return sigma, np.concatenate([sigma * self.steps, self.changes]), inverse


def _spg(
    project: Callable[[np.ndarray], np.ndarray],
    w: np.ndarray,
    g: np.ndarray,
    matrix: tuple[float, np.ndarray, np.ndarray],
    newton: np.ndarray,
    n_steps: int,
) -> np.ndarray:
    """Minimise the model over the allowed weights by spectral projected gradient with exact line search.

    The first step is that of the minimiser without constraints, ``newton``, projected.
    """
    sigma, rows, inverse = matrix
    d, grad, alpha = np.zeros_like(w), g.copy(), 1.0 / sigma
    first = project(w - alpha * g) - w
    enough = _TUNING.inner_tol * inner(first, first) / alpha**2
    step = project(w + newton) - w
    if not inner(g, step) < 0:
        step = first
    small, other, turn = np.empty(len(rows)), np.empty(len(rows)), np.empty_like(w)
    for _ in range(n_steps):
        slope, square = inner(grad, step), inner(step, step)
        if not slope < 0 or square / alpha**2 <= enough:
            break
        times(rows, step, small)
        times(inverse, small, other)
        combine(rows, other, turn)
        np.subtract(sigma * step, turn, out=turn)
        curvature = inner(step, turn)
        length = min(1.0, -slope / curvature) if curvature > 0 else 1.0
        d += length * step
        grad += length * turn
        alpha = min(max(square / curvature, 1e-8 / sigma), 1e8 / sigma) if curvature > 0 else 1.0 / sigma
        step = project(w + d - alpha * grad) - (w + d)
    return d


def _search(
    objective: SmoothObjective, w: np.ndarray, found: Evaluation, d: np.ndarray, slope: float, length: float
) -> tuple[np.ndarray, Evaluation] | None:
    """Backtracking along a direction between allowed weights, with quadratic interpolation."""
    for _ in range(_TUNING.backtracks):
        point = w + length * d
        new = objective.ask(point)
        if new.value + new.error <= found.value + found.error + _TUNING.enough * length * slope:
            return point, new
        if -length * slope <= 2.0 * new.error:
            return None
        rise = new.value - found.value - length * slope
        best = -0.5 * slope * length**2 / rise if rise > 0 else 0.5 * length
        length = min(max(best, 0.1 * length), 0.6 * length)
        if length * float(np.abs(d).max(initial=0.0)) <= 1e-16 * (1.0 + float(np.abs(w).max(initial=0.0))):
            return None
    return None


def _careful(d: np.ndarray, w: np.ndarray) -> float:
    """First step length, before anything is known of the curvature."""
    return min(1.0, (1.0 + inner(w, w) ** 0.5) / max(inner(d, d) ** 0.5, 1e-300))


def _first(objective: SmoothObjective, init: Any) -> np.ndarray:
    if init is None:
        return np.array(objective.start(), dtype=np.float64)
    w = np.array(init, dtype=np.float64)
    if w.shape != (objective.n_weights,) or not np.isfinite(w).all():
        raise InvalidSampleError(f"init has shape {w.shape}, wanted {objective.n_weights} finite weights.")
    return np.array(objective.project(w), dtype=np.float64)
