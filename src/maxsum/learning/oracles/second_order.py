"""Loss and oracle of second-order chains; see `maxsum.models.second_order`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...executors.threads import n_threads, thread_map
from ...kernels.second_order import solve_pairs
from ...losses import Loss
from ...models.bound import BoundModel, Encoded
from ...models.second_order import PairLayout, heads
from .base import Effort, worthwhile


@dataclass(frozen=True, eq=False)
class PairLoss(Loss):
    """The loss of the tags that labels of pairs hold.

    Parameters
    ----------
    tags : Loss
    n_tags : int
    """

    tags: Loss
    n_tags: int

    def rows(self, labels: np.ndarray, n_labels: int) -> np.ndarray:
        return np.tile(self.tags.table(labels % self.n_tags, self.n_tags), (1, self.n_tags))


class PairOracle:
    """Dynamic programming over pairs of tags, :math:`K^3` operations a node.

    Parameters
    ----------
    model : BoundModel
        From `maxsum.models.second_order.second_order`.
    loss : ndarray, shape (n_nodes, K)
        Loss of each tag at each node; without rows for prediction.
    data : Encoded, optional
        Other data than those of training.
    """

    exact = True

    def __init__(self, model: BoundModel, loss: np.ndarray, data: Encoded | None = None):
        self.data = model.data if data is None else data
        self.layout: PairLayout = model.layout
        self.loss, self.head = np.ascontiguousarray(loss), heads(self.data)
        x: Any = sparse.csr_array(self.data.x)
        x = sparse.csr_array(x[:, :-1])
        self.x = x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data.astype(np.float64)
        self.tags = np.zeros(len(self.head), dtype=np.int32)

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Labels of pairs for some examples, and zero gaps."""
        self.solve(w, examples, n_jobs)
        labels, ptr = self.layout.labels(self.tags, self.data), self.data.node_ptr
        return [labels[ptr[j] : ptr[j + 1]] for j in examples.tolist()], np.zeros(len(examples))

    def solve(self, w: np.ndarray, examples: np.ndarray, n_jobs: int) -> None:
        """Best tags of some examples, written to ``tags``."""
        size, ptr, base = self.layout.n_tags, self.data.node_ptr, self.layout.base
        cuts = base.n_weights - size**2, base.n_weights
        nodes, pairs, triples = (np.ascontiguousarray(part) for part in np.split(w, cuts))
        tables = nodes.reshape(-1, size), pairs.reshape(size, size), triples.reshape(size, size, size)
        longest = int(np.diff(ptr)[examples].max(initial=0))

        def run(part: np.ndarray) -> None:
            ranges = np.stack([ptr[part], ptr[part + 1]], axis=1)
            rest, scores = np.empty((longest, size, size)), np.empty((longest, size))
            solve_pairs(ranges, self.head, *self.x, *tables, self.loss, rest, scores, self.tags)

        work = len(self.tags) * size**3 * len(examples) / max(1, self.data.n_examples)
        jobs = worthwhile(n_jobs, work)
        thread_map(run, [part for part in np.array_split(examples, n_threads(jobs)) if len(part)], jobs)


def best_tags(model: BoundModel, w: np.ndarray, data: Encoded, n_jobs: int) -> list[np.ndarray]:
    """Labels of pairs of the best labellings of new samples."""
    oracle = PairOracle(model, np.zeros((0, 0)), data)
    return oracle.answer(w, np.arange(data.n_examples), Effort.NORMAL, n_jobs)[0]
