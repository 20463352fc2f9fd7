"""TreeDP: batches, threads, long chains."""

import numpy as np
import pytest

import maxsum as ms
from maxsum.inference import TreeDP


def batch(n_chains, length, n_labels, seed=0):
    rng = np.random.default_rng(seed)
    unaries = rng.normal(size=(n_chains, length, n_labels))
    table = rng.normal(size=(n_labels, n_labels))
    graph = ms.Graph.union([ms.Graph.chain(length)] * n_chains)
    return ms.Problem(graph, unaries.reshape(-1, n_labels), table), unaries, table


def viterbi(unary, table):
    score = unary[0]
    for row in unary[1:]:
        score = (score[:, None] + table).max(axis=0) + row
    return score.max()


@pytest.mark.parametrize("n_labels", [1, 2, 3, 4, 5, 9, 26, 45])
def test_a_batch_of_chains_is_the_sum_of_its_chains(n_labels):
    problem, unaries, table = batch(13, 7, n_labels)
    result = TreeDP().solve(problem)
    assert result.guarantee == "optimal"
    assert result.score == pytest.approx(sum(viterbi(u, table) for u in unaries), rel=1e-12)
    parts = problem.graph.parts
    for c in range(13):
        chain = ms.Problem(ms.Graph.chain(7), unaries[c], table)
        assert chain.score(result.labels[parts[c] : parts[c + 1]]) == pytest.approx(viterbi(unaries[c], table), rel=1e-12)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_threads_change_nothing(n_jobs):
    problem, _, _ = batch(50, 11, 6)
    one, many = TreeDP().solve(problem), TreeDP(n_jobs=n_jobs).solve(problem)
    assert np.array_equal(one.labels, many.labels)
    assert np.array_equal(one.messages.edge, many.messages.edge)


def test_reversed_edges_and_large_banks_take_the_other_kernel():
    rng = np.random.default_rng(1)
    n, k = 40, 7
    unary, tables = rng.normal(size=(n, k)), rng.normal(size=(n - 1, k, k))
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    forward = TreeDP().solve(ms.Problem(ms.Graph.from_edges(edges), unary, tables))
    backward = TreeDP().solve(ms.Problem(ms.Graph.from_edges(edges[:, ::-1]), unary, tables.transpose(0, 2, 1)))
    assert np.array_equal(forward.labels, backward.labels)
    assert forward.score == pytest.approx(backward.score, rel=1e-12)


def test_without_the_transposed_bank_the_answer_is_the_same(monkeypatch):
    from maxsum.inference import prepare

    problem, unaries, table = batch(9, 8, 5)
    wanted = TreeDP().solve(problem)
    monkeypatch.setattr(prepare, "_turned", lambda tables, problem: np.zeros((0, 0, 0)))
    again = TreeDP().solve(ms.Problem(problem.graph, unaries.reshape(-1, 5), table))
    assert np.array_equal(wanted.labels, again.labels) and again.guarantee == "optimal"


def test_cycles_and_cliques_are_refused_with_the_reason():
    problem = ms.Problem(ms.Graph.grid(3, 3), np.zeros((9, 2)), np.eye(2))
    with pytest.raises(ms.UnsupportedProblemError, match=r"TreeDP needs a forest; the graph has 4 edges too many.*MaxFlow"):
        TreeDP().solve(problem)
    clique = ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), np.eye(2), cliques=[([0, 1, 2], 1.0)])
    assert "cliques" in TreeDP().supports(clique).reason
