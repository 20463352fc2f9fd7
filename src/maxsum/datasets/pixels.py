"""Features of the pixels of an image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.errors import InvalidParameterError

PIXEL_FEATURES = ("colour", "mean", "spread", "position")


def pixel_features(
    image: np.ndarray, kinds: Sequence[str] = ("colour", "mean", "position"), window: int = 5, products: bool = True
) -> np.ndarray:
    """Features of each pixel, for `GridLabeler`.

    Parameters
    ----------
    image : ndarray, shape (height, width, d)
        Colours in [0, 1].
    kinds : sequence of {"colour", "mean", "spread", "position"}
        Colour of the pixel, mean and standard deviation of colours in a window around it, and row and column from -1 to 1.
    window : int
        Side of the window, an odd number.
    products : bool
        Add all products of two of these, so that a linear score has curved borders.

    Returns
    -------
    ndarray, shape (height, width, n_features)
        Colours are moved to [-1, 1]; the last feature is a constant 1.
    """
    for kind in kinds:
        if kind not in PIXEL_FEATURES:
            raise InvalidParameterError(f"pixel features name {kind!r}, wanted some of {', '.join(PIXEL_FEATURES)}.")
    if not kinds:
        raise InvalidParameterError(f"pixel features are empty, wanted some of {', '.join(PIXEL_FEATURES)}.")
    if type(window) is not int or window < 1 or window % 2 == 0:
        raise InvalidParameterError(f"window is {window!r}, wanted an odd whole number.")
    from scipy.ndimage import uniform_filter

    colour = 2.0 * np.asarray(image, dtype=np.float64) - 1.0
    height, width = colour.shape[:2]
    mean = uniform_filter(colour, (window, window, 1), mode="nearest")
    found = {
        "colour": lambda: colour,
        "mean": lambda: mean,
        "spread": lambda: np.sqrt(np.maximum(uniform_filter(colour**2, (window, window, 1), mode="nearest") - mean**2, 0.0)),
        "position": lambda: np.stack(np.meshgrid(_range(height), _range(width), indexing="ij"), axis=2),
    }
    own = np.concatenate([found[kind]() for kind in kinds], axis=2)
    parts = [own, np.ones((height, width, 1))]
    if products:
        i, j = np.triu_indices(own.shape[2])
        parts.insert(1, own[..., i] * own[..., j])
    return np.concatenate(parts, axis=2)


def _range(n: int) -> np.ndarray:
    return np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
