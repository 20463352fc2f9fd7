"""
How sure, and sets that hold the truth
======================================

A model of sequences by likelihood has a probability for every label of every word. Sets of labels with a coverage that is guaranteed need no
probabilities and no belief in the model: a threshold from sentences that it was not trained on is enough (split conformal prediction).

Run: ``python examples/how_sure.py``
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

STATES = ["rain", "cloud", "sun"]
NEXT = np.array([[0.7, 0.25, 0.05], [0.2, 0.6, 0.2], [0.05, 0.2, 0.75]])


def weeks(rng, n):
    """Days of weather that stays, and what a poor barometer shows."""
    X, y = [], []
    for _ in range(n):
        days = [int(rng.integers(3))]
        for _ in range(13):
            days.append(int(rng.choice(3, p=NEXT[days[-1]])))
        X.append(np.eye(3)[days] + 0.8 * rng.normal(size=(14, 3)))
        y.append([STATES[k] for k in days])
    return X, y


def main() -> None:
    rng = np.random.default_rng(0)
    (X, y), (Xc, yc), (Xt, yt) = (weeks(rng, n) for n in (60, 100, 200))
    net = ms.SequenceLabeler(surrogate="likelihood", C=1.0, classes=STATES).fit(X, y)
    sets = ms.calibration.LabelSets(net, coverage=0.9).fit(Xc, yc)
    covered, size = sets.coverage_of(Xt, yt), sets.size_of(Xt)
    print(
        f"sets of {size:.2f} labels hold the true one of {100 * covered:.1f} % of the days (90 % asked)"
    )

    p, found = net.predict_proba(Xt[:1])[0], sets.predict(Xt[:1])[0]
    order = [net.classes_.tolist().index(state) for state in STATES]
    _, ax = plt.subplots(figsize=(9, 3), layout="constrained")
    picture = ax.imshow(p[:, order].T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for day, (own, true) in enumerate(zip(found, yt[0], strict=True)):
        for row, k in enumerate(order):
            if own[k]:
                ax.add_patch(
                    plt.Rectangle(
                        (day - 0.46, row - 0.46),
                        0.92,
                        0.92,
                        fill=False,
                        color="tab:orange",
                        linewidth=2,
                    )
                )
        ax.plot(day, STATES.index(true), "k.")
    ax.set(
        yticks=range(3),
        yticklabels=STATES,
        xlabel="day",
        title="probability (blue), set (orange), truth (dot)",
    )
    plt.colorbar(picture, ax=ax)
    plt.savefig("how_sure.png", dpi=80)

    result = net.predict_result(Xt[:1])[0]
    print("training:", net.result_.verify(net.objective_))
    print(result.certificate.verify(net.problems(Xt[:1])[0], result.labels))


if __name__ == "__main__":
    main()
