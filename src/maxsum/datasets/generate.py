"""Images whose true labelling is known, made at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError
from ..core.parameters import OneOf, Real, WholeNumber, check_value

_COLOURS = np.array(
    [
        (0.55, 0.52, 0.47),
        (0.85, 0.15, 0.15),
        (0.15, 0.60, 0.20),
        (0.15, 0.30, 0.80),
        (0.95, 0.80, 0.15),
        (0.60, 0.25, 0.65),
        (0.95, 0.55, 0.15),
        (0.20, 0.75, 0.80),
    ]
)
_SHAPES = ("disc", "box", "triangle", "diamond", "cross")

Images = tuple[list[np.ndarray], list[np.ndarray]]


def make_noisy_blocks(
    n_images: int = 10,
    height: int = 24,
    width: int = 24,
    n_labels: int = 3,
    noise: float = 1.0,
    random_state: Any = 0,
    *,
    block: int = 8,
) -> Images:
    r"""Blocks of one label each, seen through noise.

    Rows and columns are cut at random into pieces of ``block / 2`` to ``3 block / 2`` pixels, every rectangle has a random label
    :math:`y`, and each of its pixels shows :math:`x_k = [k = y] + \sigma\,\varepsilon_k` with independent normal
    :math:`\varepsilon`.

    Parameters
    ----------
    n_images, height, width, n_labels : int
    noise : float
        The standard deviation :math:`\sigma`, 0 or more.
    random_state : int, sequence of int or numpy Generator
    block : int
        Mean side of a block.

    Returns
    -------
    X : list of ndarray, shape (height, width, n_labels)
    y : list of ndarray of int64, shape (height, width)
    """
    _check_sizes(n_images=n_images, height=height, width=width, n_labels=n_labels, block=block)
    _check_noise(noise, np.inf)
    random = _generator(random_state)
    X, y = [], []
    for _ in range(n_images):
        rows, columns = (_pieces(random, size, block) for size in (height, width))
        labels = random.integers(n_labels, size=(rows[-1] + 1, columns[-1] + 1))[rows[:, None], columns]
        X.append((labels[..., None] == np.arange(n_labels)) + noise * random.standard_normal((height, width, n_labels)))
        y.append(labels)
    return X, y


def make_shapes(
    n_images: int = 10,
    height: int = 50,
    width: int = 50,
    n_labels: int = 6,
    n_objects: int = 5,
    noise: float = 0.2,
    random_state: Any = 0,
    *,
    kind: str = "codes",
) -> Images:
    """Coloured pieces of different shapes on a carpet, after the "Shape-Sorter" images of Franc & Savchynskyy 2008, §7.1 (carpet and 5 pieces).

    Discs, boxes, triangles, diamonds and crosses of random size and place, each of a colour of its own as far as there are
    colours; later ones lie on top of earlier ones.

    Parameters
    ----------
    n_images, height, width : int
    n_labels : int
        Colours with that of the background, which is label 0; 2 or more (at most 8 for ``kind="rgb"``).
    n_objects : int
        Pieces in an image, 0 or more.
    noise : float
        For codes, the share of pixels that show a random colour, at most 1; for rgb, the standard deviation of the normal noise.
    random_state : int, sequence of int or numpy Generator
    kind : {"codes", "rgb"}
        What a pixel shows: the number of a colour, or red, green and blue in [0, 1].

    Returns
    -------
    X : list of ndarray
        (height, width) of int64, or (height, width, 3) of float64.
    y : list of ndarray of int64, shape (height, width)
    """
    _check_sizes(n_images=n_images, height=height, width=width, n_labels=n_labels, n_objects=n_objects)
    check_value("kind", kind, OneOf("codes", "rgb"))
    if n_labels < 2 or (kind == "rgb" and n_labels > len(_COLOURS)):
        raise InvalidParameterError(f"n_labels is {n_labels}, wanted 2 or more, and at most {len(_COLOURS)} for rgb.")
    _check_noise(noise, 1.0 if kind == "codes" else np.inf)
    random = _generator(random_state)
    X, y = [], []
    for _ in range(n_images):
        labels = _pile(random, height, width, n_labels, n_objects)
        if kind == "codes":
            shown = random.random((height, width)) < noise
            X.append(np.where(shown, random.integers(n_labels, size=(height, width)), labels))
        else:
            X.append(np.clip(_COLOURS[labels] + noise * random.standard_normal((height, width, 3)), 0.0, 1.0))
        y.append(labels)
    return X, y


def _pieces(random: np.random.Generator, size: int, block: int) -> np.ndarray:
    """The number of the piece that each of ``size`` pixels is in."""
    sides = random.integers(-(-block // 2), block + block // 2 + 1, size=2 * size // block + 1)
    return np.repeat(np.arange(len(sides)), sides)[:size]


def _pile(random: np.random.Generator, height: int, width: int, n_labels: int, n_objects: int) -> np.ndarray:
    labels = np.zeros((height, width), dtype=np.int64)
    rows, columns = np.mgrid[:height, :width]
    side = min(height, width)
    colours = [random.permutation(np.arange(1, n_labels)) for _ in range(-(-n_objects // (n_labels - 1)))]
    for colour in np.concatenate(colours)[:n_objects] if colours else ():
        radius = max(1.0, random.uniform(0.12, 0.22) * side)
        down = (rows - random.uniform(0, height - 1)) / radius
        right = (columns - random.uniform(0, width - 1)) / radius
        labels[_inside(str(random.choice(_SHAPES)), down, right)] = colour
    return labels


def _inside(shape: str, down: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Which pixels a shape of radius 1 around the origin covers."""
    a, b = np.abs(down), np.abs(right)
    if shape == "disc":
        return np.asarray(down**2 + right**2 <= 1)
    if shape == "box":
        return np.asarray(np.maximum(a, b) <= 0.85)
    if shape == "triangle":
        return np.asarray((down <= 0.7) & (b <= (down + 1) * 0.6))
    if shape == "diamond":
        return np.asarray(a + b <= 1)
    return np.asarray((np.minimum(a, b) <= 0.35) & (np.maximum(a, b) <= 1))


def _check_sizes(**sizes: Any) -> None:
    for name, size in sizes.items():
        least = 0 if name in ("n_images", "n_objects") else 1
        check_value(name, size, WholeNumber(least, wanted=f"a whole number, {least} or more"))


def _check_noise(noise: float, most: float) -> None:
    wanted = f"a number >= 0{'' if np.isinf(most) else f' and at most {most}'}"
    check_value("noise", noise, Real(0.0, at_most=most, below=np.inf, wanted=wanted))


def _generator(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"random_state is {random_state!r}, wanted a whole number or a Generator ({error})."
        ) from None
