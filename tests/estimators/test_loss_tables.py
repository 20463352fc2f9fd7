"""Losses on every surrogate that has one: objectives against enumeration, one loss said in two ways, and refusals elsewhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError
from maxsum.losses import Hamming, TableLoss

COSTS = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 4.0, 0.0]])
WEIGHTS = np.array([2.0, 1.0, 0.5])
WRONG = 1 - np.eye(3)


def chains(n=4, length=3, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 3, length) for _ in range(n)]
    return [np.eye(3)[own] + 0.7 * rng.standard_normal((length, 3)) for own in y], y


def inverse(labels):
    count = np.bincount(np.concatenate(labels), minlength=3)
    return count.sum() / (3 * count)


LOSSES = {
    "table": ({"loss": COSTS.tolist()}, lambda y: COSTS),
    "normalised": ({"loss": "normalised"}, lambda y: WRONG / 3),
    "weights": ({"class_weight": dict(enumerate(WEIGHTS))}, lambda y: WRONG * WEIGHTS[:, None]),
    "weighted Hamming": ({"loss": Hamming(class_weight=WEIGHTS)}, lambda y: WRONG * WEIGHTS[:, None]),
    "balanced": ({"class_weight": "balanced"}, lambda y: WRONG * inverse(y)[:, None]),
    "iou": ({"class_weight": "iou"}, lambda y: WRONG * 0.5 * (inverse(y)[:, None] + inverse(y))),
}


@pytest.mark.parametrize("surrogate", ["margin", "lp"])
@pytest.mark.parametrize("loss", LOSSES)
def test_chains(loss, surrogate):
    """On chains the linear relaxation is exact, so both hinges are what all labellings say."""
    X, y = chains()
    options, costs = LOSSES[loss][0], LOSSES[loss][1](y)
    net = ms.SequenceLabeler(surrogate=surrogate, tol=1e-5, **options).fit(X, y)
    value = 0.5 * net.weights_ @ net.weights_
    for problem, truth in zip(net.problems(X), y, strict=True):
        every = [np.array(z) for z in itertools.product(range(3), repeat=3)]
        value += max(problem.score(z) + costs[truth, z].sum() for z in every) - problem.score(truth)
    np.testing.assert_allclose(net.result_.objective, value, rtol=1e-6)


@pytest.mark.parametrize("surrogate", ["qp", "logistic"])
def test_one_loss_in_two_words_on_convex_surrogates(surrogate):
    """A table with rows of one cost is the Hamming loss with weights of classes; other costs make other weights."""
    X, y = chains()
    table = TableLoss(WRONG * WEIGHTS[:, None])
    nets = [
        ms.SequenceLabeler(surrogate=surrogate, tol=1e-4, **options).fit(X, y)
        for options in ({"loss": table}, {"class_weight": dict(enumerate(WEIGHTS))}, {})
    ]
    np.testing.assert_allclose(nets[0].result_.objective, nets[1].result_.objective, rtol=1e-9)
    assert np.abs(nets[0].weights_ - nets[2].weights_).max() > 0.01


@pytest.mark.parametrize("surrogate", ["margin", "lp"])
@pytest.mark.parametrize("loss", ["table", "dicts", "iou"])
def test_tables_of_labels(loss, surrogate):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((15, 3))
    Y = (X @ rng.standard_normal((3, 3)) + 0.5 * rng.standard_normal((15, 3)) > 0).astype(int)
    count = np.stack([15 - Y.sum(axis=0), Y.sum(axis=0)], axis=1)
    options, costs = {
        "table": ({"loss": [[0.0, 5.0], [2.0, 0.0]]}, np.tile([5.0, 2.0], (3, 1))),
        "dicts": ({"class_weight": [{0: 1.0, 1: m + 2.0} for m in range(3)]}, np.array([[1.0, m + 2.0] for m in range(3)])),
        "iou": ({"class_weight": "iou"}, np.repeat((15 / (2 * count)).mean(axis=1, keepdims=True), 2, axis=1)),
    }[loss]
    net = ms.MultiLabelClassifier(surrogate=surrogate, label_graph="tree", tol=1e-5, **options).fit(X, Y)
    value = 0.5 * net.weights_ @ net.weights_
    for problem, truth in zip(net.problems(X), Y, strict=True):
        every = [np.array(z) for z in itertools.product(range(2), repeat=3)]
        wrong = [costs[np.arange(3), truth][z != truth].sum() for z in every]
        value += max(problem.score(z) + own for z, own in zip(every, wrong, strict=True)) - problem.score(truth)
    np.testing.assert_allclose(net.result_.objective, value, rtol=1e-6)


@pytest.mark.parametrize("loss", ["table", "iou"])
def test_one_class_a_sample(loss):
    X, y = (np.concatenate(own) for own in chains(8))
    options, costs = LOSSES[loss][0], LOSSES[loss][1]([y])
    net = ms.MultiLabelClassifier(tol=1e-5, **options).fit(X, y)
    scores = net.decision_function(X)
    value = 0.5 * net.weights_ @ net.weights_ + ((scores + costs[y]).max(axis=1) - scores[np.arange(len(y)), y]).sum()
    np.testing.assert_allclose(net.result_.objective, value, rtol=1e-6)


@pytest.mark.parametrize("surrogate", ["trivial", "likelihood", "pseudolikelihood"])
@pytest.mark.parametrize("options", [{"loss": COSTS.tolist()}, {"class_weight": "balanced"}, {"loss": "normalised"}], ids=str)
def test_surrogates_without_a_loss_say_so(surrogate, options):
    X, y = chains(2)
    with pytest.raises(InvalidParameterError, match=f"beside surrogate='{surrogate}', wanted"):
        ms.SequenceLabeler(surrogate=surrogate, **options).fit(X, y)
