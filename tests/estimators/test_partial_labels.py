"""Labels that are unknown, or one of a set: the latent hinge against enumeration, rounds that never rise, and certificates of the convex problem."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, ModelFileError
from maxsum.estimators import pipeline
from maxsum.learning import BlockFrankWolfe
from maxsum.losses import TableLoss
from maxsum.storage import verify_model

COSTS = [[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]]


def words(n=10, seed=0, hidden=0.4):
    """Noisy chains of three labels that alternate, some labels unknown, some known to be one of two."""
    rng, X, y, told = np.random.default_rng(seed), [], [], []
    for _ in range(n):
        own = (rng.integers(3) + np.arange(4)) % 3
        X.append(np.eye(3)[own] + 0.7 * rng.standard_normal((4, 3)))
        y.append(own)
        draw = rng.random(4)
        told.append([
            None if d < hidden else {int(k), (int(k) + 1) % 3} if d < hidden + 0.2 else int(k) for k, d in zip(own, draw, strict=True)
        ])  # fmt: skip
    return X, y, told


def latent(net, told, costs):
    """The latent objective by enumeration, with the loss of a set as the least over its labels."""
    value, objective = 0.5 * net.weights_ @ net.weights_, net.objective_
    sets = [[{0, 1, 2} if own is None else own if isinstance(own, set) else {own} for own in row] for row in told]
    sets = [row for row in sets if any(len(own) < 3 for own in row)]
    assert len(sets) == objective.n_examples
    for j, row in enumerate(sets):
        problem = objective.model.problem(net.weights_, j)
        every = [np.array(z) for z in itertools.product(range(3), repeat=4)]
        right = max(problem.score(z) for z in every if all(k in own for k, own in zip(z, row, strict=True)))
        wrong = max(problem.score(z) + sum(min(costs[s][k] for s in own) for k, own in zip(z, row, strict=True)) for z in every)
        value += net.C * (wrong - right)
    return value


@pytest.mark.parametrize("loss", ["hamming", "table"])
def test_the_latent_hinge_falls_and_is_what_enumeration_says(loss):
    X, _, told = words(5)
    costs = (1 - np.eye(3)) if loss == "hamming" else np.array(COSTS)
    given = "hamming" if loss == "hamming" else TableLoss(costs)
    net = ms.SequenceLabeler(unknown="infer", loss=given, classes=[0, 1, 2], tol=1e-4).fit(X, told)
    values = net.result_.extra["latent"]
    assert len(values) >= 2 and (np.diff(values) <= 0).all()
    np.testing.assert_allclose(values[-1], latent(net, told, costs), rtol=1e-6)
    dropped = ms.SequenceLabeler(loss=given, classes=[0, 1, 2], tol=1e-4).fit(X, told)
    dropped.objective_ = net.objective_
    np.testing.assert_allclose(values[0], latent(dropped, told, costs), rtol=1e-6)
    net.result_.verify(net.objective_)
    net.result_.verify(net.objective_, exact=True)
    assert "a local optimum" in net.result_.message and net.result_.relative_gap <= 1e-4


def test_unknown_labels_help_and_known_ones_are_kept():
    X, y, _ = words(30, 1)
    rng = np.random.default_rng(0)
    told = [[int(k) if rng.random() < 0.3 else -1 for k in own] for own in y]
    new, truth, _ = words(60, 2)
    scores = {
        kind: ms.SequenceLabeler(unknown=kind, classes=[0, 1, 2]).fit(X, told).score(new, truth) for kind in ("drop", "infer")
    }
    assert scores["infer"] > scores["drop"]
    net = ms.SequenceLabeler(unknown="infer", classes=[0, 1, 2]).fit(X, told)
    for j, own in enumerate(row for row in told if any(k != -1 for k in row)):
        completed = net.objective_.model.truth(j)
        assert all(k in (-1, label) for k, label in zip(own, completed, strict=True))


def test_nothing_unknown_is_the_convex_training():
    X, y, _ = words()
    one, two = (ms.SequenceLabeler(unknown=kind, tol=1e-5).fit(X, y) for kind in ("drop", "infer"))
    assert one.weights_.tobytes() == two.weights_.tobytes() and "latent" not in two.result_.extra


def test_grids_and_graphs_with_cycles():
    rng = np.random.default_rng(0)
    Y = [np.repeat(rng.integers(0, 3, size=(2, 2)), 2, axis=1) for _ in range(6)]
    X = [np.eye(3)[y] + rng.standard_normal((2, 4, 3)) for y in Y]
    told = [np.where(rng.random(y.shape) < 0.5, None, y) for y in Y]
    grid = ms.GridLabeler(unknown="infer", classes=[0, 1, 2]).fit(X, told)
    flat = [ms.GraphSample(x.reshape(8, 3), ms.Graph.grid(2, 4)) for x in X]
    net = ms.GraphLabeler(unknown="infer", classes=[0, 1, 2]).fit(flat, [own.ravel() for own in told])
    np.testing.assert_allclose(grid.weights_, net.weights_)
    grid.result_.verify(grid.objective_)
    assert (np.diff(grid.result_.extra["latent"]) <= 0).all()


def test_rules_of_neighbours_hold_in_completions():
    X = [np.eye(3)[[0, 1, 2, 1]], np.eye(3)[[1, 2, 0, 0]]]
    told = [["B-X", None, None, "O"], ["O", {"B-X", "O"}, "I-X", None]]
    net = ms.SequenceLabeler(unknown="infer", forbidden="bio", classes=["B-X", "I-X", "O"]).fit(X, told)
    completed = [net.classes_[net.objective_.model.truth(j)].tolist() for j in range(2)]
    assert completed[1][1] == "B-X" and completed[1][:3] == ["O", "B-X", "I-X"]
    assert all(b != "I-X" or a != "O" for own in completed for a, b in itertools.pairwise(own))
    net.result_.verify(net.objective_)


def test_labels_of_any_kind_and_sets_that_are_dropped():
    X = [np.eye(3), np.eye(3)]
    told = [[("a", 1), {("a", 1), ("b", 2)}, ("b", 2)], [("b", 2), ("a", 1), None]]
    for kind in ("drop", "infer"):
        net = ms.SequenceLabeler(unknown=kind).fit(X, told)
        assert set(net.predict(X)[0].tolist()) <= {("a", 1), ("b", 2)}


def test_cross_validation_scores_what_is_known():
    X, _, told = words(8)
    net = ms.SequenceLabelerCV(Cs=[0.1, 1.0], cv=2, unknown="infer", classes=[0, 1, 2]).fit(X, told)
    assert len(net.result_.extra["latent"]) >= 2
    single = [[None if isinstance(own, set) else own for own in row] for row in told]
    assert net.score(X, told) == net.score(X, single)


def test_a_model_file_does_not_hold_the_completions(tmp_path):
    X, _, told = words(6)
    net = ms.SequenceLabeler(unknown="infer", classes=[0, 1, 2]).fit(X, told)
    ms.save_model(net, tmp_path / "m.maxsum", certificate=True)
    for own, other in zip(net.predict(X), ms.load_model(tmp_path / "m.maxsum").predict(X), strict=True):
        np.testing.assert_array_equal(own, other)
    with pytest.raises(ModelFileError, match="its proof is about the problem with these labels, which a file does not hold"):
        verify_model(tmp_path / "m.maxsum", X, told)


@pytest.mark.parametrize(
    ("options", "error", "words_"),
    [
        ({"surrogate": "lp"}, InvalidParameterError, "unknown is 'infer' beside surrogate='lp', wanted surrogate='margin'"),
        ({"warm_start": True}, InvalidParameterError, "unknown is 'infer' beside warm_start=True"),
        ({"unknown": "guess"}, InvalidParameterError, "unknown"),
        ({"classes": [0, 1]}, InvalidSampleError, "wanted one of the classes"),
    ],
)
def test_what_does_not_go_together(options, error, words_):
    X, _, told = words(4)
    with pytest.raises(error, match=words_):
        ms.SequenceLabeler(**{"unknown": "infer", "classes": [0, 1, 2], **options}).fit(X, told)


def test_completed_labels_are_trained_on_as_if_given():
    X, y, _ = words(30, 1)
    rng = np.random.default_rng(0)
    told = [
        [int(k) if rng.random() < 0.5 else {int(k), (int(k) + 1) % 3} if rng.random() < 0.5 else -1 for k in own] for own in y
    ]
    options = dict(classes=[0, 1, 2], tol=1e-4, C=0.3)
    inferred = ms.SequenceLabeler(unknown="infer", **options).fit(X, told)
    net = ms.SequenceLabeler(unknown="complete", **options).fit(X, told)
    assert net.result_.extra["latent"] == inferred.result_.extra["latent"]
    labels = [inferred.predict([x], observed=[row])[0] for x, row in zip(X, told, strict=True)]
    for j, own in enumerate(labels):
        np.testing.assert_array_equal(net.objective_.model.truth(j), own)
    given = ms.SequenceLabeler(**options).fit(X, labels)
    np.testing.assert_allclose(net.result_.objective, given.result_.objective, rtol=2e-4)
    value = 0.5 * net.weights_ @ net.weights_
    for problem, truth in zip(net.problems(X), labels, strict=True):
        every = [np.array(z) for z in itertools.product(range(3), repeat=4)]
        value += net.C * (max(problem.score(z) + (z != truth).sum() for z in every) - problem.score(truth))
    np.testing.assert_allclose(net.result_.objective, value, rtol=1e-6)
    net.result_.verify(net.objective_)
    assert "as if they were given" in net.result_.message


def test_a_last_training_that_is_cut_off_keeps_the_inferred_weights(monkeypatch):
    X, _, told = words(12, 1)
    options = dict(classes=[0, 1, 2], tol=1e-4, C=0.3)
    inferred = ms.SequenceLabeler(unknown="infer", **options).fit(X, told)
    whole = pipeline.train_completed
    cut = BlockFrankWolfe(time_limit=0.0)
    monkeypatch.setattr(pipeline, "train_completed", lambda a, b, c, _, d: whole(a, b, c, cut.fit, d))
    net = ms.SequenceLabeler(unknown="complete", **options).fit(X, told)
    np.testing.assert_array_equal(net.weights_, inferred.weights_)
    np.testing.assert_allclose(net.result_.objective, net.objective_.evaluate(net.weights_), rtol=1e-6)
    assert net.result_.relative_gap > 0.1
