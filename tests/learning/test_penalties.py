"""Penalties of absolute values against cvxpy where it is there and against enumeration; zeros that are zero; bounds that hold."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from factories.labelled import LOOP, labelled_model
from factories.samples import paired_sequences

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidParameterError, UnsupportedProblemError
from maxsum.kernels.penalised import descend
from maxsum.learning import LikelihoodObjective, MaximumLikelihood, PenalisedObjective, ProximalQuasiNewton

model = partial(labelled_model, n=10, d=4)


def features(bound: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Feature vectors of all labellings of each example, and that of the truth."""
    found = []
    for j in range(bound.n_examples):
        n, k = bound.data.graphs[j].n_nodes, bound.n_labels
        rows = np.array([bound.feature(j, np.array(y)) for y in product(range(k), repeat=n)])
        found.append((rows, bound.feature(j, bound.truth(j))))
    return found


def slow_objective(known: Any, w: np.ndarray, C: float, l1: float) -> float:
    value = l1 * np.abs(w).sum() + 0.5 * (1 - l1) * (w @ w)
    for rows, truth in known:
        value += C * (np.logaddexp.reduce(rows @ w) - truth @ w)
    return float(value)


@pytest.mark.parametrize("graph", [ms.Graph.chain(3), LOOP], ids=["chain", "loop"])
@pytest.mark.parametrize("l1", [1.0, 0.5])
def test_the_minimum_is_that_of_an_independent_solver(graph, l1):
    bound, C = model(graph, n=6), 0.4
    objective = PenalisedObjective(LikelihoodObjective(bound, C), l1)
    result = ProximalQuasiNewton(tol=1e-7, max_iter=2000).fit(objective)
    assert result.relative_gap <= 1e-7
    assert result.objective == pytest.approx(slow_objective(features(bound), result.weights, C, l1), rel=1e-9)
    found = result.verify(objective)
    assert found.lower_bound <= result.objective
    cp = pytest.importorskip("cvxpy")
    w = cp.Variable(bound.n_weights)
    losses = [cp.log_sum_exp(rows @ w) - truth @ w for rows, truth in features(bound)]
    program = cp.Problem(cp.Minimize(l1 * cp.norm1(w) + 0.5 * (1 - l1) * cp.sum_squares(w) + C * sum(losses)))
    program.solve()
    assert result.objective == pytest.approx(program.value, rel=1e-5)
    assert (result.weights[np.abs(w.value) < 1e-6] == 0).all()
    assert (np.abs(w.value)[result.weights == 0] < 1e-3).all()


def test_a_point_is_the_minimum_if_its_slopes_say_so():
    """Without any solver: where a weight is 0 the slope of the loss is at most the share of absolute values, elsewhere exactly that."""
    bound = model(ms.Graph.chain(3), seed=2, n=8)
    objective = PenalisedObjective(LikelihoodObjective(bound, 0.5), 1.0)
    result = ProximalQuasiNewton(tol=1e-9, max_iter=3000).fit(objective)
    w, h, known = result.weights, 1e-5, features(bound)
    assert 0 < np.count_nonzero(w) < len(w)

    def loss(v: np.ndarray) -> float:
        return slow_objective(known, v, 0.5, 1.0) - np.abs(v).sum()

    for i in range(len(w)):
        step = np.zeros(len(w))
        step[i] = h
        slope = (loss(w + step) - loss(w - step)) / (2 * h)
        assert abs(slope) <= 1 + 1e-3
        if w[i] != 0:
            assert slope == pytest.approx(-np.sign(w[i]), abs=1e-3)


def test_bounds_hold_at_any_point_and_claims_are_checked():
    bound = model(ms.Graph.chain(3), seed=3)
    for l1 in (1.0, 0.3):
        objective = PenalisedObjective(LikelihoodObjective(bound, 1.0), l1)
        best = ProximalQuasiNewton(tol=1e-8, max_iter=2000).fit(objective)
        for steps in (1, 3, 8):
            early = ProximalQuasiNewton(tol=0.0, max_iter=steps).fit(objective)
            assert early.lower_bound <= best.objective <= early.objective + 1e-12
            early.verify(objective)
            with pytest.raises(CertificateError, match="lower bound"):
                replace(early, lower_bound=0.5 * (early.lower_bound + early.objective)).verify(objective)
        with pytest.raises(CertificateError, match="rational"):
            best.verify(objective, exact=True)
        with pytest.raises(CertificateError):
            best.certificate.verify(PenalisedObjective(LikelihoodObjective(bound, 1.0), 0.9), best.weights, claimed=best)


def test_more_weight_on_the_data_leaves_fewer_zeros():
    bound = model(ms.Graph.chain(3), seed=4)
    zeros = [
        int((ProximalQuasiNewton(tol=1e-4).fit(PenalisedObjective(LikelihoodObjective(bound, C), 1.0)).weights == 0).sum())
        for C in (0.01, 0.2, 5.0)
    ]
    assert zeros[0] == bound.n_weights > zeros[1] > zeros[2]


def test_what_it_cannot_do_is_refused():
    bound = model(ms.Graph.chain(3))
    with pytest.raises(InvalidParameterError, match="l1"):
        PenalisedObjective(LikelihoodObjective(bound), 0.0)
    with pytest.raises(UnsupportedProblemError, match="exact sums"):
        PenalisedObjective(LikelihoodObjective(model(LOOP), max_cells=0))
    with pytest.raises(UnsupportedProblemError, match="lacks"):
        MaximumLikelihood().fit(PenalisedObjective(LikelihoodObjective(bound)))
    with pytest.raises(UnsupportedProblemError, match="HasPenalty"):
        ProximalQuasiNewton().fit(LikelihoodObjective(bound))


def test_a_resumed_training_ends_where_the_whole_one_does(tmp_path):
    bound, path = model(ms.Graph.chain(3), seed=5), tmp_path / "state"
    whole = ProximalQuasiNewton(tol=1e-6).fit(PenalisedObjective(LikelihoodObjective(bound)))
    ProximalQuasiNewton(tol=1e-6, max_iter=4, checkpoint=path).fit(PenalisedObjective(LikelihoodObjective(bound)))
    again = ProximalQuasiNewton(tol=1e-6, checkpoint=path).fit(PenalisedObjective(LikelihoodObjective(bound)))
    np.testing.assert_array_equal(again.weights, whole.weights)
    assert again.lower_bound == whole.lower_bound


def test_estimators_take_penalties_and_keep_zeros_out_of_files(tmp_path):
    X, y = paired_sequences(12)
    X = [np.hstack([own, np.random.default_rng(len(own)).standard_normal((len(own), 300))]) for own in X]
    settings = {"surrogate": "likelihood", "C": 0.3, "tol": 1e-5}
    nets = {name: ms.SequenceLabeler(penalty=name, **settings).fit(X, y) for name in ("l2", "l1", "elasticnet", 0.5)}
    zeros = {name: int((net.weights_ == 0).sum()) for name, net in nets.items()}
    assert zeros["l2"] == 0 < zeros["elasticnet"] < zeros["l1"]
    np.testing.assert_array_equal(nets["elasticnet"].weights_, nets[0.5].weights_)
    lasso = nets["l1"]
    assert lasso.result_.learner == "ProximalQuasiNewton"
    assert lasso.result_.verify(lasso.objective_).relative_gap <= 1e-5
    assert lasso.predict_proba(X)[0].sum(axis=1) == pytest.approx(1.0)
    for name, net in nets.items():
        ms.save_model(net, tmp_path / str(name))
    assert (tmp_path / "l1").stat().st_size < (tmp_path / "l2").stat().st_size
    again = ms.load_model(tmp_path / "l1")
    np.testing.assert_array_equal(again.weights_, lasso.weights_)
    np.testing.assert_array_equal(again.predict_proba(X)[0], lasso.predict_proba(X)[0])
    with pytest.raises(InvalidParameterError, match="penalty"):
        ms.SequenceLabeler(surrogate="lp", penalty="l1").fit(X, y)
    with pytest.raises(InvalidParameterError, match="penalty"):
        ms.SequenceLabeler(surrogate="likelihood", penalty=0.0).fit(X, y)


@pytest.mark.parametrize("l1", [1.0, 0.4])
def test_coordinate_descent_ends_where_the_slopes_of_the_model_say_so(l1):
    """The model's matrix is written out, and the conditions of a minimum are asked of it."""
    rng = np.random.default_rng(6)
    n, m = 30, 4
    hessian = np.diag(rng.uniform(0.5, 3.0, n)) + 0.1 * np.ones((n, n))
    steps = rng.standard_normal((m, n))
    changes = steps @ hessian
    whole = 2.0 * np.eye(n)
    for s, y in zip(steps, changes, strict=True):  # the update of a textbook
        whole += np.outer(y, y) / (s @ y) - np.outer(whole @ s, s @ whole) / (s @ whole @ s)
    mixed = steps @ changes.T
    inverse = np.block([[2.0 * steps @ steps.T, np.tril(mixed, -1)], [np.tril(mixed, -1).T, -np.diag(np.diag(mixed))]])
    rows, core = np.ascontiguousarray(np.hstack([2.0 * steps.T, changes.T])), np.linalg.inv(inverse)
    np.testing.assert_allclose(2.0 * np.eye(n) - rows @ core @ rows.T, whole, atol=1e-10)
    w, g, step = rng.standard_normal(n) * (rng.random(n) < 0.5), 3 * rng.standard_normal(n), np.zeros(n)
    assert descend(g, w, 2.0, rows, np.ascontiguousarray(core), l1, 1 - l1, 1e-12, 10_000, step) < 10_000
    there = w + step
    slope = g + whole @ step + (1 - l1) * there
    assert 0 < (there == 0).sum() < n
    assert (np.abs(slope[there == 0]) <= l1 + 1e-9).all()
    np.testing.assert_allclose(slope[there != 0], -l1 * np.sign(there[there != 0]), atol=1e-9)
