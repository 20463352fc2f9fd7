"""Small data for every estimator: what the tests of surrogates run through."""

from __future__ import annotations

import numpy as np

import maxsum as ms
from maxsum.datasets import make_noisy_blocks

IMAGES = make_noisy_blocks(4, 6, 7, 3, noise=1.0, random_state=0)


def table():
    random = np.random.default_rng(0)
    X = random.standard_normal((40, 4))
    return X, (X @ random.standard_normal((4, 5)) + random.standard_normal((40, 5)) > 0).astype(int)


def graphs():
    samples = [ms.GraphSample(x.reshape(-1, 3), ms.Graph.grid(6, 7)) for x in IMAGES[0]]
    return samples, [y.ravel() for y in IMAGES[1]]


def sequences():
    random = np.random.default_rng(1)
    return [random.standard_normal((6, 3)) for _ in range(5)], [random.integers(3, size=6) for _ in range(5)]


CASES = {
    "grid": (ms.GridLabeler, lambda: IMAGES),
    "graph": (ms.GraphLabeler, graphs),
    "sequence": (ms.SequenceLabeler, sequences),
    "multilabel": (ms.MultiLabelClassifier, table),
}
