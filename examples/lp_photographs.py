"""
LP-M3N on photographs
=====================

Coloured pieces on a carpet. A pixel is a colour out of 512, and tables of neighbours may attract or repel, so no exact solver exists. The surrogate
``"lp"`` (Franc & Laskov 2011) puts the linear relaxation in the place of the maximum: training is convex, and its gap closes on any graph.

Run: ``python examples/lp_photographs.py``
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

SIZE, TRAIN = 40, 8


def main() -> None:
    photos, masks = ms.datasets.make_shape_sorter(TRAIN + 2, SIZE, SIZE, random_state=1)
    X = [(photo >> 5).astype(int) @ [64, 8, 1] for photo in photos]  # three bits of each channel
    alone = ms.GridLabeler("potts", C=0.1, tol=0.05).fit(X[:TRAIN], masks[:TRAIN])
    alone.weights_[-1] = 0.0  # what equal neighbours gain
    net = ms.GridLabeler("general", surrogate="lp", C=0.1, tol=0.05).fit(X[:TRAIN], masks[:TRAIN])
    print(net.result_.message)
    print("training:", net.result_.verify(net.objective_))
    result = net.predict_result(X[-1:])[0]
    print(result.verify(net.problems(X[-1:])[0]))

    _, axes = plt.subplots(2, 4, figsize=(11, 5.6), layout="constrained")
    for row, j in zip(axes, (-2, -1), strict=True):
        colour, both = (own.predict([X[j]])[0] for own in (alone, net))
        panels = {
            "photograph": None,
            "colours alone": colour,
            "with neighbours": both,
            "truth": masks[j],
        }
        for ax, (title, labels) in zip(row, panels.items(), strict=True):
            if labels is None:
                ax.imshow(photos[j])
            else:
                ax.imshow(labels, cmap="tab10", vmin=0, vmax=9, interpolation="nearest")
                title += (
                    "" if title == "truth" else f": {100 * np.mean(labels != masks[j]):.1f} % wrong"
                )
            ax.set_title(title, fontsize="medium")
            ax.set_axis_off()
    plt.savefig("lp_photographs.png", dpi=80)


if __name__ == "__main__":
    main()
