"""ProjectedQuasiNewton: a limited-memory model of the objective, minimised over the allowed weights at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.errors import InvalidSampleError
from ...core.result import Termination
from ...kernels.eigen import inverse_of
from ...kernels.vectors import combine, inner, times
from ..driver import Learner, LearningCallback, Training
from ..objectives.smooth import Bundle, Evaluation, GradientCertificate, Minorant, SmoothObjective, proven_again
from ..result import LearningResult

_ENOUGH = 1e-4
_BACKTRACKS = 30
_ATTEMPTS = 6
_FLAT = 10
_BOUND_STEPS = 15
_INNER_TOL = 1e-8
_NOT_CONVEX = "The objective is not convex: a local solution at best, and no lower bound is claimed."


@dataclass(frozen=True)
class ProjectedQuasiNewton(Learner):
    r"""Projected quasi-Newton of Schmidt, van den Berg, Friedlander and Murphy (2009) for a `SmoothObjective`.

    At each iteration the quadratic model :math:`\langle g, d\rangle + \tfrac12 d^\top B d`, with :math:`B` the compact
    limited-memory BFGS matrix, is minimised over the allowed weights by spectral projected gradient; a line search along
    :math:`d` needs no further projection. Without constraints the model is minimised in closed form: L-BFGS.

    For a strongly convex objective the lower bound is that of the best combination of the tangents of the last iterations
    (`maxsum.learning.objectives.smooth`), and learning ends at the relative gap ``tol``. Otherwise no bound is claimed, and it ends when the
    projected gradient :math:`\Pi(w - g) - w` has shrunk to ``gradient_tol`` of its first norm, or when ten iterations lower the
    objective by less than a tenth of ``tol`` (relative).

    Parameters
    ----------
    memory : int
        Pairs of steps and gradient changes that are kept.
    inner : int
        Most iterations of spectral projected gradient on the model.
    gradient_tol : float
        See above; 0 runs to ``max_iter`` or until the objective cannot be lowered.
    """

    memory: int = 20
    inner: int = 50
    gradient_tol: float = 1e-5

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
            return proven_again(objective, result)
        return replace(result, message=f"{result.message.rstrip('.')}. {_NOT_CONVEX}")

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        if not isinstance(objective, SmoothObjective):
            raise InvalidSampleError(
                f"ProjectedQuasiNewton got a {type(objective).__name__}, wanted a SmoothObjective (value, gradient, projection); "
                "for hinge losses with planes use BlockFrankWolfe or CuttingPlane."
            )
        for name in ("memory", "inner"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise InvalidSampleError(f"{name} of ProjectedQuasiNewton is {value!r}, wanted a whole number >= 1.")
        if not self.gradient_tol >= 0:
            raise InvalidSampleError(f"gradient_tol is {self.gradient_tol!r}, wanted a number >= 0.")

    def _run(self, objective: Any, training: Training, init: Any) -> None:
        pairs, bundle = Pairs(self.memory, objective.scale()), Bundle(objective, self.memory)
        w, first, state = _first(objective, init), 0.0, training.resume()
        if state is None:
            training.weights = w.copy()
            found = objective.ask(w)
        else:
            w, first = np.array(state["w"]), float(state["numbers"][2])
            found = Evaluation(float(state["numbers"][0]), np.array(state["gradient"]), float(state["numbers"][1]))
            pairs.restore(state)
            _restore(bundle, training, state)
        resumed = state is not None

        def kept() -> dict[str, np.ndarray]:
            numbers = np.array([found.value, found.error, first])
            return {"w": w, "gradient": found.gradient, "numbers": numbers, **pairs.state(), **_state(bundle, training)}

        training.state = kept
        while True:
            if not resumed:
                found = self._report(objective, training, bundle, w, found)
            resumed = False
            pull = objective.project(w - found.gradient) - w
            norm = float(inner(pull, pull)) ** 0.5
            first = first or norm
            training.extra["projected_gradient"] = norm
            if training.step(training.n_iter + 1):
                return
            if norm == 0.0 or (not _proves(objective) and (norm <= self.gradient_tol * first or self._flat(training))):
                training.termination = Termination.converged
                return
            step = self._step(objective, pairs, w, found)
            if step is None:
                training.termination = Termination.stalled
                return
            found, new_w, new = step
            change, move = new.gradient - found.gradient, new_w - w
            if found.error + new.error <= abs(inner(change, move)):
                pairs.add(move, change)
            w, found = new_w, new

    def _report(self, objective: Any, training: Training, bundle: Bundle, w: np.ndarray, found: Evaluation) -> Evaluation:
        """Record weights and bound; where the error of the evaluation is what keeps the gap open, it is made smaller first."""
        while True:
            training.offer(w, found.value + found.error, found.error <= 1e-9 * abs(found.value))
            if not _proves(objective):
                return found
            bundle.add(w, found)
            training.bound(*bundle.bound(_BOUND_STEPS))  # type: ignore[arg-type]
            gap = found.value + found.error - training.dual
            if found.error <= 0.5 * gap or gap <= self.tol * abs(found.value) or not objective.tighten(0.1 * found.error):
                return found
            found = objective.ask(w)

    def _flat(self, training: Training) -> bool:
        """Whether the last iterations hardly lowered the objective."""
        if len(training.trace) <= _FLAT:
            return False
        before, now = training.trace[-1 - _FLAT].objective, training.trace[-1].objective
        return before - now <= 0.1 * self.tol * abs(now)

    def _step(
        self, objective: Any, pairs: Pairs, w: np.ndarray, found: Evaluation
    ) -> tuple[Evaluation, np.ndarray, Evaluation] | None:
        """The evaluation at ``w`` that was used, weights that are better by enough, and their evaluation; None if there are none."""
        for attempt in range(_ATTEMPTS):
            if attempt == _ATTEMPTS - 1:
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


def _proves(objective: SmoothObjective) -> bool:
    """Whether tangents give lower bounds."""
    return objective.convex and objective.modulus > 0


class Pairs:
    """Steps and gradient changes, and the compact BFGS matrix that they make; in weights divided by ``scale``."""

    def __init__(self, size: int, scale: np.ndarray):
        self.size, self.scale = size, scale
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

    def state(self) -> dict[str, np.ndarray]:
        """Arrays that `restore` goes on from."""
        return {"steps": self.steps, "changes": self.changes, "square": self.square, "cross": self.cross}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from the arrays of `state`."""
        self.steps, self.changes = np.array(state["steps"]), np.array(state["changes"])
        self.square, self.cross = np.array(state["square"]), np.array(state["cross"])


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
    enough = _INNER_TOL * inner(first, first) / alpha**2
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
    for _ in range(_BACKTRACKS):
        point = w + length * d
        new = objective.ask(point)
        if new.value + new.error <= found.value + found.error + _ENOUGH * length * slope:
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


def _state(bundle: Bundle, training: Training) -> dict[str, np.ndarray]:
    own, proof = bundle.minorants, training.certificate
    state = {
        "alpha": bundle.alpha,
        "offsets": np.array([[one.offset, one.size] for one in own]).reshape(len(own), 2),
        "slopes": np.array([one.slope for one in own]),
        "points": np.array([one.point for one in own]),
    }
    if isinstance(proof, GradientCertificate):
        state |= {"proof_points": np.array(proof.points), "proof_alpha": proof.alpha}
    return state


def _restore(bundle: Bundle, training: Training, state: dict[str, np.ndarray]) -> None:
    bundle.alpha = np.array(state["alpha"])
    bundle.minorants = [
        Minorant(float(offset), slope, point, float(size))
        for (offset, size), slope, point in zip(state["offsets"], state["slopes"], state["points"], strict=True)
    ]
    if "proof_alpha" in state:
        proof: Any = GradientCertificate(tuple(state["proof_points"]), state["proof_alpha"])
        training.certificate = proof
