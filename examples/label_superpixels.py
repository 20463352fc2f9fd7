"""
Label superpixels
=================

Regions of like pixels are the nodes, their borders the edges, with features of both: a graph of 350 nodes in place of 9 216 pixels.

Run: ``python examples/label_superpixels.py``
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

SIZE, TRAIN, CELL = 96, 12, 5


def regions(photo: np.ndarray) -> ms.graphs.Superpixels:
    """Superpixels, or squares where scikit-image is not installed."""
    try:
        return ms.graphs.superpixels(photo, 400, compactness=30, gamma=20.0)
    except ImportError:
        row, column = np.indices(photo.shape[:2]) // CELL
        return ms.graphs.superpixels(photo, segments=row * SIZE + column, gamma=20.0)


def main() -> None:
    photos, masks = ms.datasets.make_shape_sorter(
        TRAIN + 1, SIZE, SIZE, random_state=2, texture=0.1
    )
    made = [regions(photo) for photo in photos]
    samples, y = (
        [own.sample for own in made],
        [own.labels(mask) for own, mask in zip(made, masks, strict=True)],
    )
    net = ms.GraphLabeler("potts", C=3.0, tol=0.05, bias=True, scale="standard").fit(
        samples[:-1], y[:-1]
    )
    print(
        "weights of equal neighbours:",
        {
            name: own.ravel()[0].round(2).item()
            for name, own in net.coef_blocks_.items()
            if "edges" in name
        },
    )

    last, result, problem = (
        made[-1],
        net.predict_result(samples[-1:])[0],
        net.problems(samples[-1:])[0],
    )
    print(result.message)
    print(result.verify(problem))
    found, mask = last.paint(net.classes_[result.labels]), masks[-1]
    print(
        f"pixels right: {(found == mask).mean():.1%}; {(last.paint(y[-1]) == mask).mean():.1%} is the most that these superpixels allow"
    )

    borders = np.zeros(mask.shape, dtype=bool)
    borders[:, 1:] |= last.segments[:, 1:] != last.segments[:, :-1]
    borders[1:] |= last.segments[1:] != last.segments[:-1]
    shown = np.where(borders[..., None], 255, photos[-1])
    _, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
    for ax, (title, image) in zip(
        axes, (("superpixels", shown), ("found", found), ("truth", mask)), strict=True
    ):
        ax.imshow(
            image,
            cmap=None if image.ndim == 3 else "tab10",
            vmin=0,
            vmax=9,
            interpolation="nearest",
        )
        ax.set_title(title, fontsize="medium")
        ax.set_axis_off()
    plt.savefig("label_superpixels.png", dpi=80)


if __name__ == "__main__":
    main()
