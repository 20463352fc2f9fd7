"""LinearProgram: its value, its duals as a certificate, its rounding, and what it must not claim."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from contracts.common import check_result
from reference.dense_lp import local_polytope_value
from reference.families import FAMILIES, make
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.rounding import guaranteed_score
from maxsum.inference.exact.tree import TreeDP
from maxsum.inference.moves.icm import polish
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations import linear_program
from maxsum.inference.relaxations.linear_program import LinearProgram

TIGHT = ["chain", "tree", "forest_with_isolated_nodes", "one_node", "no_edges", "no_nodes", "hard_tree", "single_label"]
TIGHT += ["binary_supermodular", "ordered_supermodular", "cliques_binary", "cliques_binary_with_supermodular_edges"]


def lp_value(raw):
    """Value of the dense reference, built from scores without their common constants."""
    top = [row.max() for row in raw.unary]
    peak = [table[np.isfinite(table)].max() if np.isfinite(table).any() else 0.0 for table in raw.tables]
    moved = dataclasses.replace(
        raw,
        unary=[row - t for row, t in zip(raw.unary, top, strict=True)],
        tables=[table - t for table, t in zip(raw.tables, peak, strict=True)],
        offset=0.0,
    )
    constant = raw.offset + sum(top) + sum(t * w for t, w in zip(peak, raw.weights, strict=True))
    return local_polytope_value(moved), constant


@pytest.mark.parametrize("family", FAMILIES)
def test_bound_is_the_value_of_the_relaxation(family):
    for seed in range(6):
        case = make(family, seed)
        result = LinearProgram().solve(case.problem)
        check_result(case, result)
        value, constant = lp_value(case.raw)
        if np.isneginf(value):
            assert result.labels is None
            continue
        room = 1e-6 * case.raw.spreads.sum() + 1e-15 * abs(constant)
        if any(isinstance(function, ms.factors.AllDifferent) for function in case.problem.factors.functions):
            # all-different factors are written with edges, whose relaxation is larger than theirs
            assert result.certificate.bound(case.problem) - constant >= value - room, (case, result, value)
            continue
        assert abs(result.certificate.bound(case.problem) - constant - value) <= room, (case, result, value)
        assert result.termination == "converged"
        if family in TIGHT:
            assert result.guarantee == ("optimal" if case.raw.feasible else "infeasible"), (case, result)


def test_marginals_reach_the_bound():
    for seed in seeds(10):
        case = make("complete", seed)
        result = LinearProgram().solve(case.problem)
        np.testing.assert_allclose(result.marginals.sum(axis=1), 1.0, atol=1e-9)
        if result.guarantee == "optimal":
            value = result.marginals[np.arange(case.problem.n_nodes), result.labels]
            assert value.min() > 0.2


def test_frustrated_triangle_is_not_called_optimal():
    problem = ms.Problem(ms.Graph.complete(3), np.zeros((3, 2)), -np.eye(2))
    result = LinearProgram().solve(problem)
    assert result.score == -1.0 and result.bound == pytest.approx(0.0, abs=1e-9) and result.guarantee == "within_gap"
    np.testing.assert_allclose(result.marginals, 0.5)
    assert np.array_equal(LinearProgram().solve(problem).labels, result.labels)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_large_integral_programs_are_proven_optimal(scale):
    rng = np.random.default_rng(1)
    chain = ms.Problem(ms.Graph.chain(400), scale * rng.normal(size=(400, 4)), scale * rng.normal(size=(399, 4, 4)))
    result = LinearProgram().solve(chain)
    assert result.guarantee == "optimal" and result.score == pytest.approx(TreeDP().solve(chain).score, rel=1e-12)
    groups = [(rng.choice(144, 5, replace=False), scale * rng.exponential(size=2)) for _ in range(40)]
    grid = ms.Problem(ms.Graph.grid(12, 12), scale * rng.normal(size=(144, 2)), 0.7 * scale * np.eye(2), cliques=groups)
    result = LinearProgram().solve(grid)
    assert result.guarantee == "optimal"
    assert result.certificate.verify(grid, result.labels, result.score, result.bound).optimal


def test_fractional_answers_are_rounded_and_polished():
    rng = np.random.default_rng(2)
    problem = ms.Problem(ms.Graph.complete(12), rng.normal(size=(12, 3)), rng.normal(size=(66, 3, 3)))
    result = LinearProgram().solve(problem)
    assert result.guarantee == "within_gap" and result.marginals.max(axis=1).min() < 0.9
    for v in range(12):
        for k in range(3):
            other = result.labels.copy()
            other[v] = k
            assert problem.score(other) <= result.score + 1e-12


def test_infeasible_for_arc_consistency_and_infeasible_only_for_the_program():
    never = np.array([[-np.inf, 0], [0, -np.inf]])
    fixed = ms.Problem(ms.Graph.complete(3), [[0.0, -np.inf], [0, 0], [0, 0]], never)
    assert LinearProgram().solve(fixed).guarantee == "infeasible"
    rng = np.random.default_rng(1756)
    tables = np.where(rng.random((6, 3, 3)) < 0.55, -np.inf, 0.0)
    problem = ms.Problem(ms.Graph.complete(4), np.zeros((4, 3)), tables)
    result = LinearProgram().solve(problem)
    assert result.guarantee == "upper_bound" and result.bound == 0.0 and "infeasible" in result.message
    result.certificate.verify(problem, None, bound=0.0)


def test_time_limit_is_passed_on():
    rng = np.random.default_rng(3)
    problem = ms.Problem(ms.Graph.complete(40), rng.normal(size=(40, 4)), rng.normal(size=(780, 4, 4)))
    result = LinearProgram(time_limit=0.0).solve(problem)
    assert result.termination == "time_limit" and "time limit" in result.message
    model = linear_program.lp_model(prepare(problem).net)
    cut = linear_program._highs(model, 0.0)
    assert cut.termination == "time_limit" and "time limit" in cut.message
    assert result.guarantee == "within_gap" and result.marginals is None
    result.certificate.verify(problem, result.labels, result.score, result.bound)


def test_interrupt_stops_highs_and_keeps_an_answer(monkeypatch):
    real = linear_program.run_interruptibly
    monkeypatch.setattr(linear_program, "run_interruptibly", lambda solver, seconds: (True, real(solver, seconds)[1]))
    result = LinearProgram().solve(make("complete", 1).problem)
    assert result.termination == "interrupted" and result.labels is not None and np.isfinite(result.bound)


def test_too_many_variables_are_refused_with_their_number():
    problem = ms.Problem(ms.Graph.chain(2200), np.zeros((2200, 100)), np.zeros((100, 100)))
    assert "22210000" in LinearProgram().supports(problem).reason
    with pytest.raises(ms.UnsupportedProblemError, match="at most 20000000 variables"):
        LinearProgram().solve(problem)


def fractional(seed, hard=False):
    """Associative problems whose relaxation is fractional, by seeds that were looked for."""
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(3, 6))
    graph = ms.Graph.complete(12) if seed % 3 == 0 else ms.Graph.grid(12, 12)
    unary = rng.normal(size=(graph.n_nodes, n_labels))
    weight = rng.uniform(0.2, 1.2, size=graph.n_edges) * (0.25 if seed % 3 == 0 else 1.0)
    if hard:
        unary[::7, 0] = -np.inf
    table = np.zeros(graph.n_edges, dtype=np.int32)
    return ms.Problem(graph, unary, tables=np.eye(n_labels), edge_table=table, edge_weight=weight)


FRACTIONAL = (38, 42, 59, 62, 71, 72, 78, 80, 84, 152, 158, 171, 179, 206, 218)


def test_the_better_of_two_roundings_is_the_answer_and_has_the_guarantee():
    """On these 15 the derandomised rounding beats the nearest labelling improved by ICM in some, and loses in others."""
    derandomised, nearest = 0, 0
    for seed in FRACTIONAL:
        problem = fractional(seed)
        result = LinearProgram().solve(problem)
        near, other = linear_program.roundings(problem, result.marginals)
        net = prepare(problem).net
        plain, promised = (problem.score(polish(net, labels)) for labels in (near, other))
        assert result.score >= max(plain, promised) - 1e-9
        assert problem.score(other) >= guaranteed_score(problem, result.marginals) - 1e-9
        derandomised, nearest = derandomised + (promised > plain + 1e-9), nearest + (plain > promised + 1e-9)
    assert derandomised >= 6 and nearest >= 1


def test_forbidden_labels_stay_forbidden_in_roundings():
    for seed in FRACTIONAL[:6]:
        problem = fractional(seed, hard=True)
        assert np.isfinite(LinearProgram().solve(problem).score)


def test_problems_that_are_not_associative_are_rounded_to_the_nearest():
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.complete(6), 0.1 * rng.normal(size=(6, 2)), tables=-np.eye(2))
    result = LinearProgram().solve(problem)
    assert len(linear_program.roundings(problem, result.marginals)) == 1
