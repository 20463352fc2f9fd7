"""Questions about the pixels around a node, for decision trees (Shotton et al. 2011; Jancsary, Nowozin & Rother 2013, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.errors import InvalidSampleError
from ...core.parameters import SEED, Elsewhere, Maybe, WholeNumber, check, settings
from ..sample import GraphSample
from .pixels import Pixels

_MOST_VALUES = 100_000  # pixels that thresholds are taken from: quantiles of more do not differ
_MOST_OFFSETS = 2**22  # of a window: pairs of them fit into memory, whatever radius a file claims


@dataclass(frozen=True, eq=False)
class PixelTests:
    r"""Tests of the pixels in a window around a node: for ``Trees(tests=PixelTests(radius))`` in estimators, and for `TreeGrower`.

    With :math:`x` the image and :math:`p` the pixel of the node, offsets :math:`o` of at most ``radius`` along each axis ask

    .. math:: x_{p + o, c} > t \qquad\text{and}\qquad x_{p + o, c} - x_{p + o', c} > s,

    the second for ``n_pairs`` pairs of offsets, drawn once. An edge has the tests of its first node, then those of its second. The image is that of
    ``GraphSample(..., pixels=(image, places))``, or the node features of a grid.

    Parameters
    ----------
    radius : int
    thresholds, spreads : array-like, shape (d, n), optional
        Those :math:`t` and :math:`s` of each channel; by default between quantiles of what the training images show.
    n_thresholds : int
        Quantiles of each channel.
    n_pairs : int, optional
        As many as there are offsets by default; 0 for none.
    outside : float or "nearest"
        What is seen beyond the image: a number in all channels, or the nearest pixel.
    random_state : int
        Of the pairs.
    n_dimensions : int
        Sides of the images; `fit` sets it.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> x = np.random.default_rng(0).random((12, 12, 1))
    >>> truth = np.pad(x[:, :-2, 0] > 0.5, ((0, 0), (2, 0))).astype(int)  # what stands two pixels to the left
    >>> trees = ms.models.Trees(node_depth=2, edge_depth=0, tests=ms.models.PixelTests(2), min_items=5)
    >>> net = ms.GridLabeler(ms.models.Convex(trees=trees), surrogate="qp", C=10.0).fit([x], [truth])
    >>> bool((net.predict([x])[0] == truth).mean() > 0.9)
    True
    """

    radius: int = 10
    thresholds: Any = None
    spreads: Any = None
    n_thresholds: int = 8
    n_pairs: int | None = None
    outside: Any = "nearest"
    random_state: int = 0
    n_dimensions: int = 2

    _parameters = settings(
        radius=WholeNumber(0),
        thresholds=Elsewhere("None, or an array with a row a channel"),
        spreads=Elsewhere("None, or an array with a row a channel"),
        n_thresholds=WholeNumber(1),
        n_pairs=Maybe(WholeNumber(0, _MOST_OFFSETS)),
        outside=Elsewhere("a finite number, or 'nearest'"),
        random_state=SEED,
        n_dimensions=WholeNumber(1, 22),
    )

    def __post_init__(self) -> None:
        check(self)
        sound = self.outside == "nearest" if isinstance(self.outside, str) else _is_number(self.outside)
        if not sound:
            raise InvalidSampleError(f"PixelTests: outside is {self.outside!r}, wanted a finite number or 'nearest'.")
        for name in ("thresholds", "spreads"):
            if getattr(self, name) is not None:
                own = np.asarray(getattr(self, name), dtype=np.float64)
                if own.ndim > 2 or not np.isfinite(own).all():
                    raise InvalidSampleError(
                        f"PixelTests: {name} has shape {own.shape}, wanted finite numbers (d, n), a row a channel."
                    )
                object.__setattr__(self, name, np.atleast_2d(own))
        if (2.0 * self.radius + 1.0) ** self.n_dimensions > _MOST_OFFSETS:
            raise InvalidSampleError(
                f"PixelTests: radius {self.radius} in {self.n_dimensions} dimensions is too large; wanted a window of at most {_MOST_OFFSETS} pixels."
            )

    def fit(self, samples: Sequence[GraphSample]) -> PixelTests:
        """The same tests with thresholds from the images of training samples, where they have none."""
        found = [pixels_of(sample) for sample in samples if sample.n_nodes]
        if not found:
            raise InvalidSampleError("there is no node to take thresholds from; wanted training samples with nodes.")
        sizes = {(own.place.shape[1], own.image.shape[-1]) for own in found}
        if len(sizes) > 1:
            raise InvalidSampleError(
                f"images have different numbers of sides and channels: {sorted(sizes)}; wanted the same in all."
            )
        own = replace(self, n_dimensions=found[0].place.shape[1])
        values, steps = _shown(found)
        if own.thresholds is None:
            own = replace(own, thresholds=_levels(values, self.n_thresholds))
        if own.spreads is None:
            own = replace(own, spreads=_levels(steps, self.n_thresholds))
        if len(own.thresholds) != sizes.pop()[1] or len(own.spreads) != len(own.thresholds):
            raise InvalidSampleError(
                f"PixelTests has {len(own.thresholds)} rows of thresholds and {len(own.spreads)} of spreads, but images have "
                f"{values.shape[1]} channels; wanted a row for each."
            )
        return own

    # ---- numbers of tests -----------------------------------------------------------------------------------------

    @property
    def n_offsets(self) -> int:
        """Pixels of the window."""
        return int((2 * self.radius + 1) ** self.n_dimensions)

    @property
    def pairs(self) -> np.ndarray:
        """Numbers (n_pairs, 2) of the offsets that are compared."""
        count = (self.n_offsets if self.n_pairs is None else self.n_pairs) if self.n_offsets > 1 else 0
        first, step = (
            np.random.default_rng(self.random_state)
            .integers(0, [self.n_offsets, max(1, self.n_offsets - 1)], size=(count, 2))
            .T
        )
        return np.stack([first, (first + 1 + step) % self.n_offsets], axis=1)

    @property
    def n_singles(self) -> int:
        """Tests of one pixel."""
        return self.n_offsets * int(np.size(self._known("thresholds")))

    @property
    def n_node_tests(self) -> int:
        """Tests of a node: of one pixel, then of two."""
        return self.n_singles + len(self.pairs) * int(np.size(self._known("spreads")))

    @property
    def n_edge_tests(self) -> int:
        """Tests of an edge: those of its two nodes."""
        return 2 * self.n_node_tests

    def _known(self, name: str) -> np.ndarray:
        if getattr(self, name) is None:
            raise InvalidSampleError(
                f"PixelTests has no {name} yet; wanted PixelTests(...).fit(samples), or {name}=... of its own."
            )
        return np.asarray(getattr(self, name))

    # ---- answers --------------------------------------------------------------------------------------------------

    def node(self, sample: GraphSample, tests: np.ndarray) -> np.ndarray:
        """Answers (n_nodes, len(tests))."""
        pixels, tests = pixels_of(sample), np.asarray(tests, dtype=np.int64)
        levels, spreads = self._known("thresholds"), self._known("spreads")
        channels = pixels.image.shape[-1]
        if pixels.place.shape[1] != self.n_dimensions or channels != len(levels) or channels != len(spreads):
            raise InvalidSampleError(
                f"the tests look at images of {self.n_dimensions} sides and {len(levels)} channels, but this one has {pixels.place.shape[1]} and "
                f"{channels}; wanted the same."
            )
        out, padded = np.empty((sample.n_nodes, len(tests)), dtype=bool), self._padded(pixels.image)
        single = tests < self.n_singles
        if single.any():
            offset, level = np.divmod(tests[single], levels.size)
            out[:, single] = self._seen(padded, pixels.place, offset, level // levels.shape[1]) > levels.ravel()[level]
        if not single.all():
            pair, level = np.divmod(tests[~single] - self.n_singles, spreads.size)
            ends, channel = self.pairs[pair], level // spreads.shape[1]
            first, second = (self._seen(padded, pixels.place, ends[:, side], channel) for side in (0, 1))
            out[:, ~single] = first - second > spreads.ravel()[level]
        return out

    def edge(self, sample: GraphSample, tests: np.ndarray) -> np.ndarray:
        """Answers (n_edges, len(tests))."""
        ends, tests = sample.graph.edges, np.asarray(tests, dtype=np.int64)
        side, own = np.divmod(tests, max(1, self.n_node_tests))
        used, place = np.unique(own, return_inverse=True)
        answers, out = self.node(sample, used), np.empty((len(ends), len(tests)), dtype=bool)
        for end in (0, 1):
            here = np.flatnonzero(side == end)
            out[:, here] = answers[ends[:, end][:, None], place.reshape(-1)[here]]
        return out

    def _padded(self, image: np.ndarray) -> np.ndarray:
        widths = [(self.radius, self.radius)] * self.n_dimensions + [(0, 0)]
        return (
            np.pad(image, widths, mode="edge")
            if isinstance(self.outside, str)
            else np.pad(image, widths, constant_values=self.outside)
        )

    def _seen(self, padded: np.ndarray, place: np.ndarray, offset: np.ndarray, channel: np.ndarray) -> np.ndarray:
        """Values (n_nodes, n) at offsets by number."""
        steps = np.unravel_index(offset, (2 * self.radius + 1,) * self.n_dimensions)
        index = tuple(place[:, axis, None] + step for axis, step in enumerate(steps))
        return np.asarray(padded[(*index, channel)])


def pixels_of(sample: GraphSample) -> Pixels:
    """The image of a sample, and where its nodes stand in it."""
    if sample.pixels is not None:
        return sample.pixels
    if sample.graph.shape is None or sample.kind not in ("dense", "codes"):
        raise InvalidSampleError(
            "the sample has no image to test pixels of; wanted dense features (or codes) on a grid graph, or GraphSample(..., pixels=(image, places))."
        )
    return Pixels.grid(sample.X, sample.graph.shape)


def _shown(found: Sequence[Pixels]) -> tuple[np.ndarray, np.ndarray]:
    """Values of pixels, and their differences along the last side, of as many images as are needed."""
    values: list[np.ndarray] = []
    steps: list[np.ndarray] = []
    count = 0
    for own in found:
        if count < _MOST_VALUES:
            values.append(own.image.reshape(-1, own.image.shape[-1]))
            steps.append(np.diff(own.image, axis=-2).reshape(-1, own.image.shape[-1]))
            count += len(values[-1])
    return np.concatenate(values), np.concatenate(steps)


def _levels(values: np.ndarray, most: int) -> np.ndarray:
    """Thresholds (d, n) halfway between different quantiles of each column; rows that have fewer repeat their last."""
    rows = []
    for column in values.T:
        levels = (
            np.unique(np.quantile(column, np.linspace(0.0, 1.0, most + 1), method="nearest")) if len(column) else np.zeros(1)
        )
        rows.append(0.5 * (levels[:-1] + levels[1:]) if len(levels) > 1 else levels)
    width = max(map(len, rows), default=0)
    return np.array([np.pad(row, (0, width - len(row)), mode="edge") for row in rows]).reshape(len(rows), width)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))
