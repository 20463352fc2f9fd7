"""
Half of the labels are missing
==============================

Letters of made words, of which half have no label. Leaving them out loses three of four neighbours; ``unknown="infer"`` keeps them and
completes them in turns with training. The picture has the latent objective by round: it never rises.

Run: ``python examples/words_half_known.py``
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

LETTERS = 6
WORDS = ["abcdef", "fedcba", "cafebabe", "deadbeef"]


def word(rng):
    """Letters of a word of the list, seen through noise."""
    letters = [ord(own) - ord("a") for own in WORDS[rng.integers(len(WORDS))]]
    return np.eye(LETTERS)[letters] + 0.6 * rng.normal(size=(len(letters), LETTERS)), letters


def main() -> None:
    rng = np.random.default_rng(0)
    train, test = ([word(rng) for _ in range(n)] for n in (60, 400))
    (X, y), (Xt, yt) = (zip(*own, strict=True) for own in (train, test))
    half = [[k if rng.random() < 0.5 else None for k in own] for own in y]
    classes = list(range(LETTERS))
    models = {
        "all labels": ms.SequenceLabeler(C=1.0, classes=classes).fit(X, y),
        "half of them, the rest left out": ms.SequenceLabeler(
            C=1.0, classes=classes, unknown="drop"
        ).fit(X, half),
        "half of them, the rest inferred": ms.SequenceLabeler(
            C=1.0, classes=classes, unknown="infer"
        ).fit(X, half),
    }
    scores = {name: 100 * net.score(Xt, yt) for name, net in models.items()}
    net = models["half of them, the rest inferred"]
    rounds = net.result_.extra["latent"]

    _, (left, right) = plt.subplots(1, 2, figsize=(11, 3), layout="constrained")
    left.barh(list(scores), list(scores.values()), color="tab:blue")
    left.set(xlim=(50, 100), xlabel="letters right, %")
    right.plot(range(len(rounds)), rounds, marker="o")
    right.set(xlabel="round", ylabel="latent objective")
    plt.savefig("words_half_known.png", dpi=80)

    for name, share in scores.items():
        print(f"{name}: {share:.1f} % right")
    result = net.predict_result(Xt[:1])[0]
    print("the last round:", net.result_.verify(net.objective_))
    print(result.certificate.verify(net.problems(Xt[:1])[0], result.labels))


if __name__ == "__main__":
    main()
