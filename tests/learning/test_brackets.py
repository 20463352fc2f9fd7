"""Slacks of examples from the certificates of solvers: what a search proves about its labelling holds beside the truth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from factories.problems import dense_problem
from reference.seeds import seeds

from maxsum.inference import BranchAndBound, Exhaustive
from maxsum.learning.proofs.evaluation import _exact_gap, bracket


@pytest.mark.parametrize("hard", [False, True])
def test_a_search_bounds_the_slack_beside_any_truth(hard: bool) -> None:
    rng, n_open = np.random.default_rng(0), 0
    for seed in seeds(24):
        problem = dense_problem(seed, hard)
        best = Exhaustive().solve(problem)
        if best.labels is None:
            continue
        tries = [np.array([rng.integers(n) for n in problem.n_states], dtype=np.int32) for _ in range(200)]
        truth = next((own for own in tries if np.isfinite(problem.score(own))), best.labels)
        result, own = BranchAndBound(root_iter=int(rng.integers(3))).solve(problem), problem.score(truth)
        room = 1e-9 * max(1.0, abs(best.score), abs(own))
        low, high = bracket(problem, result, truth)
        assert low - room <= max(best.score - own, 0.0) and best.score - own <= high + room
        assert high <= result.bound - own + room  # no looser than what the search said
        exact = _exact_gap(result, problem, truth)
        assert Fraction(best.score) - Fraction(own) <= exact + Fraction(room) and float(exact) <= high + room
        n_open += best.score - own > room
    assert n_open >= len(seeds(24)) // 4
