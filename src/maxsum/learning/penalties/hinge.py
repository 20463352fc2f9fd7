r"""The margin-rescaled hinge with a penalty whose minimiser has weights that are exactly zero, and the proof of its lower bound.

.. math:: F(w) = \rho\|w\|_1 + \tfrac{1 - \rho}2\|w\|^2 + \sum_j c_j\,\xi_j(w)

Planes :math:`\xi_j(w) \ge b_i - \langle w, z_i\rangle` with multipliers :math:`\alpha \ge 0`, :math:`\sum_{i \in j}\alpha_i \le c_j`, have sums
:math:`b, z` that prove what a tangent of the likelihood does (`Penalised.lowest`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.errors import CertificateError, UnsupportedProblemError
from ...core.parameters import check_value
from ..certificate import Check, DualCertificate, Proven
from ..objectives.base import ULPS, Answer, Plane
from ..objectives.margin import MarginObjective
from ..oracles.base import Effort, Key
from .objective import FREE, L1_SHARE, Penalised


class PenalisedHinge(Penalised):
    r"""A `MarginObjective` with :math:`\rho\|w\|_1 + \tfrac{1 - \rho}2\|w\|^2` in the place of :math:`\tfrac12\|w\|^2`.

    Parameters
    ----------
    margin : MarginObjective
        With free weights.
    l1 : float
        The share :math:`\rho` of absolute values, above 0; 1 for the linear program.
    """

    surrogate = "margin"

    def __init__(self, margin: MarginObjective, l1: float = 1.0):
        check_value("l1", l1, L1_SHARE)
        if not margin.cone.is_free:
            raise UnsupportedProblemError(FREE)
        if margin.relaxed or margin.surrogate != "margin":
            raise UnsupportedProblemError(
                f"penalties of absolute values with the hinge got a {type(margin).__name__}, wanted a MarginObjective, whose planes are labellings."
            )
        super().__init__(margin, l1)

    @property
    def oracle(self) -> Any:
        """Who maximises the loss-augmented problems."""
        return self.plain.oracle

    def ask(self, w: np.ndarray, examples: np.ndarray | None = None, effort: Effort = Effort.NORMAL) -> Answer:
        """The most violated planes of some examples (all by default) at ``w``."""
        with self._counted(self.n_examples if examples is None else len(examples)):
            found: Answer = self.plain.ask(w, examples, effort)
        return found

    def tighten(self, w: np.ndarray, answer: Answer, dual: float, tol: float, seconds: float) -> Answer:
        """The answer with its open brackets closed as far as the tolerance needs it; see `PlaneObjective.tighten_brackets`."""
        change, before = self.penalty(w) - 0.5 * float(w @ w), self.plain.n_calls
        reached = self.primal(w, np.maximum(answer.value, 0.0))
        tol = tol * reached / max(reached - change, 1e-300)
        better: Answer = self.plain.tighten_brackets(w, answer, dual - change, tol, seconds)
        self.n_calls += self.plain.n_calls - before
        return better

    def primal(self, w: np.ndarray, slack: np.ndarray) -> float:
        """The objective of weights with given slacks."""
        return self.penalty(w) + float(self.c @ slack)

    def plane(self, j: int, key: Key) -> Plane:
        """The plane that a key stands for."""
        found: Plane = self.plain.plane(j, key)
        return found


@dataclass(frozen=True, eq=False)
class PenalisedCertificate(DualCertificate):
    """Planes and multipliers that prove a lower bound on a `PenalisedHinge`; ``mu`` is empty."""

    objectives: ClassVar[tuple[str, ...]] = ("PenalisedHinge",)

    def _bound(self, objective: Any, check: Check) -> Proven:
        if check.exact:
            raise CertificateError(
                "bounds with penalties of absolute values are not checked in rational arithmetic; leave exact=True out."
            )
        low = objective.lowest(objective.plain.sum_planes(*self.planes(objective), check))
        return Proven(low, low, ULPS * abs(low), "lower bound from planes and multipliers, in plain numpy")
