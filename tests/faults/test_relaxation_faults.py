"""The relaxations, solver by solver: scales, ties, fractions, limits (docs/faults.md), and bad input of their own."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from reference.dense_lp import local_polytope_value
from reference.enumeration import Raw
from reference.families import build, complete_edges

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidProblemError, MaxsumError
from maxsum.inference import TRWS, AlphaExpansion, AugmentingDAG, ConvexBP, DualDecomposition, QPRelaxation
from maxsum.inference.relaxations.finisher import LPFinisher
from maxsum.qp.block_form import BlockForm
from maxsum.qp.simplex import minimise_simplex_qp

SOLVERS: dict[str, Any] = {
    "TRWS": TRWS(),
    "AugmentingDAG": AugmentingDAG(),
    "DualDecomposition": DualDecomposition(max_iter=300),
    "DualDecomposition, subgradient": DualDecomposition(steps="subgradient", max_iter=100),
    "ConvexBP": ConvexBP(max_iter=200),
    "ConvexBP, trw": ConvexBP(counting="trw", max_iter=100),
    "LPFinisher": LPFinisher(),
    "QPRelaxation": QPRelaxation(),
    "AlphaExpansion": AlphaExpansion(),
}
CONVERGENT = {"LPFinisher", "DualDecomposition"}  # the bound is the LP value, whatever the numbering
ORIENTED = {"AugmentingDAG", "QPRelaxation"}  # visit the first end of an edge first; another end may leave another bound
solvers = pytest.mark.parametrize("name", SOLVERS)


def tables_for(name: str, rng: np.random.Generator, n_edges: int, n_labels: int) -> list[np.ndarray]:
    """Potts tables for expansion moves, general ones for the others."""
    if name == "AlphaExpansion":
        return [rng.exponential() * np.eye(n_labels) for _ in range(n_edges)]
    return [rng.normal(size=(n_labels, n_labels)) for _ in range(n_edges)]


def case(name: str, seed: int, n_nodes: int = 5, n_labels: int = 3) -> tuple[ms.Problem, Raw]:
    rng = np.random.default_rng(seed)
    edges = complete_edges(n_nodes)
    return build([rng.normal(size=n_labels) for _ in range(n_nodes)], edges, tables_for(name, rng, len(edges), n_labels))


def check(problem: ms.Problem, raw: Raw, result: ms.Result, slip: float = 1e-9) -> None:
    """True claims only."""
    assert result.bound >= raw.best - slip and result.score <= raw.best + slip and result.gap >= 0
    result.certificate.verify(problem, result.labels, score=result.score, bound=result.bound)
    if result.guarantee == "optimal":
        assert result.score >= raw.best - slip


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@solvers
def test_fault_27_scales(name: str, scale: float) -> None:
    for seed in range(4):
        problem, raw = case(name, seed)
        scaled, big = build([scale * q for q in raw.unary], list(raw.edges), [scale * t for t in raw.tables])
        a, b = SOLVERS[name].solve(problem), SOLVERS[name].solve(scaled)
        check(scaled, big, b, 1e-9 * scale)
        assert np.array_equal(a.labels, b.labels) and b.score == pytest.approx(scale * a.score, rel=1e-9)
        assert a.guarantee == b.guarantee
        assert b.bound == pytest.approx(scale * a.bound, rel=1e-9 if name in ("TRWS", "AlphaExpansion") else 1e-5)


@solvers
def test_fault_28_large_constant(name: str) -> None:
    for seed in range(4):
        problem, raw = case(name, seed)
        rounded = [q + 1e9 - 1e9 for q in raw.unary]
        plain, truth = build(rounded, list(raw.edges), list(raw.tables))
        high, _ = build([q + 1e9 for q in raw.unary], list(raw.edges), list(raw.tables))
        a, b = SOLVERS[name].solve(plain), SOLVERS[name].solve(high)
        assert np.array_equal(a.labels, b.labels) and a.guarantee == b.guarantee
        assert b.bound - problem.n_nodes * 1e9 == pytest.approx(a.bound, abs=1e-4)
        assert b.gap == pytest.approx(a.gap, abs=1e-4) and b.bound >= truth.best + problem.n_nodes * 1e9 - 1e-5


@solvers
def test_fault_29_one_huge_edge(name: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        edges = complete_edges(4)
        tables = tables_for(name, rng, len(edges), 3)
        tables[2] = 1e12 * tables[2]
        problem, raw = build([rng.normal(size=3) for _ in range(4)], edges, tables)
        result = SOLVERS[name].solve(problem)
        assert np.isfinite(result.score) and np.isfinite(result.bound)
        assert result.bound >= raw.best - 1e-6 * abs(raw.best)
        assert result.guarantee != "optimal" or raw.regret(result.labels.tolist()) <= 1e-2


@solvers
def test_fault_30_ties_everywhere(name: str) -> None:
    problem = ms.Problem(ms.Graph.complete(5), np.zeros((5, 3)), tables=np.zeros((3, 3)))
    results = [SOLVERS[name].solve(problem) for _ in range(2)]
    for result in results:
        assert result.labels.tolist() == [0] * 5 and result.guarantee == "optimal" and result.gap == 0.0
    moved = ms.Problem(ms.Graph.complete(5), np.zeros((5, 3)) + 2.5, tables=np.zeros((3, 3)) - 1.0)
    assert SOLVERS[name].solve(moved).labels.tolist() == [0] * 5


@solvers
def test_fault_31_frustrated_triangle(name: str) -> None:
    edges = complete_edges(3)
    if name == "AlphaExpansion":  # each node does not want its own number: half of two labels beats all labellings
        problem, raw = build([np.where(np.arange(3) == v, -5.0, 0.0) for v in range(3)], edges, [1.05 * np.eye(3)] * 3)
    else:
        problem, raw = build([np.array([0.0, 0.01]), np.array([0.0, 0.02]), np.zeros(2)], edges, [1 - np.eye(2)] * 3)
    relaxed = local_polytope_value(raw)
    assert relaxed > raw.best + 0.4
    result = SOLVERS[name].solve(problem)
    assert result.guarantee == "within_gap" and result.bound >= relaxed - 1e-6 and result.score == pytest.approx(raw.best)
    assert ms.solve(problem).guarantee == "optimal" and ms.solve(problem).score == pytest.approx(raw.best)


@solvers
def test_fault_32_a_fractional_relaxation_is_never_called_optimal(name: str) -> None:
    if name == "AlphaExpansion":
        pytest.skip("takes associative tables only, whose relaxations are hardly ever loose at random")
    for seed in range(3):
        problem, raw = case(name, seed, n_nodes=7)
        relaxed = local_polytope_value(raw)
        assert relaxed > raw.best + 0.1
        result = SOLVERS[name].solve(problem)
        check(problem, raw, result)
        assert result.guarantee == "within_gap" and result.bound >= relaxed - 1e-6
        if name == "TRWS" and result.bound > relaxed + 1e-3:
            assert result.termination == "stalled"


def test_fault_33_ill_conditioned_and_indefinite_blocks(caplog: pytest.LogCaptureFixture) -> None:
    rng, graph = np.random.default_rng(0), ms.Graph.grid(3, 3)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    theta = rng.normal(size=(9, 3))
    spectrum = np.array([1e-12, 0.5, 1.0, 1.0, 2.0, 3.0])
    with caplog.at_level("WARNING", logger="maxsum"):
        thin = minimise_simplex_qp(theta, BlockForm(graph, 3, (turn * spectrum) @ turn.T), tol=1e-8)
    assert thin.termination == "converged" and thin.relative_gap <= 1e-8 and not caplog.records
    spectrum[0] = -1e-10
    with caplog.at_level("WARNING", logger="maxsum"):
        lifted = minimise_simplex_qp(theta, BlockForm(graph, 3, (turn * spectrum) @ turn.T), tol=1e-8)
    assert lifted.value == pytest.approx(thin.value, abs=1e-6) and caplog.records
    spectrum[0] = -1.0
    with pytest.raises(InvalidProblemError, match="eigenvalue"):
        BlockForm(graph, 3, (turn * spectrum) @ turn.T)


@solvers
def test_fault_36_reparametrisation(name: str) -> None:
    if name == "AlphaExpansion":
        pytest.skip("messages make other tables of Potts ones, which expansion moves do not take")
    for seed in range(4):
        problem, raw = case(name, seed)
        messages = np.random.default_rng(seed).normal(size=(2, problem.n_edges, 3))
        moved = problem.reparametrize(messages)
        assert moved.bound() == pytest.approx(problem.bound(messages), abs=1e-9)
        a, b = SOLVERS[name].solve(problem), SOLVERS[name].solve(moved)
        check(moved, raw, b, 1e-8)
        assert problem.score(b.labels) == pytest.approx(b.score, abs=1e-9)
        if name in CONVERGENT:
            assert b.bound == pytest.approx(a.bound, abs=1e-5)
        if "optimal" in (a.guarantee, b.guarantee) and name in CONVERGENT:
            assert a.score == pytest.approx(b.score, abs=1e-9)


@solvers
def test_fault_37_permutations(name: str) -> None:
    for seed in range(4):
        problem, raw = case(name, seed)
        rng = np.random.default_rng(seed)
        new, turn = rng.permutation(5), rng.permutation(3)
        edges = [(int(new[u]), int(new[v])) for u, v in raw.edges]
        unary = [raw.unary[v][turn] for v in np.argsort(new)]
        permuted, truth = build(unary, edges, [t[np.ix_(turn, turn)] for t in raw.tables])
        assert truth.best == pytest.approx(raw.best, abs=1e-12)
        a, b = SOLVERS[name].solve(problem), SOLVERS[name].solve(permuted)
        check(permuted, truth, b)
        back = turn[b.labels[new]]
        assert problem.score(back) == pytest.approx(b.score, abs=1e-9)
        if name in CONVERGENT | {"QPRelaxation"}:
            assert b.bound == pytest.approx(a.bound, rel=1e-5)
        if a.guarantee == b.guarantee == "optimal" and len(raw.optima) == 1:
            assert np.array_equal(back, a.labels)


@solvers
def test_fault_38_flipped_and_split_edges(name: str) -> None:
    for seed in range(4):
        problem, raw = case(name, seed)
        a = SOLVERS[name].solve(problem)
        flipped, _ = build(list(raw.unary), [(v, u) for u, v in raw.edges], [t.T for t in raw.tables])
        b = SOLVERS[name].solve(flipped)
        both = [*raw.edges, *((v, u) for u, v in raw.edges)]
        graph = ms.Graph.from_edges(both, 5, duplicates="merge")
        halves = ms.Problem(graph, list(raw.unary), tables=[*(0.5 * t for t in raw.tables), *(0.5 * t.T for t in raw.tables)])
        c = SOLVERS[name].solve(halves)
        for other, found in ((flipped, b), (halves, c)):
            check(other, raw, found)
            if name not in ORIENTED:
                assert found.bound == pytest.approx(a.bound, rel=1e-6) and found.score == pytest.approx(a.score, abs=1e-9)


@solvers
def test_fault_41_subnormal_numbers_and_negative_zeros(name: str) -> None:
    graph = ms.Graph.grid(2, 3)
    zero = ms.Problem(graph, np.full((6, 2), -0.0), tables=np.array([[0.0, -0.0], [-0.0, 0.0]]))
    assert SOLVERS[name].solve(zero).labels.tolist() == [0] * 6
    rng = np.random.default_rng(0)
    unary, tables = rng.normal(size=(900, 4)), np.array(tables_for(name, rng, 1, 4))
    graph = ms.Graph.grid(30, 30)
    normal = ms.Problem(graph, unary, tables=tables[0])
    tiny = ms.Problem(graph, 1e-310 * unary, tables=1e-310 * tables[0])
    solver = type(SOLVERS[name])(max_iter=20)
    seconds = []
    for problem in (normal, tiny):
        solver.solve(problem)
        started = time.process_time()
        result = solver.solve(problem)
        seconds.append(time.process_time() - started)
        assert result.bound >= result.score and result.gap >= 0
    assert seconds[1] < 10 * seconds[0] + 0.2


@solvers
def test_fault_42_single_precision_input(name: str) -> None:
    for seed in range(4):
        _, raw = case(name, seed)
        single = [q.astype(np.float32) for q in raw.unary], [t.astype(np.float32) for t in raw.tables]
        problem, _ = build(*single[:1], list(raw.edges), single[1])
        exact, truth = build([q.astype(float) for q in single[0]], list(raw.edges), [t.astype(float) for t in single[1]])
        a, b = SOLVERS[name].solve(problem), SOLVERS[name].solve(exact)
        check(problem, truth, a)
        assert a.bound == b.bound and a.score == b.score and np.array_equal(a.labels, b.labels)


@pytest.mark.parametrize("limits", [dict(max_iter=1), dict(time_limit=0.01)])
@solvers
def test_fault_43_limits(name: str, limits: dict[str, Any]) -> None:
    rng = np.random.default_rng(10)
    graph = ms.Graph.grid(25, 25)
    tables = np.array(tables_for(name, rng, graph.n_edges, 5))
    problem = ms.Problem(graph, rng.normal(size=(625, 5)), tables=tables)
    kept = {key: getattr(SOLVERS[name], key) for key in ("steps", "counting") if hasattr(SOLVERS[name], key)}
    solver = type(SOLVERS[name])(**kept, **limits)
    solver.solve(problem)
    started = time.process_time()
    result = solver.solve(problem)
    assert time.process_time() - started < 1.0
    assert result.termination in ("iteration_limit" if "max_iter" in limits else "time_limit", "converged", "stalled")
    assert result.labels is not None and result.score <= result.bound < np.inf
    result.certificate.verify(problem, result.labels, bound=result.bound)


# ---- bad input ---------------------------------------------------------------------------------------------------


def test_fault_24_negative_clique_weights_are_refused() -> None:
    with pytest.raises(ms.NotAssociativeError, match=r"-0\.5"):
        ms.Problem(ms.Graph.from_edges([], 3), np.zeros((3, 2)), cliques=[([0, 1, 2], [1.0, -0.5])])


@pytest.mark.parametrize("epsilon", [0.0, -1e-3, float("nan"), float("inf")])
@pytest.mark.parametrize("counting", ["chains", "trw"])
def test_a_temperature_that_is_not_positive_is_refused(counting: str, epsilon: float) -> None:
    with pytest.raises(InvalidParameterError, match=r"epsilon is .*, wanted a finite temperature > 0"):
        ConvexBP(epsilon=epsilon, counting=counting)


def test_a_form_that_is_not_positive_definite_is_refused() -> None:
    bent = np.diag([1.0, 1.0, -0.5, 1.0])
    with pytest.raises(InvalidProblemError, match="eigenvalue"):
        BlockForm(ms.Graph.chain(2), 2, bent)

    class Bent:
        shape = (4, 4)

        def matvec(self, x: np.ndarray) -> np.ndarray:
            return np.diag([-3.0, -3.0, -3.0, -3.0]) @ x

    with pytest.raises(InvalidProblemError, match=r"not positive semidefinite.*curvature"):
        minimise_simplex_qp([[0.0, 0.3], [0.2, 0.0]], Bent())


@pytest.mark.parametrize("shape", [(3, 3), (4, 5), (4,), (16, 16)])
def test_an_operator_of_the_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    class Wrong:
        def __init__(self) -> None:
            self.shape = shape

        def matvec(self, x: np.ndarray) -> np.ndarray:
            return x

    with pytest.raises(InvalidProblemError, match=r"operator has shape .*, wanted \(4, 4\)"):
        minimise_simplex_qp(np.zeros((2, 2)), Wrong())


@pytest.mark.parametrize("answer", [np.zeros(3), np.zeros((4, 4)), np.full(4, np.nan), np.full(4, np.inf)])
def test_an_operator_with_a_wrong_product_is_refused(answer: np.ndarray) -> None:
    class Wrong:
        shape = (4, 4)

        def matvec(self, x: np.ndarray) -> np.ndarray:
            return answer

    with pytest.raises(InvalidProblemError, match="matvec returned"):
        minimise_simplex_qp(np.zeros((2, 2)), Wrong())


@solvers
def test_bad_messages_to_start_from_are_refused(name: str) -> None:
    problem, _ = case(name, 0)
    for bad in (np.zeros((2, problem.n_edges + 1, 3)), np.full((2, problem.n_edges, 3), np.nan), "messages"):
        with pytest.raises(MaxsumError):
            SOLVERS[name].solve(problem, init=bad)
