"""What ``maxsum demo`` does: make noisy images, learn to clean them, clean a new one, and draw it."""

from __future__ import annotations

import os
import secrets
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import CertificateError
from ..core.graph import Graph
from ..core.problem import Problem
from ..core.result import Result

if TYPE_CHECKING:
    from ..estimators.graph import GraphLabeler
    from ..learning.certificate import LearningVerification

_PALETTE = ("#1f3a5f", "#3d8eb9", "#9fd3c7", "#f6e6b4", "#f2a65a", "#d1495b", "#7d3c6b", "#4a4a4a")
_NOISE = 0.8  # standard deviation of pixels whose levels are 1 apart: single pixels mislead, neighbours do not
_TRAINING = 6  # images to learn from: learned in seconds
_TRAINING_SIZE = 32  # their height and width
_TOL = 0.02  # relative gap of the training: a demonstration shall be quick


@dataclass(frozen=True, eq=False)
class NoisyImage:
    """Classes seen through noise.

    Attributes
    ----------
    truth : ndarray of int32, shape (size, size)
        The class of each pixel.
    pixels : ndarray, shape (size, size)
        Grey levels ``k + N(0, 0.8**2)`` of class ``k``.
    """

    truth: np.ndarray
    pixels: np.ndarray

    def accuracy(self, labels: np.ndarray | None) -> float | None:
        """Share of the pixels that have their true class."""
        return None if labels is None else float((labels.reshape(self.truth.shape) == self.truth).mean())


@dataclass(frozen=True, eq=False)
class Learned:
    """Two classifiers of pixels, learned from the same images: with edges between neighbours, and without.

    Attributes
    ----------
    net, pixelwise : GraphLabeler
    verified : LearningVerification or None
        The check of what is claimed about the weights of ``net``.
    n_training : int
        Number of images.
    unchecked : str
        Why there was no check.
    """

    net: GraphLabeler
    pixelwise: GraphLabeler
    verified: LearningVerification | None
    n_training: int
    unchecked: str = ""

    def problem(self, image: NoisyImage) -> Problem:
        """The max-sum problem of labelling an image."""
        return self.net.model_.problems(self.net.weights_, [_sample(image.pixels)])[0]

    def pixel_labels(self, image: NoisyImage) -> np.ndarray:
        """The class of each pixel on its own."""
        return self.pixelwise.predict([_sample(image.pixels, edges=False)])[0].reshape(image.truth.shape)


def noisy_image(size: int = 96, n_labels: int = 4, seed: int = 0) -> NoisyImage:
    """Blobs and blocks of ``n_labels`` ordered classes under Gaussian noise."""
    return _image(np.random.default_rng(seed), size, n_labels)


def learn(n_labels: int, seed: int, time_limit: float | None = None, callback: Any = None) -> Learned:
    """Learn from small images of their own; neighbours meet in supermodular tables, so that minimal cuts are exact."""
    from ..estimators import GraphLabeler

    random = np.random.default_rng([seed, 1])
    images = [_image(random, _TRAINING_SIZE, n_labels) for _ in range(_TRAINING)]
    options: dict[str, Any] = dict(classes=list(range(n_labels)), tol=_TOL, time_limit=time_limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = GraphLabeler(potentials="supermodular", callback=callback, **options)
        net.fit([_sample(image.pixels) for image in images], [image.truth for image in images])
        pixelwise = GraphLabeler(oracle="MaxFlow", **options)
        pixelwise.fit([_sample(image.pixels, edges=False) for image in images], [image.truth.ravel() for image in images])
    if net.result_.certificate is None:
        raise CertificateError("the training was interrupted before there was a proof.")
    return Learned(net, pixelwise, None, len(images))


def checked_weights(learned: Learned, wanted: bool, progress: bool, time_limit: float | None) -> Learned:
    """With the proof of the weights checked, if that is ``wanted``, in what is left of the time limit."""
    from .fitting import check, check_seconds

    if not wanted:
        return replace(learned, unchecked="--no-check")
    result = learned.net.result_
    verified, why = check(result, learned.net.objective_, progress, check_seconds(time_limit, result.seconds))
    return replace(learned, verified=verified, unchecked=why)


def _sample(pixels: np.ndarray, edges: bool = True) -> Any:
    """Grey level and a constant at each pixel."""
    from ..models import GraphSample

    graph = Graph.grid(*pixels.shape) if edges else Graph.from_edges(np.zeros((0, 2), dtype=int), n_nodes=pixels.size)
    return GraphSample(np.stack([pixels.ravel(), np.ones(pixels.size)], axis=1), graph)


def _image(random: np.random.Generator, size: int, n_labels: int) -> NoisyImage:
    truth = _blobs(random, size, n_labels)
    for _ in range(3):
        height, width = random.integers(size // 8, size // 3 + 1, size=2)
        row, column = random.integers(0, size - height), random.integers(0, size - width)
        truth[row : row + height, column : column + width] = random.integers(n_labels)
    return NoisyImage(truth, truth + _NOISE * random.standard_normal((size, size)))


def _blobs(random: np.random.Generator, size: int, n_labels: int) -> np.ndarray:
    """Each pixel belongs to the highest of ``n_labels`` smooth random fields."""
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None]) * size
    low_pass = np.exp(-((frequency / min(4.0, size / 24)) ** 2))
    fields = np.fft.irfft2(np.fft.rfft2(random.standard_normal((n_labels, size, size))) * low_pass, s=(size, size))
    return fields.argmax(axis=0).astype(np.int32)


def draw(image: NoisyImage, pixel_labels: np.ndarray, result: Result, path: Path) -> None:
    """Write truth, input and both labellings side by side as a PNG, whole or not at all."""
    from PIL import Image, ImageDraw, ImageFont

    size = image.truth.shape[0]
    labels = np.asarray(result.labels).reshape(image.truth.shape)
    zoom = max(1, 288 // size)
    side, gap, foot = size * zoom, 12, 30
    panels = (
        ("truth", _colours(image.truth)),
        ("input", _greys(image.pixels)),
        (f"pixel by pixel: {image.accuracy(pixel_labels):.1%}", _colours(pixel_labels)),
        (f"with neighbours: {image.accuracy(labels):.1%}", _colours(labels)),
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
