"""Tests of pixels around a node: answers pixel by pixel, trees that need them, and their files."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.models import Convex, Matting, PixelTests, Trees
from maxsum.models.labels import induced

RNG = np.random.default_rng(0)
THRESHOLDS, SPREADS = [[0.2, 0.6], [0.1, 0.5]], [[0.0], [0.3]]


def value(image, place, step, channel, outside):
    at = tuple(int(own) for own in np.add(place, step))
    inside = all(0 <= own < side for own, side in zip(at, image.shape, strict=False))
    if not inside and outside != "nearest":
        return outside
    return image[tuple(np.clip(at, 0, np.array(image.shape[:-1]) - 1))][channel]


@pytest.mark.parametrize("outside", ["nearest", -1.0])
@pytest.mark.parametrize(("sides", "radius"), [((4, 5), 2), ((3, 4, 2), 1)])
def test_answers_are_those_of_the_pixels(sides, radius, outside):
    image, n = RNG.random((*sides, 2)), len(sides)
    place = RNG.permutation(np.stack(np.unravel_index(np.arange(np.prod(sides)), sides), axis=1))[:7]
    graph = ms.Graph.from_edges([(0, 1), (2, 6), (5, 3)], 7)
    sample = ms.GraphSample(np.zeros((7, 0)), graph, pixels=(image, place))
    tests = PixelTests(radius, THRESHOLDS, SPREADS, n_pairs=6, outside=outside, n_dimensions=n)
    steps = list(np.ndindex(*(2 * radius + 1,) * n))
    steps = [np.subtract(step, radius) for step in steps]
    wanted = [
        [value(image, p, step, level // 2, outside) > np.ravel(THRESHOLDS)[level] for step in steps for level in range(4)]
        + [
            value(image, p, steps[a], c, outside) - value(image, p, steps[b], c, outside) > SPREADS[c][0]
            for a, b in tests.pairs
            for c in range(2)
        ]
        for p in place
    ]
    assert tests.n_node_tests == len(wanted[0]) and (tests.pairs[:, 0] != tests.pairs[:, 1]).all()
    every = RNG.permutation(tests.n_node_tests)
    np.testing.assert_array_equal(tests.node(sample, every), np.array(wanted)[:, every])
    pairs = RNG.permutation(tests.n_edge_tests)
    both = np.concatenate([np.array(wanted)[graph.edges[:, 0]], np.array(wanted)[graph.edges[:, 1]]], axis=1)
    np.testing.assert_array_equal(tests.edge(sample, pairs), both[:, pairs])


def test_nodes_that_are_left_out_stay_in_the_image():
    image, y = RNG.random((4, 5, 2)), np.zeros((4, 5), dtype=int)
    y[1:3, 2:] = -1
    tests = PixelTests(1, THRESHOLDS, SPREADS)
    whole = ms.GraphSample(image, ms.Graph.grid(4, 5))
    (part,), _ = induced([whole], [y])
    every = np.arange(tests.n_node_tests)
    np.testing.assert_array_equal(tests.node(part, every), tests.node(whole, every)[(y >= 0).ravel()])
    (less,), _ = induced([part], [np.arange(part.n_nodes) % 3 - 1])
    np.testing.assert_array_equal(tests.node(less, every), tests.node(part, every)[np.arange(part.n_nodes) % 3 > 0])


def test_thresholds_come_from_the_images():
    image = np.stack([RNG.random((6, 6)), np.tile([0.0, 1.0], (6, 3))], axis=2)
    tests = PixelTests(1, n_thresholds=4).fit([ms.GraphSample(image, ms.Graph.grid(6, 6))])
    levels = np.quantile(image[..., 0], np.linspace(0, 1, 5), method="nearest")
    np.testing.assert_allclose(tests.thresholds[0], (levels[1:] + levels[:-1]) / 2)
    assert set(tests.thresholds[1]) == {0.5} and tests.n_dimensions == 2


def around(n, size=12, seed=1):
    """Two labels by most of the pixels above, to the left and to the right of a pixel, which itself tells nothing."""
    random = np.random.default_rng(seed)
    X = [random.integers(0, 2, size=(size, size)) for _ in range(n)]
    y = [(np.pad(x, 1)[1:-1, :-2] + np.pad(x, 1)[1:-1, 2:] + np.pad(x, 1)[:-2, 1:-1] > 1).astype(int) for x in X]
    return [x[..., None].astype(float) for x in X], y


def test_trees_on_pixels_learn_what_pixels_alone_do_not_show(tmp_path):
    X, y = around(5, size=9)
    X, truth = [*X], [own.copy() for own in y]
    y[0][:2] = -1
    trees = Trees(node_depth=3, edge_depth=1, tests=PixelTests(1, n_pairs=0), min_items=5)
    net = ms.GridLabeler(Convex(trees=trees), surrogate="qp", C=1.0, tol=0.05).fit(X[:3], y[:3])
    plain = ms.GridLabeler(Convex(), surrogate="qp", C=1.0, tol=0.05, bias=True).fit(X[:3], y[:3])
    assert net.score(X[3:], truth[3:]) > 0.9 > 0.8 > plain.score(X[3:], truth[3:])
    ms.save_model(net, tmp_path / "trees.msm")
    again = ms.load_model(tmp_path / "trees.msm")
    np.testing.assert_array_equal(again.predict(X[3:]), net.predict(X[3:]))


class Ranks:
    """Tests that are no function of one column: is a node's first feature among the largest of its sample?"""

    n_node_tests, n_edge_tests = 3, 0

    def node(self, sample, tests):
        rank = sample.X[:, 0].argsort().argsort() / len(sample.X)
        return rank[:, None] > np.array([0.25, 0.5, 0.75])[tests]

    def edge(self, sample, tests):
        return np.zeros((sample.graph.n_edges, len(tests)), dtype=bool)


def test_tests_may_be_anything_that_a_sample_tells():
    X = [RNG.normal(size=(16, 1)) * 10.0**k + 50 * k for k in range(5)]
    y = [(x[:, 0] > np.sort(x[:, 0])[7]).astype(int) for x in X]
    samples = [ms.GraphSample(x, ms.Graph.chain(16)) for x in X]
    energies = Convex(trees=Trees(node_depth=2, edge_depth=0, tests=Ranks(), min_items=2))
    assert ms.GraphLabeler(energies, surrogate="qp", C=10.0).fit(samples[:3], y[:3]).score(samples[3:], y[3:]) > 0.9


def test_trees_and_operators_together():
    X, y = around(2, size=8)
    trees = Trees(node_depth=3, edge_depth=0, tests=PixelTests(1, n_pairs=0), min_items=5)
    both = ms.GridLabeler(Convex(trees=trees, operators=Matting(1)), surrogate="qp", C=1.0, tol=0.01).fit(X, y)
    alone = ms.GridLabeler(Convex(trees=trees), surrogate="qp", C=1.0, tol=0.01).fit(X, y)
    assert both.coef_blocks_["operators"].shape == (1,) and (both.coef_blocks_["operators"] >= 0).all()
    assert both.weight_names_[-1] == "operator 0" and len(both.weights_) == len(alone.weights_) + 1
    lower = both.result_.verify(both.objective_).lower_bound
    assert lower <= both.result_.objective <= alone.result_.objective * 1.01  # one more weight, which may be 0
    assert both.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PixelTests(-1), "radius is -1"),
        (lambda: PixelTests(10**6), "too large"),
        (lambda: PixelTests(1, outside="far"), "outside is 'far'"),
        (lambda: PixelTests(1, [[np.nan]]), "wanted finite numbers"),
        (lambda: PixelTests(1).node(ms.GraphSample(np.zeros((4, 1)), ms.Graph.grid(2, 2)), np.arange(1)), "has no thresholds yet"),
        (lambda: PixelTests(1).fit([ms.GraphSample(np.zeros((4, 1)), ms.Graph.chain(4))]), "no image to test pixels of"),
        (lambda: PixelTests(1, [[0.5]]).fit([ms.GraphSample(np.zeros((2, 2, 2)), ms.Graph.grid(2, 2))]), "images have 2 channels"),
        (lambda: ms.GraphSample(np.zeros((2, 1)), ms.Graph.chain(2), pixels=(np.zeros((3, 3)), [[0, 0], [3, 0]])), "node 1 stands at"),
        (lambda: ms.GraphSample(np.zeros((2, 1)), ms.Graph.chain(2), pixels=(np.zeros((3, 3)), [[0, 0]])), r"wanted whole numbers \(2, n_sides\)"),
        (lambda: ms.GraphSample(np.zeros((2, 1)), ms.Graph.chain(2), pixels=3), "no pair of arrays"),
    ],
)  # fmt: skip
def test_bad_tests_say_what_is_wanted(make, message):
    with pytest.raises(ms.MaxsumError, match=message):
        make()
