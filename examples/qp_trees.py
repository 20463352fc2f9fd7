"""
QP-M3N with trees
=================

Which matrices a node and an edge get depends on tests of the pixels around them: decision trees, grown while the energy is trained (form 3 of
Jancsary, Nowozin & Rother 2013). Here the label of a pixel is seen two pixels beside it, which no weights of the pixel itself can tell.

Run: ``python examples/qp_trees.py``
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms
from maxsum.models import Convex, PixelTests, Trees

SIZE, TRAIN = 20, 5


def image(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Blobs; the image shows them noisy and moved by two pixels."""
    row, column = np.mgrid[:SIZE, :SIZE]
    truth = np.zeros((SIZE, SIZE), dtype=int)
    for r, c in rng.integers(3, SIZE - 3, size=(3, 2)):
        truth |= (row - r) ** 2 + (column - c) ** 2 < 12
    moved = np.roll(truth, 2, axis=1) + 0.5 * rng.normal(size=truth.shape)
    return moved[..., None], truth


def main() -> None:
    rng = np.random.default_rng(0)
    made = [image(rng) for _ in range(TRAIN + 6)]
    X, y = [x for x, _ in made], [truth for _, truth in made]
    trees = Trees(node_depth=4, edge_depth=1, tests=PixelTests(3, n_pairs=0), min_items=10)
    models = {
        "no trees": ms.GridLabeler(Convex(), surrogate="qp", C=1.0, tol=0.02, bias=True).fit(
            X[:TRAIN], y[:TRAIN]
        ),
        "trees": ms.GridLabeler(Convex(trees=trees), surrogate="qp", C=1.0, tol=0.02).fit(
            X[:TRAIN], y[:TRAIN]
        ),
    }
    panels = {"image": X[-1][..., 0], "truth": y[-1]}
    for name, net in models.items():
        panels[name] = net.predict(X[-1:])[0]
        print(
            f"{name:9}: {100 * net.score(X[TRAIN:], y[TRAIN:]):.1f} % of the pixels of new images right"
        )
        print("  training:", net.result_.verify(net.objective_))

    _, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
    for ax, (title, own) in zip(axes, panels.items(), strict=True):
        ax.imshow(own, cmap="gray")
        ax.set_title(
            title + (f": {100 * np.mean(own != y[-1]):.1f} % wrong" if "trees" in title else ""),
            fontsize="medium",
        )
        ax.set_axis_off()
    plt.savefig("qp_trees.png", dpi=80)


if __name__ == "__main__":
    main()
