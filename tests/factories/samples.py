"""Training data for tests: sequences, images, tables of labels, samples on graphs. Equal seeds give equal data."""

from __future__ import annotations

from typing import Any

import numpy as np

import maxsum as ms
from maxsum.models import GraphModel, GraphSample
from maxsum.models.multilabel import MultiLabelModel

Arrays = list[np.ndarray]


def paired_sequences(n: int, seed: int = 0, longest: int = 6) -> tuple[Arrays, Arrays]:
    """From three to ``longest`` nodes of three labels, two equal ones at a time, with noisy indicators."""
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(3, size=4), 2)[: int(random.integers(3, longest + 1))] for _ in range(n)]
    return [np.eye(3)[own] + 0.8 * random.normal(size=(len(own), 3)) for own in y], y


def smooth_sequences(n: int, seed: int = 0, noise: float = 0.8) -> tuple[Arrays, Arrays]:
    """Three labels that seldom change, with noisy indicators."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = int(random.integers(4, 9))
        labels = np.repeat(random.integers(3, size=length), random.integers(1, 4, size=length))[:length]
        X.append(np.eye(3)[labels] + noise * random.normal(size=(length, 3)))
        y.append(labels)
    return X, y


def striped_images(n: int, seed: int = 0) -> tuple[Arrays, Arrays]:
    """Three rows of three or four pixels; two labels, seen through noise, and a constant."""
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(2, size=(3, 2)), 2, axis=1)[:, : 3 + j % 2] for j in range(n)]
    return [np.stack([own + 0.5 * random.normal(size=own.shape), np.ones(own.shape)], axis=2) for own in y], y


def label_table(n: int = 40, d: int = 4, n_labels: int = 3, noise: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbers, and labels from a linear rule under noise."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, (X @ random.standard_normal((d, n_labels)) + noise * random.standard_normal((n, n_labels)) > 0).astype(int)


def linked_table(n: int = 40, d: int = 5, n_labels: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels from a linear rule, each also drawn towards the one before, with noise."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    score = X @ random.standard_normal((d, n_labels)) + 0.5 * random.standard_normal((n, n_labels))
    Y = (score > 0).astype(int)
    for m in range(1, n_labels):
        Y[:, m] = np.where(np.abs(score[:, m]) < 0.8, Y[:, m - 1], Y[:, m])
    return X, Y


def random_model(graph: ms.Graph, n_labels: int = 3, n_examples: int = 4, seed: int = 0, **options: Any) -> Any:
    """Labels and two features of a node that have nothing to do with each other, on copies of one graph."""
    random = np.random.default_rng(seed)
    samples = [GraphSample(random.standard_normal((graph.n_nodes, 2)), graph) for _ in range(n_examples)]
    labels = [random.integers(n_labels, size=graph.n_nodes) for _ in samples]
    return GraphModel(**options).bind(samples, labels, classes=np.arange(n_labels))


def mixed_model(last: list[tuple[int, int]]) -> Any:
    """Four examples of different size, one with a cycle, two without edges, one with the edges ``last`` and isolated nodes.

    Node types of 2 and 4 labels, and two features of an edge.
    """
    random = np.random.default_rng(5)
    samples, labels = [], []
    for n, edges in ((4, [(0, 1), (2, 1), (2, 0)]), (1, []), (3, []), (5, last)):
        kinds = random.integers(2, size=n)
        graph = ms.Graph.from_edges(edges, n_nodes=n)
        samples.append(GraphSample(random.standard_normal((n, 2)), graph, random.standard_normal((len(edges), 2)), kinds))
        labels.append(np.array([random.integers(4 if kind else 2) for kind in kinds]))
    return GraphModel().bind(samples, labels, classes=[np.arange(2), np.arange(4)])


def multi_label_model() -> Any:
    """Six rows with four labels each, every pair of them linked."""
    random = np.random.default_rng(1)
    x, y = random.standard_normal((6, 3)), (random.random((6, 4)) < 0.4).astype(int)
    return MultiLabelModel(ms.Graph.complete(4)).bind(x, y)


def same_data(first: tuple[Arrays, ...], second: tuple[Arrays, ...]) -> bool:
    return all((a == b).all() for own, other in zip(first, second, strict=True) for a, b in zip(own, other, strict=True))
