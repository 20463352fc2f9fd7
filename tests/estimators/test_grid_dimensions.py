"""GridLabeler on volumes, on grids with given offsets, and with a guide image."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms

OFFSETS = [(0, 1), (1, 0), (2, -1)]


def volumes(n=4, seed=0, shape=(3, 5, 4)):
    """Two labels, the upper and the lower part of a volume, seen through noise."""
    random = np.random.default_rng(seed)
    y = [(np.indices(shape).sum(axis=0) > random.integers(3, 7)).astype(int) for _ in range(n)]
    return [(own + 0.8 * random.normal(size=shape))[..., None] for own in y], y


def test_a_volume_is_labelled_as_its_graph(tmp_path):
    X, y = volumes(6)
    seg = ms.GridLabeler("supermodular", dimensions=3, bias=True, C=5.0, edge_types="directions", edge_features="contrast")
    seg.fit(X[:4], y[:4])
    graph = ms.Graph.grid((3, 5, 4), edge_types="directions")
    u, v = graph.edges.T
    samples = [
        ms.GraphSample(x, graph, np.stack([np.ones(len(u)), np.exp(-seg.gamma_ * (x.ravel()[u] - x.ravel()[v]) ** 2)], axis=1))
        for x in X
    ]
    net = ms.GraphLabeler("supermodular", bias=True, C=5.0).fit(samples[:4], y[:4])
    assert seg.weights_.tobytes() == net.weights_.tobytes()
    for own, other in zip(seg.predict(X), net.predict(samples), strict=True):
        assert own.shape == (3, 5, 4)
        np.testing.assert_array_equal(own, other)
    assert seg.score(X[4:], y[4:]) > np.mean([(x[..., 0] > 0.5) == t for x, t in zip(X[4:], y[4:], strict=True)])
    assert "edges[(1, 0, 0), contrast]" in seg.coef_blocks_
    ms.save_model(seg, tmp_path / "volume.msm")
    again = ms.load_model(tmp_path / "volume.msm")
    np.testing.assert_array_equal(again.predict(X[4:]), seg.predict(X[4:]))


def test_volumes_of_codes_and_names_and_unknown_labels():
    codes = [np.random.default_rng(0).integers(0, 2, size=(2, 3, 4))]
    names = [np.array(["paper", "ink"])[own].tolist() for own in codes]
    names[0][1][2][3] = None
    seg = ms.GridLabeler(dimensions=3, C=10.0).fit(codes, names)
    assert seg.predict(codes)[0].shape == (2, 3, 4) and seg.score(codes, names) == 1.0


def test_offsets_in_place_of_neighbours(tmp_path):
    random = np.random.default_rng(1)
    y = [random.integers(0, 2, size=(4, 6)) for _ in range(4)]
    X = [(own + 0.5 * random.normal(size=own.shape))[..., None] for own in y]
    seg = ms.GridLabeler("potts", C=3.0, offsets=OFFSETS, edge_types="directions", bias=True).fit(X, y)
    samples = [ms.GraphSample(x, ms.Graph.grid((4, 6), offsets=OFFSETS, edge_types="directions")) for x in X]
    net = ms.GraphLabeler("potts", C=3.0, bias=True).fit(samples, y)
    assert seg.weights_.tobytes() == net.weights_.tobytes()
    assert [name for name in seg.coef_blocks_ if "edges" in name] == ["edges[horizontal]", "edges[vertical]", "edges[(2, -1)]"]
    ms.save_model(seg, tmp_path / "offsets.msm")
    np.testing.assert_array_equal(ms.load_model(tmp_path / "offsets.msm").predict(X), seg.predict(X))


def test_a_guide_image_is_seen_by_edges_alone():
    random = np.random.default_rng(2)
    y = [np.repeat([[0, 0, 0, 1, 1]], 4, axis=0)] * 3
    colours = [np.stack([own, 1.0 - own], axis=2) + 0.05 * random.normal(size=(*own.shape, 2)) for own in y]
    scores = [(own + random.normal(size=own.shape))[..., None] for own in y]
    X = [np.dstack([s, c]) for s, c in zip(scores, colours, strict=True)]
    seg = ms.GridLabeler("supermodular", edge_features="contrast", guide=[1, 2], C=5.0, bias=True).fit(X, y)
    graph = ms.Graph.grid(4, 5)
    u, v = graph.edges.T
    square = [((c.reshape(-1, 2)[u] - c.reshape(-1, 2)[v]) ** 2).sum(axis=1) for c in colours]
    assert seg.n_features_in_ == 1 and seg.gamma_ == pytest.approx(0.5 / np.mean(square))
    for sample, s, own in zip(seg._samples(X), scores, square, strict=True):
        np.testing.assert_allclose(sample.X, s.reshape(-1, 1))
        np.testing.assert_allclose(sample.edge_features[:, 1], np.exp(-seg.gamma_ * own))
    changed = [np.dstack([s, c[:, ::-1]]) for s, c in zip(scores, colours, strict=True)]
    assert seg.score(X, y) > seg.score(changed, y)


@pytest.mark.parametrize(
    ("options", "x", "message"),
    [
        (dict(connectivity=5), np.zeros((2, 2, 1)), "connectivity is 5, wanted 4 or 8"),
        (dict(dimensions=0), np.zeros((2, 2, 1)), "dimensions is 0"),
        (dict(dimensions=3, connectivity=4), np.zeros((2, 2, 2, 1)), "wanted 6 or 18 or 26"),
        (dict(offsets=[(0, 1)], connectivity=4), np.zeros((2, 2, 1)), "beside offsets"),
        (dict(offsets=[(0, 0, 1)]), np.zeros((2, 2, 1)), "wanted whole numbers"),
        (dict(), np.zeros((2, 2, 2, 1)), "For volumes set dimensions=3"),
        (dict(dimensions=3), np.zeros((2, 2, 1)), r"\(depth, height, width, 1\)"),
        (dict(guide=[0]), np.zeros((2, 2, 2)), "wanted edge_features='contrast' beside it"),
        (dict(guide=[2], edge_features="contrast"), np.zeros((2, 2, 2)), r"guide is \[2\], wanted different numbers"),
        (dict(guide=[0], edge_features="contrast"), np.zeros((2, 2), dtype=int), "holds integer codes"),
    ],
)
def test_bad_settings_say_what_is_wanted(options, x, message):
    with pytest.raises(ms.MaxsumError, match=message):
        ms.GridLabeler(**options).fit([x], [np.zeros(x.shape[: options.get("dimensions", 2)], dtype=int)])


def test_the_weights_of_iou_bound_it():
    """The loss of ``class_weight="iou"`` is at least the mean of 1 - IoU, for any labelling of the training set."""
    random = np.random.default_rng(3)
    y = [random.choice(4, size=(5, 6), p=[0.6, 0.25, 0.1, 0.05]) for _ in range(3)]
    X = [np.eye(4)[own] + 0.3 * random.normal(size=(5, 6, 4)) for own in y]
    seg = ms.GridLabeler("potts", class_weight="iou", C=1.0, tol=0.05).fit(X, y)
    truth = np.concatenate([own.ravel() for own in y])
    table, count = seg.objective_.loss.costs, np.bincount(truth)
    for share in (0.0, 0.05, 0.3, 1.0):
        said = np.where(random.random(len(truth)) < share, random.integers(0, 4, size=len(truth)), truth)
        both = [np.count_nonzero((truth == k) & (said == k)) for k in range(4)]
        some = [np.count_nonzero((truth == k) | (said == k)) for k in range(4)]
        cost = table[truth, said].sum() * 2 / len(truth)
        assert cost >= np.mean(1 - np.divide(both, some)) - 1e-12
        assert cost == pytest.approx((truth != said) @ (1 / count[truth] + 1 / count[said]) / 4)
    with pytest.raises(ms.InvalidParameterError, match="wanted loss='hamming'"):
        ms.GridLabeler(class_weight="iou", loss="normalised").fit(X, y)
