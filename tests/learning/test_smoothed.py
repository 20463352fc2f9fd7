"""The smoothed LP-M3N: its gradients, its value by maximum entropy, its limit, and what it proves."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from factories.samples import mixed_model, multi_label_model, random_model
from reference.lp_m3n import local_examples, polytope

import maxsum as ms
from maxsum.core.errors import CertificateError, UnsupportedProblemError
from maxsum.core.result import Termination
from maxsum.kernels import smoothed as kernels
from maxsum.learning import LPObjective, TrivialObjective
from maxsum.learning.learners.compact_qp import CompactQP
from maxsum.learning.learners.smoothed_lp import SmoothedLP
from maxsum.learning.objectives.smoothed import SmoothedObjective
from maxsum.learning.proofs.message_slacks import message_slacks

LOOP = ms.Graph.from_edges([(1, 0), (1, 2), (2, 0), (2, 3), (4, 3), (4, 2)])
TREE = ms.Graph.from_edges([(1, 0), (1, 2), (3, 1)])


def objective_of(graph=LOOP, n_labels=3, potentials="general", C=7.0, n_examples=3, **options):
    return LPObjective(random_model(graph, n_labels, n_examples, potentials=potentials), C=C, **options)


def mixed_objective(**options):
    model = mixed_model([(0, 4), (3, 0), (4, 3)])
    return LPObjective(model, C=5.0, sample_weight=[1.0, 2.0, 1.0, 0.5], **options)


def multi_label_objective():
    return LPObjective(multi_label_model(), C=5.0)


@pytest.mark.parametrize("make", [objective_of, mixed_objective])
def test_joint_gradient_is_that_of_finite_differences(make):
    objective, random, step = make(), np.random.default_rng(1), 1e-6
    smooth = SmoothedObjective(objective, 0.3)
    w, messages = random.standard_normal(objective.n_weights), random.standard_normal(smooth.messages.shape)
    value, by_w, by_messages = smooth.joint_value_and_gradient(w, messages)
    assert value == pytest.approx(objective.primal(w, message_slacks(objective, w, messages, 0.3)), rel=1e-12)
    for _ in range(10):
        d, turn = random.standard_normal(w.shape), random.standard_normal(messages.shape)
        above = smooth.joint_value_and_gradient(w + step * d, messages + step * turn)[0]
        below = smooth.joint_value_and_gradient(w - step * d, messages - step * turn)[0]
        assert (above - below) / (2 * step) == pytest.approx(by_w @ d + (by_messages * turn).sum(), rel=1e-6, abs=1e-6)
        other = smooth.joint_value_and_gradient(w + d, messages + turn)[0]
        assert other >= value + by_w @ d + (by_messages * turn).sum() + 0.5 * d @ d - 1e-9 * value


@pytest.mark.parametrize("make", [objective_of, mixed_objective, multi_label_objective])
def test_evaluations_are_brackets_with_tangents_below(make):
    objective, random = make(), np.random.default_rng(2)
    rough, fine = SmoothedObjective(objective, 0.1, max_rounds=1), SmoothedObjective(objective, 0.1)
    fine.allowed = 1e-10
    w = random.standard_normal(objective.n_weights)
    found, best = rough.ask(w), fine.ask(w)
    assert best.error <= 1e-9
    assert found.error > 100 * best.error
    assert found.value <= best.value + 1e-9 and best.value <= found.value + found.error + 1e-9
    for _ in range(10):
        d = random.standard_normal(w.shape)
        assert fine.ask(w + d).value >= found.value + found.gradient @ d + 0.5 * d @ d - 1e-8
        rise = fine.ask(w + 1e-5 * d).value - fine.ask(w - 1e-5 * d).value
        assert rise / 2e-5 == pytest.approx(best.gradient @ d, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("make", [objective_of, mixed_objective, partial(objective_of, TREE)])
def test_slacks_are_those_of_maximum_entropy_over_the_local_polytope(make):
    cvxpy = pytest.importorskip("cvxpy", reason="the maximum entropy reference needs cvxpy")
    objective, epsilon = make(), 0.4
    smooth = SmoothedObjective(objective, epsilon)
    smooth.allowed = 1e-10
    w = 0.5 * np.random.default_rng(3).standard_normal(objective.n_weights)
    ptr, total = objective.design.node_ptr, 0.5 * w @ w
    tables = [objective.loss_table[ptr[j] : ptr[j + 1]] for j in range(objective.n_examples)]
    for c, example in zip(objective.c, local_examples(objective.model, tables), strict=True):
        matrix, right = polytope(example)
        mu = cvxpy.Variable(len(example.loss))
        gain = (example.loss + example.features @ w) @ mu + epsilon * cvxpy.sum(cvxpy.entr(mu))
        problem = cvxpy.Problem(cvxpy.Maximize(gain), [matrix @ mu == right])
        total += c * (problem.solve(solver="CLARABEL") - example.truth @ w)
    assert smooth.ask(w).value == pytest.approx(total, rel=1e-6)


def test_without_edges_slacks_are_log_partition_functions():
    objective = objective_of(ms.Graph.from_edges([], n_nodes=3), n_examples=2)
    w = np.random.default_rng(4).standard_normal(objective.n_weights)
    smooth = SmoothedObjective(objective, 0.7)
    found = smooth.ask(w)
    expected = 0.5 * w @ w
    for j in range(2):
        problem = objective.loss_problem(w, j)
        scores = np.array([problem.score(y) for y in itertools.product(range(3), repeat=3)])
        expected += objective.c[j] * (0.7 * np.log(np.exp(scores / 0.7).sum()) - problem.score(objective.model.truth(j)))
    assert found.error <= 1e-12
    assert found.value == pytest.approx(expected, rel=1e-12)


def test_on_trees_the_value_is_between_the_log_partition_function_and_the_bound():
    objective = objective_of(TREE, C=1.0, n_examples=1)
    w = np.random.default_rng(4).standard_normal(objective.n_weights)
    problem = objective.loss_problem(w, 0)
    scores = np.array([problem.score(y) for y in itertools.product(range(3), repeat=4)]) - problem.score(
        objective.model.truth(0)
    )
    for epsilon in (1.0, 0.1, 1e-3):
        smooth = SmoothedObjective(objective, epsilon)
        smooth.allowed = 1e-9
        slack = smooth.ask(w).value - 0.5 * w @ w
        partition = scores.max() + epsilon * np.log(np.exp((scores - scores.max()) / epsilon).sum())
        assert partition - 1e-8 <= slack <= scores.max() + smooth.smoothing_error() + 1e-8
    assert slack == pytest.approx(scores.max(), abs=0.02)


@pytest.mark.parametrize(("potentials", "n_labels"), [("general", 3), ("supermodular", 3), ("associative", 4)])
def test_small_smoothing_recovers_the_lp_value(potentials, n_labels):
    make = partial(objective_of, n_labels=n_labels, potentials=potentials)
    best = CompactQP().fit(make())
    last = np.inf
    for epsilon in (1.0, 0.1, 1e-2, 1e-3):
        objective = make(smoothing=epsilon)
        result = SmoothedLP(tol=1e-4).fit(objective)
        extra = result.extra
        assert result.termination == Termination.converged and result.relative_gap <= 1.01e-4
        assert best.lower_bound <= result.objective <= last
        assert result.lower_bound <= best.objective + extra["smoothing_error"]
        assert extra["lp_lower_bound"] <= best.objective * (1 + 1e-9)
        assert extra["lp_objective"] >= best.lower_bound * (1 - 1e-9)
        assert extra["lp_objective"] <= result.objective
        assert objective.primal(result.weights, message_slacks(objective, result.weights, extra["messages"])) == pytest.approx(
            extra["lp_objective"], rel=1e-10
        )
        assert extra["lp_certificate"].lower_bound(objective) == pytest.approx(extra["lp_lower_bound"], rel=1e-9)
        assert objective.cone.contains(result.weights)
        last = result.objective
    assert last == pytest.approx(best.objective, rel=1e-2)
    assert extra["lp_objective"] == pytest.approx(best.objective, rel=3e-3)
    assert extra["lp_lower_bound"] == pytest.approx(best.objective, rel=3e-3)


@pytest.mark.parametrize("make", [objective_of, mixed_objective, partial(objective_of, potentials="supermodular")])
def test_the_gap_of_the_smoothed_problem_is_proven(make):
    objective = make(smoothing=0.2)
    result = SmoothedLP(tol=1e-5).fit(objective)
    assert result.lower_bound <= result.objective and result.relative_gap <= 1.01e-5
    for given in (objective, SmoothedObjective(objective, 0.2)):
        check = result.verify(given)
        assert check.lower_bound == pytest.approx(result.lower_bound, rel=1e-4)
        assert check.objective == pytest.approx(result.objective, rel=1e-4)
    best = min(SmoothedObjective(objective, 0.2).evaluate(objective.cone.repair(result.weights + d)) for d in _steps(objective))
    assert best >= result.lower_bound
    with pytest.raises(CertificateError):
        type(result.certificate)(result.certificate.points, -result.certificate.alpha, 0.2).verify(objective, result.weights)


def _steps(objective):
    random = np.random.default_rng(0)
    return [0.01 * random.standard_normal(objective.n_weights) for _ in range(20)]


def test_scores_far_beyond_the_smoothing_stay_finite():
    objective, random = objective_of(), np.random.default_rng(6)
    for scale, epsilon in ((1e3, 1e-2), (1.0, 1e-7), (1e4, 1e4), (1e-6, 1e3)):
        w = scale * random.standard_normal(objective.n_weights)
        smooth = SmoothedObjective(objective, epsilon, max_rounds=30)
        found = smooth.ask(w)
        assert found.value + found.error == pytest.approx(smooth.evaluate(w), rel=1e-3)
        messages = scale * random.standard_normal(smooth.messages.shape)
        value, by_w, by_messages = smooth.joint_value_and_gradient(w, messages)
        assert value == pytest.approx(objective.primal(w, message_slacks(objective, w, messages, epsilon)), rel=1e-12)
        assert np.isfinite(by_w).all() and np.isfinite(by_messages).all()


def test_momentum_makes_rounds_few():
    objective = objective_of(ms.Graph.grid(8, 8), n_examples=1)
    w = np.concatenate([np.zeros(6), 1.5 * np.eye(3).ravel()])
    smooth, plain = SmoothedObjective(objective, 0.05), SmoothedObjective(objective, 0.05)
    first = smooth.ask(w)
    smooth.allowed = 1e-6 * first.value
    assert smooth.ask(w).error <= smooth.allowed
    for i in range(2 * smooth.n_rounds):
        kernels.sweep(plain.soft(w), plain.messages, 0.05, 0, i % 2 == 0)
    plain.allowed = np.inf
    assert plain.ask(w).error > 10 * smooth.allowed


def test_threads_change_nothing():
    one, two = (SmoothedLP(tol=1e-4).fit(objective_of(n_examples=5, smoothing=0.1, n_jobs=n)) for n in (1, 2))
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-9, atol=1e-12)


def test_limits_and_callbacks_leave_a_bracket():
    objective = objective_of(ms.Graph.grid(6, 6), smoothing=0.1)
    best = SmoothedLP(tol=1e-5).fit(objective)
    for result, why in (
        (SmoothedLP(tol=1e-6, time_limit=0.0).fit(objective), Termination.time_limit),
        (SmoothedLP(tol=1e-6).fit(objective, callback=lambda point: point.iteration >= 3), Termination.stopped),
        (SmoothedLP(tol=1e-6, max_iter=4).fit(objective), Termination.iteration_limit),
    ):
        assert result.termination == why
        assert result.lower_bound <= best.objective and best.lower_bound <= result.objective
        assert np.isfinite(result.extra["lp_lower_bound"])


def test_a_checkpoint_is_gone_on_from(tmp_path):
    objective, file = objective_of(ms.Graph.grid(5, 5), smoothing=0.1), tmp_path / "state"
    straight = SmoothedLP(tol=1e-4).fit(objective)
    SmoothedLP(tol=1e-4, max_iter=5, checkpoint=file).fit(objective)
    resumed = SmoothedLP(tol=1e-4, checkpoint=file).fit(objective)
    assert resumed.objective == pytest.approx(straight.objective, rel=2e-4)
    assert resumed.n_iter > 5


@pytest.mark.parametrize("smoothing", [-1.0, 0.0, np.nan, np.inf, None, True, "much"])
def test_bad_smoothing_is_refused(smoothing):
    with pytest.raises(ValueError, match="smoothing"):
        SmoothedObjective(objective_of(), smoothing)
    if smoothing != 0.0:
        with pytest.raises(ValueError, match="smoothing"):
            objective_of(smoothing=smoothing)


def test_other_bad_input_is_refused():
    objective = objective_of()
    with pytest.raises(UnsupportedProblemError, match="without smoothing"):
        SmoothedLP().fit(objective)
    with pytest.raises(ValueError, match="max_rounds"):
        SmoothedObjective(objective, 0.1, max_rounds=0)
    with pytest.raises(ValueError, match="lp surrogate"):
        SmoothedObjective(TrivialObjective(objective.model), 0.1)
