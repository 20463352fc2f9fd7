"""Regularisation by cross-validation: each fold is trained for all values of C on a warm path, then all samples once."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from html import escape
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, check_cv

from ...core.errors import InvalidParameterError, InvalidSampleError
from ...core.parameters import RELATIVE_GAP, Elsewhere, OneOf, check, settings
from ...core.result import Termination
from ...learning.objectives.base import check_C
from ...learning.paths import path
from ...learning.result import LearningResult
from ...metrics import as_text, chunk_f1, macro_f1, mean_iou, subset_accuracy
from ...models.labels import read_labels
from ...models.sample import GraphSample
from ...progress import LearningLine, watched, write
from ...shards.dataset import ShardedDataset
from ..targets import Coding

# Best by five folds of the values from 0.0003 to 100: 0.3 for 704 handwritten words, 0.1 for Scene, 0.03 and 3 for two sets of made images. Ten times less than
# 0.03, or more than 3, costs a third of the errors more or nothing; neighbours of the best have up to a fifth more errors, and steps of 3 make ten values do.
VALUES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

MEASURES: dict[str, Callable[[Any, Any], float]] = {
    "subset_accuracy": lambda truth, predicted: subset_accuracy(truth, predicted, mask=None),
    "macro_f1": lambda truth, predicted: macro_f1(truth, predicted, mask=None),
    "iou": lambda truth, predicted: mean_iou(truth, predicted, mask=None),
    "chunk_f1": lambda truth, predicted: chunk_f1(truth, predicted).f1 / 100,
}
"""Scores of labellings by name, besides the fraction of right labels; unknown labels are None."""


class CrossValidated:
    """What estimators with ``C`` by cross-validation share; put before the plain estimator in the list of bases.

    Their parameters are ``Cs``, ``cv``, ``cv_tol``, ``scoring``, and those of the plain estimator without ``C``.
    """

    Cs: Any
    cv: Any
    cv_tol: float
    scoring: str | Callable[[Any, Any], float] | None

    _measures = tuple(MEASURES)
    _parameters = settings(
        C=None,
        Cs=Elsewhere("None, or a list of numbers > 0"),
        cv=Elsewhere("what scikit-learn's check_cv takes"),
        cv_tol=RELATIVE_GAP,
        scoring=Elsewhere("None, the name of a measure that fits the labels, or a function"),
    )

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, executor: Any = None) -> Self:
        """Choose ``C`` by cross-validation, then learn from all samples; parameters as in `fit` of the plain estimator, but no shards."""
        own: Any = self
        # What was given, refused before anything is trained.
        if isinstance(X, ShardedDataset) or executor is not None:
            raise InvalidParameterError(
                "X is in shards, or an executor is given; cross-validation wants samples in memory. Use the plain estimator."
            )
        check(self)
        values, score_of = self._values(), self._measure()
        data = own._read(X, y, sample_weight)
        whole = own._prepare(data, float(values[0]))
        # Every fold for all values.
        scores, late = [], []
        line = LearningLine(max(whole.learner.tol, self.cv_tol))
        for k, (train, test) in enumerate(self._cases(data, whole)):
            part = own._fold(train, whole, float(values[0]))
            learner = replace(part.learner, tol=max(part.learner.tol, self.cv_tol))
            if learner.checkpoint is not None:
                learner = replace(learner, checkpoint=f"{learner.checkpoint}.fold{k}")
            with watched(own.verbose, own.callback, time_limit=learner.time_limit, describe=line) as callback:
                results = path(learner, part.objective, values, callback)
            late += [result for result in results if _is_late(result, learner.tol)]
            score = own._scorer(part, test) if score_of is None else self._judge(part, test, score_of)
            scores.append([score(result) for result in results])
            if own.verbose:
                write(
                    f"fold {k + 1}: " + ", ".join(f"C={C:g} {value:.4f}" for C, value in zip(values, scores[-1], strict=True))
                )
        # The best mean, over the folds that have something to score.
        found = np.array(scores).T
        if np.isnan(found).all():
            raise InvalidSampleError("no fold has a known label, so C cannot be chosen; wanted at least one.")
        self.Cs_, self.scores_ = values, found
        self.C_ = float(values[np.argmin(self.cv_results_["rank_test_score"])])
        _warn(late, found.size, self.cv_tol)
        # All samples.
        whole.objective.set_C(self.C_)
        own._train(whole)
        chosen = f"C = {self.C_:g} by {found.shape[1]}-fold cross-validation of {len(values)} values."
        own.result_ = replace(own.result_, message=f"{own.result_.message} {chosen}")
        return self

    @property
    def cv_results_(self) -> dict[str, np.ndarray]:
        """``C``, ``split0_test_score`` and so on, and ``mean_test_score``, ``std_test_score`` and ``rank_test_score`` of the folds with known labels."""
        known = self.scores_[:, ~np.isnan(self.scores_).all(axis=0)]
        mean = known.mean(axis=1)
        splits = {f"split{k}_test_score": own for k, own in enumerate(self.scores_.T)}
        order = np.where(np.isnan(mean), -np.inf, mean)
        rank = 1 + (order[:, None] < order[None]).sum(axis=1)
        return {"C": self.Cs_, **splits, "mean_test_score": mean, "std_test_score": known.std(axis=1), "rank_test_score": rank}

    def cv_table(self) -> str:
        """Values of ``C`` with mean, standard deviation and fold by fold scores as plain text, the chosen one with a star."""
        results, n_folds = self.cv_results_, self.scores_.shape[1]
        columns = ["mean_test_score", "std_test_score", *(f"split{k}_test_score" for k in range(n_folds))]
        rows = [("", "C", "mean", "std", *(f"fold {k}" for k in range(n_folds)))]
        for i, C in enumerate(self.Cs_):
            rows.append(("*" if C == self.C_ else "", f"{C:g}", *(f"{results[name][i]:.4f}" for name in columns)))
        return as_text(rows)

    @property
    def _repr_html_(self) -> Any:
        """HTML of the plain estimator, and the table."""
        plain = super()._repr_html_  # type: ignore[misc]
        return lambda: plain() + self._html_table()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._html_table()
        return bundle

    def _html_table(self) -> str:
        if not hasattr(self, "scores_"):
            return ""
        return f"<details><summary>C against score</summary><pre>{escape(self.cv_table())}</pre></details>"

    def _values(self) -> np.ndarray:
        if self.Cs is None:
            return np.array(VALUES)
        try:
            values = np.asarray(self.Cs, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(f"Cs is {self.Cs!r}, wanted a list of numbers > 0.") from error
        if values.ndim != 1 or not len(values):
            raise InvalidParameterError(f"Cs is {'empty' if not values.size else repr(self.Cs)}, wanted a list of numbers > 0.")
        for value in values:
            check_C(value)
        return np.unique(values)

    def _folds(self) -> Any:
        own: Any = self
        if not isinstance(self.cv, (int, np.integer)) or isinstance(self.cv, bool):
            return check_cv(self.cv)
        if self.cv < 2:
            raise InvalidParameterError(f"cv is {self.cv}, wanted 2 folds or more, or a cross-validation generator.")
        return KFold(self.cv, shuffle=True, random_state=own.random_state)

    def _cases(self, data: Any, whole: Any) -> Iterable[tuple[Any, Any]]:
        """What to train on and what to score on, fold by fold."""
        own: Any = self
        folds, n_samples = self._folds(), len(data.weight)
        if isinstance(folds, KFold) and folds.n_splits > n_samples:
            hint = "; folds='nodes' holds out known nodes" if hasattr(self, "folds") else ""
            samples = f"is {n_samples} sample" if n_samples == 1 else f"are {n_samples} samples"
            raise InvalidParameterError(f"cv is {folds.n_splits}, but there {samples}; wanted at most as many folds{hint}.")
        for train, test in own._splits(data, folds):
            yield data.take(train), data.take(test)

    def _measure(self) -> str | Callable[[Any, Any], float] | None:
        """``scoring``, checked; None for the fraction of right labels, which the plain estimator knows."""
        if self.scoring is None or callable(self.scoring) or (isinstance(self.scoring, str) and self.scoring in self._measures):
            return self.scoring
        if isinstance(self.scoring, str) and self.scoring == "accuracy":
            return None
        names = ", ".join(map(repr, ("accuracy", *self._measures)))
        raise InvalidParameterError(f"scoring is {self.scoring!r}, wanted None, a function, or one of {names}.")

    @abstractmethod
    def _judge(self, part: Any, test: Any, scoring: str | Callable[[Any, Any], float]) -> Callable[[LearningResult], float]:
        """The score of what a training gives, on other data; NaN where no label is known."""


class CrossValidatedLabeler(CrossValidated):
    """`CrossValidated` for labelers, whose folds can be nodes, and whose truth is a list of labellings."""

    folds: str

    _parameters = settings(folds=OneOf("auto", "samples", "nodes"), n_hidden=None)

    def _cases(self, data: Any, whole: Any) -> Iterable[tuple[Any, Any]]:
        return self._node_cases(data, whole) if self._by_nodes(len(data.items)) else super()._cases(data, whole)

    def _by_nodes(self, n_samples: int) -> bool:
        """Whether nodes are held out: as said, or where samples are too few for a number of folds."""
        if self.folds != "auto":
            return self.folds == "nodes"
        number = 5 if self.cv is None else self.cv  # None is five folds in scikit-learn
        return isinstance(number, (int, np.integer)) and not isinstance(number, bool) and n_samples < int(number)

    def _node_cases(self, data: Any, whole: Any) -> Iterable[tuple[Any, Any]]:
        """The labels that are held out are unknown in training, all others in the score."""
        own: Any = self
        samples: list[GraphSample] = own._samples(data.items, whole.facts)
        coding = Coding.read(samples, data.labels, own.classes)
        read = read_labels(samples, coding.targets, coding.declared)
        labels = [y if coding.rule is None else coding.rule.classes[np.maximum(y, 0)] for y, _ in read]
        known = [mask & bool(weight) for (_, mask), weight in zip(read, data.weight, strict=True)]
        ends = np.cumsum([len(mask) for mask in known])[:-1]
        nodes = np.flatnonzero(np.concatenate(known))
        unknown = None if any(-1 in own.tolist() for own in whole.bound.classes) else -1
        folds = self._folds()
        if isinstance(folds, KFold) and folds.n_splits > len(nodes):
            raise InvalidParameterError(
                f"cv is {folds.n_splits}, but {len(samples)} samples have {len(nodes)} known nodes; wanted at most as many folds as nodes."
            )
        for train, test in folds.split(nodes):
            parts = []
            for which in (train, test):
                kept = np.zeros(sum(map(len, known)), dtype=bool)
                kept[nodes[which]] = True
                shown = np.split(kept, ends)
                parts.append(data._replace(labels=[_only(*own, unknown) for own in zip(labels, shown, strict=True)]))
            yield parts[0], parts[1]

    def _judge(self, part: Any, test: Any, scoring: str | Callable[[Any, Any], float]) -> Callable[[LearningResult], float]:
        trial: Any = copy(self)
        samples: list[GraphSample] = trial._samples(test.items, part.facts)
        measure = scoring if callable(scoring) else MEASURES[scoring]

        def score(result: LearningResult) -> float:
            trial._accept(part, result)
            guesses, rule = trial._predict(samples), trial._coding
            given = test.labels if rule is None else rule.encode(samples, test.labels)
            read = read_labels(samples, given, trial.classes_ if rule is None else None)
            truth, predicted = [], []
            for (y, known), guess, weight in zip(read, guesses, test.weight, strict=True):
                if not known.any() or not weight:
                    continue
                shape = guess.shape
                if rule is not None and callable(scoring):
                    y = rule.classes[np.maximum(y, 0)]
                elif rule is not None:  # measures know numbers and strings alone
                    guess = np.array([rule.number[label] for label in guess.flat]).reshape(shape)
                truth.append((y if known.all() else _only(y, known, None)).reshape(shape))
                predicted.append(guess)
            return float(measure(truth, predicted)) if truth else np.nan

        return score


def _only(labels: np.ndarray, shown: np.ndarray, unknown: int | None) -> np.ndarray:
    """Labels of some nodes; at the others ``unknown`` if labels are numbers, None elsewhere."""
    number = unknown is not None and labels.dtype.kind == "i"
    found = np.full(labels.shape, unknown if number else None, dtype=labels.dtype if number else object)
    found[shown] = labels[shown]
    return found


def _is_late(result: LearningResult, tol: float) -> bool:
    """Whether a training missed its gap; without a lower bound, whether it was cut off."""
    if np.isneginf(result.lower_bound) and result.learner == "ProjectedQuasiNewton":
        return result.termination != Termination.converged
    return result.relative_gap > tol


def _warn(late: list[LearningResult], n_trainings: int, tol: float) -> None:
    if late:
        worst = max(late, key=lambda result: result.relative_gap)
        warnings.warn(
            f"{len(late)} of {n_trainings} trainings in folds ended before the gap that was wanted; the largest relative gap is "
            f"{worst.relative_gap:.2g} at C = {worst.extra['C']:g} ({worst.termination.replace('_', ' ')}), wanted {tol:g}. Raise "
            "max_iter or time_limit, or cv_tol, or leave out large values of Cs.",
            ConvergenceWarning,
            stacklevel=3,
        )
