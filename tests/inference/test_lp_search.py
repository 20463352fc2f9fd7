"""LPSearch: optima against enumeration, and the word for a search whose proof could not be checked."""

import numpy as np
import pytest
from factories.problems import random_problem
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.certificates.base import Evaluation
from maxsum.core.certificates.search.certificate import SearchCertificate
from maxsum.inference import Exhaustive
from maxsum.inference.exact.lp_search import LPSearch


def fractional(seed: int) -> ms.Problem:
    """A problem whose linear program is not whole: a complete graph that rewards unequal labels."""
    rng = np.random.default_rng(seed)
    return ms.Problem(ms.Graph.complete(7), 0.1 * rng.normal(size=(7, 2)), 1.0 - np.eye(2))


def test_optima_are_those_of_enumeration():
    for seed in seeds(8):
        for problem in (fractional(seed), random_problem(seed, 7, density=0.6, unequal=True, weights=(0.5, 1.5))):
            result = LPSearch().solve(problem)
            assert result.guarantee == "optimal" and result.termination == "converged"
            assert result.score == pytest.approx(Exhaustive().solve(problem).score, abs=1e-9)


def test_a_search_whose_proof_was_not_checked_is_not_called_converged(monkeypatch):
    problem = fractional(0)
    assert LPSearch().solve(problem).n_iter > 1
    monkeypatch.setattr(SearchCertificate, "assess", lambda *given: Evaluation(np.inf, np.inf))
    result = LPSearch().solve(problem)
    assert result.termination == "stalled" and result.guarantee == "within_gap"
    assert "not all of the proof could be checked" in result.message
    assert result.score == pytest.approx(Exhaustive().solve(problem).score, abs=1e-9)
