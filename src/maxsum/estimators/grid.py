"""GridLabeler: learns to label the pixels of images, and proves how well."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InvalidGraphError, InvalidParameterError, InvalidSampleError
from ..core.graph import Graph, grid_offsets
from ..core.parameters import Elsewhere, Flag, Maybe, OneOf, Real, WholeNumber, settings
from ..inference.base import Solver
from ..learning.driver import Learner
from ..losses import Loss
from ..models.images.contrast import squared_steps
from ..models.sample import GraphSample
from .base import Labeler
from .memory import Size, grid_size

DIRECTIONS: dict[tuple[int, ...], str] = {(0, 1): "horizontal", (1, 0): "vertical", (1, 1): "diagonal", (1, -1): "antidiagonal"}
_MOST_DIMENSIONS = 31  # numpy has arrays of 32 on all versions, one of them for features


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
    surrogate : {"margin", "lp", "trivial", "qp", "logistic", "likelihood", "pseudolikelihood", "auto"} or None
        What is minimised: a hinge (margin, also auto, but for large images with many weights, where auto is lp; lp and qp for relaxations), strictly trivial equivalents, a logistic random field, or
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
    connectivity : int, optional
        Neighbours of a pixel, 4 (default) or 8; of a voxel 6 (default), 18 or 26.
    offsets : array-like of int, shape (n_offsets, dimensions), optional
        Steps to neighbours in place of ``connectivity``, as `Graph.grid` takes them; ``[(0, 1), (1, 0), (0, 5), (5, 0)]`` looks five pixels far too.
    dimensions : int
        2 for images; 3 for volumes, (depth, height, width, d) or (depth, height, width) codes; or any other number.
    edge_types : {"tied", "directions"}
        One table for all edges, or one for each offset: horizontal, vertical (and both diagonal) edges.
    edge_features : None or "contrast"
        A constant, or a constant and the contrast :math:`e^{-\gamma\|x_u - x_v\|^2}`, which is near 0 across the borders that
        an image shows. For images of real features.
    gamma : float, optional
        Of the contrast; by default :math:`1 / (2 \cdot \text{mean}\,\|x_u - x_v\|^2)` over all edges of the training set.
    guide : array-like of int, optional
        Channels of the images that are a guide image: the contrast looks at them alone, and nodes do not see them. By default nodes and contrast look at all
        channels. For probabilities of a classifier with the photograph they were made from: ``np.dstack([probabilities, photograph])``.
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
        self.n_hidden = n_hidden
        self.warm_start = warm_start
        self.smoothing = smoothing
        self.tighten = tighten
        self.penalty = penalty
        self.solver = solver
        self.checkpoint_seconds = checkpoint_seconds

    _parameters = settings(
        connectivity=Elsewhere("None, or the neighbours that `Graph.grid` knows for so many dimensions"),
        offsets=Elsewhere("None, or steps as `Graph.grid` takes them"),
        dimensions=WholeNumber(1, _MOST_DIMENSIONS),
        guide=Elsewhere("None, or numbers of channels that the images have"),
        edge_types=OneOf("tied", "directions"),
        edge_features=Maybe(OneOf("contrast"), wanted="None or 'contrast'"),
        gamma=Maybe(Real(0.0, below=np.inf), wanted="None or a finite number >= 0"),
        tighten=Flag(),
    )

    def _list(self, X: Any) -> list[Any]:
        shape = getattr(X, "shape", None)
        if shape is not None and len(shape) in (self.dimensions, self.dimensions + 1):
            one, form = _words(self.dimensions)
            raise InvalidSampleError(
                f"X is one array of shape {tuple(shape)}, wanted a list of {one}s, {form}. "
                f"For one {one} give [X], for a stack of code {one}s list(X)."
            )
        self._steps()
        if self.guide is not None and self.edge_features is None:
            raise InvalidParameterError(
                "guide is given, but no edge features look at it; wanted edge_features='contrast' beside it."
            )
        return list(X)

    def _steps(self) -> list[tuple[int, ...]]:
        """Offsets of neighbours."""
        try:
            return grid_offsets(self.dimensions, self.connectivity, self.offsets)
        except InvalidGraphError as error:
            raise InvalidParameterError(str(error).removeprefix("Graph.grid: ")) from error

    def _facts(self, items: list[Any], weight: np.ndarray) -> dict[str, Any]:
        found = super()._facts(items, weight)
        if self.edge_features is None:
            return found | {"gamma_": None}
        if self.gamma is not None:
            return found | {"gamma_": float(self.gamma)}
        return found | self._facts_of(self._fact_sums(items, weight))

    def _observed(self, item: Any) -> Any:
        image = np.asarray(item)
        return self._seen(image) if image.ndim == self.dimensions + 1 else image.ravel()  # codes, which have no scale

    def _seen(self, image: np.ndarray) -> np.ndarray:
        """The channels that nodes see."""
        if self.guide is None or image.ndim != self.dimensions + 1:
            return image
        return np.delete(image, self._channels(image), axis=-1)

    def _channels(self, image: np.ndarray) -> np.ndarray:
        """Numbers of the channels of the guide image."""
        channels, width = np.atleast_1d(np.asarray(self.guide)), image.shape[-1]
        sound = (
            channels.ndim == 1
            and channels.dtype.kind in "iu"
            and len(channels) > 0
            and len(np.unique(channels)) == len(channels)
        )
        if not sound or channels.min() < 0 or channels.max() >= width:
            raise InvalidParameterError(f"guide is {self.guide!r}, wanted different numbers of channels, 0..{width - 1}.")
        return channels

    def _contrast(self, image: np.ndarray, graph: Graph, j: int) -> np.ndarray:
        """Squared distance of neighbours in the guide image."""
        if image.ndim != self.dimensions + 1:
            wanted = _words(self.dimensions)[1].split(" or ")[0]
            raise InvalidSampleError(
                f"sample {j} holds integer codes, but edge_features='contrast' needs real features {wanted}."
            )
        return squared_steps(image if self.guide is None else image[..., self._channels(image)], graph, j)

    def _fact_sums(self, items: list[Any], weight: np.ndarray | None = None) -> np.ndarray:
        """Sum of squared distances of neighbours, and their number."""
        total = count = 0.0
        for j, own in enumerate(np.ones(len(items)) if weight is None else weight):
            image = _image(items[j], j, self.dimensions)
            distance = self._contrast(image, self._graph(image), j) if own else np.zeros(0)
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
            image = _image(item, j, self.dimensions)
            sides = image.shape[: self.dimensions]
            if sides not in grids:
                grids[sides] = self._graph(image)
            graph = grids[sides]
            features = None
            if gamma is not None:
                contrast = np.exp(-gamma * self._contrast(image, graph, j))
                features = np.stack([np.ones(len(contrast)), contrast], axis=1)
            try:
                samples.append(GraphSample(scaling.apply(self._seen(image)), graph, features))
            except InvalidSampleError as error:
                raise InvalidSampleError(f"sample {j}: {error}") from error
        return samples

    def _size(self, item: Any) -> Size:
        return grid_size(item, len(self._steps()), self.dimensions)

    def _graph(self, image: np.ndarray) -> Graph:
        return Graph.grid(
            image.shape[: self.dimensions],
            offsets=np.array(self._steps(), dtype=np.int64).reshape(-1, self.dimensions),
            edge_types=self.edge_types,
        )

    def _edge_names(self) -> tuple[list[str], list[str]]:
        return [DIRECTIONS.get(step, str(step)) for step in self._steps()], ["constant", "contrast"]


def _words(dimensions: int) -> tuple[str, str]:
    """What a sample is called, and the shapes that it may have."""
    if dimensions == 2:
        return "image", "(height, width, d) or (height, width) codes"
    sides = "depth, height, width" if dimensions == 3 else ", ".join(f"side {axis}" for axis in range(dimensions))
    return "volume" if dimensions == 3 else "grid", f"({sides}, d) or ({sides}) codes"


def _image(item: Any, j: int, dimensions: int) -> np.ndarray:
    image = np.asarray(item)
    if image.dtype.kind == "b":
        image = image.astype(np.int64)
    one, form = _words(dimensions)
    if image.ndim not in (dimensions, dimensions + 1) or image.dtype.kind not in "iuf":
        hint = " For volumes set dimensions=3." if image.ndim == 4 and dimensions == 2 else ""
        found = f"has shape {image.shape} and dtype {image.dtype}"
        if isinstance(item, (str, PathLike)):
            found, hint = (
                f"is the name {str(item)!r:.60}",
                " Read files first: datasets.read_image_folder, or np.asarray(PIL.Image.open(name)).",
            )
        raise InvalidSampleError(
            f"sample {j} {found}, wanted {'an' if one == 'image' else 'a'} {one} "
            f"{form.replace(' or ', ', or ').replace(' codes', ' integer codes')}.{hint}"
        )
    if image.ndim == dimensions and image.dtype.kind == "f":
        full = form.split(" or ")[0]
        raise InvalidSampleError(
            f"sample {j} has shape {image.shape} and dtype {image.dtype}, wanted integer codes, or features {full}. "
            f"Give grey values the shape {full.replace(', d)', ', 1)')}."
        )
    return image
