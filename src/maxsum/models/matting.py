"""The matting Laplacian of a colour image: a positive semidefinite operator that joins pixels of similar colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidSampleError
from ..core.parameters import Real, WholeNumber, check_value
from ..kernels import matting
from .sample import GraphSample


@dataclass(frozen=True, eq=False)
class Matting:
    """The matting Laplacian of each image, for ``Convex(operators=...)`` in estimators.

    Parameters
    ----------
    radius, epsilon
        As in `MattingLaplacian`.
    channels : array-like of int, optional
        Which one or three of the node features are the colours; by default all of one or three features.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> image = np.zeros((4, 6, 3))
    >>> image[:, 3:] = 1.0
    >>> truth = (image[..., 0] > 0.5).astype(int)
    >>> energies = ms.models.Convex("none", operators=ms.models.Matting())
    >>> net = ms.GridLabeler(energies, surrogate="qp", C=10.0, bias=True).fit([image], [truth])
    >>> bool((net.predict([image])[0] == truth).all())
    True
    """

    radius: int = 1
    epsilon: float = 1e-4
    channels: Any = None

    def of(self, sample: GraphSample) -> MattingLaplacian:
        """The operator of a sample on a grid graph."""
        shape = sample.graph.shape
        if shape is None or len(shape) != 2:
            raise InvalidSampleError("the sample is no image, wanted a grid graph (height, width) for its matting Laplacian.")
        if sample.kind != "dense":
            raise InvalidSampleError(
                f"the matting Laplacian takes colours, but the image holds {sample.kind}; wanted (height, width, d)."
            )
        width = sample.X.shape[1]
        channels = np.arange(width) if self.channels is None else np.atleast_1d(np.asarray(self.channels))
        if len(channels) not in (1, 3) or channels.dtype.kind not in "iu" or channels.min() < 0 or channels.max() >= width:
            raise InvalidSampleError(
                f"channels is {self.channels!r} and the image has {width} features, wanted the numbers of one or three of them that are "
                "its colours."
            )
        return MattingLaplacian(sample.X[:, channels].reshape(*shape, len(channels)), self.radius, self.epsilon)


class MattingLaplacian:
    r"""Matting Laplacian (Levin, Lischinski and Weiss 2008) of a colour image, (20) of Jancsary, Nowozin & Rother 2013, as an operator on each label:

    .. math:: Q_{ij} = \frac1m\sum_{w \ni i, j}\Big(\delta_{ij} - \tfrac1m\big(1 + (I_i - \bar I_w)^\top
              (\Sigma_w + \tfrac\epsilon m I)^{-1}(I_j - \bar I_w)\big)\Big)

    over the windows :math:`w` of :math:`m = (2r + 1)^2` pixels inside the image. It is zero for functions that are affine in the
    colours within each window. Products take box sums, at a cost that does not depend on :math:`r`; the factor :math:`1/m` keeps
    the weight of the operator comparable between radii.

    Parameters
    ----------
    image : array-like, shape (height, width), (height, width, 1) or (height, width, 3)
        Bytes are divided by 255; other numbers are taken as they are, best in 0 .. 1.
    radius : int
        :math:`r \ge 1`.
    epsilon : float
        :math:`\epsilon > 0`; on an image of one colour the operator averages over windows.
    """

    def __init__(self, image: Any, radius: int = 1, epsilon: float = 1e-4):
        pixels = np.asarray(image)
        if pixels.dtype.kind not in "biuf" or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3)):
            raise InvalidSampleError(
                f"the image has shape {pixels.shape} and dtype {pixels.dtype}, wanted numbers (height, width) or (height, width, 3)."
            )
        check_value("radius", radius, WholeNumber(1))
        check_value("epsilon", epsilon, Real(above=0.0, below=np.inf, wanted="a number > 0"))
        side = 2 * int(radius) + 1
        if min(pixels.shape[:2]) < side:
            raise InvalidSampleError(
                f"the window of radius {radius} has {side} pixels a side, more than the image of {pixels.shape[0]} x "
                f"{pixels.shape[1]}; wanted a radius of at most {(min(pixels.shape[:2]) - 1) // 2}."
            )
        colours = np.array(pixels, dtype=np.float64).reshape(*pixels.shape[:2], -1)
        if not np.isfinite(colours).all():
            raise InvalidSampleError("the image has a number that is not finite, wanted finite colours.")
        if pixels.dtype == np.uint8:
            colours /= 255.0
        self.image = np.zeros((*colours.shape[:2], 3))
        self.image[..., : colours.shape[2]] = colours - colours.mean(axis=(0, 1))
        self.radius, self.epsilon, self.side = int(radius), float(epsilon), side
        windows = (self.image.shape[0] - side + 1, self.image.shape[1] - side + 1)
        self.mean, self.inverse = np.zeros((*windows, 3)), np.zeros((*windows, 6))
        matting.prepare(self.image, self.radius, self.epsilon, self.mean, self.inverse)

    @property
    def shape(self) -> tuple[int, int]:
        n = self.image.shape[0] * self.image.shape[1]
        return n, n

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Product with each column of ``x`` (n_pixels, K)."""
        given = np.ascontiguousarray(x, dtype=np.float64)
        if given.ndim != 2 or len(given) != self.shape[0]:
            raise InvalidSampleError(f"x has shape {given.shape}, wanted ({self.shape[0]}, K).")
        out = np.empty_like(given)
        matting.product(self.image, self.mean, self.inverse, self.radius, 1.0 / self.side**2, given, out)
        return out

    def matrix(self) -> sparse.csr_array:
        """The operator as an explicit sparse matrix, window by window from its definition: for tests and small images."""
        height, width, m = self.image.shape[0], self.image.shape[1], self.side**2
        numbers = np.arange(height * width).reshape(height, width)
        rows, cols, values = [], [], []
        for top in range(height - self.side + 1):
            for left in range(width - self.side + 1):
                window = (slice(top, top + self.side), slice(left, left + self.side))
                own, colours = numbers[window].reshape(-1), self.image[window].reshape(m, 3)
                centred = colours - colours.mean(axis=0)
                spread = centred.T @ centred / m + self.epsilon / m * np.eye(3)
                block = np.eye(m) - (1.0 + centred @ np.linalg.solve(spread, centred.T)) / m
                rows.append(np.repeat(own, m))
                cols.append(np.tile(own, m))
                values.append(block.reshape(-1))
        entries = (np.concatenate(values) / m, (np.concatenate(rows), np.concatenate(cols)))
        return sparse.csr_array(sparse.coo_array(entries, shape=self.shape))


class RestrictedOperator:
    """An operator on some of the nodes it was made for, the others counting as 0: ``Q[kept][:, kept]``.

    For samples whose nodes of unknown label are left out of training.

    Parameters
    ----------
    operator : object
        With ``shape`` and ``apply``.
    kept : array-like of bool, shape (n_nodes,)
    """

    def __init__(self, operator: Any, kept: Any):
        mask = np.asarray(kept)
        if mask.shape != (operator.shape[0],) or mask.dtype != bool:
            raise InvalidSampleError(f"kept has shape {mask.shape} and dtype {mask.dtype}, wanted ({operator.shape[0]},) bool.")
        self.operator, self.kept, self.size = operator, np.flatnonzero(mask), len(mask)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.kept), len(self.kept)

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Product with each column of ``x``."""
        whole = np.zeros((self.size, x.shape[1]))
        whole[self.kept] = x
        return np.asarray(self.operator.apply(whole)[self.kept])
