"""Certificates of the lifted form: what is proven of a problem whose factors are written with nodes and edges is proven of the problem."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InfeasibleError
from ..factors.lifting import lift
from .base import Certificate, Evaluation

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class LiftedCertificate(Certificate):
    """A certificate of `core.factors.lifting.lift` of the problem, which has the same scores: the bound of the one is a bound of the other."""

    inner: Certificate

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        try:
            lifted = lift(problem)
        except InfeasibleError:  # arc consistency proves it
            return Evaluation(-np.inf, np.inf)
        return self.inner.evaluate(lifted.problem, None if labels is None else lifted.labels(labels))

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        try:
            lifted = lift(problem)
        except InfeasibleError:
            return float("-inf"), float("inf")
        return self.inner.evaluate_exactly(lifted.problem, None if labels is None else lifted.labels(labels))
