"""GraphLabeler: learns to label the nodes of graphs, and proves how well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import InvalidSampleError
from ..core.parameters import Elsewhere, Flag, settings
from ..inference.base import Solver
from ..learning.driver import Learner
from ..losses import Loss
from ..models.sample import GraphSample
from .base import Labeler


class GraphLabeler(Labeler):
    r"""Max-sum classifier of the nodes of graphs, learned by minimising

    .. math:: \tfrac12\|w\|^2 + C \sum_j s_j\,\xi_j(w),\qquad w \in \text{cone of the potentials},

    with sample weights :math:`s_j` and slacks :math:`\xi_j` of the surrogate.

    Parameters
    ----------
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"}, Convex or None
        Pairwise tables that are allowed; see `maxsum.models.GraphModel`. Auto (or None, here and elsewhere): supermodular for two labels on graphs with cycles
        (where training and prediction are then exact), general elsewhere. The surrogates ``qp`` and ``logistic`` take general, auto and
        convex as the same, or a `maxsum.models.Convex`; their edge features must be >= 0.
    surrogate : {"margin", "lp", "trivial", "qp", "logistic", "likelihood", "pseudolikelihood", "auto"} or None
        Margin-rescaled hinge (also auto, but for large graphs with cycles and many weights, where auto is lp), that of the linear relaxation, or strictly trivial equivalents, for which training needs no
        max-sum solver. ``qp`` is the hinge of a convex quadratic relaxation (`maxsum.learning.QPObjective`), ``logistic`` a logistic
        random field (`maxsum.learning.LogisticObjective`), not convex in the weights, so that no lower bound is claimed. Both predict
        what they learned, a rounded point; ``predict(X, solver=...)`` maximises the score of labellings instead. ``likelihood`` is the
        conditional log-likelihood (`maxsum.learning.LikelihoodObjective`): a conditional random field on forests and graphs of small
        width, a convex upper bound elsewhere; `predict_marginals` gives its probabilities. ``pseudolikelihood`` is the log-likelihood of
        each label given its neighbours (`maxsum.learning.PseudoLikelihoodObjective`), exact on every graph.
    learner : None, "auto", str or Learner
        By default `BlockFrankWolfe` for margin, `CuttingPlane` for trivial, `ProjectedQuasiNewton` for qp and logistic,
        `MaximumLikelihood` (L-BFGS) for likelihood. A name, or the default, has ``tol``, ``max_iter``,
        ``time_limit``, ``random_state`` and ``checkpoint`` of this estimator; a learner that is given keeps its own (a warning tells
        where both were set), and can be searched over as ``learner__tol``.
    loss : {"hamming", "normalised", "zero_one"}, (K, K) table of costs, or Loss
        For the margin, lp and qp surrogates; logistic uses the largest cost at each node.
    features : None, "auto" or NodeFeatures
        What the observations are; by default read off the samples.
    oracle : None, "auto", str, Solver or callable
        Who maximises loss-augmented problems in training; by structure by default. A solver, or its name, predicts too.
    C : float
        Weight of the sum of the slacks.
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
        Labels that exist, in order; by default those of the training set. Any hashable labels will do.
    checkpoint : path, optional
        File that the state of the training is written to, and that training goes on from if it exists.
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
    n_hidden : int or dict
        Hidden states of each class, or of a dictionary by class (1 for those it lacks). The labels of the model are the states, and training finds out which a
        node has (a local optimum, as above); `predict` gives classes, `predict_states` their states. With the margin surrogate.
    warm_start : bool
        A second `fit` on the same data (samples, labels, loss, potentials; C, tolerance and sample weights may change) goes on
        from the planes of the first (its weights for qp, logistic and likelihood); on other data it starts from nothing, but qp, logistic
        and likelihood from the weights, if these mean the same.
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
    classes_ : ndarray, or list of them, one for each node type
    weights_ : ndarray, shape (n_weights,)
        Weights of the model (those of ``result_`` hold the potentials of the trivial surrogate too).
    weight_names_ : list of str
    coef_blocks_ : dict of ndarray
        The weights by name: ``nodes`` (d, K), ``bias`` (K,), ``edges`` (K, K), one for each node type, edge type and feature. Convex
        energies have ``linear`` (2K,) and ``matrices`` (2K, 2K) in the place of ``edges``.
    n_features_in_, n_iter_ : int
    result_ : LearningResult
        What is proven about the weights; its ``message`` says which oracle and learner were chosen, and why.
    model_ : BoundModel
    objective_ : Objective
        For ``result_.verify(objective_)``.

    Examples
    --------
    >>> import maxsum as ms
    >>> samples = [ms.GraphSample([0, 1, 1], ms.Graph.chain(3)), ms.GraphSample([1, 0], ms.Graph.chain(2))]
    >>> net = ms.GraphLabeler(C=10.0).fit(samples, [["a", "b", "b"], ["b", "a"]])
    >>> [labels.tolist() for labels in net.predict(samples)]
    [['a', 'b', 'b'], ['b', 'a']]
    """

    def __init__(
        self,
        potentials: Any = "auto",
        surrogate: str | None = "auto",
        learner: Learner | str | None = None,
        loss: Loss | str | Any = "hamming",
        features: Any = "auto",
        oracle: Any = None,
        C: float = 1.0,
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
        n_hidden: Any = 1,
        warm_start: bool = False,
        smoothing: float = 0.0,
        tighten: bool = False,
        penalty: Any = "l2",
        solver: Solver | str | None = None,
        checkpoint_seconds: float = 30.0,
    ):
        self.potentials = potentials
        self.surrogate = surrogate
        self.learner = learner
        self.loss = loss
        self.features = features
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
        self.scale = scale
        self.homogeneous = homogeneous
        self.symmetric = symmetric
        self.tie = tie
        self.classes = classes
        self.checkpoint = checkpoint
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.unknown = unknown
        self.n_hidden = n_hidden
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.tighten = tighten
        self.penalty = penalty
        self.solver = solver
        self.checkpoint_seconds = checkpoint_seconds

    _parameters = settings(
        homogeneous=Flag(),
        tighten=Flag(),
        tie=Elsewhere("None, or whole numbers of shape (n_features, K), as `GraphModel` takes them"),
    )

    def _list(self, X: Any) -> list[Any]:
        if isinstance(X, GraphSample):
            raise InvalidSampleError("samples is one GraphSample, wanted a list of them.")
        items = list(X)
        for j, item in enumerate(items):
            if not isinstance(item, GraphSample):
                raise InvalidSampleError(f"sample {j} is a {type(item).__name__}, wanted maxsum.GraphSample(X, graph).")
        return items

    def _observed(self, item: Any) -> Any:
        return item.X if item.kind in ("dense", "sparse") else None

    def _samples(self, items: list[Any], facts: dict[str, Any] | None = None) -> list[GraphSample]:
        scaling = self._scaling(facts)
        return items if scaling.kind == "none" else [replace(item, X=scaling.apply(item.X)) for item in items]
