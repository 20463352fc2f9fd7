"""MaximumLikelihood: L-BFGS for conditional random fields, with a proven gap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..driver import LearningCallback, Training
from ..protocols import HasGradient, HasSums
from ..result import LearningResult
from .limited_memory import LimitedMemoryState, Memory
from .quasi_newton import ProjectedQuasiNewton, QuasiNewtonState, _first


@dataclass(frozen=True)
class Tuning:
    """How much is remembered.

    Attributes
    ----------
    numbers : int
        Most numbers of all steps and gradient changes together, 1 GB.
    fewest_pairs : int
        Pairs that are kept however many weights there are: with fewer L-BFGS is hardly better than the gradient.
    """

    numbers: int = 2**27
    fewest_pairs: int = 5


_TUNING = Tuning()


@dataclass(frozen=True)
class MaximumLikelihood(ProjectedQuasiNewton):
    """The learner of likelihoods: L-BFGS, projected for a cone, with a proven gap as the objective is strongly convex.

    ``extra`` of the result says with ``sums`` whether sums over labellings are ``"exact"`` or, for some sample, a ``"bound"``: then
    ``objective`` and ``lower_bound`` are those of the bound, which is never below the negative log-likelihood. With very many weights
    ``memory`` is cut down.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasGradient, HasSums)

    def fit(self, objective: Any, callback: LearningCallback | None = None, init: Any = None) -> LearningResult:
        """Minimise a `LikelihoodObjective`.

        Parameters
        ----------
        objective : LikelihoodObjective
        callback : callable, optional
            Called with a `LearningPoint` after each iteration; a true return value stops the training.
        init : array-like, shape (n_weights,), optional
            Weights to start from.
        """
        result = super().fit(objective, callback, init)
        result.extra["sums"] = "exact" if objective.exact.all() else "bound"
        return result

    def init(self, objective: Any, training: Training, start: Any = None) -> Any:
        few = max(_TUNING.fewest_pairs, _TUNING.numbers // (2 * max(1, objective.n_weights)) - 1)
        memory = min(self.memory, few)
        if not (objective.free and objective.exact.all()):
            return ProjectedQuasiNewton.init(replace(self, memory=memory), objective, training, start)
        training.weights = _first(objective, start)
        return LimitedMemoryState(objective, training.weights.copy(), Memory(objective.n_weights, memory))

    def step(self, state: QuasiNewtonState | LimitedMemoryState, training: Training) -> None:
        if isinstance(state, LimitedMemoryState):
            state.step(training)
        else:
            super().step(state, training)
