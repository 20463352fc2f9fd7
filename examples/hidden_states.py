"""
Classes of several looks
========================

A class may be a mixture: here the label says whether a digit is even, and the digits of the calculator's display look nothing alike within a class. One linear score for all
even digits is a compromise; ``n_hidden=5`` gives each class five hidden states, which training finds by itself. The picture has the mean of what was put into each state.

Run: ``python examples/hidden_states.py``
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

STROKES = [
    "abcdef",
    "bc",
    "abged",
    "abgcd",
    "fgbc",
    "afgcd",
    "afgedc",
    "abc",
    "abcdefg",
    "abcfgd",
]  # of seven segments
PLACES = {"a": (0, slice(1, 4)), "g": (3, slice(1, 4)), "d": (6, slice(1, 4))}
PLACES |= {
    "b": (slice(1, 3), 4),
    "c": (slice(4, 6), 4),
    "e": (slice(4, 6), 0),
    "f": (slice(1, 3), 0),
}
NAMES = np.array(["even", "odd"])


def picture(digit):
    """A digit of seven segments, 7 x 5 pixels."""
    pixels = np.zeros((7, 5))
    for stroke in STROKES[digit]:
        pixels[PLACES[stroke]] = 1.0
    return pixels.ravel()


def number(rng):
    """Six digits in a row through noise, and whether each is even."""
    digits = rng.integers(10, size=6)
    return np.stack([picture(k) for k in digits]) + 0.5 * rng.normal(size=(6, 35)), NAMES[
        digits % 2
    ]


def main() -> None:
    rng = np.random.default_rng(0)
    train, test = ([number(rng) for _ in range(n)] for n in (100, 200))
    (X, y), (Xt, yt) = (zip(*own, strict=True) for own in (train, test))
    models = {
        n: ms.SequenceLabeler(n_hidden=n, C=0.1, bias=True, tol=1e-2).fit(X, y) for n in (1, 3, 5)
    }
    scores = {n: 100 * net.score(Xt, yt) for n, net in models.items()}
    net = models[5]

    figure = plt.figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[2, 3])
    bars = left.subplots()
    bars.bar([str(n) for n in scores], list(scores.values()), color="tab:blue")
    bars.set(ylim=(50, 100), xlabel="hidden states a class", ylabel="digits right, %")
    rows, classes, states = (
        np.concatenate(Xt),
        np.concatenate(net.predict(Xt)),
        np.concatenate(net.predict_states(Xt)),
    )
    for name, axes in zip(NAMES, right.subplots(2, 5), strict=True):
        for k, axis in enumerate(axes):
            here = rows[(classes == name) & (states == k)]
            axis.imshow(
                here.mean(axis=0).reshape(7, 5) if len(here) else np.zeros((7, 5)),
                cmap="gray_r",
                vmin=0,
                vmax=1,
            )
            axis.set_title(f"{name} {k}", fontsize="small")
            axis.axis("off")
    plt.savefig("hidden_states.png", dpi=80)

    for n, share in scores.items():
        print(f"{n} hidden states a class: {share:.1f} % right")
    print(
        "the latent objective by round:",
        ", ".join(f"{value:.2f}" for value in net.result_.extra["latent"]),
    )
    print("the last round:", net.result_.verify(net.objective_))
    result = net.predict_result(Xt[:1])[0]
    print(result.certificate.verify(net.problems(Xt[:1])[0], result.labels))


if __name__ == "__main__":
    main()
