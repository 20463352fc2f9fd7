"""MultiLabelClassifier: several labels for one feature vector, predicted together; at home in scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from ..core.errors import InvalidSampleError, OracleError
from ..core.problem import Problem
from ..core.result import Result, Termination
from ..inference.base import Solver
from ..inference.dispatch import TABLE, solve
from ..inference.parallel import thread_map
from ..learning.cutting_plane import CuttingPlane
from ..learning.driver import Learner
from ..learning.multilabel import MultiLabelObjective, SubsetAscent, best_labels, is_small, label_margins, unsuited
from ..learning.objective import MarginObjective, check_C
from ..learning.result import LearningPoint, LearningResult
from ..models.bound import BoundModel
from ..models.multilabel import MultiLabelBound, MultiLabelModel, label_graph, multiclass

_PATIENCE, _HOPELESS = 100, 0.3
LEARNERS = ("SubsetAscent", "BlockFrankWolfe", "CuttingPlane", "Subgradient")


class _Target(NamedTuple):
    """Labels as numbers, (n, L) of 0 and 1 or (n,), and what they stand for."""

    kind: str  # "multilabel", "binary" or "multiclass"
    labels: np.ndarray
    classes: np.ndarray


class MultiLabelClassifier(ClassifierMixin, BaseEstimator):
    r"""Max-sum classifier of several binary labels on a graph, learned by minimising

    .. math:: \tfrac12\|w\|^2 + C \sum_j s_j\,\xi_j(w) \Big/ \sum_j s_j,\qquad
              F(x, y; w) = \sum_l y_l \langle w_l, x\rangle + \sum_{lm} g_{lm}(y_l, y_m),

    with sample weights :math:`s_j` and margin-rescaled slacks :math:`\xi_j` for the number of wrong labels. Up to 18 labels training
    and prediction are exact on every graph. A one-dimensional ``y`` is taken as well: two classes make a linear support vector
    machine, more make that of Crammer and Singer.

    Parameters
    ----------
    label_graph : {"complete", "tree", "none"} or array-like of int, shape (n_edges, 2)
        Which pairs of labels have a table: all; a maximum spanning tree of the mutual information of the training labels; none;
        those given.
    potentials : {"general", "supermodular", "associative", "potts"}
        Tables that are allowed; see `maxsum.models.GraphModel`.
    learner : None, Learner, or its name
        By default `SubsetAscent` for up to 8 labels with general potentials (and `CuttingPlane` where that gets nowhere), else
        `BlockFrankWolfe`; these, and names, with ``tol``,
        ``max_iter``, ``time_limit`` and ``random_state`` of this estimator. A learner that is given keeps its own.
    C : float
        Weight of the slacks. That of `sklearn.svm.LinearSVC` is ours divided by the number of samples.
    tol : float
        Relative gap at which training stops.
    max_iter : int
        Passes over the samples.
    time_limit : float, optional
        Seconds for training.
    random_state : int
    n_jobs : int, optional
        Threads over samples where solvers are called; -1 for one a core.
    callback : callable, optional
        Called with a `LearningPoint` after each pass; a true return value stops the training.
    bias : bool
        Add a constant feature; regularised like every weight.

    Attributes
    ----------
    classes_ : ndarray
        Numbers of the labels, or the classes of a one-dimensional ``y``.
    graph_ : Graph or None
        Graph of the labels.
    weights_ : ndarray, shape (n_weights,)
    coef_blocks_ : dict
        Weights as ``node`` (L, d), ``bias`` (L,) and ``edge`` (n_edges, 2, 2) arrays.
    result_ : LearningResult
        What is proven about the weights.
    objective_ : MarginObjective
        For ``result_.certificate.verify(objective_, result_.weights)``. Samples that repeat are merged, and all are sorted: neither
        their order nor whether one has weight 2 or comes twice changes the answer.
    n_features_in_, n_iter_ : int

    Examples
    --------
    >>> from maxsum.estimators.multilabel import MultiLabelClassifier
    >>> X, Y = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [[0, 1], [1, 0], [1, 1]]
    >>> MultiLabelClassifier(C=100.0).fit(X, Y).predict([[2.0, 0.0]]).tolist()
    [[1, 0]]
    """

    def __init__(
        self,
        label_graph: Any = "complete",
        potentials: str = "general",
        learner: Learner | str | None = None,
        C: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        bias: bool = True,
    ):
        self.label_graph = label_graph
        self.potentials = potentials
        self.learner = learner
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.bias = bias

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    # ---- training ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiLabelClassifier:
        """Learn weights; an earlier fit is forgotten.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
        y : array-like or sparse matrix, shape (n_samples, n_labels) of 0 and 1, or (n_samples,)
        sample_weight : array-like, shape (n_samples,), optional
            Weights >= 0 of the slacks.
        """
        X, target, weight = self._read(X, y, sample_weight)
        return self._train(X, target, weight, self.C)

    def _train(self, X: Any, target: _Target, weight: np.ndarray, C: float) -> MultiLabelClassifier:
        objective, learner, chosen = self._objective(X, target, weight, C)
        result = self._minimise(objective, learner)
        result.extra.pop("planes", None)
        self.classes_, self._kind = target.classes, target.kind
        self.model_: BoundModel = objective.model
        self.objective_, self.result_ = objective, replace(result, message=f"{result.message} {chosen}")
        self.graph_ = self.model_.graph if isinstance(self.model_, MultiLabelBound) else None
        self.weights_, self.n_iter_ = result.weights, result.n_iter
        if result.termination != Termination.converged and result.relative_gap > 1e-9:
            warnings.warn(
                f"{result.learner} ended ({result.termination.replace('_', ' ')}) after {result.n_iter} passes with the objective "
                f"{result.objective:.6g} and the lower bound {result.lower_bound:.6g}: a relative gap of {result.relative_gap:.2g}, "
                f"wanted {learner.tol:g}. Raise max_iter or time_limit, or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _minimise(self, objective: MarginObjective, learner: Learner) -> LearningResult:
        """The learner; `CuttingPlane` takes over where nobody chose, and ascent on ill-conditioned features gets nowhere."""
        if self.learner is not None or not isinstance(learner, SubsetAscent):
            return learner.fit(objective, self.callback)
        slow = []

        def watch(point: LearningPoint) -> Any:
            if point.iteration >= _PATIENCE and point.relative_gap > _HOPELESS:
                slow.append(point)
            return slow or (self.callback is not None and self.callback(point))

        result = learner.fit(objective, watch)
        if not slow or learner.max_iter <= _PATIENCE:
            return result
        left = None if learner.time_limit is None else max(0.0, learner.time_limit - result.seconds)
        second = CuttingPlane(
            tol=learner.tol, max_iter=learner.max_iter - _PATIENCE, time_limit=left, random_state=learner.random_state
        )
        other = second.fit(objective, self.callback)
        if other.relative_gap >= result.relative_gap:
            return result
        return replace(
            other,
            message=f"{other.message} SubsetAscent was left at a gap of {slow[0].relative_gap:.2g} after {_PATIENCE} passes: are "
            "features of very different size, or far from 0?",
            n_iter=result.n_iter + other.n_iter,
            n_oracle_calls=result.n_oracle_calls + other.n_oracle_calls,
            seconds=result.seconds + other.seconds,
        )

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, _Target, np.ndarray]:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y.toarray() if sparse.issparse(y) else y, warn=True)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return _features(X, self.bias), _target(y), weight

    def _objective(
        self, X: Any, target: _Target, weight: np.ndarray, C: float
    ) -> tuple[MarginObjective | MultiLabelObjective, Learner, str]:
        """The objective, the learner, and a sentence on why it is this one."""
        check_C(C)
        jobs = _jobs(self.n_jobs)
        graph = None
        if target.kind != "multiclass":
            graph = label_graph(self.label_graph, target.labels, np.where(weight.any(), weight, 1.0))
        X, labels, weight = _merged(X, target.labels, weight)
        if graph is None:
            plain = MarginObjective(multiclass(X, labels, target.classes), C, sample_weight=weight, n_jobs=jobs)
            return plain, self._learner("BlockFrankWolfe"), "BlockFrankWolfe: one node with several classes."
        bound = MultiLabelModel(graph, self.potentials).bind(X, labels)
        why = unsuited(bound)
        name = "BlockFrankWolfe" if why else "SubsetAscent"
        reason = f"SubsetAscent {why}" if why else "all subsets of so few labels are scored"
        objective = MultiLabelObjective(bound, C, sample_weight=weight, n_jobs=jobs)
        return objective, self._learner(name), "" if self.learner is not None else f"{name}, as {reason}."

    def _learner(self, default: str) -> Learner:
        if isinstance(self.learner, Learner):
            return self.learner
        if self.learner is not None and self.learner not in LEARNERS:
            raise InvalidSampleError(f"learner is {self.learner!r}, wanted None, a Learner, or one of {', '.join(LEARNERS)}.")
        name = default if self.learner is None else self.learner
        from .. import learning

        kind = SubsetAscent if name == "SubsetAscent" else getattr(learning, name)
        own: Learner = kind(tol=self.tol, max_iter=self.max_iter, time_limit=self.time_limit, random_state=self.random_state)
        return own

    # ---- prediction --------------------------------------------------------------------------------------------

    def _new(self, X: Any) -> Any:
        check_is_fitted(self, "weights_")
        return _features(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False), self.bias)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_samples, n_labels) of 0 and 1, or classes (n_samples,)."""
        X = self._new(X)
        labels = predicted(self.model_, self.weights_, X, _jobs(self.n_jobs))
        return labels.astype(np.int64) if self._kind == "multilabel" else self.classes_[labels[:, 0]]

    def decision_function(self, X: Any) -> np.ndarray:
        """How much the best labelling with each label scores more than the best without it, (n_samples, n_labels).

        For a one-dimensional ``y`` the scores of its classes, or of the second of two.
        """
        X = self._new(X)
        if not isinstance(self.model_, MultiLabelBound):
            return self.model_.unary(self.weights_, self.model_.encode(X))
        if is_small(self.model_):
            margins = label_margins(self.model_, self.weights_, X)
        else:
            problems = self.model_.problems(self.weights_, X)
            margins = np.array([_margins(p) for p in problems]).reshape(len(problems), self.model_.graph.n_nodes)
        return margins[:, 0] if self._kind == "binary" else margins

    def predict_result(self, X: Any, solver: Solver | str | None = None) -> list[Result]:
        """Best labellings as numbers, each with a proof of how good it is.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
        solver : Solver or str, optional
            By default the exact one that fits the structure, and `TRWS` elsewhere.
        """
        return self._results(self._new(X), solver)

    def _results(self, X: Any, solver: Solver | str | None) -> list[Result]:
        problems = self.model_.problems(self.weights_, X)
        return thread_map(lambda problem: _best(problem, solver), problems, _jobs(self.n_jobs))

    @property
    def coef_blocks_(self) -> dict[str, np.ndarray]:
        check_is_fitted(self, "weights_")
        if isinstance(self.model_, MultiLabelBound):
            node, edge = self.model_.blocks(self.weights_)
        else:
            node, edge = self.weights_.reshape(-1, len(self.classes_)).T, np.zeros((0, 2, 2))
        d = self.n_features_in_
        return {"node": node[:, :d].copy(), "bias": node[:, d].copy() if self.bias else np.zeros(len(node)), "edge": edge}


def predicted(model: BoundModel, w: np.ndarray, X: Any, n_jobs: int) -> np.ndarray:
    """Best labels as numbers, (n, L)."""
    if not isinstance(model, MultiLabelBound):
        return np.argmax(model.unary(w, model.encode(X)), axis=1)[:, None]
    if is_small(model):
        return best_labels(model, w, X)
    results = thread_map(lambda problem: _best(problem, None), model.problems(w, X), n_jobs)
    return np.array([_labels(j, result) for j, result in enumerate(results)], dtype=np.int32)


def _features(X: Any, bias: bool) -> Any:
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        X.sum_duplicates()
        return sparse.csr_array(sparse.hstack([X, np.ones((X.shape[0], 1))], format="csr")) if bias else X
    X = X + 0.0
    return np.hstack([X, np.ones((len(X), 1))]) if bias else np.ascontiguousarray(X)


def _target(y: Any) -> _Target:
    kind = type_of_target(y, input_name="y")
    if kind == "multilabel-indicator":
        labels = np.asarray(y.toarray() if sparse.issparse(y) else y)
        other = np.argwhere((labels != 0) & (labels != 1))
        if len(other):
            j, m = other[0]
            raise InvalidSampleError(f"y of sample {j} has {labels[j, m]} for label {m}, wanted 0 or 1.")
        return _Target("multilabel", labels.astype(np.int32), np.arange(labels.shape[1]))
    if y.ndim != 1:
        raise InvalidSampleError(
            f"y has shape {y.shape} and is {kind}, wanted (n_samples, n_labels) of 0 and 1, or (n_samples,)."
        )
    classes, coded = np.unique(y, return_inverse=True)
    if len(classes) == 2:
        return _Target("binary", coded.reshape(-1, 1).astype(np.int32), classes)
    return _Target("multiclass", coded.astype(np.int32), classes)


def _merged(X: Any, labels: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Samples that are the same as one, those of weight 0 left out, in the order of their bytes."""
    keep = np.flatnonzero(weight > 0) if weight.any() else np.arange(len(weight))
    keys = {}
    for j in keep.tolist():
        if sparse.issparse(X):
            row = slice(X.indptr[j], X.indptr[j + 1])
            own = X.indices[row].astype(np.int64).tobytes() + X.data[row].tobytes()
        else:
            own = X[j].tobytes()
        keys[j] = labels[j].tobytes() + own
    first: dict[bytes, int] = {}
    total: dict[bytes, float] = {}
    for j, key in keys.items():
        first.setdefault(key, j)
        total[key] = total.get(key, 0.0) + float(weight[j])
    order = sorted(first)
    rows = np.array([first[key] for key in order], dtype=np.int64)
    return X[rows], labels[rows], np.array([total[key] for key in order])


def _best(problem: Problem, solver: Solver | str | None) -> Result:
    if solver is not None:
        return solve(problem, solver)
    exact = not problem.n_edges or any(row.fits(problem) for row in TABLE)
    return solve(problem, None if exact else "TRWS")


def _labels(j: int, result: Result) -> np.ndarray:
    if result.labels is None:
        raise OracleError(f"sample {j}: {result.solver} found no labelling ({result.message}). Try another solver.")
    return result.labels


def _margins(problem: Problem) -> np.ndarray:
    """What each label 1 gains over label 0, with the best labels elsewhere."""
    best = _best(problem, None)
    labels = _labels(0, best)
    out = np.zeros(len(labels))
    for m, label in enumerate(labels):
        unary = problem.unary.copy()
        unary[m, label] = -np.inf
        other = _best(
            Problem(problem.graph, unary, problem.tables, problem.edge_table, problem.edge_weight, problem.n_states), None
        )
        out[m] = (best.score - other.score) * (1 if label else -1)
    return out


def _jobs(n_jobs: Any) -> int:
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0 or n_jobs < -1:
        raise InvalidSampleError(f"n_jobs is {n_jobs!r}, wanted None, a number of threads >= 1, or -1 for one a core.")
    return int(n_jobs)
