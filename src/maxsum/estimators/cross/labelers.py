"""Labelers whose ``C`` is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...inference.base import Solver
from ...learning.driver import Learner
from ...losses import Loss
from ..graph import GraphLabeler
from ..grid import GridLabeler
from ..sequence import SequenceLabeler
from .validation import CrossValidatedLabeler


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
    unknown : {"drop", "infer", "complete"}
        What training does with nodes whose label is unknown, or a ``set`` of those that are possible: leave them out; infer them (latent hinge
        by the concave-convex procedure from the weights that leave them out; the result is a local optimum); or infer them, then train once more with
        these labels as if they were given. Both go with the margin surrogate.
    warm_start : bool
        A second `fit` on the same data goes on, in its last training, from what the first left.
    smoothing : float
        Temperature of the entropy-smoothed ``lp`` surrogate; 0 for the linear relaxation itself.
    tighten : bool
        Take cycles of edges as clusters into the relaxation of the ``lp`` surrogate, so that it comes near to the exact margin; see `LPObjective`.
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
    unknown : {"drop", "infer", "complete"}
        What training does with nodes whose label is unknown, or a ``set`` of those that are possible: leave them out; infer them (latent hinge
        by the concave-convex procedure from the weights that leave them out; the result is a local optimum); or infer them, then train once more with
        these labels as if they were given. Both go with the margin surrogate.
    warm_start : bool
        A second `fit` on the same data goes on, in its last training, from what the first left.
    smoothing : float
        Temperature of the entropy-smoothed ``lp`` surrogate; 0 for the linear relaxation itself.
    tighten : bool
        Take cycles of edges as clusters into the relaxation of the ``lp`` surrogate, so that it comes near to the exact margin; see `LPObjective`.
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
    unknown : {"drop", "infer", "complete"}
        What training does with nodes whose label is unknown, or a ``set`` of those that are possible: leave them out; infer them (latent hinge
        by the concave-convex procedure from the weights that leave them out; the result is a local optimum); or infer them, then train once more with
        these labels as if they were given. Both go with the margin surrogate.
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
