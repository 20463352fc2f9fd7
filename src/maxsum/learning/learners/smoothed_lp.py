"""SmoothedLP: quasi-Newton in the weights of the smoothed LP-M3N, sweeps of messages inside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UnsupportedProblemError
from ..driver import LearningCallback
from ..dual.pseudo_marginals import PseudoMarginals
from ..objectives.margin import refuse_oracle
from ..objectives.smooth import GradientCertificate
from ..objectives.smoothed import SmoothedCertificate, SmoothedObjective
from ..protocols import HasGradient, HasRelaxation, has
from ..result import LearningResult
from .quasi_newton import ProjectedQuasiNewton


@dataclass(frozen=True)
class SmoothedLP(ProjectedQuasiNewton):
    """The learner of the smoothed LP-M3N: L-BFGS (projected, for a cone) in the weights, sweeps of messages inside.

    ``objective`` and ``lower_bound`` of the result are those of the smoothed problem. What is proven for the problem without smoothing
    is in ``extra``: ``lp_objective``, ``lp_lower_bound`` and its ``lp_certificate``; beside them ``messages`` (2, E, K), ``smoothing``,
    ``smoothing_error`` (the most by which smoothing lifts the objective) and ``n_rounds``.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasRelaxation,)

    def fit(self, objective: Any, callback: LearningCallback | None = None, init: Any = None) -> LearningResult:
        """Minimise the smoothed objective.

        Parameters
        ----------
        objective : LPObjective or SmoothedObjective
            The first with ``smoothing`` > 0.
        callback : callable, optional
            Called with a `LearningPoint` after each iteration; a true return value stops the training.
        init : array-like, shape (n_weights,), optional
            Weights to start from.
        """
        self.check(objective)
        smooth = objective if has(objective, HasGradient) else SmoothedObjective(objective, objective.smoothing)
        return finished(smooth, super().fit(smooth, callback, init))

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        if not objective.smoothing > 0:
            raise UnsupportedProblemError(
                f"SmoothedLP got a {type(objective).__name__} without smoothing, wanted LPObjective(..., smoothing > 0)."
            )
        refuse_oracle(self, objective)


def finished(smooth: SmoothedObjective, result: LearningResult) -> LearningResult:
    """The result with weights exactly in the cone, their objective in plain numpy, and what is proven without smoothing."""
    w = smooth.cone.repair(result.weights)
    value = smooth.evaluate(w)
    marginals = PseudoMarginals(smooth.objective, smooth.node, smooth.edge, smooth.n_jobs)
    proof = result.certificate
    if isinstance(proof, GradientCertificate):
        proof = SmoothedCertificate(proof.points, proof.alpha, smooth.smoothing)
    extra = {
        **result.extra, "messages": smooth.messages.copy(), "smoothing": smooth.smoothing, "n_rounds": smooth.n_rounds,
        "smoothing_error": smooth.smoothing_error(), "lp_objective": smooth.objective.primal(w, np.maximum(smooth.slack, 0.0)),
        "lp_lower_bound": marginals.dual, "lp_certificate": marginals.certificate(),
    }  # fmt: skip
    both = f"{extra['lp_lower_bound']:.8g} and {extra['lp_objective']:.8g}"
    message = f"{result.message} Without smoothing it is between {both}."
    return replace(result, weights=w, objective=value, certificate=proof, message=message, extra=extra)
