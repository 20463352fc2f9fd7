"""Losses: augmented scores are scores plus losses; masked nodes count nothing; bad losses are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.learning.objectives.margin import loss_table
from maxsum.losses import Hamming, Loss, TableLoss, as_loss
from maxsum.models import GraphModel, GraphSample

COSTS = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 0.0, 0.0]])
LOSSES = {
    "hamming": Hamming(),
    "normalised": Hamming(normalised=True),
    "class weight": Hamming(class_weight=[1.0, 0.0, 2.5]),
    "class weight dict": Hamming(class_weight={2: 3.0}),
    "table": TableLoss(COSTS),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("truth", [[0, 1, 2], [2, -1, 1], [-1, -1, -1]])
def test_augmented_scores_are_scores_plus_losses(name, truth):
    random, loss = np.random.default_rng(0), LOSSES[name]
    problem = ms.Problem(ms.Graph.chain(3), random.normal(size=(3, 3)), tables=random.normal(size=(2, 3, 3)))
    augmented = loss.augment(problem, truth)
    for z in itertools.product(range(3), repeat=3):
        assert augmented.score(z) == pytest.approx(problem.score(z) + loss.value(truth, z, 3))
        assert loss.value(truth, z, 3) >= 0
    own = np.where(np.array(truth) < 0, 1, truth)
    assert loss.value(truth, own, 3) == 0.0


def test_values_by_hand():
    assert Hamming().value([0, 1, 2], [0, 2, 1], 3) == 2
    assert Hamming().value([0, -1, 2], [1, 2, 1], 3) == 2
    assert Hamming(normalised=True).value([0, 1, 2, 2], [0, 2, 1, 2], 3) == 0.5
    assert Hamming(normalised=True).value([0, -1, 2, -1], [1, 2, 2, 0], 3) == 0.5
    assert Hamming(class_weight=[1, 5, 2]).value([0, 1, 2], [1, 0, 2], 3) == 6
    assert Hamming(class_weight={1: 5}).value([0, 1, 2], [1, 0, 2], 3) == 6
    assert TableLoss(COSTS).value([0, 1, 2], [2, 0, 1], 3) == 2.5


def test_node_weights_of_samples_count():
    samples = [GraphSample([0, 1, 0], ms.Graph.chain(3), node_weights=[1.0, 0.0, 2.0])]
    bound = GraphModel().bind(samples, [[0, 1, 1]])
    np.testing.assert_array_equal(loss_table(bound, Hamming()), [[0, 1], [0, 0], [2, 0]])


def test_names_of_losses():
    assert as_loss("normalised").normalised and not as_loss("hamming").normalised
    assert isinstance(as_loss(COSTS), TableLoss) and isinstance(as_loss(COSTS.tolist()), TableLoss)
    own = Hamming()
    assert as_loss(own) is own
    for wrong in ("hinge", 3, None, lambda y, z: 0):
        with pytest.raises(InvalidParameterError, match="wanted 'hamming'"):
            as_loss(wrong)


class Bad(Loss):
    def __init__(self, table):
        self.given = table

    def rows(self, labels, n_labels):
        return self.given


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (Bad([[0.0, -1.0], [1.0, 0.0]]), r"-1.0 at node 0, label 1; wanted finite numbers >= 0"),
        (Bad([[0.0, np.nan], [1.0, 0.0]]), "nan at node 0, label 1"),
        (Bad([[0.0, np.inf], [1.0, 0.0]]), "inf at node 0, label 1"),
        (Bad([[0.0, 1.0], [1.0, 0.5]]), r"0.5 for the true label at node 1; wanted L\(y, y\) = 0"),
        (Bad(np.zeros((2, 3))), r"shape \(2, 3\), wanted \(2, 2\)"),
        (TableLoss(np.zeros((3, 3))), r"shape \(3, 3\), wanted \(2, 2\)"),
        (TableLoss(np.ones((2, 2))), "for the true label at node 0"),
        (TableLoss([[0, -1], [1, 0]]), "wanted finite numbers >= 0"),
        (Hamming(class_weight=[1.0]), "class_weight is .* wanted 2 finite numbers"),
        (Hamming(class_weight=[1.0, -1.0]), "class_weight"),
        (Hamming(class_weight={5: 1.0}), r"class_weight names label 5, wanted numbers 0\.\.1"),
        (Hamming(class_weight={"a": 1.0}), "class_weight names label 'a'"),
    ],
)
def test_bad_losses(loss, words):
    with pytest.raises(InvalidParameterError, match=words):
        loss.table([0, 1], 2)


def test_value_checks_the_shape():
    with pytest.raises(InvalidSampleError, match="predicted labelling has shape"):
        Hamming().value([0, 1], [0, 1, 1], 2)
