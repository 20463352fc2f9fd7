"""Problems: forms of input, refusals with their messages, frozen arrays, reparametrisation and union."""

from __future__ import annotations

import numpy as np
import pytest
from reference.families import FAMILIES, make

from maxsum import Cliques, Graph, InfeasibleError, InvalidProblemError, Messages, NotAssociativeError, Problem, solve
from maxsum.core import memory

CHAIN = Graph.chain(3)
UNARY = np.array([[0.0, 1.0], [0.5, 0.0], [2.0, 0.0]])
TABLE = np.array([[1.0, 2.0], [3.0, 5.0]])


@pytest.mark.parametrize("family", FAMILIES)
def test_score_equals_the_reference(family: str) -> None:
    for seed in range(5):
        case = make(family, seed)
        for y in case.raw.labellings[:: max(1, len(case.raw.labellings) // 7)]:
            wanted = case.raw.score(y)
            assert case.problem.score(y) == wanted or abs(case.problem.score(y) - wanted) <= case.raw.noise


def test_axes_of_a_table_follow_the_orientation_of_the_edge() -> None:
    table = np.array([[0.0, 7.0], [0.0, 0.0]])
    forward, backward = Graph.from_edges([(0, 1)]), Graph.from_edges([(1, 0)])
    assert Problem(forward, np.zeros((2, 2)), tables=table).score([0, 1]) == 7.0
    assert Problem(backward, np.zeros((2, 2)), tables=table).score([0, 1]) == 0.0
    assert Problem(backward, np.zeros((2, 2)), tables=table).score([1, 0]) == 7.0


# ---- unary -----------------------------------------------------------------------------------------------------


def test_unary_of_a_grid_and_of_unequal_nodes() -> None:
    problem = Problem(Graph.grid(1, 3), UNARY.reshape(1, 3, 2), tables=TABLE)
    assert np.array_equal(problem.unary, UNARY)
    rows = Problem(CHAIN, [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]], tables=[np.zeros((2, 1)), np.zeros((1, 3))])
    assert rows.n_states.tolist() == [2, 1, 3] and rows.n_labels == 3 and rows.score([1, 0, 2]) == 11.0
    padded = Problem(CHAIN, np.ones((3, 4)), tables=np.zeros((4, 4)), n_states=[2, 4, 1])
    assert np.isneginf(padded.unary[0, 2:]).all() and padded.n_states.tolist() == [2, 4, 1]
    same = Problem(CHAIN, np.ones((3, 4)), tables=np.zeros((4, 4)), n_states=2)
    assert same.n_states.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("unary", "options", "message"),
    [
        (np.zeros((2, 2)), {}, r"unary has shape \(2, 2\), wanted \(3, n_labels\): one row per node"),
        (np.zeros(3), {}, r"unary has shape \(3,\)"),
        (np.zeros((3, 0)), {}, "unary has no columns, wanted at least one label"),
        ([[0, 1], [np.nan, 0], [0, 0]], {}, "unary of node 1, label 0 is nan; wanted a finite score, or -inf"),
        ([[0, 1], [0, 0], [0, np.inf]], {}, "unary of node 2, label 1 is inf; wanted a finite score"),
        ([["a", "b"]] * 3, {}, "unary has dtype .* wanted real numbers"),
        (np.zeros((3, 2), dtype=complex), {}, "unary has dtype complex128, wanted real numbers"),
        ([[0, 1], [], [0]], {}, r"unary of node 1 has shape \(0,\), wanted \(n_states of the node,\)"),
        (UNARY, dict(n_states=[1, 2]), r"n_states has shape \(2,\) and dtype int64, wanted 3 integers, one per node"),
        (UNARY, dict(n_states=[1.0, 2.0, 2.0]), "dtype float64, wanted 3 integers"),
        (UNARY, dict(n_states=[1, 3, 2]), "n_states"),
        (UNARY, dict(n_states=[1, 0, 2]), "n_states"),
        (UNARY * 1e200, {}, r"unary holds 1e\+200, wanted numbers of at most 1e\+100"),
    ],
)
def test_bad_unaries_are_refused(unary, options: dict, message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        Problem(CHAIN, unary, tables=TABLE, **options)


def test_a_node_without_labels_is_infeasible_by_name() -> None:
    with pytest.raises(InfeasibleError, match=r"node 1 has every label forbidden \(unary -inf\); allow at least one"):
        Problem(CHAIN, [[0, 1], [-np.inf, -np.inf], [0, 0]], tables=TABLE)
    with pytest.raises(InfeasibleError, match="node 2"):
        Problem(CHAIN, [[0, 1], [0, 1], [-np.inf, 3]], tables=TABLE, n_states=[2, 2, 1])


# ---- tables ----------------------------------------------------------------------------------------------------


def test_forms_of_tables_agree() -> None:
    bank, number = np.stack([TABLE, -TABLE]), [1, 0]
    typed = Graph.from_edges([(0, 1), (1, 2)], edge_type=[1, 0])
    forms = [
        Problem(CHAIN, UNARY, tables=bank, edge_table=number),
        Problem(CHAIN, UNARY, tables=[-TABLE, TABLE]),
        Problem(CHAIN, UNARY, tables=bank[::-1]),
        Problem(CHAIN, UNARY, tables=TABLE, edge_weight=[-1.0, 1.0]),
        Problem(typed, UNARY, tables=bank, edge_table=[1, 0]),
        Problem(typed, UNARY, tables=np.stack([TABLE, -TABLE, 0 * TABLE]), edge_table=[1, 0]),
    ]
    wanted = [forms[0].score(y) for y in np.ndindex(2, 2, 2)]
    for problem in forms[1:]:
        assert [problem.score(y) for y in np.ndindex(2, 2, 2)] == wanted
    assert len(Problem(CHAIN, UNARY, tables=TABLE).tables) == 1
    assert Problem(CHAIN, UNARY, tables=TABLE, edge_weight=2.0).edge_weight.tolist() == [2.0, 2.0]


def test_tables_by_edge_type() -> None:
    graph = Graph.grid(2, 2, connectivity=8, edge_types="directions")
    bank = np.arange(16.0).reshape(4, 2, 2)
    problem = Problem(graph, np.zeros((4, 2)), tables=bank)
    assert problem.edge_table.tolist() == [0, 0, 1, 1, 2, 3]
    assert (
        problem.score([0, 1, 1, 1])
        == bank[0, 0, 1] + bank[0, 1, 1] + bank[1, 0, 1] + bank[1, 1, 1] + bank[2, 0, 1] + bank[3, 1, 1]
    )


def test_as_many_types_as_edges_is_ambiguous() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2)], edge_type=[1, 0])
    with pytest.raises(
        InvalidProblemError, match="2 tables could be one per edge or one per edge type; say which with edge_table"
    ):
        Problem(graph, UNARY, tables=np.stack([TABLE, -TABLE]))
    straight = Graph.from_edges([(0, 1), (1, 2)], edge_type=[0, 1])
    assert Problem(straight, UNARY, tables=np.stack([TABLE, -TABLE])).edge_table.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(), "the graph has 2 edges, but no tables were given"),
        (dict(tables=np.zeros((3, 3))), r"tables have shape \(3, 3\), wanted \(2, 2\) for one shared table"),
        (dict(tables=np.zeros((0, 2, 2))), r"tables have shape \(0, 2, 2\)"),
        (dict(tables=np.zeros((3, 2, 2))), "3 tables for 2 edges of 1 types: wanted 1 table, one per edge, one per edge type"),
        (dict(tables=[np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 2))]), "3 tables of different shapes for 2 edges"),
        (
            dict(tables=[np.zeros((2, 2)), np.zeros((2, 3))]),
            r"table of edge 1 \(nodes 1-2\) has shape \(2, 3\), wanted \(2, 2\)\.$",
        ),
        (dict(tables=TABLE, edge_table=[0]), r"edge_table has shape \(1,\) and dtype int64, wanted 2 integers"),
        (dict(tables=TABLE, edge_table=[0.0, 0.0]), "dtype float64, wanted 2 integers"),
        (dict(tables=TABLE, edge_table=[0, 1]), r"edge_table of edge 1 is 1, but there are 1 tables \(0\.\.0\)"),
        (dict(tables=TABLE, edge_table=[-1, 0]), "edge_table of edge 0 is -1"),
        (dict(tables=TABLE, edge_weight=[1.0]), r"edge_weight has shape \(1,\), wanted \(2,\), one per edge"),
        (dict(tables=TABLE, edge_weight=[1.0, np.nan]), "edge_weight of edge 1 is nan, wanted a finite number"),
        (dict(tables=TABLE, edge_weight=[np.inf, 1.0]), "edge_weight of edge 0 is inf"),
        (dict(tables=[[0, np.nan], [0, 0]]), r"table 0 \(first used by edge 0, nodes 0-1\) is nan at labels \(0, 1\)"),
        (dict(tables=[TABLE, [[0, 0], [np.inf, 0]]]), r"table 1 \(first used by edge 1, nodes 1-2\) is inf at labels \(1, 0\)"),
        (
            dict(tables=[[0, -np.inf], [0, 0]], edge_weight=[1, -1]),
            "edge 1 has weight -1.0 on table 0, which holds -inf.*positive weight",
        ),
        (dict(tables=[[0, -np.inf], [0, 0]], edge_weight=[0, 1]), "edge 0 has weight 0.0 on table 0, which holds -inf"),
        (dict(tables=TABLE, offset=np.nan), "offset is nan, wanted a finite number"),
        (dict(tables=TABLE, offset=-np.inf), "offset is -inf"),
        (dict(tables=TABLE * 1e300), r"tables holds 1e\+300, wanted numbers of at most 1e\+100"),
    ],
)
def test_bad_tables_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        Problem(CHAIN, UNARY, **options)


def test_a_transposed_table_is_named() -> None:
    with pytest.raises(
        InvalidProblemError, match=r"table of edge 0 \(nodes 0-1\) has shape \(3, 2\), wanted \(2, 3\)\. It looks transposed"
    ):
        Problem(Graph.chain(2), [[0, 0], [0, 0, 0]], tables=[np.zeros((3, 2))])


def test_numbers_past_the_labels_of_a_node_do_not_count() -> None:
    table = np.array([[1.0, 2.0, np.nan], [3.0, 4.0, np.inf], [np.nan, np.nan, np.nan]])
    problem = Problem(CHAIN, [[0, 0, np.nan]] * 3, tables=table, n_states=2)
    assert problem.score([1, 1, 1]) == 8.0 and np.isfinite(problem.tables).all() and not problem.has_hard_constraints


def test_graph_must_be_a_graph() -> None:
    with pytest.raises(InvalidProblemError, match=r"graph is a list, wanted maxsum\.Graph \(see Graph\.from_edges\)"):
        Problem([(0, 1)], UNARY, tables=TABLE)  # type: ignore[arg-type]


# ---- duplicates ------------------------------------------------------------------------------------------------


def test_merged_edges_sum_their_tables_in_either_orientation() -> None:
    rng = np.random.default_rng(0)
    given = [(0, 1), (1, 2), (1, 0), (0, 1)]
    tables, weights = rng.normal(size=(4, 2, 2)), rng.normal(size=4)
    merged = Problem(Graph.from_edges(given, duplicates="merge"), UNARY, tables=tables, edge_weight=weights)
    assert merged.n_edges == 2
    for y in np.ndindex(2, 2, 2):
        pairs = zip(given, tables, weights, strict=True)
        wanted = sum(UNARY[v, k] for v, k in enumerate(y)) + sum(w * t[y[u], y[v]] for (u, v), t, w in pairs)
        assert merged.score(y) == pytest.approx(wanted)


def test_merged_edges_with_unequal_labels_and_forbidden_pairs() -> None:
    graph = Graph.from_edges([(0, 1), (1, 0)], duplicates="merge")
    first = np.array([[0.0, 1.0, -np.inf], [2.0, 3.0, 4.0]])
    second = np.array([[10.0, 20.0], [30.0, -np.inf], [50.0, 60.0]])
    problem = Problem(graph, [[0, 0], [0, 0, 0]], tables=[first, second])
    found = [[problem.score([k, m]) for m in range(3)] for k in range(2)]
    assert found == (first + second.T).tolist()


def test_shared_table_of_a_merged_graph_stays_shared() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 1)], duplicates="merge")
    problem = Problem(graph, UNARY, tables=TABLE)
    assert problem.score([1, 1, 0]) == 1 + 0 + 2 + TABLE[1, 1] + TABLE[1, 0] + TABLE[0, 1] and len(problem.tables) == 2


# ---- frozen, and any kind of array -----------------------------------------------------------------------------


def test_a_problem_is_frozen() -> None:
    problem = Problem(CHAIN, UNARY, tables=TABLE, cliques=[([0, 1], 1.0)])
    with pytest.raises(AttributeError, match="a Problem is frozen; build a new one instead of setting 'unary'"):
        problem.unary = UNARY
    for name in ("unary", "tables", "edge_table", "edge_weight", "n_states"):
        assert not getattr(problem, name).flags.writeable, name
    for array in (problem.cliques.ptr, problem.cliques.nodes, problem.cliques.weights):
        assert not array.flags.writeable


def test_given_arrays_are_neither_kept_nor_changed() -> None:
    unary, table, weight = UNARY.copy(), TABLE.copy(), np.ones(2)
    number, states = np.zeros(2, dtype=np.int32), np.full(3, 2, dtype=np.int32)
    members, pay = np.array([0, 1], dtype=np.int32), np.ones(2)
    problem = Problem(CHAIN, unary, table, number, weight, states, [(members, pay)])
    before = problem.score([1, 1, 1])
    for array in (unary, table, weight, number, states, members, pay):
        assert array.flags.writeable
        array[...] = 9
    assert problem.score([1, 1, 1]) == before


def variants(array: np.ndarray, folder) -> dict[str, np.ndarray]:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]))
    wide[..., ::2] = array
    np.save(folder / "a.npy", array)
    frozen = array.copy()
    frozen.flags.writeable = False
    return {
        "float32": array.astype(np.float32),
        "int8": array.astype(np.int8),
        "Fortran": np.asfortranarray(array),
        "strided": wide[..., ::2],
        "big-endian": array.astype(">f8"),
        "memmap": np.load(folder / "a.npy", mmap_mode="r"),
        "read-only": frozen,
        "reversed": np.ascontiguousarray(array[::-1])[::-1],
        "float16": array.astype(np.float16),
    }


@pytest.mark.parametrize(
    "kind", ["float32", "int8", "Fortran", "strided", "big-endian", "memmap", "read-only", "reversed", "float16"]
)
def test_every_kind_of_array_is_the_same_problem(kind: str, tmp_path) -> None:
    rng = np.random.default_rng(2)
    unary, tables = rng.integers(-5, 6, size=(3, 3)).astype(float), rng.integers(-5, 6, size=(2, 3, 3)).astype(float)
    wanted = Problem(CHAIN, unary, tables=tables)
    (tmp_path / "t").mkdir()
    given, given_tables = variants(unary, tmp_path)[kind], variants(tables, tmp_path / "t")[kind]
    copies = given.copy(), given_tables.copy()
    found = Problem(CHAIN, given, tables=given_tables)
    assert np.array_equal(found.unary, wanted.unary) and np.array_equal(found.tables, wanted.tables)
    assert found.unary.dtype == np.float64 and found.unary.dtype.isnative and found.unary.flags.c_contiguous
    assert found.tables.flags.c_contiguous
    assert np.array_equal(given, copies[0]) and np.array_equal(given_tables, copies[1])
    assert found.bound() == wanted.bound()


# ---- cliques ---------------------------------------------------------------------------------------------------


def test_clique_scores() -> None:
    problem = Problem(CHAIN, np.zeros((3, 2)), tables=np.zeros((2, 2)), cliques=[([0, 1, 2], [1.0, 4.0]), ([2], 10.0)])
    assert [problem.score(y) for y in ([0, 0, 0], [1, 1, 1], [0, 1, 1])] == [11.0, 14.0, 10.0]
    again = Problem(CHAIN, np.zeros((3, 2)), tables=np.zeros((2, 2)), cliques=problem.cliques)
    assert again.score([1, 1, 1]) == 14.0
    assert repr(problem.cliques) == "Cliques(2 cliques, 4 members)" and "2 cliques" in repr(problem)
    assert len(Cliques.empty(3)) == 0 and Cliques.empty(3).values(np.zeros(2, dtype=int)).shape == (0,)


def test_a_clique_cannot_agree_on_a_label_that_a_member_lacks() -> None:
    problem = Problem(Graph.from_edges([], 2), [[0, 0], [0, 0, 0]], cliques=[([0, 1], [1.0, 2.0, 50.0])])
    assert problem.cliques.weights.tolist() == [[1.0, 2.0, 0.0]] and 2.0 <= problem.bound() < 2.0 + 1e-12
    short = Problem(Graph.from_edges([], 2), [[0, 0], [0, 0, 0]], cliques=[([0, 1], [1.0, 2.0])])
    assert short.cliques.weights.tolist() == [[1.0, 2.0, 0.0]]


@pytest.mark.parametrize(
    ("clique", "error", "message"),
    [
        (([], 1.0), InvalidProblemError, r"clique 0 has nodes of shape \(0,\), wanted a list of at least one node"),
        (([0, 0, 1], 1.0), InvalidProblemError, r"clique 0 names node 0 more than once; list each node once"),
        (([0, 3], 1.0), InvalidProblemError, r"clique 0 names node 3, but the graph has 3 nodes \(0\.\.2\)"),
        (([-1, 2], 1.0), InvalidProblemError, "clique 0 names node -1"),
        (([0.0, 1.0], 1.0), InvalidProblemError, "clique 0 has nodes of dtype float64, wanted integers"),
        (([0, 1], [1.0]), InvalidProblemError, r"clique 0 has weights of shape \(1,\), wanted \(2,\)"),
        (([0, 1], [1.0, np.nan]), InvalidProblemError, "clique 0 has the weight nan, wanted finite numbers"),
        (([0, 1], np.inf), InvalidProblemError, "clique 0 has the weight inf"),
        (
            ([0, 1], [1.0, -0.5]),
            NotAssociativeError,
            "clique 0 has the weight -0.5 for label 1; associative cliques need weights >= 0",
        ),
        (([0, 1], 1e300), InvalidProblemError, r"weights of clique 0 holds 1e\+300"),
        (7, InvalidProblemError, r"clique 0 is 7, wanted a pair \(nodes, weights\)"),
    ],
)
def test_bad_cliques_are_refused(clique, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        Problem(CHAIN, UNARY, tables=TABLE, cliques=[clique])


# ---- labels, costs, messages, union ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"labels have shape \(2,\), wanted \(3,\), one per node"),
        ([0.0, 1.0, 0.0], r"labels have dtype float64, wanted whole numbers 0\.\.n_states-1; convert"),
        (["a", "b", "c"], "labels have dtype"),
        ([0, -1, 0], r"label of node 1 is -1, wanted 0\.\.1"),
        ([0, 0, 2], r"label of node 2 is 2, wanted 0\.\.1"),
        (np.array([0, 0, 2**32], dtype=np.int64), "label of node 2 is 4294967296"),
        (np.array([0, 0, 2**63], dtype=np.uint64), "label of node 2"),
    ],
)
def test_bad_labels_are_refused(labels, message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        Problem(CHAIN, UNARY, tables=TABLE).score(labels)


def test_labels_of_a_grid_may_have_its_shape() -> None:
    problem = Problem(Graph.grid(2, 2), np.arange(8.0).reshape(4, 2), tables=np.eye(2))
    assert problem.score([[0, 1], [1, 0]]) == problem.score([0, 1, 1, 0])


def test_costs_are_negated_scores() -> None:
    costs = Problem.from_costs(CHAIN, UNARY, TABLE, edge_weight=[1.0, 2.0], offset=3.0)
    scores = Problem(CHAIN, -UNARY, -TABLE, edge_weight=[1.0, 2.0], offset=-3.0)
    assert all(costs.score(y) == scores.score(y) for y in np.ndindex(2, 2, 2))
    hard = Problem.from_costs(CHAIN, UNARY, [[0, np.inf], [0, 0]])
    assert hard.score([0, 1, 1]) == -np.inf and hard.has_hard_constraints
    rows = Problem.from_costs(Graph.chain(2), [[1.0], [1.0, 2.0]], [np.array([[1.0, 2.0]])])
    assert rows.score([0, 1]) == -5.0
    with pytest.raises(InvalidProblemError, match="is inf; wanted a finite score"):
        Problem.from_costs(CHAIN, [[0, -np.inf]] * 3, TABLE)


def test_messages_are_checked() -> None:
    problem = Problem(CHAIN, UNARY, tables=TABLE, cliques=[([0, 1], 1.0)])
    with pytest.raises(InvalidProblemError, match=r"messages have shape \(2, 3, 2\), wanted \(2, 2, 2\)"):
        problem.bound(np.zeros((2, 3, 2)))
    with pytest.raises(InvalidProblemError, match=r"clique messages have shape \(1, 2\), wanted \(2, 2\)"):
        problem.bound(Messages(np.zeros((2, 2, 2)), np.zeros((1, 2))))
    with pytest.raises(InvalidProblemError, match="messages hold nan, wanted finite numbers"):
        problem.bound(np.full((2, 2, 2), np.nan))
    assert problem.bound(np.zeros((2, 2, 2))) == problem.bound()
    with pytest.raises(InvalidProblemError, match="clique and factor messages must be zero in reparametrize"):
        problem.reparametrize(Messages(np.zeros((2, 2, 2)), np.ones((2, 2))))


def test_union_sums_scores_and_shares_banks() -> None:
    parts = [make(f, 1).problem for f in ("chain", "one_node", "cliques_unequal", "unequal_label_counts", "no_nodes")]
    union = Problem.union(parts)
    offsets = union.graph.parts
    y = np.zeros(union.n_nodes, dtype=int)
    assert union.score(y) == pytest.approx(sum(p.score(np.zeros(p.n_nodes, dtype=int)) for p in parts))
    assert union.bound() == pytest.approx(sum(p.bound() for p in parts))
    assert offsets[-1] == union.n_nodes and union.n_states.tolist() == [k for p in parts for k in p.n_states]
    twin = Problem.union([parts[0], parts[0]])
    assert len(twin.tables) == len(parts[0].tables)
    with pytest.raises(InvalidProblemError, match="union of no problems"):
        Problem.union([])


def test_repr_and_empty_problem() -> None:
    assert repr(Problem(CHAIN, UNARY, tables=TABLE)) == "Problem(3 nodes, 2 edges, 2 labels, 1 tables)"
    empty = Problem(Graph.chain(0), np.zeros((0, 2)), offset=2.5)
    assert empty.score([]) == 2.5 and empty.bound() == 2.5


def test_what_does_not_fit_is_refused_before_it_is_allocated(monkeypatch):
    graph, unary = Graph.grid(60, 60), np.zeros((3600, 200))
    problem = Problem(graph, unary, tables=np.zeros((200, 200)))
    monkeypatch.setattr(memory, "available", lambda: (2**20, "a test"))
    with pytest.raises(MemoryError, match=r"this graph needs about .* are left \(a test\)"):
        Graph.grid(10**4, 10**4)
    with pytest.raises(MemoryError, match=r"this problem needs about .* Nothing was allocated"):
        Problem(graph, unary, tables=np.zeros((200, 200)))
    with pytest.raises(MemoryError, match=r"solving this problem by TRWS needs about .* solve it in parts"):
        solve(problem, "TRWS")
