"""Scales of features in estimators: bytes as they come, columns to one scale, and warnings of what does not suit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import maxsum as ms
from maxsum import InvalidParameterError, InvalidSampleError


def pictures(n: int = 3) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    y = [(rng.random((6, 6)) < 0.5).astype(int) for _ in range(n)]
    return [
        np.clip(np.stack([60 + 80 * own + rng.normal(size=(6, 6)) * 30] * 3, axis=2), 0, 255).astype(np.uint8) for own in y
    ], y


def test_images_of_bytes_are_divided_by_255():
    X, y = pictures()
    net = ms.GridLabeler(tol=1e-6).fit(X, y)
    hand = ms.GridLabeler(tol=1e-6).fit([own / 255.0 for own in X], y)
    np.testing.assert_allclose(net.weights_, hand.weights_, atol=1e-6)
    assert net.scaling_.kind == "bytes" and hand.scaling_.kind == "none"
    assert all((a == b).all() for a, b in zip(net.predict(X), hand.predict([own / 255.0 for own in X]), strict=True))
    with pytest.raises(InvalidSampleError, match="trained on uint8 images"):
        net.predict([X[0] / 255.0])


def test_scale_false_leaves_them_and_warns():
    X, y = pictures()
    with pytest.warns(UserWarning, match=r"has values up to 1\d\d, beside the 1 of biases .* scale='standard'"):
        raw = ms.GridLabeler(scale=False, tol=1e-2).fit(X, y)
    hand = ms.GridLabeler(scale=False, tol=1e-2).fit([own.astype(float) for own in X], y)
    assert raw.weights_.tobytes() == hand.weights_.tobytes() and raw.scaling_.kind == "none"


@pytest.mark.parametrize("kind", ["image", "sequence", "graph", "sparse"])
def test_standard_is_what_one_does_by_hand(kind, tmp_path):
    rng = np.random.default_rng(1)
    y = [rng.integers(2, size=(3, 4)) for _ in range(4)]
    x = [np.stack([own + rng.normal(size=own.shape), 1e4 * rng.random(own.shape) + 5e4 * own], axis=2) for own in y]
    flat = [own.reshape(-1, 2) for own in x]
    rows = np.concatenate(flat)
    mean, spread = (np.zeros(2), np.sqrt((rows**2).mean(axis=0))) if kind == "sparse" else (rows.mean(axis=0), rows.std(axis=0))
    hand = [(own - mean) / spread for own in flat]
    labels = [own.ravel() for own in y]

    def made(features):
        if kind == "image":
            return [own.reshape(3, 4, 2) for own in features]
        if kind == "graph":
            return [ms.GraphSample(own, ms.Graph.chain(12)) for own in features]
        return [sparse.csr_array(own) for own in features] if kind == "sparse" else features

    estimator = {"image": ms.GridLabeler, "graph": ms.GraphLabeler}.get(kind, ms.SequenceLabeler)
    truth = y if kind == "image" else labels
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = estimator(scale="standard", tol=1e-6).fit(made(flat), truth)
    other = estimator(tol=1e-6).fit(made(hand), truth)
    np.testing.assert_allclose(net.weights_, other.weights_, atol=1e-5)
    assert net.scaling_.kind == "standard" and net.score(made(flat), truth) == other.score(made(hand), truth)
    ms.save_model(net, tmp_path / "m")
    again = ms.load_model(tmp_path / "m")
    assert all((a == b).all() for a, b in zip(again.predict(made(flat)), net.predict(made(flat)), strict=True))


def test_bad_scales_are_refused():
    X, y = pictures()
    with pytest.raises(InvalidParameterError, match=r"scale is 'minmax', wanted 'auto', False or 'standard'"):
        ms.GridLabeler(scale="minmax").fit(X, y)
    with pytest.raises(InvalidParameterError, match="have no scale"):
        ms.SequenceLabeler(scale="standard").fit([[{"a": 1.0}]], [["x"]])


def test_a_model_that_says_one_thing_warns():
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(8, 2)) for _ in range(4)], [["x"] * 7 + ["y"] for _ in range(4)]
    with pytest.warns(UserWarning, match=r"predicts label 'x', which is right for 87\.5 % of 32; .* Raise C"):
        ms.SequenceLabeler(C=1e-4).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.SequenceLabeler().fit([np.eye(2)[[0, 1, 1]]] * 3, [["x", "y", "y"]] * 3)
