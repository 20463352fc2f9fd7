"""Scales of features: bytes to [0, 1], columns to one size; and the words of warnings for scales and C that do not suit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.parameters import OneOf, check_value
from .sample import GraphSample, names_features

KINDS = ("none", "bytes", "standard")
_BYTE = 255.0  # the largest value of a uint8 pixel, which becomes 1
_VERY_DIFFERENT = (
    100.0  # ratio of scales that is worth a warning: bytes beside ones are, and no data set of the benchmarks is without cause
)


class _Scale(OneOf):
    """Names, or False."""

    def holds(self, value: Any) -> bool:
        return value is False or super().holds(value)


SCALE = _Scale("auto", "standard", wanted="'auto', False or 'standard'")
"""What the setting ``scale`` of an estimator may be."""


def _empty() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Scaling:
    r"""What is done to each column of features before anything is learned or predicted: :math:`x' = (x - \text{shift}) / \text{unit}`.

    Columns of zeros and ones alone, and constant ones, stay as they are: a one-hot column keeps its zeros, a column of ones its meaning. Sparse columns
    are never shifted. They are divided by the root mean square of what is stored in them and not 0, so that sparse zeros and ones stay too.

    Parameters
    ----------
    kind : {"none", "bytes", "standard"}
        Nothing; bytes to [0, 1]; each column to mean 0 and standard deviation 1.
    shift, unit : ndarray, shape (d,)
        Empty for the kind ``none``.

    Examples
    --------
    >>> import numpy as np
    >>> from maxsum.models.scaling import Scaling
    >>> X = [np.array([[1000.0, 0.0], [3000.0, 1.0]])]
    >>> Scaling.fit(X, scale="standard").apply(X[0]).tolist()
    [[-1.0, 0.0], [1.0, 1.0]]
    """

    kind: str = "none"
    shift: np.ndarray = field(default_factory=_empty)
    unit: np.ndarray = field(default_factory=_empty)

    def __post_init__(self) -> None:
        check_value("kind of a Scaling", self.kind, OneOf(*KINDS))
        shift, unit = np.asarray(self.shift, dtype=np.float64), np.asarray(self.unit, dtype=np.float64)
        if (
            shift.ndim != 1
            or shift.shape != unit.shape
            or not np.isfinite(shift).all()
            or not (np.isfinite(unit) & (unit > 0)).all()
        ):
            raise InvalidParameterError(
                f"shift and unit of a Scaling have shapes {shift.shape} and {unit.shape}; wanted finite numbers (d,), units > 0."
            )
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "unit", unit)

    @classmethod
    def fit(cls, samples: Sequence[Any], weight: Any = None, scale: Any = "auto") -> Scaling:
        """The scaling of a training set.

        Parameters
        ----------
        samples : list of array-like
            Features of each sample: (n, d), a sparse matrix of that shape, an image (height, width, d), or a `GraphSample` with such. Others have no
            scale: dicts, codes (of one dimension here), None.
        weight : array-like, optional
            Of each sample, or for each sample an array of weights of its rows; 1 by default. Of the kind ``standard`` alone.
        scale : {"auto", False, "standard"}
            Auto divides images of ``uint8`` by 255, unless none has a value above 1, and leaves all else; False leaves everything.
        """
        check_value("scale", scale, SCALE)
        samples = [_features(own) for own in samples] if scale else []
        if scale == "auto":
            return cls._bytes(samples)
        if not scale:
            return cls()
        pairs = zip(samples, np.ones(len(samples)) if weight is None else weight, strict=True)
        known = [(_rows(own), w) for own, w in pairs if not _is_bare(own)]
        if len(known) < len(samples):
            raise InvalidParameterError(
                "scale is 'standard', but some samples hold codes or dicts, which have no scale; wanted arrays (n, d), images (height, width, d) or "
                "sparse matrices. Leave scale at 'auto'."
            )
        widths = {own.shape[1] for own, _ in known}
        if len(widths) > 1:
            raise InvalidSampleError(f"samples have {sorted(widths)} features; wanted as many in each.")
        if not known:
            return cls()
        if any(sparse.issparse(own) for own, _ in known):
            return cls("standard", *_sparse_units([(sparse.csr_array(own), w) for own, w in known]))
        return cls("standard", *_moments(known))

    @classmethod
    def _bytes(cls, samples: Sequence[Any]) -> Scaling:
        """Division by 255 if all samples are images of bytes, and not all of their values zeros and ones."""
        shown = [own for own in samples if _is_bytes(own)]
        if not shown or max(int(own.max(initial=0)) for own in shown) <= 1:
            return cls()
        if len(shown) < len(samples):
            raise InvalidSampleError(
                f"{len(shown)} of {len(samples)} images are uint8, which are divided by 255, and the others are not; wanted one type. Convert them, "
                "or give scale=False, which leaves all as they are."
            )
        return cls("bytes", np.zeros(shown[0].shape[2]), np.full(shown[0].shape[2], _BYTE))

    def apply(self, features: Any) -> Any:
        """Features of one sample, scaled; the same object where nothing is to be done."""
        if self.kind == "none":
            return features
        if isinstance(features, GraphSample):
            return replace(features, X=self.apply(features.X))
        features = _features(features)
        if _is_bare(features) or features.shape[-1] != len(self.unit):
            shape = np.shape(features) if not _is_bare(features) else f"{type(features).__name__} without columns"
            raise InvalidSampleError(
                f"the features are {shape}, but the model scales {len(self.unit)} columns; wanted (..., {len(self.unit)})."
            )
        if sparse.issparse(features):
            if self.shift.any():
                raise InvalidSampleError(
                    "the features are sparse, but the model was trained with dense ones; wanted an array. Use toarray()."
                )
            matrix = sparse.csr_array(features, dtype=np.float64, copy=True)
            matrix.data /= self.unit[matrix.indices]
            return matrix
        array = np.asarray(features)
        if self.kind == "bytes" and array.dtype.kind == "f":
            raise InvalidSampleError(
                f"an image has dtype {array.dtype}, but the model was trained on uint8 images, which it divides by 255; wanted uint8. Convert the image, "
                "or train with scale=False."
            )
        return (array - self.shift) / self.unit


def _features(item: Any) -> Any:
    """What a sample holds, as an array if it is one."""
    if isinstance(item, GraphSample):
        return item.X
    if item is None or isinstance(item, np.ndarray) or sparse.issparse(item) or names_features(item):
        return item
    try:
        return np.asarray(item)
    except ValueError:  # rows of different lengths, which others refuse with their own words
        return item


def _is_bare(features: Any) -> bool:
    """Whether there are no columns of numbers: codes, dicts."""
    if sparse.issparse(features):
        return False
    return not isinstance(features, np.ndarray) or features.ndim not in (2, 3) or features.dtype.kind not in "biuf"


def _is_bytes(features: Any) -> bool:
    return isinstance(features, np.ndarray) and features.dtype == np.uint8 and features.ndim == 3


def _rows(features: Any) -> Any:
    """One row a node."""
    return features if sparse.issparse(features) else features.reshape(-1, features.shape[-1])


def _moments(known: list[tuple[np.ndarray, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of columns, 0 and 1 for those that stay as they are; two passes, in units of the largest value."""
    d = known[0][0].shape[1]
    rows = [np.asarray(own, dtype=np.float64) for own, _ in known]
    weights = [np.broadcast_to(np.asarray(w, dtype=np.float64), len(own)) for own, w in known]
    counted = [own[w > 0] for own, w in zip(rows, weights, strict=True)]
    low = np.min([own.min(axis=0, initial=np.inf) for own in counted], axis=0)
    high = np.max([own.max(axis=0, initial=-np.inf) for own in counted], axis=0)
    bits = np.all([((own == 0) | (own == 1)).all(axis=0) for own in counted], axis=0)
    total = sum(float(w.sum()) for w in weights)
    size = np.maximum(np.abs(low), np.abs(high))
    moved = (low < high) & ~bits & np.isfinite(size)
    if not moved.any() or not total > 0:
        return np.zeros(d), np.ones(d)
    size = np.where(moved, size, 1.0)
    mean = sum(w @ (own / size) for own, w in zip(rows, weights, strict=True)) / total
    spread = np.sqrt(sum(w @ (own / size - mean) ** 2 for own, w in zip(rows, weights, strict=True)) / total)
    unit = spread * size
    moved &= unit >= np.finfo(np.float64).tiny
    return np.where(moved, mean * size, 0.0), np.where(moved, unit, 1.0)


def _sparse_units(known: list[tuple[sparse.csr_array, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """No shift, and the root mean square of the entries of each column that are not 0."""
    d = known[0][0].shape[1]
    columns = np.concatenate([own.indices for own, _ in known])
    values = np.abs(np.concatenate([own.data for own, _ in known]).astype(np.float64))
    weights = np.concatenate([np.repeat(np.broadcast_to(w, own.shape[0]), np.diff(own.indptr)) for own, w in known]).astype(
        np.float64
    )
    counted = (values > 0) & (weights > 0)
    columns, values, weights = columns[counted], values[counted], weights[counted]
    size = np.zeros(d)
    np.maximum.at(size, columns, values)
    there = size > 0
    size[~there] = 1.0
    square = np.bincount(columns, weights * (values / size[columns]) ** 2, minlength=d)
    total = np.bincount(columns, weights, minlength=d)
    return np.zeros(d), np.where(there, size * np.sqrt(square / np.where(there, total, 1.0)), 1.0)


def very_different_scales(samples: Iterable[Any]) -> str | None:
    """The words of a warning where columns of dense features differ much in size, from each other or from the 1 of tables and biases.

    The size of a column is its largest absolute value; constant columns and sparse ones do not count.

    Parameters
    ----------
    samples : list of array-like
        Features of each sample as they are learned from, that is after `Scaling.apply`.
    """
    low = high = None
    for own in map(_features, samples):
        if _is_bare(own) or sparse.issparse(own) or not own.size:
            continue
        rows = np.asarray(own, dtype=np.float64).reshape(-1, own.shape[-1])
        least, most = rows.min(axis=0), rows.max(axis=0)
        low = least if low is None else np.minimum(low, least)
        high = most if high is None else np.maximum(high, most)
    if low is None or high is None:
        return None
    varies = np.flatnonzero(low < high)
    if not len(varies):
        return None
    size = np.maximum(np.abs(low), np.abs(high))[varies]
    small, large = size.argmin(), size.argmax()
    a, b = float(size[small]), float(size[large])
    if max(b, 1.0) / min(a, 1.0) <= _VERY_DIFFERENT:
        return None
    names = [f"column {varies[k]} of the features has values up to {value:.3g}" for k, value in ((large, b), (small, a))]
    if b / a > _VERY_DIFFERENT:
        found = f"{names[0]}, and column {varies[small]} up to {a:.3g}"
    else:
        found = f"{names[0] if b > 1 else names[1]}, beside the 1 of biases and of tables of edges"
    return (
        f"{found}: no one C suits scales that differ by a factor of {max(b, 1.0) / min(a, 1.0):.2g}, and training takes longer. Give scale='standard', which is "
        "kept with the model, or bring the features to one scale before."
    )


def collapsed(predicted: Iterable[Any], truth: Iterable[Any], names: Sequence[Any] | None = None) -> str | None:
    """The words of a warning where a model says one thing for all of its training data, and the truth has several.

    Parameters
    ----------
    predicted : iterable of array-like of int
        Numbers of the labels of each sample, (n,); or tables (n, L), of which a row counts as one label. It is read until two differ, so that a generator
        costs little where all is well.
    truth : iterable of array-like of int
        True labels of the same form; those below 0 are unknown. A row with an unknown label is passed over.
    names : sequence, optional
        What to call the labels in words.
    """
    said: tuple[int, ...] | None = None
    for own in predicted:
        for row in _distinct(own):
            if said is not None and row != said:
                return None
            said = row
    if said is None:
        return None
    counts: dict[tuple[int, ...], int] = {}
    for own in truth:
        for row, count in _distinct(own).items():
            if min(row, default=0) >= 0:
                counts[row] = counts.get(row, 0) + count
    if len(counts) < 2:
        return None
    shown = [label if names is None else names[label] for label in said]
    shown = [own.item() if isinstance(own, np.generic) else own for own in shown]
    what = f"label {shown[0]!r}" if len(shown) == 1 else f"the label set {shown}"
    share = 100 * counts.get(said, 0) / sum(counts.values())
    return (
        f"on all of its training data the model predicts {what}, which is right for {share:.3g} % of {sum(counts.values())}; the truth has {len(counts)} "
        "different ones. Raise C, weigh the classes (class_weight='balanced'), or give features that tell them apart."
    )


def _distinct(labels: Any) -> dict[tuple[int, ...], int]:
    """Different labels of a sample, or rows of a table, with their numbers."""
    array = np.asarray(labels)
    if not array.size:
        return {}
    rows, counts = np.unique(array.reshape(-1, 1) if array.ndim == 1 else array, axis=0, return_counts=True)
    return {tuple(int(own) for own in row): int(count) for row, count in zip(rows, counts, strict=True)}
