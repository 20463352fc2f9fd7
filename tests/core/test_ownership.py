"""Arrays of a problem are its own: nobody changes them, not even who froze and thaws the array that was given."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.cliques import Cliques
from maxsum.core.graph import Graph
from maxsum.core.ownership import is_own, own, owned


def frozen(array) -> np.ndarray:
    array = np.array(array)
    array.flags.writeable = False
    return array


def thawed(array: np.ndarray, value: float) -> None:
    array.flags.writeable = True
    array[...] = value


@pytest.mark.parametrize("name", ["unary", "tables", "edge_weight", "edge_table", "n_states"])
def test_a_frozen_array_that_is_thawed_changes_no_problem(name):
    given = {
        "unary": frozen([[1.0, 0.0], [0.0, 2.0]]),
        "tables": frozen(np.stack([np.eye(2), -np.eye(2)])),
        "edge_weight": frozen([2.0]),
        "edge_table": frozen(np.zeros(1, dtype=np.int32)),
        "n_states": frozen(np.full(2, 2, dtype=np.int32)),
    }
    problem = ms.Problem(ms.Graph.chain(2), **given)
    before = getattr(problem, name).copy()
    thawed(given[name], 1)
    np.testing.assert_array_equal(getattr(problem, name), before)


def test_views_of_frozen_arrays_are_copied_too():
    base = frozen(np.zeros((4, 2)))
    problem = ms.Problem(ms.Graph.chain(3), base[1:], tables=np.eye(2))
    thawed(base, 7.0)
    assert problem.score([0, 0, 0]) == 2.0


def test_graphs_cliques_and_samples_own_their_arrays():
    edges, kind = frozen(np.array([[0, 1], [1, 2]], dtype=np.int32)), frozen(np.zeros(2, dtype=np.int32))
    built, direct = Graph.from_edges(edges), Graph(3, edges, kind)
    ptr, nodes, weights = frozen(np.array([0, 2])), frozen(np.array([0, 1], dtype=np.int32)), frozen([[1.0, 2.0]])
    cliques = Cliques(ptr, nodes, weights)
    X = frozen(np.ones((3, 2)))
    sample = ms.GraphSample(X, direct)
    for array in (edges, kind, ptr, nodes, weights, X):
        thawed(array, 0)
    assert built.edges.tolist() == direct.edges.tolist() == [[0, 1], [1, 2]]
    assert cliques.members(0).tolist() == [0, 1] and cliques.weights.tolist() == [[1.0, 2.0]]
    assert sample.X.tolist() == [[1.0, 1.0]] * 3


def test_our_arrays_cannot_be_thawed():
    problem = ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), tables=np.eye(2))
    graph = problem.graph
    arrays = (
        problem.unary,
        problem.tables,
        problem.edge_weight,
        problem.edge_table,
        problem.n_states,
        graph.edges,
        graph.edge_type,
    )
    for array in arrays:
        for view in (array, array[:], array.reshape(-1), array.base):
            with pytest.raises(ValueError, match="WRITEABLE"):
                view.flags.writeable = True


def test_our_arrays_are_shared_without_a_copy():
    first = ms.Problem(ms.Graph.grid(5, 5), np.zeros((25, 2)), tables=np.eye(2))
    second = ms.Problem(first.graph, first.unary, first.tables, first.edge_table, first.edge_weight, first.n_states)
    for name in ("unary", "tables", "edge_weight"):
        assert np.shares_memory(getattr(first, name), getattr(second, name)), name
    assert Graph(25, first.graph.edges, first.graph.edge_type).edges is first.graph.edges


def test_marks_of_ownership():
    plain = np.arange(6.0).reshape(2, 3)
    ours = own(plain.copy())
    assert is_own(ours) and is_own(ours[1:]) and is_own(ours.T) and own(ours) is ours and owned(ours) is ours
    assert type(ours) is np.ndarray and type(ours[0]) is np.ndarray and not ours.flags.writeable
    for other in (plain, frozen(plain), ours.copy(), ours + 0, pickle.loads(pickle.dumps(ours))):
        assert not is_own(other)
    copied = owned(plain)
    plain[0, 0] = 9.0
    assert copied[0, 0] == 0.0


# ---- whole numbers that float64 cannot hold ------------------------------------------------------------------------

ODD, EVEN = 2**53 + 1, 2**53 + 2


def chain(**given):
    return ms.Problem(ms.Graph.chain(2), **{"unary": np.zeros((2, 2)), "tables": np.eye(2), **given})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unary", lambda n: np.array([[n, 0], [0, 0]])),
        ("unary", lambda n: [[n, 0], [0, 0]]),
        ("unary", lambda n: [[n, 0.5], [0, 0]]),
        ("unary", lambda n: [np.array([n, 0]), np.array([0])]),
        ("unary", lambda n: np.array([[n, 0], [0, 0]], dtype=np.uint64)),
        ("unary", lambda n: np.array([[-n, 0], [0, 0]])),
        ("tables", lambda n: np.array([[n, 0], [0, 0]])),
        ("tables", lambda n: [np.array([[n, 0], [0, 0]])]),
        ("edge_weight", lambda n: [n]),
        ("cliques", lambda n: [([0, 1], [n, 0])]),
        ("cliques", lambda n: [([0, 1], n)]),
        ("offset", lambda n: n),
        ("offset", lambda n: np.int64(-n)),
    ],
)
def test_whole_numbers_that_would_be_rounded_are_refused(name, value):
    given = {name: value(ODD)}
    with pytest.raises(ms.InvalidProblemError, match=r"90071992547409.*round"):
        chain(**given)
    chain(**{name: value(EVEN)})  # these float64 can hold
    chain(**{name: value(2**53)})


def test_costs_and_messages_with_such_numbers_are_refused_too():
    graph = ms.Graph.chain(2)
    with pytest.raises(ms.InvalidProblemError, match="round"):
        ms.Problem.from_costs(graph, np.array([[ODD, 0], [0, 0]]), np.zeros((2, 2)))
    with pytest.raises(ms.InvalidProblemError, match="round"):
        ms.Problem.from_costs(graph, np.zeros((2, 2)), np.zeros((2, 2)), offset=ODD)
    assert ms.Problem.from_costs(graph, np.zeros((2, 2)), np.zeros((2, 2)), offset=np.uint64(5)).offset == -5.0
    with pytest.raises(ms.InvalidProblemError, match="round"):
        chain().bound(np.full((2, 1, 2), ODD))


@pytest.mark.parametrize("number", [ODD, 2**60 + 1, 10**30 + 1])
def test_files_with_such_costs_are_refused(tmp_path, number):
    uai = tmp_path / "p.uai"
    cfn = tmp_path / "p.cfn"
    for n, fine in ((number, False), (2**60, True)):
        uai.write_text(f"MARKOV\n1\n2\n1\n1 0\n2 {n} 0\n")
        cfn.write_text(
            f'{{"problem": {{"name": "p", "mustbe": "<1e90"}}, "variables": {{"x": 2}}, '
            f'"functions": {{"f": {{"scope": ["x"], "costs": [{n}, 0]}}}}}}'
        )
        if fine:
            assert ms.read_problem(uai, values="costs").score([0]) == -float(n)
            assert ms.read_problem(cfn).score([0]) == -float(n)
            continue
        with pytest.raises(ms.ParseError, match="would round"):
            ms.read_problem(uai, values="costs")
        ms.read_problem(uai)  # probabilities: their logarithms are rounded anyway
        with pytest.raises(ms.ParseError, match="would round"):
            ms.read_problem(cfn)


def test_sums_of_whole_costs_that_would_be_rounded_are_refused(tmp_path):
    path = tmp_path / "p.uai"
    path.write_text(f"MARKOV\n1\n2\n2\n1 0\n1 0\n2 {2**53} 0\n2 1 0\n")
    with pytest.raises(ms.ParseError, match="beyond 2\\*\\*53"):
        ms.read_problem(path, values="costs")
    path.write_text(f"MARKOV\n1\n2\n2\n1 0\n1 0\n2 {2**53} 0\n2 2 0\n")
    assert ms.read_problem(path, values="costs").score([0]) == -float(2**53 + 2)
