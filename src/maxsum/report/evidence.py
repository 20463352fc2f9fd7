"""What a report says, as numbers: predictions beside true labels, and what the certificates prove."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError, MaxsumError, NotFittedError
from ..core.result import Result
from ..estimators.base import Labeler
from ..estimators.multilabel import MultiLabelClassifier
from ..estimators.targets import unmasked
from ..models.labels import read_labels
from ..models.sample import GraphSample
from ..plotting.classes import class_list

UNSEEN = "(not a class)"


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a certificate holds: True, False, or None where there is nothing to check; and words."""

    holds: bool | None
    words: str


@dataclass(frozen=True, eq=False)
class Evidence:
    """Predictions of an estimator and what is known about them.

    Attributes
    ----------
    estimator : estimator
    names : list of str
        Names of the classes; with several labels a sample, of the labels.
    truth, predicted : list of ndarray of int
        Numbers of classes, one a node; -1 in ``truth`` where unknown. With several labels a sample, 0 and 1 one a label.
    items : list
        Samples as they were given, or `GraphSample`.
    multilabel : bool
    training : Verdict
    guarantees : Counter
        Predictions by guarantee.
    proofs : Verdict
    titles : list of str
        Names of the samples, or none.
    """

    estimator: Any
    names: list[str]
    truth: list[np.ndarray]
    predicted: list[np.ndarray]
    items: list[Any]
    multilabel: bool
    training: Verdict
    guarantees: Counter[str]
    gaps: np.ndarray
    proofs: Verdict
    titles: list[str] = field(default_factory=list)

    def title_of(self, j: int) -> str:
        """How a sample is called."""
        return self.titles[j] if self.titles else str(j)

    @property
    def wrong(self) -> np.ndarray:
        """Wrong labels among the known ones of each sample."""
        return np.array(
            [int(((t != p) & (t != -1)).sum()) for t, p in zip(self.truth, self.predicted, strict=True)], dtype=np.int64
        )

    @property
    def known(self) -> np.ndarray:
        """Known labels of each sample."""
        return np.array([int((t != -1).sum()) for t in self.truth], dtype=np.int64)

    @property
    def accuracy(self) -> float:
        """Share of right labels."""
        return 1 - float(self.wrong.sum()) / float(self.known.sum())

    def confusion(self) -> np.ndarray:
        """Nodes by true and predicted class, (K, K); with several labels a sample, (L, 2, 2)."""
        size = len(self.names)
        truth, predicted = np.concatenate(self.truth), np.concatenate(self.predicted)
        known = truth != -1
        if not self.multilabel:
            return np.bincount(size * truth[known] + predicted[known], minlength=size * size).reshape(size, size)
        label = np.tile(np.arange(size), len(self.truth))
        return np.bincount((4 * label + 2 * truth + predicted)[known], minlength=4 * size).reshape(size, 2, 2)


def gather(
    estimator: Any, X: Any, y: Any, classes: Any = None, verify: bool = True, titles: Sequence[str] | None = None
) -> Evidence:
    """Predict and compare; see `write_report` for the arguments."""
    if not isinstance(estimator, (Labeler, MultiLabelClassifier)):
        raise InvalidSampleError(
            f"estimator is a {type(estimator).__name__}, wanted a fitted GraphLabeler, GridLabeler, SequenceLabeler or MultiLabelClassifier."
        )
    if not hasattr(estimator, "result_"):
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted, so there is nothing to report. Call fit first.")
    if getattr(estimator, "columns_", None) is not None:
        raise InvalidParameterError(
            "the table has columns with classes of their own, which a report does not show; wanted labels of one kind: columns of 0 and 1, or one column."
        )
    several = isinstance(estimator, MultiLabelClassifier) and estimator._kind == "multilabel"
    known = class_list(estimator.classes_)
    if X is None and y is None:
        training = _training(estimator) if verify else Verdict(None, "not recomputed")
        missing = Verdict(None, "no data to predict were given")
        return Evidence(estimator, _named(classes, known), [], [], [], several, training, Counter(), np.zeros(0), missing)
    if isinstance(estimator, Labeler):
        items: list[Any] = estimator._new(X)
        truth, predicted = _node_labels(estimator, items, y, known, estimator.predict(X))
    else:
        items = []
        truth, predicted = _row_labels(y, estimator.predict(X), None if several else known)
    if len(truth) != len(predicted) or any(t.shape != p.shape for t, p in zip(truth, predicted, strict=True)):
        raise InvalidSampleError(
            f"y has {len(truth)} labellings, wanted {len(predicted)}, one for each sample, of as many labels."
        )
    if titles is not None and len(titles) != len(truth):
        raise InvalidParameterError(f"names has {len(titles)} names, wanted {len(truth)}, one for each sample.")
    if not any((t != -1).any() for t in truth):
        raise InvalidSampleError("no label is known, so there is nothing to compare; wanted some known labels in y.")
    names = _named(classes, known)
    if any((t >= len(known)).any() for t in truth) and not several:
        names = [*names, UNSEEN]
    results = estimator.predict_result(X)
    return Evidence(
        estimator,
        names,
        truth,
        predicted,
        items,
        several,
        _training(estimator) if verify else Verdict(None, "not recomputed"),
        Counter(str(result.guarantee) for result in results),
        np.array([result.gap for result in results], dtype=np.float64),
        _proofs(estimator, X, results) if verify else Verdict(None, "not recomputed"),
        [str(name) for name in titles or ()],
    )


def _named(classes: Any, known: list[Any]) -> list[str]:
    names = [str(name) for name in (known if classes is None else class_list(classes))]
    if len(names) != len(known):
        raise InvalidParameterError(f"classes has {len(names)} names, wanted {len(known)}, one for each of {known[:12]!r}.")
    return names


def _node_labels(
    estimator: Labeler, samples: list[GraphSample], y: Any, known: list[Any], predicted: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    if y is None:
        raise InvalidSampleError("y is None, wanted a list with the labels of each sample.")
    number = {label: k for k, label in enumerate(known)}
    given = [unmasked(own) for own in y]
    if estimator._coding is None:
        read = [
            ([number.get(label, len(known)) for label in labels.tolist()], shown)
            for labels, shown in read_labels(samples, given, estimator.classes)
        ]
    else:
        coded = read_labels(samples, estimator._coding.encode(samples, given))
        read = [(np.where(labels == -2, len(known), labels).tolist(), shown) for labels, shown in coded]
    truth = [np.where(shown, np.array(labels, dtype=np.int64), -1) for labels, shown in read]
    return truth, [np.array([number[label] for label in own.ravel().tolist()], dtype=np.int64) for own in predicted]


def _row_labels(y: Any, predicted: np.ndarray, known: list[Any] | None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rows of 0 and 1, or one class a row if ``known`` classes are given."""
    table = np.asarray(unmasked(y.toarray() if hasattr(y, "toarray") else y))
    if known is None:
        if table.shape != predicted.shape:
            raise InvalidSampleError(f"y has shape {table.shape}, wanted {predicted.shape}: a row a sample, a column a label.")
        rows = np.array([[-1 if label is None else label for label in row] for row in table.tolist()], dtype=np.float64)
        if not np.isin(rows, (-1, 0, 1)).all():
            raise InvalidSampleError(f"y holds {rows[~np.isin(rows, (-1, 0, 1))][0]:g}, wanted 0 and 1, or -1 for unknown.")
        rows = rows.reshape(table.shape).astype(np.int64)
        return list(rows), list(np.asarray(predicted, dtype=np.int64))
    number = {label: k for k, label in enumerate(known)}
    truth = [-1 if label is None else number.get(label, len(known)) for label in table.ravel().tolist()]
    codes = [number[label] for label in predicted.ravel().tolist()]
    return [np.array([k], dtype=np.int64) for k in truth], [np.array([k], dtype=np.int64) for k in codes]


def _training(estimator: Any) -> Verdict:
    """The certificate of the training, recomputed and compared with what the result claims."""
    result, objective = estimator.result_, getattr(estimator, "objective_", None)
    if objective is None or hasattr(objective, "source"):
        return Verdict(None, "not recomputed: the training data are not at hand")
    if result.certificate is None:
        return Verdict(None, f"{result.learner} gives no certificate, so nothing is proven about the weights")
    try:
        return Verdict(True, str(result.verify(estimator.objective_)))
    except MaxsumError as error:
        return Verdict(False, str(error))


def _proofs(estimator: Any, X: Any, results: Sequence[Result]) -> Verdict:
    """Certificates of predictions, recomputed."""
    problems = (
        estimator.problems(X)
        if isinstance(estimator, Labeler)
        else estimator.model_.problems(estimator.weights_, estimator._new(X))
    )
    checked = 0
    for j, (problem, result) in enumerate(zip(problems, results, strict=True)):
        if result.certificate is None:
            continue
        try:
            result.certificate.verify(problem, result.labels, result.score, result.bound)
        except MaxsumError as error:
            return Verdict(False, f"sample {j}: {error}")
        checked += 1
    if not checked:
        return Verdict(None, "no prediction has a certificate")
    return Verdict(True, f"verified: {checked} of {len(results)} predictions")
