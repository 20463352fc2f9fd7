"""SubsetAscent: dual ascent with a multiplier for every set of labels, where labels are few."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UnsupportedProblemError
from ...core.parameters import WholeNumber, settings
from ...models.multilabel import MultiLabelBound
from ..certificate import DualCertificate, relative
from ..driver import Learner, Training
from ..dual.subsets import SubsetModel
from ..objectives.margin import refuse_oracle
from ..objectives.multilabel import MultiLabelObjective
from ..protocols import HasPlanes, HasSubsets
from ..state import REBUILT

MOST_STORED = 8  # 256 multipliers an example


@dataclass(frozen=True)
class Tuning:
    """Numbers that trade time for time; none of them changes what is proven.

    Attributes
    ----------
    near : float
        An evaluation is made where a pass promises a gap of so many tolerances: slacks seen in a pass are of older weights.
    often : int
        Passes from one evaluation to the next at the latest, so that progress is seen and a checkpoint has weights.
    active_passes : int
        Most passes over the examples with large gaps, after one over all.
    active : float
        Those with at least this part of the mean gap are visited again.
    pays : float
        Passes go on while they gain this part of what a visit gained so far.
    """

    near: float = 1.5
    often: int = 10
    active_passes: int = 1000
    active: float = 0.3
    pays: float = 0.5


_TUNING = Tuning()


@dataclass(frozen=True)
class SubsetAscent(Learner):
    r"""Dual block-coordinate ascent with a multiplier for every subset of at most `MOST_STORED` labels:

    .. math:: \max_\alpha \sum_{j, S} \alpha_{jS} L(y_j, S) - \tfrac12\|w(\alpha)\|^2,\qquad \sum_S \alpha_{jS} = c_j.

    A visit of an example scores all its subsets exactly and moves multipliers by pairwise steps with closed-form line search.

    Parameters
    ----------
    max_steps : int
        Pairwise steps of a visit.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasSubsets)

    max_steps: int = 10

    _parameters = settings(max_steps=WholeNumber(1))

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        why = unsuited(objective.model)
        if why:
            raise UnsupportedProblemError(f"SubsetAscent {why}.")
        refuse_oracle(self, objective)

    def init(self, objective: MultiLabelObjective, training: Training, start: Any = None) -> SubsetState:
        state = SubsetState(self, objective)
        if isinstance(start, SubsetState) and start.objective is objective:
            state.model = start.model
            state.model.rescale(objective.c)
        return state

    def step(self, state: SubsetState, training: Training) -> None:
        """The first step evaluates the objective; the others are passes over all examples, with an evaluation where it may be the last."""
        training.extra["planes"] = state
        if not np.isfinite(training.primal):
            state.refresh(training)
            state.evaluate(training)
            return
        estimate = state.one_pass(training)
        last = training.n_iter + 1 == self.max_iter or training.seconds_left <= 0
        if estimate <= _TUNING.near * self.tol or training.n_iter % _TUNING.often == 0 or last:
            state.evaluate(training)


def unsuited(model: MultiLabelBound) -> str:
    """Why `SubsetAscent` cannot learn a model; empty if it can."""
    if model.graph.n_nodes > MOST_STORED:
        return f"takes at most {MOST_STORED} labels, not {model.graph.n_nodes}"
    if not model.cone.is_free or (model.edge_index < 0).any():
        return "takes general potentials only"
    return ""


@dataclass(eq=False)
class SubsetState:
    """Multipliers of all subsets, with the weights they make, and the random order of visits."""

    learner: SubsetAscent = field(metadata=REBUILT)
    objective: MultiLabelObjective = field(metadata=REBUILT)
    random: np.random.Generator = field(init=False)
    model: SubsetModel = field(init=False)

    def __post_init__(self) -> None:
        self.random, self.model = np.random.default_rng(self.learner.random_state), SubsetModel(self.objective)
        self.gaps, self.dual = np.zeros(self.objective.n_examples), 0.0

    def restored(self) -> None:
        """The dual value of the multipliers that were read."""
        self.dual = self.model.refresh()

    def certificate(self) -> DualCertificate:
        """The proof of the dual value."""
        return self.model.certificate()

    def refresh(self, training: Training) -> None:
        """Weights and dual value from the multipliers, without the rounding of many small steps."""
        self.dual = self.model.refresh()
        training.bound(self.dual, self.certificate)

    def one_pass(self, training: Training) -> float:
        """Visit all examples in random order; returns an estimate of the relative gap."""
        objective = self.objective
        own, pair = self.model.reduced()
        order = self.random.permutation(objective.n_examples)
        started = time.perf_counter()
        gaps, gain, visits = self.gaps, 0.0, 0
        for i in range(1 + _TUNING.active_passes):
            more = self.model.ascend(order, own, pair, self.learner.max_steps, gaps)
            objective.n_calls += len(order)
            if i == 0:
                total = float(gaps.sum())
                gaps = gaps.copy()
            pays = more * visits >= _TUNING.pays * gain * len(order) and more > 1e-12 * abs(self.dual)
            gain, visits = gain + more, visits + len(order)
            order = order[gaps[order] > _TUNING.active * gaps[order].mean()]
            if not pays or not len(order):
                break
            order = self.random.permutation(order)
        training.qp_seconds += time.perf_counter() - started
        self.refresh(training)
        return relative(self.dual + total, self.dual)

    def evaluate(self, training: Training) -> None:
        """The primal value at the present weights."""
        w = self.model.weights.value.copy()
        answer = self.objective.ask(w)
        training.offer(w, self.objective.primal(w, answer.upper), True)
