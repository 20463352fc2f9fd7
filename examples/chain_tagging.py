"""
Tag the words of a sentence
===========================

A chain, solved exactly by dynamic programming.

Run: ``python examples/chain_tagging.py``
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

TAGS = ["determiner", "adjective", "noun", "verb"]
SENTENCE = ["the", "old", "man", "the", "boats"]

# How well each word goes with each tag on its own: "old" looks like an adjective and "man" like a noun.
FIT = {
    "the": [4.0, -3.0, -3.0, -3.0],
    "old": [-3.0, 2.0, 1.0, -3.0],
    "man": [-3.0, -3.0, 2.0, 0.5],
    "boats": [-3.0, -3.0, 2.5, 0.5],
}

# How well a tag (row) goes before the next one (column).
FOLLOWS = np.array(
    [
        [-4.0, 1.0, 2.0, -4.0],
        [-4.0, 0.5, 2.0, -2.0],
        [-3.0, -2.0, -1.0, 1.5],
        [2.0, 0.0, 0.5, -2.0],
    ]
)


def main() -> None:
    unary = np.array([FIT[word] for word in SENTENCE])
    problem = ms.Problem(ms.Graph.chain(len(SENTENCE)), unary, tables=FOLLOWS)
    alone = unary.argmax(axis=1)
    result = ms.solve(problem)
    assert result.labels is not None and result.certificate is not None
    for word, single, tag in zip(SENTENCE, alone, result.labels, strict=True):
        print(
            f"{word:8} {TAGS[single]:12} {TAGS[tag]:12}"
            + ("  <- changed by its neighbours" if single != tag else "")
        )
    print(f"score {result.score:g} against {problem.score(alone):g} for the words one by one")
    print(result.message)
    print(result.verify(problem))

    _, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
    shown = ax.imshow(unary.T, cmap="Blues")
    ax.plot(alone, "o--", color="tab:red", label="each word by itself")
    ax.plot(result.labels, "o-", color="black", label="all together")
    ax.set(
        xticks=range(len(SENTENCE)), xticklabels=SENTENCE, yticks=range(len(TAGS)), yticklabels=TAGS
    )
    ax.legend(loc="upper left", bbox_to_anchor=(0, 1.28), ncols=2)
    plt.colorbar(shown, label="score of the word alone")
    plt.savefig("chain_tagging.png", dpi=80)


if __name__ == "__main__":
    main()
