"""Regularisation by cross-validation: each fold is trained for all values of C on a warm path, then all samples once."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, check_cv

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.parameters import RELATIVE_GAP, Elsewhere, OneOf, check, settings
from ..core.result import Termination
from ..inference.base import Solver
from ..learning.driver import Learner
from ..learning.objectives.base import check_C
from ..learning.paths import path
from ..learning.result import LearningResult
from ..losses import Loss
from ..metrics import as_text, chunk_f1, macro_f1, mean_iou, subset_accuracy
from ..models.labels import read_labels
from ..models.sample import GraphSample
from ..progress import LearningLine, watched, write
from ..shards.dataset import ShardedDataset
from .graph import GraphLabeler
from .grid import GridLabeler
from .sequence import SequenceLabeler
from .targets import Coding

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


class GraphLabelerCV(CrossValidatedLabeler, GraphLabeler):
    """`GraphLabeler` with ``C`` by cross-validation over graphs, or over the nodes of one.

    Planes of a fold serve all values of ``C`` (weights, with the surrogates ``qp`` and ``logistic``, start the training for the next
    one), so ten of them cost little more than the most expensive one.

    Parameters
    ----------
    Cs : array-like of float, optional
        Values of ``C`` to try; by default ten from 0.001 to 30, each about three times the one before.
    cv : int, cross-validation generator or iterable
        As in scikit-learn, but the folds of a number are drawn at random: samples often come sorted. With folds of nodes
        it splits these, numbered through all samples.
    cv_tol : float
        Relative gap at which trainings in folds stop; that of the last training is ``tol``, and the larger of both
        counts.
    scoring : {None, "accuracy", "subset_accuracy", "macro_f1", "iou", "chunk_f1"} or callable
        What is best where it is largest: the fraction of right labels (None, "accuracy"), or another measure of
        `maxsum.metrics`; or a function of the true labels and the predicted ones, each a list with an array a sample,
        None where a true label is unknown or not held out. Sample weights count in the fraction of right labels;
        elsewhere samples of weight 0 are left out, and the others count alike.
    folds : {"auto", "samples", "nodes"}
        What is held out. ``"samples"``: whole graphs. ``"nodes"`` are folds of the known nodes of all samples, for one
        graph that is known in part: nodes that are held out become unknown, so they and their edges are left out of the
        training; then they are predicted on the whole graph, without any label observed, and scored alone. ``"auto"``:
        nodes where ``cv`` is a number larger than that of the samples.
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"}, Convex or None
        Pairwise tables that are allowed; see `maxsum.models.GraphModel`.
    surrogate : {"margin", "lp", "trivial", "qp", "logistic", "likelihood", "pseudolikelihood", "auto"} or None
        What is minimised; by default (None, auto) the margin-rescaled hinge, and that of the linear relaxation for large graphs with cycles and many weights.
    learner : None, "auto", str or Learner
        How it is minimised; a name, or the default, has the limits of this estimator, a learner that is given keeps its
        own.
    loss : {"hamming", "normalised", "zero_one"}, (K, K) table of costs, or Loss
        What a wrong label costs in training; scores of folds do not depend on it.
    features : None, "auto" or NodeFeatures
        What the observations are; by default read off the samples.
    oracle : None, "auto", str, Solver or callable
        Who maximises loss-augmented problems in training; by structure by default. A solver, or its name, predicts too.
    tol : float
        Relative gap at which the last training stops.
    max_iter : int
        Passes over the samples, for each training.
    time_limit : float, optional
        Seconds, for each training.
    random_state : int, RandomState or None
        Of learners, and of the folds of a number.
    n_jobs : int, optional
        Threads over samples, in training and prediction; None for one, -1 for one a core.
    callback : callable, optional
        Called with a `LearningPoint` after each pass; a true return value stops the training of the present ``C``.
    verbose : int
        1 shows objective, bound, gap and an estimate of the time that is left on stderr: one live line on a terminal, at most a line a second elsewhere.
    bias : bool
        Add a constant feature to every node; regularised like every weight.
    scale : {"auto", "standard"} or False
        How features are scaled, kept with the model: auto divides images of ``uint8`` by 255 and leaves all else, standard brings columns of
        numbers to mean 0 and standard deviation 1, False leaves everything.
    homogeneous : bool
        If False every node and every edge has weights of its own.
    symmetric : bool
        Whether tables are symmetric.
    tie : array-like of int, shape (n_features, K), optional
        Weights that features and labels share.
    classes : array-like, or one for each node type, optional
        Labels that exist, in order; by default those of all samples, also in folds that lack some.
    checkpoint : path, optional
        File that the state of the last training is written to; those of folds have ``.fold0.0`` and the like behind its
        name.
    class_weight : dict, array-like of shape (K,), "balanced" or "iou", optional
        What missing each class costs in the Hamming loss; iou charges the class that was missed and the one that was said, each by its size, which bounds the mean of
        1 - IoU over the training set from above.
    forbidden : {"bio", "bioes"}, list of pairs of labels, or dict, optional
        Labels ``(a, b)`` of the first and second end of an edge that exclude each other, exactly, in training and prediction; a dictionary has rules
        by the number of the edge type. The schemes of tags also say how a sequence starts and ends. With ``surrogate="margin"`` or ``"likelihood"``.
    unknown : {"drop", "infer"}
        What training does with nodes whose label is unknown, or a ``set`` of those that are possible: leave them out, or infer them (latent hinge
        by the concave-convex procedure from the weights that leave them out; the result is a local optimum). Inference goes with the margin surrogate.
    warm_start : bool
        A second `fit` on the same data goes on, in its last training, from what the first left.
    smoothing : float
        Temperature of the entropy-smoothed ``lp`` surrogate; 0 for the linear relaxation itself.
    tighten : bool
        Take cycles of edges as clusters into the relaxation of the ``lp`` surrogate, so that it comes near to the exact margin; see `LPObjective`.
    penalty : {"l2", "l1", "elasticnet"} or float
        Of the weights, for the surrogate ``likelihood``: half of the sum of squares; the sum of absolute values, which makes most weights exactly
        zero; or half of each. A number is the share of absolute values, above 0 and up to 1.
    solver : None, "auto", str or Solver
        Who predicts, where `predict` is not told; by default as in `predict_result`.
    checkpoint_seconds : float
        Least time between two checkpoints.

    Attributes
    ----------
    C_ : float
        The value with the best mean score of held-out folds; the smallest of equals.
    Cs_ : ndarray, shape (n_values,)
        Values that were tried, in order.
    scores_ : ndarray, shape (n_values, n_folds)
        Scores of held-out folds; NaN for folds without known labels.
    cv_results_ : dict of ndarray
        The table of these in the form of scikit-learn; `cv_table` is for reading.
    others
        As in `GraphLabeler`, of the training on all samples with ``C_``.

    Examples
    --------
    >>> import maxsum as ms
    >>> samples = [ms.GraphSample([0, 1, 1], ms.Graph.chain(3)), ms.GraphSample([1, 0], ms.Graph.chain(2))] * 2
    >>> ms.GraphLabelerCV(Cs=[0.1, 10.0], cv=2).fit(samples, [["a", "b", "b"], ["b", "a"]] * 2).scores_.shape
    (2, 2)

    One graph that is known in part has folds of its known nodes:

    >>> graph = ms.GraphSample([0, 1, 1, 0, 1, 0], ms.Graph.chain(6))
    >>> net = ms.GraphLabelerCV(Cs=[0.1, 10.0], cv=2).fit([graph], [["a", "b", None, "a", "b", None]])
    >>> net.C_, net.predict([graph])[0].tolist()
    (0.1, ['a', 'b', 'b', 'a', 'b', 'a'])
    """

    def __init__(
        self,
        Cs: Any = None,
        cv: Any = 5,
        cv_tol: float = 1e-2,
        scoring: str | Callable[[Any, Any], float] | None = None,
        folds: str = "auto",
        potentials: Any = "auto",
        surrogate: str | None = "auto",
        learner: Learner | str | None = None,
        loss: Loss | str | Any = "hamming",
        features: Any = "auto",
        oracle: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        verbose: int = 0,
        bias: bool = False,
        scale: Any = "auto",
        homogeneous: bool = True,
        symmetric: bool = False,
        tie: Any = None,
        classes: Any = None,
        checkpoint: str | Path | None = None,
        class_weight: Any = None,
        forbidden: Any = None,
        unknown: str = "drop",
        warm_start: bool = False,
        smoothing: float = 0.0,
        tighten: bool = False,
        penalty: Any = "l2",
        solver: Solver | str | None = None,
        checkpoint_seconds: float = 30.0,
    ):
        self.Cs = Cs
        self.cv = cv
        self.cv_tol = cv_tol
        self.scoring = scoring
        self.folds = folds
        self.potentials = potentials
        self.surrogate = surrogate
        self.learner = learner
        self.loss = loss
        self.features = features
        self.oracle = oracle
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.verbose = verbose
        self.bias = bias
        self.scale = scale
        self.homogeneous = homogeneous
        self.symmetric = symmetric
        self.tie = tie
        self.classes = classes
        self.checkpoint = checkpoint
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.unknown = unknown
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.tighten = tighten
        self.penalty = penalty
        self.solver = solver
        self.checkpoint_seconds = checkpoint_seconds


class GridLabelerCV(CrossValidatedLabeler, GridLabeler):
    """`GridLabeler` with ``C`` by cross-validation over images, or over the pixels of one.

    Planes of a fold serve all values of ``C`` (weights, with the surrogates ``qp`` and ``logistic``, start the training for the next
    one), so ten of them cost little more than the most expensive one.

    Parameters
    ----------
    Cs : array-like of float, optional
        Values of ``C`` to try; by default ten from 0.001 to 30, each about three times the one before.
    cv : int, cross-validation generator or iterable
        As in scikit-learn, but the folds of a number are drawn at random: samples often come sorted. With folds of nodes
        it splits these, numbered through all samples.
    cv_tol : float
        Relative gap at which trainings in folds stop; that of the last training is ``tol``, and the larger of both
        counts.
    scoring : {None, "accuracy", "subset_accuracy", "macro_f1", "iou", "chunk_f1"} or callable
        What is best where it is largest: the fraction of right labels (None, "accuracy"), or another measure of
        `maxsum.metrics`; or a function of the true labels and the predicted ones, each a list with an array a sample,
        None where a true label is unknown or not held out. Sample weights count in the fraction of right labels;
        elsewhere samples of weight 0 are left out, and the others count alike.
    folds : {"auto", "samples", "nodes"}
        What is held out. ``"samples"``: whole images. ``"nodes"`` are folds of the known nodes of all samples, for one
        graph that is known in part: nodes that are held out become unknown, so they and their edges are left out of the
        training; then they are predicted on the whole graph, without any label observed, and scored alone. ``"auto"``:
        nodes where ``cv`` is a number larger than that of the samples.
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"}, Convex or None
        Pairwise tables that are allowed; see `maxsum.models.GraphModel`.
    surrogate : {"margin", "lp", "trivial", "qp", "logistic", "likelihood", "pseudolikelihood", "auto"} or None
        What is minimised; by default (None, auto) the margin-rescaled hinge, and that of the linear relaxation for large graphs with cycles and many weights.
    learner : None, "auto", str or Learner
        How it is minimised; a name, or the default, has the limits of this estimator, a learner that is given keeps its
        own.
    loss : {"hamming", "normalised", "zero_one"}, (K, K) table of costs, or Loss
        What a wrong label costs in training; scores of folds do not depend on it.
    features : None, "auto" or NodeFeatures
        What the observations are; by default read off the samples.
    oracle : None, "auto", str, Solver or callable
        Who maximises loss-augmented problems in training; by structure by default. A solver, or its name, predicts too.
    tol : float
        Relative gap at which the last training stops.
    max_iter : int
        Passes over the samples, for each training.
    time_limit : float, optional
        Seconds, for each training.
    random_state : int, RandomState or None
        Of learners, and of the folds of a number.
    n_jobs : int, optional
        Threads over samples, in training and prediction; None for one, -1 for one a core.
    callback : callable, optional
        Called with a `LearningPoint` after each pass; a true return value stops the training of the present ``C``.
    verbose : int
        1 shows objective, bound, gap and an estimate of the time that is left on stderr: one live line on a terminal, at most a line a second elsewhere.
    bias : bool
        Add a constant feature to every node; regularised like every weight.
    scale : {"auto", "standard"} or False
        How features are scaled, kept with the model: auto divides images of ``uint8`` by 255 and leaves all else, standard brings columns of
        numbers to mean 0 and standard deviation 1, False leaves everything.
    connectivity : int, optional
        Neighbours of a pixel, 4 (default) or 8; of a voxel 6 (default), 18 or 26.
    offsets : array-like of int, shape (n_offsets, dimensions), optional
        Steps to neighbours in place of ``connectivity``, as `Graph.grid` takes them.
    dimensions : int
        2 for images, 3 for volumes, or any other number.
    edge_types : {"tied", "directions"}
        One table for all edges, or one for horizontal, vertical (and both diagonal) edges each.
    edge_features : None or "contrast"
        A constant, or a constant and the contrast of neighbours, for images of real features.
    gamma : float, optional
        Of the contrast; by default that of the training images, in a fold those of the fold.
    guide : array-like of int, optional
        Channels of the images that are a guide image: the contrast looks at them alone, and nodes do not see them.
    symmetric : bool
        Whether tables are symmetric.
    classes : array-like, optional
        Labels that exist, in order; by default those of all samples, also in folds that lack some.
    checkpoint : path, optional
        File that the state of the last training is written to; those of folds have ``.fold0.0`` and the like behind its
        name.
    class_weight : dict, array-like of shape (K,), "balanced" or "iou", optional
        What missing each class costs in the Hamming loss; iou charges the class that was missed and the one that was said, each by its size, which bounds the mean of
        1 - IoU over the training set from above.
    forbidden : {"bio", "bioes"}, list of pairs of labels, or dict, optional
        Labels ``(a, b)`` of the first and second end of an edge that exclude each other, exactly, in training and prediction; a dictionary has rules
        by the number of the edge type. The schemes of tags also say how a sequence starts and ends. With ``surrogate="margin"`` or ``"likelihood"``.
    unknown : {"drop", "infer"}
        What training does with nodes whose label is unknown, or a ``set`` of those that are possible: leave them out, or infer them (latent hinge
        by the concave-convex procedure from the weights that leave them out; the result is a local optimum). Inference goes with the margin surrogate.
    warm_start : bool
        A second `fit` on the same data goes on, in its last training, from what the first left.
    smoothing : float
        Temperature of the entropy-smoothed ``lp`` surrogate; 0 for the linear relaxation itself.
    tighten : bool
        Take cycles of edges as clusters into the relaxation of the ``lp`` surrogate, so that it comes near to the exact margin; see `LPObjective`.
    penalty : {"l2", "l1", "elasticnet"} or float
        Of the weights, for the surrogate ``likelihood``: half of the sum of squares; the sum of absolute values, which makes most weights exactly
        zero; or half of each. A number is the share of absolute values, above 0 and up to 1.
    solver : None, "auto", str or Solver
        Who predicts, where `predict` is not told; by default as in `predict_result`.
    checkpoint_seconds : float
        Least time between two checkpoints.

    Attributes
    ----------
    C_ : float
        The value with the best mean score of held-out folds; the smallest of equals.
    Cs_ : ndarray, shape (n_values,)
        Values that were tried, in order.
    scores_ : ndarray, shape (n_values, n_folds)
        Scores of held-out folds; NaN for folds without known labels.
    cv_results_ : dict of ndarray
        The table of these in the form of scikit-learn; `cv_table` is for reading.
    others
        As in `GridLabeler`, of the training on all samples with ``C_``.
    """

    def __init__(
        self,
        Cs: Any = None,
        cv: Any = 5,
        cv_tol: float = 1e-2,
        scoring: str | Callable[[Any, Any], float] | None = None,
        folds: str = "auto",
        potentials: Any = "auto",
        surrogate: str | None = "auto",
        learner: Learner | str | None = None,
        loss: Loss | str | Any = "hamming",
        features: Any = "auto",
        oracle: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        verbose: int = 0,
        bias: bool = False,
        scale: Any = "auto",
        connectivity: int | None = None,
        offsets: Any = None,
        dimensions: int = 2,
        edge_types: str = "tied",
        edge_features: str | None = None,
        gamma: float | None = None,
        guide: Any = None,
        symmetric: bool = False,
        classes: Any = None,
        checkpoint: str | Path | None = None,
        class_weight: Any = None,
        forbidden: Any = None,
        unknown: str = "drop",
        warm_start: bool = False,
        smoothing: float = 0.0,
        tighten: bool = False,
        penalty: Any = "l2",
        solver: Solver | str | None = None,
        checkpoint_seconds: float = 30.0,
    ):
        self.Cs = Cs
        self.cv = cv
        self.cv_tol = cv_tol
        self.scoring = scoring
        self.folds = folds
        self.potentials = potentials
        self.surrogate = surrogate
        self.learner = learner
        self.loss = loss
        self.features = features
        self.oracle = oracle
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.verbose = verbose
        self.bias = bias
        self.scale = scale
        self.connectivity = connectivity
        self.offsets = offsets
        self.dimensions = dimensions
        self.edge_types = edge_types
        self.edge_features = edge_features
        self.gamma = gamma
        self.guide = guide
        self.symmetric = symmetric
        self.classes = classes
        self.checkpoint = checkpoint
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.unknown = unknown
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.tighten = tighten
        self.penalty = penalty
        self.solver = solver
        self.checkpoint_seconds = checkpoint_seconds


class SequenceLabelerCV(CrossValidatedLabeler, SequenceLabeler):
    """`SequenceLabeler` with ``C`` by cross-validation over sequences, or over the items of one.

    Planes of a fold serve all values of ``C`` (weights, with the surrogates ``qp`` and ``logistic``, start the training for the next
    one), so ten of them cost little more than the most expensive one.

    Parameters
    ----------
    Cs : array-like of float, optional
        Values of ``C`` to try; by default ten from 0.001 to 30, each about three times the one before.
    cv : int, cross-validation generator or iterable
        As in scikit-learn, but the folds of a number are drawn at random: samples often come sorted. With folds of nodes
        it splits these, numbered through all samples.
    cv_tol : float
        Relative gap at which trainings in folds stop; that of the last training is ``tol``, and the larger of both
        counts.
    scoring : {None, "accuracy", "subset_accuracy", "macro_f1", "iou", "chunk_f1"} or callable
        What is best where it is largest: the fraction of right labels (None, "accuracy"), or another measure of
        `maxsum.metrics`; or a function of the true labels and the predicted ones, each a list with an array a sample,
        None where a true label is unknown or not held out. Sample weights count in the fraction of right labels;
        elsewhere samples of weight 0 are left out, and the others count alike.
    folds : {"auto", "samples", "nodes"}
        What is held out. ``"samples"``: whole sequences. ``"nodes"`` are folds of the known nodes of all samples, for one
        graph that is known in part: nodes that are held out become unknown, so they and their edges are left out of the
        training; then they are predicted on the whole graph, without any label observed, and scored alone. ``"auto"``:
        nodes where ``cv`` is a number larger than that of the samples.
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"}, Convex or None
        Pairwise tables that are allowed; see `maxsum.models.GraphModel`.
    surrogate : {"margin", "lp", "trivial", "qp", "logistic", "likelihood", "pseudolikelihood", "auto"} or None
        What is minimised; by default (None, auto) the margin-rescaled hinge, and that of the linear relaxation for large graphs with cycles and many weights.
    learner : None, "auto", str or Learner
        How it is minimised; a name, or the default, has the limits of this estimator, a learner that is given keeps its
        own.
    loss : {"hamming", "normalised", "zero_one"}, (K, K) table of costs, or Loss
        What a wrong label costs in training; scores of folds do not depend on it.
    features : None, "auto" or NodeFeatures
        What the observations are; by default read off the samples.
    oracle : None, "auto", str, Solver or callable
        Who maximises loss-augmented problems in training; by structure by default. A solver, or its name, predicts too.
    tol : float
        Relative gap at which the last training stops.
    max_iter : int
        Passes over the samples, for each training.
    time_limit : float, optional
        Seconds, for each training.
    random_state : int, RandomState or None
        Of learners, and of the folds of a number.
    n_jobs : int, optional
        Threads over samples, in training and prediction; None for one, -1 for one a core.
    callback : callable, optional
        Called with a `LearningPoint` after each pass; a true return value stops the training of the present ``C``.
    verbose : int
        1 shows objective, bound, gap and an estimate of the time that is left on stderr: one live line on a terminal, at most a line a second elsewhere.
    bias : bool
        Add a constant feature to every node; regularised like every weight.
    scale : {"auto", "standard"} or False
        How features are scaled, kept with the model: auto divides images of ``uint8`` by 255 and leaves all else, standard brings columns of
        numbers to mean 0 and standard deviation 1, False leaves everything.
    order : {1, 2}
        Labels that a score sees besides its own.
    symmetric : bool
        Whether tables are symmetric.
    classes : array-like, optional
        Labels that exist, in order; by default those of all samples, also in folds that lack some.
    checkpoint : path, optional
        File that the state of the last training is written to; those of folds have ``.fold0.0`` and the like behind its
        name.
    class_weight : dict, array-like of shape (K,), "balanced" or "iou", optional
        What missing each class costs in the Hamming loss; iou charges the class that was missed and the one that was said, each by its size, which bounds the mean of
        1 - IoU over the training set from above.
    forbidden : {"bio", "bioes"}, list of pairs of labels, or dict, optional
        Labels ``(a, b)`` of the first and second end of an edge that exclude each other, exactly, in training and prediction; a dictionary has rules
        by the number of the edge type. The schemes of tags also say how a sequence starts and ends. With ``surrogate="margin"`` or ``"likelihood"``.
    unknown : {"drop", "infer"}
        What training does with nodes whose label is unknown, or a ``set`` of those that are possible: leave them out, or infer them (latent hinge
        by the concave-convex procedure from the weights that leave them out; the result is a local optimum). Inference goes with the margin surrogate.
    warm_start : bool
        A second `fit` on the same data goes on, in its last training, from what the first left.
    smoothing : float
        Temperature of the entropy-smoothed ``lp`` surrogate; 0 for the linear relaxation itself.
    penalty : {"l2", "l1", "elasticnet"} or float
        Of the weights, for the surrogate ``likelihood``: half of the sum of squares; the sum of absolute values, which makes most weights exactly
        zero; or half of each. A number is the share of absolute values, above 0 and up to 1.
    solver : None, "auto", str or Solver
        Who predicts, where `predict` is not told; by default as in `predict_result`.
    checkpoint_seconds : float
        Least time between two checkpoints.

    Attributes
    ----------
    C_ : float
        The value with the best mean score of held-out folds; the smallest of equals.
    Cs_ : ndarray, shape (n_values,)
        Values that were tried, in order.
    scores_ : ndarray, shape (n_values, n_folds)
        Scores of held-out folds; NaN for folds without known labels.
    cv_results_ : dict of ndarray
        The table of these in the form of scikit-learn; `cv_table` is for reading.
    others
        As in `SequenceLabeler`, of the training on all samples with ``C_``.
    """

    def __init__(
        self,
        Cs: Any = None,
        cv: Any = 5,
        cv_tol: float = 1e-2,
        scoring: str | Callable[[Any, Any], float] | None = None,
        folds: str = "auto",
        potentials: Any = "auto",
        surrogate: str | None = "auto",
        learner: Learner | str | None = None,
        loss: Loss | str | Any = "hamming",
        features: Any = "auto",
        oracle: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        verbose: int = 0,
        bias: bool = False,
        scale: Any = "auto",
        order: int = 1,
        symmetric: bool = False,
        classes: Any = None,
        checkpoint: str | Path | None = None,
        class_weight: Any = None,
        forbidden: Any = None,
        unknown: str = "drop",
        warm_start: bool = False,
        smoothing: float = 0.0,
        penalty: Any = "l2",
        solver: Solver | str | None = None,
        checkpoint_seconds: float = 30.0,
    ):
        self.Cs = Cs
        self.cv = cv
        self.cv_tol = cv_tol
        self.scoring = scoring
        self.folds = folds
        self.potentials = potentials
        self.surrogate = surrogate
        self.learner = learner
        self.loss = loss
        self.features = features
        self.oracle = oracle
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.verbose = verbose
        self.bias = bias
        self.scale = scale
        self.order = order
        self.symmetric = symmetric
        self.classes = classes
        self.checkpoint = checkpoint
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.unknown = unknown
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.penalty = penalty
        self.solver = solver
        self.checkpoint_seconds = checkpoint_seconds
