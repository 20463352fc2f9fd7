"""MaxFlow against enumeration, with every result's certificate verified by the core."""

from __future__ import annotations

import numpy as np
import pytest
from factories.problems import random_problem, supermodular
from reference.enumeration import every_labelling
from reference.families import random_edges, shuffle
from reference.seeds import seeds

from maxsum import Graph, Problem
from maxsum.core.errors import UnsupportedProblemError
from maxsum.core.result import Guarantee, Termination
from maxsum.inference.exact import maxflow as solver_module
from maxsum.inference.exact.maxflow import MaxFlow


def best_score(problem, labellings=None):
    """Highest score over all labellings, by plain sums of the definition."""
    y = every_labelling(problem) if labellings is None else labellings
    total = np.full(len(y), problem.offset)
    for v in range(problem.n_nodes):
        total += problem.unary[v, y[:, v]]
    for e, (u, v) in enumerate(problem.graph.edges):
        total += problem.tables[problem.edge_table[e]][y[:, u], y[:, v]] * problem.edge_weight[e]
    for c in range(len(problem.cliques)):
        member = y[:, problem.cliques.members(c)]
        agree = (member == member[:, :1]).all(axis=1)
        total += np.where(agree, problem.cliques.weights[c][member[:, 0]], 0.0)
    return total.max(initial=-np.inf), total


def check(problem):
    result = MaxFlow().solve(problem)
    best, total = best_score(problem)
    assert result.termination == Termination.converged
    if np.isneginf(best):
        assert result.guarantee == Guarantee.infeasible and result.labels is None
        assert result.certificate.verify(problem).infeasible
        return result
    spread = np.ptp(total[np.isfinite(total)])
    assert result.guarantee == Guarantee.optimal, (result, best)
    assert result.gap <= problem.resolution
    assert result.score == pytest.approx(best, rel=1e-12, abs=1e-9 * spread + 1e-300)
    found = result.certificate.verify(problem, result.labels, score=result.score, bound=result.bound)
    assert found.optimal
    assert np.isfinite(result.messages.edge).all() and np.isfinite(result.messages.clique).all()
    assert result.bound >= best - problem.resolution - 1e-12 * abs(best)
    return result


def band_of(rng, rows, cols):
    """A mask of allowed pairs that is a sublattice: two random staircases, here and there whole rows and columns out."""
    low = np.sort(rng.integers(0, cols, rows))
    high = np.maximum(np.sort(rng.integers(0, cols, rows)), low)
    mask = (np.arange(cols) >= low[:, None]) & (np.arange(cols) <= np.sort(high)[:, None])
    mask[rng.random(rows) < 0.1] = False
    mask[:, rng.random(cols) < 0.1] = False
    return mask


def banded(rng, rows, cols):
    table = supermodular(rng, rows, cols)
    return np.where(band_of(rng, rows, cols), table, -np.inf) if rng.random() < 0.7 else table


def equal_or_nothing(rng, rows, cols):
    return np.eye(2) if rows == cols == 2 else np.zeros((rows, cols))


def cut_problem(rng, n_nodes, n_labels, hard=False, **options):
    """Supermodular tables, forbidden pairs outside a sublattice, every other time nodes with different numbers of labels."""
    options = dict(table=banded if hard else supermodular, forbidden=0.15 * hard) | options
    return random_problem(rng, n_nodes, n_labels, unequal=rng.random() < 0.5, **options)


@pytest.mark.parametrize("seed", range(4))
def test_two_labels(seed):
    rng = np.random.default_rng(seed)
    for _ in seeds(150):
        result = check(cut_problem(rng, rng.integers(1, 9), 2, density=rng.random()))
        assert result.guarantee == Guarantee.optimal


@pytest.mark.parametrize("seed", range(4))
def test_ordered_labels(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in seeds(100):
        result = check(cut_problem(rng, rng.integers(1, 6), rng.integers(3, 5), density=rng.random()))
        assert result.guarantee == Guarantee.optimal


@pytest.mark.parametrize("seed", range(4))
def test_hard_constraints(seed):
    rng = np.random.default_rng(200 + seed)
    kinds = {check(cut_problem(rng, rng.integers(2, 6), rng.integers(2, 5), hard=True)).guarantee for _ in range(150)}
    assert kinds == {Guarantee.optimal, Guarantee.infeasible}


@pytest.mark.parametrize("scale", [1e-9, 1e9, 1e12])
def test_scales(scale):
    rng = np.random.default_rng(7)
    for i in range(40):
        found = check(cut_problem(rng, 5, 2 + i % 3, hard=i % 2 == 0, scale=scale))
        assert found.guarantee in (Guarantee.optimal, Guarantee.infeasible)


def test_large_constant_changes_no_label():
    rng = np.random.default_rng(8)
    for _ in range(40):
        state = rng.bit_generator.state
        plain = check(cut_problem(rng, 6, 3))
        rng.bit_generator.state = state
        shifted = check(cut_problem(rng, 6, 3, constant=1e9))
        np.testing.assert_array_equal(plain.labels, shifted.labels)


def test_shared_table_grids_with_weights_of_both_signs():
    rng = np.random.default_rng(9)
    for shape in [(1, 1), (1, 7), (3, 3), (2, 5)]:
        graph = Graph.grid(*shape, connectivity=8)
        for n_labels in (2, 3) if graph.n_nodes < 8 else (2,):
            table = supermodular(rng, n_labels, n_labels)
            weight = rng.random(graph.n_edges) * 2
            unary = rng.normal(size=(graph.n_nodes, n_labels)) * 2
            up = check(Problem(graph, unary, tables=table, edge_weight=weight))
            down = check(Problem(graph, unary, tables=-table, edge_weight=-weight))
            both = check(
                Problem(
                    graph,
                    unary,
                    tables=np.stack([table, -table]),
                    edge_table=np.arange(graph.n_edges) % 2,
                    edge_weight=np.where(np.arange(graph.n_edges) % 2, -weight, weight),
                )
            )
            np.testing.assert_array_equal(up.labels, down.labels)
            np.testing.assert_array_equal(up.labels, both.labels)


def test_cliques():
    rng = np.random.default_rng(10)
    for i in seeds(400):
        n = int(rng.integers(1, 9))
        graph = Graph.from_edges(np.array(shuffle(rng, random_edges(rng, n, 0.3)), dtype=int).reshape(-1, 2), n)
        states = rng.integers(1, 3, n) if i % 3 == 0 else np.full(n, 2)
        unary = [rng.normal(size=k) for k in states]
        if i % 4 == 0:
            for q in unary:
                if len(q) == 2 and rng.random() < 0.3:
                    q[rng.integers(2)] = -np.inf
        cliques = []
        for _ in range(rng.integers(1, 4)):
            size = min(n, int(rng.choice([1, 2, 3, 5])))
            nodes = rng.choice(n, size, replace=False)
            weights = rng.random(2)[: max(1, states.max())] * 3 * (rng.random(max(1, states.max())) > 0.3)
            cliques.append((nodes, weights))
        tables = [supermodular(rng, states[u], states[v]) for u, v in graph.edges]
        found = check(Problem(graph, unary, tables=tables or None, cliques=cliques))
        assert found.guarantee in (Guarantee.optimal, Guarantee.infeasible)


def test_ties_go_to_the_lowest_labels():
    graph = Graph.grid(3, 3)
    for n_labels in (1, 2, 3):
        result = MaxFlow().solve(Problem(graph, np.zeros((9, n_labels)), tables=np.zeros((n_labels, n_labels))))
        assert result.guarantee == Guarantee.optimal and not result.labels.any()
    rng = np.random.default_rng(11)
    for _ in seeds(100):
        problem = cut_problem(rng, 7, 2, whole=True, table=equal_or_nothing)
        labels = check(problem).labels
        best, total = best_score(problem)
        lowest = every_labelling(problem)[total == best].min(axis=0)
        np.testing.assert_array_equal(labels, lowest)


def test_small_and_empty_problems():
    assert MaxFlow().solve(Problem(Graph.chain(1), [[1.0, 3.0, 2.0]])).labels.tolist() == [1]
    assert MaxFlow().solve(Problem(Graph.from_edges([], 3), [[0, 1], [1, 0], [0, 0]])).labels.tolist() == [1, 0, 0]
    isolated = Problem(Graph.from_edges([[0, 2]], 4), np.array([[0, 1], [0, 5], [2, 0], [0, 0.0]]), tables=3 * np.eye(2))
    assert check(isolated).labels.tolist() == [0, 1, 0, 0]
    tiny = Problem(Graph.chain(2), [[0.0, 5e-324], [0.0, -0.0]], tables=np.eye(2) * 5e-324)
    assert MaxFlow().solve(tiny).score == pytest.approx(best_score(tiny)[0])


def test_long_chain_of_equalities():
    n, n_labels = 200, 5
    rng = np.random.default_rng(12)
    unary = rng.normal(size=(n, n_labels))
    equal = np.where(np.eye(n_labels, dtype=bool), 0.0, -np.inf)
    result = MaxFlow().solve(Problem(Graph.chain(n), unary, tables=equal))
    assert result.guarantee == Guarantee.optimal
    assert (result.labels == unary.sum(axis=0).argmax()).all()


def test_same_answer_every_time_and_input_untouched():
    rng = np.random.default_rng(13)
    problem = Problem(Graph.grid(30, 30), rng.normal(size=(900, 2)), tables=0.8 * np.eye(2))
    before = problem.unary.copy()
    first, second = MaxFlow().solve(problem), MaxFlow().solve(problem)
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.messages.edge, second.messages.edge)
    np.testing.assert_array_equal(problem.unary, before)
    warm = MaxFlow().solve(problem, init=first)
    assert warm.guarantee == Guarantee.optimal and warm.score == first.score


@pytest.mark.parametrize("n_labels", [2, 4])
def test_agrees_with_the_layered_network_of_another_order(n_labels):
    """Flipping every edge and reversing the order of the labels keeps the value."""
    rng = np.random.default_rng(14)
    graph = Graph.grid(12, 9)
    unary, table = rng.normal(size=(108, n_labels)), supermodular(rng, n_labels, n_labels)
    turned = Graph.from_edges(graph.edges[:, ::-1], 108)
    a = MaxFlow().solve(Problem(graph, unary, tables=table))
    b = MaxFlow().solve(Problem(turned, unary[:, ::-1], tables=table.T[::-1, ::-1]))
    assert a.guarantee == b.guarantee == Guarantee.optimal
    assert a.score == pytest.approx(b.score, rel=1e-12)


def test_refuses_with_a_witness():
    graph = Graph.from_edges([[0, 1], [3, 9]], 10)
    problem = Problem(graph, np.zeros((10, 2)), tables=np.stack([np.eye(2), -0.21 * np.eye(2)]), edge_table=[0, 1])
    text = r"MaxFlow needs supermodular tables; edge 1 \(nodes 3-9, table 1\) has g\(0,0\) \+ g\(1,1\) - g\(0,1\) - g\(1,0\) = -0\.42"
    with pytest.raises(UnsupportedProblemError, match=text):
        MaxFlow().solve(problem)
    potts = Problem(Graph.chain(2), np.zeros((2, 3)), tables=np.eye(3))
    assert MaxFlow().supports(potts).witness.value < 0
    hard = Problem(Graph.chain(2), np.zeros((2, 2)), tables=[[-np.inf, 0], [0, -np.inf]])
    assert not MaxFlow().supports(hard)


def test_refuses_cliques_of_more_labels_and_networks_too_large(monkeypatch):
    problem = Problem(Graph.from_edges([], 5), [[0.0] * 2] * 4 + [[0.0] * 3], cliques=[([0, 1], 1.0)])
    with pytest.raises(UnsupportedProblemError, match="takes cliques only with two labels; node 4 has 3"):
        MaxFlow().solve(problem)
    monkeypatch.setattr(solver_module, "_MAX_ARCS", 60)
    rng = np.random.default_rng(15)
    bent = supermodular(rng, 6, 6, sparse=0.0)
    assert "arcs" in MaxFlow().supports(Problem(Graph.chain(3), np.zeros((3, 6)), tables=bent)).reason
    distance = -np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    assert MaxFlow().supports(Problem(Graph.chain(3), np.zeros((3, 6)), tables=distance))


def hard_instance(shape=(60, 60), **options):
    rng = np.random.default_rng(16)
    return Problem(Graph.grid(*shape), rng.normal(size=(shape[0] * shape[1], 2)), tables=1.2 * np.eye(2), **options)


@pytest.mark.parametrize("layers", [False, True])
def test_stopping_early_returns_a_valid_bracket(monkeypatch, layers):
    monkeypatch.setattr(solver_module, "_VISITS", 50)
    problem = hard_instance(cliques=[([0, 1, 2], 1.0)] if layers else None)
    optimum = MaxFlow().solve(problem)
    assert optimum.guarantee == Guarantee.optimal and optimum.n_iter > 3
    stopped = MaxFlow().solve(problem, callback=lambda point: point.iteration >= 2)
    late = MaxFlow(time_limit=0.0).solve(problem)

    def interrupt(point):
        raise KeyboardInterrupt

    cut = MaxFlow().solve(problem, callback=interrupt)
    for result, why in ((stopped, Termination.stopped), (late, Termination.time_limit), (cut, Termination.interrupted)):
        assert result.termination == why
        assert result.labels is not None
        assert result.score <= optimum.score + problem.resolution
        assert np.isfinite(result.bound) and result.bound >= optimum.score - problem.resolution
        result.certificate.verify(problem, result.labels, score=result.score, bound=result.bound)


def test_small_steps_give_the_same_answer(monkeypatch):
    problem = hard_instance()
    whole = MaxFlow().solve(problem)
    monkeypatch.setattr(solver_module, "_VISITS", 7)
    parts = MaxFlow().solve(problem)
    np.testing.assert_array_equal(whole.labels, parts.labels)
    np.testing.assert_array_equal(whole.messages.edge, parts.messages.edge)


def test_hard_problem_stopped_early_has_a_feasible_labelling(monkeypatch):
    monkeypatch.setattr(solver_module, "_VISITS", 1)
    rng = np.random.default_rng(17)
    ordered = np.where(np.tri(4, dtype=bool), 0.0, -np.inf)
    problem = Problem(Graph.grid(10, 10), rng.normal(size=(100, 4)), tables=ordered)
    result = MaxFlow(time_limit=0.0).solve(problem)
    assert result.termination == Termination.time_limit and np.isfinite(result.score)
    assert result.bound >= result.score


def test_binary_and_layered_networks_agree():
    """A clique that pays nothing sends the problem through the other builder."""
    rng = np.random.default_rng(18)
    for _ in range(30):
        graph = Graph.grid(8, 7)
        unary, weight, table = rng.normal(size=(56, 2)), rng.random(graph.n_edges) * 2, supermodular(rng, 2, 2)
        plain = MaxFlow().solve(Problem(graph, unary, tables=table, edge_weight=weight))
        layered = MaxFlow().solve(Problem(graph, unary, tables=table, edge_weight=weight, cliques=[([0, 1], 0.0)]))
        np.testing.assert_array_equal(plain.labels, layered.labels)
        assert layered.guarantee == Guarantee.optimal
