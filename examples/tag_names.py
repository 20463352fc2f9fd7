"""
Tag names, from a file of columns
=================================

A file as of the CoNLL shared tasks goes in; F1 of each kind of entity, what follows what, and the mistakes that the model is surest of come out.

Run: ``python examples/tag_names.py``
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

PEOPLE, PLACES = (
    ["Anna", "Boris", "Jordan", "Paris", "Florence", "Carl"],
    ["Prague", "Paris", "Jordan", "Florence", "Oslo"],
)
PATTERNS = [
    "P met P in L .",
    "P lives in L .",
    "they flew from L to L .",
    "yesterday P called P .",
    "L is far from L .",
    "P left L .",
    "P wrote to P .",
]
SURNAMES = ["Novak", "Smith", "Berg"]


def write_columns(path: Path, n: int, rng: np.random.Generator) -> None:
    """Words and tags, a word a line, an empty line after each sentence: some names are those of people and of places."""
    lines: list[str] = []
    for _ in range(n):
        for word in PATTERNS[rng.integers(len(PATTERNS))].split():
            if word == "P":
                lines.append(f"{rng.choice(PEOPLE)} B-PER")
                if rng.random() < 0.3:
                    lines.append(f"{rng.choice(SURNAMES)} I-PER")
            else:
                lines.append(f"{rng.choice(PLACES)} B-LOC" if word == "L" else f"{word} O")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


def features(sentence: list[tuple[str, ...]]) -> list[dict[str, object]]:
    """What is seen of a word: itself, its first letter, and the words beside it."""
    words = ["<", *(token[0] for token in sentence), ">"]
    return [
        {"word": w, "before": words[i], "after": words[i + 2], "capital": float(w[0].isupper())}
        for i, w in enumerate(words[1:-1])
    ]


def main() -> None:
    rng, folder = np.random.default_rng(0), Path(tempfile.mkdtemp())
    write_columns(folder / "train.conll", 25, rng)
    write_columns(folder / "test.conll", 200, rng)
    (X, y), (Xt, yt) = (
        ([features(s) for s in found], [[token[-1] for token in s] for s in found])
        for found in (
            ms.datasets.read_conll(folder / f"{name}.conll") for name in ("train", "test")
        )
    )
    net = ms.SequenceLabeler(C=1.0, forbidden="bio").fit(X, y)
    found = net.predict(Xt)
    scores = ms.metrics.chunk_f1(yt, found)
    for kind, own in scores.by_type.items():
        print(
            f"{kind}: precision {own.precision:.1f} %, recall {own.recall:.1f} %, F1 {own.f1:.1f} %"
        )

    # The wrong tags that the model would give up least easily: what they are ahead of the second best.
    wrong = []
    for j, losses in enumerate(net.predict_max_marginals(Xt)):
        wrong += [
            (losses.margin[i], j, i)
            for i in np.flatnonzero(np.asarray(found[j]) != np.asarray(yt[j]))
        ]
    for margin, j, i in sorted(wrong, reverse=True)[:4]:
        words = " ".join(
            f"[{token['word']}]" if k == i else str(token["word"]) for k, token in enumerate(Xt[j])
        )
        print(f"{words}   {found[j][i]}, but it is {yt[j][i]}; ahead by {margin:.2f}")

    _, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.6), layout="constrained", width_ratios=[1, 1.4]
    )
    left.barh(list(scores.by_type), [own.f1 for own in scores.by_type.values()], color="tab:blue")
    left.set(xlim=(50, 100), xlabel="F1, %", title="entities of new sentences")
    ms.plotting.plot_pairwise(net, ax=right)
    plt.savefig("tag_names.png", dpi=80)

    print("training:", net.result_.verify(net.objective_))
    result = net.predict_result(Xt[:1])[0]
    print(result.verify(net.problems(Xt[:1])[0]))


if __name__ == "__main__":
    main()
