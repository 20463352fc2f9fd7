"""
Train on shards
===============

A training set that does not fit into memory is a folder of files. The same call trains on it, shard by shard, on threads, processes or a cluster, and the
weights are the same bits whoever works. The picture has the dual, which rises from round to round, and the
objective that it proves.

Run: ``python examples/train_on_shards.py``
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms


def sentences(n, seed=0):
    """Words whose number tells their tag, nine times of ten."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        words = rng.integers(0, 60, 10)
        tags = np.where(rng.random(10) < 0.9, words % 3, rng.integers(0, 3, 10))
        yield [{"word": f"w{w}", "ending": f"{w % 5}"} for w in words], ["NVD"[k] for k in tags]


def main() -> None:
    folder = Path(tempfile.mkdtemp()) / "shards"
    data = ms.datasets.write_shards(sentences(600), folder, samples=75)
    print(data)
    net = ms.SequenceLabeler(C=0.1, tol=5e-3).fit(data)
    again = ms.SequenceLabeler(C=0.1, tol=5e-3).fit(data, executor="threads")
    print("the same bits on threads:", bool((net.weights_ == again.weights_).all()))
    X, y = zip(*sentences(100, seed=1), strict=True)
    print(f"tags of new sentences right: {net.score(list(X), list(y)):.1%}")
    print("training:", net.result_)

    _, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
    ax.axhline(
        net.result_.objective, color="tab:orange", label="objective of the weights that were found"
    )
    ax.plot(net.result_.extra["duals"], label="dual: no weights are below this")
    ax.set(
        xlabel="round over the shards",
        title=f"{len(data)} sentences in {data.n_shards} files; gap {net.result_.relative_gap:.2%}",
    )
    ax.legend()
    plt.savefig("train_on_shards.png", dpi=80)
    result = net.predict_result(list(X[:1]))[0]
    print(result.verify(net.problems(list(X[:1]))[0]))


if __name__ == "__main__":
    main()
