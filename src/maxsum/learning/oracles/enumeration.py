"""EnumerationOracle: the best labellings of small graphs with cycles, by trying all of them."""

from __future__ import annotations

import numpy as np

from ...executors.threads import n_threads, thread_map
from ...kernels.design import augmented_scores
from ...kernels.multilabel import best_labellings
from ...kernels.records import Design
from ...models.bound import BoundModel
from .base import Effort, Key, worthwhile

# Labellings of an example, at most: so many cost about a millisecond and 4 MB a thread, as much as a call of a solver for one problem.
MOST_LABELLINGS = 2**18


class EnumerationOracle:
    """All labellings of many small examples in one kernel call a thread."""

    exact = True

    def __init__(self, model: BoundModel, design: Design):
        self.model, self.design = model, design
        self.size = int(np.rint(_most_labellings(model)))
        self.unary = np.zeros((len(model.data.n_states), model.n_labels))
        self.labels = np.zeros(len(model.data.n_states), dtype=np.int32)

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Best labellings by trying all of them; gaps are 0."""
        data, tables = self.model.data, self.model.tables(w)

        def run(part: np.ndarray) -> None:
            augmented_scores(self.design, part, w, self.unary)
            best_labellings(
                data.node_ptr, data.edge_ptr, data.edges, data.n_states, self.unary, tables.bank, tables.edge_table,
                tables.edge_weight, part, np.zeros(self.size), np.zeros(self.size), self.labels,
            )  # fmt: skip

        n_jobs = worthwhile(n_jobs, len(examples) * self.size)
        pieces = [piece for piece in np.array_split(examples, n_threads(n_jobs)) if len(piece)]
        thread_map(run, pieces, n_jobs)
        labels, ends = self.labels.copy(), data.node_ptr.tolist()
        return [labels[ends[j] : ends[j + 1]] for j in examples.tolist()], np.zeros(len(examples))


def is_small(model: BoundModel) -> bool:
    """Whether all labellings of every example can be tried."""
    return model.data.cliques is None and not model.has_forbidden and _most_labellings(model) <= MOST_LABELLINGS


def _most_labellings(model: BoundModel) -> float:
    """Labellings of the example that has most of them; infinite if too many for a number."""
    sums = np.concatenate([[0.0], np.cumsum(np.log2(model.data.n_states))])[model.data.node_ptr]
    with np.errstate(over="ignore"):
        return float(np.exp2(np.diff(sums).max(initial=0.0)))
