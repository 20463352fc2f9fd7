r"""What is known of the covered pixels of a glyph: seen pixels around them, strokes that point at them, and glyphs that look alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SIZE = 64
REACH = 9  # pixels by which parts of known glyphs are shifted
MARGIN = 6  # pixels around the box that are compared
BLOCK = 3  # pixels that share a vote, in both directions
N_RAYS = 32  # directions from a pixel
FAR = 91  # longest way out of the box: the diagonal of a glyph
BEYOND = 12  # pixels that are looked at outside
FIRST = 8  # pixels of them whose ink is counted
SURE = 5.0  # log odds of a pixel that is seen
UNIT = 3.0  # of log odds, so that features are about 1
_LEAST = 1e-30  # weight of the prior beside votes: it counts where there are none
_PRIOR = 0.3  # share of ink in a glyph
KERNELS = ((1.5, 1.5), (3.0, 1.0))


class Glyph(NamedTuple):
    """A character (64, 64), 1 for ink, and which pixels are covered."""

    ink: np.ndarray
    hidden: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        """Truth of the covered pixels."""
        return self.ink[self.hidden].astype(np.int64)


def around(image: np.ndarray, hidden: np.ndarray, radius: int, outside: float) -> np.ndarray:
    """Windows of an image around the covered pixels, a row each."""
    padded = np.pad(image, radius, constant_values=outside)
    views = np.lib.stride_tricks.sliding_window_view(padded, (2 * radius + 1, 2 * radius + 1))
    return views[hidden].reshape(int(hidden.sum()), -1).astype(np.float32)


def window(glyph: Glyph, radius: int) -> np.ndarray:
    """What is seen around each covered pixel: 1 ink, -1 paper, 0 covered; paper outside of the image."""
    return around(np.where(glyph.hidden, 0, 2 * glyph.ink.astype(np.int8) - 1), glyph.hidden, radius, -1)


def exemplars(glyph: Glyph, bank: np.ndarray) -> np.ndarray:
    r"""Probabilities of ink at the covered pixels, one column for each of `KERNELS`, from glyphs that are known in full.

    Every part of a known glyph, at shifts of up to `REACH`, votes for what it shows at a covered pixel :math:`v`:

    .. math:: p_v = \frac{\sum_c e^{-D_{vc}} y_{cv}}{\sum_c e^{-D_{vc}}},\qquad
              D_{vc} = \frac{100}{\tau}\,\frac{\sum_u e^{-|u - v|/\sigma}\,[x_u \ne y_{cu}]}{\sum_u e^{-|u - v|/\sigma}},

    with :math:`u` over the seen pixels at most `MARGIN` away from the box, and :math:`|u - v|` from the middle of the block of
    `BLOCK` x `BLOCK` pixels that :math:`v` is in.

    Parameters
    ----------
    glyph : Glyph
        Its covered ink is not read.
    bank : ndarray of uint8, shape (n, 64, 64)
        Known glyphs; without the glyph itself.
    """
    at = np.argwhere(glyph.hidden)
    low, high = at.min(axis=0), at.max(axis=0) + 1
    shape = high - low + 2 * MARGIN
    seen, hidden = _cut(glyph.ink, low, high, 0).ravel(), _cut(glyph.hidden, low, high, 0).ravel()
    ring, inside = np.flatnonzero(~hidden), np.flatnonzero(hidden)
    place = np.stack(np.divmod(np.arange(len(seen)), shape[1]), axis=1)
    blocks, block = np.unique((place[inside] - MARGIN) // BLOCK, axis=0, return_inverse=True)
    middle = blocks * BLOCK + MARGIN + (BLOCK - 1) / 2
    distance = np.hypot(*(middle[:, None] - place[ring]).transpose(2, 0, 1))
    near = np.concatenate([np.exp(-distance / sigma) for sigma, _ in KERNELS])
    near *= np.repeat([100.0 / tau for _, tau in KERNELS], len(blocks))[:, None] / near.sum(axis=1, keepdims=True)
    sign = (near * (1.0 - 2.0 * seen[ring])).T.astype(np.float32)
    first = (near @ seen[ring]).astype(np.float32)
    votes, total = np.full((len(near), len(inside)), _LEAST * _PRIOR), np.full(len(near), _LEAST)
    for some in np.array_split(bank, max(1, len(bank) // 25)):
        parts = np.lib.stride_tricks.sliding_window_view(_cut(some, low, high, REACH), tuple(shape), axis=(1, 2))
        flat = parts.reshape(-1, shape.prod())
        weight = np.exp(-(flat[:, ring].astype(np.float32) @ sign + first))
        votes += weight.T @ flat[:, inside].astype(np.float32)
        total += weight.sum(axis=0)
    own = (votes / total[:, None]).reshape(len(KERNELS), len(blocks), -1)
    return np.asarray(own[:, block.reshape(-1), np.arange(len(inside))].T)


def _cut(image: np.ndarray, low: np.ndarray, high: np.ndarray, more: int) -> np.ndarray:
    """The box with `MARGIN` and ``more`` pixels around it, 0 outside of the image."""
    far = MARGIN + more
    padded = np.pad(image, [(0, 0)] * (image.ndim - 2) + [(far, far)] * 2)
    return padded[..., low[0] : high[0] + 2 * far, low[1] : high[1] + 2 * far]


def log_odds(p: np.ndarray) -> np.ndarray:
    """Log odds of probabilities, cut at 0.01 and 0.99, in units of `UNIT`."""
    level = np.clip(p, 0.01, 0.99)
    return np.asarray(np.log(level / (1.0 - level)) / UNIT)


def guesses(glyph: Glyph, score: np.ndarray, radius: int) -> np.ndarray:
    """Windows of an image that is sure of what is seen and has log odds where it is covered."""
    image = np.where(glyph.ink > 0, SURE, -SURE) / UNIT
    image[glyph.hidden] = score
    return around(image, glyph.hidden, radius, -SURE / UNIT)


def rays(glyph: Glyph) -> np.ndarray:
    """Strokes that point at each covered pixel.

    Along each of `N_RAYS` directions, from where the ray leaves the box: how far the ink goes on, how much ink there is on the first
    pixels (less if they are far), and how far the first ink is; for each line the smaller ones of the two sides; and the largest.
    """
    at, turn = np.argwhere(glyph.hidden), 2.0 * np.pi * np.arange(N_RAYS) / N_RAYS
    steps = np.arange(1, FAR + BEYOND)
    rows, columns = (
        np.rint(at[:, i, None, None] + side[:, None] * steps).astype(np.int64) + len(steps)
        for i, side in enumerate((np.sin(turn), np.cos(turn)))
    )
    out = np.argmin(np.pad(glyph.hidden, len(steps))[rows, columns], axis=2)
    there = np.minimum(out[:, :, None] + np.arange(BEYOND), len(steps) - 1)
    rows, columns = np.take_along_axis(rows, there, axis=2), np.take_along_axis(columns, there, axis=2)
    ink = np.pad(glyph.ink, len(steps))[rows, columns].astype(np.int64)
    length, amount = np.cumprod(ink, axis=2).sum(axis=2), ink[:, :, :FIRST].sum(axis=2)
    wait = np.where(ink.any(axis=2), ink.argmax(axis=2), BEYOND)
    pull, half = amount / (out + 3.0), N_RAYS // 2
    both = [np.minimum(one[:, :half], one[:, half:]) for one in (length, amount)]
    top = [one.max(axis=1, keepdims=True) for one in (length / 6.0, pull, both[0] / 3.0, both[1] / 4.0)]
    return np.concatenate([length / 6.0, pull, wait / 8.0, both[0] / 3.0, both[1] / 4.0, *top], axis=1).astype(np.float32)
