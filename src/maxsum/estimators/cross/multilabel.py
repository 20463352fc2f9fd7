"""MultiLabelClassifierCV: the regularisation of a MultiLabelClassifier by cross-validation, with planes shared by all values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ...inference.base import Solver
from ...learning.driver import Learner
from ...learning.result import LearningResult
from ...losses import Loss
from ...metrics import iou_scores, subset_accuracy
from ..multilabel import MultiLabelClassifier
from ..pipeline import Data
from .validation import CrossValidated


class MultiLabelClassifierCV(CrossValidated, MultiLabelClassifier):
    """`MultiLabelClassifier` with ``C`` by cross-validation: each fold is trained for all values on one set of planes.

    Parameters
    ----------
    Cs : array-like of float, optional
        Values of ``C`` to try; by default ten from 0.001 to 30, each about three times the one before.
    cv : int, cross-validation generator or iterable
        As in scikit-learn, but the folds of a number are drawn at random: samples often come sorted, and with the classes
        in proportion where ``y`` has one dimension.
    cv_tol : float
        Relative gap at which trainings in folds stop; that of the last training is ``tol``, and the larger of both
        counts.
    scoring : {None, "accuracy", "subset_accuracy", "macro_f1", "iou"} or callable
        What is best where it is largest: the fraction of right labels (None, "accuracy"), that of samples without a wrong
        one, or the mean over labels (or classes) of F1 or of intersection over union; or a function of the true table and
        the predicted one, with -1 for what is unknown, or of two arrays of classes. Sample weights count in the fraction
        of right labels; elsewhere samples of weight 0 are left out, and the others count alike.
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"}, Convex or None
        Pairwise tables that are allowed; see `maxsum.models.GraphModel`.
    surrogate : {"margin", "lp", "qp", "logistic", "likelihood", "pseudolikelihood", "auto"} or None
        What is minimised; by default (None, auto) the margin-rescaled hinge.
    learner : None, "auto", Learner, or its name
        How it is minimised; a name, or the default, has the limits of this estimator, a learner that is given keeps its
        own.
    loss : {"hamming", "normalised", "zero_one"}, (K, K) table of costs, or Loss
        What a wrong label costs in training; scores of folds do not depend on it.
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
        Threads over samples where solvers are called; None for one, -1 for one a core.
    callback : callable, optional
        Called with a `LearningPoint` after each pass; a true return value stops the training of the present ``C``.
    verbose : int
        1 shows objective, bound, gap and an estimate of the time that is left on stderr: one live line on a terminal, at most a line a second elsewhere.
    bias : bool
        Add a constant feature; regularised like every weight.
    label_graph : {"complete", "tree", "none"} or array-like of int, shape (n_edges, 2)
        Which pairs of labels have a table: all, a spanning tree of the mutual information of the training labels, none,
        or those given.
    checkpoint : path, optional
        File that the state of the last training is written to; those of folds have ``.fold0.0`` and the like behind its
        name.
    class_weight : "balanced", dict, list of dicts, or array-like of shape (K,), optional
        What missing each class costs; with tables of labels the classes are 0 and 1 for all labels, or for each by a list
        of dicts.
    forbidden : list of pairs, optional
        Values of two columns that exclude each other, ``((column, value), (column, value))``.
    warm_start : bool
        A second `fit` on the same data goes on, in its last training, from what the first left.
    smoothing : float
        Temperature of the entropy-smoothed ``lp`` surrogate; 0 for the linear relaxation itself.
    penalty : {"l2", "l1", "elasticnet"} or float
        Of the weights, for the surrogates ``margin`` and ``likelihood``: half of the sum of squares; the sum of absolute values, which makes most weights exactly
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
        Scores of held-out folds.
    cv_results_ : dict of ndarray
        The table of these in the form of scikit-learn; `cv_table` is for reading.
    others
        As in `MultiLabelClassifier`, of the training on all samples with ``C_``.
    """

    def __init__(
        self,
        Cs: Any = None,
        cv: Any = 5,
        cv_tol: float = 1e-2,
        scoring: str | Callable[[Any, Any], float] | None = None,
        potentials: Any = "auto",
        surrogate: str | None = "auto",
        learner: Learner | str | None = None,
        loss: Loss | str | Any = "hamming",
        oracle: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        verbose: int = 0,
        bias: bool = True,
        label_graph: Any = "complete",
        checkpoint: str | Path | None = None,
        class_weight: Any = None,
        forbidden: Any = None,
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
        self.potentials = potentials
        self.surrogate = surrogate
        self.learner = learner
        self.loss = loss
        self.oracle = oracle
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.verbose = verbose
        self.bias = bias
        self.label_graph = label_graph
        self.checkpoint = checkpoint
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.penalty = penalty
        self.solver = solver
        self.checkpoint_seconds = checkpoint_seconds

    _measures = ("subset_accuracy", "macro_f1", "iou")

    def _splits(self, data: Data, folds: Any) -> Iterable[Any]:
        if isinstance(self.cv, (int, np.integer)) and data.labels.kind in ("binary", "multiclass"):
            folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.random_state)
        return super()._splits(data, folds)

    def _judge(self, part: Any, test: Data, scoring: str | Callable[[Any, Any], float]) -> Callable[[LearningResult], float]:
        counted = test.weight > 0 if test.weight.any() else np.ones(len(test.weight), dtype=bool)
        trial, target, rows = copy(self), test.labels, test.items[counted]
        truth = target.labels.reshape(len(test.weight), -1)[counted]

        def score(result: LearningResult) -> float:
            if not (truth >= 0).any():
                return np.nan
            predicted = trial._accept(part, result)._table(trial._samples(rows))
            if callable(scoring) and target.kind == "columns":
                return float(scoring(target.classes.decode(truth), target.classes.decode(predicted)))
            if callable(scoring):
                tables = (
                    (truth, predicted)
                    if target.kind == "multilabel"
                    else (target.classes[truth[:, 0]], target.classes[predicted[:, 0]])
                )
                return float(scoring(*tables))
            if scoring == "subset_accuracy":
                return subset_accuracy(truth, predicted, mask=-1)
            if target.kind == "columns":  # classes of different columns are different ones
                first = np.cumsum([0, *(len(own) for own in target.classes.classes[:-1])])
                return _mean_over_labels(
                    np.where(truth >= 0, truth + first, -1), predicted + first, False, scoring == "macro_f1"
                )
            return _mean_over_labels(truth, predicted, target.kind == "multilabel", scoring == "macro_f1")

        return score


def _mean_over_labels(truth: np.ndarray, predicted: np.ndarray, table: bool, f1: bool) -> float:
    """Mean over the labels of a table, or over classes, of intersection over union, or of F1, which is 2 IoU / (1 + IoU)."""
    if table:  # the presence of each label is a class of its own, and the absence of all of them one that does not count
        number = np.arange(1, truth.shape[1] + 1)
        truth, predicted = np.where(truth > 0, number, truth), predicted * number
    scores = iou_scores(truth, predicted, mask=-1)
    found = np.array([score for label, score in scores.items() if label or not table])
    return float(np.mean(2 * found / (1 + found) if f1 else found)) if len(found) else 0.0
