"""SequenceLabeler(order=2): second-order chains, compared with every labelling written out."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from reference.structured_svm import enumerate_planes, primal_value, solve_structured_svm
from scipy import sparse
from sklearn.base import clone

import maxsum as ms
from maxsum.core.errors import InvalidParameterError
from maxsum.learning import CuttingPlane, MarginObjective
from maxsum.models import Dicts

K, D = 3, 2


def sequences(n=5, seed=0, longest=5, noise=0.7):
    """The label is the sum of the two before it, modulo 3, now and then; features see little."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for j in range(n):
        length = 1 + (j + seed) % longest if longest < 6 else int(random.integers(6, longest))
        own = random.integers(K, size=length)
        for i in range(2, length):
            own[i] = (own[i - 1] + own[i - 2]) % K if random.random() < 0.8 else own[i]
        X.append(np.eye(K)[own][:, :D] + noise * random.normal(size=(length, D)))
        y.append(own)
    return X, y


def feature(x, bias, parts):
    """Counts of (feature, tag), pairs and triples of tags in a row, in runs of nodes that are next to each other."""

    def psi(tags):
        nodes, pairs, triples = np.zeros((D + bias, K)), np.zeros((K, K)), np.zeros((K, K, K))
        for i, (row, k) in enumerate(zip(x, tags, strict=True)):
            nodes[:, k] += np.append(row, 1.0) if bias else row
            if i >= 1 and parts[i] == parts[i - 1]:
                pairs[tags[i - 1], k] += 1
                if i >= 2 and parts[i] == parts[i - 2]:
                    triples[tags[i - 2], tags[i - 1], k] += 1
        return np.concatenate([nodes.ravel(), pairs.ravel(), triples.ravel()])

    return psi


def reference(X, y, loss, bias=False, known=None):
    planes = []
    for j, (x, own) in enumerate(zip(X, y, strict=True)):
        kept = np.ones(len(own), dtype=bool) if known is None else known[j]
        parts = np.cumsum(~kept)[kept]
        planes.append(enumerate_planes(own[kept], K, feature(x[kept], bias, parts), loss))
    return planes


def hamming(truth, tags):
    return float(np.count_nonzero(truth != tags))


@pytest.mark.parametrize("bias", [False, True])
def test_the_optimum_is_that_of_all_labellings(bias):
    X, y = sequences()
    planes = reference(X, y, hamming, bias)
    best = solve_structured_svm(planes, np.full(len(X), 4.0))
    tag = ms.SequenceLabeler(order=2, C=4.0, tol=1e-7, bias=bias, classes=[0, 1, 2]).fit(X, y)
    assert tag.result_.objective == pytest.approx(best.value, rel=1e-6)
    assert tag.result_.lower_bound <= best.value * (1 + 1e-9) <= tag.result_.objective * (1 + 2e-9)
    np.testing.assert_allclose(tag.weights_, best.weights, atol=5e-3)
    assert primal_value(planes, np.full(len(X), 4.0), tag.weights_) == pytest.approx(tag.result_.objective, rel=1e-9)
    checked = tag.result_.verify(tag.objective_)
    assert checked.objective == pytest.approx(tag.result_.objective, rel=1e-9)
    assert checked.lower_bound == pytest.approx(tag.result_.lower_bound, rel=1e-9)
    blocks = tag.coef_blocks_
    assert blocks["nodes"].shape == (D, K) and blocks["edges"].shape == (K, K) and blocks["triples"].shape == (K, K, K)
    assert tag.weight_names_[-1] == "h(2, 2, 2)" and len(tag.weight_names_) == len(tag.weights_)
    assert np.concatenate([part.ravel() for part in blocks.values()]).shape == tag.weights_.shape


def test_weights_of_classes_and_samples_and_masks():
    X, y = sequences(seed=1)
    known = [np.arange(len(own)) != 1 if j % 2 else np.ones(len(own), dtype=bool) for j, own in enumerate(y)]
    cost = np.array([1.0, 2.0, 0.5])
    share = np.arange(1.0, len(X) + 1)
    planes = reference(X, y, lambda truth, tags: float(cost[truth] @ (truth != tags)), known=known)
    best = solve_structured_svm(planes, 4.0 * share)
    masked = [np.where(own, labels, -1) for own, labels in zip(known, y, strict=True)]
    tag = ms.SequenceLabeler(order=2, C=4.0, tol=1e-7, classes=[0, 1, 2], class_weight=cost).fit(X, masked, share)
    assert tag.result_.objective == pytest.approx(best.value, rel=1e-6)
    assert tag.result_.lower_bound <= best.value * (1 + 1e-9)
    np.testing.assert_allclose(tag.weights_, best.weights, atol=5e-3)
    cut = ms.SequenceLabeler(order=2, C=4.0, tol=1e-7, classes=[0, 1, 2], class_weight=cost, learner=CuttingPlane(tol=1e-7))
    assert cut.fit(X, masked, share).result_.objective == pytest.approx(best.value, rel=1e-6)


def test_prediction_is_the_best_of_all_labellings():
    X, y = sequences()
    tag = ms.SequenceLabeler(order=2, C=4.0).fit(X, y)
    random = np.random.default_rng(2)
    for weights in (tag.weights_, random.normal(size=len(tag.weights_)), random.integers(-2, 3, len(tag.weights_)) * 1.0):
        tag.weights_ = weights
        new, _ = sequences(6, seed=3)
        new.append(np.zeros((0, D)))
        together, results, problems = tag.predict(new), tag.predict_result(new), tag.problems(new)
        for x, found, result, problem in zip(new, together, results, problems, strict=True):
            psi = feature(x, False, np.zeros(len(x)))
            scores = {labels: psi(labels) @ weights for labels in itertools.product(range(K), repeat=len(x))}
            top = max(scores.values())
            assert scores[tuple(found.tolist())] == pytest.approx(top, abs=1e-9)
            assert (result.labels % K == found).all() and result.score == pytest.approx(top, abs=1e-9)
            assert (tag.predict([x])[0] == found).all()
            result.certificate.verify(problem, result.labels)
            assert result.bound == pytest.approx(top, abs=1e-9)


def test_it_learns_what_a_first_order_chain_cannot():
    X, y = sequences(40, longest=20, noise=1.5)
    test = sequences(40, seed=7, longest=20, noise=1.5)
    one, two = (ms.SequenceLabeler(order=order, C=100.0, tol=1e-2, bias=True).fit(X, y) for order in (1, 2))
    assert two.score(*test) > one.score(*test) + 0.05
    again = pickle.loads(pickle.dumps(two))
    assert all((a == b).all() for a, b in zip(two.predict(X), again.predict(X), strict=True))
    threads = clone(two).set_params(n_jobs=2).fit(X, y)
    assert threads.weights_.tobytes() == two.weights_.tobytes()
    warm = clone(two).set_params(warm_start=True).fit(X, y)
    calls = warm.result_.n_oracle_calls
    assert warm.fit(X, y).result_.n_oracle_calls < calls


def test_any_labels_and_any_features():
    X, y = sequences(8, seed=2)
    names = np.array(["a", "b", "c"])
    dense = ms.SequenceLabeler(order=2, C=4.0, tol=1e-5).fit(X, y)
    given = {
        "csr": [sparse.csr_matrix(x) for x in X],
        "dicts": [[{f"x{i}": float(v) for i, v in enumerate(row)} for row in x] for x in X],
    }
    for kind, own in given.items():
        tag = ms.SequenceLabeler(order=2, C=4.0, tol=1e-5).fit(own, [names[labels] for labels in y])
        assert tag.classes_.tolist() == ["a", "b", "c"] and tag.n_features_in_ == D, kind
        np.testing.assert_allclose(tag.weights_, dense.weights_, atol=0.02)
        assert [names[labels].tolist() for labels in dense.predict(X)] == [found.tolist() for found in tag.predict(own)]
    mixed = ms.SequenceLabeler(order=2, C=4.0, classes=[("B", 1), "O", 7]).fit(
        X, [[[("B", 1), "O", 7][k] for k in own] for own in y]
    )
    assert "h(('B', 1), O, 7)" in mixed.weight_names_ and mixed.score(X, mixed.predict(X)) == 1.0


def test_scores_are_those_of_features():
    X, y = sequences()
    model = ms.SequenceLabeler(order=2, C=4.0).fit(X, y).model_
    random = np.random.default_rng(0)
    w = random.normal(size=model.n_weights)
    for j in range(model.n_examples):
        truth = model.truth(j)
        assert model.problem(w, j).score(truth) == pytest.approx(w @ model.feature(j, truth))
        if len(truth) > 1:
            wrong = truth.copy()
            wrong[1] = (truth[1] + K) % K**2
            assert model.problem(w, j).score(wrong) == -np.inf
    objective = MarginObjective(model, oracle="TreeDP", loss=ms.SequenceLabeler(order=2).fit(X, y).objective_.loss)
    own = ms.SequenceLabeler(order=2).fit(X, y).objective_
    np.testing.assert_allclose(objective.ask(w).value, own.ask(w).value, atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (dict(order=3), "order is 3, wanted 1 or 2"),
        (dict(order=True), "order is True, wanted 1 or 2"),
        (dict(order=2, potentials="supermodular"), "order is 2 with potentials='supermodular'"),
        (dict(order=2, symmetric=True), "symmetric=True; wanted"),
        (dict(order=2, surrogate="trivial"), "order is 2 with surrogate='trivial', wanted 'margin'"),
        (dict(order=2, oracle="TRWS"), "order is 2 with oracle='TRWS', wanted None"),
    ],
)
def test_what_is_refused(parameters, words):
    with pytest.raises(InvalidParameterError, match=words):
        ms.SequenceLabeler(**parameters).fit(*sequences())


def test_too_many_pairs_are_refused():
    y = [[f"t{i}" for i in range(120)]]
    with pytest.raises(InvalidParameterError, match="order is 2 with 120 classes"):
        ms.SequenceLabeler(order=2, features=Dicts()).fit([[{"a": 1.0}] * 120], y)


def test_regularisation_by_cross_validation():
    X, y = sequences(12, longest=12, noise=1.0)
    tag = ms.SequenceLabelerCV(Cs=[0.001, 3.0], cv=3, order=2, bias=True).fit(X, y)
    alone = ms.SequenceLabeler(order=2, bias=True, C=tag.C_).fit(X, y)
    assert tag.C_ == 3.0 and tag.coef_blocks_["triples"].shape == (K, K, K)
    assert tag.weights_.tobytes() == alone.weights_.tobytes()
