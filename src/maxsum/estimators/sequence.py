"""SequenceLabeler: learns to label the items of sequences, exactly, and proves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import OneOf, settings
from ..inference.base import Solver
from ..learning.driver import Learner
from ..learning.oracles.second_order import best_tags
from ..losses import Loss
from ..models.sample import GraphSample, names_features
from ..models.second_order import PairLayout
from .base import Labeler, coefficients
from .settings import as_jobs


class SequenceLabeler(Labeler):
    r"""Max-sum classifier of sequences: `GraphLabeler` on the chain of each.

    .. math:: F(x, y) = \sum_i \langle w_{y_i}, x_i\rangle + \sum_i g(y_i, y_{i + 1})

    With ``order=2`` a score :math:`h(y_{i - 1}, y_i, y_{i + 1})` of each three labels in a row is added. Training and prediction are
    exact.

    Parameters
    ----------
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"}, Convex or None
        Pairwise tables that are allowed, as in `maxsum.models.GraphModel`; auto and None choose by the data, convex energies go with the
        surrogates ``qp`` and ``logistic``.
    surrogate : {"margin", "lp", "trivial", "qp", "logistic", "likelihood", "pseudolikelihood", "auto"} or None
        What is minimised: a hinge (margin, also auto; lp and qp for relaxations), strictly trivial equivalents, a logistic random field, or
        the conditional log-likelihood, whose probabilities `predict_marginals` gives.
    learner : None, "auto", str or Learner
        Who minimises; by default the learner that suits surrogate and sizes. Names have ``tol`` and the other limits of this estimator, a
        `Learner` has its own.
    loss : {"hamming", "normalised", "zero_one"}, (K, K) table of costs, or Loss
        What a wrong label costs, for the surrogates margin, lp, qp and logistic; zero_one, of whole labellings, for margin alone.
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
    order : {1, 2}
        Labels that a score sees besides its own. Order 2 is a chain over pairs of labels, :math:`K^3` operations an item, with general
        potentials, the margin surrogate, and an oracle of its own. Labels of `predict_result` and `problems` are then numbers of
        pairs, :math:`aK + b` for label :math:`b` after :math:`a`, or :math:`b` at the start: ``labels % K`` are those of the items.
    symmetric : bool
        Whether tables are symmetric.
    classes : array-like, optional
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
        A second `fit` on the same data goes on from what the first left.
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
    classes_ : ndarray
    weights_ : ndarray, shape (n_weights,)
    weight_names_ : list of str
    coef_blocks_ : dict of ndarray
        The weights by name: ``nodes`` (d, K), ``bias`` (K,), ``edges`` (K, K), and with ``order=2`` ``triples`` (K, K, K) for :math:`h`; convex energies have ``linear`` and ``matrices``.
    n_features_in_, n_iter_ : int
    result_ : LearningResult
        What is proven about the weights; its ``message`` says which oracle and learner were chosen, and why.
    model_ : BoundModel
    objective_ : Objective
        For ``result_.verify(objective_)``.

    Examples
    --------
    >>> import maxsum as ms
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "dog"}, {"word": "barks"}]]
    >>> tag = ms.SequenceLabeler(C=10.0).fit(X, [["D", "N"], ["D", "N", "V"]])
    >>> tag.predict([[{"word": "the"}, {"word": "dog"}, {"word": "barks"}]])[0].tolist()
    ['D', 'N', 'V']
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
        order: int = 1,
        symmetric: bool = False,
        classes: Any = None,
        checkpoint: str | Path | None = None,
        class_weight: Any = None,
        forbidden: Any = None,
        unknown: str = "drop",
        n_hidden: Any = 1,
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
        self.order = order
        self.symmetric = symmetric
        self.classes = classes
        self.checkpoint = checkpoint
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.unknown = unknown
        self.n_hidden = n_hidden
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.penalty = penalty
        self.solver = solver
        self.checkpoint_seconds = checkpoint_seconds

    _parameters = settings(
        order=OneOf(1, 2, wanted="1 or 2. Features of the items around an item, in its dict or row, see further")
    )

    def _list(self, X: Any) -> list[Any]:
        shape = getattr(X, "shape", None)
        if hasattr(X, "tocsr") or (shape is not None and len(shape) == 2):
            raise InvalidSampleError(
                f"X is one matrix of shape {tuple(X.shape)}, wanted a list of sequences: (n, d) arrays, sparse matrices, lists of "
                "feature dicts, or arrays of codes. For one sequence give [X]."
            )
        items = list(X)
        if items and all(isinstance(item, Mapping) for item in items):
            raise InvalidSampleError(
                "X is one list of feature dicts, wanted a list of such sequences. For one sequence give [X]."
            )
        return items

    @property
    def _pairs(self) -> PairLayout | None:
        """The layout of pairs, if the model is one of second order."""
        layout = self.model_.layout
        return layout if isinstance(layout, PairLayout) else None

    @property
    def coef_blocks_(self) -> dict[str, np.ndarray]:
        """Weights by name: ``nodes`` (d, K), ``bias`` (K,), ``edges`` (K, K), and ``triples`` (K, K, K) of order 2."""
        check_is_fitted(self, "model_")
        pairs = self._pairs
        if pairs is None:
            return coefficients(self.model_, self.weights_, [], [])
        size, n_first = pairs.n_tags, pairs.base.n_weights
        blocks = coefficients(pairs.base, self.weights_[:n_first], [], [])
        return {**blocks, "triples": self.weights_[n_first:].reshape(size, size, size)}

    def _at_once(self, samples: list[GraphSample]) -> Sequence[np.ndarray] | np.ndarray | None:
        if self._pairs is None:
            return super()._at_once(samples)
        return best_tags(self.model_, self.weights_, self.model_.encode(samples), as_jobs(self.n_jobs))

    def _observed_labels(self, samples: list[GraphSample], observed: Any) -> list[np.ndarray]:
        masks = super()._observed_labels(samples, observed)
        return masks if self._pairs is None else [np.tile(mask, self._pairs.n_tags) for mask in masks]

    def _table_of(self, samples: list[GraphSample], j: int, table: np.ndarray) -> np.ndarray:
        if self._pairs is None:
            return super()._table_of(samples, j, table)
        size = self._pairs.n_tags
        return table.reshape(samples[j].n_nodes, size, size).max(axis=1)  # over the labels before

    def _outside(self, sample: GraphSample, labels: np.ndarray) -> np.ndarray:
        return super()._outside(sample, labels if self._pairs is None else labels % self._pairs.n_tags)

    def _samples(self, items: list[Any], facts: dict[str, Any] | None = None) -> list[GraphSample]:
        samples, scaling = [], self._scaling(facts)
        chains: dict[int, Graph] = {}
        for j, item in enumerate(items):
            own = item if hasattr(item, "tocsr") or names_features(item) else _array(item, j)
            length = int(own.shape[0]) if hasattr(own, "shape") else len(own)
            if length not in chains:
                chains[length] = Graph.chain(length)
            try:
                samples.append(GraphSample(scaling.apply(own), chains[length]))
            except InvalidSampleError as error:
                raise InvalidSampleError(f"sample {j}: {error}") from error
        return samples


def _array(item: Any, j: int) -> np.ndarray:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise InvalidSampleError(f"sample {j} is no array ({error}); wanted rows of one length.") from error
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
        texts = array.dtype.kind in "US"
        found = f"is the string {item!r:.40}" if isinstance(item, str) else f"has shape {array.shape} and dtype {array.dtype}"
        way = ' Words become dicts: [{"word": w} for w in sentence].' if texts else ""
        raise InvalidSampleError(
            f"sample {j} {found}, wanted features (n, d), a sparse matrix, a list of dicts, or integer codes (n,).{way}"
        )
    return array
