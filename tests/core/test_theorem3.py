"""Theorem 3 of Franc & Savchynskyy 2008: acyclic and supermodular problems with a unique solution have a strictly trivial equivalent."""

from __future__ import annotations

import numpy as np
import pytest
from reference.enumeration import every_labelling

from maxsum import Graph, Problem
from maxsum.core.consistency import is_strictly_trivial, maximal_set, strictly_trivial_messages
from maxsum.inference import MaxFlow, TreeDP

TREE = Graph.from_edges([(0, 1), (2, 1), (1, 3), (3, 4), (5, 3)], n_nodes=7)


def best(problem: Problem) -> tuple[np.ndarray, bool]:
    """The optimal labelling by enumeration, and whether it is the only one."""
    labels = every_labelling(problem)
    score = np.array([problem.score(y) for y in labels])
    return labels[score.argmax()], bool((score > score.max() - 1e-9).sum() == 1)


def supermodular(random: np.random.Generator, n_labels: int) -> np.ndarray:
    """g(k, l) + g(k+1, l+1) >= g(k, l+1) + g(k+1, l), with ties among whole numbers."""
    corners = random.integers(0, 3, size=(n_labels, n_labels))
    return corners.cumsum(axis=0).cumsum(axis=1) + random.integers(-3, 4, n_labels)[:, None] + random.integers(-3, 4, n_labels)


def check(problem: Problem, messages: object) -> bool:
    labels, unique = best(problem)
    found = strictly_trivial_messages(problem, messages)
    if not unique:
        assert found is None
        return False
    assert found is not None and is_strictly_trivial(problem, found)
    equivalent = problem.reparametrize(found)
    assert (maximal_set(equivalent).nodes.argmax(axis=1) == labels).all()
    assert problem.bound(found) == pytest.approx(problem.score(labels), abs=1e-9)
    for y in every_labelling(problem):
        assert equivalent.score(y) == pytest.approx(problem.score(y), abs=1e-9)
    return True


@pytest.mark.parametrize("n_labels", [2, 3])
def test_acyclic(n_labels: int) -> None:
    random = np.random.default_rng(n_labels)
    unique = []
    for _ in range(25):
        tables = random.integers(-2, 3, size=(TREE.n_edges, n_labels, n_labels)).astype(float)
        problem = Problem(TREE, random.integers(-2, 3, size=(7, n_labels)).astype(float), tables=tables, edge_table=range(5))
        unique.append(check(problem, TreeDP().solve(problem).messages))
    assert 3 < sum(unique) < 25


@pytest.mark.parametrize("n_labels", [2, 3])
def test_supermodular(n_labels: int) -> None:
    random = np.random.default_rng(n_labels)
    graph = Graph.grid(2, 3)
    unique = []
    for _ in range(25):
        tables = np.array([supermodular(random, n_labels) for _ in range(graph.n_edges)], dtype=float)
        unary = random.integers(-9, 10, size=(6, n_labels)).astype(float)
        problem = Problem(graph, unary, tables=tables, edge_table=range(graph.n_edges))
        unique.append(check(problem, MaxFlow().solve(problem).messages))
    assert 3 < sum(unique) < 25


def test_unequal_numbers_of_labels_and_hard_constraints() -> None:
    table = [[0.0, -np.inf, 1.0], [2.0, 0.0, -np.inf]]
    problem = Problem(
        Graph.chain(3), [[0.0, 1.0], [0.0, 0.5, 0.0], [0.0, 0.25]], tables=[table, np.zeros((3, 2))], edge_table=[0, 1]
    )
    assert check(problem, TreeDP().solve(problem).messages)


def test_what_is_not_trivial_has_none() -> None:
    frustrated = Problem(Graph.complete(3), [[0.0, 0.5], [0.0, 0.0], [0.0, 0.25]], tables=[[0.0, 1.0], [1.0, 0.0]])
    assert strictly_trivial_messages(frustrated) is None
