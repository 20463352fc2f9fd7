"""Trivial problems, local consistency and the constraint satisfaction problem of maximal nodes and edges."""

from __future__ import annotations

import numpy as np
import pytest
from reference.families import make
from reference.seeds import seeds

from maxsum import Graph, InvalidProblemError, Problem
from maxsum.core.consistency import (
    is_locally_consistent,
    is_strictly_trivial,
    locally_consistent,
    maximal_csp,
    maximal_set,
)
from maxsum.inference import TreeDP

EQUAL = np.where(np.eye(2, dtype=bool), 0.0, -1.0)


def test_maximal_nodes_and_edges() -> None:
    problem = Problem(Graph.chain(2), [[0.0, 1.0], [2.0, 2.0]], tables=[[3.0, 1.0], [3.0, 0.0]])
    top = maximal_set(problem)
    assert top.nodes.tolist() == [[False, True], [True, True]] and not top.unique
    assert top.edges.tolist() == [[[True, False], [True, False]]]
    assert maximal_set(problem, tol=1.0).nodes.all()
    rows = Problem(Graph.chain(2), [[0.0], [5.0, 0.0, 0.0]], tables=[np.zeros((1, 3))])
    assert maximal_set(rows).nodes.tolist() == [[True, False, False], [True, False, False]]
    assert maximal_set(rows).edges.tolist() == [[[True, True, True], [False] * 3, [False] * 3]]
    with pytest.raises(InvalidProblemError, match="without cliques"):
        maximal_set(Problem(Graph.chain(1), [[0.0, 1.0]], cliques=[([0], 1.0)]))


def test_strictly_trivial() -> None:
    graph = Graph.complete(3)
    tables = np.full((2, 2), 0.0)
    tables[1, 1] = 1.0
    assert is_strictly_trivial(Problem(graph, [[0, 1]] * 3, tables=tables))
    assert not is_strictly_trivial(Problem(graph, [[1, 0]] * 3, tables=tables))
    assert not is_strictly_trivial(Problem(graph, [[0, 0]] * 3, tables=tables))
    assert not is_strictly_trivial(Problem(graph, [[0, 1]] * 3, tables=np.zeros((2, 2))))


def test_trivial_problem_has_a_tight_height() -> None:
    problem = Problem(Graph.complete(3), [[0, 1], [3, 3], [0, 2]], tables=EQUAL)
    assert problem.bound() == problem.score([1, 1, 1]) == 6.0
    assert maximal_csp(problem, maximal_set(problem)).score([1, 1, 1]) == 0.0
    assert maximal_csp(problem, maximal_set(problem)).score([1, 0, 1]) == -np.inf


def test_local_consistency_removes_labels_without_partners() -> None:
    problem = Problem(Graph.chain(3), [[0, 0], [0, 0], [0, -5]], tables=EQUAL)
    top = maximal_set(problem)
    assert not is_locally_consistent(problem, top)
    kept = locally_consistent(problem, top)
    assert kept.nodes.tolist() == [[True, False]] * 3 and is_locally_consistent(problem, kept)
    assert kept.edges.tolist() == [[[True, False], [False, False]]] * 2


def test_local_consistency_does_not_prove_a_labelling() -> None:
    """The frustrated triangle: all maximal nodes and edges are consistent, yet no labelling is maximal."""
    problem = Problem(Graph.complete(3), np.zeros((3, 2)), tables=1 - np.eye(2))
    top = maximal_set(problem)
    assert is_locally_consistent(problem, top)
    csp = maximal_csp(problem, top)
    assert all(csp.score(y) == -np.inf for y in np.ndindex(2, 2, 2))
    assert problem.bound() == 3.0 > max(problem.score(y) for y in np.ndindex(2, 2, 2))


def test_no_edges() -> None:
    problem = Problem(Graph.from_edges([], 2), [[0, 1], [1, 0]])
    top = maximal_set(problem)
    assert is_strictly_trivial(problem) and is_locally_consistent(problem, top)
    assert maximal_csp(problem, top).score([1, 0]) == 0.0


@pytest.mark.parametrize("family", ["chain", "tree", "forest_with_isolated_nodes", "hard_tree"])
def test_exact_messages_make_a_forest_trivial(family: str) -> None:
    """As Theorem 3 promises where the relaxation is tight: an equivalent problem that is trivial, with a tight height."""
    for seed in seeds(15):
        case = make(family, seed)
        if not case.raw.feasible:
            continue
        result = TreeDP().solve(case.problem)
        equivalent = case.problem.reparametrize(result.messages)
        room = case.raw.resolution + 4 * case.raw.fuzz
        for y in case.raw.labellings[:20]:
            a, b = equivalent.score(y), case.problem.score(y)
            assert a == b or abs(a - b) <= room
        assert case.problem.bound(result.messages) == pytest.approx(case.raw.best, abs=room)
        if family != "hard_tree":
            assert equivalent.bound() == pytest.approx(case.raw.best, abs=room)
            csp = maximal_csp(equivalent, maximal_set(equivalent, tol=room))
            assert csp.score(result.labels) == 0.0 and csp.bound() == 0.0


def test_messages_are_applied_first() -> None:
    case = make("chain", 3)
    result = TreeDP().solve(case.problem)
    direct = maximal_set(case.problem, result.messages, tol=1e-9)
    applied = maximal_set(case.problem.reparametrize(result.messages), tol=1e-9)
    assert np.array_equal(direct.nodes, applied.nodes) and np.array_equal(direct.edges, applied.edges)
