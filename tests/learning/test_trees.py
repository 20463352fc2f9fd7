"""Form 3: trees whose leaves hold weights, their growth by descent of the objective, and trees that are refused."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.learning.learners.grow import TreeGrower, _inherited
from maxsum.learning.learners.quasi_newton import ProjectedQuasiNewton
from maxsum.learning.objectives.logistic import predict_logistic
from maxsum.learning.objectives.qp import QPObjective, predict_convex
from maxsum.models import GraphModel, GraphSample
from maxsum.models.convex import Convex
from maxsum.models.trees import Tree, TreeFeatures


class Bits:
    """Test ``i`` asks for bit ``i`` of the first column of a node, or of the first end of an edge."""

    n_node_tests = n_edge_tests = 4

    def node(self, sample, tests):
        return (sample.X[:, [0]].astype(int) >> tests & 1).astype(bool)

    def edge(self, sample, tests):
        return self.node(sample, tests)[sample.graph.edges[:, 0]]


def chains(n=30, seed=0):
    """Labels of a chain: bit 2 of an observation says whether the next label is the same; a second one hints at each label."""
    rng = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n):
        x = rng.integers(16, size=6)
        y = np.zeros(6, dtype=int)
        y[0] = rng.integers(2)
        for i in range(1, 6):
            y[i] = y[i - 1] if x[i - 1] >> 2 & 1 else 1 - y[i - 1]
        samples.append(GraphSample(np.stack([x, 2 * y - 1 + 1.5 * rng.normal(size=6)], axis=1), ms.Graph.chain(6)))
        labels.append(y)
    return samples, labels


def test_a_tree_leads_every_item_to_a_leaf():
    tree, origin = Tree.root().split({0: 2})
    assert tree.n_leaves == 2 and tree.depth == 1 and origin.tolist() == [0, 0]
    deeper, origin = tree.split({1: 0})
    assert deeper.n_leaves == 3 and deeper.depth == 2 and origin.tolist() == [0, 1, 1]
    codes = np.arange(8)

    def ask(tests):
        return (codes[:, None] >> tests & 1).astype(bool)

    assert deeper.leaves(ask, 8).tolist() == [2, 1, 2, 1, 0, 0, 0, 0]
    assert Tree.root().leaves(ask, 8).tolist() == [0] * 8


@pytest.mark.parametrize(
    "arrays",
    [
        ([0], [-1], [-1], [-1]),
        ([0, -1, -1], [1, -1, -1], [1, -1, -1], [-1, 0, 1]),
        ([0, -1, -1], [1, -1, -1], [2, -1, -1], [-1, 0, 0]),
        ([0, -1, -1], [0, -1, -1], [2, -1, -1], [-1, 0, 1]),
        ([], [], [], []),
    ],
)
def test_broken_trees_are_refused(arrays):
    with pytest.raises(InvalidSampleError, match="a tree"):
        Tree(*(np.array(a, dtype=np.int64) for a in arrays))


def test_bad_tests_and_samples_are_refused():
    samples, labels = chains(3)
    features = TreeFeatures(Bits(), Tree.root(), (Tree.root().split({0: 2})[0],))
    bad = Bits()
    bad.edge = lambda sample, tests: np.zeros((sample.graph.n_edges, len(tests)))
    with pytest.raises(InvalidSampleError, match="wanted bool"):
        TreeFeatures(bad, features.node, features.edges).transform(samples)
    codes = GraphSample(np.arange(3), ms.Graph.chain(3))
    with pytest.raises(InvalidSampleError, match="dense or sparse"):
        TreeFeatures.roots(Bits(), 1).transform([codes])
    with pytest.raises(InvalidParameterError, match="surrogate"):
        TreeGrower(Bits(), surrogate="margin").grow(samples, labels)
    with pytest.raises(InvalidSampleError, match="no samples"):
        TreeGrower(Bits()).grow([], [])


def test_an_empty_leaf_has_the_least_matrix():
    samples, labels = chains(4)
    samples = [GraphSample(np.c_[np.zeros(6), s.X[:, 1]], s.graph) for s in samples]
    features = TreeFeatures(Bits(), Tree.root(), (Tree.root().split({0: 3})[0],))
    model = Convex().bind(GraphModel().bind(features.transform(samples), labels))
    assert len(model.family.shapes) == 2
    objective = QPObjective(model, C=10.0)
    result = ProjectedQuasiNewton(tol=1e-3).fit(objective)
    assert np.allclose(model.matrices(result.weights)[0], model.spec.floor * np.eye(4))
    assert not np.allclose(model.matrices(result.weights)[1], model.spec.floor * np.eye(4))


def test_new_leaves_begin_where_the_old_ones_were():
    samples, labels = chains(10)
    before = TreeFeatures.roots(Bits(), 1)
    node, node_origin = before.node.split({0: 1})
    edge, edge_origin = before.edges[0].split({0: 2})
    after = TreeFeatures(Bits(), node, (edge,))
    for spec in (Convex(), Convex("dictionary")):
        small, large = (spec.bind(GraphModel().bind(f.transform(samples), labels)) for f in (before, after))
        w = small.project(np.random.default_rng(0).normal(size=small.n_weights))
        wide = _inherited(small, w, large, 1, node_origin, edge_origin)
        values = []
        for model, own in ((small, w), (large, wide)):
            objective = QPObjective(model, C=2.0)
            objective.tighten(0.0)
            values.append(objective.ask(own).value - 0.5 * own @ own)
        assert values[0] == pytest.approx(values[1], abs=1e-7)


@pytest.mark.parametrize("surrogate", ["qp", "logistic"])
def test_growth_finds_the_test_that_decides(surrogate):
    samples, labels = chains(30)
    learner = ProjectedQuasiNewton(tol=1e-2, max_iter=40)
    grower = TreeGrower(Bits(), node_depth=1, edge_depth=2, C=200.0, surrogate=surrogate, learner=learner, min_items=5)
    found = grower.grow(samples, labels)
    assert found.features.edges[0].test[0] == 2
    objectives = [result.objective for result in found.results]
    assert len(objectives) >= 2 and objectives[-1] < 0.8 * objectives[0]
    assert found.features.node.depth <= 1 and found.features.edges[0].depth <= 2
    for matrix in found.model.matrices(found.weights):
        assert np.linalg.eigvalsh(matrix)[0] >= found.model.spec.floor - 1e-12
    fresh, truth = chains(20, seed=9)
    predict = predict_convex if surrogate == "qp" else predict_logistic
    predicted = predict(found.model, found.weights, fresh)
    wrong = np.mean([(own.labels != y).mean() for own, y in zip(predicted, truth, strict=True)])
    assert wrong <= 0.15, (wrong, objectives)
