"""
A table with several labels a row
=================================

Rows of numbers, and for each row which of five topics apply; some go together and some exclude each other. One call learns all five and how they
depend on each other. The report has the F1 of every topic beside that of five separate classifiers.

Run: ``python examples/table_of_topics.py``
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms

TOPICS = ["sport", "football", "politics", "election", "science"]


def table(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Features that tell main topics roughly, and the topics: football is sport, an election is politics, and few rows are about two things."""
    main = rng.choice(3, n, p=[0.4, 0.4, 0.2])
    Y = np.zeros((n, 5), dtype=int)
    Y[main == 0, 0] = Y[main == 1, 2] = Y[main == 2, 4] = 1
    Y[:, 1] = (main == 0) & (rng.random(n) < 0.5)
    Y[:, 3] = (main == 1) & (rng.random(n) < 0.5)
    return Y @ rng.normal(size=(5, 8)) + 1.1 * rng.normal(size=(n, 8)), Y


def f1(truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    both, either = (truth & found).sum(axis=0), truth.sum(axis=0) + found.sum(axis=0)
    return 2 * both / np.maximum(either, 1)


def main() -> None:
    X, Y = table(np.random.default_rng(3), 900)
    train, test = slice(0, 150), slice(150, None)
    models = {
        "one by one": ms.MultiLabelClassifier(label_graph="none", C=1.0, bias=True).fit(
            X[train], Y[train]
        ),
        "together": ms.MultiLabelClassifier(label_graph="complete", C=1.0, bias=True).fit(
            X[train], Y[train]
        ),
    }
    scores = {}
    for name, net in models.items():
        found = net.predict(X[test])
        scores[name] = f1(Y[test], found)
        whole = ms.metrics.subset_accuracy(Y[test], found)
        print(f"{name:10}: F1 {scores[name].mean():.3f}, all topics of a row right {whole:.1%}")
        print(
            "   "
            + ", ".join(
                f"{topic} {own:.2f}" for topic, own in zip(TOPICS, scores[name], strict=True)
            )
        )

    net = models["together"]
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for i, (name, own) in enumerate(scores.items()):
        left.barh(np.arange(5) + 0.4 * i, own, 0.4, label=name)
    left.set(yticks=np.arange(5) + 0.2, yticklabels=TOPICS, xlim=(0.4, 1), xlabel="F1")
    left.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    # What two topics gain together: g(1, 1) + g(0, 0) - g(1, 0) - g(0, 1).
    together = np.full((5, 5), np.nan)
    for (u, v), g in zip(net.graph_.edges, net.transitions(), strict=True):
        together[u, v] = together[v, u] = g[1, 1] + g[0, 0] - g[1, 0] - g[0, 1]
    shown = right.imshow(
        together, cmap="RdBu", vmin=-np.nanmax(abs(together)), vmax=np.nanmax(abs(together))
    )
    right.set(
        xticks=range(5), yticks=range(5), yticklabels=TOPICS, title="what pairs of topics gain"
    )
    right.set_xticklabels(TOPICS, rotation=30)
    plt.colorbar(shown, ax=right)
    plt.savefig("table_of_topics.png", dpi=80)

    print("training:", net.result_.verify(net.objective_))
    print(net.predict_result(X[test][:1])[0].verify(net.problems(X[test][:1])[0]))


if __name__ == "__main__":
    main()
