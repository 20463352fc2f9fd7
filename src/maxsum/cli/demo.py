"""The image of ``maxsum demo``: made, turned into a problem, and drawn."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.graph import Graph
from ..core.problem import Problem

_PALETTE = ("#1f3a5f", "#3d8eb9", "#9fd3c7", "#f6e6b4", "#f2a65a", "#d1495b", "#7d3c6b", "#4a4a4a")
_NOISE = 0.8


@dataclass(frozen=True, eq=False)
class NoisyImage:
    """Classes seen through noise, and the problem of finding them again.

    Attributes
    ----------
    truth : ndarray of int32, shape (size, size)
        The class of each pixel.
    pixels : ndarray, shape (size, size)
        Grey levels ``k + N(0, 0.8**2)`` of class ``k``.
    threshold : ndarray of int32, shape (size, size)
        The nearest class of each pixel on its own.
    problem : Problem
        Unary scores ``-(x - k)**2 / (2 * 0.8**2)`` and Potts tables on the grid.
    """

    truth: np.ndarray
    pixels: np.ndarray
    threshold: np.ndarray
    problem: Problem

    def accuracy(self, labels: np.ndarray | None) -> float | None:
        """Share of the pixels that have their true class."""
        return None if labels is None else float((labels.reshape(self.truth.shape) == self.truth).mean())


def noisy_image(size: int = 96, n_labels: int = 4, seed: int = 0, smoothness: float = 1.4) -> NoisyImage:
    """Blobs and blocks of ``n_labels`` classes under Gaussian noise.

    Parameters
    ----------
    smoothness : float
        What two equal neighbours gain (Potts).
    """
    random = np.random.default_rng(seed)
    truth = _blobs(random, size, n_labels)
    for _ in range(3):
        height, width = random.integers(size // 8, size // 3 + 1, size=2)
        row, column = random.integers(0, size - height), random.integers(0, size - width)
        truth[row : row + height, column : column + width] = random.integers(n_labels)
    pixels = truth + _NOISE * random.standard_normal((size, size))
    unary = -((pixels[:, :, None] - np.arange(n_labels)) ** 2) / (2 * _NOISE**2)
    problem = Problem(Graph.grid(size, size), unary, tables=smoothness * np.eye(n_labels))
    return NoisyImage(truth, pixels, unary.argmax(axis=2).astype(np.int32), problem)


def _blobs(random: np.random.Generator, size: int, n_labels: int) -> np.ndarray:
    """Each pixel belongs to the highest of ``n_labels`` smooth random fields."""
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None]) * size
    low_pass = np.exp(-((frequency / min(4.0, size / 24)) ** 2))
    fields = np.fft.irfft2(np.fft.rfft2(random.standard_normal((n_labels, size, size))) * low_pass, s=(size, size))
    return fields.argmax(axis=0).astype(np.int32)


def draw(image: NoisyImage, labels: np.ndarray, path: Path) -> None:
    """Write truth, input, thresholding and labelling side by side as a PNG, whole or not at all."""
    from PIL import Image, ImageDraw, ImageFont

    size = image.truth.shape[0]
    zoom = max(1, 288 // size)
    side, gap, foot = size * zoom, 12, 30
    panels = (
        ("truth", _colours(image.truth)),
        ("input", _greys(image.pixels)),
        (f"thresholding: {image.accuracy(image.threshold):.1%}", _colours(image.threshold)),
        (f"labelling: {image.accuracy(labels):.1%}", _colours(labels)),
    )
    sheet = Image.new("RGB", (len(panels) * (side + gap) + gap, side + gap + foot), "white")
    pen = ImageDraw.Draw(sheet)
    font: Any = ImageFont.load_default(size=15 if side >= 200 else 11)
    for i, (caption, colours) in enumerate(panels):
        left = gap + i * (side + gap)
        tile = Image.fromarray(colours).resize((side, side), Image.Resampling.NEAREST)
        sheet.paste(tile, (left, gap))
        pen.text((left + side / 2, gap + side + foot / 2), caption, fill="#333333", font=font, anchor="mm")
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        sheet.save(scratch, format="PNG")
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _colours(labels: np.ndarray) -> np.ndarray:
    palette = np.array([[int(code[i : i + 2], 16) for i in (1, 3, 5)] for code in _PALETTE], dtype=np.uint8)
    return palette[labels]


def _greys(pixels: np.ndarray) -> np.ndarray:
    low, high = np.percentile(pixels, [1, 99])
    grey = np.clip((pixels - low) / max(high - low, 1e-12) * 255, 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)
