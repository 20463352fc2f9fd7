"""
Tags that may not follow
========================

In the BIO scheme ``I-PER`` may not follow ``O``: an entity begins with ``B``. A model that learned from few sentences breaks that now and then; with
``forbidden="bio"`` it cannot, neither in training nor in prediction, because such a pair has the score minus infinity.

Run: ``python examples/forbidden_tags.py``
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
NEXT = np.array(
    [[6, 2, 0, 2, 0], [3, 0, 3, 0, 0], [3, 0, 1, 0, 0], [4, 0, 0, 0, 2], [4, 0, 0, 0, 1]],
    dtype=float,
)
NEXT /= NEXT.sum(axis=1, keepdims=True)


def sentence(rng):
    """Words that tell their tag only roughly: PER and LOC look alike."""
    tags = [0]
    for _ in range(int(rng.integers(4, 9))):
        tags.append(int(rng.choice(5, p=NEXT[tags[-1]])))
    return np.eye(5)[tags] + 0.8 * rng.normal(size=(len(tags), 5)), [TAGS[tag] for tag in tags]


def broken(tags):
    """How many tags break the scheme."""
    return sum(b.startswith("I-") and a[1:] != b[1:] for a, b in itertools.pairwise(["O", *tags]))


def main() -> None:
    rng = np.random.default_rng(2)
    train, test = ([sentence(rng) for _ in range(n)] for n in (15, 300))
    (X, y), (Xt, yt) = (zip(*own, strict=True) for own in (train, test))
    models = {
        "free": ms.SequenceLabeler(C=1.0, classes=TAGS).fit(X, y),
        "with the scheme": ms.SequenceLabeler(C=1.0, classes=TAGS, forbidden="bio").fit(X, y),
    }
    _, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for ax, (name, net) in zip(axes, models.items(), strict=True):
        found = net.predict(Xt)
        title = (
            f"{name}: {100 * net.score(Xt, yt):.1f} % right, {sum(map(broken, found))} broken tags"
        )
        print(title)
        order = [net.classes_.tolist().index(tag) for tag in TAGS]
        weights = np.array(net.transitions())[np.ix_(order, order)]
        picture = ax.imshow(
            np.where(np.isfinite(weights), weights, np.nan), cmap="RdBu", vmin=-2, vmax=2
        )
        ax.set(
            xticks=range(5),
            yticks=range(5),
            xticklabels=TAGS,
            yticklabels=TAGS,
            title=title,
            xlabel="next tag",
            ylabel="tag",
        )
        ax.set_facecolor("0.2")  # forbidden
        ax.title.set_fontsize("medium")
    plt.colorbar(picture, ax=axes, label="score of the pair; dark: forbidden")
    plt.savefig("forbidden_tags.png", dpi=80)
    net = models["with the scheme"]
    result = net.predict_result(Xt[:1])[0]
    print("training:", net.result_.verify(net.objective_))
    print(result.certificate.verify(net.problems(Xt[:1])[0], result.labels))


if __name__ == "__main__":
    main()
