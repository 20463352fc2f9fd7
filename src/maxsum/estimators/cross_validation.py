"""Regularisation by cross-validation: each fold is trained for all values of C on a warm path, then all samples once."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, check_cv

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.parameters import RELATIVE_GAP, Elsewhere, check, settings
from ..core.result import Termination
from ..learning.objectives.base import check_C
from ..learning.paths import path
from ..learning.result import LearningResult
from ..shards.dataset import ShardedDataset
from .graph import GraphLabeler
from .grid import GridLabeler
from .sequence import SequenceLabeler

VALUES = tuple(float(2**i) for i in range(14))


class CrossValidated:
    """What estimators with ``C`` by cross-validation share; put before the plain estimator in the list of bases.

    Their parameters are ``Cs``, ``cv``, ``cv_tol``, and those of the plain estimator without ``C``.
    """

    Cs: Any
    cv: Any
    cv_tol: float

    _parameters = settings(
        C=None,
        Cs=Elsewhere("None, or a list of numbers > 0"),
        cv=Elsewhere("what scikit-learn's check_cv takes"),
        cv_tol=RELATIVE_GAP,
    )

    if TYPE_CHECKING:

        def __init__(self, Cs: Any = VALUES, cv: Any = None, cv_tol: float = 1e-2, **parameters: Any) -> None: ...

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        if "__init__" not in vars(cls) and CrossValidated in cls.__bases__:
            cls.__init__ = _init_like(cls.__bases__[1])  # type: ignore[method-assign,misc]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, executor: Any = None) -> Self:
        """Choose ``C`` by cross-validation, then learn from all samples; parameters as in `fit` of the plain estimator, but no shards."""
        own: Any = self
        if isinstance(X, ShardedDataset) or executor is not None:
            raise InvalidParameterError(
                "X is in shards, or an executor is given; cross-validation wants samples in memory. Use the plain estimator."
            )
        check(self)
        values, folds = self._values(), self._folds()
        data = own._read(X, y, sample_weight)
        whole = own._prepare(data, float(values[0]))
        scores, late = [], []
        for k, (train, test) in enumerate(own._splits(data, folds)):
            part = own._fold(data.take(train), whole, float(values[0]))
            learner = replace(part.learner, tol=max(part.learner.tol, self.cv_tol))
            if learner.checkpoint is not None:
                learner = replace(learner, checkpoint=f"{learner.checkpoint}.fold{k}")
            results = path(learner, part.objective, values, own.callback)
            late += [result for result in results if _is_late(result, learner.tol)]
            score = own._scorer(part, data.take(test))
            scores.append([score(result) for result in results])
        found = np.array(scores).T
        known = ~np.isnan(found).all(axis=0)
        if not known.any():
            raise InvalidSampleError("no fold has a known label, so C cannot be chosen; wanted at least one.")
        self.Cs_, self.scores_ = values, found
        self.C_ = float(values[np.argmax(found[:, known].mean(axis=1))])
        _warn(late, found.size, self.cv_tol)
        whole.objective.set_C(self.C_)
        own._train(whole)
        chosen = f"C = {self.C_:g} by {found.shape[1]}-fold cross-validation of {len(values)} values."
        own.result_ = replace(own.result_, message=f"{own.result_.message} {chosen}")
        return self

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
        return KFold(self.cv, shuffle=True, random_state=own.random_state)


def _init_like(plain: type) -> Any:
    """``__init__`` with the parameters of another class, ``Cs``, ``cv`` and ``cv_tol`` in the place of ``C``."""
    theirs = inspect.signature(plain.__init__).parameters  # type: ignore[misc]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    ours = [inspect.Parameter(name, kind, default=value) for name, value in (("Cs", None), ("cv", 5), ("cv_tol", 1e-2))]
    me, *others = theirs.values()
    signature = inspect.Signature([me, *ours, *(other for other in others if other.name != "C")])

    def __init__(self: Any, *args: Any, **params: Any) -> None:
        given = signature.bind(self, *args, **params)
        given.apply_defaults()
        for name in list(signature.parameters)[1:]:
            setattr(self, name, given.arguments[name])

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


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


class GraphLabelerCV(CrossValidated, GraphLabeler):
    """`GraphLabeler` with ``C`` by cross-validation over samples.

    Planes of a fold serve all values of ``C`` (weights, with the surrogates ``qp`` and ``logistic``, start the training for the next
    one), so 14 of them cost little more than the most expensive one.

    Parameters
    ----------
    Cs : array-like of float, optional
        Values of ``C`` to try; by default 14 from 1 to 8192.
    cv : int, cross-validation generator or iterable
        As in scikit-learn, but the folds of a number are drawn at random: samples often come sorted.
    cv_tol : float
        Relative gap at which trainings in folds stop; that of the last training is ``tol``, and the larger of both counts.
    **others
        As in `GraphLabeler`, without ``C``. ``time_limit`` and ``max_iter`` are for each training. Classes are those of all samples,
        declared or found, also in folds that lack some.

    Attributes
    ----------
    C_ : float
        The value with the best mean score of held-out folds; the smallest of equals.
    Cs_ : ndarray, shape (n_values,)
        Values that were tried, in order.
    scores_ : ndarray, shape (n_values, n_folds)
        Fraction of right labels in held-out folds; NaN for folds without known labels.
    others
        As in `GraphLabeler`, of the training on all samples with ``C_``.

    Examples
    --------
    >>> import maxsum as ms
    >>> samples = [ms.GraphSample([0, 1, 1], ms.Graph.chain(3)), ms.GraphSample([1, 0], ms.Graph.chain(2))] * 2
    >>> ms.GraphLabelerCV(Cs=[0.1, 10.0], cv=2).fit(samples, [["a", "b", "b"], ["b", "a"]] * 2).scores_.shape
    (2, 2)
    """


class GridLabelerCV(CrossValidated, GridLabeler):
    """`GridLabeler` with ``C`` by cross-validation over images.

    Parameters and attributes are those of `GridLabeler` without ``C``, and ``Cs``, ``cv``, ``cv_tol``, ``C_``, ``Cs_`` and
    ``scores_`` as in `GraphLabelerCV`. The contrast parameter of a fold is that of its own training images.
    """


class SequenceLabelerCV(CrossValidated, SequenceLabeler):
    """`SequenceLabeler` with ``C`` by cross-validation over sequences.

    Parameters and attributes are those of `SequenceLabeler` without ``C``, and ``Cs``, ``cv``, ``cv_tol``, ``C_``, ``Cs_`` and
    ``scores_`` as in `GraphLabelerCV`.
    """
