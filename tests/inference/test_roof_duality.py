"""RoofDuality: the value of the linear relaxation, nodes whose label every optimum has, and what it does not take."""

import numpy as np
import pytest
from factories.problems import spin_glass
from reference.seeds import seeds, share

import maxsum as ms
from maxsum.core.certificates.persistency import persistent_nodes
from maxsum.core.errors import UnsupportedProblemError
from maxsum.inference import TRWS, LinearProgram, MaxFlow, RoofDuality


def binary(seed, n_nodes=9, strength=1.0, shared=False):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(rng.random((n_nodes, n_nodes)) < 0.45, 1))
    pairs = np.where(rng.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    graph = ms.Graph.from_edges(pairs, n_nodes=n_nodes)
    tables = rng.normal(size=(1 if shared else len(pairs), 2, 2))
    weight = strength * rng.normal(size=len(pairs))
    return ms.Problem(graph, rng.normal(size=(n_nodes, 2)), tables[0] if shared else tables, edge_weight=weight)


def optima(problem):
    every = np.stack(np.meshgrid(*[np.arange(k) for k in problem.n_states], indexing="ij")).reshape(problem.n_nodes, -1).T
    scores = np.array([problem.score(labels) for labels in every])
    return every[scores >= scores.max() - 1e-9]


@pytest.mark.parametrize("shared", [False, True])
def test_the_bound_is_that_of_the_linear_program_and_fixed_nodes_are_in_every_optimum(shared):
    n_fixed, n_open = 0, 0
    for seed in seeds(40):
        problem = binary(seed, strength=(1.0, 2.0, 5.0)[seed % 3], shared=shared)
        result = RoofDuality().solve(problem)
        assert result.bound == pytest.approx(LinearProgram().solve(problem).bound, abs=1e-6)
        best = optima(problem)
        assert (best[:, result.fixed] == result.labels[result.fixed]).all()
        assert result.verify(problem, exact=True).bound == pytest.approx(result.bound, abs=1e-9)
        n_fixed, n_open = n_fixed + int(result.fixed.sum()), n_open + int(result.gap > 1e-6)
    assert n_fixed > share(100) and n_open >= share(4)


def test_open_gaps_fix_nodes_that_the_gap_alone_would_not():
    """A frustrated triangle far from nodes that are sure: the bound stays open, and they are fixed all the same."""
    edges = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5)]
    apart = np.array([[0.0, 1.0], [1.0, 0.0]])
    unary = np.zeros((6, 2))
    unary[4] = [0.05, 0.0]
    tables = [50 * apart] * 3 + [0.001 * np.eye(2), 0.02 * np.eye(2), 0.02 * apart]
    problem = ms.Problem(ms.Graph.from_edges(edges, n_nodes=6), unary, np.array(tables))
    result = RoofDuality().solve(problem)
    assert result.gap > 1
    assert result.fixed.tolist() == [False, False, False, True, True, True]
    assert result.labels[3:].tolist() == [0, 0, 1]


def test_supermodular_tables_are_solved_as_by_max_flow():
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.grid(12, 12), rng.normal(size=(144, 2)), 0.4 * np.eye(2))
    result = RoofDuality().solve(problem)
    assert result.guarantee == "optimal" and result.fixed.all()
    assert result.score == pytest.approx(MaxFlow().solve(problem).score, abs=1e-9)


def test_any_messages_and_labels_show_only_nodes_that_are_fixed():
    shown = 0
    for seed in seeds(60):
        rng = np.random.default_rng(seed)
        k = 2 + seed % 2
        graph = ms.Graph.from_edges(np.argwhere(np.triu(rng.random((6, 6)) < 0.5, 1)), n_nodes=6)
        tables = np.where(
            rng.random((graph.n_edges, k, k)) < 0.1 * (seed % 4 == 3), -np.inf, 0.4 * rng.normal(size=(graph.n_edges, k, k))
        )
        problem = ms.Problem(graph, rng.normal(size=(6, k)), tables if graph.n_edges else None)
        found = TRWS(max_iter=seed % 7).solve(problem)
        if found.labels is None or not np.isfinite(found.score):
            continue
        edge = found.messages.edge + 0.01 * rng.normal(size=found.messages.edge.shape)
        messages = ms.core.problem.Messages(edge, found.messages.clique)
        labels = np.where(rng.random(6) < 0.8, found.labels, rng.integers(0, k, 6))
        mask = persistent_nodes(problem, messages, labels)
        assert (optima(problem)[:, mask] == labels[mask]).all()
        shown += int(mask.sum())
    assert shown > share(20)


def test_ties_are_not_fixed():
    problem = ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), np.eye(2))
    assert not RoofDuality().solve(problem).fixed.any()


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        (ms.Problem(ms.Graph.chain(3), np.zeros((3, 3)), np.eye(3)), "two labels"),
        (ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), np.where(np.eye(2) > 0, -np.inf, 0.0)), "finite"),
        (ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), np.eye(2), cliques=[([0, 1, 2], [1.0, 1.0])]), "clique"),
    ],
)
def test_what_it_does_not_take_is_named(problem, word):
    with pytest.raises(UnsupportedProblemError, match=word):
        RoofDuality().solve(problem)


def test_a_time_limit_leaves_a_bound(monkeypatch):
    problem = spin_glass(12, 0)
    result = RoofDuality(time_limit=0.0).solve(problem)
    assert result.bound >= TRWS().solve(problem).score and result.labels is not None
