"""Decision and regression tree fields: pseudo-likelihoods beside plain formulas, predictions beside dense algebra and enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from maxsum import Graph, GraphSample, Problem
from maxsum.experiments.peers.tree_fields import FLOOR, DecisionField, Leaves, RegressionField, anneal
from maxsum.models.trees import FeatureTests, Tree, TreeFeatures


def made(rng: np.random.Generator, n: int = 7) -> tuple[TreeFeatures, list[GraphSample], list[np.ndarray]]:
    """Two samples with a node tree of two leaves, and one edge tree of two leaves for the second of two edge types."""
    tests = FeatureTests(np.array([0]), np.array([0.5]), np.zeros(0, dtype=np.int64), np.zeros(0))
    two = Tree(np.array([0, -1, -1]), np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([-1, 0, 1]))
    features = TreeFeatures(tests, two, (Tree.root(), two))
    samples, labels = [], []
    for _ in range(2):
        x = rng.random((n, 1))
        edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.5], dtype=np.int32)
        samples.append(GraphSample(x, Graph(n, edges, rng.integers(0, 2, len(edges)).astype(np.int32), n_edge_types=2)))
        labels.append((x[:, 0] + 0.2 * rng.normal(size=n) > 0.5).astype(np.int64))
    return features, samples, labels


def weights(data: Leaves, rng: np.random.Generator) -> np.ndarray:
    return np.maximum(data.bounds().lb, rng.normal(size=len(data.start())))


def test_conditionals_are_those_of_the_gaussian() -> None:
    rng = np.random.default_rng(0)
    features, samples, labels = made(rng)
    data = Leaves.of(features, samples)
    w, y = weights(data, rng), 2.0 * np.concatenate(labels) - 1.0
    form, theta = data.system(w)
    dense = form.toarray()
    assert np.linalg.eigvalsh(dense).min() >= FLOOR - 1e-9
    total = 0.0
    for v in range(len(y)):
        rest = dense[v] @ y - dense[v, v] * y[v]
        total -= norm.logpdf(y[v], -(theta[v] + rest) / dense[v, v], dense[v, v] ** -0.5) - norm.logpdf(0.0)
    value, gradient = data.value_and_gradient(w, y)
    assert value == pytest.approx(total)
    for i in range(len(w)):
        step = np.zeros_like(w)
        step[i] = 1e-6
        slope = (data.value_and_gradient(w + step, y)[0] - data.value_and_gradient(w - step, y)[0]) / 2e-6
        assert gradient[i] == pytest.approx(slope, abs=1e-5, rel=1e-4)


def test_a_matrix_is_the_sum_of_its_parts() -> None:
    """An edge by itself: the form is written out."""
    features = TreeFeatures.roots(FeatureTests(*(np.zeros(0, dtype=np.int64) for _ in range(4))), 1)
    data = Leaves.of(features, [GraphSample(np.zeros((2, 1)), Graph.from_edges(np.array([[0, 1]]), 2))])
    form, theta = data.system(np.array([0.5, 2.0, 3.0, 4.0, 0.7, 0.3, 0.1, 0.2]))
    assert form.toarray() == pytest.approx(np.array([[2 + 1.0 + 0.1, 0.4], [0.4, 2 + 1.0 + 0.2]]))
    assert theta == pytest.approx(np.array([3.5, 4.5]))


def test_a_regression_field_learns_and_predicts() -> None:
    rng = np.random.default_rng(1)
    features, samples, labels = made(rng, 12)
    field = RegressionField.learn(features, samples, labels, 1.0, 5.0)
    data = Leaves.of(features, samples)
    y = 2.0 * np.concatenate(labels) - 1.0

    def whole(w: np.ndarray) -> float:
        return 0.5 * float(w @ w) + data.value_and_gradient(w, y)[0]

    assert (field.weights >= data.bounds().lb).all() and whole(field.weights) < whole(data.start())
    for _ in range(20):  # no allowed step near it is better
        assert (
            whole(np.maximum(data.bounds().lb, field.weights + 1e-2 * rng.normal(size=len(field.weights))))
            >= whole(field.weights) - 1e-6
        )
    for sample in samples:
        form, theta = Leaves.of(features, [sample]).system(field.weights)
        assert (field.predict(sample) == (np.linalg.solve(form.toarray(), -theta) > 0)).all()
    wrong = [(field.predict(sample) != own).mean() for sample, own in zip(samples, labels, strict=True)]
    assert np.mean(wrong) < 0.3


def test_a_decision_field_is_the_model_of_its_leaves() -> None:
    rng = np.random.default_rng(2)
    features, samples, labels = made(rng)
    field = DecisionField.learn(features, samples, labels, 1.0, 5.0)
    problem = field.problem(samples[0])
    leaf, kinds = features.node_leaves(samples[0]), features.edge_leaves(samples[0])
    slopes = problem.unary[:, 1] - problem.unary[:, 0]  # linear in the feature, with a step between the leaves
    x = np.asarray(samples[0].X)[:, 0]
    design = np.column_stack([x, leaf == 0, leaf == 1]).astype(float)
    assert np.abs(design @ np.linalg.lstsq(design, slopes, rcond=None)[0] - slopes).max() < 1e-9
    for e, f in itertools.combinations(range(problem.graph.n_edges), 2):
        if kinds[e] == kinds[f]:
            assert np.array_equal(problem.tables[problem.edge_table[e]], problem.tables[problem.edge_table[f]])
    assert problem.score(labels[0]) > problem.score(1 - labels[0])


def test_annealing_finds_the_best_of_a_small_problem() -> None:
    rng = np.random.default_rng(3)
    edges = np.array([(i, j) for i in range(7) for j in range(i + 1, 7) if rng.random() < 0.6])
    tables = rng.normal(size=(len(edges), 3, 3))
    problem = Problem(Graph.from_edges(edges, 7), rng.normal(size=(7, 3)), tables=tables)
    best = max(problem.score(np.array(own)) for own in itertools.product(range(3), repeat=7))
    found = anneal(problem, 60, np.random.default_rng(0))
    assert problem.score(found) == pytest.approx(best)
