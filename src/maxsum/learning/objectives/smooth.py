r"""Smooth objectives: what a quasi-Newton learner sees, and the proof that gradients and strong convexity give.

A convex objective with modulus :math:`m > 0` on a closed convex set :math:`K` lies above each of its tangents by a quadratic:

.. math:: F(v) \ge F(w) + \langle g, v - w\rangle + \tfrac m2\|v - w\|^2, \qquad v \in K,

so one projection onto :math:`K` turns any gradient into a lower bound on :math:`\min_K F`, and so does any convex combination of
such minorants.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ...core.errors import CertificateError, OracleError
from ...core.result import Termination
from ...kernels.simplex import ends, exchange
from ...kernels.vectors import inner
from ..certificate import Check, LearningCertificate, Proven, multipliers, relative
from ..result import LearningResult
from ..state import REBUILT
from .base import ULPS, Objective

if TYPE_CHECKING:
    from ..proofs.feature_sums import FeatureSum

_SHARES = 1e-9  # how far the sum of shares may be from 1; they are divided by it
_ALLOWED = 1e-9  # relative distance at which weights count as allowed: what projections leave after rounding
_FINAL_STEPS = 200  # pairwise steps on the shares of the proof that is handed out: few points, so they cost next to nothing


class Evaluation(NamedTuple):
    r"""Value and gradient at a point ``w``, as exact as ``error`` says: :math:`value \le F(w) \le value + error`, and

    .. math:: F(v) \ge value + \langle gradient, v - w\rangle + \tfrac m2\|v - w\|^2

    for every allowed ``v``, if the objective is convex with modulus :math:`m`.
    """

    value: float
    gradient: np.ndarray
    error: float = 0.0


@dataclass(frozen=True)
class Accuracy:
    """How exact evaluations of an inexact objective are, as shares of its value."""

    first: float = 1e-2  # of the first evaluations: learners ask for more as they come near the optimum
    last: float = 1e-13  # nothing finer is tried: sums in float64 of that many terms are no more exact
    proof: float = 1e-10  # of the evaluations behind a proof: below what claims are held to (`AGREE`)


class SmoothObjective(Objective):
    """A differentiable function of weights in a closed convex set. Subclasses set ``n_weights`` and give `value_and_gradient`; a
    constrained one also `project` and ``free = False``.

    Attributes
    ----------
    modulus : float
        Proven modulus of strong convexity; 0 if there is none, and then no lower bound is claimed.
    convex : bool
    free : bool
        Whether all weights are allowed.
    inexact : bool
        Whether evaluations have errors that learners make smaller as they go on.
    allowed : float
        The error that evaluations may have now; negative before the first one.
    """

    modulus: float = 0.0
    convex: bool = True
    free: bool = True
    inexact: bool = False
    allowed: float = 0.0
    accuracy = Accuracy()

    @abstractmethod
    def value_and_gradient(self, w: np.ndarray) -> Evaluation | tuple[float, np.ndarray]:
        """Value and gradient at allowed weights; a plain pair is taken as exact."""

    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest allowed weights."""
        return w

    def contains(self, w: np.ndarray) -> bool:
        """Whether weights are allowed, up to rounding."""
        return bool(np.abs(self.project(w) - w).max(initial=0.0) <= _ALLOWED * (1.0 + np.abs(w).max(initial=0.0)))

    def scale(self) -> np.ndarray:
        """How far each weight moves for a gradient of 1, up to a common factor: a guess, for learners. Weights that are projected
        together must have the same scale."""
        return np.ones(self.n_weights)

    def start(self) -> np.ndarray:
        """Where learning begins: the allowed weights of smallest norm."""
        return self.project(np.zeros(self.n_weights))

    def tighten(self, allowed: float) -> bool:
        """Ask for errors of at most ``allowed`` from now on; True if evaluations become more exact by it."""
        least = self.least_error()
        if not 0 <= allowed < self.allowed or self.allowed <= least:
            return False
        self.allowed = max(float(allowed), least)
        return True

    def least_error(self) -> float:
        """The smallest error that can be asked for."""
        return 0.0

    def evaluate(self, w: np.ndarray) -> float:
        """The value at ``w`` from above, by `value_and_gradient`."""
        found = self.ask(w)
        return found.value + found.error

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """`evaluate` as a bracket, for certificates: the objective's own code is its definition."""
        high = self.evaluate(w)
        return Proven(high, high, ULPS * abs(high), "objective by its own evaluation")

    def tangent(self, w: np.ndarray, check: Check) -> FeatureSum | None:
        r"""What proves :math:`F(v) \ge \tfrac12\|v\|^2 + b - \langle z, v\rangle` for all allowed ``v``, near equality at ``w``, in plain numpy (see
        `maxsum.learning.proofs.tangents`); None if nobody knows it but the objective."""
        return None

    def lowest(self, total: FeatureSum) -> Proven:
        r""":math:`b + \min_v \tfrac12\|v\|^2 - \langle z, v\rangle` over the allowed weights; rounding is taken off."""
        from ..proofs.feature_sums import dual_bound

        cone: Any = getattr(self, "cone", None)
        if cone is None:
            raise OracleError(f"a {type(self).__name__} has tangents but no cone; wanted a method lowest() of its own.")
        return dual_bound(cone.matrix, np.maximum(cone.multipliers(total.vector), 0.0), total)

    def exactly(self, w: np.ndarray) -> Evaluation:
        """An evaluation as exact as there is, which leaves no trace in the objective's state."""
        return self.ask(w)

    def ask(self, w: np.ndarray) -> Evaluation:
        """`value_and_gradient`, counted, timed and checked."""
        with self._counted(self.n_examples):
            given: Any = self.value_and_gradient(w)
        found = Evaluation(*given)
        if found.gradient.shape != (self.n_weights,):
            raise OracleError(f"the gradient has shape {found.gradient.shape}, wanted ({self.n_weights},).")
        if not (np.isfinite(found.value) and np.isfinite(found.gradient).all() and found.error >= 0):
            raise OracleError(
                f"the objective gave the value {found.value} with error {found.error}, or a gradient that is not finite; wanted "
                "finite numbers. Scale the features, or lower C."
            )
        return found


class Minorant(NamedTuple):
    r"""The bound :math:`F(v) \ge a + \langle h, v\rangle + \tfrac m2\|v\|^2` that an evaluation at ``point`` proves."""

    offset: float
    slope: np.ndarray
    point: np.ndarray
    size: float

    @classmethod
    def of(cls, point: np.ndarray, found: Evaluation, modulus: float) -> Minorant:
        """The minorant of an evaluation at ``point`` of a function with this modulus of strong convexity."""
        slope, square = float(inner(found.gradient, point)), 0.5 * modulus * float(inner(point, point))
        size = abs(found.value) + abs(slope) + square
        return cls(found.value - slope + square, found.gradient - modulus * point, point, size)


def dual_value(minorants: list[Minorant], alpha: np.ndarray, objective: SmoothObjective) -> tuple[float, np.ndarray]:
    r"""Lower bound of a convex combination of minorants, with its minimiser over the allowed weights:

    .. math:: \sum_t \alpha_t a_t + \min_{v \in K}\ \langle h, v\rangle + \tfrac m2\|v\|^2,\qquad h = \sum_t \alpha_t h_t.

    The minimum is at the projection of :math:`-h/m`; rounding is taken off.
    """
    m = objective.modulus
    slope = np.zeros(objective.n_weights)
    for share, one in zip(alpha.tolist(), minorants, strict=True):
        if share:
            slope += share * one.slope
    v = objective.project(-slope / m)
    offset = float(alpha @ np.array([one.offset for one in minorants]))
    cost, square = float(inner(slope, v)), 0.5 * m * float(inner(v, v))
    size = float(alpha @ np.array([one.size for one in minorants])) + abs(cost) + square
    return offset + cost + square - ULPS * size, v


@dataclass(eq=False)
class Bundle:
    """The last minorants of a run, and the convex combination of them that proves most."""

    objective: SmoothObjective = field(metadata=REBUILT)
    size: int
    minorants: list[Minorant] = field(default_factory=list)
    alpha: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, point: np.ndarray, found: Evaluation) -> None:
        """Take in an evaluation; the one that counts least makes room."""
        if len(self.minorants) >= self.size:
            least = int(np.argmin(self.alpha))
            del self.minorants[least]
            kept = np.delete(self.alpha, least)
            self.alpha = kept / kept.sum() if kept.sum() > 0 else np.full(len(kept), 1.0 / max(1, len(kept)))
        self.minorants.append(Minorant.of(point.copy(), found, self.objective.modulus))
        self.alpha = np.append(self.alpha, 0.0 if self.alpha.size else 1.0)

    def bound(self, n_steps: int) -> tuple[float, GradientCertificate]:
        """The best bound after a few pairwise steps from the last combination, starting with the better of it and the newest."""
        objective = self.objective
        best, v = dual_value(self.minorants, self.alpha, objective)
        newest = np.zeros(len(self.alpha))
        newest[-1] = 1.0
        alone, at = dual_value(self.minorants, newest, objective)
        alpha = self.alpha
        if alone > best:
            alpha, best, v = newest, alone, at
        for _ in range(n_steps if len(alpha) > 1 else 0):
            slope = np.array([one.offset + inner(one.slope, v) for one in self.minorants])
            high, low = ends(slope, alpha, 0, len(alpha))
            if slope[high] - slope[low] <= 1e-9 * abs(best):
                break
            change, moved = self.minorants[high].slope - self.minorants[low].slope, alpha.copy()
            exchange(moved, high, low, slope[high] - slope[low], inner(change, change) / objective.modulus)
            moved /= moved.sum()
            value, at = dual_value(self.minorants, moved, objective)
            if value <= best:
                break
            alpha, best, v = moved, value, at
        self.alpha = alpha
        used = np.flatnonzero(alpha > 0)
        return best, GradientCertificate(tuple(self.minorants[i].point for i in used), alpha[used])


@dataclass(frozen=True, eq=False)
class GradientCertificate(LearningCertificate):
    """Points and shares whose tangents, with strong convexity, prove a lower bound on the objective (see `dual_value`).

    Attributes
    ----------
    points : tuple of ndarray, shape (n_weights,)
    alpha : ndarray
        Shares >= 0 with sum 1.
    """

    points: tuple[np.ndarray, ...]
    alpha: np.ndarray

    objectives: ClassVar[tuple[str, ...]] = ("SmoothObjective",)

    def _bound(self, objective: SmoothObjective, check: Check) -> Proven:
        """From fresh evaluations at the points."""
        alpha = self.shares()
        if not (objective.convex and objective.modulus > 0):
            raise CertificateError("the objective is not strongly convex, so tangents prove nothing about it.")
        if check.exact:
            raise CertificateError(
                f"a {type(objective).__name__} is minimised by tangents at points that are found in float64, so it cannot be checked in "
                "rational arithmetic; leave exact=True out, or use surrogate='margin' or 'lp'."
            )
        points = [np.asarray(point) for point in self.points]
        for point in points:
            if point.shape != (objective.n_weights,) or point.dtype.kind != "f" or not np.isfinite(point).all():
                raise CertificateError(
                    f"a point of the certificate is {point.dtype} of shape {point.shape}, wanted {objective.n_weights} finite numbers."
                )
        check.expect(len(points))
        tangents = []
        for point in points:
            found = objective.tangent(np.array(point, dtype=np.float64), check)
            if found is None:
                return self._own_bound(objective, points, alpha)
            tangents.append(found)
            check.step()
        return objective.lowest(sum_of(tangents, alpha))._replace(
            words="lower bound from points that tangents were taken at, in plain numpy"
        )

    def shares(self) -> np.ndarray:
        """The shares, checked, and scaled so that their sum is surely not above 1."""
        alpha = multipliers(self.alpha, (len(self.points),), "the shares of the certificate")
        if not len(alpha) or abs(alpha.sum() - 1.0) > _SHARES:
            raise CertificateError(f"the shares of the certificate are {alpha}, wanted numbers >= 0 with sum 1.")
        return np.asarray(alpha / alpha.sum() * (1.0 - (len(alpha) + 4) * np.finfo(np.float64).eps))

    def _own_bound(self, objective: SmoothObjective, points: list[np.ndarray], alpha: np.ndarray) -> Proven:
        """Where nobody but the objective knows what it is: from its own values and gradients, which are its definition."""
        minorants = [Minorant.of(point, objective.exactly(point), objective.modulus) for point in points]
        low = dual_value(minorants, alpha / alpha.sum(), objective)[0]
        return Proven(
            low, low, ULPS * abs(low), "lower bound from values, gradients and projections by the objective's own code"
        )


def proven_again(objective: SmoothObjective, result: LearningResult) -> LearningResult:
    """The result with the bound that its certificate proves to others.

    A learner may evaluate its points roughly; whoever checks them does not know how, and evaluates them well, which makes other
    tangents. So shares are chosen anew for these, that at the learned weights included. Who interrupts that has weights without a proof.
    """
    proof = result.certificate
    if not isinstance(proof, GradientCertificate) or not objective.inexact:
        return result
    points, minorants, found = [*proof.points, result.weights], [], []
    for point in points:
        try:
            tangent = objective.tangent(np.asarray(point, dtype=np.float64), Check())
        except KeyboardInterrupt:
            words = f"{result.learner}: interrupted before there was a proof."
            return replace(result, lower_bound=-np.inf, certificate=None, message=words, termination=Termination.interrupted)
        if tangent is None:
            return result
        found.append(tangent)
        minorants.append(Minorant(tangent.value - tangent.value_error, -tangent.vector, point, abs(tangent.value)))
    bundle = Bundle(objective, len(points))
    bundle.minorants, bundle.alpha = minorants, np.append(proof.alpha, 0.0)
    bundle.bound(_FINAL_STEPS)
    own = GradientCertificate(
        tuple(point for point, share in zip(points, bundle.alpha, strict=True) if share > 0), bundle.alpha[bundle.alpha > 0]
    )
    shares = own.shares()
    total: Any = sum_of([tangent for tangent, share in zip(found, bundle.alpha, strict=True) if share > 0], shares)
    low = min(objective.lowest(total).low, result.objective)
    words = f"within {relative(result.objective, low):.2g} of"
    message = result.message.replace(f"within {result.relative_gap:.2g} of", words)
    return replace(result, lower_bound=low, certificate=own, message=message)


def sum_of(tangents: list[Any], shares: np.ndarray) -> Any:
    """A combination of tangents."""
    total = tangents[0].scaled(float(shares[0]))
    for tangent, share in zip(tangents[1:], shares[1:].tolist(), strict=True):
        total = total + tangent.scaled(share)
    return total
