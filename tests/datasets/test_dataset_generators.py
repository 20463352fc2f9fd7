"""Generated images: shapes, seeds, the effect of every parameter."""

from __future__ import annotations

import numpy as np
import pytest
from factories.samples import same_data

import maxsum as ms
from maxsum.datasets import make_noisy_blocks, make_shapes


@pytest.mark.parametrize("make", [make_noisy_blocks, make_shapes])
def test_seeds(make):
    assert same_data(make(3, 12, 9, random_state=1), make(3, 12, 9, random_state=1))
    assert not same_data(make(3, 12, 9, random_state=1), make(3, 12, 9, random_state=2))
    assert same_data(make(2, random_state=np.random.default_rng(0)), make(2, random_state=0))


def test_noisy_blocks():
    X, y = make_noisy_blocks(4, 30, 20, 5, noise=0.0)
    assert len(X) == len(y) == 4
    for image, labels in zip(X, y, strict=True):
        assert image.shape == (30, 20, 5) and labels.shape == (30, 20) and labels.dtype == np.int64
        assert (image.argmax(axis=2) == labels).all() and (image.sum(axis=2) == 1).all()
    assert {int(label) for own in y for label in np.unique(own)} == set(range(5))
    noise = np.concatenate([(a - b).ravel() for a, b in zip(make_noisy_blocks(4, 30, 20, 5, noise=0.5)[0], X, strict=True)])
    assert make_noisy_blocks(1, noise=0.0)[0][0].max() == 1
    assert noise.std() > 0.4


def test_size_of_blocks():
    def changes(block):
        labels = make_noisy_blocks(5, 60, 60, 4, block=block)[1]
        return np.mean([(own[1:] != own[:-1]).mean() for own in labels])

    assert changes(2) > 2 * changes(20) > 0


def test_shapes_codes():
    X, y = make_shapes(5, 40, 60, 6, n_objects=5, noise=0.3)
    for codes, labels in zip(X, y, strict=True):
        assert codes.shape == labels.shape == (40, 60) and codes.dtype == labels.dtype == np.int64
        assert codes.min() >= 0 and codes.max() <= 5
        assert 0.2 < (codes != labels).mean() < 0.3
        assert 3 <= len(np.unique(labels)) <= 6 and (labels == 0).mean() > 0.2
    assert same_data((make_shapes(2, noise=0)[0],), (make_shapes(2, noise=0)[1],))
    assert not np.any(make_shapes(2, n_objects=0)[1])
    assert len(np.unique(make_shapes(5, 200, 200, 3, n_objects=20)[1])) == 3


def test_shapes_rgb():
    X, y = make_shapes(3, 30, 30, 4, noise=0.0, kind="rgb")
    for image, labels in zip(X, y, strict=True):
        assert image.shape == (30, 30, 3) and 0 <= image.min() <= image.max() <= 1
        assert len(np.unique(image.reshape(-1, 3), axis=0)) == len(np.unique(labels))
    noisy = make_shapes(3, 30, 30, 4, noise=0.5, kind="rgb")[0]
    assert 0 <= np.min(noisy) < np.max(noisy) <= 1 and np.std(np.subtract(noisy, X)) > 0.1


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (make_noisy_blocks, dict(n_images=-1), "n_images is -1"),
        (make_noisy_blocks, dict(height=0), "height is 0"),
        (make_noisy_blocks, dict(width=2.0), r"width is 2\.0"),
        (make_noisy_blocks, dict(n_labels=True), "n_labels is True"),
        (make_noisy_blocks, dict(noise=-1), "noise is -1"),
        (make_noisy_blocks, dict(noise=float("nan")), "noise is nan"),
        (make_noisy_blocks, dict(noise=float("inf")), "noise is inf"),
        (make_noisy_blocks, dict(random_state="x"), "random_state is 'x'"),
        (make_shapes, dict(noise=1.5), r"noise is 1\.5, .* at most 1"),
        (make_shapes, dict(n_labels=1), "n_labels is 1"),
        (make_shapes, dict(n_labels=9, kind="rgb"), "n_labels is 9, .* at most 8"),
        (make_shapes, dict(kind="hsv"), "kind is 'hsv'"),
    ],
)
def test_bad_parameters(make, options, message):
    with pytest.raises(ms.InvalidParameterError, match=message):
        make(**options)
