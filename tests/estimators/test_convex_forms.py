"""Forms 3 and 4 through the estimators: trees whose leaves hold matrices, and the matting Laplacian of each image."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxsum as ms
from maxsum.core.errors import CheckpointError, InvalidParameterError, InvalidSampleError
from maxsum.learning import LogisticObjective, ProjectedQuasiNewton, QPObjective
from maxsum.learning.learners.grow import TreeGrower
from maxsum.learning.objectives.logistic import predict_logistic
from maxsum.learning.objectives.qp import predict_convex
from maxsum.models import Convex, GraphModel, Matting, Trees
from maxsum.models.matting import MattingLaplacian, RestrictedOperator
from maxsum.models.trees import FeatureTests, TreeFeatures

KINDS = {"qp": (QPObjective, predict_convex), "logistic": (LogisticObjective, predict_logistic)}
TOL = 1e-2


def images(n=4, shape=(7, 8), seed=0):
    """Two regions of different colours, and labels that follow them; a fourth channel hints at the label."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = (np.arange(shape[1]) > rng.integers(2, shape[1] - 2))[None, :].repeat(shape[0], 0).astype(int)
        colours = np.where(labels[..., None] == 1, [0.8, 0.3, 0.2], [0.2, 0.4, 0.7]) + 0.05 * rng.normal(size=(*shape, 3))
        hint = 2.0 * labels - 1.0 + 2.0 * rng.normal(size=shape)
        X.append(np.concatenate([colours, hint[..., None]], axis=2))
        y.append(labels)
    return X, y


def matting(**options):
    return Convex("none", linear=False, operators=Matting(1, 1e-3, channels=(0, 1, 2)), **options)


def laplacian(x):
    return MattingLaplacian(np.ascontiguousarray(x[..., :3]), 1, 1e-3)


def samples(X):
    return [ms.GraphSample(x, ms.Graph.grid(*x.shape[:2])) for x in X]


@pytest.mark.parametrize("surrogate", KINDS)
def test_matting_is_that_of_the_library(surrogate):
    X, y = images()
    net = ms.GridLabeler(surrogate=surrogate, potentials=matting(), C=5.0, tol=TOL).fit(X, y)
    objective, predict = KINDS[surrogate]
    bound = Convex("none", linear=False, n_operators=1).bind(GraphModel().bind(samples(X), y))
    operators = [[laplacian(x)] for x in X]
    own = objective(bound, 5.0, operators=operators)
    result = ProjectedQuasiNewton(tol=TOL, max_iter=1000).fit(own)
    assert np.allclose(net.weights_, result.weights, rtol=1e-6, atol=1e-9)
    fresh, _ = images(3, seed=5)
    expected = predict(bound, result.weights, samples(fresh), operators=[[laplacian(x)] for x in fresh])
    for labels, one in zip(net.predict(fresh), expected, strict=True):
        assert np.array_equal(labels.ravel(), one.labels)
    assert net.coef_blocks_["operators"].shape == (1,) and net.coef_blocks_["operators"][0] > 0
    assert net.weight_names_[-1] == "operator 0" and "with operators" in net.result_.message


def test_matting_helps_where_colours_show_the_regions():
    X, y = images(6)
    hints = [x[..., 3:] for x in X]
    plain = ms.GridLabeler(surrogate="qp", potentials=Convex("none", linear=False), C=20.0, tol=TOL).fit(hints, y)
    net = ms.GridLabeler(surrogate="qp", potentials=matting(), C=20.0, tol=TOL).fit(X, y)
    fresh, truth = images(6, seed=7)
    assert net.score(fresh, truth) > plain.score([x[..., 3:] for x in fresh], truth) + 0.05


def test_pixels_of_unknown_label_are_left_out():
    X, y = images()
    hidden = [labels.copy() for labels in y]
    for labels in hidden:
        labels[0, :3] = -1
    net = ms.GridLabeler(surrogate="qp", potentials=matting(), C=5.0, tol=TOL).fit(X, hidden)
    bound = Convex("none", linear=False, n_operators=1).bind(GraphModel().bind(samples(X), hidden))
    operators = [[RestrictedOperator(laplacian(x), labels.ravel() >= 0)] for x, labels in zip(X, hidden, strict=True)]
    result = ProjectedQuasiNewton(tol=TOL, max_iter=1000).fit(QPObjective(bound, 5.0, operators=operators))
    assert np.allclose(net.weights_, result.weights, rtol=1e-6, atol=1e-9)
    assert net.predict(X)[0].shape == y[0].shape


def test_several_radii_clone_pickle_and_search():
    X, y = images()
    spec = Convex(operators=(Matting(1, channels=(0, 1, 2)), Matting(2, channels=[3])))
    assert spec.n_operators == 2
    net = clone(ms.GridLabeler(surrogate="qp", potentials=spec, tol=0.1)).fit(X, y)
    again = pickle.loads(pickle.dumps(net))
    assert all(np.array_equal(a, b) for a, b in zip(net.predict(X), again.predict(X), strict=True))
    changed = clone(net).set_params(potentials__ridge=0.5).fit(X, y)
    assert changed.model_.spec.ridge == 0.5 and changed.model_.spec.n_operators == 2
    assert len(net.coef_blocks_["operators"]) == 2


def test_other_operators_are_other_data(tmp_path):
    X, y = images(2)
    file = tmp_path / "state"
    net = ms.GridLabeler(surrogate="qp", potentials=matting(), checkpoint=file, max_iter=3, tol=1e-4)
    with pytest.warns(ConvergenceWarning):
        net.fit(X, y)
    wider = Convex("none", linear=False, operators=Matting(2, 1e-3, channels=(0, 1, 2)))
    with pytest.raises(CheckpointError):
        clone(net).set_params(potentials=wider).fit(X, y)
    assert clone(net).set_params(max_iter=200).fit(X, y).result_.relative_gap <= 1e-4


def test_an_image_of_one_colour_is_a_limit():
    X, y = images(2)
    for x in X:
        x[..., :3] = 0.5
    net = ms.GridLabeler(surrogate="qp", potentials=matting(), C=5.0, tol=TOL).fit(X, y)
    assert np.isfinite(net.weights_).all()
    assert 0.5 < net.score(X, y) <= 1.0


@pytest.mark.parametrize("potentials", [matting(), Convex(trees=Trees(1, 1, min_items=3))])
def test_one_label(potentials):
    X, y = images(2)
    net = ms.GridLabeler(surrogate="qp", potentials=potentials).fit(X, [np.zeros_like(own) for own in y])
    assert all((labels == 0).all() for labels in net.predict(X))
    assert net.result_.objective == pytest.approx(net.result_.lower_bound, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    ("potentials", "words", "error"),
    [
        (
            Convex("none", operators=Matting(4, channels=(0, 1, 2))),
            "sample 0: the window of radius 4 has 9 pixels a side",
            InvalidSampleError,
        ),
        (Convex("none", operators=Matting(1)), "sample 0: channels is None and the image has 4 features", InvalidSampleError),
        (Convex("none", operators=Matting(1, channels=(0, 1, 9))), r"channels is \(0, 1, 9\)", InvalidSampleError),
        (Convex("none", operators=Matting(0, channels=(0, 1, 2))), "radius is 0", InvalidParameterError),
        (Convex("none", operators=Matting(1, -1.0, (0, 1, 2))), "epsilon is -1", InvalidParameterError),
        (Convex(n_operators=1), "n_operators=1 but no operators", InvalidParameterError),
        (Convex(trees=3), "trees of potentials is 3", InvalidParameterError),
    ],
)
def test_what_does_not_fit_is_refused(potentials, words, error):
    X, y = images(2)
    with pytest.raises(error, match=words):
        ms.GridLabeler(surrogate="qp", potentials=potentials).fit(X, y)


def test_other_refusals():
    X, y = images(2)
    chain = ms.GraphSample(X[0].reshape(-1, 4), ms.Graph.chain(56))
    with pytest.raises(InvalidSampleError, match="the sample is no image"):
        ms.GraphLabeler(surrogate="qp", potentials=matting()).fit([chain], [y[0].ravel()])
    with pytest.raises(InvalidSampleError, match="the image holds codes"):
        ms.GridLabeler(surrogate="qp", potentials=matting()).fit(y, y)
    with pytest.raises(InvalidParameterError, match="rows of a table"):
        ms.MultiLabelClassifier(surrogate="qp", potentials=matting()).fit(np.eye(4), np.eye(4, dtype=int))
    with pytest.raises(InvalidParameterError, match="class_weight is given beside trees"):
        ms.GridLabeler(surrogate="qp", potentials=Convex(trees=Trees()), class_weight="balanced").fit(X, y)
    with pytest.raises(InvalidSampleError, match="not codes"):
        ms.GridLabeler(surrogate="qp", potentials=Convex(trees=Trees())).fit(y, y)
    with pytest.raises(InvalidParameterError, match="Trees: node_depth is -1"):
        Trees(node_depth=-1)
    with pytest.raises(InvalidParameterError, match="operators is 3"):
        Convex(operators=3)
    net = ms.GridLabeler(surrogate="qp", potentials=matting(), tol=0.1).fit(X, y)
    with pytest.raises(InvalidParameterError, match="use predict"):
        net.predict_result(X)
    with pytest.raises(InvalidSampleError, match="window of radius 1"):
        net.predict([X[0][:2]])


@pytest.mark.parametrize("surrogate", KINDS)
def test_trees_are_those_of_the_library(surrogate):
    X, y = images(5)
    trees = Trees(2, 1, n_thresholds=4, min_items=5)
    net = ms.GridLabeler(
        surrogate=surrogate, potentials=Convex(trees=trees), C=5.0, tol=TOL, bias=True, edge_types="directions"
    )
    net.fit(X, y)
    given = net._samples(X)
    tests = FeatureTests.quantiles(given, 4)
    model = GraphModel(bias=True)
    grown = TreeGrower(tests, 2, 1, min_items=5, C=5.0, surrogate=surrogate, model=model).grow(given, y)
    objective, predict = KINDS[surrogate]
    own = objective(Convex().bind(model.bind(grown.features.transform(given), [labels.ravel() for labels in y])), 5.0)
    result = ProjectedQuasiNewton(tol=TOL, max_iter=1000).fit(own)
    assert np.allclose(net.weights_, result.weights, rtol=1e-6, atol=1e-9)
    assert grown.features.node.n_leaves > 1 and grown.features.starts[-1] > 2
    fresh, truth = images(4, seed=3)
    others = net._samples(fresh)
    for labels, one in zip(
        net.predict(fresh), predict(own.model, result.weights, grown.features.transform(others)), strict=True
    ):
        assert np.array_equal(labels.ravel(), one.labels)
    assert net.score(fresh, truth) > 0.9
    for answer, problem in zip(net.predict_result(fresh), net.problems(fresh), strict=True):
        answer.certificate.verify(problem, answer.labels, answer.score, answer.bound)
    names = [name for name in net.coef_blocks_ if name.startswith("matrices")]
    assert len(names) == grown.features.starts[-1] and names[0] == "matrices[horizontal, leaf 0]"
    for name in names:
        assert np.linalg.eigvalsh(net.coef_blocks_[name])[0] >= 1e-3 - 1e-12


def test_feature_tests_compare_with_thresholds():
    sample = ms.GraphSample(np.array([[0.0, 5.0], [1.0, 5.0], [3.0, 5.0]]), ms.Graph.chain(3))
    tests = FeatureTests.quantiles([sample], 2)
    assert tests.feature.tolist() == [0, 0] and tests.threshold.tolist() == [0.5, 2.0]
    assert tests.spread_feature.tolist() == [0] and tests.spread.tolist() == [1.5]
    assert tests.node(sample, np.arange(2)).tolist() == [[False, False], [True, False], [True, True]]
    assert tests.n_edge_tests == 5
    assert tests.edge(sample, np.arange(5)).tolist() == [[False, False, True, False, False], [True, False, True, True, True]]
    from scipy import sparse

    same = ms.GraphSample(sparse.csr_array(sample.X), sample.graph)
    assert np.array_equal(tests.edge(same, np.array([4, 0])), tests.edge(sample, np.array([4, 0])))


def test_a_leaf_that_nothing_reaches_is_no_trouble():
    X, y = images(2)
    given = samples(X)
    tests = FeatureTests(np.array([0]), np.array([1e9]), np.zeros(0, dtype=np.int64), np.zeros(0))
    roots = TreeFeatures.roots(tests, 1)
    features = TreeFeatures(tests, roots.node.split({0: 0})[0], (roots.edges[0].split({0: 0})[0],))
    model = Convex().bind(features.over(GraphModel().bind(features.transform(given), [labels.ravel() for labels in y])))
    result = ProjectedQuasiNewton(tol=TOL).fit(QPObjective(model, 5.0))
    assert np.allclose(model.matrices(result.weights)[0], model.spec.floor * np.eye(4))
    assert len(predict_convex(model, result.weights, given)) == 2
    assert features.leaf_names() == ["leaf 0", "leaf 1"]
