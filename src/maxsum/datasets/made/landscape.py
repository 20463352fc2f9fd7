"""A landscape made at random: sky, a thin border line of trees, ground; after the one of Franc & Savchynskyy 2008, section 7.1, that is not public."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.parameters import Real, check_value
from .generate import _check_sizes, _generator

REGIONS = ("sky", "border line", "ground")
"""Names of the labels 0 to 2, from above."""

_SKY = np.array([(0.50, 0.66, 0.90), (0.84, 0.88, 0.92)])  # high up, and at the horizon
_CLOUD = np.array((0.93, 0.93, 0.94))
_TREES = np.array((0.17, 0.21, 0.16))
_GROUND = np.array([(0.52, 0.54, 0.30), (0.42, 0.44, 0.22)])  # far away, and near
_PATCHES = np.array(
    [(0.76, 0.74, 0.56), (0.24, 0.27, 0.17)]
)  # dry grass, and shade: near to the colours of clouds and of trees
_WAVES = 6  # of the outline of the hills
_HILL = 0.12  # height of the first of them, in heights of the image
_LINE = (0.012, 0.03)  # thickness of the border line, in heights of the image
_CLUMP = 2.5  # width of a patch of the ground in pixels: the standard deviation of its blur


def make_landscape(
    height: int = 280, width: int = 600, random_state: Any = 0, *, noise: float = 0.05, texture: float = 0.3
) -> tuple[np.ndarray, np.ndarray]:
    r"""Sky over hills over ground, each pixel labelled: 0 for the sky, 1 for the line of trees on the hills, 2 for the ground.

    The outline of the hills is a sum of random waves, the trees on it have a thickness that varies. Clouds lie in the sky; on the ground lie
    patches that are as light as clouds or as dark as trees, which a single pixel cannot tell from these. Colours have independent noise:

    .. math:: x = c + \sigma\,\varepsilon.

    Parameters
    ----------
    height, width : int
        Those of the paper's landscape by default.
    random_state : int, sequence of int or numpy Generator
    noise : float
        Standard deviation :math:`\sigma` of a channel, where 1 is white.
    texture : float
        Share of the ground that lies in light or dark patches, at most 1.

    Returns
    -------
    image : ndarray of uint8, shape (height, width, 3)
    labels : ndarray of int64, shape (height, width)

    See Also
    --------
    make_shape_sorter : Pieces of a puzzle on a carpet.
    """
    _check_sizes(height=height, width=width)
    check_value("noise", noise, Real(0.0, wanted="a number >= 0"))
    check_value("texture", texture, Real(0.0, at_most=1.0, wanted="a number >= 0 and at most 1"))
    random = _generator(random_state)
    across = np.arange(width) / max(1, width)
    outline, line = np.zeros(width), np.zeros(width)
    for k in range(1, _WAVES + 1):
        phase = random.uniform(0, 2 * np.pi, 2)
        outline += _HILL / k * random.uniform(0.5, 1.0) * np.sin(2 * np.pi * k * across + phase[0])
        line += np.sin(2 * np.pi * 3 * k * across + phase[1])
    least, most = _LINE
    thick = least + (most - least) * np.clip(0.5 + line / 4, 0, 1)
    down = (np.arange(height)[:, None] + 0.5) / max(1, height)
    top = 0.5 + outline
    labels = (down >= top - thick).astype(np.int64) + (down >= top)
    colour = np.empty((height, width, 3))
    shade = np.clip(down / np.maximum(top, 1e-9), 0, 1)[..., None]
    sky = (1 - shade) * _SKY[0] + shade * _SKY[1]
    clouds = _blobs(random, (height, width), 12.0, 0.25)
    sky = np.where(clouds[..., None], 0.3 * sky + 0.7 * _CLOUD, sky)
    near = np.clip((down - top) / np.maximum(1 - top, 1e-9), 0, 1)[..., None]
    ground = (1 - near) * _GROUND[0] + near * _GROUND[1]
    for patch in _PATCHES:
        ground = np.where(_blobs(random, (height, width), _CLUMP, texture / 2)[..., None], patch, ground)
    for label, own in enumerate((sky, np.broadcast_to(_TREES, colour.shape), ground)):
        colour[labels == label] = own[labels == label]
    colour += noise * random.standard_normal(colour.shape)
    return np.rint(255 * np.clip(colour, 0, 1)).astype(np.uint8), labels


def _blobs(random: np.random.Generator, shape: tuple[int, int], width: float, share: float) -> np.ndarray:
    """A random set of about ``share`` of all pixels in round patches of some width."""
    from scipy.ndimage import gaussian_filter

    field = gaussian_filter(random.standard_normal(shape), width, mode="wrap")
    return field > np.quantile(field, 1 - share) if field.size and share > 0 else np.zeros(shape, dtype=bool)
