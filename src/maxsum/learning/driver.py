"""The one loop driver of all learners: clock, limits, callback, trace, best weights, checkpoints."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError
from ..core.result import Guarantee, Termination
from ..inference.base import Interruptible, check_time_limit
from .certificate import DualCertificate
from .objectives.margin import Objective
from .result import LearningPoint, LearningResult, relative

log = logging.getLogger(__name__)
LearningCallback = Callable[[LearningPoint], Any]


@dataclass(frozen=True)
class Learner(ABC):
    """A method that minimises an `Objective`; it sees values, planes and weights, never graphs.

    Parameters
    ----------
    tol : float
        Stop at this relative gap; 0 runs to ``max_iter``.
    max_iter : int
        Passes over the examples.
    time_limit : float, optional
        Seconds.
    random_state : int
    checkpoint : path, optional
        File that the state is written to, and that training goes on from if it exists.
    checkpoint_seconds : float
        Least time between two checkpoints.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None
    random_state: int = 0
    checkpoint: str | Path | None = None
    checkpoint_seconds: float = 30.0

    def fit(self, objective: Objective, callback: LearningCallback | None = None, init: Any = None) -> LearningResult:
        """Minimise the objective.

        Parameters
        ----------
        objective : Objective
        callback : callable, optional
            Called with a `LearningPoint` after each iteration; a true return value stops the training.
        init : object, optional
            What an earlier training of this learner left (see `path`).
        """
        self._check(objective)
        training = Training(self, objective, callback)
        with training:
            self._run(objective, training, init)
        return training.result()

    def _check(self, objective: Objective) -> None:
        check_time_limit(self.time_limit)
        if not (isinstance(self.tol, (int, float, np.number)) and self.tol >= 0):
            raise InvalidSampleError(f"tol is {self.tol!r}, wanted a relative gap >= 0.")
        if isinstance(self.max_iter, bool) or not isinstance(self.max_iter, (int, np.integer)) or self.max_iter < 1:
            raise InvalidSampleError(f"max_iter is {self.max_iter!r}, wanted a whole number >= 1.")
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, (int, np.integer)) or self.random_state < 0:
            raise InvalidSampleError(f"random_state is {self.random_state!r}, wanted a whole number >= 0, so that runs repeat.")

    @abstractmethod
    def _run(self, objective: Objective, training: Training, init: Any) -> None: ...


class Training(Interruptible):
    """State of one fit: clock, best weights and bound, trace, checkpoints."""

    def __init__(self, learner: Learner, objective: Objective, callback: LearningCallback | None):
        super().__init__(learner.time_limit)
        self.learner, self.objective, self.callback = learner, objective, callback
        self.before = (objective.n_calls, objective.seconds)
        self.weights = np.zeros(objective.n_weights)
        self.primal, self.dual = np.inf, -np.inf
        self.exact = False
        self.certificate: Callable[[], DualCertificate] | DualCertificate | None = None
        self.termination = Termination.iteration_limit
        self.message = ""
        self.n_iter, self.qp_seconds = 0, 0.0
        self.trace: list[LearningPoint] = []
        self.extra: dict[str, Any] = {}
        self.state: Callable[[], dict[str, np.ndarray]] | None = None
        self.saved = time.perf_counter()

    @property
    def relative_gap(self) -> float:
        """Relative gap between the best objective and the best lower bound so far."""
        return relative(self.primal, self.dual)

    def offer(self, weights: np.ndarray, primal: float, exact: bool) -> bool:
        """Keep the weights (of the cone) if their objective is the best so far."""
        if primal < self.primal:
            self.weights, self.primal, self.exact = weights.copy(), primal, exact
            return True
        return False

    def bound(self, dual: float, certificate: DualCertificate | Callable[[], DualCertificate]) -> bool:
        """Keep a lower bound if it is the best so far. A function must still give the certificate of this bound, or a better one,
        when the training ends."""
        if dual >= self.dual:
            self.dual, self.certificate = dual, certificate
            return True
        return False

    def step(self, n_iter: int) -> bool:
        """Record an iteration; True if the training has to stop."""
        self.n_iter = n_iter
        point = LearningPoint(n_iter, self.seconds, self.primal, self.dual, self.objective.n_calls - self.before[0])
        self.trace.append(point)
        log.info(
            "%s iteration %d: objective %.6g, lower bound %.6g", type(self.learner).__name__, n_iter, self.primal, self.dual
        )
        stop = self._over(point)
        self._maybe_save(stop)
        return stop

    def _over(self, point: LearningPoint) -> bool:
        if self.relative_gap <= self.learner.tol and self.learner.tol > 0:
            self.termination = Termination.converged
            return True
        if self.callback is not None and self.callback(point):
            self.termination = Termination.stopped
            return True
        if self.late():
            self.termination = Termination.time_limit
            return True
        return point.iteration >= self.learner.max_iter

    def _maybe_save(self, last: bool) -> None:
        if self.learner.checkpoint is None or self.state is None:
            return
        if last or time.perf_counter() - self.saved >= self.learner.checkpoint_seconds:
            self.save()

    def save(self) -> None:
        """Write a checkpoint now; a disk that cannot be written to is a warning, and training goes on."""
        from .checkpoint import save_checkpoint

        assert self.state is not None
        calls = self.objective.n_calls - self.before[0]
        own = {"best": self.weights, "scalars": np.array([self.primal, self.dual, self.n_iter, float(self.exact), calls])}
        arrays = {**self.state(), **self.objective.state(), **own}
        try:
            save_checkpoint(self.learner.checkpoint, self.learner, self.objective, arrays)  # type: ignore[arg-type]
        except OSError as error:
            log.warning("checkpoint %s was not written (%s); training goes on.", self.learner.checkpoint, error)
            self.extra["checkpoint_error"] = str(error)
        self.saved = time.perf_counter()

    def resume(self) -> dict[str, np.ndarray] | None:
        """The state of a checkpoint of this learner and these data, or None if there is no file.

        A state is saved inside `step`; ``n_iter`` is set so that the learner's next call repeats that step.
        """
        if self.learner.checkpoint is None or not Path(self.learner.checkpoint).exists():
            return None
        from .checkpoint import load_checkpoint

        state = load_checkpoint(self.learner.checkpoint, self.learner, self.objective)
        self.weights = np.array(state["best"])
        self.primal, self.dual, n_iter, exact, calls = (float(v) for v in state["scalars"])
        self.n_iter, self.exact = int(n_iter) - 1, bool(exact)
        self.before = (self.objective.n_calls - int(calls), self.before[1])
        self.objective.restore(state)
        return state

    def result(self) -> LearningResult:
        """The best weights, their objective and what is proven of them."""
        objective = self.objective
        certificate = self.certificate() if callable(self.certificate) else self.certificate
        if not np.isfinite(self.primal):
            self.primal = objective.evaluate(self.weights)
        calls, seconds = objective.n_calls - self.before[0], objective.seconds - self.before[1]
        sentence = f"{type(self.learner).__name__}: {self.termination.replace('_', ' ')}"
        if np.isfinite(self.dual):
            sentence += f"; the objective is proven to be within {self.relative_gap:.2g} of the best (relative)."
        return LearningResult(
            weights=self.weights,
            objective=self.primal,
            lower_bound=self.dual,
            termination=self.termination,
            oracle_guarantee=Guarantee.optimal if self.exact else Guarantee.within_gap,
            certificate=certificate,
            learner=type(self.learner).__name__,
            n_iter=self.n_iter,
            n_oracle_calls=calls,
            seconds=self.seconds,
            oracle_seconds=seconds,
            qp_seconds=self.qp_seconds,
            message=self.message or sentence,
            finished=time.time(),
            trace=tuple(self.trace),
            extra=self.extra,
        )
