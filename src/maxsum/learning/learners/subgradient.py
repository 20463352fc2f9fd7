"""Subgradient: the stochastic baseline that everybody knows, with Pegasos steps, averaging, and a bound all the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...core.parameters import POSITIVE, Flag, Maybe, WholeNumber, settings
from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..dual.dual_bound import check_relaxed
from ..objectives.base import Objective, PlaneObjective
from ..objectives.margin import refuse_oracle
from ..oracles.base import Key
from ..protocols import HasPlanes
from ..state import REBUILT
from .dual_subgradient import DescentState


@dataclass(frozen=True)
class Tuning:
    """Numbers of the steps.

    Attributes
    ----------
    batches : int
        Steps a pass by default: more are closer to Pegasos, and calls of the oracle for fewer examples at a time.
    """

    batches: int = 16


_TUNING = Tuning()


@dataclass(frozen=True)
class Subgradient(Learner):
    r"""Stochastic subgradient descent with the steps :math:`1/t` of Pegasos.

    With these steps the weights are the average of all planes seen, :math:`w_t = \Pi(\frac1t\sum_s n\,c_{j_s} z_s)`, projected to
    the cone; after whole passes that average is a feasible dual point, so the baseline has a certificate too.

    Parameters
    ----------
    averaged : bool
        Return the average of the weights, the later ones counting more, where it is better.
    batch : int, optional
        Examples a step; by default a sixteenth of them.
    step_size : float, optional
        First step length for the ``lp`` surrogate, where the steps in weights and messages are normalised and go with
        :math:`1/\sqrt t`, as Franc & Laskov (2011) write (see `dual_subgradient.DescentState`); ten of them an iteration.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes,)

    averaged: bool = True
    batch: int | None = None
    step_size: float | None = None

    _parameters = settings(averaged=Flag(), batch=Maybe(WholeNumber(1)), step_size=Maybe(POSITIVE))

    def _check(self, objective: Objective) -> None:
        super()._check(objective)
        if objective.relaxed:  # type: ignore[attr-defined]
            check_relaxed(self, objective)
            refuse_oracle(self, objective)
            objective.model.refuse_cliques("Subgradient of the lp surrogate")  # type: ignore[attr-defined]

    def init(self, objective: Any, training: Training, start: Any = None) -> SubgradientState | DescentState:
        return DescentState(objective, self.step_size) if objective.relaxed else SubgradientState(self, objective)

    def step(self, state: SubgradientState | DescentState, training: Training) -> None:
        """A pass over all examples, or some steps on the dual bound."""
        state.step(training)


@dataclass(eq=False)
class SubgradientState:
    """The sum of all planes seen, and which they were.

    Attributes
    ----------
    total : ndarray
        Sum of the vectors of planes, ``offset`` that of their constants, of ``seen`` examples in ``steps`` steps.
    mean : ndarray
        Average of the weights, the later ones counting more.
    best : int
        Planes of the best bound so far; ``best_mean`` is the mean of their vectors.
    """

    learner: Subgradient = field(metadata=REBUILT)
    objective: PlaneObjective = field(metadata=REBUILT)
    random: np.random.Generator = field(init=False)
    total: np.ndarray = field(init=False)
    mean: np.ndarray = field(init=False)
    best_mean: np.ndarray = field(init=False)
    offset: float = 0.0
    seen: int = 0
    steps: int = 0
    best: int = 0
    examples: list[int] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.learner.random_state)
        self.total, self.mean, self.best_mean = (np.zeros(self.objective.n_weights) for _ in range(3))

    def step(self, training: Training) -> None:
        """A pass over all examples, then the bound and the objective at its end."""
        objective, learner, n = self.objective, self.learner, self.objective.n_examples
        size = learner.batch or max(1, -(-n // _TUNING.batches))
        order = self.random.permutation(n)
        for start in range(0, n, size):
            self._take(np.sort(order[start : start + size]))
        last = objective.repair(self.total / self.seen)
        dual = self.offset / self.seen - 0.5 * float(last @ last)
        if training.bound(dual, self.certificate):
            self.best, self.best_mean = self.seen, self.total / self.seen
        for w in (self.mean, last) if learner.averaged else (last,):
            w = objective.repair(w)
            answer = objective.tighten_brackets(w, objective.ask(w), training.dual, learner.tol, training.seconds_left)
            training.offer(w, objective.primal(w, np.maximum(answer.upper, 0.0)), answer.is_proven)

    def _take(self, part: np.ndarray) -> None:
        """One step: the planes of some examples at the present weights."""
        objective, n = self.objective, self.objective.n_examples
        w = objective.repair(self.total / max(self.seen, 1))
        for j, key in zip(part.tolist(), objective.ask(w, part).keys, strict=True):
            plane = objective.plane(j, key)
            self.total[plane.index] += n * objective.c[j] * plane.value
            self.offset += n * objective.c[j] * plane.offset
            self.examples.append(j)
            self.keys.append(key)
        self.seen += len(part)
        self.steps += 1
        self.mean += 2.0 / (self.steps + 1) * (objective.repair(self.total / self.seen) - self.mean)

    def certificate(self) -> DualCertificate:
        """The average of all planes up to the best bound."""
        c, n = self.objective.c, self.objective.n_examples
        at = np.array(self.examples[: self.best], dtype=np.int64)
        mu = self.objective.cone.multipliers(self.best_mean)
        return DualCertificate(at, tuple(self.keys[: self.best]), c[at] * n / max(self.best, 1), mu)
