"""Rounding: the promises of Kleinberg-Tardos rounding on fractional relaxations; persistency against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from factories.problems import random_problem
from reference.enumeration import every_labelling
from reference.seeds import seeds, share

import maxsum as ms
from maxsum.core.certificates.persistency import excluded_labels, fixed_nodes
from maxsum.core.errors import InvalidParameterError, InvalidProblemError, NotAssociativeError
from maxsum.core.rounding import expected_rounding, guaranteed_score, nearest, sample_rounding
from maxsum.inference import TRWS, LinearProgram


def disliking_triangle():
    """Node ``i`` dislikes label ``i``; the relaxation gives each of the other two one half."""
    return ms.Problem(ms.Graph.complete(3), -10.0 * np.eye(3), np.eye(3))


def random_associative(seed, n_nodes=7, n_labels=3, cliques=True):
    """Every node dislikes one label: symmetric enough for fractional relaxations."""
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(n_nodes) for j in range(i) if rng.random() < 0.5]
    unary = -20.0 * np.eye(n_labels)[rng.integers(n_labels, size=n_nodes)]
    tables = np.eye(n_labels) - 1.0
    terms = [(rng.choice(n_nodes, int(rng.integers(3, 5)), replace=False), rng.integers(0, 2, n_labels)) for _ in range(2)]
    return ms.Problem(ms.Graph.from_edges(pairs, n_nodes), unary, tables, cliques=terms if cliques else None, offset=2.5)


def random_marginals(seed, n_nodes, n_labels):
    rng = np.random.default_rng(1000 + seed)
    mu = rng.choice([0.0, 0.25, 0.5, 1.0], size=(n_nodes, n_labels)) + 1e-3
    return mu / mu.sum(axis=1, keepdims=True)


def test_nearest_takes_the_lowest_label_on_ties():
    assert nearest([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]]).tolist() == [0, 2]
    assert nearest(np.zeros((0, 3))).shape == (0,)
    with pytest.raises(InvalidProblemError, match="shape"):
        nearest([0.5, 0.5])
    with pytest.raises(InvalidProblemError, match="nan"):
        nearest([[np.nan, 0.5]])


def test_the_relaxation_of_the_triangle_is_fractional_and_rounding_keeps_half_of_it():
    problem = disliking_triangle()
    mu = LinearProgram().solve(problem).marginals
    np.testing.assert_allclose(mu, 0.5 * (1 - np.eye(3)), atol=1e-6)
    assert guaranteed_score(problem, mu) == pytest.approx(0.75)
    labels = expected_rounding(problem, mu)
    assert problem.score(labels) == 1.0 == max(problem.score(y) for y in every_labelling(problem))


@pytest.mark.parametrize("seed", seeds(40))
def test_the_derandomised_labelling_keeps_its_promise(seed):
    problem = random_associative(seed)
    relaxed = LinearProgram().solve(problem).marginals
    for mu in (relaxed, random_marginals(seed, 7, 3)):
        labels = expected_rounding(problem, mu)
        assert problem.score(labels) >= guaranteed_score(problem, mu) - 1e-6
        assert labels.tolist() == expected_rounding(problem, mu).tolist()
        assert (mu[np.arange(7), labels] > 0).all()


def test_many_relaxations_above_are_fractional():
    fractional = 0
    for seed in seeds(40):
        mu = LinearProgram().solve(random_associative(seed)).marginals
        fractional += bool((np.abs(mu - 0.5) < 0.4).any())
    assert fractional >= 5


@pytest.mark.parametrize("seed", range(3))
def test_random_rounding_keeps_its_promise_on_average(seed):
    problem = random_associative(seed, n_nodes=5)
    mu = random_marginals(seed, 5, 3)
    rng = np.random.default_rng(seed)
    n = 4000
    drawn = np.array([sample_rounding(problem, mu, rng) for _ in range(n)])
    for k in range(3):
        share = (drawn == k).mean(axis=0)
        assert (np.abs(share - mu[:, k]) <= 4.5 * np.sqrt(mu[:, k] * (1 - mu[:, k]) / n) + 1e-9).all()
    for c in range(len(problem.cliques)):
        member = drawn[:, problem.cliques.members(c)]
        for k in range(3):
            share = (member == k).all(axis=1).mean()
            assert share >= mu[problem.cliques.members(c), k].min() / member.shape[1] - 4.5 * np.sqrt(0.25 / n)
    scores = np.array([problem.score(y) for y in drawn])
    assert scores.mean() >= guaranteed_score(problem, mu) - 4.5 * scores.std() / np.sqrt(n)


def test_seeds_and_samples():
    problem, mu = random_associative(1), random_marginals(1, 7, 3)
    one = sample_rounding(problem, mu, 3)
    assert one.tolist() == sample_rounding(problem, mu, 3).tolist()
    assert len({tuple(sample_rounding(problem, mu, seed)) for seed in range(20)}) > 3
    assert problem.score(sample_rounding(problem, mu, 3, n_samples=50)) >= problem.score(one)


def test_whole_marginals_are_kept():
    problem = random_associative(2)
    labels = np.array([0, 1, 2, 2, 1, 0, 0])
    mu = np.eye(3)[labels]
    assert expected_rounding(problem, mu).tolist() == labels.tolist()
    assert sample_rounding(problem, mu, 0).tolist() == labels.tolist()


def test_what_cannot_be_rounded():
    problem = disliking_triangle()
    with pytest.raises(InvalidProblemError, match="shape"):
        expected_rounding(problem, np.ones((2, 3)) / 3)
    with pytest.raises(InvalidProblemError, match="sum to 1"):
        sample_rounding(problem, np.ones((3, 3)))
    with pytest.raises(InvalidParameterError, match="n_samples"):
        sample_rounding(problem, np.ones((3, 3)) / 3, n_samples=0)
    repelling = ms.Problem(ms.Graph.complete(3), np.zeros((3, 3)), -np.eye(3))
    with pytest.raises(NotAssociativeError, match=r"edge 0 \(nodes 0-1, table 0\)"):
        expected_rounding(repelling, np.ones((3, 3)) / 3)
    forbidden = ms.Problem(ms.Graph.chain(2), [[0.0, -np.inf], [0.0, 0.0]], np.eye(2))
    with pytest.raises(InvalidProblemError, match="node 0"):
        sample_rounding(forbidden, np.ones((2, 2)) / 2)


def test_nodes_called_fixed_have_that_label_in_every_optimum():
    found = checked = 0
    for seed in seeds(80):
        options = dict(whole=seed % 3 == 0, hard=0.1 * (seed % 4 == 0), cliques=(3,) * (seed % 5 == 0))
        problem = random_problem(seed, 6, 3, scale=0.6, **options)
        every = every_labelling(problem)
        scores = np.array([problem.score(y) for y in every])
        if not np.isfinite(scores.max()):
            continue
        optima = every[scores >= scores.max() - 1e-9]
        rng = np.random.default_rng(seed)
        worse = every[rng.choice(np.flatnonzero(np.isfinite(scores)))]
        near = every[np.argsort(scores)[-3]] if np.isfinite(np.sort(scores)[-3]) else worse
        noise = rng.normal(size=problem.zero_messages().edge.shape)
        for messages in (TRWS(max_iter=30).solve(problem).messages, problem.zero_messages(), noise):
            for labels in (optima[0], near, worse):
                fixed = fixed_nodes(problem, messages, labels)
                assert fixed.dtype == bool and fixed.shape == (6,)
                assert (optima[:, fixed] == labels[fixed]).all()
                excluded = excluded_labels(problem, messages, labels)
                assert not excluded[np.arange(6), optima].any()
                found += int(fixed.sum())
                checked += 1
    assert checked > share(500) and found > share(300)


def test_ties_are_not_fixed():
    problem = ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), np.eye(2))
    assert not fixed_nodes(problem, None, [0, 0, 0]).any()
    chain = ms.Problem(ms.Graph.chain(3), [[0.1, 0], [0, 0], [0, 0]], np.eye(2))
    assert not fixed_nodes(chain, None, [1, 1, 1]).any()
    leaning = ms.Problem(ms.Graph.chain(3), [[0.1, 0], [0, 0], [0, 0]], np.eye(2))
    result = TRWS().solve(leaning)
    assert fixed_nodes(leaning, result.messages, result.labels).all()


def test_a_forbidden_labelling_fixes_nothing():
    problem = ms.Problem(ms.Graph.chain(2), [[0.0, -np.inf], [5.0, 0.0]], np.eye(2))
    assert not fixed_nodes(problem, None, [1, 0]).any()
    assert fixed_nodes(problem, None, [0, 0]).all()
