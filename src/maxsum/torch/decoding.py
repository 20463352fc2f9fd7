"""Best labellings of a layer's scores, with their proofs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..core.problem import Problem
from ..core.result import Result
from ..inference.dispatch import solve
from .batches import UNKNOWN
from .chains import Chains
from .modules import Reading, StructuredModule
from .nets import Nets


class Decoded:
    """Labels of a batch, and what is proven about them.

    Attributes
    ----------
    labels : Tensor of int64
        In the shape of the scores without K; -100 where there is no node.
    score, bound : ndarray, shape (B,)
        Scores of the labellings, and numbers that no labelling exceeds.
    """

    def __init__(self, labels: torch.Tensor, score: np.ndarray, bound: np.ndarray, problems: Any, results: list[Result | None]):
        self.labels, self.score, self.bound = labels, score, bound
        self._problems, self._results = problems, results

    @property
    def gap(self) -> np.ndarray:
        """``bound - score`` of each example."""
        return np.maximum(self.bound - self.score, 0.0)

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self.labels[index]

    def __repr__(self) -> str:
        return f"Decoded({len(self)} examples, largest gap {self.gap.max(initial=0.0):.3g})"

    def problem(self, i: int) -> Problem:
        """Example ``i`` as a `maxsum.Problem`, which its certificate is checked with."""
        found: Problem = self._problems(i)
        return found

    def result(self, i: int) -> Result:
        """The answer for example ``i`` with its certificate; chains are solved once more for it."""
        found = self._results[i]
        if found is None:
            found = self._results[i] = solve(self.problem(i))
        return found


@torch.no_grad()
def decode(
    scores: torch.Tensor,
    layer: StructuredModule,
    *,
    gap: float | None = None,
    time_limit: float | None = None,
    **structure: Any,
) -> Decoded:
    """Best labellings under the scores of a network and the pairwise weights of a layer.

    Parameters
    ----------
    scores : Tensor
        (B, T, K), (B, K, H, W) or (N, K).
    layer : StructuredHinge or another loss, or MaxSumLayer
    gap, time_limit : float, optional
        As `maxsum.solve` takes them, for each example that has no exact method.
    structure
        ``lengths``, ``mask``, ``graphs``, ``edge_index``, ``batch``, ``edge_type``, ``pairwise``, ``edge_weight``, ``factors`` and ``sample_ids``, as
        the layer takes them.

    Returns
    -------
    Decoded
    """
    reading = layer.read(scores, **structure)
    unary, tables = reading.hard(reading.unary.numpy()), reading.tables.numpy()
    weight = None if reading.weight is None else reading.weight.numpy()
    batch = reading.batch
    limits = {name: value for name, value in (("gap", gap), ("time_limit", time_limit)) if value is not None}
    if isinstance(reading.backend, Chains):
        found, score, bound = reading.backend.labellings(unary, tables)
        if not np.isfinite(score).all():
            _refuse(int(np.argmax(~np.isfinite(score))))
        labels = torch.from_numpy(found)
        results: list[Result | None] = [None] * batch.n_examples
    else:
        answers = reading.backend.found(unary, tables, weight, limits)
        rows = np.concatenate([np.zeros(0, dtype=np.int64)] + [own.labels for own in answers]).astype(np.int64)
        labels = batch.shaped(torch.from_numpy(rows), UNKNOWN)
        score, bound = np.array([own.score for own in answers]), np.array([own.bound for own in answers])
        results = [own.result for own in answers]
    return Decoded(labels.to(scores.device), score, bound, _problems(reading, unary, tables, weight), results)


def _refuse(j: int) -> None:
    from ..core.errors import InvalidSampleError

    raise InvalidSampleError(
        f"example {j}: every labelling is forbidden (-inf in scores or tables), wanted one at least that is not."
    )


def _problems(reading: Reading, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None) -> Any:
    """A function that makes the problem of an example when it is asked for."""

    def make(j: int) -> Problem:
        if not reading.by_chains:
            assert isinstance(reading.backend, Nets)
            return reading.backend.problem(j, unary, tables, weight)
        assert reading.batch.lengths is not None
        return Problem(reading.batch.graphs[j], unary[j, : reading.batch.lengths[j]], tables=tables[0])

    return make
