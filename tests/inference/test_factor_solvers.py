"""Every solver on random problems with factors of every kind, against enumeration: claims, proofs in floats and exactly, refusals, warm starts."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import pytest
from contracts.common import ALL, EXACT, check_exact, check_result, solver_of
from factories.factors import factor_case
from reference.families import Case
from reference.seeds import seeds

import maxsum as ms
from maxsum.inference.base import Factored
from maxsum.inference.factor_net import factor_problem
from maxsum.inference.registry import SOLVERS
from maxsum.inference.relaxations.factor_passes import exchange, interchangeable

N_SEEDS = 60
TAKERS = [name for name in ALL if name == "solve" or SOLVERS[name].takes_factors is not Factored.refused]
OURS = [
    name for name in TAKERS if name != "Toulbar2"
]  # a process for each call: the families of the contracts are enough for it


@cache
def case(seed: int) -> Case:
    return Case("factors", seed, *factor_case(seed))


def test_who_takes_factors() -> None:
    assert set(TAKERS) >= {
        "TRWS",
        "JunctionTree",
        "BranchAndBound",
        "LinearProgram",
        "ICM",
        "LocalSearch",
        "Exhaustive",
        "solve",
    }


@pytest.mark.parametrize("name", OURS)
def test_claims_hold_and_are_proven_exactly(name: str) -> None:
    solver = solver_of(name)
    for seed in seeds(N_SEEDS):
        own = case(seed)
        result = solver.solve(own.problem)
        check_result(own, result)
        if name in EXACT:
            check_exact(own, result)
        if result.certificate is not None:
            claims = dict(bound=result.bound, guarantee=result.guarantee)
            found = result.certificate.verify(own.problem, result.labels, exact=True, **claims)
            assert found.bound >= own.raw.best - own.raw.noise
            assert not found.optimal or own.raw.regret(result.labels.tolist()) <= 2 * own.raw.resolution + own.raw.fuzz


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in TAKERS])
def test_others_refuse_by_name(name: str) -> None:
    problem = case(0).problem
    assert not solver_of(name).supports(problem)
    words = rf"(?s)^{name} .*(takes no factors|needs).*Solvers that accept this problem: .*TRWS"
    with pytest.raises(ms.UnsupportedProblemError, match=words):
        ms.solve(problem, name)


@pytest.mark.parametrize("name", OURS)
def test_warm_starts_from_another_solver_and_after_a_change(name: str) -> None:
    """From messages, from a proof of the lifted problem, from a labelling; and to a problem with other scores, where old claims are void."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        own = case(seed)
        p, raw = own.problem, own.raw
        changed = [row + rng.normal(size=len(row)) for row in raw.unary]
        new = ms.Problem(p.graph, changed, p.tables, p.edge_table, p.edge_weight, p.n_states, None, p.offset, p.factors)
        moved = Case("changed", seed, new, type(raw)(changed, raw.edges, raw.tables, raw.weights, (), raw.offset, raw.factors))
        for first in ("TRWS", "LinearProgram", "BranchAndBound", "ICM"):
            before = ms.solve(p, first)
            after = solver_of(name).solve(p, init=before)
            check_result(own, after)
            assert after.score >= before.score
            check_result(moved, solver_of(name).solve(new, init=before))
        if name != "solve":
            messages = ms.Messages(*(rng.normal(size=part.shape) for part in p.zero_messages()))
            check_result(own, solver_of(name).solve(p, init=messages))


def test_counts_over_large_parts_of_a_problem() -> None:
    """A chain of which exactly a third may have label 1: passes come as near as the linear program, and never below the optimum."""
    rng = np.random.default_rng(3)
    for count, n in ((13, 40), (40, 120)):
        factors = [ms.factors.exactly(np.arange(n), count)]
        p = ms.Problem(ms.Graph.chain(n), rng.normal(size=(n, 2)), tables=0.4 * np.eye(2), factors=factors)
        best, found = ms.solve(p, "JunctionTree"), ms.solve(p, "TRWS")
        assert best.guarantee == "optimal" and (best.labels == 1).sum() == count
        assert found.bound >= best.score - 1e-9 and found.score <= best.score + 1e-9
        assert found.gap <= 0.02 * abs(best.score)


def test_counts_that_overlap_and_are_too_large_for_a_search() -> None:
    """20 000 nodes: an answer with a bound, against a sort for each of the counts of the even nodes."""
    rng, n = np.random.default_rng(4), 20_000
    u = rng.normal(size=(n, 2))
    even = np.arange(0, n, 2)
    p = ms.Problem(
        ms.Graph.from_edges([], n), u, factors=[ms.factors.at_most(np.arange(n), n // 4), ms.factors.at_least(even, n // 5)]
    )
    found = ms.solve(p, time_limit=20)
    gain = u[:, 1] - u[:, 0]
    inside, outside = (np.concatenate([[0.0], np.cumsum(np.sort(part)[::-1])]) for part in (gain[even], gain[1::2]))
    best = -np.inf
    for among in range(n // 5, min(n // 4, len(even)) + 1):
        best = max(best, inside[among] + outside[: n // 4 - among + 1].max())
    best += u[:, 0].sum()
    assert found.score <= best + 1e-6 and found.bound >= best - 1e-6
    assert found.gap <= 1e-3 * abs(best)
    found.verify(p)


def test_exchanges_among_nodes_that_are_alike_are_the_best_of_all() -> None:
    """Small counts that overlap, beside an edge and a table: sets by their definition, and scores against all labellings with the same counts."""
    for seed in seeds(10):
        rng, n = np.random.default_rng(seed), 9
        u = rng.normal(size=(n, 3))
        u[rng.integers(0, n), 0] = -np.inf
        counts = [ms.factors.exactly(np.arange(6), 2), ms.factors.exactly(np.arange(3, 9), 3)]
        p = ms.Problem(ms.Graph.from_edges([], n), u, factors=[*counts, ((0, 8), rng.normal(size=(3, 3)))])
        net = factor_problem(p).net
        alike = interchangeable(net)
        assert sorted(part.tolist() for part in alike) == [[1, 2], [3, 4, 5], [6, 7]]
        before = rng.integers(1, 3, size=n).astype(np.int32)
        labels = before.copy()
        exchange(net.unary, labels, alike)
        for part in alike:
            assert sorted(labels[part].tolist()) == sorted(before[part].tolist())
            every = (np.array(x) for x in set(permutations(before[part].tolist())))
            assert net.unary[part, labels[part]].sum() == pytest.approx(max(net.unary[part, x].sum() for x in every), abs=1e-12)
        assert np.array_equal(np.delete(labels, np.concatenate(alike)), np.delete(before, np.concatenate(alike)))


@pytest.mark.slow
def test_two_counts_over_many_nodes_are_proven() -> None:
    """100 000 nodes: conditioning alone left a gap of 2.1 to a bound that was tight."""
    rng, n = np.random.default_rng(4), 100_000
    u = rng.normal(size=(n, 2))
    factors = [ms.factors.at_most(np.arange(n), n // 4), ms.factors.at_least(np.arange(0, n, 2), n // 5)]
    found = ms.solve(ms.Problem(ms.Graph.from_edges([], n), u, factors=factors), time_limit=60)
    assert found.guarantee == "optimal"


def test_a_count_over_a_grid_is_not_written_with_gigabytes() -> None:
    """961 nodes: its partial counts would need tables of 16 GB; passes take a fraction of a second, and say how near they are."""
    rng, side = np.random.default_rng(0), 31
    n = side * side
    factors = [ms.factors.exactly(np.arange(n), n // 3)]
    p = ms.Problem(ms.Graph.grid(side, side), rng.normal(size=(n, 2)), tables=0.5 * np.eye(2), factors=factors)
    found = ms.solve(p, time_limit=20)
    assert (found.labels == 1).sum() == n // 3
    assert found.relative_gap < 0.005
    with pytest.raises(ms.MaxsumError, match="would have"):
        ms.solve(p, "BranchAndBound")
