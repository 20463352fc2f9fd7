"""
QP-M3N with the matting Laplacian
=================================

Scores of a classifier are smoothed along the colours of the photograph by a convex energy: the matting Laplacian of each image, with one weight
that is learned (form 4 of Jancsary, Nowozin & Rother 2013). Prediction is a convex program; its rounded minimiser is the labelling.

Run: ``python examples/qp_matting.py``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import maxsum as ms

SIZE, TRAIN = 36, 4


def main() -> None:
    photos, masks = ms.datasets.make_shape_sorter(
        TRAIN + 4, SIZE, SIZE, random_state=5, texture=0.15
    )
    pixels = [photo.reshape(-1, 3) / 255.0 for photo in photos]
    classifier = LogisticRegression(max_iter=200).fit(
        np.concatenate(pixels[:3]), np.concatenate([mask.ravel() for mask in masks[:3]])
    )
    scores = [classifier.predict_proba(x).reshape(SIZE, SIZE, -1) for x in pixels]
    X = [np.dstack([own, photo / 255.0]) for own, photo in zip(scores, photos, strict=True)]
    n = scores[0].shape[2]
    tie = np.full((n + 3, n), -1)  # one weight for all scores, none for the colours
    np.fill_diagonal(tie, 0)
    energies = ms.models.Convex(
        "none", linear=False, operators=ms.models.Matting(1, 1e-3, channels=(n, n + 1, n + 2))
    )
    net = ms.GraphLabeler(energies, surrogate="qp", C=0.1, tol=0.02, tie=tie, classes=range(n))

    samples = [ms.GraphSample(x, ms.Graph.grid(SIZE, SIZE)) for x in X]
    net.fit(samples[3 : 3 + TRAIN], masks[3 : 3 + TRAIN])
    print("weights of scores and of the Laplacian:", net.weights_.round(2))
    print("training:", net.result_.verify(net.objective_))

    found = net.predict(samples[-1:])[0].reshape(SIZE, SIZE)
    panels = {
        "photograph": None,
        "classifier": scores[-1].argmax(axis=2),
        "QP-M3N": found,
        "truth": masks[-1],
    }
    _, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
    for ax, (title, labels) in zip(axes, panels.items(), strict=True):
        if labels is None:
            ax.imshow(photos[-1])
        else:
            ax.imshow(labels, cmap="tab10", vmin=0, vmax=9, interpolation="nearest")
            title += (
                "" if title == "truth" else f": {100 * np.mean(labels != masks[-1]):.1f} % wrong"
            )
            print(title)
        ax.set_title(title, fontsize="medium")
        ax.set_axis_off()
    plt.savefig("qp_matting.png", dpi=80)


if __name__ == "__main__":
    main()
