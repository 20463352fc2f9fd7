"""Superpixels: nodes, borders and features counted pixel by pixel; learning on them; scikit-image missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import maxsum as ms


def scene(seed, size=24):
    """A bright disc on a dark ground, and noise."""
    random = np.random.default_rng(seed)
    row, column = np.indices((size, size))
    centre = random.uniform(0.35, 0.65, size=2) * size
    truth = (np.hypot(row - centre[0], column - centre[1]) < size / 4).astype(int)
    return 0.3 + 0.4 * truth[..., None] + 0.15 * random.normal(size=(size, size, 3)), truth


def test_nodes_borders_and_features_are_those_of_the_pixels():
    random = np.random.default_rng(0)
    image, regions = random.random((6, 7, 2)), random.integers(3, 8, size=(6, 7)) * 10
    more = random.random((6, 7))
    found = ms.graphs.superpixels(image, segments=regions, features=more, gamma=2.0)
    names = np.unique(regions).tolist()
    every = np.dstack([image, more])
    border: dict[tuple[int, int], int] = {}
    for i, j in np.ndindex(6, 7):
        for a, b in ((i + 1, j), (i, j + 1)):
            if a < 6 and b < 7 and regions[i, j] != regions[a, b]:
                pair = tuple(sorted((names.index(regions[i, j]), names.index(regions[a, b]))))
                border[pair] = border.get(pair, 0) + 1
    assert [tuple(edge) for edge in found.sample.graph.edges.tolist()] == sorted(border)
    around = [sum(n for pair, n in border.items() if k in pair) for k in range(len(names))]
    for k, name in enumerate(names):
        inside = every[regions == name]
        np.testing.assert_allclose(found.sample.X[k], [*inside.mean(axis=0), *inside.std(axis=0)])
        assert found.sample.node_weights[k] == pytest.approx((regions == name).sum() * len(names) / 42)
    for (u, v), row in zip(sorted(border), found.sample.edge_features, strict=True):
        gap = image[regions == names[u]].mean(axis=0) - image[regions == names[v]].mean(axis=0)
        np.testing.assert_allclose(row, [1.0, border[u, v] / min(around[u], around[v]), np.exp(-2.0 * (gap**2).sum())])
    np.testing.assert_array_equal(found.paint(np.array(names)), regions)


def test_labels_are_those_of_most_pixels_and_unknown_ones_do_not_count():
    regions = np.repeat([[0, 1, 2]], 3, axis=0)
    mask = np.array([[5, -1, -1], [5, 7, -1], [7, -1, -1]])
    found = ms.graphs.superpixels(np.zeros((3, 3)), segments=regions)
    assert found.labels(mask).tolist() == [5, 7, -1] and found.labels(np.full((3, 3), -1)).tolist() == [-1, -1, -1]
    assert found.labels(np.full((3, 3), "a")).tolist() == ["a"] * 3


def test_a_labeler_learns_on_superpixels():
    pytest.importorskip("skimage")
    scenes = [scene(seed) for seed in range(6)]
    made = [ms.graphs.superpixels(image, 60) for image, _ in scenes]
    assert all(20 <= own.n_nodes <= 120 and own.sample.graph.n_edges > own.n_nodes for own in made)
    y = [own.labels(truth) for own, (_, truth) in zip(made, scenes, strict=True)]
    net = ms.GraphLabeler(C=1.0, tol=1e-2, bias=True).fit([own.sample for own in made[:4]], y[:4])
    for own, (_, truth), labels in zip(made[4:], scenes[4:], net.predict([own.sample for own in made[4:]]), strict=True):
        assert (own.paint(labels) == truth).mean() > 0.87


def test_without_scikit_image_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(ImportError, match=r"pip install 'maxsum\[image\]', or give segments"):
        ms.graphs.superpixels(np.zeros((4, 4)))
    assert ms.graphs.superpixels(np.zeros((4, 4)), segments=np.zeros((4, 4), dtype=int)).n_nodes == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(image=np.zeros(4)), r"wanted numbers \(height, width\)"),
        (dict(image=np.full((2, 2), np.nan)), "wanted finite ones"),
        (dict(image=np.zeros((2, 2)), segments=np.zeros((2, 3), dtype=int)), r"wanted whole numbers \(2, 2\)"),
        (
            dict(image=np.zeros((2, 2)), segments=np.zeros((2, 2), dtype=int), features=np.zeros((3, 2))),
            "wanted finite numbers",
        ),
        (dict(image=np.zeros((2, 2)), n_segments=0), "n_segments is 0"),
        (dict(image=np.zeros((2, 2)), compactness=0.0), "compactness is 0.0"),
    ],
)
def test_bad_images_say_what_is_wanted(arguments, message):
    with pytest.raises(ms.MaxsumError, match=message):
        ms.graphs.superpixels(**arguments)
