"""ProjectedQuasiNewton on functions whose minimum is known, with and without constraints, exact and inexact."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from maxsum.core.errors import InvalidParameterError, InvalidSampleError, OracleError, UnsupportedProblemError
from maxsum.core.result import Guarantee, Termination
from maxsum.learning.learners.quasi_newton import Pairs, ProjectedQuasiNewton
from maxsum.learning.objectives.smooth import Evaluation, SmoothObjective


class Logistic(SmoothObjective):
    """Regularised logistic regression, with weights of at least ``floor`` if one is given."""

    modulus = 1.0

    def __init__(self, C=100.0, floor=None, seed=0, noise=0.0):
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(80, 12)) * np.logspace(-1, 1, 12)
        self.y = np.sign(self.x @ rng.normal(size=12) + rng.normal(size=80))
        self.C, self.floor, self.noise = C, floor, noise
        self.n_weights, self.free, self.n_tightened = 12, floor is None, 0
        self.random = np.random.default_rng(1)

    def value_and_gradient(self, w):
        z = self.y * (self.x @ w)
        value = 0.5 * float(w @ w) + self.C * float(np.logaddexp(0, -z).mean())
        gradient = w - self.C * (self.x.T @ (self.y / (1 + np.exp(z)))) / len(z)
        if not self.noise:
            return value, gradient
        return Evaluation(value - self.noise * self.random.random(), gradient, self.noise)

    def project(self, w):
        return w if self.floor is None else np.maximum(w, self.floor)

    def tighten(self, allowed):
        if not 1e-13 < allowed < self.noise:
            return False
        self.noise, self.n_tightened = allowed, self.n_tightened + 1
        return True

    def content(self):
        return (self.x, self.y)

    def best(self):
        bounds = None if self.floor is None else [(self.floor, None)] * self.n_weights
        options = dict(maxiter=10_000, maxfun=100_000, ftol=1e-15, gtol=1e-9)
        return minimize(self.value_and_gradient, self.start(), jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun


class Rosenbrock(SmoothObjective):
    """Not convex."""

    n_weights, convex = 2, False

    def value_and_gradient(self, w):
        x, y = w
        return (1 - x) ** 2 + 100 * (y - x * x) ** 2, np.array([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)])


@pytest.mark.parametrize("C", [1.0, 1e2, 1e5])
@pytest.mark.parametrize("floor", [None, 0.05, -0.1])
def test_optimum_and_bound_are_those_of_another_solver(C, floor):
    objective = Logistic(C, floor)
    result = ProjectedQuasiNewton(tol=1e-7).fit(objective)
    best = objective.best()
    assert result.termination == Termination.converged and result.relative_gap <= 1e-7
    assert result.lower_bound <= best * (1 + 1e-12) and result.objective >= best * (1 - 1e-9)
    verified = result.verify(objective)
    assert verified.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
    assert result.extra["projected_gradient"] >= 0
    bounds = [point.lower_bound for point in result.trace]
    assert all(bound <= best * (1 + 1e-12) for bound in bounds) and bounds == sorted(bounds)


def test_inexact_values_are_tightened_and_accounted_for():
    objective = Logistic(1e3, 0.05, noise=50.0)
    best = Logistic(1e3, 0.05).best()
    result = ProjectedQuasiNewton(tol=1e-5).fit(objective)
    assert objective.n_tightened > 0 and result.relative_gap <= 1e-5
    assert all(point.lower_bound <= best * (1 + 1e-9) <= point.objective * (1 + 2e-9) for point in result.trace)


def test_values_that_stay_inexact_end_without_a_wrong_claim():
    objective = Logistic(1e3, noise=1.0)
    objective.tighten = lambda allowed: False
    best = Logistic(1e3).best()
    result = ProjectedQuasiNewton(tol=1e-9, max_iter=200).fit(objective)
    assert result.lower_bound <= best <= result.objective and result.gap >= 0.9
    assert result.guarantee == Guarantee.within_gap


def test_no_bound_without_convexity():
    result = ProjectedQuasiNewton(tol=1e-12, gradient_tol=1e-9).fit(Rosenbrock(), init=[-1.2, 1.0])
    assert result.weights == pytest.approx([1.0, 1.0], abs=1e-5)
    assert result.lower_bound == -np.inf and result.certificate is None and result.guarantee == Guarantee.feasible
    assert "not convex" in result.message and result.termination == Termination.converged


def test_limits_callback_interrupt_and_checkpoint(tmp_path):
    assert ProjectedQuasiNewton(tol=0.0, max_iter=3).fit(Logistic()).termination == Termination.iteration_limit
    assert ProjectedQuasiNewton(time_limit=0.0).fit(Logistic()).termination == Termination.time_limit
    stopped = ProjectedQuasiNewton(tol=0.0).fit(Logistic(), callback=lambda point: point.iteration == 4)
    assert stopped.termination == Termination.stopped and stopped.n_iter == 4

    def interrupt(point):
        if point.iteration == 5:
            raise KeyboardInterrupt

    broken = ProjectedQuasiNewton(tol=0.0).fit(Logistic(1e4, 0.1), callback=interrupt)
    assert broken.termination == Termination.interrupted and broken.objective < broken.trace[0].objective
    path = tmp_path / "state"
    whole = ProjectedQuasiNewton(tol=0.0, max_iter=12).fit(Logistic(1e4, 0.1))
    ProjectedQuasiNewton(tol=0.0, max_iter=5, checkpoint=path).fit(Logistic(1e4, 0.1))
    resumed = ProjectedQuasiNewton(tol=0.0, max_iter=12, checkpoint=path).fit(Logistic(1e4, 0.1))
    assert np.array_equal(resumed.weights, whole.weights) and resumed.lower_bound == whole.lower_bound


def test_compact_matrix_is_the_inverse_of_the_two_loops():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    matrix = root @ root.T + np.eye(6)
    pairs = Pairs(4, np.ones(6))
    for _ in range(7):
        step = rng.normal(size=6)
        pairs.add(step, matrix @ step)
    sigma, rows, inverse = pairs.matrix()
    model = sigma * np.eye(6) - rows.T @ inverse @ rows
    g = rng.normal(size=6)
    assert np.allclose(model @ pairs.solve(g), g, atol=1e-8)
    assert np.allclose(model @ pairs.steps[-1], pairs.changes[-1], atol=1e-8) and len(pairs) == 4
    pairs.add(np.ones(6), -np.ones(6))
    assert len(pairs) == 4


def test_bad_input():
    with pytest.raises(UnsupportedProblemError, match="HasGradient"):
        ProjectedQuasiNewton().fit(object())
    for options in (dict(memory=0), dict(inner=True), dict(gradient_tol=-1.0), dict(tol=-1.0), dict(max_iter=0)):
        with pytest.raises(InvalidParameterError):
            ProjectedQuasiNewton(**options).fit(Logistic())
    with pytest.raises(InvalidSampleError, match="init has shape"):
        ProjectedQuasiNewton().fit(Logistic(), init=[0.0])
    broken = Logistic()
    broken.value_and_gradient = lambda w: (np.inf, np.zeros(12))
    with pytest.raises(OracleError, match="wanted finite"):
        ProjectedQuasiNewton().fit(broken)
    broken.value_and_gradient = lambda w: (0.0, np.zeros(3))
    with pytest.raises(OracleError, match="shape"):
        ProjectedQuasiNewton().fit(broken)
