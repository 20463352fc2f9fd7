"""MultiLabelClassifier: several labels for one feature vector, predicted together; at home in scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from ..core.memory import check_room
from ..core.parameters import Elsewhere, OneOf, settings
from ..core.result import Result
from ..executors.threads import thread_map
from ..inference.base import Solver
from ..learning.driver import Learner
from ..learning.objectives.likelihood import marginals
from ..learning.objectives.multilabel import is_small, label_margins
from ..learning.objectives.smooth import SmoothObjective
from ..learning.objectives.stored import StoredObjective
from ..learning.result import LearningResult
from ..losses import Loss
from ..models.bound import BoundModel
from ..models.convex import ConvexBound
from ..models.multilabel import MultiLabelBound
from .choices import check_likelihood, started, unfinished, within
from .convex import convex_blocks, is_convex, points, results, warm_weights
from .memory import multilabel_bytes
from .multilabel_data import Data, hidden, named_samples, read_target, same_data, with_bias
from .multilabel_training import SURROGATES, LabelSetPlan, minimise, prepare
from .params import NestedParameters
from .solving import SOME_JOBS, as_jobs, best, default_solver, given_solver, label_gains, own_solver, predicted


class MultiLabelClassifier(ClassifierMixin, NestedParameters):
    r"""Max-sum classifier of several binary labels on a graph, learned by minimising

    .. math:: \tfrac12\|w\|^2 + C \sum_j s_j\,\xi_j(w),\qquad
              F(x, y; w) = \sum_l y_l \langle w_l, x\rangle + \sum_{lm} g_{lm}(y_l, y_m),

    with sample weights :math:`s_j` and margin-rescaled slacks :math:`\xi_j` for the number of wrong labels. Up to 18 labels training
    and prediction are exact on every graph. A one-dimensional ``y`` is taken as well: two classes make a linear support vector
    machine, more make that of Crammer and Singer.

    Parameters
    ----------
    label_graph : {"complete", "tree", "none"} or array-like of int, shape (n_edges, 2)
        Which pairs of labels have a table: all; a maximum spanning tree of the mutual information of the training labels; none;
        those given.
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"} or Convex
        Tables that are allowed; see `maxsum.models.GraphModel`, and `maxsum.models.Convex` for the surrogates ``qp`` and ``logistic``,
        which take general, auto and convex as the same. Auto: general up to 18 labels and on forests, supermodular for more
        labels on graphs with cycles, where training and prediction are then exact.
    learner : None, "auto", Learner, or its name
        By default `SubsetAscent` for up to 8 labels with general potentials (and `CuttingPlane` where that gets nowhere), else
        `BlockFrankWolfe`; these, and names, with ``tol``,
        ``max_iter``, ``time_limit`` and ``random_state`` of this estimator. A learner that is given keeps its own, and can be searched
        over as ``learner__tol``.
    C : float
        Weight of the slacks, as in `sklearn.svm.LinearSVC`.
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
    surrogate : {"margin", "lp", "qp", "logistic", "likelihood", "auto"}
        Margin-rescaled hinge, with the exact maximum, with that of the linear relaxation (`LPObjective`), or with that of a convex
        quadratic one (`QPObjective`); or the logistic loss of its unconstrained minimiser (`LogisticObjective`), which is not convex in
        the weights: no lower bound is claimed for it. These two predict what they learned: a rounded point. Or the conditional
        log-likelihood (`LikelihoodObjective`), whose probabilities `predict_marginals` gives.
    loss : {"hamming", "normalised"}, (K, K) table of costs, or Loss
        Number of wrong labels, or their fraction; K is 2 for tables of labels.
    oracle : None, "auto", str, Solver or callable
        Who maximises loss-augmented problems in training: all sets of labels up to 18, an exact solver where one fits the graph, else
        TRW-S with brackets. A solver, or its name, predicts too.
    class_weight : "balanced", dict, list of dicts, or array-like of shape (K,), optional
        What missing each class costs; with tables of labels the classes are 0 and 1 for all labels, or for each by a list of dicts.
    warm_start : bool
        A second `fit` on the same data (C, tolerance and limits may change) goes on from what the first left; on other data it starts
        from nothing, but qp and logistic from the weights, if these mean the same.
    smoothing : float
        Temperature of the entropy-smoothed ``lp`` surrogate; 0 for the linear relaxation itself.
    solver : None, "auto", str or Solver
        Who predicts, where `predict` is not told; by default as in `predict_result`.
    checkpoint : path, optional
        File that the state of the training is written to, and that training goes on from if it exists.
    checkpoint_seconds : float
        Least time between two checkpoints.

    Attributes
    ----------
    classes_ : ndarray
        Numbers of the labels, or the classes of a one-dimensional ``y``.
    graph_ : Graph or None
        Graph of the labels.
    weights_ : ndarray, shape (n_weights,)
    coef_blocks_ : dict
        Weights as ``node`` (L, d), ``bias`` (L,) and ``edge`` (n_edges, 2, 2) arrays; with convex energies ``linear`` (n_edges, 4) and
        ``matrices`` (n_edges, 4, 4) in the place of ``edge``.
    result_ : LearningResult
        What is proven about the weights.
    objective_ : MarginObjective
        For ``result_.verify(objective_)``. Samples that repeat are merged, and all are sorted: neither
        their order nor whether one has weight 2 or comes twice changes the answer.
    n_features_in_, n_iter_ : int

    Examples
    --------
    >>> from maxsum import MultiLabelClassifier
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
        surrogate: str = "margin",
        loss: Loss | str | Any = "hamming",
        oracle: Any = None,
        class_weight: Any = None,
        warm_start: bool = False,
        smoothing: float = 0.0,
        solver: Solver | str | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 30.0,
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
        self.surrogate = surrogate
        self.loss = loss
        self.oracle = oracle
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.solver = solver
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds

    _parameters = settings(
        surrogate=OneOf(*SURROGATES, "auto"),
        label_graph=Elsewhere("the name of a graph, or pairs of labels that the data have"),
        n_jobs=SOME_JOBS,
    )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Without what a warm start needs: it holds the callback."""
        state = dict(super().__getstate__())
        state.pop("_planes", None)
        return state

    # ---- training ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn weights; an earlier fit is forgotten, unless ``warm_start`` is on and the data are the same.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
        y : array-like or sparse matrix, shape (n_samples, n_labels) of 0 and 1, or (n_samples,)
            In tables -1, None or a mask says that a label is unknown: it, and the edges of the label graph at it, are left out of the
            training on this sample. One-dimensional labels can be masked; there -1 is a class like others.
        sample_weight : array-like, shape (n_samples,), optional
            Weights >= 0 of the slacks.
        """
        clock = started(self)
        prepared = self._prepare(self._read(X, y, sample_weight), self.C)
        return self._train(prepared._replace(learner=within(self, prepared.learner, clock)))

    def _train(self, prepared: LabelSetPlan) -> Self:
        prepared, planes = self._warm(prepared)
        learner = prepared.learner
        result = minimise(self, prepared.objective, learner, planes)
        self._planes = result.extra.pop("planes", None) if self.warm_start else None
        self._accept(prepared, result)
        words = unfinished(result, learner)
        if words:
            warnings.warn(words, ConvergenceWarning, stacklevel=3)
        return self

    def _accept(self, prepared: LabelSetPlan, result: LearningResult) -> None:
        """What was learned, as attributes."""
        result.extra.pop("planes", None)
        self.classes_, self._kind = prepared.target.classes, prepared.target.kind
        self.model_, self.objective_ = prepared.model, prepared.objective
        self.result_ = replace(result, message=f"{result.message} {prepared.chosen}")
        base = self._base
        self.graph_ = base.graph if isinstance(base, MultiLabelBound) else None
        self.weights_, self.n_iter_ = result.weights, result.n_iter

    @property
    def _base(self) -> BoundModel:
        """The model of features and labels, below convex energies if there are any."""
        return self.model_.base if isinstance(self.model_, ConvexBound) else self.model_

    def _warm(self, prepared: LabelSetPlan) -> tuple[LabelSetPlan, Any]:
        """The objective of the last fit and its planes, if they are of the same data; else the new one and no planes."""
        before: Any = getattr(self, "objective_", None)
        if self.warm_start and isinstance(before, StoredObjective):
            before.refuse_warm_start()
        new = prepared.objective
        if isinstance(new, SmoothObjective):
            same = self.warm_start and type(before) is type(new)
            return prepared, warm_weights(before, new, self.result_.weights) if same else None
        planes = getattr(self, "_planes", None)
        if not self.warm_start or planes is None or type(before) is not type(new) or not same_data(before, new):
            return prepared, None
        before.sample_weight, before.n_jobs = new.sample_weight, new.n_jobs
        before.oracle, before.exact = new.oracle, new.exact
        before.set_C(new.C)
        return prepared._replace(objective=before), planes

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Data:
        check_room(multilabel_bytes(X, y), "this training set")
        y, unknown = hidden(y)
        with named_samples(X):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y.toarray() if sparse.issparse(y) else y, warn=True)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if unknown is not None and y.ndim == 1:
            keep = np.flatnonzero(~unknown)
            X, y, weight = X[keep], y[keep], weight[keep]
        check_classification_targets(y)
        return Data(with_bias(X, self.bias), read_target(y, unknown if y.ndim == 2 else None), weight)

    def _prepare(self, data: Data, C: float) -> LabelSetPlan:
        return prepare(self, data, C)

    def _fold(self, data: Data, whole: LabelSetPlan, C: float) -> LabelSetPlan:
        return self._prepare(data, C)

    def _splits(self, data: Data, folds: Any) -> Iterable[Any]:
        return folds.split(data.X, data.target.labels)

    def _scorer(self, prepared: LabelSetPlan, data: Data) -> Callable[[LearningResult], float]:
        """Fraction of right labels among those known, on other data; NaN where none is."""
        truth, jobs = data.target.labels.reshape(len(data.weight), -1), as_jobs(self.n_jobs, 1)
        weight = (truth >= 0) * (data.weight if data.weight.any() else np.ones(len(truth)))[:, None]

        def score(result: LearningResult) -> float:
            right = self._labels(prepared.objective, prepared.model, result.weights, data.X, jobs) == truth
            return float((right * weight).sum() / weight.sum()) if weight.any() else np.nan

        return score

    # ---- prediction --------------------------------------------------------------------------------------------

    def _new(self, X: Any) -> Any:
        check_is_fitted(self, "weights_")
        with named_samples(X):
            new = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return with_bias(new, self.bias)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_samples, n_labels) of 0 and 1, or classes (n_samples,)."""
        X = self._new(X)
        labels = self._labels(self.objective_, self.model_, self.weights_, X, as_jobs(self.n_jobs, 1))
        return labels.astype(np.int64) if self._kind == "multilabel" else self.classes_[labels[:, 0]]

    def _labels(self, objective: Any, model: Any, w: np.ndarray, X: Any, jobs: int) -> np.ndarray:
        """Predicted labels as numbers, (n, L)."""
        if own_solver(self, None) is not None or not is_convex(objective):
            return predicted(model, w, X, jobs, given_solver(own_solver(self, None), self.oracle))
        return np.array([own.labels for own in points(objective, model, w, X, jobs)], dtype=np.int32).reshape(X.shape[0], -1)

    def decision_function(self, X: Any) -> np.ndarray:
        """How much the best labelling with each label scores more than the best without it, (n_samples, n_labels).

        For a one-dimensional ``y`` the scores of its classes, or of the second of two. With the surrogates ``qp`` and ``logistic``
        the entry of each label (class) in the point that `predict` rounds, less that of its absence.
        """
        X = self._new(X)
        if is_convex(self.objective_):
            found = points(self.objective_, self.model_, self.weights_, X, as_jobs(self.n_jobs, 1))
            mu = np.array([own.mu for own in found]).reshape(X.shape[0], -1, self.model_.n_labels)
            if self._kind == "multiclass":
                return mu[:, 0]
            margins = mu[:, :, 1] - mu[:, :, 0]
            return margins[:, 0] if self._kind == "binary" else margins
        if not isinstance(self.model_, MultiLabelBound):
            return self.model_.unary(self.weights_, self.model_.encode(X))
        if is_small(self.model_):
            margins = label_margins(self.model_, self.weights_, X)
        else:
            problems, who = self.model_.problems(self.weights_, X), self._solver(None)
            found = thread_map(lambda problem: label_gains(problem, who), problems, as_jobs(self.n_jobs, 1))
            margins = np.array(found).reshape(len(problems), self.model_.graph.n_nodes)
        return margins[:, 0] if self._kind == "binary" else margins

    def predict_result(self, X: Any, solver: Solver | str | None = None) -> list[Result]:
        """Best labellings as numbers, each with a proof of how good it is.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
        solver : Solver or str, optional
            By default the exact one that fits the structure, and `TRWS` elsewhere; with the surrogates ``qp`` and ``logistic`` as in
            `GraphLabeler.predict_result`.
        """
        return self._results(self._new(X), own_solver(self, solver))

    def _solver(self, solver: Solver | str | None) -> Solver | str | None:
        given = given_solver(own_solver(self, solver), self.oracle)
        return default_solver(self.model_) if given is None else given

    def _results(self, X: Any, solver: Solver | str | None) -> list[Result]:
        if solver is None and is_convex(self.objective_):
            return results(self.objective_, self.model_, self.weights_, X, as_jobs(self.n_jobs, 1))
        problems, who = self.model_.problems(self.weights_, X), self._solver(solver)
        return thread_map(lambda problem: best(problem, who), problems, as_jobs(self.n_jobs, 1))

    def predict_marginals(self, X: Any, edge_marginals: bool = False) -> Any:
        r"""Probabilities of labels under :math:`p(y) = e^{F(x, y)} / Z`, after training with ``surrogate="likelihood"``.

        Exact on graphs of small width (up to about 13 labels on any graph); elsewhere those of the tree-reweighted bound that
        training minimises.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
        edge_marginals : bool
            Give those of pairs of labels as well.

        Returns
        -------
        labels : ndarray, shape (n_samples, n_labels)
            Probability that each label is there; (n_samples, n_classes) for a one-dimensional ``y``.
        edges : ndarray, shape (n_samples, n_edges, 2, 2)
            With ``edge_marginals``: for each edge of ``graph_`` the values of its first label, then of its second.
        """
        X = self._new(X)
        check_likelihood(self.objective_, self.surrogate)
        found = marginals(self.model_, self.weights_, X, as_jobs(self.n_jobs, 1))
        size = self.model_.n_labels
        node = np.array([own.node for own in found]).reshape(X.shape[0], -1, size)
        labels = node[:, :, 1] if self._kind == "multilabel" else node[:, 0]
        if not edge_marginals:
            return labels
        return labels, np.array([own.edge for own in found]).reshape(X.shape[0], -1, size, size)

    @property
    def coef_blocks_(self) -> dict[str, np.ndarray]:
        check_is_fitted(self, "weights_")
        model, base, weights = self.model_, self._base, self.weights_
        pairs: dict[str, np.ndarray] = {}
        if isinstance(model, ConvexBound):
            weights, terms, matrices = convex_blocks(model, weights)
            n = len(terms) if self.graph_ is not None else 0
            pairs = {"linear": np.array(terms[:n]).reshape(n, 4), "matrices": np.array(matrices[:n]).reshape(n, 4, 4)}
        if isinstance(base, MultiLabelBound):
            node, edge = base.blocks(weights)
        else:
            node, edge = weights.reshape(-1, len(self.classes_)).T, np.zeros((0, 2, 2))
        d = self.n_features_in_
        first = {"node": node[:, :d].copy(), "bias": node[:, d].copy() if self.bias else np.zeros(len(node))}
        return first | (pairs or {"edge": edge})
