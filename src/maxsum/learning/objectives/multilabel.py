"""Large-margin learning of labels that see each other: an objective that keeps features once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...kernels.multilabel import best_subsets, max_marginals, pair_sums
from ...kernels.planes import largest_difference
from ...kernels.records import Design, Scratch
from ...losses import Loss, as_loss
from ...models.multilabel import MultiLabelBound, reduced_tables
from ..oracles.base import Effort
from ..oracles.choice import choose_oracle
from .base import Answer, PlaneObjective
from .margin import MarginObjective, loss_table

MOST_ENUMERATED = 18  # labels whose subsets are all tried: 2**18 sums an example, and each further label doubles them
MOST_IN_FOREST = (
    12  # the same where labels make a forest, as the work of dynamic programming there does not double with a label
)


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

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Best label sets by trying all of them; gaps are 0."""
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
        PlaneObjective.__init__(self, model.n_examples, model.cone, C, sample_weight, n_jobs)
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
        """Arrays for the kernels, made when somebody asks."""
        return self.model.design(self.loss_table)

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        """Most entries that a plane of any example can have."""
        return int(largest_difference(self.design))

    @cached_property
    def scratch(self) -> Scratch:  # type: ignore[override]
        """Working arrays of one thread."""
        return self.new_scratch(1)

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer:
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


def is_small(model: MultiLabelBound) -> bool:
    """Whether trying all subsets of the labels is the way to the best; forests of many labels have a better one."""
    return model.graph.n_nodes <= (MOST_IN_FOREST if model.graph.is_forest else MOST_ENUMERATED)


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
