"""What a learner returns: weights, what is proven about them, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.cards import card, gap_words, number, proven, times
from ..core.errors import CertificateError
from ..core.result import Guarantee, Termination
from .certificate import AGREE, Bracketed, LearningVerification, NoProof, Progress, relative

if TYPE_CHECKING:
    from .certificate import LearningCertificate

__all__ = ["LearningPoint", "LearningResult", "learning_card", "relative"]
_TINY = 1e-12  # objectives are sums of numbers of the size of losses, so that 0 may come out as so much


@dataclass(frozen=True)
class LearningPoint(Bracketed):
    """State of a training at one moment."""

    iteration: int
    seconds: float
    objective: float
    lower_bound: float
    n_oracle_calls: int


@dataclass(frozen=True, eq=False)
class LearningResult(Bracketed):
    """Answer of a learner.

    Attributes
    ----------
    weights : ndarray, shape (n_weights,)
        In the cone of the model, exactly.
    objective : float
        An upper bound on ``F(weights)``: equal to it where the oracle is exact, with dual bounds as slacks elsewhere.
    lower_bound : float
        No weights of the cone have a smaller objective; ``-inf`` where the learner proves nothing.
    gap, relative_gap : float
        See `Bracketed`. A lower bound above the objective, beyond rounding, is no result but a `CertificateError`.
    termination : Termination
        Why it stopped.
    guarantee : Guarantee
        What is proven: ``optimal``, ``within_gap`` or ``feasible``.
    oracle_guarantee : Guarantee
        What the oracle proved at ``weights``: ``optimal``, or ``within_gap`` for some example (relaxed slacks).
    certificate : LearningCertificate or None
        The proof of ``lower_bound``; `verify` checks it.
    n_iter, n_oracle_calls : int
    seconds, oracle_seconds, qp_seconds : float
    finished : float
        When it ended, in seconds since 1970; 0 if unknown.
    trace : tuple of LearningPoint
    learner, message : str
    """

    weights: np.ndarray
    objective: float
    lower_bound: float
    termination: Termination
    oracle_guarantee: Guarantee
    certificate: LearningCertificate | None
    learner: str
    n_iter: int = 0
    n_oracle_calls: int = 0
    seconds: float = 0.0
    oracle_seconds: float = 0.0
    qp_seconds: float = 0.0
    message: str = ""
    finished: float = 0.0
    trace: tuple[LearningPoint, ...] = field(default=(), repr=False)
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.lower_bound > self.objective + AGREE * abs(self.objective) + _TINY:
            raise CertificateError(
                f"the result of {self.learner} has a lower bound of {self.lower_bound}, above its objective {self.objective}: one of them is "
                "false. Please report this."
            )

    def verify(
        self, objective: Any, exact: bool = False, progress: Progress | None = None, time_limit: float | None = None
    ) -> LearningVerification:
        """Check the proof and every claim of this result against the data.

        Weights, objective, lower bound, gap and guarantee are compared with an independent evaluation. Without a certificate the
        objective alone can be checked, and a finite lower bound is refused.

        Parameters
        ----------
        objective : Objective
            What was minimised; ``objective_`` of an estimator.
        exact : bool
            Use rational arithmetic.
        progress : callable, optional
            Called with (parts done, parts in all).
        time_limit : float, optional
            Seconds.

        Returns
        -------
        LearningVerification

        Raises
        ------
        CertificateError
            If a claim does not hold.
        CheckTimeout
            If the time limit passes first.
        """
        proof = NoProof() if self.certificate is None else self.certificate
        if self.certificate is None and np.isfinite(self.lower_bound):
            raise CertificateError(
                f"the result of {self.learner} claims a lower bound of {self.lower_bound}, but has no certificate that proves it. Learners of "
                "convex surrogates give one."
            )
        return proof.verify(objective, self.weights, claimed=self, exact=exact, progress=progress, time_limit=time_limit)

    def __repr__(self) -> str:
        return (
            f"LearningResult({self.guarantee}, objective={self.objective:.8g}, lower_bound={self.lower_bound:.8g}, "
            f"relative gap={self.relative_gap:.2g}, {self.learner}, {self.termination}, {self.n_oracle_calls} oracle calls, "
            f"{self.seconds:.3g} s)"
        )

    def _repr_html_(self) -> str:
        """A card for notebooks."""
        return learning_card("LearningResult", self)


def learning_card(title: str, result: LearningResult, before: Sequence[tuple[str, str]] = ()) -> str:
    """A card of what was learned; ``before`` are rows that say what of."""
    exact = result.oracle_guarantee == Guarantee.optimal
    rows = [
        *before,
        ("learner", f"{result.learner}: {result.termination.replace('_', ' ')} after {result.n_iter} iterations"),
        ("objective", number(result.objective) if exact else f"{number(result.objective)} or less"),
        ("lower bound", number(result.lower_bound)),
        ("gap", gap_words(result.gap, result.relative_gap)),
        ("oracle calls", str(result.n_oracle_calls)),
        ("time", times(result.seconds, (result.oracle_seconds, "in oracles"), (result.qp_seconds, "in quadratic programs"))),
    ]
    return card(title, proven(result.guarantee, result.relative_gap), rows, result.message)
