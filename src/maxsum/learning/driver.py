"""The one loop driver of all learners: clock, limits, callback, trace, best weights, checkpoints."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..core.errors import UnsupportedProblemError
from ..core.parameters import FILE_NAME, RELATIVE_GAP, SEED, TIME_LIMIT, Constraint, Real, WholeNumber, check, settings
from ..core.result import Guarantee, Termination
from ..inference.base import Interruptible
from .certificate import DualCertificate, LearningCertificate, relative
from .objectives.base import Objective
from .protocols import HasPlanes, missing
from .result import LearningPoint, LearningResult
from .state import pack, unpack

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

    requires: ClassVar[tuple[Any, ...]] = ()
    """Protocols of `maxsum.learning.protocols` that an objective has to have."""

    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None
    random_state: int = 0
    checkpoint: str | Path | None = None
    checkpoint_seconds: float = 30.0

    _parameters: ClassVar[Mapping[str, Constraint | None]] = settings(
        tol=RELATIVE_GAP,
        max_iter=WholeNumber(1),
        time_limit=TIME_LIMIT,
        random_state=SEED,
        checkpoint=FILE_NAME,
        checkpoint_seconds=Real(0.0, wanted="seconds >= 0"),
    )

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
        self.check(objective)
        training = Training(self, objective, callback)
        with training:
            training.run(init)
        return training.result()

    def check(self, objective: Any) -> None:
        """Refuse settings that make no sense, and objectives that this learner cannot minimise."""
        try:
            self._check(objective)
        except UnsupportedProblemError as error:
            from .registry import able

            names = ", ".join(able(objective))
            raise UnsupportedProblemError(f"{error} Learners that minimise it: {names or 'none'}.") from None

    def _check(self, objective: Any) -> None:
        check(self)
        lacking = missing(objective, self.requires)
        if lacking:
            raise UnsupportedProblemError(
                f"{type(self).__name__} cannot minimise a {type(objective).__name__}, which lacks {' and '.join(lacking)}."
            )
        if HasPlanes in self.requires and getattr(objective, "smoothing", 0.0) > 0:
            raise UnsupportedProblemError(
                f"{type(self).__name__} minimises the linear relaxation itself; smoothing is {objective.smoothing}, wanted 0."
            )

    @abstractmethod
    def init(self, objective: Any, training: Training, start: Any = None) -> Any:
        """The state before the first step: a dataclass that `maxsum.learning.state` can write.

        Parameters
        ----------
        objective : Objective
        training : Training
        start : object, optional
            What an earlier training left, for this learner to go on from: planes, or weights.
        """

    @abstractmethod
    def step(self, state: Any, training: Training) -> None:
        """One iteration, in place: offer weights and bounds to the training; `Training.end` if there is nothing left to do."""

    def finish(self, state: Any, training: Training) -> None:  # noqa: B027  (most learners have nothing to do)
        """What is to be done after the last step; nothing by default, and nothing after ``Ctrl-C``."""


@dataclass
class _Kept:
    """What a checkpoint holds of a training beside the state of its learner.

    Attributes
    ----------
    whole : bool
        Whether the last step was over, not one of several parts of it.
    from_state : bool
        Whether the certificate comes from the state.
    tol : float
        Tolerance of the training; ``ended`` and ``message`` are how the learner ended it at that tolerance, if it did.
    """

    weights: np.ndarray
    primal: float
    dual: float
    exact: bool
    n_iter: int
    n_calls: int
    whole: bool
    from_state: bool
    tol: float
    ended: Termination | None = None
    message: str = ""
    certificate: LearningCertificate | None = None


@dataclass
class _File:
    training: _Kept
    oracle: dict[str, np.ndarray]
    state: Any


class Training(Interruptible):
    """One fit: clock, best weights and bound, trace, checkpoints, and the loop itself.

    Attributes
    ----------
    state : object
        That of the learner.
    passes : int
        Iterations that a step counts for; a step may set it.
    durable : bool
        Whether a checkpoint has to survive a crash of the machine.
    """

    durable = True

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
        self.saved = time.perf_counter()
        self.state: Any = None
        self.passes = 1
        self._ended: tuple[Termination, str] | None = None

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

    def run(self, init: Any) -> None:
        """The loop of all learners: a state, from nothing or from a checkpoint, then steps until one is the last."""
        learner = self.learner
        self.state = state = learner.init(self.objective, self, init)
        over = self._resume()
        while not over:
            self.passes = 1
            learner.step(state, self)
            over = self.step(self.n_iter + self.passes)
        learner.finish(state, self)

    def end(self, termination: Termination, message: str = "") -> None:
        """Let this step be the last one, unless another reason to stop comes first (the gap, the callback, the clock)."""
        self._ended = termination, message

    def step(self, n_iter: int) -> bool:
        """Record an iteration; True if the training has to stop."""
        self.n_iter = n_iter
        point = LearningPoint(n_iter, self.seconds, self.primal, self.dual, self.objective.n_calls - self.before[0])
        self.trace.append(point)
        log.info(
            "%s iteration %d: objective %.6g, lower bound %.6g", type(self.learner).__name__, n_iter, self.primal, self.dual
        )
        stop = self._over(point)
        if self._ended is not None and not stop:
            self.termination, self.message, stop = self._ended[0], self._ended[1] or self.message, True
        due = stop or time.perf_counter() - self.saved >= self.learner.checkpoint_seconds
        if due and self.learner.checkpoint is not None:
            self.save()
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

    def save_within(self) -> bool:
        """Write a checkpoint in the middle of a step, if it is time; whether it was written."""
        due = time.perf_counter() - self.saved >= self.learner.checkpoint_seconds
        return due and self.learner.checkpoint is not None and self.save(whole=False)

    def save(self, whole: bool = True) -> bool:
        """Write a checkpoint now; a disk that cannot be written to is a warning, and training goes on."""
        from .checkpoint import save_checkpoint

        given = None if callable(self.certificate) else self.certificate
        kept = _Kept(
            self.weights, self.primal, self.dual, self.exact, self.n_iter, self.objective.n_calls - self.before[0], whole,
            callable(self.certificate), self.learner.tol, *(self._ended or (None, "")), given,  # type: ignore[call-arg]
        )  # fmt: skip
        arrays = pack(_File(kept, self.objective.state(), self.state))
        try:
            save_checkpoint(self.learner.checkpoint, self.learner, self.objective, arrays, self.durable)  # type: ignore[arg-type]
            return True
        except OSError as error:
            log.warning("checkpoint %s was not written (%s); training goes on.", self.learner.checkpoint, error)
            self.extra["checkpoint_error"] = str(error)
            return False
        finally:
            self.saved = time.perf_counter()

    def _resume(self) -> bool:
        """Go on from the checkpoint, if there is one; the step that it was written after is recorded again, and may be the last."""
        if self.learner.checkpoint is None or not Path(self.learner.checkpoint).exists():
            return False
        from .checkpoint import FILE, load_checkpoint

        blank = _Kept(self.weights, 0.0, 0.0, False, 0, 0, True, True, 0.0)
        arrays = load_checkpoint(self.learner.checkpoint, self.learner, self.objective)
        try:
            found = unpack(arrays, _File(blank, {}, self.state))
        except ValueError as error:
            raise FILE.fault(self.learner.checkpoint, f"holds another state: {error}") from error
        kept = found.training
        self.weights, self.primal, self.dual, self.exact, self.n_iter = (
            kept.weights, kept.primal, kept.dual, kept.exact, kept.n_iter,
        )  # fmt: skip
        self.before = (self.objective.n_calls - kept.n_calls, self.before[1])
        self.certificate = self.state.certificate if kept.from_state else kept.certificate
        self.objective.restore(found.oracle)
        if kept.ended is not None and kept.tol == self.learner.tol:
            self.end(kept.ended, kept.message)
        return self.step(self.n_iter) if kept.whole else False

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
