"""Where the nodes of a sample stand in an image (or a volume), for tests that look around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import InvalidSampleError


@dataclass(frozen=True, eq=False)
class Pixels:
    """An image, and the pixel of each node.

    Parameters
    ----------
    image : ndarray, shape (height, width, d), or any number of sides and d
    place : ndarray of int, shape (n_nodes, n_sides)
        Row and column of each node.
    """

    image: np.ndarray
    place: np.ndarray

    @classmethod
    def read(cls, given: Any, n_nodes: int) -> Pixels | None:
        """From a pair (image, places), one place a node; the image may lack its last axis."""
        if given is None or isinstance(given, Pixels):
            return given
        try:
            image, place = (np.asarray(own) for own in given)
        except (TypeError, ValueError):
            raise InvalidSampleError("pixels is no pair of arrays, wanted (image, places of the nodes).") from None
        if place.ndim != 2 or len(place) != n_nodes or place.dtype.kind not in "iu":
            raise InvalidSampleError(
                f"places of pixels have shape {place.shape} and dtype {place.dtype}, wanted whole numbers ({n_nodes}, n_sides)."
            )
        sides = place.shape[1]
        if image.dtype.kind not in "biuf" or image.ndim not in (sides, sides + 1):
            raise InvalidSampleError(
                f"the image of pixels has shape {image.shape} and dtype {image.dtype}, wanted numbers with {sides} sides, or those and d."
            )
        x = image.reshape(*image.shape[:sides], -1).astype(np.float64)
        if not np.isfinite(x).all():
            raise InvalidSampleError("the image of pixels holds NaN or infinite numbers; wanted finite ones.")
        if n_nodes and ((place < 0) | (place >= np.array(x.shape[:sides]))).any():
            node = int(np.argwhere((place < 0) | (place >= np.array(x.shape[:sides])))[0, 0])
            raise InvalidSampleError(
                f"node {node} stands at {tuple(place[node].tolist())}, outside of the image with sides {x.shape[:sides]}."
            )
        return cls(x, place.astype(np.int64))

    @classmethod
    def grid(cls, x: Any, shape: tuple[int, ...]) -> Pixels:
        """The node features of a grid as an image, each node at its own place."""
        place = np.stack(np.unravel_index(np.arange(len(x)), shape), axis=1)
        return cls(np.asarray(x, dtype=np.float64).reshape(*shape, -1), place)

    def of(self, nodes: np.ndarray) -> Pixels:
        """Some of the nodes, in the same image."""
        return Pixels(self.image, self.place[nodes])
