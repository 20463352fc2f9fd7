"""Exhaustive, the reference, and ICM, the local search that everything polishes with."""

from __future__ import annotations

import numpy as np
import pytest
from contracts.common import check_result
from reference.families import FAMILIES, make

import maxsum as ms
from maxsum.inference.exact.exhaustive import Exhaustive
from maxsum.inference.moves.icm import ICM, polish, start_labels
from maxsum.inference.prepare import prepare
from maxsum.kernels.icm import icm_sweeps


@pytest.mark.parametrize("family", FAMILIES)
def test_exhaustive_equals_enumeration(family):
    for seed in range(8):
        case = make(family, seed)
        result = Exhaustive().solve(case.problem)
        check_result(case, result)
        assert result.guarantee == ("optimal" if case.raw.feasible else "infeasible"), (case, result)
        if case.raw.feasible and family in ("ties", "zeros", "cliques_hard"):
            assert result.labels.tolist() == case.raw.optima[0].tolist(), case


def test_exhaustive_refuses_by_number():
    problem = ms.Problem(ms.Graph.chain(23), np.zeros((23, 2)), np.eye(2))
    with pytest.raises(ms.UnsupportedProblemError, match="at most 4194304 labellings; the problem has 8388608"):
        Exhaustive().solve(problem)
    assert Exhaustive(max_labellings=2**23).supports(problem)
    assert "10**30" in Exhaustive().supports(ms.Problem(ms.Graph.chain(30), np.zeros((30, 10)), np.eye(10))).reason
    many = ms.Problem(ms.Graph.chain(70), np.zeros((70, 1)), np.zeros((1, 1)))
    assert "the problem has 70" in Exhaustive().supports(many).reason


def test_exhaustive_with_many_fixed_nodes():
    states = np.ones(30, dtype=int)
    states[::3] = 2
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.chain(30), rng.normal(size=(30, 2)), rng.normal(size=(2, 2)), n_states=states)
    result = Exhaustive().solve(problem)
    assert result.guarantee == "optimal" and result.certificate.verify(problem, result.labels).optimal


def single_changes(problem, labels):
    for v in range(problem.n_nodes):
        for k in range(problem.n_states[v]):
            other = labels.copy()
            other[v] = k
            yield problem.score(other)


@pytest.mark.parametrize("family", FAMILIES)
def test_icm_stops_where_no_single_change_helps(family):
    for seed in range(8):
        case = make(family, seed)
        result = ICM().solve(case.problem)
        check_result(case, result)
        if result.labels is None:
            continue
        assert result.guarantee == "feasible" and result.certificate is None
        assert result.termination == "converged"
        room = case.raw.noise
        assert max(single_changes(case.problem, result.labels), default=result.score) <= result.score + room, case


def violations(problem, labels):
    edge = problem.tables[problem.edge_table, labels[problem.graph.edges[:, 0]], labels[problem.graph.edges[:, 1]]]
    return int(np.isneginf(edge).sum() + np.isneginf(problem.unary[np.arange(problem.n_nodes), labels]).sum())


def test_polish_never_makes_a_labelling_worse():
    rng = np.random.default_rng(4)
    repaired = 0
    for family in FAMILIES:
        for seed in range(6):
            case = make(family, seed)
            problem, prepared = case.problem, prepare(case.problem)
            if len(problem.factors):
                continue  # polish looks at nodes, edges and cliques
            start = np.array([rng.integers(k) for k in problem.n_states], dtype=np.int32)
            before = start.copy()
            after = polish(prepared.net, start)
            assert np.array_equal(start, before) and after.dtype == np.int32
            assert problem.score(after) >= problem.score(start) - case.raw.noise
            if prepared.feasible and np.isneginf(problem.score(start)) and np.isfinite(problem.score(after)):
                repaired += 1
    assert repaired > 5


def test_violations_count_before_the_score():
    unary = np.array([[0.0, 100.0], [0.0, 0.0]])
    table = np.array([[0.0, -5.0], [-np.inf, -np.inf]])
    problem = ms.Problem(ms.Graph.chain(2), unary, table[None])
    assert violations(problem, np.array([1, 0])) == 1
    assert ICM().solve(problem).labels.tolist() == [0, 0]


def test_clique_counts_follow_the_moves():
    """One sweep of the kernel against the same sweep by scores of whole labellings."""
    rng = np.random.default_rng(7)
    for _ in range(40):
        groups = [(rng.choice(6, int(rng.integers(1, 5)), replace=False), rng.exponential(size=3)) for _ in range(5)]
        problem = ms.Problem(ms.Graph.chain(6), rng.normal(size=(6, 3)), rng.normal(size=(3, 3)), cliques=groups)
        labels = rng.integers(3, size=6).astype(np.int32)
        slow = labels.copy()
        for v in range(6):
            scores = []
            for k in range(3):
                slow[v] = k
                scores.append(problem.score(slow))
            slow[v] = int(np.argmax(scores))
        icm_sweeps(prepare(problem).net, labels, 1)
        assert labels.tolist() == slow.tolist()


def test_ties_stay_and_moves_go_to_the_lowest_label():
    problem = ms.Problem(ms.Graph.chain(2), np.array([[0.0, 0, 0], [0, 0, 0]]), np.zeros((3, 3)))
    assert polish(prepare(problem).net, np.array([2, 1], dtype=np.int32)).tolist() == [2, 1]
    problem = ms.Problem(ms.Graph.chain(2), np.array([[1.0, 1, 0], [0, 0, 0]]), np.zeros((3, 3)))
    assert polish(prepare(problem).net, np.array([2, 1], dtype=np.int32)).tolist() == [0, 1]
    assert start_labels(prepare(problem).net).tolist() == [0, 0]


def test_icm_starts_from_a_result_and_obeys_its_limits():
    rng = np.random.default_rng(11)
    problem = ms.Problem(ms.Graph.grid(12, 12), rng.normal(size=(144, 3)), rng.normal(size=(264, 3, 3)))
    first = ICM().solve(problem)
    again = ICM().solve(problem, init=first)
    assert again.n_iter == 1 and np.array_equal(again.labels, first.labels)
    short = ICM(max_iter=1).solve(problem)
    assert short.termination == "iteration_limit" and short.score < first.score
    assert ICM(max_iter=0).solve(problem).labels.tolist() == problem.unary.argmax(axis=1).tolist()
    assert ICM(time_limit=0).solve(problem).termination == "time_limit"
    with pytest.raises(ms.InvalidParameterError, match="max_iter"):
        ICM(max_iter=-1)
