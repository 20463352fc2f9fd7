"""Photographs of a shape-sorter puzzle on a carpet, made at random, after those of Franc & Laskov 2011, section 6 that are not public."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.errors import InvalidSampleError
from ...core.parameters import Real, WholeNumber, check_value
from .generate import _check_sizes, _generator

PIECES = ("carpet", "red disc", "green triangle", "blue box", "yellow star", "orange cross")
"""Names of the labels 0 to 5."""

_CARPET = np.array((0.56, 0.48, 0.42))
_COLOURS = np.array([(0.78, 0.16, 0.18), (0.20, 0.52, 0.26), (0.18, 0.32, 0.68), (0.88, 0.76, 0.20), (0.88, 0.46, 0.16)])
_FIBRES = np.array([(0.70, 0.22, 0.22), (0.30, 0.50, 0.30), (0.28, 0.36, 0.62), (0.82, 0.72, 0.34), (0.80, 0.46, 0.26)])
_LEAST = 0.17  # radius of the smallest piece, in sides of the image
_MOST = 0.23  # radius of the largest
_SINGLE = 0.7  # share of fibres that stand alone; the others are tufts
_TUFT = 1.0  # width of a tuft, in pixels: the standard deviation of the blur
_TRIES = 40  # places that are tried for a piece; the one that overlaps least is taken

Images = tuple[list[np.ndarray], list[np.ndarray]]


def make_shape_sorter(
    n_images: int = 14,
    height: int = 100,
    width: int = 100,
    random_state: Any = 0,
    *,
    noise: float = 0.055,
    texture: float = 0.35,
    shading: float = 0.35,
    shadow: float = 0.35,
    hand: float = 0.25,
    blur: float = 0.45,
    cast: float = 0.0,
) -> Images:
    r"""Snapshots of five coloured puzzle pieces on a carpet, each pixel labelled: 0 for the carpet, 1 to 5 for `PIECES`.

    The light :math:`l` of a scene falls off to one side, a piece has a slope and a highlight of its own, and its soft shadow
    :math:`s` lies on the carpet beside it; a lens blurs over about a pixel, the camera adds noise :math:`\varepsilon`:

    .. math:: x = \text{blur}\bigl(l\,(1 - s)\,c\bigr) + \sigma\,\varepsilon,

    where :math:`c` is the colour of the piece, or of the carpet: brown, woven, and full of fibres of the colours of the pieces,
    which a single pixel cannot tell from a piece. Pieces have their sizes relative to the image, the carpet in pixels. As a person
    has drawn their outlines, labels follow them not quite.

    Parameters
    ----------
    n_images, height, width : int
    random_state : int, sequence of int or numpy Generator
    noise : float
        Standard deviation :math:`\sigma` of a channel, where 1 is white.
    texture : float
        Share of coloured fibres in the carpet, at most 1.
    shading : float
        Range of the light over a scene, relative to its mean; below 1.
    shadow : float
        Depth of shadows, at most 1.
    hand : float
        Standard deviation of the drawn outlines from the true ones, in percent of the shorter side.
    blur : float
        Width of the lens, in pixels: the standard deviation of its blur, over borders too.
    cast : float
        Standard deviation of colour casts: patches of coloured light as wide as a piece, relative to white light; below 1.

    Returns
    -------
    images : list of ndarray of uint8, shape (height, width, 3)
    labels : list of ndarray of int64, shape (height, width)

    See Also
    --------
    colour_codes : Colours as whole numbers.

    Notes
    -----
    With the defaults, the best table from 3-bit colours to labels is wrong for about 10 % of the pixels; a network of the grid
    that knows the same colours, for 1 to 3 %.
    """
    _check_sizes(n_images=n_images, height=height, width=width)
    for name, value, most in (
        ("noise", noise, np.inf), ("texture", texture, 1.0), ("shading", shading, 1.0), ("shadow", shadow, 1.0), ("hand", hand, 100.0),
        ("blur", blur, np.inf), ("cast", cast, 1.0),
    ):  # fmt: skip
        wanted = f"a number >= 0{'' if most == np.inf else f' and at most {most:g}'}"
        check_value(name, value, Real(0.0, at_most=most, below=np.inf, wanted=wanted))
    random = _generator(random_state)
    images, labels = [], []
    for _ in range(n_images):
        scene = _Scene(random, height, width)
        images.append(scene.photograph(noise, texture, shading, shadow, blur, cast))
        labels.append(scene.drawn(hand))
    return images, labels


def colour_codes(image: Any, bits: int = 3) -> np.ndarray:
    """Code each colour by the highest bits of its red, green and blue, one after the other: 512 codes for 3 bits.

    Parameters
    ----------
    image : array-like of uint8, shape (height, width, 3)
    bits : int
        1 to 8, of each channel.

    Returns
    -------
    ndarray of int64, shape (height, width)
        In ``0 .. 8**bits - 1``.
    """
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise InvalidSampleError(
            f"the image has shape {image.shape} and dtype {image.dtype}, wanted (height, width, 3) of uint8."
        )
    check_value("bits", bits, WholeNumber(1, 8))
    high = (image >> (8 - bits)).astype(np.int64)
    return np.asarray(high @ np.array([1 << 2 * bits, 1 << bits, 1]))


class _Piece(NamedTuple):
    """Where a piece lies, and how it is turned."""

    label: int
    row: float
    column: float
    radius: float
    angle: float

    def relative(self, down: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points of the scene in units of the piece, not turned."""
        return (down - self.row) / self.radius, (right - self.column) / self.radius

    def covers(self, down: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Which points of the scene it lies on."""
        y, x = self.relative(down, right)
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        return _inside(self.label, y * cos + x * sin, x * cos - y * sin)


class _Scene:
    """Five pieces on a carpet, and how they look."""

    def __init__(self, random: np.random.Generator, height: int, width: int):
        self.random, self.shape, self.side = random, (height, width), min(height, width)
        self.down, self.right = (axis.astype(float) for axis in np.mgrid[:height, :width])
        self.pieces: list[_Piece] = []
        for label in 1 + random.permutation(len(_COLOURS)):
            self._place(int(label))

    def _place(self, label: int) -> None:
        """Put a piece at the first of a few random places where it lies on no other, or where it does so least."""
        random, (height, width) = self.random, self.shape
        radius = random.uniform(_LEAST, _MOST) * self.side
        best, room = (0.0, 0.0), -np.inf
        for _ in range(_TRIES):
            row, column = random.uniform(0.08 * height, 0.92 * height), random.uniform(0.08 * width, 0.92 * width)
            own = min((np.hypot(row - p.row, column - p.column) - radius - p.radius for p in self.pieces), default=0.0)
            if own > room:
                best, room = (row, column), own
            if room >= 0:
                break
        self.pieces.append(_Piece(label, *best, radius, random.uniform(0, 2 * np.pi)))

    def drawn(self, hand: float) -> np.ndarray:
        """The labels, along outlines that a hand has drawn."""
        off = [hand * self.side / 100 * _field(self.random, self.shape, 0.04 * self.side) for _ in range(2)]
        labels = np.zeros(self.shape, dtype=np.int64)
        for piece in self.pieces:
            labels[piece.covers(self.down + off[0], self.right + off[1])] = piece.label
        return labels

    def photograph(self, noise: float, texture: float, shading: float, shadow: float, blur: float, cast: float) -> np.ndarray:
        """What the camera shows, in bytes."""
        from scipy.ndimage import gaussian_filter, shift

        random = self.random
        angle = random.uniform(0, 2 * np.pi)
        across = (np.sin(angle) * (self.down / self.shape[0] - 0.5) + np.cos(angle) * (self.right / self.shape[1] - 0.5)) / 0.7
        light = random.uniform(0.9, 1.1) * (1.0 + shading * across)
        colour, covered = self._carpet(texture), np.zeros(self.shape, dtype=bool)
        for piece in self.pieces:
            inside = piece.covers(self.down, self.right)
            colour[inside] = self._surface(piece)[inside]
            covered |= inside
        far = 0.05 * self.side
        thrown = shift(covered.astype(float), (far * np.sin(angle), far * np.cos(angle)), order=1)
        shade = 1.0 - shadow * np.where(covered, 0.0, gaussian_filter(thrown, 0.02 * self.side))
        lit = colour * (light * shade)[..., None]
        if cast > 0:
            lit *= np.maximum(
                1.0 + cast * np.stack([_field(random, self.shape, _LEAST * self.side) for _ in range(3)], axis=-1), 0.0
            )
        seen = gaussian_filter(lit, (blur, blur, 0))
        seen += noise * random.standard_normal((*self.shape, 3))
        return np.asarray(np.clip(255.0 * seen + 0.5, 0, 255).astype(np.uint8))

    def _surface(self, piece: _Piece) -> np.ndarray:
        """Colours of a piece, with its slope towards the light and its highlight."""
        down, right = piece.relative(self.down, self.right)
        slope, at = self.random.normal(0, 0.14, size=2), self.random.uniform(-0.5, 0.5, size=2)
        tilt = np.clip(1.0 + slope[0] * down + slope[1] * right, 0.55, 1.45)
        glare = 0.32 * np.exp(-((down - at[0]) ** 2 + (right - at[1]) ** 2) / 0.05)
        own = _COLOURS[piece.label - 1]
        return np.asarray(own * tilt[..., None] + (1.0 - own) * glare[..., None])

    def _carpet(self, texture: float) -> np.ndarray:
        """Brown weave of slowly changing tone, with coloured fibres, alone or in tufts of a few pixels."""
        random = self.random
        period = random.uniform(5.0, 7.0)
        weave = np.sin(2 * np.pi * self.down / period) * np.sin(2 * np.pi * self.right / period)
        tone, fine = _field(random, self.shape, 3.0), random.standard_normal(self.shape)
        colour = _CARPET * (1.0 + 0.06 * weave + 0.035 * tone + 0.10 * fine)[..., None]
        field = _field(random, self.shape, _TUFT)
        tufts = field > np.quantile(field, 1.0 - (1.0 - _SINGLE) * texture)
        kinds = np.stack([_field(random, self.shape, _TUFT) for _ in _FIBRES]).argmax(axis=0)
        kind = np.where(tufts, kinds, random.integers(len(_FIBRES), size=self.shape))
        part = tufts | (random.random(self.shape) < _SINGLE * texture)
        colour[part] = _FIBRES[kind[part]] * random.uniform(0.85, 1.15, size=(int(part.sum()), 1))
        return np.asarray(colour)


def _field(random: np.random.Generator, shape: tuple[int, int], scale: float) -> np.ndarray:
    """Smooth normal noise of variance about 1."""
    from scipy.ndimage import gaussian_filter

    return np.asarray(2.0 * np.sqrt(np.pi) * scale * gaussian_filter(random.standard_normal(shape), scale, mode="wrap"))


def _inside(label: int, v: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Which pixels the piece of a label covers, of radius about 1 around the origin."""
    a, b = np.abs(v), np.abs(u)
    if label == 1:
        return np.asarray(v**2 + u**2 <= 0.85**2)
    if label == 2:
        return np.asarray((v <= 0.6) & (b <= (v + 1.1) * 0.58))
    if label == 3:
        return np.asarray(np.maximum(a, b) <= 0.76)
    if label == 4:
        return np.asarray(np.hypot(v, u) <= 0.78 + 0.24 * np.cos(5 * np.arctan2(u, v)))
    return np.asarray((np.minimum(a, b) <= 0.38) & (np.maximum(a, b) <= 0.95))
