"""
Clean a classifier's mask
=========================

Probabilities of a classifier that looks at single pixels, and the photograph: one call gives labels whose borders follow the photograph, and their proof. Masks of
other photographs teach it how far to trust probabilities and borders.

Run: ``python examples/refine_masks.py``
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import maxsum as ms

SIZE, TRAIN = 40, 6


def colours(photo: np.ndarray) -> np.ndarray:
    """What the classifier sees of each pixel."""
    x = photo.reshape(-1, 3) / 255.0
    return np.concatenate([x, x**2, x[:, :1] * x[:, 1:]], axis=1)


def main() -> None:
    photos, masks = ms.datasets.make_shape_sorter(TRAIN + 1, SIZE, SIZE, random_state=4)
    seen, truth = (
        np.concatenate([colours(photo) for photo in photos[:3]]),
        np.concatenate([mask.ravel() for mask in masks[:3]]),
    )
    classifier = LogisticRegression(max_iter=300).fit(seen, truth)
    probabilities = [
        classifier.predict_proba(colours(photo)).reshape(SIZE, SIZE, -1) for photo in photos
    ]

    p, photo, mask = probabilities[-1], photos[-1], masks[-1]
    given = ms.refine(p, photo)
    learned = ms.refine(p, photo, examples=(probabilities[3:-1], photos[3:-1], masks[3:-1]), C=0.1)
    print(learned.result.message)
    print(learned.verify())

    panels = [
        ("photograph", None),
        ("pixel by pixel", p.argmax(axis=2)),
        ("refine", given.labels),
        ("refine, learned", learned.labels),
        ("truth", mask),
    ]
    _, axes = plt.subplots(1, len(panels), figsize=(13, 3), layout="constrained")
    for ax, (title, labels) in zip(axes, panels, strict=True):
        if labels is None:
            ax.imshow(photo)
        else:
            ax.imshow(labels, cmap="tab10", vmin=0, vmax=9, interpolation="nearest")
            title += f": {100 * (labels != mask).mean():.1f} % wrong" if title != "truth" else ""
            print(title)
        ax.set_title(title, fontsize="medium")
        ax.set_axis_off()
    plt.savefig("refine_masks.png", dpi=80)


if __name__ == "__main__":
    main()
