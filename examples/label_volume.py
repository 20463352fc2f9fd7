"""
Label a volume
==============

Two tubes that cross in a noisy scan: each voxel with its six neighbours, solved exactly by a minimum cut.

Run: ``python examples/label_volume.py``
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

SHAPE, NOISE = (16, 32, 32), 1.0


def scan(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Grey values (depth, height, width, 1) and labels of a volume."""
    depth, row, column = np.indices(SHAPE)
    low, side = random.uniform(8, 24, size=2)
    tube = np.hypot(row - low, depth - 8 - 3 * np.sin(column / 5)) < 4
    other = np.hypot(column - side, depth - 8) < 3
    truth = (tube | other).astype(int)
    return (truth + NOISE * random.standard_normal(SHAPE))[..., None], truth


def main() -> None:
    random = np.random.default_rng(1)
    scans = [scan(random) for _ in range(4)]
    X, y = [own for own, _ in scans], [truth for _, truth in scans]
    net = ms.GridLabeler("supermodular", dimensions=3, bias=True, C=0.01, tol=0.01).fit(
        X[:3], y[:3]
    )
    result, problem = net.predict_result(X[3:])[0], net.problems(X[3:])[0]
    print(result.message)
    print(result.verify(problem))
    found, plain = net.predict(X[3:])[0], (X[3][..., 0] > 0.5).astype(int)
    for name, labels in (("thresholds", plain), ("the labelling", found)):
        print(
            f"{name}: {(labels == y[3]).mean():.1%} of the voxels right, mean IoU {ms.metrics.mean_iou([y[3]], [labels]):.3f}"
        )

    _, axes = plt.subplots(4, 4, figsize=(8, 8.4), layout="constrained")
    for row, layer in zip(axes, (4, 7, 10, 13), strict=True):
        for ax, (title, image) in zip(
            row,
            (("scan", X[3][..., 0]), ("threshold", plain), ("found", found), ("truth", y[3])),
            strict=True,
        ):
            ax.imshow(image[layer], cmap="gray", interpolation="nearest")
            ax.set_title(f"{title}, layer {layer}", fontsize="small")
            ax.set_axis_off()
    plt.savefig("label_volume.png", dpi=80)


if __name__ == "__main__":
    main()
