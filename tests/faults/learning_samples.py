"""Small training sets and trainings for tests of faults."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxsum as ms


def data(n=8, seed=0, n_labels=3, grid=False, noise=1.0):
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for i in range(n):
        graph = ms.Graph.grid(2, 3) if grid else ms.Graph.chain(2 + i % 4)
        y = random.integers(n_labels, size=graph.n_nodes)
        samples.append(ms.GraphSample(np.eye(n_labels)[y] + noise * random.normal(size=(graph.n_nodes, n_labels)), graph))
        labels.append(y)
    return samples, labels


def fit(samples, labels, sample_weight=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ms.GraphLabeler(**{"C": 10.0, **parameters}).fit(samples, labels, sample_weight)


def close(a, b, tol=1e-4):
    """Whether two certified objectives can be the same number."""
    scale = tol * max(abs(a.result_.objective), abs(b.result_.objective))
    return max(a.result_.lower_bound, b.result_.lower_bound) <= min(a.result_.objective, b.result_.objective) + scale
