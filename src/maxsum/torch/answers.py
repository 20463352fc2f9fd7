r"""What a backend finds for a batch: values of a convex function of the scores, with a bracket, and the (sub)gradient of it.

The function is :math:`\max_y F(y)` or :math:`\log\sum_y e^{F(y)}` of each example, or a bound of it from above; its gradient are marginals of nodes
and edges, indicators of labellings for a maximum. Answers add up: a loss is one answer minus another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .batches import Batch


class EdgePart(Protocol):
    """Marginals of edges, in whichever form they were found."""

    def of_tables(self, amount: np.ndarray, n_tables: int, weight: np.ndarray | None) -> np.ndarray:
        """Sums of ``amount`` (one for each example) times the marginals, for each table (n_tables, K, K)."""

    def of_weights(self, amount: np.ndarray, tables: np.ndarray) -> np.ndarray:
        """Products of ``amount``, marginals and tables, for each edge."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Values of a batch, and their gradients.

    Attributes
    ----------
    value : ndarray, shape (B,)
        What a loss reports: the maximum where it was found, an upper bound elsewhere.
    lower, upper : ndarray, shape (B,)
        The function that the loss is meant to have lies between them.
    node : ndarray
        Gradient in the scores, of their shape.
    edges : tuple of (sign, EdgePart)
    """

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    node: np.ndarray
    edges: tuple[tuple[float, EdgePart], ...]

    def minus(self, other: Answer) -> Answer:
        """The difference; each bracket is as wide as both together."""
        taken = tuple((-sign, part) for sign, part in other.edges)
        return Answer(
            self.value - other.value,
            self.lower - other.upper,
            self.upper - other.lower,
            self.node - other.node,
            self.edges + taken,
        )

    def times(self, factor: float) -> Answer:
        """Values times a positive factor, for a function of scores that were divided by it: gradients stay."""
        return Answer(factor * self.value, factor * self.lower, factor * self.upper, self.node, self.edges)


@dataclass(frozen=True, eq=False)
class ChainSums:
    """Sums of the marginals of each chain's edges, shape (B, K, K), which share one table."""

    edge: np.ndarray

    def of_tables(self, amount: np.ndarray, n_tables: int, weight: np.ndarray | None) -> np.ndarray:
        """See `EdgePart`."""
        return np.tensordot(amount, self.edge, axes=1)[None]

    def of_weights(self, amount: np.ndarray, tables: np.ndarray) -> np.ndarray:
        """See `EdgePart`."""
        raise AssertionError("chains whose edges have weights go through EdgeTables")


@dataclass(frozen=True, eq=False)
class EdgeTables:
    """Marginals of every edge, shape (E, K, K)."""

    batch: Batch
    slot: np.ndarray
    edge: np.ndarray

    def of_tables(self, amount: np.ndarray, n_tables: int, weight: np.ndarray | None) -> np.ndarray:
        """See `EdgePart`."""
        share = amount[self.batch.edge_owner] if weight is None else amount[self.batch.edge_owner] * weight
        if n_tables == len(self.edge) and np.array_equal(self.slot, np.arange(n_tables)):
            return share[:, None, None] * self.edge
        out = np.empty((n_tables, *self.edge.shape[1:]))
        for t in range(n_tables):
            own = self.slot == t
            out[t] = (
                np.tensordot(share[own], self.edge[own], axes=1) if not own.all() else np.tensordot(share, self.edge, axes=1)
            )
        return out

    def of_weights(self, amount: np.ndarray, tables: np.ndarray) -> np.ndarray:
        """See `EdgePart`."""
        with np.errstate(invalid="ignore"):
            terms = np.where(self.edge > 0, self.edge * tables[self.slot], 0.0)
        return amount[self.batch.edge_owner] * terms.sum(axis=(1, 2))


@dataclass(frozen=True, eq=False)
class EdgeLabels:
    """Indicators of a labelling of all nodes, shape (N,)."""

    batch: Batch
    slot: np.ndarray
    labels: np.ndarray

    def of_tables(self, amount: np.ndarray, n_tables: int, weight: np.ndarray | None) -> np.ndarray:
        """See `EdgePart`."""
        size, ends = self.batch.n_labels, self.labels[self.batch.edges]
        share = amount[self.batch.edge_owner] if weight is None else amount[self.batch.edge_owner] * weight
        place = (self.slot.astype(np.int64) * size + ends[:, 0]) * size + ends[:, 1]
        return np.bincount(place, weights=share, minlength=n_tables * size * size).reshape(n_tables, size, size)

    def of_weights(self, amount: np.ndarray, tables: np.ndarray) -> np.ndarray:
        """See `EdgePart`."""
        ends = self.labels[self.batch.edges]
        return amount[self.batch.edge_owner] * tables[self.slot, ends[:, 0], ends[:, 1]]
