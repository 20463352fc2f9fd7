r"""Sets of labels with guaranteed coverage, by split conformal prediction: no assumption on the model, only that samples are exchangeable.

A threshold :math:`q` is taken from samples that the model was not trained on; the set of a node then holds every label whose loss (see
``predict_max_marginals`` of the estimators) is at most :math:`q`.

- *Nodes*: the expected share of the nodes of a new sample whose true label is in its set is at least the stated coverage. With :math:`N`
  samples, :math:`q` is the least number for which the shares :math:`s_j(q)` of covered nodes have
  :math:`\sum_j s_j(q) \ge (N + 1)(1 - \alpha)` (Angelopoulos, Bates, Fisch, Lei & Schuster 2024, conformal risk control).
- *Labellings*: the true labels of *all* nodes of a new sample are in their sets with at least the stated probability:
  :math:`q` is the :math:`\lceil (N + 1)(1 - \alpha)\rceil`-th smallest of the largest losses of the samples (Papadopoulos, Proedrou, Vovk & Gammerman 2002).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np

from .core.errors import InvalidParameterError, InvalidSampleError, NotFittedError
from .core.parameters import OneOf, Real, check_value

__all__ = ["LabelSets", "threshold"]

_ROUNDING = 1e-9  # relative; sums of shares in float64 are more exact by far, and only say where to begin
_COVERAGE = Real(0.0, below=1.0, wanted="a number >= 0 and below 1")
_UNIT = OneOf("node", "labelling")


def threshold(truth: Sequence[Any], coverage: float = 0.9, unit: str = "node") -> float:
    """The least loss up to which labels are taken into the sets, so that the stated coverage is guaranteed for a new sample.

    Parameters
    ----------
    truth : list of array-like
        For each sample the losses of the true labels of its nodes; samples without any are left out.
    coverage : float
    unit : {"node", "labelling"}
        What is covered; see above.

    Returns
    -------
    float
        Infinite if there are too few samples for the coverage: then all labels are in all sets.

    Examples
    --------
    >>> from maxsum.calibration import threshold
    >>> threshold([[0.0, 0.0], [0.0, 2.0], [0.0, 1.0], [0.0, 3.0]], 0.5), threshold([[0.0], [2.0], [1.0], [3.0]], 0.5, "labelling")
    (1.0, 2.0)
    """
    check_value("coverage", coverage, _COVERAGE)
    check_value("unit", unit, _UNIT)
    losses = [np.asarray(own, dtype=np.float64).reshape(-1) for own in truth]
    losses = [own for own in losses if len(own)]
    if any(np.isnan(own).any() for own in losses):
        raise InvalidSampleError("losses of true labels hold NaN, wanted numbers.")
    # Exactly, and with the coverage as it is written in decimals: 9 of 9 samples are enough for 0.9, 8 of 8 are not.
    wanted = (len(losses) + 1) * Fraction(repr(float(coverage)))
    if unit == "labelling":
        worst = np.sort(np.array([own.max() for own in losses]))
        place = max(1, math.ceil(wanted))
        return float(worst[place - 1]) if place <= len(worst) else np.inf
    if not losses:
        return np.inf
    every = np.concatenate(losses)
    length = np.concatenate([np.full(len(own), len(own)) for own in losses])
    order = np.argsort(every, kind="stable")
    near = float(wanted) * (1.0 - _ROUNDING)
    for i in range(int(np.searchsorted(np.cumsum(1.0 / length[order]), near)), len(order)):
        sizes, counts = np.unique(length[order[: i + 1]], return_counts=True)
        if sum(Fraction(c, n) for n, c in zip(sizes.tolist(), counts.tolist(), strict=True)) >= wanted:
            return float(every[order[i]])
    return np.inf


class LabelSets:
    """Sets of labels for the nodes of new samples, with guaranteed coverage.

    The guarantee is about samples that are exchangeable with those of `fit`, which the estimator must not have been trained on. It holds for
    every estimator, good or bad, and on average over draws of the samples of `fit`; a better estimator has smaller sets.

    Parameters
    ----------
    estimator : estimator of maxsum
        Fitted.
    coverage : float
        The stated coverage, below 1.
    unit : {"node", "labelling"}
        Whether the expected share of covered nodes has it, or the probability that all nodes of a sample are covered at once.
    by : {"losses", "probabilities"}
        What orders the labels of a node: the score that each loses (``predict_max_marginals``, all surrogates), or probabilities
        (``predict_proba``).

    Attributes
    ----------
    threshold_ : float
        Labels of at most this loss (1 less the probability) are in the sets.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> rng = np.random.default_rng(0)
    >>> y = [np.sort(rng.integers(0, 3, 5)) for _ in range(80)]
    >>> X = [np.eye(3)[own] + rng.normal(0, 0.8, (5, 3)) for own in y]
    >>> net = ms.SequenceLabeler().fit(X[:20], y[:20])
    >>> sets = ms.calibration.LabelSets(net, coverage=0.9).fit(X[20:60], y[20:60])
    >>> sets.predict(X[60:])[0].shape, sets.coverage_of(X[60:], y[60:]) > 0.8
    ((5, 3), True)
    """

    threshold_: float

    def __init__(self, estimator: Any, coverage: float = 0.9, unit: str = "node", by: str = "losses"):
        check_value("coverage", coverage, _COVERAGE)
        check_value("unit", unit, _UNIT)
        check_value("by", by, OneOf("losses", "probabilities"))
        self.estimator, self.coverage, self.unit, self.by = estimator, coverage, unit, by

    def fit(self, X: Any, y: Any) -> Self:
        """Take the threshold from samples with labels; nodes of unknown label are left out."""
        truth = [np.where(np.isnan(own), np.inf, own) for own in self._truth(X, y)]
        self.threshold_ = threshold(truth, self.coverage, self.unit)
        return self

    def predict(self, X: Any) -> list[np.ndarray]:
        """The sets: for each sample an array of bool, (n_nodes, K) or (height, width, K), whose columns are the classes in order."""
        return [table <= self._known() for table in self._tables(X)]

    def coverage_of(self, X: Any, y: Any) -> float:
        """Measured coverage: the mean share of covered nodes, or the share of samples all of whose nodes are covered."""
        covered = [own <= self._known() for own in self._truth(X, y) if len(own)]
        if not covered:
            raise InvalidSampleError("no node has a known label, so there is nothing to measure; wanted at least one.")
        return float(np.mean([own.mean() if self.unit == "node" else own.all() for own in covered]))

    def size_of(self, X: Any) -> float:
        """Mean number of labels in the set of a node."""
        counts = [own.sum(axis=-1).reshape(-1) for own in self.predict(X)]
        return float(np.concatenate([np.zeros(0), *counts]).mean())

    def _known(self) -> float:
        if not hasattr(self, "threshold_"):
            raise NotFittedError(
                "these sets have no threshold yet; call fit(X, y) with samples that the estimator was not trained on."
            )
        return self.threshold_

    def _truth(self, X: Any, y: Any) -> list[np.ndarray]:
        """Losses of the true labels of each sample, where they are known; NaN for what is no class of the model, and never covered."""
        found = []
        for table, numbers in zip(self._tables(X), self.estimator.label_numbers(X, y), strict=True):
            known = np.flatnonzero(numbers != -1)
            losses = table.reshape(-1, table.shape[-1])[known, numbers[known]]
            found.append(np.where(numbers[known] < 0, np.nan, losses))
        return found

    def _tables(self, X: Any) -> list[np.ndarray]:
        """What each label of each node loses; any function of a sample will do for the guarantee."""
        if self.by == "losses":
            return [_middle(own) for own in self.estimator.predict_max_marginals(X)]
        if getattr(self.estimator, "_kind", "") == "columns":
            raise InvalidParameterError(
                f"by is {self.by!r} beside columns that have classes of their own, wanted by='losses': their probabilities are a table each."
            )
        found = self.estimator.predict_proba(X)
        if isinstance(found, np.ndarray):  # rows of a table: one node with several classes, or a node a label
            found = (
                np.stack([1.0 - found, found], axis=2)
                if getattr(self.estimator, "_kind", "") == "multilabel"
                else found[:, None]
            )
        return [1.0 - np.asarray(own) for own in found]


def _middle(losses: Any) -> np.ndarray:
    """The losses, the middle of their brackets where they have any."""
    if losses.exact:
        return np.asarray(losses.upper)
    high = np.where(np.isfinite(losses.upper), losses.upper, losses.lower)
    return 0.5 * (losses.lower + high)
