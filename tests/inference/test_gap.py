"""A relative gap that is asked for: who stops there, how soon, and that it is proven."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.inference import TRWS, AlphaExpansion, BranchAndBound, LocalSearch
from maxsum.inference.registry import SOLVERS
from maxsum.inference.relaxations.finisher import LPFinisher

STOPS = ["TRWS", "AugmentingDAG", "ConvexBP", "BranchAndBound", "AlphaExpansion", "LPFinisher", "DualDecomposition"]


def potts(side: int = 12, n_labels: int = 4, coupling: float = 0.7, seed: int = 0, **more) -> ms.Problem:
    unary = np.random.default_rng(seed).normal(size=(side * side, n_labels))
    return ms.Problem(ms.Graph.grid(side, side), unary, tables=coupling * np.eye(n_labels), **more)


def frustrated(side: int = 8, n_labels: int = 3, seed: int = 0) -> ms.Problem:
    rng, graph = np.random.default_rng(seed), ms.Graph.grid(side, side)
    return ms.Problem(graph, rng.normal(size=(side**2, n_labels)), tables=rng.normal(size=(graph.n_edges, n_labels, n_labels)))


def loose_relaxation() -> ms.Problem:
    """Tables that no labelling pleases all of."""
    rng, graph = np.random.default_rng(0), ms.Graph.complete(12)
    return ms.Problem(graph, rng.normal(size=(12, 4)), tables=rng.normal(size=(graph.n_edges, 4, 4)))


@pytest.mark.parametrize("name", STOPS)
def test_a_solver_stops_at_the_gap_and_proves_it(name):
    problem, solver = potts(), SOLVERS[name]()
    full, loose = solver.solve(problem), solver.solve(problem, gap=0.03)
    assert loose.termination == "converged" and loose.relative_gap <= 0.03
    assert len(loose.trace) < len(full.trace) and full.relative_gap < loose.relative_gap
    proof = loose.certificate.verify(problem, loose.labels, loose.score, loose.bound)
    assert proof.gap <= 0.03 * max(abs(loose.score), abs(loose.bound)) * (1 + 1e-9)


@pytest.mark.parametrize("name", [name for name, solver in SOLVERS.items() if "tol" in solver.__dataclass_fields__])
def test_tol_is_a_relative_gap(name):
    """Of the labelling, or of the value of the relaxation that the solver is for."""
    kind = SOLVERS[name]
    problem = loose_relaxation() if kind.solves_relaxation else potts()
    start = TRWS().solve(problem) if kind is LocalSearch else None
    with pytest.raises(ms.InvalidParameterError, match=r"tol is -0\.1, wanted"):
        kind(tol=-0.1)
    loose = kind(tol=0.03).solve(problem, start)
    if kind.solves_relaxation:
        assert loose.termination == "converged" and loose.n_iter < kind(tol=1e-9).solve(problem).n_iter
    else:
        assert loose.relative_gap <= 0.03 and loose.termination == "converged"
        same = kind().solve(problem, start, gap=0.03)
        assert same.n_iter == loose.n_iter and same.score == loose.score and same.bound == loose.bound


@pytest.mark.parametrize("gap", [1e-2, 1e-3, 2e-4])
def test_passes_end_with_the_first_that_proves_it(gap):
    """The gap is looked at after each pass, and moves come as soon as they may be all that is missing."""
    problem = potts(40, 6)
    result = ms.solve(problem, gap=gap)
    assert result.solver == "TRWS" and result.termination == "converged" and result.relative_gap <= gap
    before = result.trace[-2]
    assert before.gap > gap * max(abs(before.score), abs(before.bound))


def test_moves_come_before_many_more_passes():
    problem = potts(40, 6)
    with_moves = TRWS(tol=5e-4).solve(problem)
    first = next(point for point in TRWS().solve(problem).trace if point.gap <= 5e-4 * abs(point.bound))
    assert with_moves.relative_gap <= 5e-4 and with_moves.n_iter < first.iteration


def test_the_moves_of_expansion_end_where_the_gap_is_reached():
    problem = potts(40, 6)
    start = TRWS(max_iter=30).solve(problem)
    bound_only = start.messages
    full = AlphaExpansion(bound=False).solve(problem, bound_only)
    loose = AlphaExpansion(bound=False).solve(problem, bound_only, gap=0.01)
    assert full.relative_gap < loose.relative_gap <= 0.01 and loose.n_iter < full.n_iter


def test_a_search_closes_boxes_at_the_gap():
    problem = frustrated(8, 4)
    full, loose = BranchAndBound().solve(problem), BranchAndBound().solve(problem, gap=0.02)
    assert full.guarantee == "optimal" and full.relative_gap < loose.relative_gap <= 0.02
    assert loose.termination == "converged" and loose.guarantee == "within_gap" and loose.n_iter < full.n_iter
    loose.certificate.verify(problem, loose.labels, loose.score, loose.bound)


def test_local_search_stops_at_a_bound_that_it_is_given():
    problem = frustrated()
    bound = LPFinisher().solve(problem)
    gap = (bound.bound - ms.solve(problem).score) / bound.bound + 0.01
    start = bound.messages
    loose, full = LocalSearch().solve(problem, start, gap=gap), LocalSearch().solve(problem, start)
    assert loose.termination == "converged" and loose.relative_gap <= gap and loose.n_iter < full.n_iter


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_rounding_is_part_of_the_gap(offset):
    """A gap below what the arithmetic can tell is not called reached."""
    problem = potts(12, 4, offset=offset)
    for gap in (1e-14, 1e-17):
        result = TRWS().solve(problem, gap=gap)
        assert result.relative_gap <= gap or result.guarantee == "optimal" or result.termination == "stalled"


@pytest.mark.parametrize("gap", [-1e-3, float("nan"), "1e-3", True])
def test_a_gap_is_a_number_from_0(gap):
    with pytest.raises(ms.InvalidParameterError, match=r"gap is .*, wanted a relative gap >= 0"):
        ms.solve(potts(4), gap=gap)


def test_no_gap_is_reached_without_a_labelling():
    """Hard constraints that TRW-S does not satisfy: a bound alone has no gap."""
    tables = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)
    problem = ms.Problem(ms.Graph.complete(3), np.zeros((3, 2)), tables=tables)
    result = TRWS().solve(problem, gap=0.5)
    assert result.relative_gap == np.inf and not np.isfinite(result.score)
