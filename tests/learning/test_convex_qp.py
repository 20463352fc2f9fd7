"""Surrogate ``qp``: energies, minimisers, gradients, convexity, certificates and what the slacks bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learning.convex_data import FORMS, bound, chains, dense_energy
from scipy.sparse import csc_matrix

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidParameterError, InvalidSampleError
from maxsum.core.result import Guarantee, Termination
from maxsum.learning.learners.quasi_newton import ProjectedQuasiNewton
from maxsum.learning.objectives import energy
from maxsum.learning.objectives.energy import Energies
from maxsum.learning.objectives.qp import QPObjective, predict_convex
from maxsum.learning.objectives.smooth import GradientCertificate
from maxsum.models import GraphModel, GraphSample
from maxsum.models.convex import Convex
from maxsum.models.multilabel import MultiLabelModel, multiclass


def random_weights(model, seed=5, size=1.0):
    return model.project(size * np.random.default_rng(seed).normal(size=model.n_weights))


def conic_optimum(theta, matrix, inside):
    """Least energy over the simplices by Clarabel."""
    clarabel = pytest.importorskip("clarabel")
    some = np.flatnonzero(inside.ravel())
    owner = np.repeat(np.arange(len(inside)), inside.sum(axis=1))
    sums = (owner[None, :] == np.arange(len(inside))[:, None]).astype(float)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.ZeroConeT(len(inside)), clarabel.NonnegativeConeT(len(some))]
    right = np.concatenate([np.ones(len(inside)), np.zeros(len(some))])
    rows = csc_matrix(np.concatenate([sums, -np.eye(len(some))]))
    own = csc_matrix(np.triu(matrix[np.ix_(some, some)]))
    return clarabel.DefaultSolver(own, theta[some], rows, right, cones, settings).solve().obj_val


@pytest.mark.parametrize("name", FORMS)
def test_energies_and_products_are_those_of_the_matrix(name):
    model, operators = bound(name)
    w, rng = random_weights(model), np.random.default_rng(0)
    energies = Energies(model, operators=operators, n_jobs=2).at(w)
    mu = rng.dirichlet(np.ones(model.n_labels), size=len(model.data.n_states))
    found, turned = energies.energy(mu), energies.multiply(mu)
    for j in range(model.n_examples):
        theta, matrix = dense_energy(model, w, j, operators)
        rows = slice(*model.data.node_ptr[j : j + 2])
        x = mu[rows].reshape(-1)
        assert found[j] == pytest.approx(theta @ x + 0.5 * x @ matrix @ x, abs=1e-10)
        assert np.allclose(turned[rows].reshape(-1), matrix @ x, atol=1e-10)
        assert np.allclose(energies.theta[rows].reshape(-1), theta, atol=1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_minimum_is_that_of_an_interior_point_method(name):
    model, operators = bound(name)
    w = random_weights(model)
    found = Energies(model, operators=operators).at(w).minimise(tol=0.0, allowed=1e-10)
    assert (found.gaps <= 1e-10 + 1e-13).all()
    for j in range(model.n_examples):
        theta, matrix = dense_energy(model, w, j, operators)
        inside = np.ones((model.data.node_ptr[j + 1] - model.data.node_ptr[j], model.n_labels), dtype=bool)
        assert found.values[j] == pytest.approx(conic_optimum(theta, matrix, inside), abs=1e-8)


def test_form_1_with_rows_that_the_input_scales():
    """A row for each edge feature: (12) with F_ij(x) = diag(sqrt f_ij) D."""
    random = np.random.default_rng(0)
    ends, rows = np.array([[0, 1], [1, 2], [3, 1]]), random.normal(size=(6, 4))
    scale = random.random((3, 6)) + 0.1
    sample = GraphSample(random.normal(size=(4, 2)), ms.Graph.from_edges(ends, 4), edge_features=scale**2)
    spec = Convex("dictionary", rows=[row[None] for row in rows], linear=False, ridge=0.3)
    model = spec.bind(GraphModel().bind([sample], [np.array([0, 1, 1, 0])]))
    w = random.random(model.n_weights) + 0.1
    expected = 0.3 * np.eye(8)
    for (u, v), own in zip(ends, scale, strict=True):
        F, at = own[:, None] * rows, [2 * u, 2 * u + 1, 2 * v, 2 * v + 1]
        expected[np.ix_(at, at)] += F.T @ np.diag(w[model.slices[2]]) @ F
    assert np.allclose(Energies(model).at(w).matrix().toarray(), expected)


def test_two_chains_of_different_labels():
    model = chains()
    assert [len(own) for own in model.family.places] == [8, 4, 6]
    w = random_weights(model)
    energies = Energies(model).at(w)
    found = energies.minimise(tol=0.0, allowed=1e-11)
    inside = np.arange(model.n_labels) < model.data.n_states[:, None]
    assert not found.mu[~inside].any()
    for j in range(model.n_examples):
        theta, matrix = dense_energy(model, w, j)
        rows = slice(*model.data.node_ptr[j : j + 2])
        assert found.values[j] == pytest.approx(conic_optimum(theta, matrix, inside[rows]), abs=1e-8)
    explicit = energies.matrix().toarray()
    x = np.random.default_rng(0).normal(size=inside.sum())
    full = np.zeros(inside.shape)
    full[inside] = x
    assert np.allclose(explicit @ x, energies.multiply(full)[inside])
    objective = QPObjective(model, C=5.0)
    check_gradient(objective, w)
    result = ProjectedQuasiNewton(tol=1e-3).fit(objective)
    assert result.termination == Termination.converged
    predicted = predict_convex(model, result.weights)
    assert all((own.labels < model.data.n_states[a:b]).all() for own, a, b in
               zip(predicted, model.data.node_ptr[:-1], model.data.node_ptr[1:], strict=True))  # fmt: skip


def check_gradient(objective, w):
    rng = np.random.default_rng(3)
    objective.tighten(0.0)
    gradient = objective.ask(w).gradient
    for _ in range(3):
        d = rng.normal(size=len(w))
        step = 1e-5
        slope = (objective.ask(w + step * d).value - objective.ask(w - step * d).value) / (2 * step)
        assert slope == pytest.approx(float(gradient @ d), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", FORMS)
def test_gradient_is_that_of_finite_differences(name):
    model, operators = bound(name)
    w = random_weights(model)
    w[model.slices[3]] += 0.5
    check_gradient(QPObjective(model, C=7.0, operators=operators, sample_weight=[1.0, 2.0, 0.5, 1.0]), w)


@pytest.mark.parametrize("name", ["definite", "dictionary", "all"])
def test_objective_is_convex_along_segments_and_above_its_tangents(name):
    model, operators = bound(name)
    objective = QPObjective(model, C=3.0, operators=operators)
    objective.tighten(0.0)
    for seed in range(4):
        a, b = random_weights(model, seed, 2.0), random_weights(model, seed + 100, 2.0)
        ends, middle = [objective.ask(a), objective.ask(b)], objective.ask(0.5 * (a + b))
        square = float((b - a) @ (b - a))
        assert middle.value <= 0.5 * (ends[0].value + ends[1].value) - square / 8 + 1e-7
        for point, own in ((a, ends[0]), (b, ends[1])):
            other = 0.5 * (a + b)
            step = other - point
            assert own.value + own.gradient @ step + 0.5 * step @ step <= middle.value + middle.error + 1e-7


def test_bracket_holds_the_value_at_every_accuracy():
    model, _ = bound("definite")
    w = random_weights(model)
    exact = QPObjective(model, C=3.0)
    exact.tighten(0.0)
    truth = exact.ask(w)
    widths, apart = [], []
    for accuracy in (1.0, 1e-2, 1e-4, 1e-8):
        loose = QPObjective(model, C=3.0, accuracy=accuracy)
        slacks = loose.slacks(w)
        found = loose.ask(w)
        assert found.value <= truth.value + 1e-9 and truth.value <= found.value + found.error + 1e-9
        assert (slacks.lower <= slacks.upper).all() and found.error <= loose.allowed + 1e-12
        for point in (random_weights(model, 11), random_weights(model, 12)):
            step = point - w
            bound_there = found.value + found.gradient @ step + 0.5 * step @ step
            assert bound_there <= exact.ask(point).value + 1e-8
        widths.append(found.error)
        apart.append(np.abs(found.gradient - truth.gradient).max())
    assert widths[-1] < 1e-6 < widths[0] and apart[-1] < 1e-3 < apart[0]


@pytest.mark.parametrize("name", FORMS)
def test_learning_ends_at_a_proven_optimum_with_definite_matrices(name):
    model, operators = bound(name)
    objective = QPObjective(model, C=8.0, operators=operators, n_jobs=2)
    result = ProjectedQuasiNewton(tol=1e-4).fit(objective)
    assert result.termination == Termination.converged and result.guarantee == Guarantee.within_gap
    assert result.relative_gap <= 1e-4
    verified = result.verify(objective)
    assert verified.objective == pytest.approx(result.objective, rel=2e-4)
    assert verified.lower_bound == pytest.approx(result.lower_bound, rel=2e-4)
    for matrix in model.matrices(result.weights):
        assert np.array_equal(matrix, matrix.T)
        if model.spec.form != "none":
            assert np.linalg.eigvalsh(matrix)[0] >= model.spec.floor - 1e-14 * np.abs(matrix).max()
    assert (result.weights[model.slices[3]] >= 0).all()
    exact = objective.exactly(result.weights)
    slacks = objective.slacks(result.weights, 0.0)
    assert exact.value == pytest.approx(0.5 * result.weights @ result.weights + objective.c @ slacks.lower)
    predicted = predict_convex(model, result.weights, operators=operators, tol=1e-9)
    for j, own in enumerate(predicted):
        truth, rows = model.truth(j), slice(*model.data.node_ptr[j : j + 2])
        fractional = float((own.mu * objective.loss_table[rows]).sum())
        assert fractional <= slacks.upper[j] + 1e-7
        assert (own.labels != truth).sum() <= 2 * slacks.upper[j] + 1e-7
        assert own.lower_bound <= own.value <= own.energy + 1e-9


def test_what_the_certificate_refuses():
    model, _ = bound("definite")
    objective = QPObjective(model, C=2.0)
    result = ProjectedQuasiNewton(tol=1e-2).fit(objective)
    outside = result.weights.copy()
    outside[model.slices[2]] = -1.0
    with pytest.raises(CertificateError, match="outside"):
        result.certificate.verify(objective, outside)
    with pytest.raises(CertificateError, match="sum 1"):
        GradientCertificate(result.certificate.points, 2 * result.certificate.alpha).verify(objective, result.weights)


def test_a_checkpoint_goes_on_bit_for_bit(tmp_path):
    model, _ = bound("definite")
    whole = ProjectedQuasiNewton(tol=0.0, max_iter=14).fit(QPObjective(model, C=8.0))
    path = tmp_path / "state"
    ProjectedQuasiNewton(tol=0.0, max_iter=6, checkpoint=path).fit(QPObjective(model, C=8.0))
    on = ProjectedQuasiNewton(tol=0.0, max_iter=14, checkpoint=path)
    again = QPObjective(model, C=8.0)
    resumed = on.fit(again)
    assert np.array_equal(resumed.weights, whole.weights) and resumed.lower_bound == whole.lower_bound
    assert resumed.n_iter == whole.n_iter == 14
    resumed.verify(again)


def test_problems_have_the_energy_as_score():
    for model in (bound("definite")[0], bound("dictionary")[0], chains()):
        w, rng = random_weights(model), np.random.default_rng(2)
        problems = model.problems(w)
        for j, own in enumerate(predict_convex(model, w)):
            assert problems[j].score(own.labels) == pytest.approx(-own.energy, abs=1e-9)
            other = np.array([rng.integers(k) for k in problems[j].n_states])
            assert problems[j].score(other) <= -own.lower_bound + 1e-9


def test_sample_weights_scale_and_set_C():
    model, _ = bound("definite")
    w = random_weights(model)
    one, two = QPObjective(model, C=2.0), QPObjective(model, C=6.0)
    for objective in (one, two):
        objective.tighten(0.0)
    slow = one.ask(w)
    one.set_C(6.0)
    one.tighten(0.0)
    assert one.ask(w).value == pytest.approx(two.ask(w).value, abs=1e-7)
    assert np.allclose(one.ask(w).gradient, two.ask(w).gradient, atol=1e-4) and slow.value < two.ask(w).value


@pytest.mark.parametrize("name", ["definite", "all"])
def test_threads_change_nothing(name):
    model, operators = bound(name, n=9)
    results = [ProjectedQuasiNewton(tol=1e-3).fit(QPObjective(model, C=5.0, operators=operators, n_jobs=k)) for k in (1, 2, 3)]
    for other in results[1:]:
        assert np.array_equal(other.weights, results[0].weights) and other.lower_bound == results[0].lower_bound


@pytest.mark.parametrize("name", ["definite", "operator"])
def test_an_interrupt_inside_the_solver_ends_learning_with_the_best_weights(name, monkeypatch):
    model, operators = bound(name)
    objective = QPObjective(model, C=5.0, operators=operators)
    real, calls = energy.minimise_simplex_qp, []

    def interrupted(*args, **options):
        found = real(*args, **options)
        calls.append(1)
        return replace(found, termination=Termination.interrupted) if len(calls) > 12 else found

    monkeypatch.setattr(energy, "minimise_simplex_qp", interrupted)
    result = ProjectedQuasiNewton(tol=1e-9).fit(objective)
    assert result.termination == Termination.interrupted and len(calls) <= 20  # one more evaluation was begun for the proof
    assert model.project(result.weights) == pytest.approx(result.weights)
    assert result.objective <= result.trace[0].objective


def test_one_label_costs_nothing():
    samples = [GraphSample(np.ones((3, 2)), ms.Graph.chain(3))]
    model = Convex().bind(GraphModel().bind(samples, [[0, 0, 0]], [0]))
    objective = QPObjective(model)
    result = ProjectedQuasiNewton(tol=1e-6).fit(objective)
    assert result.relative_gap <= 1e-6 and result.objective <= 2 * 0.5 * 1e-6
    assert predict_convex(model, result.weights)[0].labels.tolist() == [0, 0, 0]


def test_bad_input():
    model, operators = bound("operator")
    with pytest.raises(InvalidSampleError, match="operators: none given"):
        QPObjective(model)
    with pytest.raises(InvalidSampleError, match="model has none"):
        QPObjective(bound("definite")[0], operators=operators)
    with pytest.raises(InvalidSampleError, match="has shape"):
        Energies(model, operators=[np.eye(3)] * 4)
    n = int(model.data.node_ptr[1])
    skew, negative = np.eye(n), np.eye(n)
    skew[0, 1], negative[2, 2] = 1.0, -1.0
    with pytest.raises(InvalidSampleError, match="not symmetric"):
        Energies(model, operators=[skew] * 4)
    with pytest.raises(InvalidSampleError, match="not positive semidefinite"):
        Energies(model, operators=[csc_matrix(negative)] * 4)
    with pytest.raises(InvalidParameterError, match="C is"):
        QPObjective(model, C=0.0, operators=operators)
    with pytest.raises(InvalidParameterError, match="wanted gaps"):
        Energies(bound("definite")[0]).minimise(allowed=-1.0)
    with pytest.raises(InvalidSampleError, match="w has shape"):
        predict_convex(bound("definite")[0], np.zeros(3))


def odd_models():
    """Models without edges, with empty samples, with many kinds of features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4))
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
    both = np.stack([y > 0, y > 1], axis=1).astype(int)
    small = [
        GraphSample(x[:1], ms.Graph.chain(1)),
        GraphSample(x[:0], ms.Graph.chain(0)),
        GraphSample(x[1:4], ms.Graph.chain(3)),
    ]
    codes = [GraphSample(rng.integers(4, size=4), ms.Graph.chain(4)) for _ in range(3)]
    return {
        "multiclass": (multiclass(x, y, np.arange(3)), x),
        "labels without edges": (MultiLabelModel(ms.Graph.from_edges([], 2)).bind(x, both), x),
        "labels": (MultiLabelModel(ms.Graph.complete(2)).bind(x, both), x),
        "empty samples": (GraphModel().bind(small, [y[:1], y[:0], y[1:4]], [0, 1, 2]), small),
        "no edges": (GraphModel().bind(small[:1] * 2, [y[:1]] * 2, [0, 1, 2]), small[:1]),
        "weights of their own": (GraphModel(homogeneous=False).bind(codes, [rng.integers(2, size=4) for _ in codes]), codes),
    }


@pytest.mark.parametrize("name", odd_models())
def test_odd_models_learn_and_predict(name):
    base, inputs = odd_models()[name]
    for form in ("definite", "dictionary", "none"):
        model = Convex(form).bind(base)
        objective = QPObjective(model, C=10.0)
        check_gradient(QPObjective(model, C=10.0), random_weights(model))
        result = ProjectedQuasiNewton(tol=1e-3).fit(objective)
        assert result.termination == Termination.converged
        result.verify(objective)
        new, known = predict_convex(model, result.weights, inputs), predict_convex(model, result.weights)
        assert all(np.array_equal(a.labels, b.labels) for a, b in zip(new, known, strict=False))
