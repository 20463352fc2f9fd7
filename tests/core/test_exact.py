"""Rational arithmetic, and the verdict "optimal": both against enumeration in fractions."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest
from factories.problems import random_messages
from reference.families import FAMILIES, make
from reference.rational import every_score
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.certificates.base import EliminationCertificate, MessageCertificate
from maxsum.core.certificates.exact import ExactTerms, exact_score, lowest_exponent, to_float_up, to_integers
from maxsum.core.certificates.scale import _at_factors, tolerance, variation
from maxsum.inference import ICM, TRWS, BranchAndBound, JunctionTree

families = pytest.mark.parametrize("family", [name for name in FAMILIES if name != "large"])


def test_integers_are_the_numbers_themselves() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.normal(size=50) * 10.0 ** rng.integers(-300, 100, size=50), [0.0, -0.0, 5e-324, -(2.0**-1060), 1e100]]
    )
    exponent = lowest_exponent(values)
    for value, whole in zip(values, to_integers(values, exponent), strict=True):
        assert Fraction(whole) * Fraction(2) ** exponent == Fraction(value)


def test_a_fraction_is_rounded_up() -> None:
    for value in (Fraction(1, 3), Fraction(-1, 3), Fraction(7), Fraction(10**30 + 1)):
        near = to_float_up(value)
        assert Fraction(near) >= value and Fraction(np.nextafter(near, -np.inf)) < value


@families
def test_exact_bounds_are_bounds_and_floating_ones_lie_above_them(family: str) -> None:
    for seed in range(3):
        case, rng = make(family, seed), np.random.default_rng(seed)
        problem = case.problem
        if np.prod(problem.n_states.astype(float)) > 3000:
            continue
        scores = every_score(problem)
        best = max(scores.values())
        for size in (0.0, 1.0, 1e8):
            messages = random_messages(problem, rng, size)
            certificate = MessageCertificate(messages)
            exact, _ = certificate.evaluate_exactly(problem, None)
            assert exact >= best
            assert certificate.bound(problem) >= exact
            for y in list(scores)[:: max(1, len(scores) // 5)]:
                if scores[y] == float("-inf"):
                    continue
                labels = np.array(y, dtype=np.int32)
                assert ExactTerms(problem).score(labels) == scores[y] == exact_score(problem, labels)
                bound, gap = certificate.evaluate_exactly(problem, labels)
                assert bound == exact and gap == bound - scores[y]
                assert certificate.evaluate(problem, labels).gap >= gap


@families
def test_exact_elimination_is_the_optimum(family: str) -> None:
    for seed in range(3):
        problem = make(family, seed).problem
        if np.prod(problem.n_states.astype(float)) > 3000 or not JunctionTree().supports(problem):
            continue
        scores = every_score(problem)
        best = max(scores.values())
        result = JunctionTree().solve(problem)
        if result.labels is None or not isinstance(result.certificate, EliminationCertificate):
            continue
        bound, gap = result.certificate.evaluate_exactly(problem, result.labels)
        assert bound >= best and gap == bound - scores[tuple(result.labels.tolist())]
        assert result.certificate.evaluate(problem, result.labels).gap >= gap
        assert result.certificate.bound(problem) >= bound
        # another labelling, and tables that someone has changed
        rng = np.random.default_rng(seed)
        tables = tuple(
            np.asarray(t) + rng.normal(size=np.shape(t)) * 10.0 ** rng.integers(-6, 12) for t in result.certificate.tables
        )
        changed = EliminationCertificate(result.certificate.nodes, result.certificate.separators, tables)
        loose, above = changed.evaluate_exactly(problem, result.labels)
        assert loose >= best and changed.evaluate(problem, result.labels).gap >= above


# ---- what optimal means ----------------------------------------------------------------------------------------------


def test_large_soft_scores_excuse_no_gap() -> None:
    """Tables of -1e14 on equal labels: 65.0 was called optimal, where 83.6 exists."""
    rng = np.random.default_rng(1)
    problem = ms.Problem(ms.Graph.grid(14, 14), rng.normal(size=(196, 3)), tables=-1e14 * np.eye(3))
    result = TRWS(max_iter=200).solve(problem)
    assert result.guarantee == "within_gap" and result.score < 83.6 < result.bound
    assert not result.certificate.verify(problem, result.labels).optimal
    with pytest.raises(ms.CertificateError, match=r"'optimal'.*'within_gap'"):
        result.certificate.verify(problem, result.labels, guarantee="optimal")


@pytest.mark.parametrize("size", [1e12, 1e13, 1e14, 1e15])
def test_no_false_optimum_beside_large_constraints(size: float) -> None:
    """Small grids with constraint scores, each claim against enumeration in fractions."""
    optimal = 0
    for seed in seeds(12):
        rng = np.random.default_rng(seed)
        problem = ms.Problem(ms.Graph.grid(2, 3), rng.normal(size=(6, 3)), tables=-size * np.eye(3))
        scores = every_score(problem)
        best = max(scores.values())
        for solver in (TRWS(), JunctionTree(), BranchAndBound()):
            result = solver.solve(problem)
            regret = best - scores[tuple(result.labels.tolist())]
            assert Fraction(result.bound) >= best and Fraction(result.gap) >= regret
            if result.guarantee == "optimal":
                optimal += 1
                assert regret <= Fraction(1e-9) * len(scores), (seed, result)
            result.certificate.verify(problem, result.labels, result.score, result.bound, result.guarantee)
    assert optimal >= 12  # where numbers reach, the word is said


def test_the_variation_is_that_of_what_a_labelling_touches() -> None:
    rng = np.random.default_rng(0)
    unary, tables = rng.normal(size=(6, 3)), rng.normal(size=(7, 3, 3))
    graph, labels = ms.Graph.grid(2, 3), rng.integers(0, 3, size=6)
    plain = ms.Problem(graph, unary, tables)
    assert 0 < variation(plain, labels) < 13 * 5
    assert variation(ms.Problem(graph, unary + 2.0**20, tables), labels) == pytest.approx(variation(plain, labels), rel=1e-6)
    assert variation(ms.Problem(graph, 4 * unary, 4 * tables), labels) == 4 * variation(plain, labels)
    # an entry that the labelling does not have, at every node and edge
    wild, far = unary.copy(), tables.copy()
    for v in range(6):
        wild[v, (labels[v] + 1) % 3] = -1e14
    for e, (u, v) in enumerate(graph.edges.tolist()):
        far[e, (labels[u] + 1) % 3, labels[v]] = -1e14
    assert variation(ms.Problem(graph, wild, far), labels) < 13 * 5
    # a reward that cannot be reached
    clique = [([0, 1, 2], [1e94, 0.5, 0.25])]
    assert variation(ms.Problem(graph, unary, tables, cliques=clique), labels) < 14 * 5
    assert tolerance(plain, labels) == 1e-9 * variation(plain, labels)
    assert variation(ms.Problem(graph, np.zeros((6, 3)), np.zeros((3, 3))), labels) == 0


# ---- a solver's own gap is never trusted -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_answers_near_zero_are_confirmed_by_their_own_proof(seed: int) -> None:
    """Tables of 1e6 and an offset that takes the best score away: the proof leaves a gap that the solver did not see."""
    rng = np.random.default_rng(seed)
    graph, unary, tables = ms.Graph.complete(7), np.zeros((7, 3)), 1e6 * rng.normal(size=(21, 3, 3))
    best = ms.solve(ms.Problem(graph, unary, tables)).score
    problem = ms.Problem(graph, unary, tables, offset=-best)
    exact = max(every_score(problem).values())
    for solver in (None, "JunctionTree", "BranchAndBound", "Exhaustive"):
        result = ms.solve(problem, solver)
        found = result.certificate.verify(problem, result.labels, result.score, result.bound, result.guarantee)
        assert found.optimal == (result.guarantee == "optimal")
        assert Fraction(result.bound) >= exact


def test_mixed_scales_are_confirmed_by_their_own_proof() -> None:
    for seed in seeds(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 6))
        tables = rng.normal(size=(n * (n - 1) // 2, 3, 3)) * 10.0 ** rng.integers(0, 10, size=(n * (n - 1) // 2, 1, 1))
        problem = ms.Problem(ms.Graph.complete(n), rng.normal(size=(n, 3)), tables)
        problem = ms.Problem(problem.graph, problem.unary, problem.tables, offset=-ms.solve(problem).score)
        result = ms.solve(problem)
        result.certificate.verify(problem, result.labels, result.score, result.bound, result.guarantee)
        assert Fraction(result.bound) >= max(every_score(problem).values())


def test_a_weight_out_of_reach_does_not_lower_a_bound() -> None:
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        unary = rng.normal(size=(4, 3))
        unary[0, 2] = -np.inf
        cliques = [([0, 1, 2], [0.3, 0.1, 1e94]), ([1, 2, 3], rng.random(3))]
        problem = ms.Problem(ms.Graph.chain(4), unary, rng.normal(size=(3, 3, 3)), cliques=cliques)
        best = max(every_score(problem).values())
        for solver in ("JunctionTree", "BranchAndBound", "TRWS", "Exhaustive"):
            result = ms.solve(problem, solver)
            assert Fraction(result.bound) >= best, solver
            result.certificate.verify(problem, result.labels, result.score, result.bound, result.guarantee)


def test_a_claimed_score_is_compared_at_its_own_scale() -> None:
    """With an offset of 1e12 a score that was 900 too high passed."""
    problem = ms.Problem(ms.Graph.chain(3), [[0, 1], [0, 0], [2, 0.5]], tables=0.7 * np.eye(2), offset=1e12)
    result = ms.solve(problem)
    result.certificate.verify(problem, result.labels, result.score)
    for wrong in (900.0, 1.0, -1.0, 0.1):
        with pytest.raises(ms.CertificateError, match="claimed score"):
            result.certificate.verify(problem, result.labels, result.score + wrong)
    with pytest.raises(ms.CertificateError, match="claimed bound"):
        result.certificate.verify(problem, result.labels, bound=result.bound - 0.1)


def test_a_result_checks_all_that_it_claims() -> None:
    rng = np.random.default_rng(3)
    problem = ms.Problem(ms.Graph.complete(5), rng.normal(size=(5, 3)), rng.normal(size=(10, 3, 3)))
    result = ms.solve(problem)
    assert result.verify(problem).optimal and result.verify(problem, exact=True).exact
    worse = np.argsort([problem.score(y) for y in itertools.product(range(3), repeat=5)])[0]
    labels = np.array(list(itertools.product(range(3), repeat=5))[worse], dtype=np.int32)
    for change in (
        dict(score=result.score + 1e-6),
        dict(bound=result.bound - 1e-6),
        dict(labels=labels, score=problem.score(labels), bound=result.bound),
        dict(certificate=None),
    ):
        with pytest.raises(ms.CertificateError):
            dataclasses.replace(result, **change).verify(problem)
    assert ICM().solve(problem).verify(problem).guarantee == "feasible"


@pytest.mark.parametrize("claim", ["optimal", "infeasible", "nonsense"])
def test_a_word_that_is_not_proven_is_refused(claim: str) -> None:
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.complete(6), rng.normal(size=(6, 3)), rng.normal(size=(15, 3, 3)))
    zero = MessageCertificate(problem.zero_messages())
    labels = np.zeros(6, dtype=int)
    assert zero.verify(problem, labels, guarantee="within_gap").guarantee == "within_gap"
    with pytest.raises(ms.CertificateError, match=claim):
        zero.verify(problem, labels, guarantee=claim)


def test_exact_checks_of_large_proofs_agree() -> None:
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.grid(40, 40), rng.normal(size=(1600, 5)), tables=0.4 * np.eye(5))
    result = TRWS().solve(problem)
    plain = result.certificate.verify(problem, result.labels)
    exact = result.certificate.verify(problem, result.labels, exact=True)
    assert exact.exact and exact.optimal == plain.optimal
    assert exact.gap <= plain.gap <= exact.gap + 1e-9 and exact.bound <= plain.bound


def test_large_terms_that_cancel_excuse_no_gap() -> None:
    """Messages of 1e13 moved into the scores change none of them: labellings that differ by 0.7 are not the same."""
    rng = np.random.default_rng(0)
    graph = ms.Graph.chain(3)
    plain = ms.Problem(graph, rng.normal(size=(3, 3)), rng.normal(size=(2, 3, 3)))
    moved = plain.reparametrize(rng.normal(size=(2, 2, 3)) * 1e10)
    for y in itertools.product(range(3), repeat=3):
        labels = np.array(y, dtype=np.int32)
        assert tolerance(moved, labels) < 1e-6


def test_factors_with_tables_of_their_own_count_each_of_their_numbers_once() -> None:
    """Distances at stacked tables (equal numbers, forbidden ones, two shapes) are those of a loop over the factors."""
    for seed in seeds(12):
        rng = np.random.default_rng(seed)
        n, factors = 40, []
        for i in range(n - 2):
            shape = (3, 3, 3) if i % 3 else (3, 3)
            table = rng.normal(size=shape).round(int(rng.integers(0, 4)))
            if i % 5 == 0:
                table.ravel()[rng.integers(0, table.size, 2)] = -np.inf
            factors.append((tuple(range(i, i + len(shape))), table))
        problem = ms.Problem(ms.Graph.from_edges([], n), rng.normal(size=(n, 3)), factors=factors)
        labels = rng.integers(0, 3, size=n)
        wanted = []
        for nodes, table in factors:
            here = table[tuple(labels[list(nodes)])]
            values = sorted({x for x in table.ravel().tolist() if np.isfinite(x) and x != here})
            distances = sorted(abs(x - here) for x in values)
            wanted.append(distances[int(0.05 * len(distances))] if np.isfinite(here) else np.inf)
        assert _at_factors(problem, labels) == pytest.approx(np.array(wanted), rel=1e-12)
