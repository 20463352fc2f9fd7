"""Large-margin learning of labels that see each other: an objective that keeps features once, and a learner for few labels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...core.errors import UnsupportedProblemError
from ...kernels.design import Design
from ...kernels.multilabel import best_subsets, max_marginals, pair_sums
from ...kernels.planes import Scratch, largest_difference
from ...losses import Loss, as_loss
from ...models.multilabel import MultiLabelBound
from ..driver import Learner, Training
from ..dual.subsets import SubsetModel, reduced_tables
from ..learners.block_frank_wolfe import _pack, _unpack
from ..result import relative
from .margin import Answer, MarginObjective, Objective, choose_oracle, loss_table, refuse_oracle

MOST_ENUMERATED, MOST_IN_FOREST = 18, 12
MOST_STORED = 8


@dataclass(frozen=True)
class Tuning:
    """Constants of `SubsetAscent`."""

    often: int = 10  # passes after which the objective is evaluated, whatever the estimate of the gap says
    near: float = 1.5  # times the tolerance: an estimate of the gap below which it is worth an evaluation
    active_passes: int = 1000  # over examples with large gaps, after one over all
    active: float = 0.3  # of the mean gap: examples with less are left out of such passes
    pays: float = 0.5  # of the mean gain of a visit so far: with less a pass over some examples does not pay


TUNING = Tuning()


class SubsetOracle:
    """Loss-augmented problems of a `MultiLabelBound` with at most `MOST_ENUMERATED` labels: all subsets of labels are tried.

    Parameters
    ----------
    model : MultiLabelBound
    loss : ndarray, shape (n_examples, L)
        Loss of label 1 minus that of label 0.
    """

    exact = True

    def __init__(self, model: MultiLabelBound, loss: np.ndarray):
        self.model, self.loss = model, loss

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: int, n_jobs: int) -> tuple[list[np.ndarray], np.ndarray]:
        return list(best_labels(self.model, w, self.model.data.x[examples], self.loss[examples])), np.zeros(len(examples))


class MultiLabelObjective(MarginObjective):
    """`MarginObjective` of a `MultiLabelBound`.

    The arrays for the kernels of most learners, which repeat the features of an example for each of its labels, are made when
    somebody asks for them; `SubsetAscent` does not.
    """

    model: MultiLabelBound

    def __init__(
        self,
        model: MultiLabelBound,
        C: float = 1.0,
        loss: Loss | str = "hamming",
        oracle: Any = None,
        sample_weight: Any = None,
        n_jobs: int = 1,
    ):
        Objective.__init__(self, model.n_examples, model.cone, C, sample_weight, n_jobs)
        self.model, self.loss = model, as_loss(loss)
        plain = isinstance(loss, str) and loss == "hamming"
        self.loss_table = self.loss.table(model.labels, 2) if plain else loss_table(model, self.loss)
        self.loss_gain = np.ascontiguousarray((self.loss_table[:, 1] - self.loss_table[:, 0]).reshape(model.n_examples, -1))
        few = oracle is None and is_small(model)
        self.oracle = SubsetOracle(model, self.loss_gain) if few else choose_oracle(model, self.design, oracle)
        self.exact = self.oracle.exact
        self.oracle_given, self._foreign = oracle is not None, self.oracle is oracle

    @cached_property
    def design(self) -> Design:  # type: ignore[override]
        return self.model.design(self.loss_table)

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        return int(largest_difference(self.design))

    @cached_property
    def scratch(self) -> Scratch:  # type: ignore[override]
        return self.new_scratch(1)

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: int) -> Answer:
        if not isinstance(self.oracle, SubsetOracle):
            return super()._ask(w, examples, effort)
        gain, sums = _parts(self.model, w, self.model.data.x[examples], self.loss_gain[examples])
        labels = np.zeros(gain.shape, dtype=np.int32)
        slack = best_subsets(gain, sums, self._truth[examples], np.zeros(len(sums)), labels)
        return Answer(examples, list(labels), slack, slack)

    @cached_property
    def _truth(self) -> np.ndarray:
        labels = np.asarray(self.model.labels).reshape(self.n_examples, -1)
        return (labels.astype(np.int64) << np.arange(labels.shape[1])).sum(axis=1)

    def values(self, w: np.ndarray, examples: np.ndarray, keys: Sequence[np.ndarray]) -> np.ndarray:
        found = np.array(keys).reshape(len(examples), self.model.graph.n_nodes)
        truth = np.asarray(self.model.labels).reshape(self.n_examples, -1)[examples]
        node, tables = self.model.blocks(w)
        gain = np.asarray(self.model.data.x[examples] @ node.T) + self.loss_gain[examples]
        value = ((found - truth) * gain).sum(axis=1)
        for table, (u, v) in zip(tables, self.model.graph.edges, strict=True):
            value += table[found[:, u], found[:, v]] - table[truth[:, u], truth[:, v]]
        return value


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

    max_steps: int = 10

    def _check(self, objective: Objective) -> None:
        super()._check(objective)
        if not isinstance(objective, MultiLabelObjective):
            raise UnsupportedProblemError(
                f"SubsetAscent minimises a MultiLabelObjective, not a {type(objective).__name__}. Use BlockFrankWolfe."
            )
        why = unsuited(objective.model)
        if why:
            raise UnsupportedProblemError(f"SubsetAscent {why}. Use BlockFrankWolfe.")
        refuse_oracle(self, objective)

    def _run(self, objective: MultiLabelObjective, training: Training, init: Any) -> None:  # type: ignore[override]
        ascent = _Ascent(self, objective, training, init)
        training.state = ascent.state
        training.extra["planes"] = ascent
        if not np.isfinite(training.primal):
            ascent.evaluate()
        while not training.step(training.n_iter + 1):
            estimate = ascent.one_pass()
            last = training.n_iter + 1 == self.max_iter or training.seconds_left <= 0
            if estimate <= TUNING.near * self.tol or training.n_iter % TUNING.often == 0 or last:
                ascent.evaluate()


def is_small(model: MultiLabelBound) -> bool:
    """Whether trying all subsets of the labels is the way to the best; forests of many labels have a better one."""
    return model.graph.n_nodes <= (MOST_IN_FOREST if model.graph.is_forest else MOST_ENUMERATED)


def unsuited(model: MultiLabelBound) -> str:
    """Why `SubsetAscent` cannot learn a model; empty if it can."""
    if model.graph.n_nodes > MOST_STORED:
        return f"takes at most {MOST_STORED} labels, not {model.graph.n_nodes}"
    if not model.cone.is_free or (model.edge_index < 0).any():
        return "takes general potentials only"
    return ""


class _Ascent:
    """One training: the model, the random order, the gaps that rule the passes."""

    def __init__(self, learner: SubsetAscent, objective: MultiLabelObjective, training: Training, init: Any):
        self.learner, self.objective, self.training = learner, objective, training
        self.random, self.gaps = np.random.default_rng(learner.random_state), np.zeros(objective.n_examples)
        if isinstance(init, _Ascent) and init.objective is objective:
            self.model: SubsetModel = init.model
            self.model.rescale(objective.c)
        else:
            self.model = SubsetModel(objective)
        state = training.resume()
        if state is not None:
            self.model.alpha[:] = state["alpha"]
            self.random.bit_generator.state = _unpack(state["random"])
            training.certificate = self.model.certificate
        self.refresh()

    def state(self) -> dict[str, np.ndarray]:
        return {"alpha": self.model.alpha, "random": _pack(self.random.bit_generator.state)}

    def refresh(self) -> None:
        """Weights and dual value from the multipliers, without the rounding of many small steps."""
        self.dual = self.model.refresh()
        self.training.bound(self.dual, self.model.certificate)

    def one_pass(self) -> float:
        """Visit all examples in random order; returns an estimate of the relative gap."""
        objective = self.objective
        own, pair = self.model.reduced()
        order = self.random.permutation(objective.n_examples)
        started = time.perf_counter()
        gaps, gain, visits = self.gaps, 0.0, 0
        for i in range(1 + TUNING.active_passes):
            more = self.model.ascend(order, own, pair, self.learner.max_steps, gaps)
            objective.n_calls += len(order)
            if i == 0:
                total = float(gaps.sum())
                gaps = gaps.copy()
            pays = more * visits >= TUNING.pays * gain * len(order) and more > 1e-12 * abs(self.dual)
            gain, visits = gain + more, visits + len(order)
            order = order[gaps[order] > TUNING.active * gaps[order].mean()]
            if not pays or not len(order):
                break
            order = self.random.permutation(order)
        self.training.qp_seconds += time.perf_counter() - started
        self.refresh()
        return relative(self.dual + total, self.dual)

    def evaluate(self) -> None:
        """The primal value at the present weights."""
        w = self.model.weights.value.copy()
        answer = self.objective.ask(w)
        self.training.offer(w, self.objective.primal(w, answer.upper), True)


def best_labels(model: MultiLabelBound, w: np.ndarray, x: Any, more: np.ndarray | float = 0.0) -> np.ndarray:
    """Best labels (n, L) for the rows of ``x``; ``more`` is added to the score of each label 1."""
    gain, sums = _parts(model, w, x, more)
    labels = np.zeros(gain.shape, dtype=np.int32)
    best_subsets(gain, sums, np.zeros(len(gain), dtype=np.int64), np.zeros(len(sums)), labels)
    return labels


def label_margins(model: MultiLabelBound, w: np.ndarray, x: Any) -> np.ndarray:
    """Best score with each label minus the best without it, (n, L)."""
    gain, sums = _parts(model, w, x, 0.0)
    out = np.zeros(gain.shape)
    max_marginals(gain, sums, np.zeros(len(sums)), out)
    return out


def _parts(model: MultiLabelBound, w: np.ndarray, x: Any, more: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    node, tables = model.blocks(w)
    own, pair = reduced_tables(tables, model.graph.edges, len(node))
    sums = np.zeros(1 << len(node))
    pair_sums(pair, sums)
    return np.ascontiguousarray(np.asarray(x @ node.T) + own + more), sums
