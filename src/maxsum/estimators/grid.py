"""GridLabeler: learns to label the pixels of images, and proves how well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import Maybe, OneOf, Real, settings
from ..inference.base import Solver
from ..learning.driver import Learner
from ..losses import Loss
from ..models.sample import GraphSample
from .base import Labeler
from .memory import Size, grid_size

DIRECTIONS = ["horizontal", "vertical", "diagonal", "antidiagonal"]


class GridLabeler(Labeler):
    r"""Max-sum classifier of pixels: `GraphLabeler` on the grid of each image.

    .. math:: F(x, y) = \sum_v \langle w_{y_v}, x_v\rangle + \sum_{uv} g_{t(uv)}(y_u, y_v)
              + \sum_{uv} e^{-\gamma\|x_u - x_v\|^2}\, h_{t(uv)}(y_u, y_v),

    the last sum with ``edge_features="contrast"`` alone.

    Parameters
    ----------
    potentials : {"general", "supermodular", "associative", "potts", "auto", "convex"}, Convex or None
        Pairwise tables that are allowed, as in `maxsum.models.GraphModel`; auto and None choose by the data, convex energies go with the
        surrogates ``qp`` and ``logistic``.
    surrogate : {"margin", "lp", "trivial", "qp", "logistic", "likelihood", "auto"} or None
        What is minimised: a hinge (margin, also auto, but for large images with many weights, where auto is lp; lp and qp for relaxations), strictly trivial equivalents, a logistic random field, or
        the conditional log-likelihood, whose probabilities `predict_marginals` gives.
    learner : None, "auto", str or Learner
        Who minimises; by default the learner that suits surrogate and sizes. Names have ``tol`` and the other limits of this estimator, a
        `Learner` has its own.
    loss : {"hamming", "normalised"}, (K, K) table of costs, or Loss
        What a wrong label costs, for the surrogates margin, lp, qp and logistic.
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
    bias : bool
        Add a constant feature to every node; regularised like every weight.
    scale : {"auto", "standard"} or False
        How features are scaled, kept with the model: auto divides images of ``uint8`` by 255 and leaves all else, standard brings columns of
        numbers to mean 0 and standard deviation 1, False leaves everything.
    connectivity : {4, 8}
        Neighbours of a pixel.
    edge_types : {"tied", "directions"}
        One table for all edges, or one for horizontal, vertical (and both diagonal) edges each.
    edge_features : None or "contrast"
        A constant, or a constant and the contrast :math:`e^{-\gamma\|x_u - x_v\|^2}`, which is near 0 across the borders that
        an image shows. For images of real features.
    gamma : float, optional
        Of the contrast; by default :math:`1 / (2 \cdot \text{mean}\,\|x_u - x_v\|^2)` over all edges of the training set.
    symmetric : bool
        Whether tables are symmetric.
    classes : array-like, optional
        Labels that exist, in order; by default those of the training set. Any hashable labels will do.
    checkpoint : path, optional
        File that the state of the training is written to, and that training goes on from if it exists.
    class_weight : dict, array-like of shape (K,), or "balanced", optional
        What missing each class costs in the Hamming loss.
    forbidden : {"bio", "bioes"}, list of pairs of labels, or dict, optional
        Labels ``(a, b)`` of the first and second end of an edge that exclude each other, exactly, in training and prediction; a dictionary has rules
        by the number of the edge type. The schemes of tags also say how a sequence starts and ends. With ``surrogate="margin"`` or ``"likelihood"``.
    warm_start : bool
        A second `fit` on the same data goes on from what the first left.
    smoothing : float
        Temperature of the entropy-smoothed ``lp`` surrogate; 0 for the linear relaxation itself.
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
        The weights by name: ``nodes`` (d, K), ``bias`` (K,), ``edges`` (K, K), or ``edges[horizontal, contrast]`` and the like where there are several; convex energies have ``linear`` and ``matrices``.
    n_features_in_, n_iter_ : int
    result_ : LearningResult
        What is proven about the weights; its ``message`` says which oracle and learner were chosen, and why.
    model_ : BoundModel
    objective_ : Objective
        For ``result_.verify(objective_)``.
    gamma_ : float or None
        Of the contrast, if there is one.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> images = [np.array([[0, 0, 1], [0, 1, 1]]), np.array([[1, 1], [0, 0], [0, 0]])]
    >>> seg = ms.GridLabeler(potentials="supermodular", C=10.0).fit(images, images)
    >>> seg.predict([np.array([[0, 1, 1]])])[0].tolist()
    [[0, 1, 1]]
    """

    gamma_: float | None

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
        bias: bool = False,
        scale: Any = "auto",
        connectivity: int = 4,
        edge_types: str = "tied",
        edge_features: str | None = None,
        gamma: float | None = None,
        symmetric: bool = False,
        classes: Any = None,
        checkpoint: str | Path | None = None,
        class_weight: Any = None,
        forbidden: Any = None,
        warm_start: bool = False,
        smoothing: float = 0.0,
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
        self.bias = bias
        self.scale = scale
        self.connectivity = connectivity
        self.edge_types = edge_types
        self.edge_features = edge_features
        self.gamma = gamma
        self.symmetric = symmetric
        self.classes = classes
        self.checkpoint = checkpoint
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.solver = solver
        self.checkpoint_seconds = checkpoint_seconds

    _parameters = settings(
        connectivity=OneOf(4, 8),
        edge_types=OneOf("tied", "directions"),
        edge_features=Maybe(OneOf("contrast"), wanted="None or 'contrast'"),
        gamma=Maybe(Real(0.0, below=np.inf), wanted="None or a finite number >= 0"),
    )

    def _list(self, X: Any) -> list[Any]:
        shape = getattr(X, "shape", None)
        if shape is not None and len(shape) in (2, 3):
            raise InvalidSampleError(
                f"X is one array of shape {tuple(shape)}, wanted a list of images, (height, width, d) or (height, width) codes. "
                "For one image give [X], for a stack of code images list(X)."
            )
        return list(X)

    def _facts(self, items: list[Any], weight: np.ndarray) -> dict[str, Any]:
        found = super()._facts(items, weight)
        if self.edge_features is None:
            return found | {"gamma_": None}
        if self.gamma is not None:
            return found | {"gamma_": float(self.gamma)}
        return found | self._facts_of(self._fact_sums(items, weight))

    def _observed(self, item: Any) -> Any:
        image = np.asarray(item)
        return image if image.ndim == 3 else image.ravel()  # codes, which have no scale

    def _fact_sums(self, items: list[Any], weight: np.ndarray | None = None) -> np.ndarray:
        """Sum of squared distances of neighbours, and their number."""
        total = count = 0.0
        for j, own in enumerate(np.ones(len(items)) if weight is None else weight):
            image = _image(items[j], j)
            distance = _distance(image, self._graph(image), j) if own else np.zeros(0)
            total, count = total + own * float(distance.sum()), count + own * len(distance)
        return np.array([total, count])

    def _facts_of(self, sums: np.ndarray) -> dict[str, Any]:
        total, count = (float(own) for own in sums)
        return {"gamma_": count / (2.0 * total) if total > 0 else 1.0}

    def _samples(self, items: list[Any], facts: dict[str, Any] | None = None) -> list[GraphSample]:
        gamma = (vars(self) if facts is None else facts).get("gamma_")
        samples, scaling = [], self._scaling(facts)
        grids: dict[tuple[int, ...], Graph] = {}
        for j, item in enumerate(items):
            image = _image(item, j)
            if image.shape[:2] not in grids:
                grids[image.shape[:2]] = self._graph(image)
            graph = grids[image.shape[:2]]
            features = None
            if gamma is not None:
                contrast = np.exp(-gamma * _distance(image, graph, j))
                features = np.stack([np.ones(len(contrast)), contrast], axis=1)
            try:
                samples.append(GraphSample(scaling.apply(image), graph, features))
            except InvalidSampleError as error:
                raise InvalidSampleError(f"sample {j}: {error}") from error
        return samples

    def _size(self, item: Any) -> Size:
        return grid_size(item, self.connectivity)

    def _graph(self, image: np.ndarray) -> Graph:
        height, width = image.shape[:2]
        return Graph.grid(height, width, self.connectivity, "tied" if self.edge_types == "tied" else "direction")

    def _edge_names(self) -> tuple[list[str], list[str]]:
        return DIRECTIONS, ["constant", "contrast"]


def _image(item: Any, j: int) -> np.ndarray:
    image = np.asarray(item)
    if image.dtype.kind == "b":
        image = image.astype(np.int64)
    if image.ndim not in (2, 3) or image.dtype.kind not in "iuf":
        raise InvalidSampleError(
            f"sample {j} has shape {image.shape} and dtype {image.dtype}, wanted an image (height, width, d), or (height, width) "
            "integer codes."
        )
    if image.ndim == 2 and image.dtype.kind == "f":
        raise InvalidSampleError(
            f"sample {j} has shape {image.shape} and dtype {image.dtype}, wanted integer codes, or features (height, width, d). "
            "Give grey values the shape (height, width, 1)."
        )
    return image


def _distance(image: np.ndarray, graph: Graph, j: int) -> np.ndarray:
    """Squared distance of the features at both ends of each edge."""
    if image.ndim != 3:
        raise InvalidSampleError(
            f"sample {j} holds integer codes, but edge_features='contrast' needs real features (height, width, d)."
        )
    x = image.reshape(-1, image.shape[2]).astype(np.float64)
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        node, feature = bad[0]
        raise InvalidSampleError(
            f"sample {j}: X has {x[node, feature]} at node {node}, feature {feature}; wanted finite numbers. Impute or drop it first."
        )
    difference = x[graph.edges[:, 0]] - x[graph.edges[:, 1]]
    return np.einsum("ef,ef->e", difference, difference)
