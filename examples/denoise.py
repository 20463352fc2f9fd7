"""
Clean a noisy image
===================

A grid with Potts tables.

Run: ``python examples/denoise.py``
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

SIZE, NOISE, SMOOTHNESS = 32, 0.7, 1.2


def picture() -> np.ndarray:
    """Two discs and a bar on an empty background, as classes 0..3."""
    row, column = np.mgrid[:SIZE, :SIZE]
    image = np.zeros((SIZE, SIZE), dtype=int)
    image[(row - 11) ** 2 + (column - 11) ** 2 < 81] = 1
    image[(row - 19) ** 2 + (column - 20) ** 2 < 64] = 3
    image[26:30, 3:28] = 2
    return image


def main() -> None:
    truth = picture()
    pixels = truth + NOISE * np.random.default_rng(1).standard_normal(truth.shape)
    unary = -((pixels[:, :, None] - np.arange(4)) ** 2) / (2 * NOISE**2)
    problem = ms.Problem(ms.Graph.grid(SIZE, SIZE), unary, tables=SMOOTHNESS * np.eye(4))
    result = ms.solve(problem, time_limit=20)
    assert result.labels is not None and result.certificate is not None
    thresholded, labelling = unary.argmax(axis=2), result.labels.reshape(truth.shape)
    print(
        f"pixels right: {(thresholded == truth).mean():.1%} by thresholding, {(labelling == truth).mean():.1%} by the labelling"
    )
    print(result.message)
    print(result.verify(problem))

    panels = {
        "noisy": pixels,
        "thresholds": thresholded,
        "the labelling": labelling,
        "truth": truth,
    }
    _, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
    for ax, (title, own) in zip(axes, panels.items(), strict=True):
        ax.imshow(own, cmap="gray" if title == "noisy" else "viridis")
        ax.set_title(title)
        ax.set_axis_off()
    plt.savefig("denoise.png", dpi=80)


if __name__ == "__main__":
    main()
