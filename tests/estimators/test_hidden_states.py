"""Hidden states of classes: the latent hinge against enumeration, rounds that never rise, certificates, and what predictions and files say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, ModelFileError
from maxsum.losses import TableLoss
from maxsum.storage import verify_model

NAMES = np.array(["even", "odd"])
COSTS = np.array([[0.0, 3.0], [1.0, 0.0]])


def counters(n=8, length=4, seed=0, modes=4):
    """Counters 0, 1, ..., seen through noise; the label says whether the number is odd, which no linear score of one-hot numbers with few
    features tells: the features of a number are a point on a circle, where odd and even ones alternate."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        own = (rng.integers(modes) + np.arange(length)) % modes
        angle = 2 * np.pi * own / modes
        X.append(3 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.3 * rng.standard_normal((length, 2)))
        y.append(NAMES[own % 2])
    return X, y


def latent(net, X, y, costs):
    """The latent objective by enumeration of all labellings by states."""
    owner, value = net._states.owner, 0.5 * net.weights_ @ net.weights_
    for problem, labels in zip(net.problems(X), y, strict=True):
        truth = [net.classes_.tolist().index(label) for label in labels]
        every = [np.array(z) for z in itertools.product(range(len(owner)), repeat=len(truth))]
        right = max(problem.score(z) for z in every if (owner[z] == truth).all())
        wrong = max(problem.score(z) + sum(costs[t][owner[k]] for t, k in zip(truth, z, strict=True)) for z in every)
        value += net.C * (wrong - right)
    return value


@pytest.mark.parametrize("loss", ["hamming", "table", "weights"])
def test_the_latent_hinge_falls_and_is_what_enumeration_says(loss):
    X, y = counters(4)
    options, costs = {
        "hamming": ({}, 1 - np.eye(2)),
        "table": ({"loss": TableLoss(COSTS)}, COSTS),
        "weights": ({"class_weight": {"odd": 2.0}}, np.array([[0.0, 1.0], [2.0, 0.0]])),
    }[loss]
    net = ms.SequenceLabeler(n_hidden={"even": 2, "odd": 3}, tol=1e-4, C=0.1, **options).fit(X, y)
    values = net.result_.extra["latent"]
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(values[-1], latent(net, X, y, costs), rtol=1e-6)
    net.result_.verify(net.objective_)
    net.result_.verify(net.objective_, exact=True)
    assert "Hidden states were inferred" in net.result_.message and net.result_.relative_gap <= 1e-4


def test_states_tell_what_one_linear_class_cannot():
    X, y = counters(30, 6)
    new, truth = counters(50, 6, seed=1)
    options = dict(C=1.0, potentials="potts", bias=True)
    plain = ms.SequenceLabeler(**options).fit(X, y).score(new, truth)
    net = ms.SequenceLabeler(n_hidden=2, **options).fit(X, y)
    assert net.score(new, truth) > 0.99 > 0.8 > plain
    assert net.classes_.tolist() == ["even", "odd"] and set(np.concatenate(net.predict(new))) <= set(NAMES)
    states = net.predict_states(new)
    found = {pair for own, label in zip(states, net.predict(new), strict=True) for pair in zip(label, own, strict=True)}
    assert len(found) == 4  # both states of both classes are in use: the start was not symmetric
    assert ("even", 1) in net.model_.classes[0].tolist() and net.transitions().shape == (4, 4)
    assert len(net.top_features(("even", 1))) > 0
    assert {row["label"] for row in net.explain(2, as_frame=False)} == set(net.model_.classes[0].tolist())


def test_one_state_a_class_is_the_plain_training():
    X, y = counters(8)
    plain = ms.SequenceLabeler(tol=1e-6, C=0.1).fit(X, y)
    net = ms.SequenceLabeler(n_hidden={"odd": 1}, tol=1e-6, C=0.1).fit(X, y)
    np.testing.assert_allclose(plain.result_.objective, net.result_.objective, rtol=1e-5)
    assert all((own == 0).all() for own in plain.predict_states(X))
    for own, other in zip(plain.predict(X), net.predict(X), strict=True):
        np.testing.assert_array_equal(own, other)


def test_answers_are_of_classes():
    X, y = counters(10)
    net = ms.SequenceLabeler(n_hidden=2, C=1.0, potentials="potts", bias=True).fit(X, y)
    owner = net._states.owner
    for problem, losses, labels in zip(net.problems(X), net.predict_max_marginals(X), net.predict(X), strict=True):
        every = [np.array(z) for z in itertools.product(range(4), repeat=problem.graph.n_nodes)]
        scores = np.array([problem.score(z) for z in every])
        for v, k in itertools.product(range(problem.graph.n_nodes), range(2)):
            best = max(s for s, z in zip(scores, every, strict=True) if owner[z[v]] == k)
            np.testing.assert_allclose(losses.lower[v, k], scores.max() - best, atol=1e-9)
        assert labels.tolist() == NAMES[losses.lower.argmin(axis=1)].tolist()
    told = [[None, "odd", None, {"even", "odd"}] for _ in X]
    seen = net.predict(X, observed=told)
    assert all(own[1] == "odd" for own in seen)
    results = net.predict_result(X)
    assert all(NAMES[owner[own.labels]].tolist() == z.tolist() for own, z in zip(results, net.predict(X), strict=True))
    assert net.label_numbers(X, y)[0].max() <= 1
    assert len(net.query(X, 3)) == 3


@pytest.mark.parametrize("unknown", ["drop", "infer"])
def test_unknown_labels_beside_states(unknown):
    X, y = counters(30, 6)
    rng = np.random.default_rng(0)
    told = [[label if rng.random() < 0.5 else None for label in own] for own in y]
    told[0] = [None] * 6
    net = ms.SequenceLabeler(n_hidden=2, unknown=unknown, C=1.0, potentials="potts", bias=True).fit(X, told)
    assert (np.diff(net.result_.extra["latent"]) <= 0).all() and net.score(X, y) > 0.95
    net.result_.verify(net.objective_)


def test_grids_graphs_and_labels_of_any_kind():
    rng = np.random.default_rng(0)
    Y = [np.repeat(rng.integers(0, 4, size=(2, 2)), 2, axis=1) for _ in range(8)]
    X = [2 * np.eye(4)[own] + 0.3 * rng.standard_normal((2, 4, 4)) for own in Y]
    names = np.empty(2, dtype=object)
    names[:] = [("even", 0), ("odd", 1)]
    labels = [names[own % 2] for own in Y]
    grid = ms.GridLabeler(n_hidden=2, edge_types="directions").fit(X, labels)
    assert grid.predict(X)[0].shape == (2, 4) == grid.predict_states(X)[0].shape and grid.score(X, labels) == 1
    flat = [ms.GraphSample(x.reshape(8, 4), ms.Graph.grid(2, 4)) for x in X]
    net = ms.GraphLabeler(n_hidden=2, homogeneous=False).fit(flat, [own.ravel() for own in labels])
    assert net.predict(flat)[0][0] in (("even", 0), ("odd", 1))
    net.result_.verify(net.objective_)


def test_codes_and_rules_of_neighbours():
    """Codes of a class are alike, so that k-means makes no groups and the start is drawn; rules hold for the classes of states."""
    X = [np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), np.array([2, 0, 1, 2])]
    y = [["B-X", "I-X", "I-X", "O"], ["B-X", "I-X", "O", "O"], ["O", "B-X", "I-X", "O"]]
    net = ms.SequenceLabeler(n_hidden={"I-X": 2}, forbidden="bio", C=1.0).fit(X, y)
    assert [own.tolist() for own in net.predict(X)] == y
    assert np.isneginf(net.coef_blocks_["edges"]).sum() == 2  # both states of I-X after O
    for own in net.predict([np.array([1, 1, 2, 1])]):
        assert all(b != "I-X" or a in ("B-X", "I-X") for a, b in itertools.pairwise(["O", *own.tolist()]))


@pytest.mark.parametrize("kind", ["text", "tuples"])
def test_files_and_clones(tmp_path, kind):
    X, y = counters(10)
    if kind == "tuples":
        y = [[(str(label), 1) for label in own] for own in y]
    net = ms.SequenceLabeler(n_hidden=2, C=1.0, bias=True).fit(X, y)
    assert clone(net).get_params()["n_hidden"] == 2
    again = clone(net).fit(X, y)
    assert again.weights_.tobytes() == net.weights_.tobytes()
    ms.save_model(net, tmp_path / "m.maxsum", certificate=True)
    other = ms.load_model(tmp_path / "m.maxsum")
    assert other.classes_.tolist() == net.classes_.tolist() and other.classes_.dtype == net.classes_.dtype
    for mine, theirs in zip(net.predict(X), other.predict(X), strict=True):
        assert mine.tolist() == theirs.tolist()
    for mine, theirs in zip(net.predict_states(X), other.predict_states(X), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert other.score(X, y) == net.score(X, y) and other.weight_names_ == net.weight_names_
    with pytest.raises(ModelFileError, match="or hidden states"):
        verify_model(tmp_path / "m.maxsum", X, y)
    plain = net.set_params(n_hidden=1).fit(X, y)
    assert plain.model_.n_labels == 2 and plain._states is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"surrogate": "likelihood"}, "n_hidden is 2 beside surrogate='likelihood', wanted surrogate='margin'"),
        ({"order": 2}, "n_hidden is 2 beside order=2"),
        ({"warm_start": True}, "beside warm_start=True"),
        ({"potentials": "supermodular"}, "potentials='supermodular'"),
        ({"loss": "zero_one"}, "n_hidden=2, wanted"),
        ({"n_hidden": 0}, "n_hidden is 0 for class 'even', wanted a whole number >= 1"),
        ({"n_hidden": True}, "n_hidden is True"),
        ({"n_hidden": {"prime": 2}}, "n_hidden names 'prime', wanted some of the classes"),
        ({"n_hidden": {"odd": 1.5}}, "n_hidden is 1.5 for class 'odd'"),
        ({"n_hidden": "many"}, "n_hidden is 'many'"),
    ],
)
def test_what_does_not_go_together(options, words):
    X, y = counters(4)
    with pytest.raises(InvalidParameterError, match=words):
        ms.SequenceLabeler(**{"n_hidden": 2, **options}).fit(X, y)


def test_what_is_about_labels_of_the_model_is_refused():
    X, y = counters(4)
    net = ms.SequenceLabeler(n_hidden=2).fit(X, y)
    for call in (lambda: net.predict_k_best(X), net.to_torch, lambda: net.predict_marginals(X)):
        with pytest.raises(InvalidParameterError):
            call()
    with pytest.raises(InvalidParameterError, match="n_hidden"):
        ms.SequenceLabeler(n_hidden=2).partial_fit(X, y, classes=["even", "odd"])
