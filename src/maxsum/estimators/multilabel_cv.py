"""MultiLabelClassifierCV: the regularisation of a MultiLabelClassifier by cross-validation, with planes shared by all values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, check_cv

from ..core.errors import InvalidSampleError
from ..learning.driver import Learner
from ..learning.paths import path
from .multilabel import MultiLabelClassifier, predicted


class MultiLabelClassifierCV(MultiLabelClassifier):
    """`MultiLabelClassifier` with ``C`` by cross-validation: each fold is trained for all values on one set of planes.

    Parameters
    ----------
    Cs : array-like of float
        Values of ``C`` to try; by default 14 from 1 to 8192.
    cv : int, cross-validation generator or iterable
        As in scikit-learn, but the folds of a number are drawn at random: samples often come sorted by their labels.
    **others
        As in `MultiLabelClassifier`; ``C`` is not used.

    Attributes
    ----------
    C_ : float
        The value with the fewest wrong labels in held-out folds; the smallest of equals.
    cv_errors_ : ndarray, shape (n_folds, n_values)
        Fraction of wrong labels.
    """

    def __init__(
        self,
        Cs: Any = None,
        cv: Any = 5,
        label_graph: Any = "complete",
        potentials: str = "general",
        learner: Learner | str | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        bias: bool = True,
    ):
        super().__init__(label_graph, potentials, learner, 1.0, tol, max_iter, time_limit, random_state, n_jobs, callback, bias)
        del self.C
        self.Cs = Cs
        self.cv = cv

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiLabelClassifierCV:
        """Choose ``C`` by cross-validation, then learn from all samples; parameters as in `MultiLabelClassifier.fit`."""
        X, target, weight = self._read(X, y, sample_weight)
        values = np.sort(2.0 ** np.arange(14) if self.Cs is None else np.asarray(self.Cs, dtype=np.float64).ravel())
        if not len(values):
            raise InvalidSampleError("Cs is empty, wanted at least one number > 0.")
        folds = self.cv
        if isinstance(folds, (int, np.integer)):
            kind = KFold if target.kind == "multilabel" else StratifiedKFold
            folds = kind(folds, shuffle=True, random_state=self.random_state)
        folds = check_cv(folds)
        errors = []
        for train, test in folds.split(X, target.labels):
            part = target._replace(labels=target.labels[train])
            objective, learner, _ = self._objective(X[train], part, weight[train], float(values[0]))
            found = []
            for result in path(learner, objective, values.tolist(), self.callback):
                wrong = predicted(objective.model, result.weights, X[test], objective.n_jobs) != target.labels[test].reshape(
                    len(test), -1
                )
                found.append(np.average(wrong.mean(axis=1), weights=weight[test] if weight[test].any() else None))
            errors.append(found)
        self.cv_errors_ = np.array(errors)
        self.C_ = float(values[np.argmin(self.cv_errors_.mean(axis=0))])
        self._train(X, target, weight, self.C_)
        return self
