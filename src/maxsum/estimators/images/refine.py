r"""`refine`: probabilities of a classifier, and the image they were made from, to labels whose borders follow those of the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.certificates.base import Verification
from ...core.errors import InvalidParameterError, InvalidSampleError
from ...core.graph import Graph
from ...core.parameters import Maybe, Real, check_value
from ...core.problem import Problem
from ...core.result import Result
from ...inference.dispatch import solve
from ...models.images.contrast import squared_steps
from ..grid import GridLabeler


@dataclass(frozen=True)
class Tuning:
    """What `refine` does where it is not told."""

    # Potts weight of a pair of neighbours beside an image: on 16 made images of three to six labels (as tests/estimators/test_refine.py draws them)
    # 1, 2 and 4 left 2.5, 1.2 and 3.5 % wrong pixels, of 39 % before.
    weight: float = 2.0
    plain: float = 1.0  # without an image: there 0.5, 1 and 2 left 8.4, 4.7 and 13.8 %
    # Relative gap at which three and more labels are left: a thousandth, where two labels are exact in any case. A tenth of it takes up to ten times as long.
    gap: float = 1e-3
    least: float = 1e-6  # probabilities are raised to this, so that a 0 is a strong opinion and no prohibition


_TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Refinement:
    """What `refine` found.

    Attributes
    ----------
    labels : ndarray of int, shape (height, width), or as many sides as the grid has
    result : Result
        Score, bound, gap and guarantee, with the certificate that proves them.
    problem : Problem
        That was solved.
    model : GridLabeler or None
        That learned the weights from ``examples``, if there were any; `refine` takes it as ``weight`` for further images.
    """

    labels: np.ndarray
    result: Result
    problem: Problem = field(repr=False)
    model: GridLabeler | None = field(default=None, repr=False)

    def verify(self) -> Verification:
        """Recompute score, bound and gap from the certificate."""
        if self.result.certificate is None:
            raise InvalidSampleError("the result has no certificate to verify; wanted one of a solver that proves a bound.")
        return self.result.certificate.verify(self.problem, self.labels.ravel())


def refine(
    probabilities: Any,
    image: Any = None,
    weight: Any = None,
    gamma: float | None = None,
    connectivity: int | None = None,
    examples: tuple[Sequence[Any], Sequence[Any] | None, Sequence[Any]] | None = None,
    C: float = 1.0,
    gap: float | None = None,
    time_limit: float | None = None,
    solver: Any = None,
) -> Refinement:
    r"""Labels of pixels from a classifier's probabilities, cleaned by a Potts model on the grid, with a proof of how good they are:

    .. math:: \max_y \sum_v \log p_v(y_v) + \lambda \sum_{uv} c_{uv}\,[y_u = y_v], \qquad
              c_{uv} = \frac{e^{-\gamma\|x_u - x_v\|^2}}{|u - v|},

    where :math:`x` is the image; :math:`c_{uv} = 1 / |u - v|` without one. It stands where a dense CRF (Kraehenbuehl & Koltun 2011) is used to clean masks.
    Two labels are solved exactly, more of them to a proven gap.

    Parameters
    ----------
    probabilities : array-like, shape (height, width, K), (height, width), or (..., K)
        Of K labels, as ``predict_proba`` or a softmax gives them; of label 1 alone where there are two axes; more axes for volumes. Rows need not sum to 1.
    image : array-like, shape (height, width), (height, width, d), or (..., d), optional
        Grey values, colours or features of the same pixels; `uint8` is divided by 255.
    weight : float or GridLabeler, optional
        The Potts weight :math:`\lambda`, by default 2 beside an image and 1 without; or the ``model`` of an earlier refinement with ``examples``.
    gamma : float, optional
        By default :math:`1 / (2 \cdot \text{mean}\,\|x_u - x_v\|^2)` of this image (of the examples, if there are any).
    connectivity : int, optional
        Neighbours of a pixel: 4 or 8 (default); of a voxel 6, 18 or 26 (default).
    examples : (list of probabilities, list of images or None, list of masks), optional
        To learn from: a `GridLabeler` with Potts tables learns how far each label's probability is to be trusted, the Potts weight, and what part of it
        depends on the image. Pixels of unknown label are -1.
    C : float
        Of that learning.
    gap : float, optional
        Relative gap at which to stop; 1e-3 by default.
    time_limit : float, optional
        Seconds for the labelling.
    solver : Solver or str, optional
        As `solve` takes it.

    Returns
    -------
    Refinement

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> image = np.zeros((8, 8))
    >>> image[:, 4:] = 1.0
    >>> p = np.clip(0.5 + 0.3 * (image - 0.5) + 0.2 * np.random.default_rng(0).normal(size=(8, 8)), 0.01, 0.99)
    >>> found = ms.refine(p, image)
    >>> bool((found.labels == image).all()), str(found.result.guarantee), bool(found.verify().optimal)
    (True, 'optimal', True)
    """
    known = isinstance(weight, GridLabeler)
    for name, value, wanted in (
        ("gamma", gamma, Real(0.0, below=np.inf)),
        ("weight", None if known else weight, Real(0.0, below=np.inf)),
    ):
        check_value(name, value, Maybe(wanted), of="refine")
    p = _probabilities(probabilities)
    guide = None if image is None else _guide(image, p.shape[:-1])
    gap = _TUNING.gap if gap is None else gap
    connectivity = _most(p.ndim - 1) if connectivity is None else connectivity
    if known and examples is not None:
        raise InvalidParameterError("refine: weight is a model beside examples to learn one from, wanted one of them.")
    if known or examples is not None:
        model = weight if known else _learned(examples, p, guide, gamma, connectivity, C)
        problem = model.problems([_observed(p, guide, model)])[0]
    else:
        default = _TUNING.plain if guide is None else _TUNING.weight
        model, problem = None, _given(p, guide, default if weight is None else float(weight), gamma, connectivity)
    result = solve(problem, solver, gap=gap, time_limit=time_limit)
    if result.labels is None:
        raise InvalidSampleError(f"refine: no labelling was found ({result.message}); wanted a longer time_limit.")
    return Refinement(np.asarray(result.labels).reshape(p.shape[:-1]), result, problem, model)


def _probabilities(given: Any) -> np.ndarray:
    p = np.asarray(given)
    if p.dtype.kind not in "biuf" or p.ndim < 2 or p.size == 0:
        raise InvalidSampleError(
            f"probabilities have shape {p.shape} and dtype {p.dtype}, wanted numbers (height, width, K), or (height, width) of label 1."
        )
    p = p.astype(np.float64)
    if not np.isfinite(p).all() or p.min() < 0 or p.max() > 1:
        bad = np.argwhere(~((p >= 0) & (p <= 1)))[0]
        raise InvalidSampleError(
            f"probabilities hold {p[tuple(bad)]} at {tuple(bad.tolist())}, wanted numbers from 0 to 1. Scores of a network: apply softmax first."
        )
    if p.ndim == 2:
        return np.stack([1.0 - p, p], axis=-1)
    if p.shape[-1] < 2:
        raise InvalidSampleError(f"probabilities have shape {p.shape}, wanted those of two labels or more on the last axis.")
    return p


def _guide(given: Any, sides: tuple[int, ...]) -> np.ndarray:
    image = np.asarray(given)
    shown = (*sides, "d")
    if image.dtype.kind not in "biuf" or image.shape[: len(sides)] != sides or image.ndim not in (len(sides), len(sides) + 1):
        words = ", ".join(map(str, shown))
        raise InvalidSampleError(
            f"the image has shape {image.shape} and dtype {image.dtype}, wanted ({words}) beside these probabilities."
        )
    x = image.reshape(*sides, -1).astype(np.float64)
    return x / np.iinfo(np.uint8).max if image.dtype == np.uint8 else x


def _most(n_dimensions: int) -> int:
    """All neighbours of a pixel or voxel; the nearest ones in more dimensions."""
    return {2: 8, 3: 26}.get(n_dimensions, 2 * n_dimensions)


def _log(p: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(p, _TUNING.least))


def _given(p: np.ndarray, guide: np.ndarray | None, weight: float, gamma: float | None, connectivity: int) -> Problem:
    """The problem with one Potts weight."""
    graph = Graph.grid(p.shape[:-1], connectivity=connectivity)
    place = np.stack(np.unravel_index(graph.edges.ravel(), p.shape[:-1]), axis=1).reshape(-1, 2, p.ndim - 1)
    strength = weight / np.linalg.norm(place[:, 1] - place[:, 0], axis=1)
    if guide is not None:
        square = squared_steps(guide, graph)
        mean = float(square.mean()) if len(square) else 0.0
        own = (1.0 / (2.0 * mean) if mean > 0 else 1.0) if gamma is None else gamma
        strength = strength * np.exp(-own * square)
    n_labels = p.shape[-1]
    return Problem(graph, _log(p).reshape(-1, n_labels), np.eye(n_labels), edge_weight=strength)


def _observed(p: np.ndarray, guide: np.ndarray | None, model: GridLabeler | None = None) -> np.ndarray:
    """Node features, with the guide image behind them."""
    if model is not None and (guide is None) != (model.edge_features is None):
        had = "no images" if model.edge_features is None else "images"
        raise InvalidSampleError(f"refine: the model learned from probabilities with {had}; wanted the same now.")
    return _log(p) if guide is None else np.concatenate([_log(p), guide], axis=-1)


def _learned(
    examples: Any, p: np.ndarray, guide: np.ndarray | None, gamma: float | None, connectivity: int, C: float
) -> GridLabeler:
    """A labeler with Potts tables, from probabilities, images and masks."""
    try:
        given, images, masks = examples
        given, masks = list(given), list(masks)
        images = [None] * len(given) if images is None else list(images)
    except (TypeError, ValueError):
        raise InvalidSampleError(
            "refine: examples is no triple of lists, wanted (probabilities, images or None, masks)."
        ) from None
    if not given or not len(given) == len(images) == len(masks):
        raise InvalidSampleError(
            f"refine: examples have {len(given)} probabilities, {len(images)} images and {len(masks)} masks, wanted as many of each."
        )
    read = [_probabilities(own) for own in given]
    guides = [None if own is None else _guide(own, q.shape[:-1]) for own, q in zip(images, read, strict=True)]
    if any((own is None) != (guide is None) for own in guides):
        raise InvalidSampleError(
            "refine: some probabilities have an image and some have none; wanted the same for all, examples included."
        )
    n_labels = p.shape[-1]
    model = GridLabeler(
        "potts", C=C, dimensions=p.ndim - 1, connectivity=connectivity, classes=list(range(n_labels)), scale=False, bias=True,
        edge_features=None if guide is None else "contrast", gamma=gamma if guide is not None else None,
        guide=None if guide is None else list(range(n_labels, n_labels + guide.shape[-1])),
    )  # fmt: skip
    return model.fit([_observed(q, own) for q, own in zip(read, guides, strict=True)], masks)
