"""Losses: what a wrong label costs. All but `ZeroOne` are sums over nodes, so the loss-augmented problem is a max-sum problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .core.errors import InvalidParameterError, InvalidSampleError
from .core.problem import Problem


class Loss(ABC):
    """A loss that adds up over nodes; ``L(y, z) = sum_v table(y)[v, z_v]``, 0 for ``z = y``. Label -1 counts nothing."""

    @abstractmethod
    def rows(self, labels: np.ndarray, n_labels: int) -> np.ndarray:
        """Loss (n_nodes, K) of each label at each node of one example."""

    def table(self, labels: Any, n_labels: int) -> np.ndarray:
        """`rows`, checked: finite, not negative, and 0 at the true label; rows of masked nodes are 0."""
        labels = np.asarray(labels)
        known = labels >= 0
        table = np.array(self.rows(np.where(known, labels, 0), n_labels), dtype=np.float64)
        if table.shape != (len(labels), n_labels):
            raise InvalidParameterError(f"{self!r} gave a table of shape {table.shape}, wanted {(len(labels), n_labels)}.")
        table[~known] = 0.0
        if not np.isfinite(table).all() or (table < 0).any():
            node, label = np.argwhere(~(table >= 0) | ~np.isfinite(table))[0]
            raise InvalidParameterError(
                f"{self!r} is {table[node, label]} at node {node}, label {label}; wanted finite numbers >= 0."
            )
        own = table[np.flatnonzero(known), labels[known]]
        if own.any():
            node = np.flatnonzero(known)[np.flatnonzero(own)[0]]
            raise InvalidParameterError(
                f"{self!r} is {own[own != 0][0]} for the true label at node {node}; wanted L(y, y) = 0."
            )
        return table

    def value(self, labels: Any, predicted: Any, n_labels: int) -> float:
        """Loss of one labelling."""
        predicted, table = np.asarray(predicted), self.table(labels, n_labels)
        if predicted.shape != (len(table),):
            raise InvalidSampleError(f"the predicted labelling has shape {predicted.shape}, wanted ({len(table)},).")
        return float(table[np.arange(len(predicted)), predicted].sum())

    def augment(self, problem: Problem, labels: Any) -> Problem:
        """The problem with ``score(z) + L(labels, z)`` for every labelling ``z``."""
        table = self.table(labels, problem.n_labels)
        arrays = {
            name: getattr(problem, name)
            for name in ("graph", "tables", "edge_table", "edge_weight", "n_states", "cliques", "offset", "factors")
        }
        return Problem._trusted(unary=problem.unary + table, **arrays)


@dataclass(frozen=True, eq=False)
class Hamming(Loss):
    """Number of wrong labels, weighted if you like.

    Parameters
    ----------
    normalised : bool
        Divide by the number of (labelled) nodes of the example.
    class_weight : array-like, shape (K,), or dict, optional
        Cost of missing each true label; keys of a dict are numbers of classes, ``0 .. K - 1``.
    """

    normalised: bool = False
    class_weight: Any = None

    def rows(self, labels: np.ndarray, n_labels: int) -> np.ndarray:
        """Weights of wrong labels, 0 for the right one; divided by the number of nodes if normalised."""
        table = (labels[:, None] != np.arange(n_labels)).astype(np.float64)
        if self.class_weight is not None:
            table *= _class_weight(self.class_weight, n_labels)[labels][:, None]
        return table / max(1, len(labels)) if self.normalised else table

    def table(self, labels: Any, n_labels: int) -> np.ndarray:
        """`rows`, checked; normalised by the number of known labels."""
        table = super().table(labels, n_labels)
        known = int((np.asarray(labels) >= 0).sum())
        return table * (len(table) / known) if self.normalised and 0 < known < len(table) else table


@dataclass(frozen=True, eq=False)
class TableLoss(Loss):
    """Any additive loss ``L(y, z) = sum_v costs[y_v, z_v]``.

    Parameters
    ----------
    costs : array-like, shape (K, K)
        ``costs[true, predicted] >= 0``, with a zero diagonal.
    """

    costs: Any

    def rows(self, labels: np.ndarray, n_labels: int) -> np.ndarray:
        """The row of ``costs`` of each true label."""
        costs = np.asarray(self.costs, dtype=np.float64)
        if costs.shape != (n_labels, n_labels):
            raise InvalidParameterError(f"costs of a TableLoss have shape {costs.shape}, wanted ({n_labels}, {n_labels}).")
        return costs[labels]


@dataclass(frozen=True, eq=False)
class ZeroOne(Loss):
    r"""A labelling is right or wrong as a whole: ``L(y, z) = 1`` if ``z`` differs from ``y`` at any labelled node, else 0.

    It is no sum over nodes: the best loss-augmented score is
    :math:`\max\{F(y),\; 1 + \max_{z \ne y} F(z)\}`, by the second best labelling. So it goes with the margin surrogate alone, on forests and
    graphs of small width, where that is known exactly (`maxsum.learning.ZeroOneObjective`). The slack of the trivial surrogate bounds it too.
    """

    def rows(self, labels: np.ndarray, n_labels: int) -> np.ndarray:
        """There are none."""
        raise InvalidParameterError(
            "the 0/1 loss of a whole labelling (loss='zero_one') is no sum over nodes, wanted a loss that is: 'hamming', 'normalised' or a (K, K) "
            "table of costs. It goes with surrogate='margin' of estimators and with maxsum.learning.ZeroOneObjective, on forests and graphs of small "
            "width, for data in memory."
        )

    def value(self, labels: Any, predicted: Any, n_labels: int) -> float:
        """1 if a labelled node is wrong."""
        labels, predicted = np.asarray(labels), np.asarray(predicted)
        if predicted.shape != labels.shape:
            raise InvalidSampleError(f"the predicted labelling has shape {predicted.shape}, wanted {labels.shape}.")
        return float(((labels >= 0) & (labels != predicted)).any())


def as_loss(loss: Any) -> Loss:
    """A loss by its name, or from its table of costs.

    Parameters
    ----------
    loss : {"hamming", "normalised", "zero_one"}, array-like of shape (K, K), or Loss

    Returns
    -------
    Loss
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in ("hamming", "normalised"):
        return Hamming(normalised=loss == "normalised")
    if isinstance(loss, str) and loss == "zero_one":
        return ZeroOne()
    if isinstance(loss, (list, np.ndarray)):
        return TableLoss(loss)
    raise InvalidParameterError(
        f"loss is {loss!r}, wanted 'hamming', 'normalised', 'zero_one', a (K, K) table of costs, or a maxsum.losses.Loss."
    )


def _class_weight(given: Any, n_labels: int) -> np.ndarray:
    weight = np.ones(n_labels)
    if isinstance(given, Mapping):
        for label, value in given.items():
            if isinstance(label, bool) or not isinstance(label, (int, np.integer)) or not 0 <= label < n_labels:
                raise InvalidParameterError(
                    f"class_weight names label {label!r}, wanted numbers 0..{n_labels - 1} of the classes."
                )
            weight[label] = value
    else:
        weight = np.asarray(given, dtype=np.float64)
    if weight.shape != (n_labels,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise InvalidParameterError(f"class_weight is {given!r}, wanted {n_labels} finite numbers >= 0.")
    return weight
