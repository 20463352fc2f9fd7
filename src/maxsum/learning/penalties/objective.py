r"""A likelihood with a penalty whose minimiser has weights that are exactly zero, and the proof of its lower bound.

.. math:: F(w) = \rho\|w\|_1 + \tfrac{1 - \rho}2\|w\|^2 + L(w),\qquad L(w) = \sum_j c_j\,\big[\log Z_j(w) - \langle w, \Psi(x_j, y_j)\rangle\big]

with :math:`\rho = 1` for the lasso. Every tangent of :math:`L` at a point, :math:`L(v) \ge b - \langle z, v\rangle`, and :math:`L \ge 0` give for
:math:`0 \le s \le 1`

.. math:: \min_v F(v) \ge s\,b - \sum_i \frac{(s|z_i| - \rho)_+^2}{2(1 - \rho)},

where for :math:`\rho = 1` the sum is 0 if :math:`s|z_i| \le 1` for all :math:`i`, so that :math:`s = \min(1, 1/\max_i|z_i|)` proves :math:`s\,b`. At the
minimiser all :math:`|z_i| \le \rho` where a weight is 0, and the bound is the minimum (Fenchel duality).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.errors import CertificateError, UnsupportedProblemError
from ...core.parameters import Real, check_value
from ...kernels.vectors import inner
from ..certificate import Check, Proven, multipliers
from ..objectives.base import ULPS, Objective
from ..objectives.likelihood import LikelihoodObjective
from ..objectives.smooth import Evaluation, GradientCertificate, sum_of
from ..proofs.feature_sums import EPS, PAIRWISE, FeatureSum

_SHARES = 1e-9  # how far the sum of shares may be above 1 by rounding; they are divided by it then
L1_SHARES = {"l1": 1.0, "elasticnet": 0.5}
"""The share of absolute values in penalties that have a name."""
FREE = "penalties of absolute values need weights without constraints; wanted potentials='general' beside penalty='l1' or 'elasticnet'."
L1_SHARE = Real(0.0, above=0.0, at_most=1.0, wanted="a share of the absolute values above 0 and up to 1")


class Penalised(Objective):
    r"""An objective with :math:`\rho\|w\|_1 + \tfrac{1 - \rho}2\|w\|^2` in the place of :math:`\tfrac12\|w\|^2`.

    Attributes
    ----------
    plain : Objective
        With squares alone.
    l1 : float
        The share :math:`\rho` of absolute values, above 0; 1 for the lasso.
    """

    def __init__(self, plain: Any, l1: float):
        self.plain, self.l1 = plain, float(l1)
        self.model, self.cone, self.n_jobs = plain.model, plain.cone, plain.n_jobs
        self.n_weights, self.n_examples, self.sample_weight = plain.n_weights, plain.n_examples, plain.sample_weight
        self.set_C(plain.C)

    @property
    def l2(self) -> float:
        """The share of squares."""
        return 1.0 - self.l1

    @property
    def exact(self) -> Any:
        """Where sums over labellings, or their maxima, are exact."""
        return self.plain.exact

    def _weigh(self, C: float) -> None:
        super()._weigh(C)
        self.plain.set_C(C)

    def penalty(self, w: np.ndarray) -> float:
        """The penalty of weights."""
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * float(inner(w, w))

    def evaluate(self, w: np.ndarray) -> float:
        return self.prove(w, Check()).high

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        w = np.ascontiguousarray(w, dtype=np.float64)
        half, penalty = 0.5 * float((w * w).sum()), self.penalty(w)
        found = self.plain.prove(w, check, None if goal is None else goal + half - penalty)
        slip = (PAIRWISE + ULPS) * (2 * half + penalty)
        change = penalty - half
        moved: Proven = found._replace(
            low=found.low + change - slip, high=found.high + change + slip, rounding=found.rounding + 2 * slip
        )
        return moved

    def lowest(self, tangent: FeatureSum) -> float:
        r"""What a function below :math:`L` proves about the minimum: the formula above, with rounding taken off."""
        value = tangent.value - tangent.value_error
        size = np.abs(tangent.vector) + tangent.error
        most, best = float(size.max(initial=0.0)), 0.0  # neither part of the objective is below 0
        if value <= 0:
            return best
        share = min(1.0, self.l1 / most * (1.0 - 4 * EPS)) if most > 0 else 1.0
        best = share * value * (1.0 - 2 * EPS)
        if self.l2 > 0:
            excess = np.maximum(size * (1.0 + EPS) - self.l1, 0.0)
            cost = float((excess * excess).sum()) * (1.0 + PAIRWISE) / (2.0 * self.l2) * (1.0 + 4 * EPS)
            best = max(best, (value - cost) - 2 * EPS * (value + cost))
        return best

    def content(self) -> Iterable[np.ndarray]:
        return (*self.plain.content(), np.array([self.l1]))


class PenalisedObjective(Penalised):
    r"""A likelihood with :math:`\rho\|w\|_1 + \tfrac{1 - \rho}2\|w\|^2` in the place of :math:`\tfrac12\|w\|^2`.

    Parameters
    ----------
    smooth : LikelihoodObjective
        With free weights and exact sums over labellings.
    l1 : float
        The share :math:`\rho` of absolute values, above 0; 1 for the lasso.
    """

    surrogate = "likelihood"

    def __init__(self, smooth: LikelihoodObjective, l1: float = 1.0):
        check_value("l1", l1, L1_SHARE)
        if not smooth.free:
            raise UnsupportedProblemError(FREE)
        if smooth.inexact:
            raise UnsupportedProblemError(
                "penalties of absolute values need exact sums over labellings, but a graph with cycles is too wide for them; wanted penalty='l2', or "
                "forests and graphs of small width."
            )
        self.smooth = smooth
        super().__init__(smooth, l1)

    def loss(self, w: np.ndarray) -> Evaluation:
        """Value and gradient of the weighted likelihood alone, :math:`L`."""
        with self._counted(self.n_examples):
            found = self.smooth.ask(w)
        return Evaluation(found.value - 0.5 * float(inner(w, w)), found.gradient - w)

    def words(self) -> str:
        """Which sums were exact."""
        return self.smooth.words()


@dataclass(frozen=True, eq=False)
class PenaltyCertificate(GradientCertificate):
    """Points and shares whose tangents prove a lower bound on a `PenalisedObjective`."""

    objectives: ClassVar[tuple[str, ...]] = ("PenalisedObjective",)

    def shares(self) -> np.ndarray:
        """The shares, checked; they may sum to less than 1, as the likelihood is not negative."""
        alpha = multipliers(self.alpha, (len(self.points),), "the shares of the certificate")
        if not len(alpha) or alpha.sum() > 1.0 + _SHARES:
            raise CertificateError(f"the shares of the certificate are {alpha}, wanted numbers >= 0 with a sum of at most 1.")
        return np.asarray(alpha / max(1.0, alpha.sum()) * (1.0 - (len(alpha) + 4) * EPS))

    def _bound(self, objective: Any, check: Check) -> Proven:
        """From tangents in plain numpy."""
        alpha = self.shares()
        if check.exact:
            raise CertificateError(
                "a likelihood has sums of exponentials, which cannot be checked in rational arithmetic; leave exact=True out."
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
            tangents.append(objective.smooth.tangent(np.array(point, dtype=np.float64), check))
            check.step()
        low = objective.lowest(sum_of(tangents, alpha))
        return Proven(low, low, ULPS * abs(low), "lower bound from points that tangents were taken at, in plain numpy")
