"""The QP relaxation of a max-sum problem: its value, bound and certificate against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from factories.problems import random_problem
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.certificates.quadratic import QPCertificate
from maxsum.inference.relaxations.qp import QPRelaxation, relax
from maxsum.qp.simplex import minimise_simplex_qp


def shifted(rng, rows, cols):
    return 100 + rng.normal(size=(rows, cols))


KINDS = [
    dict(n_labels=5, unequal=True, offset=3.0),
    dict(shared=True, weights=(-2.0, 2.0)),
    dict(table=shifted, forbidden=0.3),
    dict(table=shifted),
]


def small(seed):
    return random_problem(seed, (1, 6), density=0.7, **KINDS[seed % 4])


def enumerate_scores(problem):
    return {y: problem.score(y) for y in itertools.product(*(range(k) for k in problem.n_states))}


def reference_value(problem, relaxed, mu):
    """``f(mu)``, summed term by term from its definition with the reparametrised tables."""
    messages, states = relaxed.messages, problem.n_states
    alive = ~np.isneginf(problem.unary)
    total, d = problem.offset, np.zeros(mu.shape)
    for v in range(problem.n_nodes):
        total += sum(mu[v, k] * problem.unary[v, k] for k in range(states[v]) if alive[v, k])
    for e, (u, v) in enumerate(problem.graph.edges.tolist()):
        table = problem.tables[problem.edge_table[e], : states[u], : states[v]] * problem.edge_weight[e]
        total += mu[u, : states[u]] @ table @ mu[v, : states[v]]
        moved = table - table.max() + messages.edge[0, e, : states[u], None] + messages.edge[1, e, None, : states[v]]
        moved = np.abs(moved) * alive[u, : states[u], None] * alive[v, None, : states[v]]
        d[u, : states[u]] += moved.sum(axis=1) / 2
        d[v, : states[v]] += moved.sum(axis=0) / 2
    return total + (d * (mu - mu**2)).sum()


@pytest.mark.parametrize("block", range(5))
def test_the_bound_holds_and_the_certificate_verifies(block):
    for seed in (80 * block + own for own in seeds(80)):
        problem = small(seed)
        scores = enumerate_scores(problem)
        best = max(scores.values())
        result = QPRelaxation().solve(problem)
        slip = problem.resolution + 1e-12 * abs(best)
        assert result.bound >= best - slip, seed
        assert result.score <= best + slip and np.isfinite(result.score), seed
        result.certificate.verify(problem, result.labels, score=result.score, bound=result.bound)
        if result.guarantee == "optimal":
            assert result.score == pytest.approx(best, abs=slip), seed
        np.testing.assert_allclose(result.marginals.sum(axis=1), 1, atol=1e-12)
        relaxed = relax(problem)
        found = minimise_simplex_qp(relaxed.theta, relaxed.form, tol=1e-9)
        assert relaxed.constant - found.value + found.gap >= best - slip
        assert relaxed.constant - found.value == pytest.approx(
            reference_value(problem, relaxed, found.mu), rel=1e-10, abs=1e-10
        )
        proven = QPCertificate(found.mu, relaxed.messages).bound(problem)
        assert proven == pytest.approx(relaxed.constant - found.value + found.gap, rel=1e-9, abs=1e-9)
        for y, score in itertools.islice(scores.items(), 20):
            if np.isfinite(score):
                assert reference_value(problem, relaxed, np.eye(problem.n_labels)[list(y)]) == pytest.approx(score, abs=1e-9)


def test_the_certificate_is_valid_at_any_point_with_any_reparametrisation():
    for seed in seeds(120):
        problem, rng = small(seed), np.random.default_rng(seed)
        scores = enumerate_scores(problem)
        best = max(scores.values())
        mu = 10.0 ** rng.integers(-2, 3) * rng.normal(size=problem.unary.shape)
        messages = problem.zero_messages()
        messages.edge[:] = rng.normal(size=messages.edge.shape) * rng.choice([0.0, 1.0, 10.0])
        certificate = QPCertificate(mu, messages)
        bound = certificate.bound(problem)
        assert bound >= best - problem.resolution, seed
        for y in itertools.islice((y for y, score in scores.items() if np.isfinite(score)), 30):
            proven, gap, _ = certificate.evaluate(problem, np.array(y))
            exactly, above = certificate.evaluate_exactly(problem, np.array(y))
            assert best - scores[y] - 1e-12 <= float(above) <= gap == pytest.approx(float(above), rel=1e-9, abs=1e-9)
            assert float(exactly) == pytest.approx(proven, rel=1e-9, abs=1e-9)
            assert gap >= best - scores[y] - problem.resolution
            assert proven == pytest.approx(bound, rel=1e-9, abs=1e-9)
        with pytest.raises(ms.CertificateError):
            certificate.verify(problem, bound=bound - 1e-3 - 1e-6 * abs(bound))


def test_broken_certificates_are_refused():
    problem = small(1)
    messages = problem.zero_messages()
    for mu in (np.zeros((1, 1)), np.full(problem.unary.shape, np.nan), np.zeros(problem.unary.shape, dtype=int)):
        with pytest.raises(ms.CertificateError, match="wanted finite numbers of shape"):
            QPCertificate(mu, messages).bound(problem)
    hard = ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), [[0, -np.inf], [0, 0]])
    with pytest.raises(ms.CertificateError, match="finite tables"):
        QPCertificate(np.zeros((2, 2)), hard.zero_messages()).bound(hard)
    clique = ms.Problem(ms.Graph.from_edges([], 2), np.zeros((2, 2)), cliques=[([0, 1], [1.0, 1.0])])
    with pytest.raises(ms.CertificateError, match="without cliques"):
        QPCertificate(np.zeros((2, 2)), clique.zero_messages()).bound(clique)


@pytest.mark.parametrize("seed", range(5))
def test_a_tight_relaxation_is_integral_and_proves_optimality(seed):
    rng = np.random.default_rng(seed)
    unary = rng.normal(size=(36, 4))
    unary[np.arange(36), rng.integers(4, size=36)] += 12.0
    problem = ms.Problem(ms.Graph.grid(6, 6), unary, 0.5 * rng.normal(size=(60, 4, 4)))
    result = QPRelaxation(tol=1e-12).solve(problem)
    assert result.guarantee == "optimal" and isinstance(result.certificate, QPCertificate)
    assert ((result.marginals == 0) | (result.marginals == 1)).all()
    assert result.score == pytest.approx(ms.solve(problem).score)


def test_moving_medians_to_the_nodes_tightens_the_relaxation():
    rng = np.random.default_rng(0)
    graph, unary = ms.Graph.grid(5, 5), rng.normal(size=(25, 4))
    plain = rng.normal(size=(40, 4, 4))
    shifted = plain + 5 * rng.normal(size=(40, 4, 1)) + 5 * rng.normal(size=(40, 1, 4))
    problem = ms.Problem(graph, unary, shifted)
    relaxed = relax(problem)
    zero = problem.zero_messages()
    mu = QPRelaxation().solve(problem).marginals
    assert QPCertificate(mu, relaxed.messages).bound(problem) < QPCertificate(mu, zero).bound(problem) - 10
    assert relaxed.form.rows.diagonal.sum() <= 2 * np.abs(plain).sum()


@pytest.mark.parametrize("seed", range(4))
def test_plain_is_the_published_convexification(seed):
    """(8) of the paper, dense: energies are minus scores, the diagonal is the sum of sizes of each row, and half of it is taken off the nodes."""
    problem = small(seed)
    n, K = problem.unary.shape
    matrix = np.zeros((n, K, n, K))
    for e, (u, v) in enumerate(problem.graph.edges):
        a, b = problem.n_states[u], problem.n_states[v]
        table = (problem.tables[problem.edge_table[e]] * problem.edge_weight[e])[:a, :b]
        matrix[u, :a, v, :b] -= table
        matrix[v, :b, u, :a] -= table.T
    matrix = matrix.reshape(n * K, n * K)
    inside = np.isfinite(problem.unary) & (np.arange(K) < problem.n_states[:, None])
    matrix[~inside.ravel()] = matrix[:, ~inside.ravel()] = 0.0
    diagonal = np.abs(matrix).sum(axis=1)
    theta = np.where(inside, -problem.unary, 0.0).ravel() - 0.5 * diagonal
    matrix += np.diag(diagonal)
    assert np.linalg.eigvalsh(matrix).min() >= -1e-9 * max(1.0, np.abs(matrix).max())
    relaxed = relax(problem, True)
    random = np.random.default_rng(seed)
    for _ in range(5):
        mu = np.where(inside, random.random((n, K)), 0.0)
        mu /= mu.sum(axis=1, keepdims=True)
        x = mu.ravel()
        assert reference_value(problem, relaxed, mu) == pytest.approx(
            problem.offset - theta @ x - 0.5 * x @ matrix @ x, rel=1e-9, abs=1e-9
        )
    best = max(enumerate_scores(problem).values())
    result = QPRelaxation(plain=True).solve(problem)
    check = result.certificate.verify(problem, result.labels)
    assert best <= result.bound + 1e-9 and check.bound == pytest.approx(result.bound)


def test_the_published_convexification_depends_on_constants():
    rng = np.random.default_rng(0)
    unary, tables = rng.normal(size=(16, 3)), rng.normal(size=(24, 3, 3))
    low, high = (ms.Problem(ms.Graph.grid(4, 4), unary, tables + constant) for constant in (0.0, 5.0))
    plain = [QPRelaxation(plain=True).solve(own).bound - 24 * more for own, more in ((low, 0.0), (high, 5.0))]
    moved = [QPRelaxation().solve(own).bound - 24 * more for own, more in ((low, 0.0), (high, 5.0))]
    assert plain[1] > plain[0] + 1 and moved[1] == pytest.approx(moved[0], rel=1e-4) and moved[0] < plain[0]


def test_tables_of_a_bank_stay_shared():
    problem = ms.Problem(ms.Graph.grid(20, 20), np.random.default_rng(0).normal(size=(400, 5)), 0.3 * np.eye(5))
    relaxed = relax(problem)
    assert relaxed.form.rows.bank.shape == (2, 5, 5)
    np.testing.assert_allclose(relaxed.form.rows.diagonal, 0.3 * problem.graph.degrees[:, None] * np.ones(5))


def test_the_message_states_the_value_and_its_gap():
    problem = small(1)
    result = QPRelaxation().solve(problem)
    assert "the QP relaxation has the value" in result.message and "up to" in result.message


def test_a_warm_start_from_a_result_needs_fewer_iterations():
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.grid(10, 10), rng.normal(size=(100, 4)), 0.3 * rng.normal(size=(180, 4, 4)))
    first = QPRelaxation().solve(problem)
    assert isinstance(first.certificate, QPCertificate)
    again = QPRelaxation().solve(problem, init=first)
    assert again.n_iter < first.n_iter and again.bound <= first.bound and again.score >= first.score
    informed = QPRelaxation().solve(problem, init=ms.inference.TRWS().solve(problem))
    assert informed.bound < first.bound and informed.guarantee in ("optimal", "within_gap")


@pytest.mark.parametrize(("option", "value"), [("tol", 1e-2), ("max_iter", 2)])
def test_options_shorten_the_run(option, value):
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.grid(8, 8), rng.normal(size=(64, 4)), rng.normal(size=(112, 4, 4)))
    short, long = QPRelaxation(**{option: value}).solve(problem), QPRelaxation().solve(problem)
    assert short.n_iter < long.n_iter
    assert short.termination == ("converged" if option == "tol" else "iteration_limit")
    assert short.bound >= long.bound - 1e-3


@pytest.mark.parametrize("options", [dict(tol=-1.0), dict(tol=np.nan), dict(max_iter=-1)])
def test_bad_options_are_refused(options):
    with pytest.raises(ms.InvalidParameterError, match=f"QPRelaxation: {next(iter(options))} is"):
        QPRelaxation(**options)


def test_what_it_does_not_take_is_refused_with_a_reason():
    hard = ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), [np.zeros((2, 2)), np.array([[0, -np.inf], [0, 0]])])
    support = QPRelaxation().supports(hard)
    assert not support and "edge 1 (nodes 1-2) forbids" in support.reason and support.witness == 1
    clique = ms.Problem(ms.Graph.from_edges([], 2), np.zeros((2, 2)), cliques=[([0, 1], [1.0, 1.0])])
    with pytest.raises(ms.UnsupportedProblemError, match="takes no cliques"):
        QPRelaxation().solve(clique)
