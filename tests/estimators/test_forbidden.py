"""Labels that may not be neighbours: never predicted, never a plane of training, and refused in training labellings, against enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidParameterError, InvalidSampleError
from maxsum.core.transitions import Neighbours

TAGS = ["B-A", "B-C", "I-A", "I-C", "O"]


def tagged(n, seed):
    """Sentences of up to four noisy words whose tags are BIO."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        own = []
        for _ in range(rng.integers(1, 5)):
            may = ["O", "B-A", "B-C"] + ([f"I{own[-1][1:]}"] if own and own[-1] != "O" else [])
            own.append(may[rng.integers(len(may))])
        X.append(np.eye(5)[[TAGS.index(tag) for tag in own]] + rng.standard_normal((len(own), 5)))
        y.append(own)
    return X, y


def steps(n, seed, height=2, width=3):
    """Small images with three ordered labels whose neighbours differ by one at most, under noise."""
    rng, X, Y = np.random.default_rng(seed), [], []
    for _ in range(n):
        y = np.clip(np.add.outer(np.arange(height), np.arange(width)) - rng.integers(0, 3), 0, 2)
        X.append(np.eye(3)[y] + rng.standard_normal((height, width, 3)))
        Y.append(y)
    return X, Y


APART = [(0, 2), (2, 0)]


def is_bio(tags):
    return all(
        tag[0] != "I" or (before != "O" and before[1:] == tag[1:]) for before, tag in zip(["O", *tags], tags, strict=False)
    )


def is_stepped(y):
    return all(np.abs(np.diff(y, axis=axis)).max(initial=0) <= 1 for axis in (0, 1))


def hinge(net, allowed):
    """The objective by enumeration of the labellings that are allowed, without a score of -inf anywhere."""
    objective, w = net.objective_, net.weights_
    model = replace(objective.model, edge_index=np.maximum(objective.model.edge_index, -1))
    value = 0.5 * w @ w
    for j in range(objective.n_examples):
        truth, scores = objective.model.truth(j), []
        for z in itertools.product(range(objective.model.n_labels), repeat=len(truth)):
            if allowed(j, np.array(z)):
                gain = w @ (model.feature(j, z) - model.feature(j, truth))
                scores.append(gain + np.count_nonzero(np.array(z) != truth))
        value += net.C * max(scores)
    return value


@pytest.mark.parametrize("learner", ["BlockFrankWolfe", "CuttingPlane"])
def test_chains_keep_the_scheme_in_training_and_prediction(learner):
    X, y = tagged(8, 0)
    net = ms.SequenceLabeler(classes=TAGS, forbidden="bio", learner=learner, tol=1e-5).fit(X, y)
    assert net.result_.relative_gap <= 1e-5
    net.result_.verify(net.objective_)
    net.result_.verify(net.objective_, exact=True)
    expected = hinge(net, lambda j, z: is_bio([TAGS[k] for k in z]))
    np.testing.assert_allclose(net.result_.objective, expected, rtol=1e-9)
    new = [5 * np.random.default_rng(j).standard_normal((4, 5)) for j in range(20)]
    free = ms.SequenceLabeler(classes=TAGS, learner=learner, tol=1e-5).fit(X, y)
    assert not all(is_bio(own.tolist()) for own in free.predict(new))
    for own, problem in zip(net.predict(new), net.problems(new), strict=True):
        assert is_bio(own.tolist())
        best = max(
            problem.score(np.array(z)) for z in itertools.product(range(5), repeat=len(own)) if is_bio([TAGS[k] for k in z])
        )
        np.testing.assert_allclose(problem.score(np.searchsorted(TAGS, own)), best)
    assert (net.coef_blocks_["edges"][4, [2, 3]] == -np.inf).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"edge_features": "contrast"},
        {"edge_types": "directions"},
        {"oracle": "bracket"},
        {"oracle": "TRWS"},
        {"oracle": "BranchAndBound"},
    ],
)
def test_grids_keep_listed_pairs(options):
    X, Y = steps(2, 0)
    net = ms.GridLabeler(forbidden=APART, tol=1e-3, **options).fit(X, Y)
    assert net.result_.relative_gap <= 1e-3
    net.result_.verify(net.objective_)
    value = hinge(net, lambda j, z: is_stepped(z.reshape(2, 3)))
    assert net.result_.lower_bound <= value * (1 + 1e-9) and value <= net.result_.objective * (1 + 1e-9)
    new, _ = steps(20, 1, 3, 4)
    assert all(is_stepped(own) for own in net.predict([3 * x for x in new]))


def test_rules_by_type_of_edge():
    X, Y = steps(6, 3)
    Y = [np.sort(y, axis=0) for y in Y]
    down = {1: [(a, b) for a in range(3) for b in range(a)]}  # labels do not fall from row to row
    net = ms.GridLabeler(forbidden=down, edge_types="directions").fit(X, Y)
    new = [2 * np.random.default_rng(j).standard_normal((3, 3, 3)) for j in range(10)]
    assert all((np.diff(own, axis=0) >= 0).all() for own in net.predict(new))
    assert any((np.diff(own, axis=1) < 0).any() for own in net.predict(new))
    with pytest.raises(InvalidParameterError, match=r"edge type 5, wanted numbers of edge types, 0\.\.1 here"):
        ms.GridLabeler(forbidden={5: APART}, edge_types="directions").fit(X, Y)


def test_likelihoods_leave_the_forbidden_out_of_the_sum():
    X, y = tagged(12, 0)
    net = ms.SequenceLabeler(classes=TAGS, forbidden="bio", surrogate="likelihood", tol=1e-6).fit(X, y)
    net.result_.verify(net.objective_)
    w, value = net.weights_, 0.5 * net.weights_ @ net.weights_
    for j, (x, own) in enumerate(zip(X, y, strict=True)):
        problem, truth = net.model_.problem(w, j), np.searchsorted(TAGS, own)
        rows = [np.array(z) for z in itertools.product(range(5), repeat=len(x)) if is_bio([TAGS[k] for k in z])]
        scores = np.array([problem.score(z) for z in rows])
        value += np.logaddexp.reduce(scores) - problem.score(truth)
        p = np.exp(scores - np.logaddexp.reduce(scores))
        expected = np.zeros((len(x), 5))
        for share, z in zip(p, rows, strict=True):
            expected[np.arange(len(x)), z] += share
        np.testing.assert_allclose(net.predict_marginals([x])[0], expected, atol=1e-9)
    np.testing.assert_allclose(net.result_.objective, value, rtol=1e-9)
    images = ms.GridLabeler(forbidden=APART, surrogate="likelihood", tol=1e-4).fit(*steps(4, 0))
    images.result_.verify(images.objective_)


def test_training_labels_that_break_a_rule_are_refused_with_their_place():
    X, y = [np.eye(3)], [["O", "I-A", "O"]]
    with pytest.raises(
        InvalidSampleError,
        match=r"sample 0: node 1 has the label 'I-A' after 'O' of node 0 \(edge 0\), a pair that forbidden excludes",
    ):
        ms.SequenceLabeler(classes=TAGS, forbidden="bio").fit(X, y)
    with pytest.raises(InvalidSampleError, match="sample 1: node 0 has the label 'I-A', which forbidden excludes at the start"):
        ms.SequenceLabeler(classes=TAGS, forbidden="bio").fit([*X, *X], [["B-A", "I-A", "O"], ["I-A", "I-A", "O"]])
    known = ms.SequenceLabeler(classes=TAGS, forbidden="bio").fit(X, [["B-A", None, "I-A"]])  # an unknown label breaks nothing
    assert known.predict([np.eye(3)[[0, 1]]])[0][0] != "I-A"
    with pytest.raises(InvalidSampleError, match="sample 0: node 4 has the label 2 after 0"):
        ms.GridLabeler(forbidden=APART).fit([np.zeros((2, 3, 1))], [[[0, 0, 1], [1, 2, 1]]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"surrogate": "lp"}, "forbidden is given beside surrogate='lp', wanted 'margin' or 'likelihood'"),
        ({"potentials": "potts"}, "forbidden is given beside potentials='potts', wanted 'general'"),
        ({"order": 2}, "forbidden is given beside order=2"),
        ({"forbidden": "bilou"}, "forbidden='bilou' is no scheme of tags"),
        ({"forbidden": [("O", "X")]}, "forbidden names the label 'X'"),
    ],
)
def test_what_does_not_go_together(options, words):
    with pytest.raises(InvalidParameterError, match=words):
        ms.SequenceLabeler(**{"forbidden": "bio", "classes": TAGS, **options}).fit(*tagged(4, 0))


def test_certificates_with_forbidden_labels_prove_nothing():
    X, y = tagged(6, 0)
    net = ms.SequenceLabeler(classes=TAGS, forbidden="bio").fit(X, y)
    proof = net.result_.certificate
    long = next(i for i, key in enumerate(proof.keys) if len(key) > 2)
    for places, words in (((0, 2), "a label that its node may not have"), ((1, 2), "a pair of labels that the model forbids")):
        wrong = np.array(proof.keys[long])
        wrong[0] = 4
        wrong[places[0]] = places[1]
        keys = tuple(wrong if i == long else key for i, key in enumerate(proof.keys))
        for exact in (False, True):
            with pytest.raises(CertificateError, match=words):
                type(proof)(proof.examples, keys, proof.alpha, proof.mu).lower_bound(net.objective_, exact=exact)


def test_models_on_disk_keep_their_rules(tmp_path):
    X, y = tagged(8, 0)
    net = ms.SequenceLabeler(classes=TAGS, forbidden="bio").fit(X, y)
    ms.save_model(net, tmp_path / "m.maxsum")
    again = ms.load_model(tmp_path / "m.maxsum")
    new, _ = tagged(30, 2)
    for own, other in zip(net.predict(new), again.predict(new), strict=True):
        np.testing.assert_array_equal(own, other)
        assert is_bio(other.tolist())


def test_labels_of_any_kind():
    y = [[("a", 1), ("b", 2), ("a", 1)], [("b", 2), ("b", 2)]]
    X = [np.eye(3), np.eye(3)[:2]]
    net = ms.SequenceLabeler(forbidden=[(("a", 1), ("a", 1))]).fit(X, y)
    for own in net.predict([np.zeros((4, 3)), 9 * np.ones((3, 3))]):
        assert not any(a == b == ("a", 1) for a, b in itertools.pairwise(own.tolist()))


def test_symmetric_tables_forbid_both_orders():
    rules = Neighbours.of([("x", "y")], ["x", "y"], 1, symmetric=True)
    assert rules.pairs.tolist() == [[[False, True], [True, False]]]


def test_a_list_of_pairs_is_read_back_from_a_file(tmp_path):
    net = ms.SequenceLabeler(forbidden=[("b", "a")]).fit([np.eye(2)], [["a", "b"]])
    ms.save_model(net, tmp_path / "m.maxsum")
    other = ms.load_model(tmp_path / "m.maxsum")
    assert [list(own) for own in other.forbidden] == [["b", "a"]] and other.predict([np.eye(2)])[0].tolist() == ["a", "b"]
