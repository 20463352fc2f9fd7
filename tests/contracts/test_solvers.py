"""The contract of every solver in the registry, on every family of problems."""

from __future__ import annotations

import itertools
import re
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from contracts.common import ALL, EXACT, check_exact, check_fields, check_result, room, same, solver_of, takes
from reference.dense_lp import local_polytope_value
from reference.families import FAMILIES, build, chain_edges, grid_edges, make
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.result import TracePoint
from maxsum.inference.registry import SOLVERS

N_SEEDS = 20
FEW = 4
ZERO_LABELS = ("zeros", "single_label")

solvers = pytest.mark.parametrize("name", ALL)
families = pytest.mark.parametrize("family", FAMILIES)


def supported(name: str, family: str, seeds: range):
    """Cases of a family that the solver takes; what it refuses must be refused properly."""
    solver = solver_of(name)
    if name == "Toulbar2" and family.startswith("factor"):  # a process for each call
        seeds = seeds[: len(seeds) // 3]
    for seed in seeds:
        case = make(family, seed)
        support = solver.supports(case.problem)
        if support:
            yield case, solver
            continue
        assert isinstance(support.reason, str) and len(support.reason.split()) >= 3, support
        with pytest.raises(ms.UnsupportedProblemError) as refusal:
            solver.solve(case.problem)
        text = str(refusal.value)
        assert name in text and support.reason in text and "Solvers that accept this problem:" in text
        able = [other for other in SOLVERS if other != name and solver_of(other).supports(case.problem)]
        assert all(other in text.split("accept this problem:")[1] for other in able)


@families
@solvers
def test_claims_hold(name: str, family: str) -> None:
    for case, solver in supported(name, family, seeds(N_SEEDS)):
        result = solver.solve(case.problem)
        try:
            check_result(case, result)
            if name in EXACT:
                check_exact(case, result)
        except AssertionError as error:
            raise AssertionError(f"{case}, {result!r}: {error}") from error


@families
@solvers
def test_deterministic_and_warm_start_not_worse(name: str, family: str) -> None:
    for case, solver in supported(name, family, seeds(FEW)):
        result = solver.solve(case.problem)
        assert same(result, solver.solve(case.problem)), case
        again = solver.solve(case.problem, init=result)
        check_result(case, again)
        assert again.score >= result.score, case
        assert again.bound <= result.bound + room(case) + case.raw.noise, case


@families
def test_the_dense_relaxation_lies_between_optimum_and_linear_program(family: str) -> None:
    """The reference itself: optimum <= relaxation <= height without messages; and LinearProgram reaches it."""
    for seed in seeds(FEW):
        case = make(family, seed)
        value, slip = local_polytope_value(case.raw), 1e-6 * max(case.raw.magnitude, 1e-300)
        assert value >= case.raw.best - slip, case
        assert case.problem.bound() >= value - slip, case
        if "LinearProgram" in SOLVERS and SOLVERS["LinearProgram"]().supports(case.problem):
            bound = SOLVERS["LinearProgram"]().solve(case.problem).bound
            assert bound >= case.raw.best - room(case) - case.raw.noise, case
            # the linear program has all-different factors as edges, whose relaxation is larger than that of the factors
            apart = any(isinstance(function, ms.factors.AllDifferent) for function in case.problem.factors.functions)
            if np.isfinite(value) and not apart:
                assert bound <= value + 1e-4 * case.raw.magnitude, case


@solvers
def test_ties_go_to_the_lowest_label(name: str) -> None:
    if name not in EXACT and name != "ICM":
        pytest.skip("the method does not fix how ties are broken")
    for family in ZERO_LABELS:
        for case, solver in supported(name, family, range(8)):
            result = solver.solve(case.problem)
            assert result.guarantee == "optimal" or name == "ICM"
            assert result.labels.tolist() == [0] * case.problem.n_nodes, case


def loop(seed: int, binary_supermodular: bool) -> ms.Problem:
    """A problem that iterative solvers need a few steps for; with the flag one that MaxFlow takes."""
    rng = np.random.default_rng(seed)
    if binary_supermodular:
        return ms.Problem(ms.Graph.grid(3, 3), rng.normal(size=(9, 2)), tables=np.eye(2))
    return ms.Problem(ms.Graph.grid(3, 3), rng.normal(size=(9, 3)), tables=rng.normal(size=(12, 3, 3)))


def any_problem(name: str) -> ms.Problem:
    """A feasible problem that the solver takes."""
    chain = ms.Problem(ms.Graph.chain(6), np.random.default_rng(5).normal(size=(6, 3)), tables=np.eye(3))
    return next(p for p in (loop(0, False), loop(0, True), chain) if solver_of(name).supports(p))


@solvers
def test_callback_is_called_and_can_stop(name: str) -> None:
    problem, seen = any_problem(name), []
    solver_of(name).solve(problem, callback=lambda point: seen.append(point))
    assert seen and all(isinstance(point, TracePoint) for point in seen)
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(seen))
    stopped_after = []
    result = solver_of(name).solve(problem, callback=lambda point: stopped_after.append(point) or True)
    assert 1 <= len(stopped_after) <= len(seen)
    if len(seen) > 2:
        assert len(stopped_after) < len(seen) and result.termination == "stopped"
    assert result.termination == "stopped" or len(seen) == 1
    check_fields(result, problem)
    if result.certificate is not None:
        assert result.bound >= ms_best(problem) - problem.resolution


def ms_best(problem: ms.Problem) -> float:
    states = problem.n_states.tolist()
    return max(problem.score(y) for y in np.ndindex(*states)) if np.prod(states) < 30_000 else -np.inf


@pytest.mark.parametrize("limit", [0.0, 0.01])
@solvers
def test_time_limit_gives_a_legal_answer_quickly(name: str, limit: float) -> None:
    if not takes(name, "time_limit"):
        pytest.skip(f"{name} has no time limit")
    rng = np.random.default_rng(3)
    general = ms.Problem(ms.Graph.grid(12, 12), rng.normal(size=(144, 4)), tables=rng.normal(size=(264, 4, 4)))
    binary = ms.Problem(ms.Graph.grid(30, 30), rng.normal(size=(900, 2)), tables=np.eye(2))
    problem = next((p for p in (general, binary) if solver_of(name).supports(p)), any_problem(name))
    solver_of(name).solve(any_problem(name))
    started = time.perf_counter()
    result = solver_of(name, time_limit=limit).solve(problem)
    spent = time.perf_counter() - started
    check_fields(result, problem)
    assert spent < 2.0
    if result.guarantee == "within_gap":
        assert result.termination != "converged" or name not in EXACT
    if result.labels is not None and result.certificate is not None:
        result.certificate.verify(problem, result.labels, score=result.score, bound=result.bound)


@pytest.mark.parametrize("limit", [-1.0, float("nan")])
@solvers
def test_bad_time_limit_is_refused(name: str, limit: float) -> None:
    if not takes(name, "time_limit"):
        pytest.skip(f"{name} has no time limit")
    with pytest.raises(ValueError, match=r"time_limit is (-1\.0|nan), wanted seconds >= 0"):
        solver_of(name, time_limit=limit).solve(any_problem(name))


@solvers
def test_one_object_serves_many_threads(name: str) -> None:
    solver = solver_of(name)
    names = ("chain", "binary_supermodular", "complete", "potts", "hard_feasible")
    cases = [make(f, s) for f in names for s in range(4) if solver.supports(make(f, s).problem)]
    alone = [solver.solve(fresh(case.problem)) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            together = list(pool.map(lambda case: solver.solve(case.problem), cases))
            assert all(same(a, b) for a, b in zip(alone, together, strict=True))


def fresh(problem: ms.Problem) -> ms.Problem:
    """The same problem without what solvers have kept with it."""
    return ms.Problem(
        problem.graph, problem.unary, problem.tables, problem.edge_table, problem.edge_weight, problem.n_states, problem.cliques
    )


@solvers
def test_inputs_stay_untouched_and_may_be_read_only(name: str) -> None:
    rng = np.random.default_rng(11)
    graph = ms.Graph.chain(5) if name == "TreeDP" else ms.Graph.grid(2, 3)
    unary, table = rng.normal(size=(graph.n_nodes, 2)), np.array([[1.0, -0.5], [0.0, 0.25]])
    weight = rng.exponential(size=graph.n_edges)
    arrays = (unary, table, weight)
    copies = [a.copy() for a in arrays]
    for writeable in (True, False):
        for array in arrays:
            array.flags.writeable = writeable
        problem = ms.Problem(graph, unary, tables=table, edge_weight=weight)
        held = [a.copy() for a in (problem.unary, problem.tables, problem.edge_weight, problem.graph.edges)]
        result = solver_of(name).solve(problem)
        for array, copy in zip(arrays, copies, strict=True):
            assert np.array_equal(array, copy) and array.flags.writeable == writeable
        now = (problem.unary, problem.tables, problem.edge_weight, problem.graph.edges)
        assert all(np.array_equal(a, b) for a, b in zip(held, now, strict=True))
        with pytest.raises(ValueError, match="read-only"):
            result.labels[0] = 0


def test_registry_classes_need_no_arguments_and_say_what_they_do() -> None:
    for name, solver in SOLVERS.items():
        made = solver()
        assert made.name == name and isinstance(made, ms.inference.Solver)
        assert len(solver.does.split()) >= 2, name


def test_solve_says_which_row_fired() -> None:
    for family in ("chain", "no_edges", "binary_supermodular", "complete"):
        result = ms.solve(make(family, 0).problem)
        assert re.match(r"row \d+ \(.+\): ", result.message), result.message
    rows = {
        family: ms.solve(make(family, 0).problem).message[:5]
        for family in ("chain", "no_edges", "binary_supermodular", "complete")
    }
    assert len(set(rows.values())) >= 3, rows


@pytest.mark.slow
@families
@solvers
def test_fault_34_large_sweep(name: str, family: str) -> None:
    """A gap is never negative, over ten thousand problems and more."""
    for case, solver in supported(name, family, range(1000, 1300)):
        result = solver.solve(case.problem)
        check_result(case, result)
        if name in EXACT:
            check_exact(case, result)


@pytest.mark.slow
@solvers
def test_larger_problems_agree(name: str) -> None:
    """Up to five thousand labellings."""
    for seed in seeds(60):
        rng = np.random.default_rng(seed)
        edges = chain_edges(12) if name == "TreeDP" or seed % 2 else grid_edges(3, 4)
        unary = [rng.normal(size=2) for _ in range(12)]
        tables = [np.diag(rng.exponential(size=2)) for _ in edges]
        case = type(make("chain", 0))("larger", seed, *build(unary, edges, tables))
        if solver_of(name).supports(case.problem):
            result = solver_of(name).solve(case.problem)
            check_result(case, result)
            if name in EXACT:
                check_exact(case, result)
