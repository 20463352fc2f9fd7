"""Answers about confidence against enumeration of all labellings."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError

RNG = np.random.default_rng(5)
CLASSES = np.array(["a", "b", "c"])
NUMBERS = [np.sort(RNG.integers(0, 3, n)) for n in (4, 3, 5, 4, 4, 3)]
X = [np.eye(3)[own] + 0.7 * RNG.standard_normal((len(own), 3)) for own in NUMBERS]
Y = [CLASSES[own] for own in NUMBERS]


@pytest.fixture(scope="module")
def margin() -> Any:
    return ms.SequenceLabeler(C=1.0).fit(X, Y)


@pytest.fixture(scope="module")
def likelihood() -> Any:
    return ms.SequenceLabeler(C=1.0, surrogate="likelihood", tol=1e-6).fit(X, Y)


def every(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """All labellings of a problem with their scores."""
    rows = np.array(list(product(*(range(k) for k in problem.n_states))))
    return rows, np.array([problem.score(row) for row in rows])


def losses(problem: Any) -> np.ndarray:
    rows, scores = every(problem)
    out = np.full(problem.unary.shape, np.inf)
    for v, k in np.ndindex(*out.shape):
        mine = scores[rows[:, v] == k]
        out[v, k] = scores.max() - mine.max() if len(mine) else np.inf
    return out


def test_the_k_best_are_those_of_enumeration_and_are_proven(margin):
    for problem, found, x in zip(margin.problems(X), margin.predict_k_best(X, 4), X, strict=True):
        rows, scores = every(problem)
        best = np.argsort(-scores)[:4]
        np.testing.assert_allclose(found.scores, scores[best])
        assert [own.tolist() for own in found.labels] == [CLASSES[rows[i]].tolist() for i in best]
        assert found.proven == len(found) == 4
        assert found.bound == pytest.approx(np.sort(scores)[-5])
        found.proof.verify(problem)
        assert found.labels[0].tolist() == margin.predict([x])[0].tolist()


def test_max_marginals_are_what_labels_lose(margin):
    for problem, found in zip(margin.problems(X), margin.predict_max_marginals(X), strict=True):
        assert found.exact
        np.testing.assert_allclose(found.upper, losses(problem), atol=1e-9)
        np.testing.assert_allclose(found.margin, np.sort(losses(problem), axis=1)[:, 1], atol=1e-9)


def test_losses_of_a_wide_graph_are_a_bracket_around_the_truth(monkeypatch):
    monkeypatch.setattr(import_module("maxsum.inference.questions.max_marginals"), "exact_order", lambda problem: None)
    graph = ms.Graph.grid(2, 3)
    samples = [ms.GraphSample(RNG.standard_normal((6, 2)), graph) for _ in range(6)]
    labels = [(sample.X[:, 0] + 0.4 * RNG.standard_normal(6) > 0).astype(int) for sample in samples]
    net = ms.GraphLabeler(potentials="general", C=1.0).fit(samples, labels)
    for problem, found in zip(net.problems(samples), net.predict_max_marginals(samples), strict=True):
        truth = losses(problem)
        assert not found.exact
        assert found.lower.shape == (2, 3, 2)
        assert (found.lower.reshape(6, 2) <= truth + 1e-9).all()
        assert (truth <= found.upper.reshape(6, 2) + 1e-9).all()
        assert np.isfinite(found.margin).all()


def test_probabilities_of_labels_and_labellings(likelihood):
    bracket = likelihood.predict_labelling_proba(X, Y)
    best = likelihood.predict_labelling_proba(X)
    for j, (problem, found) in enumerate(zip(likelihood.problems(X), likelihood.predict_proba(X), strict=True)):
        rows, scores = every(problem)
        p = np.exp(scores - np.logaddexp.reduce(scores))
        table = np.array([[p[rows[:, v] == k].sum() for k in range(3)] for v in range(problem.n_nodes)])
        np.testing.assert_allclose(found, table, atol=1e-9)
        truth = p[(rows == NUMBERS[j]).all(axis=1)][0]
        assert bracket.lower[j] == pytest.approx(truth, abs=1e-12)
        assert bracket.upper[j] == pytest.approx(truth, abs=1e-12)
        assert best.upper[j] == pytest.approx(p.max())


def test_the_probability_of_labels_of_which_some_are_known(likelihood):
    partly = [[None] * (len(own) - 1) + ["c"] for own in Y]
    found = likelihood.predict_labelling_proba(X, partly)
    np.testing.assert_allclose(found.lower, [own[-1, 2] for own in likelihood.predict_proba(X)], atol=1e-9)


def test_a_label_that_is_no_class_has_the_probability_0(likelihood):
    found = likelihood.predict_labelling_proba(X[:2], [["z", *Y[0][1:]], Y[1]])
    assert found.upper[0] == 0.0 < found.lower[1]
    assert likelihood.label_numbers(X[:1], [["z", "", *Y[0][2:]]])[0].tolist() == [-2, -1, *NUMBERS[0][2:]]


def test_margins_have_no_probabilities(margin):
    assert not hasattr(margin, "predict_proba")
    with pytest.raises(AttributeError):
        margin.predict_proba(X)
    with pytest.raises(InvalidParameterError, match="no logarithms of probabilities"):
        margin.predict_labelling_proba(X, Y)


def test_a_logistic_random_field_has_probabilities():
    net = ms.SequenceLabeler(surrogate="logistic", C=1.0).fit(X, Y)
    for found, labels in zip(net.predict_proba(X), net.predict(X), strict=True):
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert CLASSES[found.argmax(axis=1)].tolist() == labels.tolist()


def test_second_order_answers_are_about_labels_not_pairs():
    net = ms.SequenceLabeler(order=2, C=1.0).fit(X, Y)
    for problem, found, ranked in zip(net.problems(X), net.predict_max_marginals(X), net.predict_k_best(X, 3), strict=True):
        rows, scores = every(problem)
        kept = np.isfinite(scores)
        tags, scores = rows[kept] % 3, scores[kept]
        truth = [[scores.max() - scores[tags[:, v] == k].max() for k in range(3)] for v in range(tags.shape[1])]
        np.testing.assert_allclose(found.upper, truth, atol=1e-9)
        assert [own.tolist() for own in ranked.labels] == [CLASSES[tags[i]].tolist() for i in np.argsort(-scores)[:3]]


def test_rows_of_a_table_have_nodes_for_labels():
    rows = RNG.standard_normal((30, 3))
    table = (rows @ RNG.standard_normal((3, 4)) + 0.5 * RNG.standard_normal((30, 4)) > 0).astype(int)
    net = ms.MultiLabelClassifier(C=1.0).fit(rows, table)
    found = np.array([own.upper for own in net.predict_max_marginals(rows)])
    np.testing.assert_allclose(found[:, :, 0] - found[:, :, 1], net.decision_function(rows), atol=1e-9)
    assert [own.labels[0].tolist() for own in net.predict_k_best(rows, 2)] == net.predict(rows).tolist()
    smooth = ms.MultiLabelClassifier(C=1.0, surrogate="likelihood").fit(rows, table)
    np.testing.assert_allclose(smooth.predict_proba(rows), smooth.predict_marginals(rows))
    unknown = table.copy()
    unknown[:, 1:] = -1
    first = smooth.predict_labelling_proba(rows, unknown).lower
    np.testing.assert_allclose(first, np.abs(1 - table[:, 0] - smooth.predict_proba(rows)[:, 0]), atol=1e-9)
    one = ms.MultiLabelClassifier().fit(rows, table[:, 0])
    assert [own.tolist() for own in one.label_numbers(rows[:2], [0, 5])] == [[0], [-2]]


def test_a_query_names_what_is_least_sure(margin):
    margins = [own.margin for own in margin.predict_max_marginals(X)]
    pairs = margin.query(X, 3, unit="node")
    flat = sorted((value, j, v) for j, own in enumerate(margins) for v, value in enumerate(own.tolist()))
    assert pairs.tolist() == [[j, v] for _, j, v in flat[:3]]
    doubt = [np.exp(-own).sum() for own in margins]
    assert margin.query(X, 2).tolist() == np.argsort(doubt)[::-1][:2].tolist()
    assert len(margin.query(X, 100)) == len(X)


@pytest.mark.parametrize("settings", [{"n": 0}, {"unit": "word"}])
def test_a_query_refuses_what_makes_no_sense(margin, settings):
    with pytest.raises(InvalidParameterError):
        margin.query(X, **settings)


def test_label_numbers_of_any_labels():
    labels = [[("x", 1)] * 3 + [None], [("x", 2)] * 3]
    data = [np.eye(2)[[0, 0, 0, 1]], np.eye(2)[[1, 1, 1]]]
    net = ms.SequenceLabeler().fit(data, labels)
    assert [own.tolist() for own in net.label_numbers(data, labels)] == [[0, 0, 0, -1], [1, 1, 1]]
    assert net.label_numbers(data[1:], [[("x", 3)] * 3])[0].tolist() == [-2] * 3
