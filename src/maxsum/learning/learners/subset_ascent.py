"""SubsetAscent: dual ascent with a multiplier for every set of labels, where labels are few."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ...core.errors import UnsupportedProblemError
from ...kernels.subset_ascent import ascend
from ...models.multilabel import MultiLabelBound
from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..objectives.margin import refuse_oracle
from ..objectives.multilabel import MultiLabelObjective, reduced
from ..protocols import HasPlanes, HasSubsets
from ..result import relative
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

    .. math:: \max_\alpha \sum_{j, S} \alpha_{jS} L(y_j, S) - \tfrac12\|w(\alpha)\|^2,\qquad \textstyle\sum_S \alpha_{jS} = c_j.

    A visit of an example scores all its subsets exactly and moves multipliers by pairwise steps with closed-form line search.

    Parameters
    ----------
    max_steps : int
        Pairwise steps of a visit.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasSubsets)

    max_steps: int = 10

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        why = unsuited(objective.model)
        if why:
            raise UnsupportedProblemError(f"SubsetAscent {why}.")
        refuse_oracle(self, objective)

    def init(self, objective: MultiLabelObjective, training: Training, start: Any = None) -> SubsetState:
        state = SubsetState(self, objective)
        if isinstance(start, SubsetState) and start.objective is objective:
            state.take(start)
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
    """Multipliers (n, 2^L) of all subsets, and the weights they make.

    Attributes
    ----------
    subsets : ndarray, shape (2^L, L)
        Labels of each subset; ``own_subset`` is the number of each example's true one.
    """

    learner: SubsetAscent = field(metadata=REBUILT)
    objective: MultiLabelObjective = field(metadata=REBUILT)
    random: np.random.Generator = field(init=False)
    alpha: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        objective, model, n = self.objective, self.objective.model, self.objective.n_examples
        self.random = np.random.default_rng(self.learner.random_state)
        self.truth = np.asarray(model.labels).reshape(n, -1)
        n_labels = self.truth.shape[1]
        self.subsets = (np.arange(1 << n_labels)[:, None] >> np.arange(n_labels)) & 1
        self.own_subset = objective._truth
        x = model.data.x
        self.x = np.zeros((0, 0)) if sparse.issparse(x) else np.ascontiguousarray(x, dtype=np.float64)
        rows = sparse.csr_array(x) if sparse.issparse(x) else sparse.csr_array((0, 0))
        self.rows = (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float64))
        self.norm = np.asarray(
            x.multiply(x).sum(axis=1) if sparse.issparse(x) else (x * x).sum(axis=1), dtype=np.float64
        ).ravel()
        self.gaps, self.alpha = np.zeros(n), np.zeros((n, 1 << n_labels))
        self.alpha[np.arange(n), self.own_subset] = objective.c

    def take(self, before: SubsetState) -> None:
        """The multipliers of another training, scaled to the present weights of the examples."""
        n, c, total = len(self.alpha), self.objective.c, before.alpha.sum(axis=1)
        self.alpha = before.alpha * np.divide(c, total, out=np.zeros(n), where=total > 0)[:, None]
        self.alpha[np.arange(n), self.own_subset] += np.maximum(0.0, c - self.alpha.sum(axis=1))

    def restored(self) -> None:
        """Weights of the multipliers that were read."""
        self._weigh()

    def refresh(self, training: Training) -> None:
        """Weights and dual value from the multipliers, without the rounding of many small steps."""
        self._weigh()
        training.bound(self.dual, self.certificate)

    def _weigh(self) -> None:
        model, x = self.objective.model, self.objective.model.data.x
        mass = self.alpha.sum(axis=1)
        used = self.alpha @ self.subsets.astype(np.float64)
        edges = model.graph.edges
        node = np.asarray(x.T @ (mass[:, None] * self.truth - used)).T
        each = -self.alpha.sum(axis=0) + np.bincount(self.own_subset, weights=mass, minlength=len(self.subsets))
        tables = np.zeros((len(edges), 2, 2))
        for e, (u, v) in enumerate(edges):
            np.add.at(tables[e], (self.subsets[:, u], self.subsets[:, v]), each)
        self.node, self.tables = np.ascontiguousarray(node), tables
        self.w = np.concatenate([self.node.ravel(), tables.ravel()])
        loss = self.objective.loss_table.reshape(len(used), -1, 2)
        self.dual = float((loss[:, :, 0] * (mass[:, None] - used) + loss[:, :, 1] * used).sum() - 0.5 * (self.w @ self.w))

    def one_pass(self, training: Training) -> float:
        """Visit all examples in random order; returns an estimate of the relative gap."""
        objective = self.objective
        edges = objective.model.graph.edges
        own, pair = reduced(self.tables, edges, len(self.node))
        order = self.random.permutation(objective.n_examples)
        started = time.perf_counter()
        gaps, gain, visits = self.gaps, 0.0, 0
        for i in range(1 + _TUNING.active_passes):
            more = ascend(
                order, self.x, *self.rows, self.norm, objective.loss_gain, edges, self.alpha, self.node, self.tables, own, pair,
                self.learner.max_steps, gaps,
            )  # fmt: skip
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
        answer = self.objective.ask(self.w)
        training.offer(self.w, self.objective.primal(self.w, answer.upper), True)

    def certificate(self) -> DualCertificate:
        """Subsets with weight, as a proof of the dual value."""
        alpha = self.alpha.copy()
        alpha[np.arange(len(alpha)), self.own_subset] = 0.0
        example, subset = np.nonzero(alpha)
        keys = tuple(self.subsets[subset].astype(np.int32))
        return DualCertificate(example.astype(np.int64), keys, alpha[example, subset], np.zeros(0))
