"""Small training sets in shards, in memory, for tests of learners."""

from __future__ import annotations

import uuid

import numpy as np

from maxsum.core.graph import Graph
from maxsum.learning.objectives.lp import LPObjective
from maxsum.learning.objectives.margin import MarginObjective
from maxsum.models import GraphModel
from maxsum.models.sample import GraphSample


class MemorySource:
    """Shards of samples in memory; workers make the objectives. ``C`` is what tests train with, and nothing that shards know."""

    def __init__(self, samples, labels, n_shards, C=1.0, potentials="general", surrogate="margin", bias=False, n_labels=None):
        self.model = GraphModel(potentials=potentials, bias=bias)
        self.samples, self.labels, self.C, self.surrogate = samples, labels, C, surrogate
        self.classes = list(range(1 + max(int(y.max()) for y in labels))) if n_labels is None else list(range(n_labels))
        self.bounds = np.linspace(0, len(samples), n_shards + 1).astype(int)
        self.sizes, self.token = np.diff(self.bounds), uuid.uuid4().hex
        self.cone = self.bind(0).cone

    def bind(self, k):
        rows = slice(self.bounds[k], self.bounds[k + 1])
        return self.model.bind(self.samples[rows], self.labels[rows], self.classes)

    def make(self, bound, C):
        return (LPObjective if self.surrogate == "lp" else MarginObjective)(bound, C)

    def objective(self, k):
        return self.make(self.bind(k), 1.0)

    def check(self, k):
        pass

    def whole(self):
        return self.make(self.model.bind(self.samples, self.labels, self.classes), self.C)

    def digest(self):
        own = (self.surrogate, self.model.potentials, len(self.samples), self.samples[0].X.tobytes(), self.model.bias)
        return repr(own).encode()


def chains(n=60, n_labels=4, width=6, seed=0, length=(3, 9)):
    """Noisy chains."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n_labels, width))
    samples, labels = [], []
    for _ in range(n):
        y = np.cumsum(rng.integers(0, 2, rng.integers(*length))) % n_labels
        samples.append(GraphSample(truth[y] + 0.8 * rng.normal(size=(len(y), width)), Graph.chain(len(y))))
        labels.append(y)
    return samples, labels


def grids(n=10, n_labels=2, seed=0, side=4):
    """Noisy grids with two kinds of areas."""
    rng = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n):
        y = np.kron(rng.integers(0, n_labels, (2, 2)), np.ones((side // 2, side // 2), dtype=int)).ravel()
        x = np.eye(n_labels)[y] + 0.7 * rng.normal(size=(len(y), n_labels))
        samples.append(GraphSample(x, Graph.grid(side, side)))
        labels.append(y)
    return samples, labels
