"""Likelihoods: sums and marginals against enumeration, gradients, the bound on loopy graphs, and the proven gap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from factories.samples import mixed_model, multi_label_model, random_model

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from maxsum.core.result import Guarantee, Termination
from maxsum.inference.sums.log_partition import LogPartition
from maxsum.learning import LikelihoodObjective, MarginObjective, MaximumLikelihood, ProjectedQuasiNewton
from maxsum.learning.objectives.likelihood import log_partition, marginals
from maxsum.models import GraphModel, GraphSample
from maxsum.models.joint_model import JointModel

CHAIN, TREE = ms.Graph.chain(4), ms.Graph.from_edges([(1, 0), (1, 2), (3, 1)])
LOOP = ms.Graph.from_edges([(1, 0), (1, 2), (2, 0), (2, 3), (4, 3), (4, 2)])
GRAPHS = {
    "chain": CHAIN,
    "tree": TREE,
    "star": ms.Graph.from_edges([(0, i) for i in range(1, 6)]),
    "isolated": ms.Graph.from_edges([], n_nodes=3),
    "forest": ms.Graph.from_edges([(4, 0), (2, 5)], n_nodes=6),
    "one": ms.Graph.from_edges([], n_nodes=1),
    "cycle": ms.Graph.from_edges([(2, 0), (3, 2), (0, 3), (1, 3)], n_nodes=5),
    "grid": ms.Graph.grid(2, 3),
    "complete": ms.Graph.complete(4),
}
LOOPY = ("cycle", "grid", "complete")


def enumerated(graph, states, unary, tables):
    """log Z, node marginals and edge marginals, labelling by labelling, in extended precision."""
    labels = np.array(list(itertools.product(*[range(k) for k in states])))
    score = np.zeros(len(labels), dtype=np.longdouble)
    for v in range(len(states)):
        score += unary[v, labels[:, v]]
    for e, (u, v) in enumerate(graph.edges):
        score += tables[e][labels[:, u], labels[:, v]]
    log_z = score.max() + np.log(np.exp(score - score.max()).sum())
    p = np.exp(score - log_z)
    node, edge = np.zeros(unary.shape), np.zeros((graph.n_edges, unary.shape[1], unary.shape[1]))
    for v in range(len(states)):
        np.add.at(node[v], labels[:, v], p)
    for e, (u, v) in enumerate(graph.edges):
        np.add.at(edge[e], (labels[:, u], labels[:, v]), p)
    return float(log_z), node, edge


def union(scale, hard, n_labels=3, seed=0):
    """All graphs as one union, with nodes of 1 to 3 labels and few tables that edges share."""
    random, graphs = np.random.default_rng(seed), list(GRAPHS.values())
    node_ptr = np.cumsum([0] + [g.n_nodes for g in graphs])
    edge_ptr = np.cumsum([0] + [g.n_edges for g in graphs])
    states = random.integers(1, n_labels + 1, size=node_ptr[-1]).astype(np.int32)
    unary = scale * random.standard_normal((node_ptr[-1], n_labels))
    unary[np.arange(n_labels) >= states[:, None]] = -np.inf
    bank = scale * random.standard_normal((3, n_labels, n_labels))
    if hard:
        bank[0, 0, 1] = bank[1, 2, 2] = unary[1, 0] = -np.inf
        states[1] = n_labels
    table, weight = random.integers(3, size=edge_ptr[-1]).astype(np.int32), random.choice([1.0, 0.5], size=edge_ptr[-1])
    structure = (graphs, node_ptr, edge_ptr, ms.Graph.union(graphs).edges, states, table, weight, n_labels)
    return structure, unary, bank


def references(structure, unary, bank):
    graphs, node_ptr, edge_ptr, _, states, table, weight, _ = structure
    for j, graph in enumerate(graphs):
        nodes, edges = slice(node_ptr[j], node_ptr[j + 1]), slice(edge_ptr[j], edge_ptr[j + 1])
        own = bank[table[edges]] * weight[edges, None, None]
        yield nodes, edges, enumerated(graph, states[nodes], unary[nodes], own)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 30.0, 500.0, 1e5])
@pytest.mark.parametrize("hard", [False, True])
def test_sums_and_marginals_are_those_of_enumeration(scale, hard):
    structure, unary, bank = union(scale, hard)
    part = LogPartition(*structure, each=True)
    assert part.exact.all()
    found = part(unary, bank)
    np.testing.assert_array_equal(found.lower, found.upper)
    for j, (nodes, edges, (log_z, node, edge)) in enumerate(references(structure, unary, bank)):
        assert found.upper[j] == pytest.approx(log_z, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(found.node[nodes], node, atol=1e-9)
        np.testing.assert_allclose(found.edge[edges], edge, atol=1e-9)


def alone(graph, n_labels, **options):
    """One graph whose edges share a table."""
    n, m = graph.n_nodes, graph.n_edges
    states, table = np.full(n, n_labels, dtype=np.int32), np.zeros(m, dtype=np.int32)
    ends = np.array([0, n]), np.array([0, m])
    return LogPartition([graph], *ends, graph.edges, states, table, np.ones(m), n_labels, **options)


def test_products_and_logarithms_agree_where_both_work():
    """A component with one faint label is summed in logarithms; without it, in products."""
    graph, random = ms.Graph.chain(6), np.random.default_rng(1)
    unary, bank = random.standard_normal((6, 4)), random.standard_normal((1, 4, 4))
    faint = unary.copy()
    faint[2, 3] = -800.0
    results = []
    for own in (unary, faint):
        part = alone(graph, 4, each=True)
        results.append(part(own, bank))
        log_z, _, edge = enumerated(graph, [4] * 6, own, np.repeat(bank, 5, axis=0))
        assert results[-1].upper[0] == pytest.approx(log_z, rel=1e-13)
        np.testing.assert_allclose(results[-1].edge, edge, atol=1e-12)
    assert results[0].upper[0] > results[1].upper[0]


def test_wide_stars_and_long_chains_do_not_underflow():
    for graph in (ms.Graph.from_edges([(0, i) for i in range(1, 20001)]), ms.Graph.chain(20001)):
        n = graph.n_nodes
        found = alone(graph, 2)(np.zeros((n, 2)), np.array([[[-3.0, -4.0], [-4.0, -3.0]]]))
        assert found.upper[0] == pytest.approx(np.log(2) + (n - 1) * np.log(np.exp(-3) + np.exp(-4)), rel=1e-12)
        np.testing.assert_allclose(found.node, 0.5, atol=1e-9)


def test_infeasible_problems_have_no_mass():
    found = alone(ms.Graph.chain(2), 2)(np.zeros((2, 2)), np.full((1, 2, 2), -np.inf))
    assert found.upper[0] == -np.inf and not found.node.any() and not found.edge.any()


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 10.0])
def test_on_loopy_graphs_the_bound_is_above_and_its_bracket_closes(scale):
    structure, unary, bank = union(scale, False, seed=3)
    part = LogPartition(*structure, each=True, max_cells=0)
    assert [name for name, exact in zip(GRAPHS, part.exact, strict=True) if not exact] == list(LOOPY)
    rough, fine = part(unary, bank, max_rounds=0), part(unary, bank)
    exact = np.array([own[2][0] for own in references(structure, unary, bank)])
    assert (fine.upper - fine.lower <= 2e-9).all() and (fine.upper >= exact - 1e-9).all()
    assert (rough.upper >= fine.lower - 1e-9).all() and (rough.lower <= fine.upper + 1e-9).all()
    np.testing.assert_allclose(fine.node.sum(axis=1), 1.0, atol=1e-12)
    edges = structure[3]
    np.testing.assert_allclose(fine.edge.sum(axis=2), fine.node[edges[:, 0]], atol=1e-9)
    np.testing.assert_allclose(fine.edge.sum(axis=1), fine.node[edges[:, 1]], atol=1e-9)
    if scale <= 1e-3:
        np.testing.assert_allclose(fine.upper, exact, atol=1e-4)


def test_the_bound_holds_for_any_messages():
    structure, unary, bank = union(1.0, False, seed=4)
    exact = np.array([own[2][0] for own in references(structure, unary, bank)])
    part, random = LogPartition(*structure, max_cells=0), np.random.default_rng(0)
    best = part(unary, bank)
    for size in (0.1, 1.0, 10.0):
        part.reweighted.messages[:] = size * random.standard_normal(part.reweighted.messages.shape)
        found = part(unary, bank, max_rounds=0)
        assert (found.upper >= exact - 1e-9).all() and (found.lower <= best.upper + 1e-9).all()
        assert (found.upper - exact)[~part.exact].min() > 1e-3


def objective_of(graph=TREE, n_labels=3, potentials="general", C=7.0, n_examples=3, **options):
    return LikelihoodObjective(random_model(graph, n_labels, n_examples, potentials=potentials), C=C, **options)


def mixed_objective(**options):
    model = mixed_model([(0, 4), (3, 0), (4, 1)])
    return LikelihoodObjective(model, C=5.0, sample_weight=[1.0, 2.0, 1.0, 0.5], **options)


def multi_label_objective(**options):
    return LikelihoodObjective(multi_label_model(), C=5.0, **options)


def sparse_objective(**options):
    """Feature dicts, a chain, and a tied Potts table: maps that are not plain ranges of weights."""
    words = [[{"w": str(i % 3), "x": 0.5 * i} for i in range(n)] for n in (3, 1, 4)]
    samples = [GraphSample(own, ms.Graph.chain(len(own))) for own in words]
    model = GraphModel(potentials="potts", bias=True).bind(samples, [[0, 1, 2], [1], [2, 2, 0, 1]], classes=np.arange(3))
    return LikelihoodObjective(model, C=3.0, **options)


def joint_objective(**options):
    def node(sample):
        return sample.X.reshape(-1, 2) @ np.array([[1.0, 0, 2, 0], [0, 1, 0, 1]])

    def edge(sample):
        return np.tile(np.array([[0.0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0]]), (sample.graph.n_edges, 1))

    random = np.random.default_rng(2)
    samples = [GraphSample(random.standard_normal((n, 4)), ms.Graph.chain(n)) for n in (3, 2)]
    model = JointModel(node, edge, 4).bind(samples, [[0, 1, 1], [1, 0]])
    return LikelihoodObjective(model, C=2.0, **options)


MAKERS = [objective_of, mixed_objective, sparse_objective, joint_objective, multi_label_objective]


def by_enumeration(objective, w):
    value = 0.5 * w @ w
    for j, problem in enumerate(objective.model.problems(w)):
        tables = problem.tables[problem.edge_table] * problem.edge_weight[:, None, None]
        log_z = enumerated(problem.graph, problem.n_states, problem.unary, tables)[0]
        value += objective.c[j] * (log_z - problem.score(objective.model.truth(j)))
    return value


@pytest.mark.parametrize("make", MAKERS)
def test_values_and_gradients(make):
    objective, random = make(), np.random.default_rng(1)
    w = random.standard_normal(objective.n_weights)
    w = objective.project(w)
    found = objective.ask(w)
    assert found.error == 0.0 and objective.exact.all()
    assert found.value == pytest.approx(by_enumeration(objective, w), rel=1e-12)
    assert objective.evaluate(w) == pytest.approx(found.value, rel=1e-12)
    for _ in range(5):
        d = random.standard_normal(w.shape)
        rise = objective.ask(w + 1e-5 * d).value - objective.ask(w - 1e-5 * d).value
        assert rise / 2e-5 == pytest.approx(found.gradient @ d, rel=1e-6, abs=1e-6)
        assert objective.ask(w + d).value >= found.value + found.gradient @ d + 0.5 * d @ d - 1e-9


@pytest.mark.parametrize("make", [lambda **o: objective_of(LOOP, **o), mixed_objective, multi_label_objective])
def test_bounds_are_brackets_with_tangents_below_and_never_under_the_likelihood(make):
    exact, rough, fine = make(), make(max_cells=0, max_rounds=1), make(max_cells=0)
    assert exact.exact.all() and not fine.exact.all()
    fine.allowed, random = 1e-10, np.random.default_rng(2)
    w = random.standard_normal(exact.n_weights)
    found, best = rough.ask(w), fine.ask(w)
    assert best.error <= 1e-9 < found.error
    assert best.value >= exact.ask(w).value - 1e-9
    assert found.value <= best.value + 1e-9 and best.value <= found.value + found.error + 1e-9
    for _ in range(5):
        d = random.standard_normal(w.shape)
        assert fine.ask(w + d).value >= found.value + found.gradient @ d + 0.5 * d @ d - 1e-8
        rise = fine.ask(w + 1e-5 * d).value - fine.ask(w - 1e-5 * d).value
        assert rise / 2e-5 == pytest.approx(best.gradient @ d, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("make", MAKERS)
def test_the_optimum_is_that_of_an_independent_solver_and_the_gap_is_real(make):
    optimize = pytest.importorskip("scipy.optimize")
    objective = make()
    nonneg = set(np.flatnonzero(objective.cone.nonneg).tolist())
    limits = [(0.0, None) if i in nonneg else (None, None) for i in range(objective.n_weights)]
    best = optimize.minimize(
        lambda w: by_enumeration(objective, w), np.zeros(objective.n_weights), method="L-BFGS-B", bounds=limits,
        options={"ftol": 1e-13, "gtol": 1e-9, "maxfun": 100000},
    )  # fmt: skip
    for tol in (1e-2, 1e-6):
        result = MaximumLikelihood(tol=tol).fit(objective)
        assert result.termination == Termination.converged and result.relative_gap <= tol
        assert result.lower_bound <= best.fun * (1 + 1e-9) and result.objective >= best.fun * (1 - 1e-7)
        assert result.extra["sums"] == "exact" and result.guarantee in (Guarantee.within_gap, Guarantee.optimal)
        check = result.verify(objective)
        assert check.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
        assert check.objective == pytest.approx(result.objective, rel=1e-9)
    assert result.objective == pytest.approx(best.fun, rel=2e-6)


def test_the_optimum_is_that_of_a_conic_solver():
    cvxpy = pytest.importorskip("cvxpy", reason="the reference needs cvxpy")
    objective = objective_of(potentials="associative", n_examples=4)
    w, total = cvxpy.Variable(objective.n_weights), 0
    for j in range(objective.n_examples):
        labellings = [np.array(y) for y in itertools.product(range(3), repeat=4)]
        features = np.array([objective.model.feature(j, y) for y in labellings])
        total += objective.c[j] * (cvxpy.log_sum_exp(features @ w) - objective.model.feature(j, objective.model.truth(j)) @ w)
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + total), [w[objective.cone.nonneg] >= 0])
    best = problem.solve(solver="CLARABEL")
    result = MaximumLikelihood(tol=1e-7).fit(objective)
    assert result.lower_bound <= best * (1 + 1e-6) and result.objective == pytest.approx(best, rel=1e-6)
    assert (result.weights[objective.cone.nonneg] >= 0).all() and (result.weights[objective.cone.nonneg] == 0).any()


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative"])
def test_training_with_bounds_proves_its_gap(potentials):
    objective = objective_of(LOOP, potentials=potentials, max_cells=0)
    exact = MaximumLikelihood(tol=1e-6).fit(objective_of(LOOP, potentials=potentials))
    result = MaximumLikelihood(tol=1e-5).fit(objective)
    assert result.termination == Termination.converged and result.relative_gap <= 1.01e-5
    assert result.extra["sums"] == "bound" and result.objective >= exact.lower_bound
    assert objective.cone.contains(result.weights)
    check = result.verify(objective)
    assert check.lower_bound == pytest.approx(result.lower_bound, rel=1e-4)
    near = objective_of(LOOP, potentials=potentials, max_cells=0)
    near.allowed, random = 1e-8, np.random.default_rng(0)
    for _ in range(20):
        step = 0.01 * random.standard_normal(objective.n_weights)
        assert near.ask(near.project(result.weights + step)).value >= result.lower_bound - 1e-7


def test_a_false_certificate_is_refused():
    objective = objective_of()
    result = MaximumLikelihood().fit(objective)
    proof = result.certificate
    with pytest.raises(CertificateError):
        type(proof)(proof.points, -proof.alpha).verify(objective, result.weights)


def test_weights_of_samples_count_as_repetition_and_unknown_nodes_are_left_out():
    random = np.random.default_rng(0)
    x, y = [random.standard_normal((4, 2)) for _ in range(3)], [random.integers(3, size=4) for _ in range(3)]
    samples = [GraphSample(own, CHAIN) for own in x]

    def fitted(which, labels, weight=None, C=5.0):
        model = GraphModel().bind([samples[j] for j in which], labels, classes=np.arange(3))
        return MaximumLikelihood(tol=1e-9).fit(LikelihoodObjective(model, C, weight)).weights

    twice = fitted([0, 1, 1, 2], [y[0], y[1], y[1], y[2]])
    np.testing.assert_allclose(fitted([0, 1, 2], y, [1.0, 2.0, 1.0]), twice, atol=1e-4)
    np.testing.assert_allclose(fitted([0, 1, 2], y, [1.0, 0.0, 1.0]), fitted([0, 2], [y[0], y[2]]), atol=1e-4)
    cut = [np.array([0, -1, 2, 1])]
    parts = [GraphSample(x[0][[0]], ms.Graph.chain(1)), GraphSample(x[0][2:], ms.Graph.chain(2))]
    model = GraphModel().bind(parts, [[0], [2, 1]], classes=np.arange(3))
    apart = MaximumLikelihood(tol=1e-9).fit(LikelihoodObjective(model, 5.0)).weights
    np.testing.assert_allclose(fitted([0], cut), apart, atol=1e-4)


def test_threads_change_nothing():
    one, two = (MaximumLikelihood(tol=1e-6).fit(objective_of(CHAIN, n_examples=9, n_jobs=n)) for n in (1, 2))
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-7, atol=1e-9)


def test_limits_callbacks_and_interrupts_leave_a_bracket():
    objective = objective_of(CHAIN, n_examples=8, C=100.0)
    best = MaximumLikelihood(tol=1e-7).fit(objective)

    def interrupt(point):
        if point.iteration == 3:
            raise KeyboardInterrupt

    for result, why in (
        (MaximumLikelihood(tol=1e-9, time_limit=0.0).fit(objective), Termination.time_limit),
        (MaximumLikelihood(tol=1e-9).fit(objective, callback=lambda point: point.iteration >= 3), Termination.stopped),
        (MaximumLikelihood(tol=1e-9, max_iter=4).fit(objective), Termination.iteration_limit),
        (MaximumLikelihood(tol=1e-9).fit(objective, callback=interrupt), Termination.interrupted),
    ):
        assert result.termination == why
        assert result.lower_bound <= best.objective and best.lower_bound <= result.objective


@pytest.mark.parametrize("options", [{}, {"max_cells": 0}])
def test_a_checkpoint_is_gone_on_from(tmp_path, options):
    objective, file = objective_of(LOOP, C=50.0, **options), tmp_path / "state"
    straight = MaximumLikelihood(tol=1e-6).fit(objective)
    MaximumLikelihood(tol=1e-6, max_iter=5, checkpoint=file).fit(objective_of(LOOP, C=50.0, **options))
    resumed = MaximumLikelihood(tol=1e-6, checkpoint=file).fit(objective_of(LOOP, C=50.0, **options))
    assert resumed.n_iter > 5 and resumed.objective == pytest.approx(straight.objective, rel=2e-6)
    assert resumed.termination == Termination.converged


def test_marginals_of_new_samples():
    objective, random = objective_of(), np.random.default_rng(7)
    w = random.standard_normal(objective.n_weights)
    samples = [GraphSample(random.standard_normal((g.n_nodes, 2)), g) for g in (TREE, LOOP, CHAIN)]
    for own, problem in zip(marginals(objective.model, w, samples), objective.model.problems(w, samples), strict=True):
        tables = problem.tables[problem.edge_table] * problem.edge_weight[:, None, None]
        log_z, node, edge = enumerated(problem.graph, problem.n_states, problem.unary, tables)
        assert own.exact and own.log_z == pytest.approx(log_z, rel=1e-12) == log_partition(problem)
        np.testing.assert_allclose(own.node, node, atol=1e-12)
        np.testing.assert_allclose(own.edge, edge, atol=1e-12)
    loose = marginals(objective.model, w, samples, max_cells=0)
    assert [own.exact for own in loose] == [True, False, True]
    assert marginals(objective.model, w, []) == []


def test_one_label_and_one_node():
    model = GraphModel().bind([GraphSample(np.ones((2, 1)), ms.Graph.chain(2))], [[0, 0]], classes=[0])
    result = MaximumLikelihood().fit(LikelihoodObjective(model))
    assert result.objective == 0.0 and not result.weights.any() and result.guarantee == Guarantee.optimal


def test_bad_input():
    objective = objective_of()
    for C in (0.0, -1.0, np.nan, True):
        with pytest.raises(InvalidParameterError, match="C is"):
            LikelihoodObjective(objective.model, C=C)
    with pytest.raises(InvalidSampleError, match="sample_weight"):
        LikelihoodObjective(objective.model, sample_weight=[1.0])
    with pytest.raises(InvalidSampleError, match="without labels"):
        LikelihoodObjective(GraphModel().bind([GraphSample(np.ones((2, 1)), ms.Graph.chain(2))], classes=[0, 1]))
    weighted = GraphSample(np.ones((2, 1)), ms.Graph.chain(2), node_weights=[1.0, 2.0])
    with pytest.raises(InvalidSampleError, match="node_weights"):
        LikelihoodObjective(GraphModel().bind([weighted], [[0, 1]]))
    with pytest.raises(UnsupportedProblemError, match="HasSums"):
        MaximumLikelihood().fit(MarginObjective(objective.model))
    with pytest.raises(InvalidSampleError, match="init"):
        ProjectedQuasiNewton().fit(objective, init=np.zeros(3))
