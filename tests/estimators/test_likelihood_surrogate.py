"""``surrogate="likelihood"`` and `predict_marginals` through every estimator."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from factories.samples import label_table
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import maxsum as ms
from maxsum.core.errors import InvalidParameterError
from maxsum.datasets import make_noisy_blocks
from maxsum.learning import BlockFrankWolfe, LikelihoodObjective, ProjectedQuasiNewton, SmoothedLP

IMAGES = make_noisy_blocks(4, 3, 4, 3, noise=1.0, random_state=0)


def graphs():
    return [ms.GraphSample(x.reshape(-1, 3), ms.Graph.grid(3, 4)) for x in IMAGES[0]], [y.ravel() for y in IMAGES[1]]


def sequences():
    random = np.random.default_rng(1)
    X = [random.standard_normal((n, 3)) for n in (5, 1, 4, 6)]
    return X, [x.argmax(axis=1) for x in X]


CASES = {
    "grid": (ms.GridLabeler, ms.GridLabelerCV, lambda: IMAGES),
    "graph": (ms.GraphLabeler, ms.GraphLabelerCV, graphs),
    "sequence": (ms.SequenceLabeler, ms.SequenceLabelerCV, sequences),
    "multilabel": (ms.MultiLabelClassifier, ms.MultiLabelClassifierCV, label_table),
}


def fitted(name, **options):
    kind, _, data = CASES[name]
    X, y = data()
    return kind(surrogate="likelihood", **({"C": 10.0} | options)).fit(X, y), X, y


def enumerated(problem):
    """Probabilities of all labellings of a problem, and the labellings."""
    labels = np.array(list(itertools.product(*[range(k) for k in problem.n_states])))
    score = np.array([problem.score(own) for own in labels])
    p = np.exp(score - score.max())
    return labels, p / p.sum()


@pytest.mark.parametrize("name", CASES)
def test_it_trains_with_a_proof(name):
    net, X, y = fitted(name)
    assert isinstance(net.objective_, LikelihoodObjective)
    assert net.result_.relative_gap <= 1e-3 and net.result_.extra["sums"] == "exact"
    assert "MaximumLikelihood" in net.result_.message and "exact" in net.result_.message
    check = net.result_.verify(net.objective_)
    assert check.gap <= 1.01e-3 * check.objective
    at_zero = net.objective_.ask(np.zeros(len(net.weights_))).value
    assert net.result_.objective < at_zero
    assert net.score(X, y) > 0.5


@pytest.mark.parametrize("name", ["grid", "graph", "sequence"])
def test_marginals_of_labelers_are_those_of_enumeration(name):
    net, X, _ = fitted(name, n_jobs=2, classes=[0, 1, 2])
    X = X[:2]
    nodes, edges = net.predict_marginals(X, edge_marginals=True)
    assert [np.array_equal(a, b) for a, b in zip(net.predict_marginals(X), nodes, strict=True)] == [True, True]
    for node, edge, problem in zip(nodes, edges, net.problems(X), strict=True):
        if name != "sequence":
            assert node.shape == (3, 4, 3)
            node = node.reshape(-1, 3)
        np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-12)
        if problem.n_nodes > 7:
            problem, node, edge = conditioned(problem, node, edge)
        labels, p = enumerated(problem)
        for v in range(problem.n_nodes):
            np.testing.assert_allclose(node[v], np.bincount(labels[:, v], p, minlength=3), atol=1e-9)
        for e, (u, v) in enumerate(problem.graph.edges):
            joint = np.zeros((3, 3))
            np.add.at(joint, (labels[:, u], labels[:, v]), p)
            np.testing.assert_allclose(edge[e], joint, atol=1e-9)


def conditioned(problem, node, edge):
    """The two rows of a grid that remain when a row is summed out by hand: marginals of the rest are the same."""
    rows = [np.array(own) for own in itertools.product(range(3), repeat=4)]
    unary = problem.unary.reshape(3, 4, 3)
    tables = {tuple(own): problem.tables[problem.edge_table[e]] * problem.edge_weight[e] for e, own in enumerate(problem.graph.edges.tolist())}  # fmt: skip

    def inside(i, row):
        return sum(unary[i, c, row[c]] for c in range(4)) + sum(
            tables[4 * i + c, 4 * i + c + 1][row[c], row[c + 1]] for c in range(3)
        )

    def between(i, a, b):
        return sum(tables[4 * i + c, 4 * i + 4 + c][a[c], b[c]] for c in range(4))

    own = np.array([[inside(i, row) for row in rows] for i in range(3)])
    pair = [np.array([[between(i, a, b) for b in rows] for a in rows]) for i in range(2)]
    joint = own[0][:, None, None] + own[1][None, :, None] + own[2] + pair[0][:, :, None] + pair[1][None]
    joint = np.exp(joint - joint.max())
    joint /= joint.sum()
    code = np.array(rows)
    for i, axes in enumerate([(1, 2), (0, 2), (0, 1)]):
        for c in range(4):
            expected = np.bincount(code[:, c], joint.sum(axis=axes), minlength=3)
            np.testing.assert_allclose(node[4 * i + c], expected, atol=1e-9)
    one = ms.Problem(ms.Graph.from_edges([], n_nodes=1), np.log(np.maximum(node[:1], 1e-300)))
    return one, node[:1], edge[:0]


def test_marginals_of_label_tables_are_those_of_enumeration():
    net, X, _ = fitted("multilabel")
    labels, pairs = net.predict_marginals(X[:5], edge_marginals=True)
    assert labels.shape == (5, 3) and pairs.shape == (5, 3, 2, 2)
    for j, problem in enumerate(net.model_.problems(net.weights_, net._new(X[:5]))):
        every, p = enumerated(problem)
        np.testing.assert_allclose(labels[j], p @ every, atol=1e-12)
        for e, (u, v) in enumerate(problem.graph.edges):
            assert pairs[j, e, 1, 0] == pytest.approx(p @ (every[:, u] * (1 - every[:, v])), abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_clones_pickles_and_cross_validation(name):
    net, X, _ = fitted(name)
    _, search, data = CASES[name]
    again = pickle.loads(pickle.dumps(net))
    first, second = net.predict_marginals(X), again.predict_marginals(X)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    twin = clone(net)
    assert twin.surrogate == "likelihood" and not hasattr(twin, "weights_")
    with pytest.raises(NotFittedError):
        twin.predict_marginals(X)
    chosen = search(Cs=[0.1, 10.0], cv=2, surrogate="likelihood").fit(*data())
    assert chosen.C_ in (0.1, 10.0) and chosen.result_.relative_gap <= 1e-3 and len(chosen.predict_marginals(X)) == len(X)


def test_classes_of_one_dimensional_labels_are_multinomial_logistic_regression():
    linear = pytest.importorskip("sklearn.linear_model")
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 3))
    y = np.array(["a", "b", "c"])[(X @ random.standard_normal((3, 3)) + random.gumbel(size=(60, 3))).argmax(axis=1)]
    net = ms.MultiLabelClassifier(surrogate="likelihood", C=1.0, tol=1e-8, bias=False).fit(X, y)
    other = linear.LogisticRegression(C=1.0, fit_intercept=False, tol=1e-8, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(net.predict_marginals(X), other.predict_proba(X), atol=1e-4)
    binary = ms.MultiLabelClassifier(surrogate="likelihood", C=1.0, bias=False).fit(X, y == "a")
    assert binary.predict_marginals(X).shape == (60, 2)
    assert ((binary.predict_marginals(X)[:, 1] > 0.5) == binary.predict(X)).all()


@pytest.mark.parametrize("potentials", ["associative", "potts", "supermodular"])
def test_cones_are_kept(potentials):
    net, *_ = fitted("grid", potentials=potentials)
    assert net.objective_.cone.contains(net.weights_) and net.result_.relative_gap <= 1e-3
    if potentials != "supermodular":
        assert (net.weights_[net.objective_.cone.nonneg] >= 0).all()


def test_wide_graphs_have_bounds_and_marginals_that_add_up():
    X, y = make_noisy_blocks(2, 12, 12, 4, noise=1.0, random_state=1)
    net = ms.GridLabeler(surrogate="likelihood", C=20.0, tol=1e-2, classes=[0, 1, 2, 3]).fit(X, y)
    assert net.result_.extra["sums"] == "bound" and "upper bound" in net.result_.message
    assert net.result_.relative_gap <= 1e-2 and net.score(X, y) > 0.7
    nodes, edges = net.predict_marginals(X, edge_marginals=True)
    assert nodes[0].shape == (12, 12, 4)
    np.testing.assert_allclose(nodes[0].sum(axis=-1), 1.0, atol=1e-9)
    first = ms.Graph.grid(12, 12).edges[:, 0]
    np.testing.assert_allclose(edges[0].sum(axis=2), nodes[0].reshape(-1, 4)[first], atol=1e-6)
    assert (nodes[0].argmax(axis=-1) == y[0]).mean() > 0.7


def test_unknown_labels_sample_weights_and_warm_starts():
    X, y = sequences()
    hidden = [y[0].copy(), *y[1:]]
    hidden[0][2] = -1
    net = ms.SequenceLabeler(surrogate="likelihood", C=10.0).fit(X, hidden)
    assert len(net.objective_.model.labels) == sum(map(len, y)) - 1
    zero = ms.SequenceLabeler(surrogate="likelihood", C=10.0, tol=1e-8).fit(X, y, sample_weight=[1, 1, 0, 1])
    less = ms.SequenceLabeler(surrogate="likelihood", C=10.0, tol=1e-8).fit([X[0], X[1], X[3]], [y[0], y[1], y[3]])
    np.testing.assert_allclose(zero.weights_, less.weights_, atol=1e-3)
    warm = ms.SequenceLabeler(surrogate="likelihood", C=10.0, warm_start=True, tol=1e-6).fit(X, y)
    cold = warm.result_.n_iter
    assert warm.set_params(C=11.0).fit(X, y).result_.n_iter <= cold
    assert warm.result_.relative_gap <= 1e-6


@pytest.mark.parametrize("name", CASES)
def test_other_surrogates_have_no_marginals(name):
    kind, _, data = CASES[name]
    X, y = data()
    with pytest.raises(InvalidParameterError, match="surrogate='likelihood' and fit again"):
        kind(tol=0.1).fit(X, y).predict_marginals(X)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"class_weight": "balanced"}, "class_weight"),
        ({"loss": "normalised"}, "loss"),
        ({"learner": "BlockFrankWolfe"}, "learner is BlockFrankWolfe"),
        ({"learner": BlockFrankWolfe()}, "learner is BlockFrankWolfe"),
        ({"learner": SmoothedLP()}, "learner is SmoothedLP"),
        ({"smoothing": 0.1}, "smoothing"),
        ({"potentials": "convex"}, "convex"),
        ({"C": -1.0}, "C is"),
    ],
)
def test_what_does_not_go_together_is_refused(name, options, words):
    with pytest.raises(InvalidParameterError, match=words):
        fitted(name, **options)


def test_a_learner_of_ones_own():
    net, *_ = fitted("sequence", learner=ProjectedQuasiNewton(tol=1e-5))
    assert net.result_.relative_gap <= 1e-5 and net.result_.learner == "ProjectedQuasiNewton"
    with pytest.raises(InvalidParameterError, match="order is 2"):
        fitted("sequence", order=2)
