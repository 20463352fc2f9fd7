"""Small training sets for convex energies, and their energies written out entry by entry."""

from __future__ import annotations

import numpy as np

import maxsum as ms
from maxsum.models import GraphModel, GraphSample
from maxsum.models.convex import Convex
from maxsum.models.matting import MattingLaplacian

FORMS = {
    "dictionary": dict(form="dictionary"),
    "definite": dict(form="definite"),
    "operator": dict(form="none", n_operators=1),
    "all": dict(form="definite", n_operators=1),
    "no linear terms": dict(form="definite", linear=False),
}


def training_set(seed=0, n=4, shape=(3, 4), n_labels=3):
    """Grids with two features an edge, one edge in five without the second, and their labels."""
    rng = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n):
        graph = ms.Graph.grid(*shape)
        y = rng.integers(n_labels, size=graph.n_nodes)
        features = rng.uniform(0.1, 2.0, size=(graph.n_edges, 2))
        features[rng.random(graph.n_edges) < 0.2, 1] = 0.0
        samples.append(GraphSample(np.eye(n_labels)[y] + rng.normal(size=(len(y), n_labels)), graph, edge_features=features))
        labels.append(y)
    return samples, labels


def two_chains(seed=0, n=5, kinds=(4, 2)):
    """Sentences with two labels a word, of different label sets: edges within each chain and between them."""
    rng = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n):
        m = int(rng.integers(1, 5))
        edges = [(i, i + 1) for i in range(m - 1)] + [(m + i, m + i + 1) for i in range(m - 1)] + [(i, m + i) for i in range(m)]
        types = [0] * (m - 1) + [1] * (m - 1) + [2] * m
        graph = ms.Graph(2 * m, np.array(edges, dtype=np.int32).reshape(-1, 2), np.array(types, dtype=np.int32), n_edge_types=3)
        node_types = np.repeat([0, 1], m)
        y = np.concatenate([rng.integers(kinds[0], size=m), rng.integers(kinds[1], size=m)])
        samples.append(GraphSample(rng.normal(size=(2 * m, 3)) + y[:, None], graph, node_types=node_types))
        labels.append(y)
    return samples, labels


def bound(name="definite", seed=0, **sizes):
    """A model of `FORMS` on `training_set`, with its operators."""
    samples, labels = training_set(seed, **sizes)
    options = FORMS[name]
    model = Convex(**options).bind(GraphModel(bias=True).bind(samples, labels))
    rng = np.random.default_rng(seed + 1)
    shape = samples[0].graph.shape
    operators = [[MattingLaplacian(rng.random((*shape, 3)), 1, 1e-2)] for _ in samples] if options.get("n_operators") else None
    return model, operators


def chains(seed=0, **options):
    samples, labels = two_chains(seed)
    return Convex(**options).bind(GraphModel(bias=True).bind(samples, labels, [list(range(4)), list(range(2))]))


def dense_energy(model, w, j, operators=None):
    """``theta`` and ``Theta`` of example ``j`` over (node, label) with K labels everywhere, from loops over edges."""
    data, size = model.data, model.n_labels
    first, last = data.node_ptr[j : j + 2]
    n = last - first
    padded = np.zeros(model.base.n_weights)
    padded[model.slices[0]] = w[model.slices[0]]
    score = model.base.unary(padded)[first:last]
    theta = np.where(np.isneginf(score), 0.0, -score)
    matrix = model.spec.ridge * np.eye(n * size)
    blocks = model.family.bank(w[model.slices[2]])
    linear = w[model.slices[1]].reshape(-1, 2 * size) if model.spec.linear else np.zeros((len(blocks), 2 * size))
    features = data.f.toarray()
    for e in range(data.edge_ptr[j], data.edge_ptr[j + 1]):
        u, v = data.edges[e] - first
        at = np.concatenate([np.arange(u * size, (u + 1) * size), np.arange(v * size, (v + 1) * size)])
        for p, f in enumerate(features[e]):
            matrix[np.ix_(at, at)] += f * blocks[p]
            theta.reshape(-1)[at] += f * linear[p]
    for weight, operator in zip(w[model.slices[3]], operators[j] if operators else (), strict=True):
        matrix += weight * np.kron(operator.matrix().toarray(), np.eye(size))
    return theta.reshape(-1), matrix
