"""Surrogate ``logistic``: solves, value and gradient against dense algebra, learning that claims nothing it cannot prove."""

from __future__ import annotations

import numpy as np
import pytest
from learning.convex_data import FORMS, bound, chains, dense_energy

from maxsum.core.errors import OracleError
from maxsum.core.result import Guarantee
from maxsum.learning.learners.quasi_newton import ProjectedQuasiNewton
from maxsum.learning.objectives.logistic import LinearSystems, LogisticObjective, predict_logistic


def weights_of(model, seed=5):
    w = model.project(np.random.default_rng(seed).normal(size=model.n_weights))
    w[model.slices[3]] += 0.5
    return w


def dense_value(model, w, c, operators=None):
    """The objective from dense solves."""
    total = 0.5 * float(w @ w)
    for j in range(model.n_examples):
        theta, matrix = dense_energy(model, w, j, operators)
        states = model.data.n_states[slice(*model.data.node_ptr[j : j + 2])]
        inside = (np.arange(model.n_labels) < states[:, None]).ravel()
        mu = np.full(len(theta), -np.inf)
        mu[inside] = np.linalg.solve(matrix[np.ix_(inside, inside)], -theta[inside])
        mu = mu.reshape(-1, model.n_labels)
        own = np.logaddexp.reduce(mu, axis=1) - mu[np.arange(len(mu)), model.truth(j)]
        total += c[j] * float(own.sum())
    return total


@pytest.mark.parametrize("name", [*FORMS, "chains"])
def test_value_and_gradient(name):
    model, operators = (chains(), None) if name == "chains" else bound(name)
    w = weights_of(model)
    objective = LogisticObjective(model, C=4.0, operators=operators, tol=1e-13, n_jobs=2)
    found = objective.ask(w)
    assert found.value == pytest.approx(dense_value(model, w, objective.c, operators), rel=1e-9)
    assert objective.evaluate(w) == pytest.approx(found.value, rel=1e-8)
    rng = np.random.default_rng(3)
    for _ in range(2):
        d, step = rng.normal(size=len(w)), 1e-6
        slope = (objective.ask(w + step * d).value - objective.ask(w - step * d).value) / (2 * step)
        assert slope == pytest.approx(float(found.gradient @ d), rel=2e-5, abs=1e-4)


@pytest.mark.parametrize("name", ["definite", "operator"])
def test_learning_lowers_the_objective_and_claims_no_bound(name):
    model, operators = bound(name)
    objective = LogisticObjective(model, C=5.0, operators=operators)
    result = ProjectedQuasiNewton(tol=1e-3, max_iter=60).fit(objective)
    assert result.objective < result.trace[0].objective and result.lower_bound == -np.inf
    assert result.guarantee == Guarantee.feasible and "not convex" in result.message and result.certificate is None
    for matrix in model.matrices(result.weights) if name == "definite" else ():
        assert np.linalg.eigvalsh(matrix)[0] >= model.spec.floor - 1e-14 * np.abs(matrix).max()
    predicted = predict_logistic(model, result.weights, operators=operators)
    wrong = np.mean([(own.labels != model.truth(j)).mean() for j, own in enumerate(predicted)])
    assert wrong < 0.4 and all(own.residual <= 1e-6 for own in predicted)


def test_labels_that_do_not_exist_are_not_predicted():
    model = chains()
    for own, a, b in zip(
        predict_logistic(model, weights_of(model)), model.data.node_ptr[:-1], model.data.node_ptr[1:], strict=True
    ):
        assert (own.labels < model.data.n_states[a:b]).all()


def test_systems_that_cannot_be_solved_are_an_error():
    model, _ = bound("definite")
    objective = LogisticObjective(model)
    objective.energies.at(weights_of(model))
    with pytest.raises(OracleError, match="Raise ridge"):
        LinearSystems(objective.energies, max_iter=1).solve(-objective.energies.theta)


def test_sets_of_weights_and_C():
    model, _ = bound("dictionary")
    w = weights_of(model)
    one, two = LogisticObjective(model, C=1.0), LogisticObjective(model, C=3.0)
    one.set_C(3.0)
    assert one.ask(w).value == pytest.approx(two.ask(w).value, rel=1e-8)
