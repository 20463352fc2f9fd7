"""SecondBestOracle: the best labellings other than the truth, which the 0/1 loss asks for; exact, or refused."""

from __future__ import annotations

import numpy as np

from ...core.certificates.elimination_order import EliminationOrder
from ...core.errors import UnsupportedProblemError
from ...core.problem import Problem
from ...executors.threads import n_threads, thread_map
from ...inference.questions.bags import exact_order
from ...inference.questions.enumeration import BagEnumeration
from ...kernels.design import augmented_scores
from ...kernels.records import Design
from ...kernels.tree import solve_apart
from ...models.bound import BoundModel
from ...models.multilabel import MultiLabelBound
from .base import Effort, Key, augmented, worthwhile
from .exact import ForestOracle

MOST_SUBSETS = 12  # labels of which all subsets are tried: 4096 sums an example
_SUMS = 2**21  # sums of subsets that are in memory at once


class SecondBestOracle:
    """For each example the best labelling that is not the true one; the truth where there is no other.

    Forests by dynamic programming in one kernel call a thread, few labels by all their subsets, other graphs of small width by counting off
    the two best labellings (`maxsum.k_best`).

    Parameters
    ----------
    model : BoundModel
    design : Design
        Whose losses are 0.
    """

    exact = True

    def __init__(self, model: BoundModel, design: Design):
        self.model, self.design = model, design
        self.few = isinstance(model, MultiLabelBound) and model.graph.n_nodes <= MOST_SUBSETS
        self.trees = None
        if model.is_forest and not self.few and model.data.cliques is None and model.data.factors is None:
            self.trees = ForestOracle(model, design)
        elif not self.few:
            for j, problem in enumerate(model.problems(np.zeros(model.n_weights))):
                _order(j, problem)

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """The best labellings other than the truth; gaps are 0."""
        if self.few:
            return self._subsets(w, examples), np.zeros(len(examples))
        if self.trees is not None:
            return self._forests(self.trees, w, examples, n_jobs), np.zeros(len(examples))
        problems = augmented(self.model, self.design.loss, w, examples)
        items = list(zip(examples.tolist(), problems, strict=True))
        return thread_map(lambda item: self._counted(*item), items, n_jobs), np.zeros(len(examples))

    def _counted(self, j: int, problem: Problem) -> np.ndarray:
        truth = np.asarray(self.model.truth(j))
        order = BagEnumeration(problem, _order(j, problem))
        for _ in range(2):
            labels = order.next()
            if labels is not None and not np.array_equal(labels, truth):
                return np.asarray(labels, dtype=np.int32)
        return truth.astype(np.int32)

    def _forests(self, trees: ForestOracle, w: np.ndarray, examples: np.ndarray, n_jobs: int) -> list[Key]:
        model, ends = self.model, self.model.data.node_ptr.tolist()
        tables = model.tables(w)
        bank = tables.bank if len(tables.bank) else np.zeros((1, model.n_labels, model.n_labels))
        net = trees.net._replace(tables=np.ascontiguousarray(bank), turned=np.ascontiguousarray(bank.transpose(0, 2, 1)))
        order, parent_edge, parent_side, starts = trees.order

        def run(part: np.ndarray) -> None:
            augmented_scores(trees.design, part, w, trees.unary)
            ranges = np.stack([trees.first[part], trees.first[part + 1]], axis=1)
            solve_apart(net, order, parent_edge, parent_side, starts, ranges, self.design.truth, trees.messages, trees.labels)

        work = len(examples) * len(self.design.truth) * model.n_labels**2 / max(1, model.n_examples)
        n_jobs = worthwhile(n_jobs, work)
        thread_map(run, [piece for piece in np.array_split(examples, n_threads(n_jobs)) if len(piece)], n_jobs)
        labels = trees.labels.copy()
        return [labels[ends[j] : ends[j + 1]] for j in examples.tolist()]

    def _subsets(self, w: np.ndarray, examples: np.ndarray) -> list[Key]:
        """All subsets of few labels, the true one left out."""
        assert isinstance(self.model, MultiLabelBound)
        found: list[Key] = []
        n = self.model.graph.n_nodes
        for part in np.array_split(examples, max(1, (len(examples) << n) // _SUMS)):
            sums, subsets, truth = subset_scores(self.model, w, part)
            sums[np.arange(len(part)), truth] = -np.inf
            found += list(subsets[sums.argmax(axis=1)].astype(np.int32))
        return found


def subset_scores(model: MultiLabelBound, w: np.ndarray, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (n, 2**L) of all subsets of labels less that of the true one, the subsets (2**L, L), and the number of the true one."""
    n = model.graph.n_nodes
    subsets = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    node, tables = model.blocks(w)
    pairs = np.zeros(len(subsets))
    for table, (u, v) in zip(tables, model.graph.edges, strict=True):
        pairs += table[subsets[:, u], subsets[:, v]]
    truth = np.asarray(model.labels).reshape(model.n_examples, n)[examples].astype(np.int64) @ (1 << np.arange(n))
    sums = np.asarray(model.data.x[examples] @ node.T) @ subsets.T + pairs
    return sums - sums[np.arange(len(examples)), truth][:, None], subsets, truth


def _order(j: int, problem: Problem) -> EliminationOrder:
    order = exact_order(problem)
    if order is None:
        raise UnsupportedProblemError(
            f"loss='zero_one' needs the second best labelling, which is not known exactly for example {j} ({problem.n_nodes} nodes, "
            f"{problem.graph.n_edges} edges): wanted forests or graphs of small width. Use loss='hamming', which has brackets on wide graphs."
        )
    return order
