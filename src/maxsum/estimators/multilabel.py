"""MultiLabelClassifier: several labels for one feature vector, predicted together; at home in scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.memory import check_room
from ..core.parameters import Elsewhere, Maybe, OneOf, settings
from ..core.validation import label_array, missing
from ..executors.threads import thread_map
from ..inference.base import Solver
from ..learning.driver import Learner
from ..learning.learners.subset_ascent import SubsetAscent
from ..learning.objectives.multilabel import best_labels, is_small, label_margins
from ..losses import Hamming, Loss
from ..models.bound import BoundModel
from ..models.convex import ConvexBound
from ..models.multilabel import MultiLabelBound, MultiLabelModel, label_graph, multiclass
from .answers.inspection import column_names, pair_names, place_of
from .base import convex_blocks
from .costs import check_weighted
from .memory import model_bytes, multilabel_bytes
from .pipeline import Bound, Data, MaxSumEstimator, label_gains, labels_of, who_solves
from .settings import Settings, as_jobs
from .surrogates import SURROGATES, surrogate_of
from .tables.columns import (
    Columns,
    bound_columns,
    cells_of,
    column_blocks,
    column_costs,
    columns_graph,
    read_columns,
    samples_of,
)
from .tables.target import (
    Target,
    class_costs,
    for_graph,
    hidden,
    iou_costs,
    merged,
    named_samples,
    open_potentials,
    partly_known,
    read_target,
    weighted,
    with_bias,
)
from .targets import UNKNOWN, UNSEEN, unmasked


class MultiLabelClassifier(ClassifierMixin, MaxSumEstimator):
    r"""Max-sum classifier of several binary labels on a graph, learned by minimising

    .. math:: \tfrac12\|w\|^2 + C \sum_j s_j\,\xi_j(w),\qquad
              F(x, y; w) = \sum_l y_l \langle w_l, x\rangle + \sum_{lm} g_{lm}(y_l, y_m),

    with sample weights :math:`s_j` and margin-rescaled slacks :math:`\xi_j` for the number of wrong labels. Up to 18 labels training
    and prediction are exact on every graph. A one-dimensional ``y`` is taken as well: two classes make a linear support vector
    machine, more make that of Crammer and Singer.

    Parameters
    ----------
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"}, Convex or None
        Tables that are allowed; see `maxsum.models.GraphModel`, and `maxsum.models.Convex` for the surrogates ``qp`` and ``logistic``,
        which take general, auto and convex as the same. Auto: general up to 18 labels and on forests, supermodular for more
        labels on graphs with cycles, where training and prediction are then exact.
    surrogate : {"margin", "lp", "qp", "logistic", "likelihood", "pseudolikelihood", "auto"} or None
        Margin-rescaled hinge, with the exact maximum, with that of the linear relaxation (`LPObjective`), or with that of a convex
        quadratic one (`QPObjective`); or the logistic loss of its unconstrained minimiser (`LogisticObjective`), which is not convex in
        the weights: no lower bound is claimed for it. These two predict what they learned: a rounded point. Or the conditional
        log-likelihood (`LikelihoodObjective`), whose probabilities `predict_marginals` gives.
    learner : None, "auto", Learner, or its name
        By default `SubsetAscent` for up to 8 labels with general potentials (and `CuttingPlane` where that gets nowhere), else
        `BlockFrankWolfe`; these, and names, with ``tol``,
        ``max_iter``, ``time_limit`` and ``random_state`` of this estimator. A learner that is given keeps its own, and can be searched
        over as ``learner__tol``.
    loss : {"hamming", "normalised", "zero_one"}, (K, K) table of costs, or Loss
        Number of wrong labels, or their fraction; K is 2 for tables of labels.
    oracle : None, "auto", str, Solver or callable
        Who maximises loss-augmented problems in training: all sets of labels up to 18, an exact solver where one fits the graph, else
        TRW-S with brackets. A solver, or its name, predicts too.
    C : float
        Weight of the sum of the slacks, as in `sklearn.svm.LinearSVC`.
    tol : float
        Relative gap at which training stops.
    max_iter : int
        Passes over the samples.
    time_limit : float, optional
        Seconds for training.
    random_state : int, RandomState or None
        Seed of the learner; None draws another for each fit.
    n_jobs : int, optional
        Threads over samples, in training and prediction; None for one, -1 for one a core.
    callback : callable, optional
        Called with a `LearningPoint` after each pass; a true return value stops the training.
    verbose : int
        1 shows objective, bound, gap and an estimate of the time that is left on stderr: one live line on a terminal, at most a line a second elsewhere.
    bias : bool
        Add a constant feature; regularised like every weight.
    label_graph : {"complete", "tree", "none"} or array-like of int, shape (n_edges, 2)
        Which pairs of labels have a table: all; a maximum spanning tree of the mutual information of the training labels; none;
        those given.
    checkpoint : path, optional
        File that the state of the training is written to, and that training goes on from if it exists.
    class_weight : "balanced", "iou", dict, list of dicts, or array-like of shape (K,), optional
        What missing each class costs; iou as in `GraphLabeler`, of a table each label by itself; with tables of labels the classes are 0 and 1 for all labels, or for each by a list of dicts.
    forbidden : list of pairs, optional
        Values of two columns that exclude each other, ``((column, value), (column, value))`` with the number or name of a column, exactly, in training and
        prediction; the columns have an edge in ``label_graph``. With ``surrogate="margin"`` or ``"likelihood"``.
    warm_start : bool
        A second `fit` on the same data (C, tolerance and limits may change) goes on from what the first left; on other data it starts
        from nothing, but qp and logistic from the weights, if these mean the same.
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
    classes_ : ndarray, or list of ndarray
        Numbers of the labels (names of the columns, if ``y`` was a DataFrame), or the classes of a one-dimensional ``y``; where columns have classes of
        their own (text, more than two values; or ``forbidden``) a list of these.
    columns_ : Columns or None
        Classes and names of the columns, where they have classes of their own.
    graph_ : Graph or None
        Graph of the labels.
    weights_ : ndarray, shape (n_weights,)
    coef_blocks_ : dict
        Weights as ``nodes`` (L, d), ``bias`` (L,) if there is one, and ``edges`` (n_edges, 2, 2); with convex energies ``linear``
        (n_edges, 4) and ``matrices`` (n_edges, 4, 4) in the place of ``edges``. Where columns have classes of their own ``nodes[a]`` (K, d), ``bias[a]``
        (K,) and ``edges[a-b]`` (K, K) by column.
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

    _rows: ClassVar[bool] = True

    def __init__(
        self,
        potentials: Any = "auto",
        surrogate: str | None = "auto",
        learner: Learner | str | None = None,
        loss: Loss | str | Any = "hamming",
        oracle: Any = None,
        C: float = 1.0,
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
        self.potentials = potentials
        self.surrogate = surrogate
        self.learner = learner
        self.loss = loss
        self.oracle = oracle
        self.C = C
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

    _parameters = settings(
        surrogate=Maybe(OneOf(*(name for name, own in SURROGATES.items() if own.on_rows), "auto")),
        label_graph=Elsewhere("the name of a graph, or pairs of labels that the data have"),
        forbidden=Elsewhere("None, or pairs of values of columns, which the data decide"),
    )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn weights; an earlier fit is forgotten, unless ``warm_start`` is on and the data are the same.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
        y : array-like or sparse matrix, shape (n_samples, n_labels) of 0 and 1, or (n_samples,); or a table whose columns have classes of their own
            Columns of text, or one with more than two numbers, make a table of the latter kind: a column is a label with several classes then.
            None, NaN, pandas' NA, an empty string or a mask says that a label is unknown; in tables -1 too, while among classes of one
            dimension it is one of them. An unknown label, and the edges of the label graph at it, are left out of the training on this
            sample; a sample without a class is left out.
        sample_weight : array-like, shape (n_samples,), optional
            Weights >= 0 of the slacks.
        """
        return self._fit(X, y, sample_weight)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Data:
        check_room(multilabel_bytes(X, y), "this training set")
        several = read_columns(y, self.forbidden is not None)
        if several is not None:
            with named_samples(X):
                X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
            check_consistent_length(X, several.labels)
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            return Data(with_bias(X, self.bias), Target("columns", several.labels, several.columns), weight)
        columns = column_names(y)
        y, unknown = hidden(y)
        with named_samples(X):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y.toarray() if sparse.issparse(y) else y, warn=True)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if unknown is not None and y.ndim == 1:
            keep = np.flatnonzero(~unknown)
            X, y, weight = X[keep], y[keep], weight[keep]
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise InvalidSampleError(
                f"{error} Wanted labels: 0 and 1 of shape (n_samples, n_labels), or one class for each sample."
            ) from error
        target = read_target(y, unknown if y.ndim == 2 else None)
        if columns is not None and target.kind == "multilabel":
            target = replace(target, classes=columns)
        return Data(with_bias(X, self.bias), target, weight)

    def _bind(self, settings: Settings, data: Data, C: float, **known: Any) -> Bound:
        surrogate, target = surrogate_of(settings), data.labels
        if target.kind == "columns":
            return self._bind_columns(settings, data)
        # What missing a class costs is counted before samples are merged, and kept at the nodes.
        costs = None
        if settings.class_weight is not None:
            check_weighted(settings.loss)
            loss: Any = Hamming(settings.loss == "normalised")
            if isinstance(settings.class_weight, str) and settings.class_weight == "iou":
                costs, loss = iou_costs(settings, target, data.weight)
            else:
                costs = class_costs(settings.class_weight, target, data.weight)
            settings = replace(settings, class_weight=None, loss=loss)
        X, labels, weight = merged(data.items, target.labels, data.weight)
        facts = {"classes_": target.classes, "_kind": target.kind, "graph_": None, "columns_": None}
        if target.kind == "multiclass":
            single = multiclass(X, labels, target.classes)
            if costs is not None:
                single = weighted(single, costs, np.zeros(len(labels), dtype=np.int64))
            return Bound(single, weight, settings, facts)
        # The graph of the labels, and tables on its edges.
        graph = label_graph(settings.label_graph, *for_graph(target.labels, data.weight))
        potentials, words = surrogate.potentials(settings), ""
        if potentials is None:
            potentials, words = open_potentials(graph)
        full = MultiLabelModel(graph, potentials).bind(X, labels)
        if settings.oracle is None and surrogate.name == "margin" and who_solves(full) is not None:
            settings = replace(settings, oracle="bracket")
            words = f"{graph.n_nodes} labels on this graph are too many for quick exact solvers (supermodular potentials have one); "
        # Where labels are unknown, samples have smaller graphs in training.
        model: BoundModel = full
        place = np.tile(np.arange(graph.n_nodes), len(labels))
        if (labels < 0).any():
            model, place = partly_known(full, X, labels)
        if costs is not None:
            model = weighted(model, costs, place)
        return Bound(model, weight, settings, facts | {"graph_": graph}, None if model is full else full, None, words)

    def _bind_columns(self, settings: Settings, data: Data) -> Bound:
        """A graph with a node for each column, whose labels are the classes of the column."""
        columns: Columns = data.labels.classes
        potentials = settings.potentials or "general"
        same = all(np.array_equal(own, columns.classes[0]) for own in columns.classes)
        if settings.surrogate in ("qp", "logistic") or potentials != "general":
            raise InvalidParameterError(
                f"potentials is {settings.potentials!r} and surrogate {settings.surrogate!r} for columns that have classes of their own, wanted general "
                "potentials and the surrogate margin, lp, likelihood or pseudolikelihood."
            )
        if not isinstance(settings.loss, str) and not same:
            raise InvalidParameterError(
                f"loss is {settings.loss!r}, but the columns have different classes; wanted 'hamming' or 'normalised', with class_weight if you like."
            )
        costs = None
        if settings.class_weight is not None:
            check_weighted(settings.loss)
            costs = column_costs(settings.class_weight, data.labels.labels, columns, data.weight)
            settings = replace(settings, class_weight=None)
        X, labels, weight = merged(data.items, data.labels.labels, data.weight)
        graph = columns_graph(settings.label_graph, data.labels.labels, columns, data.weight)
        model, full = bound_columns(X, labels, columns, graph, potentials, settings.forbidden)
        if costs is not None:
            model = weighted(model, costs, model.data.node_types)
        facts = {"classes_": list(columns.classes), "_kind": "columns", "graph_": graph, "columns_": columns}
        return Bound(model, weight, settings, facts, full, None, "general potentials, as columns have classes of their own; ")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Fraction of the samples all of whose labels are right; of columns with classes of their own those that are known."""
        columns = getattr(self, "columns_", None)
        if columns is None:
            return float(super().score(X, y, sample_weight))
        truth = columns.encode(cells_of(y, len(columns.classes)))
        known = (truth != UNKNOWN).any(axis=1)
        if not known.any():
            raise InvalidSampleError("no label is known, so there is nothing to score; wanted at least one.")
        right = ((self._table(self._new(X)) == truth) | (truth == UNKNOWN)).all(axis=1)
        return float(np.average(right[known], weights=None if sample_weight is None else np.asarray(sample_weight)[known]))

    def _training_bytes(self, bound: Bound, learner: Learner) -> int:
        model = bound.model if bound.full is None else bound.full
        if not isinstance(model, MultiLabelBound):
            return model_bytes(model)
        labels = np.reshape(np.asarray(model.labels), (-1, model.graph.n_nodes))
        return multilabel_bytes(model.data.x, labels, design=not isinstance(learner, SubsetAscent))

    def _splits(self, data: Data, folds: Any) -> Iterable[Any]:
        return folds.split(data.items, data.labels.labels)

    def _fraction(self, samples: Any, labels: Target, weight: np.ndarray) -> float:
        truth = labels.labels.reshape(len(weight), -1)
        known = (truth >= 0) * (weight if weight.any() else np.ones(len(truth)))[:, None]
        right = self._table(samples) == truth
        return float((right * known).sum() / known.sum()) if known.any() else np.nan

    # ---- prediction ----------------------------------------------------------------------------------------------

    def _new(self, X: Any) -> Any:
        check_is_fitted(self, "weights_")
        with named_samples(X):
            new = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._samples(with_bias(new, self.bias))

    def _samples(self, items: Any, facts: dict[str, Any] | None = None) -> Any:
        known = vars(self) if facts is None else facts
        return items if known["_kind"] != "columns" else samples_of(items, known["graph_"])

    def predict(self, X: Any, solver: Solver | str | None = None, observed: Any = None) -> np.ndarray:
        """Labels (n_samples, n_labels) of 0 and 1, or classes (n_samples,); of columns with classes of their own a table of these, a DataFrame where `fit` got one.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
        solver : Solver or str, optional
            As in `predict_result`.
        observed : array-like, shape (n_samples, n_labels), optional
            Labels that are known, 0 or 1, and -1, None, NaN or masked where nothing is known, for tables of labels. They are kept exactly, and the
            others are predicted given them.
        """
        new = self._new(X)
        if observed is None:
            labels = self._table(new, solver, warn=True)
        else:
            found = [labels_of(own, j) for j, own in enumerate(self._given(new, observed, solver))]
            labels = np.array(found, dtype=np.int32).reshape(len(found), -1)
        return self._in_form(labels)

    def _in_form(self, labels: np.ndarray) -> Any:
        """Numbers (n, L) as `predict` gives labels."""
        if self._kind == "columns":
            return self.columns_.decode(labels)
        return labels.astype(np.int64) if self._kind == "multilabel" else self.classes_[labels[:, 0]]

    def _observed_labels(self, samples: Any, observed: Any) -> list[np.ndarray]:
        if self._kind == "columns":
            coded = self.columns_.encode(cells_of(observed, len(self.classes_)))
            if len(coded) != len(samples) or (coded == UNSEEN).any():
                raise InvalidSampleError(
                    f"observed has {len(coded)} rows, wanted {len(samples)} with classes of the columns, or None where nothing is known."
                )
            numbers = np.arange(self.model_.n_labels)
            inside = numbers < np.array([len(own) for own in self.classes_])[:, None]
            return [inside & ((own[:, None] == numbers) | (own[:, None] == UNKNOWN)) for own in coded]
        if self._kind != "multilabel":
            raise InvalidParameterError(
                f"observed labels beside a {self._kind} y of training, wanted none: a sample has one class, which predict would be told."
            )
        table = label_array(unmasked(observed.toarray() if sparse.issparse(observed) else observed))
        if table.dtype.kind == "O":
            table = np.where(missing(table.flat).reshape(table.shape), UNKNOWN, table)
        elif table.dtype.kind == "f":
            table = np.where(np.isnan(table), UNKNOWN, table)
        shape = samples.shape[0], self.graph_.n_nodes
        if table.shape != shape or not np.isin(table, (UNKNOWN, 0, 1)).all():
            raise InvalidSampleError(
                f"observed is an array of {table.dtype} of shape {table.shape}, wanted 0, 1, or -1 where nothing is known, of shape {shape}."
            )
        return [(own[:, None] == np.arange(2)) | (own[:, None] == UNKNOWN) for own in table]

    def _table(self, X: Any, solver: Solver | str | None = None, warn: bool = False) -> np.ndarray:
        """Predicted labels as numbers, (n, L)."""
        found = self._labellings(X, solver, warn)
        return np.array(found, dtype=np.int32).reshape(len(found), -1)

    def _at_once(self, samples: Any) -> Sequence[np.ndarray] | np.ndarray | None:
        """All sets of few labels are tried, and of classes that exclude each other the largest score is taken."""
        model: Any = self.model_
        if self._kind == "columns":
            return None
        if not isinstance(model, (MultiLabelBound, ConvexBound)):
            return np.argmax(model.unary(self.weights_, model.encode(samples)), axis=1)[:, None]
        return best_labels(model, self.weights_, samples) if isinstance(model, MultiLabelBound) and is_small(model) else None

    def decision_function(self, X: Any) -> np.ndarray:
        """How much the best labelling with each label scores more than the best without it, (n_samples, n_labels).

        For a one-dimensional ``y`` the scores of its classes, or of the second of two. With the surrogates ``qp`` and ``logistic``
        the entry of each label (class) in the point that `predict` rounds, less that of its absence.
        """
        if getattr(self, "_kind", "") == "columns":
            raise InvalidParameterError(
                "decision_function has one number a label, but columns have several classes here; wanted predict_max_marginals, what each class loses."
            )
        X = self._new(X)
        jobs = as_jobs(self.n_jobs)
        if self._surrogate.rounds:
            found = self._surrogate.points(self.model_, self.weights_, X, jobs)
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
            problems, who = self.model_.problems(self.weights_, X), self._who(None)
            gains = thread_map(lambda problem: label_gains(problem, who), problems, jobs)
            margins = np.array(gains).reshape(len(problems), self.model_.graph.n_nodes)
        return margins[:, 0] if self._kind == "binary" else margins

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
            Probability that each label is there; (n_samples, n_classes) for a one-dimensional ``y``, a list of these for columns with classes of their own.
        edges : ndarray, shape (n_samples, n_edges, 2, 2)
            With ``edge_marginals``: for each edge of ``graph_`` the values of its first label, then of its second.
        """
        X = self._new(X)
        found = self._surrogate.marginals(self.model_, self.weights_, X, as_jobs(self.n_jobs))
        if self._kind == "columns":
            whole = np.array([own.node for own in found]).reshape(len(found), len(self.classes_), -1)
            nodes = [whole[:, m, : len(own)] for m, own in enumerate(self.classes_)]
            return (nodes, [own.edge for own in found]) if edge_marginals else nodes
        size = self.model_.n_labels
        node = np.array([own.node for own in found]).reshape(X.shape[0], -1, size)
        labels = node[:, :, 1] if self._kind == "multilabel" else node[:, 0]
        if not edge_marginals:
            return labels
        return labels, np.array([own.edge for own in found]).reshape(X.shape[0], -1, size, size)

    def label_numbers(self, X: Any, y: Any) -> list[np.ndarray]:
        if self._kind == "columns":
            return list(self.columns_.encode(cells_of(y, len(self.classes_))).astype(np.int64))
        y, unknown = hidden(y)
        if self._kind == "multilabel":
            table = np.asarray(y.toarray() if sparse.issparse(y) else y, dtype=np.int64)
            return list(table if unknown is None else np.where(unknown, UNKNOWN, table))
        place = {label: k for k, label in enumerate(self.classes_.tolist())}
        given = np.asarray(y).reshape(-1).tolist()
        found = np.array([[place.get(label, UNSEEN)] for label in given], dtype=np.int64)
        return list(found if unknown is None else np.where(unknown[:, None], UNKNOWN, found))

    def _ranked(self, samples: Any, j: int, rows: np.ndarray) -> list[np.ndarray]:
        if self._kind == "columns":
            return list(np.asarray(self.columns_.decode(rows)))
        return [own.astype(np.int64) if self._kind == "multilabel" else self.classes_[own] for own in rows]

    def _table_of(self, samples: Any, j: int, table: np.ndarray) -> np.ndarray:
        return table

    def _probabilities(self, tables: list[np.ndarray]) -> np.ndarray:
        found = np.array(tables)
        return found[:, :, 1] if self._kind == "multilabel" else found[:, 0]

    def _class_weights(self, label: Any, node_type: int) -> tuple[list[str], np.ndarray]:
        blocks = self.coef_blocks_
        if self._kind == "columns":
            return self._column_weights(label, blocks)
        k, sign = place_of(label, self.classes_), 1.0
        if self._kind == "binary" and len(blocks["nodes"]) == 1:  # the weights of the second of two classes
            k, sign = 0, 1.0 if k else -1.0
        names = getattr(self, "feature_names_in_", np.array([f"x{i}" for i in range(self.n_features_in_)])).tolist()
        weights = blocks["nodes"][k]
        if "bias" in blocks:
            weights, names = np.append(weights, blocks["bias"][k]), [*names, "bias"]
        return names, sign * weights

    def _weighted_labels(self) -> list[tuple[Any, int]]:
        if self._kind != "columns":
            return super()._weighted_labels()
        return [((self.columns_.called(m), label), 0) for m, own in enumerate(self.classes_) for label in own.tolist()]

    def _column_weights(self, label: Any, blocks: dict[str, np.ndarray]) -> tuple[list[str], np.ndarray]:
        if not isinstance(label, tuple) or len(label) != 2:
            raise InvalidParameterError(f"label is {label!r}, wanted (column, class), as columns have classes of their own.")
        m = self.columns_.number(label[0])
        k, where = place_of(label[1], self.classes_[m]), self.columns_.called(m)
        names = getattr(self, "feature_names_in_", np.array([f"x{i}" for i in range(self.n_features_in_)])).tolist()
        weights = blocks[f"nodes[{where}]"][k]
        if self.bias:
            weights, names = np.append(weights, blocks[f"bias[{where}]"][k]), [*names, "bias"]
        return names, weights

    def _axes(self, name: str) -> list[list[Any]]:
        if self._kind == "columns":
            called = self.columns_.called
            ends = next(
                (own for own in self.graph_.edges.tolist() if f"edges[{called(own[0])}-{called(own[1])}]" == name), None
            )
            return [[], []] if ends is None else [self.classes_[m].tolist() for m in ends]
        return pair_names(self.classes_.tolist(), self.graph_.edges) if self.graph_ is not None else [[], []]

    @property
    def coef_blocks_(self) -> dict[str, np.ndarray]:
        check_is_fitted(self, "weights_")
        model, weights = self.model_, self.weights_
        if self._kind == "columns":
            return column_blocks(model, weights, self.columns_, self.graph_, self.n_features_in_)
        pairs: dict[str, np.ndarray] = {}
        if isinstance(model, ConvexBound):
            weights, terms, matrices = convex_blocks(model, weights)
            n = len(terms) if self.graph_ is not None else 0
            pairs = {"linear": np.array(terms[:n]).reshape(n, 4), "matrices": np.array(matrices[:n]).reshape(n, 4, 4)}
            model = model.base
        if isinstance(model, MultiLabelBound):
            nodes, edges = model.blocks(weights)
        else:
            nodes, edges = weights.reshape(-1, len(self.classes_)).T, np.zeros((0, 2, 2))
        d = self.n_features_in_
        bias = {"bias": nodes[:, d].copy()} if self.bias else {}
        return {"nodes": nodes[:, :d].copy()} | bias | (pairs or {"edges": edges})
