"""Labellings of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError
from .canvas import canvas, is_axes, matplotlib_module, quiet
from .classes import Labelling, Marks, colour, heading, legend, read_labelling, read_marks


def plot_labelling(
    image: Any,
    labels: Any,
    result: Any = None,
    *,
    classes: Any = None,
    marked: Any = None,
    certain: float = 0.9,
    ax: Any = None,
) -> Any:
    """Draw an image, its labelling with a legend of the classes that occur, and an outline around the pixels that are not proven.

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, d)
        Three or four channels are colours, one is grey; any other number is shown by its three principal directions. Numbers
        outside 0..1 (0..255 for bytes) are rescaled.
    labels : array-like, shape (height, width) or (n_nodes,)
        Classes; -1, None or masked where unknown, which stays blank.
    result : Result, optional
        What was proven: pixels outside ``result.fixed``, or with a largest marginal below ``certain``, are marked. Of an optimal labelling
        none is.
    classes : array-like, optional
        Labels in the order of their colours: ``estimator.classes_``.
    marked : array-like of bool, optional
        Pixels to mark, in the place of those of the result.
    certain : float
    ax : Axes, two of them, Figure, or None
        One Axes gets the labelling alone.

    Returns
    -------
    Axes, or ndarray of two Axes
    """
    pixels, how = as_colours(image)
    shape = pixels.shape[:2]
    given = np.shape(labels)
    if given not in (shape, (shape[0] * shape[1],)):
        raise InvalidSampleError(f"labels has shape {given}, wanted {shape} as the image, or ({shape[0] * shape[1]},).")
    labelling = read_labelling(labels, shape[0] * shape[1], classes)
    marks = read_marks(result, marked, labelling, classes, certain)
    if is_axes(ax):
        return _draw(ax, labelling, marks, shape)
    wide = shape[1] / shape[0]
    axes = canvas(ax, 1, 2, (min(12.0, 2 + 6.4 * min(wide, 2.0)), min(8.0, 0.6 + 3.2 * max(1.0, min(wide, 2.0) / wide))))[0]
    axes[0].imshow(pixels, interpolation="nearest", cmap="gray")
    axes[0].set_title(how, fontsize="medium")
    quiet(axes[0])
    _draw(axes[1], labelling, marks, shape)
    return axes


def as_colours(image: Any) -> tuple[np.ndarray, str]:
    """An image that matplotlib can show, and what it is."""
    array = np.asarray(image)
    if array.ndim not in (2, 3) or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise InvalidSampleError(
            f"image has shape {array.shape} and dtype {array.dtype}, wanted numbers (height, width) or (height, width, d)."
        )
    if not np.isfinite(array).all():
        raise InvalidSampleError("image holds numbers that are not finite; wanted finite ones.")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim == 2:
        return array, "image"
    if array.shape[2] not in (3, 4):
        flat = array.reshape(-1, array.shape[2]).astype(np.float64)
        flat = flat - flat.mean(axis=0)
        directions = np.linalg.eigh(flat.T @ flat)[1][:, ::-1][:, :3]
        directions *= np.where(directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])] < 0, -1.0, 1.0)
        shown = np.zeros((len(flat), 3))
        shown[:, : directions.shape[1]] = flat @ directions
        return _rescaled(shown.reshape(*array.shape[:2], 3)), f"image ({array.shape[2]} features)"
    if array.dtype == np.uint8:
        return array, "image"
    return (_rescaled(array) if array.min() < 0 or array.max() > 1 else array), "image"


def _rescaled(array: np.ndarray) -> np.ndarray:
    low, high = array.min(axis=(0, 1)), array.max(axis=(0, 1))
    scaled: np.ndarray = (array - low) / np.where(high > low, high - low, 1.0)
    return scaled


def _draw(axis: Any, labelling: Labelling, marks: Marks, shape: tuple[int, int]) -> Any:
    colors = matplotlib_module("matplotlib.colors")
    bank = np.array([colors.to_rgba(colour(k)) for k in range(len(labelling.names))] + [(0.0, 0.0, 0.0, 0.0)])
    axis.imshow(bank[labelling.codes].reshape(*shape, 4), interpolation="nearest")
    quiet(axis)
    axis.set_title(heading(marks), fontsize="medium")
    patch = matplotlib_module("matplotlib.patches").Patch
    handles = [
        patch(facecolor=colour(k), edgecolor="#8a939e", linewidth=0.6, label=labelling.names[k]) for k in labelling.present
    ]
    places = np.flatnonzero(marks.nodes)
    if len(places):
        lines = outline(marks.nodes.reshape(shape))
        collection = matplotlib_module("matplotlib.collections").LineCollection
        for colour_, width in (("white", 2.2), ("black", 1.0)):  # seen on light and on dark classes
            ring = collection(lines, colors=colour_, linewidths=width, capstyle="round", rasterized=len(lines) > 4000)
            axis.add_collection(ring)
        ring.set_gid("marked")
        handles.append(patch(facecolor="none", edgecolor="black", linewidth=1.2, label=marks.words))
    legend(axis, handles)
    return axis


def outline(inside: np.ndarray) -> np.ndarray:
    """Borders of a region of pixels: segments (n, 2, 2) of x and y, one for each side of a pixel inside whose neighbour is not."""
    padded = np.pad(np.asarray(inside, dtype=bool), 1)
    row, column = np.nonzero(
        padded[:, 1:] != padded[:, :-1]
    )  # between the pixels column - 1 and column of the unpadded row - 1
    upright = np.stack([np.stack([column, row - 1], axis=1), np.stack([column, row], axis=1)], axis=1)
    row, column = np.nonzero(padded[1:] != padded[:-1])
    level = np.stack([np.stack([column - 1, row], axis=1), np.stack([column, row], axis=1)], axis=1)
    return np.concatenate([upright, level]) - 0.5
