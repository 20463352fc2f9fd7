"""Chains that share one table: the kernels of whole batches, in threads over the examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..executors.threads import n_threads, thread_map
from ..kernels import chain_batch
from .answers import Answer, ChainSums
from .batches import UNKNOWN, Batch


@dataclass(frozen=True)
class Tuning:
    """When threads pay."""

    # Multiplications of a batch from which threads are started: a start costs 0.1 ms, as much as 500 000 of them. Half or twice made no difference.
    thread_work: int = 2_000_000


_TUNING = Tuning()
_NONE = np.zeros((0, 0, 0))


class Chains:
    """A batch of chains with one table for all edges.

    Parameters
    ----------
    batch : Batch
    n_jobs : int
        Threads; -1 for one per core.
    """

    def __init__(self, batch: Batch, n_jobs: int = 1):
        assert batch.lengths is not None
        self.batch, self.lengths, self.n_jobs = batch, batch.lengths, n_jobs

    def best(self, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None = None) -> Answer:
        """Best labellings, exactly."""
        labels, score, bound = self.labellings(unary, tables)
        count, _, size = unary.shape
        node, edge = np.zeros(unary.shape), np.zeros((count, size, size))
        feasible = np.isfinite(score)
        if feasible.all():
            own, lengths = np.empty(count), self.lengths
            chain_batch.score_chains(unary, lengths, tables[0], labels, 0, count, np.ones(count), own, node, edge)
        return Answer(score, score, bound, node, ((1.0, ChainSums(edge)),))

    def labellings(self, unary: np.ndarray, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels (B, T), scores and bounds of the best labellings."""
        count, steps, _ = unary.shape
        labels, score, bound = np.empty((count, steps), dtype=np.int64), np.empty(count), np.empty(count)
        self._threads(
            unary,
            lambda first, last: chain_batch.best_chains(
                unary, self.lengths, tables[0], first, last, UNKNOWN, labels, score, bound
            ),
        )
        return labels, score, bound

    def log_sum(self, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None = None) -> Answer:
        """Logarithms of the sums over all labellings, exactly, with marginals."""
        count, _, size = unary.shape
        log_z, node, edge = np.empty(count), np.empty(unary.shape), np.empty((count, size, size))
        self._threads(
            unary,
            lambda first, last: chain_batch.log_sums(unary, self.lengths, tables[0], first, last, log_z, node, edge),
        )
        return Answer(log_z, log_z, log_z, node, ((1.0, ChainSums(edge)),))

    def less_truth(
        self, answer: Answer, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None, labels: np.ndarray
    ) -> tuple[Answer, np.ndarray]:
        """The answer minus the scores of labellings (B, T), in place, and these scores."""
        count = len(unary)
        score, edges = np.empty(count), answer.edges[0][1]
        assert isinstance(edges, ChainSums)
        chain_batch.score_chains(
            unary, self.lengths, tables[0], labels, 0, count, np.full(count, -1.0), score, answer.node, edges.edge
        )
        found = Answer(answer.value - score, answer.lower - score, answer.upper - score, answer.node, answer.edges)
        return found, score

    def _threads(self, unary: np.ndarray, run: Callable[[int, int], None]) -> None:
        count = len(unary)
        threads = min(n_threads(self.n_jobs), count)
        if threads <= 1 or unary.size * unary.shape[2] < _TUNING.thread_work:
            run(0, count)
            return
        cuts = np.linspace(0, count, threads + 1).astype(int).tolist()
        thread_map(lambda i: run(cuts[i], cuts[i + 1]), range(threads), threads)
