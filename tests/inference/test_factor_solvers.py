"""Every solver on random problems with factors of every kind, against enumeration: claims, proofs in floats and exactly, refusals, warm starts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from contracts.common import ALL, EXACT, check_exact, check_result, solver_of
from factories.factors import factor_case
from reference.families import Case

import maxsum as ms
from maxsum.inference.base import Factored
from maxsum.inference.registry import SOLVERS

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
    for seed in range(N_SEEDS):
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
