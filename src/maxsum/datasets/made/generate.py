"""Images whose true labelling is known, made at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import InvalidParameterError, InvalidSampleError
from ...core.graph import Graph
from ...core.parameters import Flag, OneOf, Real, WholeNumber, check_value
from ...models.sample import GraphSample

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

_SNAKE_COLOURS = 5  # the background, and four directions

_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # rows and columns to the next cell of a snake: up, down, left, right
_WALKS = 10_000  # walks that are begun for an image; most end by themselves in a corner long before

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


def make_snakes(
    n_images: int = 200, height: int = 7, width: int = 5, length: int = 10, random_state: Any = 0, *, crossing: bool = True
) -> Images:
    """Images of one snake each: a walk of ``length`` cells from the top to the bottom or the other way, which does not cross itself
    (after Nowozin et al. 2011).

    The colour of a cell says in which direction the next one lies: 1 up, 2 down, 3 left, 4 right; the last cell points to a place that is
    not the snake's. The background has colour 0. So a cell does not show its number, which is that of the cell before it plus one, and the
    head is known by nobody pointing to it: labels have to be found together, over ten steps.

    Parameters
    ----------
    n_images, height, width : int
    length : int
        Cells of a snake: at least ``height`` if it crosses the image, at most half of the cells.
    random_state : int, sequence of int or numpy Generator
    crossing : bool
        If False, snakes begin and end anywhere, and are wound up more often: harder, as colours and labels go together less.

    Returns
    -------
    images : list of ndarray of int64, shape (height, width)
        Colours, 0 to 4.
    labels : list of ndarray of int64, shape (height, width)
        0 for the background, 1 to ``length`` from the head to the tail.

    See Also
    --------
    snake_sample : Features of the cells and of their edges.
    """
    _check_sizes(n_images=n_images, height=height, width=width, length=length)
    check_value("crossing", crossing, Flag())
    least = height if crossing else 1
    if not least <= length <= height * width // 2:
        raise InvalidParameterError(
            f"length is {length} on an image of {height} x {width} cells, wanted {least} to half of them, {height * width // 2}."
        )
    random = _generator(random_state)
    images, labels = [], []
    for _ in range(n_images):
        image, own = _snake(random, height, width, length, crossing)
        images.append(image)
        labels.append(own)
    return images, labels


def snake_sample(image: Any) -> GraphSample:
    """A grid with features for `make_snakes`: of a cell the colours of its 3×3 neighbourhood, one-hot (45 numbers, the background outside); of
    an edge those of its two ends, in one half of the numbers if it lies flat and in the other if it stands upright (180 numbers).

    Parameters
    ----------
    image : array-like of int, shape (height, width)
        Colours, 0 to 4.

    Returns
    -------
    GraphSample
    """
    image = np.asarray(image)
    if image.ndim != 2 or image.dtype.kind not in "iu" or image.size == 0 or image.min() < 0 or image.max() >= _SNAKE_COLOURS:
        raise InvalidSampleError(
            f"the image has shape {image.shape} and dtype {image.dtype}, wanted two dimensions of whole numbers from 0 to {_SNAKE_COLOURS - 1}."
        )
    height, width = image.shape
    framed, eye = np.pad(image, 1), np.eye(_SNAKE_COLOURS)
    shifts = [framed[i : i + height, j : j + width].ravel() for i in range(3) for j in range(3)]
    cells = np.concatenate([eye[own] for own in shifts], axis=1)
    graph = Graph.grid(height, width)
    first, second = np.asarray(graph.edges).T
    flat = (first // width == second // width)[:, None]
    ends = np.concatenate([cells[first], cells[second]], axis=1)
    return GraphSample(cells, graph, edge_features=np.concatenate([ends * flat, ends * ~flat], axis=1))


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


def _snake(random: np.random.Generator, height: int, width: int, length: int, crossing: bool) -> tuple[np.ndarray, np.ndarray]:
    """One image and its labels; walks that end in a corner are begun anew."""
    for _ in range(_WALKS):
        image, labels = (np.zeros((height, width), dtype=np.int64) for _ in range(2))
        goal = (height - 1) * int(random.integers(2)) if crossing else None
        row = int(random.integers(height)) if goal is None else height - 1 - goal
        column = int(random.integers(width))
        for number in range(1, length + 1):
            labels[row, column] = number
            free = [
                k for k, (down, right) in enumerate(_STEPS) if _fits(labels, row + down, column + right, goal, length - number)
            ]
            if not free:
                break
            step = free[int(random.integers(len(free)))]
            image[row, column] = 1 + step
            if number == length:
                return image, labels
            row, column = row + _STEPS[step][0], column + _STEPS[step][1]
    raise InvalidParameterError(
        f"no snake of {length} cells was found on an image of {height} x {width} cells in {_WALKS} tries, wanted a shorter one or a larger image."
    )


def _fits(labels: np.ndarray, row: int, column: int, goal: int | None, left: int) -> bool:
    """Whether a cell can point to this place: an empty one from which the ``left`` cells that are to come reach the other side; from the last
    cell also one outside."""
    inside = 0 <= row < labels.shape[0] and 0 <= column < labels.shape[1]
    if not left:
        return not inside or bool(labels[row, column] == 0)
    return inside and bool(labels[row, column] == 0) and (goal is None or abs(goal - row) < left)
