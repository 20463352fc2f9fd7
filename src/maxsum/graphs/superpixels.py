"""Superpixels: regions of like pixels as nodes, their common borders as edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import Maybe, Real, WholeNumber, check_value
from ..models.sample import GraphSample

_UNKNOWN = -1  # a label that was not given


@dataclass(frozen=True, eq=False)
class Superpixels:
    r"""An image as a graph of superpixels; what `superpixels` makes.

    Attributes
    ----------
    sample : GraphSample
        For `GraphLabeler`. Node features are the mean and the standard deviation of each channel, over the pixels. Edge features are 1, the border (pairs of
        neighbouring pixels, as a share of the border of the smaller region), and the contrast :math:`e^{-\gamma\|\bar x_u - \bar x_v\|^2}` of the
        means. A wrong node costs its number of pixels, divided by the mean of these.
    segments : ndarray of int, shape (height, width)
        The node of each pixel.
    """

    sample: GraphSample
    segments: np.ndarray

    @property
    def n_nodes(self) -> int:
        """Number of superpixels."""
        return self.sample.n_nodes

    def labels(self, mask: Any) -> np.ndarray:
        """The most frequent label of each superpixel (n_nodes,), from labels of the pixels; those of whole numbers below 0 are unknown and do not count."""
        truth = np.asarray(mask)
        if truth.shape != self.segments.shape:
            raise InvalidSampleError(f"the mask has shape {truth.shape}, wanted {self.segments.shape}, that of the image.")
        flat, owner = truth.ravel(), self.segments.ravel()
        known = flat >= 0 if flat.dtype.kind in "if" else np.ones(len(flat), dtype=bool)
        classes, number = np.unique(flat[known], return_inverse=True)
        if not len(classes):
            return np.full(self.n_nodes, _UNKNOWN)
        votes = np.zeros((self.n_nodes, len(classes)), dtype=np.int64)
        np.add.at(votes, (owner[known], number.reshape(-1)), 1)
        found: np.ndarray = classes[votes.argmax(axis=1)]
        empty = votes.sum(axis=1) == 0
        if not empty.any():
            return found
        if found.dtype.kind not in "if":
            raise InvalidSampleError(
                "a superpixel has no pixel of known label; wanted numbers as labels, of which -1 is unknown."
            )
        return np.where(empty, _UNKNOWN, found)

    def paint(self, values: Any) -> np.ndarray:
        """Labels (or any values) of the nodes as an image."""
        given = np.asarray(values)
        if len(given) != self.n_nodes:
            raise InvalidSampleError(f"there are {len(given)} values, wanted one for each of {self.n_nodes} superpixels.")
        return np.asarray(given[self.segments])


def superpixels(
    image: Any,
    n_segments: int = 200,
    compactness: float = 20.0,
    features: Any = None,
    segments: Any = None,
    gamma: float | None = None,
) -> Superpixels:
    r"""Superpixels of an image as a sample: by SLIC (Achanta et al. 2012) of scikit-image where no segments are given.

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, d)
        `uint8` is divided by 255.
    n_segments : int
        About so many superpixels.
    compactness : float
        Of SLIC: more of it makes them rounder, less follows colours (and, with noise and texture, leaves few large regions).
    features : array-like, shape (height, width, m), optional
        Further channels for the node features, such as probabilities of a classifier; borders and contrast do not look at them.
    segments : array-like of int, shape (height, width), optional
        Regions of your own; then scikit-image is not needed.
    gamma : float, optional
        Of the contrast; by default :math:`1 / (2 \cdot \text{mean}\,\|\bar x_u - \bar x_v\|^2)` of this image. Give one number for a set of images.

    Returns
    -------
    Superpixels

    Raises
    ------
    ImportError
        If scikit-image is needed and not installed.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> image = np.zeros((6, 8))
    >>> image[:, 4:] = 1.0
    >>> found = ms.graphs.superpixels(image, segments=np.arange(8)[None].repeat(6, axis=0) // 2)
    >>> found.sample.graph.edges.tolist(), found.labels(image.astype(int)).tolist()
    ([[0, 1], [1, 2], [2, 3]], [0, 0, 1, 1])
    """
    check_value("n_segments", n_segments, WholeNumber(1), of="superpixels")
    check_value("compactness", compactness, Real(above=0.0, below=np.inf), of="superpixels")
    check_value("gamma", gamma, Maybe(Real(0.0, below=np.inf)), of="superpixels")
    given = np.asarray(image)
    if given.dtype.kind not in "biuf" or given.ndim not in (2, 3) or given.size == 0:
        raise InvalidSampleError(
            f"the image has shape {given.shape} and dtype {given.dtype}, wanted numbers (height, width) or (height, width, d)."
        )
    x = given.reshape(*given.shape[:2], -1).astype(np.float64)
    x = x / np.iinfo(np.uint8).max if given.dtype == np.uint8 else x
    if not np.isfinite(x).all():
        raise InvalidSampleError("the image holds NaN or infinite numbers; wanted finite ones.")
    regions = _slic(x, n_segments, compactness) if segments is None else np.asarray(segments)
    if regions.shape != x.shape[:2] or regions.dtype.kind not in "iu":
        raise InvalidSampleError(
            f"segments have shape {regions.shape} and dtype {regions.dtype}, wanted whole numbers {x.shape[:2]}."
        )
    node = np.unique(regions, return_inverse=True)[1].reshape(regions.shape)
    channels = x if features is None else np.concatenate([x, _further(features, x.shape[:2])], axis=2)
    size, mean, spread = _moments(node, channels)
    edges, border = _borders(node)
    square = ((mean[edges[:, 0], : x.shape[2]] - mean[edges[:, 1], : x.shape[2]]) ** 2).sum(axis=1)
    level = float(square.mean()) if len(square) else 0.0
    own = (1.0 / (2.0 * level) if level > 0 else 1.0) if gamma is None else gamma
    around = np.bincount(edges.ravel(), weights=np.repeat(border, 2), minlength=len(size))
    share = border / np.minimum(around[edges[:, 0]], around[edges[:, 1]]) if len(edges) else border
    rows = np.stack([np.ones(len(edges)), share, np.exp(-own * square)], axis=1)
    sample = GraphSample(
        np.concatenate([mean, spread], axis=1), Graph.from_edges(edges, len(size)), rows, node_weights=size / size.mean()
    )
    return Superpixels(sample, node)


def _slic(x: np.ndarray, n_segments: int, compactness: float) -> np.ndarray:
    try:
        from skimage.segmentation import slic
    except ImportError as error:
        raise ImportError(
            f"superpixels need scikit-image, which is not installed ({error}). pip install 'maxsum[image]', or give segments=... of your own."
        ) from error
    low, high = x.min(), x.max()
    scaled = (x - low) / (high - low) if high > low else np.zeros_like(x)
    found = slic(
        scaled, n_segments=n_segments, compactness=compactness, start_label=0, channel_axis=2, convert2lab=x.shape[2] == 3
    )
    return np.asarray(found, dtype=np.int64)


def _further(features: Any, sides: tuple[int, ...]) -> np.ndarray:
    more = np.asarray(features)
    if more.dtype.kind not in "biuf" or more.ndim not in (2, 3) or more.shape[:2] != sides or not np.isfinite(more).all():
        raise InvalidSampleError(
            f"features have shape {more.shape} and dtype {more.dtype}, wanted finite numbers ({sides[0]}, {sides[1]}, m)."
        )
    return more.reshape(*sides, -1).astype(np.float64)


def _moments(node: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels of each region, and mean and standard deviation of each channel over them."""
    flat, owner = x.reshape(-1, x.shape[2]), node.ravel()
    size = np.bincount(owner).astype(np.float64)
    mean = np.stack([np.bincount(owner, weights=column) for column in flat.T], axis=1) / size[:, None]
    square = np.stack([np.bincount(owner, weights=column) for column in ((flat - mean[owner]) ** 2).T], axis=1)
    return size, mean, np.sqrt(square / size[:, None])


def _borders(node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of regions that touch, and how many pairs of pixels, side by side, their border has."""
    pairs = np.concatenate([
        np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], axis=1),
        np.stack([node[:-1].ravel(), node[1:].ravel()], axis=1),
    ])  # fmt: skip
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    edges, count = np.unique(pairs, axis=0, return_counts=True)
    return edges.reshape(-1, 2), count.astype(np.float64)
