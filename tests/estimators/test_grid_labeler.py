"""GridLabeler: images in, labels of the same shape out; directions, contrast, and bad images."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import maxsum as ms
from maxsum.core.errors import InvalidSampleError
from maxsum.learning import BlockFrankWolfe


def images(n=6, seed=0, noise=0.7, shapes=((4, 6), (5, 4), (3, 7))):
    """Blocks of two labels seen through noise."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n):
        height, width = shapes[i % len(shapes)]
        labels = np.repeat(np.repeat(random.integers(2, size=(4, 4)), 2, axis=0), 3, axis=1)[:height, :width]
        X.append(np.stack([labels + noise * random.normal(size=labels.shape), np.ones(labels.shape)], axis=2))
        y.append(labels)
    return X, y


def test_it_learns_and_keeps_shapes():
    X, y = images(12)
    seg = ms.GridLabeler(potentials="supermodular", C=20.0).fit(X, y)
    fresh, truth = images(6, seed=9)
    assert [z.shape for z in seg.predict(fresh)] == [t.shape for t in truth]
    alone = np.mean(np.concatenate([((x[:, :, 0] > 0.5) == t).ravel() for x, t in zip(fresh, truth, strict=True)]))
    assert seg.score(fresh, truth) > alone and seg.n_features_in_ == 2
    checked = seg.result_.verify(seg.objective_)
    assert checked.objective == pytest.approx(seg.result_.objective, rel=1e-9)
    for found, problem in zip(seg.predict_result(fresh), seg.problems(fresh), strict=True):
        assert found.solver == "MaxFlow" and found.certificate.verify(problem, found.labels).optimal
    assert "BlockFrankWolfe, the default of the margin surrogate" in seg.result_.message
    assert "exact solver by structure" in seg.result_.message


def test_it_is_the_graph_labeler_on_grids():
    X, y = images(4)
    samples = [ms.GraphSample(x, ms.Graph.grid(*x.shape[:2], 8, "directions")) for x in X]
    net = ms.GraphLabeler(C=5.0, tol=0.02).fit(samples, y)
    seg = ms.GridLabeler(C=5.0, tol=0.02, connectivity=8, edge_types="directions").fit(X, y)
    assert seg.weights_.tobytes() == net.weights_.tobytes()


def test_blocks_have_names():
    X, y = images(4)
    seg = ms.GridLabeler("potts", C=5.0, tol=0.02, connectivity=8, edge_types="directions", edge_features="contrast", bias=True)
    blocks = seg.fit(X, y).coef_blocks_
    assert list(blocks) == ["nodes", "bias"] + [
        f"edges[{direction}, {feature}]"
        for direction in ("horizontal", "vertical", "diagonal", "antidiagonal")
        for feature in ("constant", "contrast")
    ]
    assert blocks["nodes"].shape == (2, 2) and blocks["bias"].shape == (2,)
    table = blocks["edges[vertical, contrast]"]
    assert table.shape == (2, 2) and table[0, 0] == table[1, 1] >= 0 and table[0, 1] == 0
    plain = ms.GridLabeler(C=5.0, tol=0.02).fit(X, y)
    assert list(plain.coef_blocks_) == ["nodes", "edges"] and plain.gamma_ is None
    np.testing.assert_array_equal(np.concatenate([b.ravel() for b in plain.coef_blocks_.values()]), plain.weights_)


def test_contrast_features():
    X, y = images(4)
    seg = ms.GridLabeler("supermodular", C=5.0, edge_features="contrast").fit(X, y)
    difference = np.concatenate(
        [((x[:, 1:] - x[:, :-1]) ** 2).sum(2).ravel() for x in X] + [((x[1:] - x[:-1]) ** 2).sum(2).ravel() for x in X]
    )
    assert seg.gamma_ == pytest.approx(1 / (2 * difference.mean()))
    sample = seg._samples(X[:1])[0]
    u, v = sample.graph.edges[5]
    flat = X[0].reshape(-1, 2)
    assert sample.edge_features[5] == pytest.approx([1.0, np.exp(-seg.gamma_ * ((flat[u] - flat[v]) ** 2).sum())])
    assert seg.set_params(gamma=0.5).fit(X, y).gamma_ == 0.5
    constant = [np.ones((2, 2, 1))] * 2
    assert ms.GridLabeler(edge_features="contrast").fit(constant, [np.eye(2, dtype=int)] * 2).gamma_ == 1.0


def test_a_failed_fit_leaves_the_last_one_as_it_was():
    X, y = images(4)
    seg = ms.GridLabeler("supermodular", C=5.0, edge_features="contrast").fit(X, y)
    before = seg.predict(X)
    with pytest.raises(InvalidSampleError, match="labels of sample 0"):
        seg.fit([9 * x for x in X], [t.T for t in y])
    assert all((a == b).all() for a, b in zip(seg.predict(X), before, strict=True))


def test_codes_and_masks():
    X, y = images(6, noise=0.5)
    codes = [(x[:, :, 0] > 0.5).astype(np.uint8) for x in X]
    seg = ms.GridLabeler("supermodular", C=10.0).fit(codes, y)
    assert seg.score(codes, y) > 0.7 and seg.n_features_in_ == 2
    as_bool = ms.GridLabeler("supermodular", C=10.0).fit([c.astype(bool) for c in codes], y)
    assert as_bool.weights_.tobytes() == seg.weights_.tobytes()
    hidden = [np.random.default_rng(j).random(t.shape) < 0.3 for j, t in enumerate(y)]
    masked = ms.GridLabeler("supermodular", C=10.0).fit(
        codes, [np.ma.MaskedArray(t, mask) for t, mask in zip(y, hidden, strict=True)]
    )
    minus = ms.GridLabeler("supermodular", C=10.0).fit(
        codes, [np.where(mask, -1, t) for t, mask in zip(y, hidden, strict=True)]
    )
    assert masked.weights_.tobytes() == minus.weights_.tobytes() != seg.weights_.tobytes()


def test_any_hashable_labels_in_nested_lists():
    X, y = images(4)
    names = [("sky", 1), frozenset("ab")]
    given = [[[names[k] for k in row] for row in t.tolist()] for t in y]
    seg = ms.GridLabeler("supermodular", C=5.0).fit(X, given)
    number = ms.GridLabeler("supermodular", C=5.0, classes=[0, 1] if seg.classes_[0] == names[0] else [1, 0]).fit(X, y)
    for a, b in zip(seg.predict(X), number.predict(X), strict=True):
        assert a.shape == b.shape and [names[k] for k in b.ravel()] == a.ravel().tolist()
    assert seg.score(X, given) == number.score(X, y)
    rows = [tuple(map(tuple, t.tolist())) for t in y]
    plain = ms.GridLabeler("supermodular", C=5.0).fit(X, rows)
    assert plain.weights_.tobytes() == ms.GridLabeler("supermodular", C=5.0).fit(X, y).weights_.tobytes()
    assert seg.weight_names_[0].startswith("q(x0, ")


def test_search_over_nested_parameters_and_cross_validation():
    X, y = images(6)
    seg = ms.GridLabeler("supermodular", classes=[0, 1], learner=BlockFrankWolfe(tol=0.1))
    search = GridSearchCV(seg, {"C": [1e-6, 10.0], "learner__tol": [0.2, 0.01]}, cv=2).fit(X, y)
    assert set(search.best_params_) == {"C", "learner__tol"}
    assert search.best_estimator_.result_.relative_gap <= search.best_params_["learner__tol"]
    assert seg.learner.tol == 0.1
    assert cross_val_score(seg, X, y, cv=3).shape == (3,)


def test_parameters_and_defaults():
    seg = ms.GridLabeler()
    assert set(seg.get_params()) == set(inspect.signature(ms.GridLabeler).parameters)
    assert "GridLabeler" in seg._repr_html_()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (dict(connectivity=6), "connectivity is 6, wanted 4 or 8"),
        (dict(edge_types="direction"), "edge_types is 'direction', wanted 'tied' or 'directions'"),
        (dict(edge_features="colour"), "edge_features is 'colour', wanted None or 'contrast'"),
        (dict(edge_features="contrast", gamma=-1.0), "gamma is -1.0"),
        (dict(edge_features="contrast", gamma=np.nan), "gamma is nan"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(ValueError, match=words):
        ms.GridLabeler(**parameters).fit(*images(3))


def test_bad_images():
    X, y = images(3)
    seg = ms.GridLabeler("supermodular")
    with pytest.raises(InvalidSampleError, match=r"X is one array of shape \(4, 6, 2\), wanted a list of images"):
        seg.fit(X[0], y[0])
    with pytest.raises(InvalidSampleError, match=r"sample 1 has shape \(5, 4\) and dtype float64, .* \(height, width, 1\)"):
        seg.fit([X[0], X[1][:, :, 0]], y[:2])
    with pytest.raises(InvalidSampleError, match=r"sample 0 has shape \(3,\)"):
        seg.fit([np.arange(3)], [[0, 1, 0]])
    bad = [x.copy() for x in X]
    bad[2][1, 1, 0] = np.nan
    with pytest.raises(InvalidSampleError, match=r"sample 2: X has nan at node 8, feature 0"):
        seg.fit(bad, y)
    with pytest.raises(InvalidSampleError, match=r"sample 2: X has nan at node 8, feature 0"):
        seg.set_params(edge_features="contrast").fit(bad, y)
    with pytest.raises(InvalidSampleError, match="sample 0 holds integer codes"):
        seg.fit([np.zeros((2, 2), dtype=int)], [np.eye(2, dtype=int)])
    seg = ms.GridLabeler("supermodular").fit(X, y)
    with pytest.raises(InvalidSampleError, match="sample 0 has 3 features a node, but the model has 2"):
        seg.predict([np.zeros((2, 2, 3))])
    assert seg.predict(np.zeros((2, 3, 3, 2)))[1].shape == (3, 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.astype(np.float32),
        lambda x: np.asfortranarray(x),
        lambda x: x.astype(">f8"),
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: np.flip(np.flip(x, axis=0).copy(), axis=0),
    ],
    ids=["float32", "fortran", "big-endian", "strided", "negative-stride"],
)
def test_fault_20_any_memory_layout(change):
    X, y = images(4)
    X = [x.astype(np.float32).astype(np.float64) for x in X]
    seg = ms.GridLabeler("supermodular", C=5.0, edge_features="contrast")
    expected = seg.fit(X, y).weights_
    given = [change(x) for x in X]
    kept = [x.copy() for x in given]
    found = seg.fit(given, [np.asfortranarray(t.astype(np.int8)) for t in y])
    assert found.weights_.tobytes() == expected.tobytes()
    assert all((a == b).all() for a, b in zip(given, kept, strict=True))


def test_fault_53_two_fits_in_two_threads():
    data = [images(5, seed=seed) for seed in (1, 2)]
    one = [ms.GridLabeler("supermodular", C=5.0).fit(*own).weights_ for own in data]
    with ThreadPoolExecutor(2) as pool:
        two = list(pool.map(lambda own: ms.GridLabeler("supermodular", C=5.0).fit(*own).weights_, data))
    assert [w.tobytes() for w in one] == [w.tobytes() for w in two]
