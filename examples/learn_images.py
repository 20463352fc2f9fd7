"""
Learn to clean noisy images
===========================

From pairs of images and labels; both the learning and the answer are proven.

Run: ``python examples/learn_images.py``
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

SIZE, NOISE = 20, 0.8


def picture(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A disc somewhere on an empty background: noisy grey values with a constant beside them, and the labels."""
    row, column = np.mgrid[:SIZE, :SIZE]
    centre = random.integers(6, SIZE - 6, size=2)
    labels = np.where((row - centre[0]) ** 2 + (column - centre[1]) ** 2 < 30, "disc", "empty")
    grey = (labels == "disc") + NOISE * random.standard_normal(labels.shape)
    return np.stack([grey, np.ones(labels.shape)], axis=2), labels


def main() -> None:
    random = np.random.default_rng(0)
    train, test = [picture(random) for _ in range(8)], [picture(random) for _ in range(4)]
    images, labels = [image for image, _ in train], [truth for _, truth in train]

    net = ms.GridLabeler(potentials="supermodular", C=1.0, tol=0.01).fit(images, labels)
    print(net.result_.message)
    assert net.result_.certificate is not None
    print(net.result_.verify(net.objective_))
    print("tables:", net.coef_blocks_["edges"].round(2).tolist())

    new, truth = [image for image, _ in test], [own for _, own in test]
    alone = np.mean([(image[:, :, 0] > 0.5) == (own == "disc") for image, own in test])
    print(
        f"pixels right in new images: {alone:.1%} by thresholding, {net.score(new, truth):.1%} by the labelling"
    )

    result, problem = net.predict_result(new)[0], net.problems(new)[0]
    assert result.labels is not None and result.certificate is not None
    print(result.verify(problem))

    panels = {
        "new image": new[0][:, :, 0],
        "threshold": new[0][:, :, 0] > 0.5,
        "learned": net.predict(new)[0] == "disc",
    }
    _, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
    for ax, (title, own) in zip(axes, {**panels, "truth": truth[0] == "disc"}.items(), strict=True):
        ax.imshow(own, cmap="gray")
        ax.set_title(title)
        ax.set_axis_off()
    plt.savefig("learn_images.png", dpi=80)


if __name__ == "__main__":
    main()
