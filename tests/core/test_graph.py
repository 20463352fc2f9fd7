"""Graphs: every constructor, every refusal and its message."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse

from maxsum import Graph, InvalidGraphError, Problem, read_problem, solve


def edges(graph: Graph) -> list[list[int]]:
    return graph.edges.tolist()


# ---- constructors ----------------------------------------------------------------------------------------------


def test_grid() -> None:
    graph = Graph.grid(2, 3)
    assert (graph.n_nodes, graph.n_edges, graph.shape, graph.n_edge_types) == (6, 7, (2, 3), 1)
    assert edges(graph) == [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
    eight = Graph.grid(2, 2, connectivity=8, edge_types="directions")
    assert edges(eight) == [[0, 1], [2, 3], [0, 2], [1, 3], [0, 3], [1, 2]]
    assert eight.edge_type.tolist() == [0, 0, 1, 1, 2, 3] and eight.n_edge_types == 4
    assert Graph.grid(1, 1).n_edges == 0 and Graph.grid(0, 5).n_nodes == 0
    assert repr(graph) == "Graph(6 nodes, 7 edges, grid 2x3)"
    assert repr(eight) == "Graph(4 nodes, 6 edges, grid 2x2, 4 edge types)"


def test_chain_and_complete() -> None:
    assert edges(Graph.chain(3)) == [[0, 1], [1, 2]] and Graph.chain(1).n_edges == 0 and Graph.chain(0).n_nodes == 0
    assert edges(Graph.complete(3)) == [[0, 1], [0, 2], [1, 2]] and Graph.complete(1).n_edges == 0
    assert Graph.chain(np.int64(4)).n_nodes == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Graph.grid(2, 2, connectivity=6), "connectivity is 6, wanted 4 or 8"),
        (lambda: Graph.grid(2, 2, edge_types="direction"), 'edge_types is \'direction\', wanted "tied" or "directions"'),
        (lambda: Graph.grid(2.0, 2), "grid height is 2.0, wanted a whole number"),
        (lambda: Graph.grid(2, -1), "grid width is -1, wanted 0 or more"),
        (lambda: Graph.chain(-1), "chain length is -1, wanted 0 or more"),
        (lambda: Graph.chain(True), "chain length is True, wanted a whole number"),
        (lambda: Graph.complete("3"), "number of nodes is '3', wanted a whole number"),
        (lambda: Graph.grid(2**17, 2**17), "at most 2\\*\\*31 - 1"),
        (lambda: Graph.chain(2**31), "at most 2\\*\\*31 - 1"),
    ],
)
def test_bad_sizes_are_refused(make, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        make()


def test_from_edges_keeps_order_and_orientation() -> None:
    graph = Graph.from_edges([(2, 0), (1, 2)], n_nodes=5)
    assert edges(graph) == [[2, 0], [1, 2]] and graph.n_nodes == 5 and graph.edges.dtype == np.int32
    assert Graph.from_edges([(2, 0)]).n_nodes == 3
    assert Graph.from_edges([]).n_nodes == 0 and Graph.from_edges(np.zeros((0, 2)), n_nodes=4).n_nodes == 4
    index = np.array([[0, 1], [1, 2]])
    assert edges(Graph.from_edge_index(index)) == [[0, 1], [1, 2]]
    assert edges(Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])) == [[0, 1], [1, 2], [2, 3]]
    assert Graph.from_edge_index(np.zeros((2, 0)), n_nodes=2).n_edges == 0


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", ">i4", "int16"])
def test_any_integer_dtype_is_taken(dtype: str) -> None:
    given = np.array([[0, 1], [2, 1]], dtype=dtype)
    assert edges(Graph.from_edges(given)) == [[0, 1], [2, 1]]
    assert edges(Graph.from_edges(np.asfortranarray(given))) == [[0, 1], [2, 1]]


def test_given_array_is_neither_kept_nor_frozen() -> None:
    given = np.array([[0, 1], [1, 2]], dtype=np.int32)
    graph = Graph.from_edges(given)
    given[0, 0] = 2
    assert edges(graph) == [[0, 1], [1, 2]] and given.flags.writeable
    for array in (graph.edges, graph.edge_type, *graph.incidence):
        assert not array.flags.writeable
    kinds = np.array([1, 0], dtype=np.int32)
    typed = Graph.from_edges([(0, 1), (1, 2)], edge_type=kinds)
    kinds[0] = 0
    assert typed.edge_type.tolist() == [1, 0] and kinds.flags.writeable
    with pytest.raises(AttributeError):
        graph.n_nodes = 7


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (
            np.zeros((2, 3), dtype=int),
            {},
            r"edges have shape \(2, 3\), wanted \(n_edges, 2\)\. For a \(2, n_edges\) array use Graph",
        ),
        (np.zeros((3, 3), dtype=int), {}, r"edges have shape \(3, 3\), wanted \(n_edges, 2\)\.$"),
        (np.zeros(4, dtype=int), {}, r"edges have shape \(4,\)"),
        ([(0.0, 1.0)], {}, r"edges have dtype float64, wanted integers; convert with edges\.astype\(int\)"),
        ([(True, False)], {}, "edges have dtype bool, wanted integers"),
        ([("a", "b")], {}, "edges name nodes by strings such as .a., wanted their numbers from 0"),
        ([(0, 1), (1, 3)], dict(n_nodes=3), r"edge 1 names node 3, but the graph has 3 nodes \(0\.\.2\)\.$"),
        ([(1, 2), (2, 3)], dict(n_nodes=3), r"edge 1 names node 3, .* 1-based edges\? Subtract 1\."),
        ([(0, 1), (-1, 2)], {}, "edge 1 names node -1, but the graph has 3 nodes"),
        ([(0, 1)], dict(n_nodes=0), r"edge 0 names node 0, but the graph has 0 nodes \(none\)"),
        ([(0, 1), (2, 2)], {}, r"edge 1 joins node 2 to itself \(1 self-loops in all\).*belongs into the unary"),
        (np.array([[0, 2**63 + 5]], dtype=np.uint64), {}, r"at most 2\*\*31 - 1"),
        (np.array([[0, 2**63 + 5]], dtype=np.uint64), dict(n_nodes=3), f"edge 0 names node {2**63 + 5}, but"),
        (np.array([[0, 2**32 + 1]]), dict(n_nodes=3), f"edge 0 names node {2**32 + 1}, but"),
        ([(0, 1)], dict(n_nodes=2.0), "n_nodes is 2.0, wanted a whole number"),
        ([(0, 1)], dict(duplicates="sum"), 'duplicates is \'sum\', wanted "error" or "merge"'),
        ([(0, 1)], dict(edge_type=[0, 1]), r"edge_type has shape \(2,\) and dtype int64, wanted 1 integers, one per edge"),
        ([(0, 1)], dict(edge_type=[0.5]), "dtype float64, wanted 1 integers"),
        ([(0, 1)], dict(edge_type=[-1]), "edge_type ranges from -1 to -1, wanted 0 or more"),
    ],
)
def test_bad_edges_are_refused(given, options: dict, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        Graph.from_edges(given, **options)
    with pytest.raises(ValueError):
        Graph.from_edges(given, **options)


def test_bad_edge_index_is_refused_with_a_hint() -> None:
    with pytest.raises(
        InvalidGraphError, match=r"edge_index has shape \(3, 2\), wanted \(2, n_edges\)\. For an \(n_edges, 2\)"
    ):
        Graph.from_edge_index(np.zeros((3, 2), dtype=int))


# ---- duplicates ------------------------------------------------------------------------------------------------


def test_duplicates_are_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidGraphError, match=r"edge 2 \(0-1\) repeats edge 0 in the same orientation \(1 repeated.*merge"):
        Graph.from_edges([(0, 1), (1, 2), (0, 1)])
    with pytest.raises(InvalidGraphError, match=r"edge 1 \(1-0\) repeats edge 0 in the opposite orientation \(2 repeated"):
        Graph.from_edges([(0, 1), (1, 0), (0, 1)])


def test_merge_keeps_the_first_occurrence_and_says_how() -> None:
    graph = Graph.from_edges([(2, 1), (0, 1), (1, 2), (1, 0), (2, 1)], duplicates="merge")
    assert edges(graph) == [[2, 1], [0, 1]]
    assert graph.merge is not None
    assert graph.merge.target.tolist() == [0, 1, 0, 1, 0] and graph.merge.flip.tolist() == [False, False, True, True, False]
    assert Graph.from_edges([(0, 1)], duplicates="merge").merge is None
    both = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]], duplicates="merge")
    assert edges(both) == [[0, 1], [1, 2]]


def test_merge_refuses_different_types() -> None:
    with pytest.raises(InvalidGraphError, match="edge 1 of type 1 repeats edge 0 of type 0: edges of different types"):
        Graph.from_edges([(0, 1), (1, 0)], edge_type=[0, 1], duplicates="merge")
    merged = Graph.from_edges([(0, 1), (1, 2), (1, 0)], edge_type=[2, 0, 2], duplicates="merge")
    assert merged.edge_type.tolist() == [2, 0] and merged.n_edge_types == 3


# ---- other people's graphs -------------------------------------------------------------------------------------


def test_from_networkx() -> None:
    given = networkx.Graph()
    given.add_nodes_from("cab")
    given.add_edge("a", "c", kind=1)
    given.add_edge("b", "a", kind=0)
    graph = Graph.from_networkx(given)
    assert graph.n_nodes == 3 and {tuple(sorted(e)) for e in edges(graph)} == {(0, 1), (1, 2)}
    ordered = Graph.from_networkx(given, nodes=["a", "b", "c"], edge_type="kind")
    assert {(*sorted(e), t) for e, t in zip(edges(ordered), ordered.edge_type.tolist(), strict=True)} == {(0, 2, 1), (0, 1, 0)}
    assert Graph.from_networkx(networkx.empty_graph(3)).n_nodes == 3


def test_from_networkx_directed_and_multigraph() -> None:
    directed = networkx.DiGraph([(1, 0), (2, 1)])
    assert edges(Graph.from_networkx(directed, nodes=[0, 1, 2])) == [[1, 0], [2, 1]]
    both = networkx.DiGraph([(0, 1), (1, 0)])
    with pytest.raises(InvalidGraphError, match="opposite orientation"):
        Graph.from_networkx(both)
    assert Graph.from_networkx(both, duplicates="merge").n_edges == 1
    multi = networkx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    with pytest.raises(InvalidGraphError, match="repeats edge 0"):
        Graph.from_networkx(multi)
    assert Graph.from_networkx(multi, duplicates="merge").n_edges == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(nodes=["a"]), "edge 'a'-'b' has an end that is not in nodes"),
        (dict(nodes=["a", "b", "a"]), "nodes lists a node twice"),
        (dict(edge_type="kind"), "edge 'a'-'b' has no attribute 'kind'"),
    ],
)
def test_bad_networkx_arguments_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        Graph.from_networkx(networkx.Graph([("a", "b")]), **options)


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil"])
def test_from_sparse(form: str) -> None:
    both = scipy.sparse.coo_array(([1, 1, 2, 2, 0], ([1, 0, 1, 2, 0], [0, 1, 2, 1, 2])), shape=(4, 4)).asformat(form)
    assert edges(Graph.from_sparse(both)) == [[0, 1], [1, 2]] and Graph.from_sparse(both).n_nodes == 4
    once = scipy.sparse.coo_array(([1, 5], ([2, 0], [1, 1])), shape=(3, 3)).asformat(form)
    assert edges(Graph.from_sparse(once)) == [[0, 1], [2, 1]]


def test_from_sparse_edge_cases() -> None:
    assert Graph.from_sparse(scipy.sparse.csr_array((0, 0))).n_nodes == 0
    repeated = scipy.sparse.coo_array(([1, 1], ([0, 0], [1, 1])), shape=(2, 2))
    assert edges(Graph.from_sparse(repeated)) == [[0, 1]]
    with pytest.raises(InvalidGraphError, match=r"adjacency matrix has shape \(2, 3\), wanted a square one"):
        Graph.from_sparse(scipy.sparse.csr_array((2, 3)))
    with pytest.raises(InvalidGraphError, match="joins node 1 to itself"):
        Graph.from_sparse(scipy.sparse.diags_array([0.0, 1.0]).tocoo())


def test_union() -> None:
    union = Graph.union([Graph.chain(2), Graph.grid(1, 1), Graph.from_edges([(1, 0)], edge_type=[3])])
    assert edges(union) == [[0, 1], [4, 3]] and union.n_nodes == 5
    assert union.parts.tolist() == [0, 2, 3, 5] and union.edge_type.tolist() == [0, 3] and union.n_edge_types == 4
    assert Graph.union([]).n_nodes == 0


# ---- facts -----------------------------------------------------------------------------------------------------


def test_incidence_components_and_forest() -> None:
    graph = Graph.from_edges([(3, 1), (1, 4), (2, 5)], n_nodes=7)
    ptr, edge, side = graph.incidence
    at = {v: list(zip(edge[ptr[v] : ptr[v + 1]].tolist(), side[ptr[v] : ptr[v + 1]].tolist(), strict=True)) for v in range(7)}
    assert at == {0: [], 1: [(0, 1), (1, 0)], 2: [(2, 0)], 3: [(0, 0)], 4: [(1, 1)], 5: [(2, 1)], 6: []}
    assert graph.components.tolist() == [0, 1, 2, 1, 1, 2, 3]
    assert graph.is_forest and Graph.chain(0).is_forest and Graph.chain(9).is_forest
    assert not Graph.complete(3).is_forest and not Graph.grid(2, 2).is_forest
    assert not Graph.from_edges([(0, 1), (1, 2), (2, 0)], n_nodes=9).is_forest


# ---- grids of any number of dimensions -------------------------------------------------------------------------


def by_hand(shape, steps) -> set[tuple[int, int, int]]:
    """Pairs of nodes and number of the step, by looking at all pairs of places."""
    places = list(np.ndindex(*shape))
    return {
        (u, v, t)
        for t, step in enumerate(steps)
        for u, p in enumerate(places)
        for v, q in enumerate(places)
        if tuple(np.add(p, step)) == q
    }


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 1, 2, 3), (3, 0, 2), (1, 1, 1)])
def test_grids_join_places_at_their_offsets(shape) -> None:
    n = len(shape)
    for steps in (np.eye(n, dtype=int)[::-1], [[2] + [0] * (n - 1)], [[2] * n, [-1] + [0] * (n - 1)]):
        graph = Graph.grid(shape, offsets=steps, edge_types="directions")
        found = {(u, v, t) for (u, v), t in zip(edges(graph), graph.edge_type.tolist(), strict=True)}
        assert found == by_hand(shape, np.array(steps).tolist()) and graph.shape == shape
    assert edges(Graph.grid(shape)) == edges(Graph.grid(shape, offsets=np.eye(n, dtype=int)[::-1]))


@pytest.mark.parametrize(("connectivity", "far"), [(6, 1), (18, 2), (26, 3)])
def test_volumes_have_6_18_or_26_neighbours(connectivity: int, far: int) -> None:
    graph = Graph.grid((3, 3, 3), connectivity=connectivity, edge_types="directions")
    place = np.array(list(np.ndindex(3, 3, 3)))
    step = np.abs(place[graph.edges[:, 0]] - place[graph.edges[:, 1]])
    assert step.max() == 1 and step.sum(axis=1).max() == far
    assert graph.degrees[13] == connectivity and graph.n_edge_types == connectivity // 2
    assert len({tuple(sorted(pair)) for pair in edges(graph)}) == graph.n_edges


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(height=(3, 3), offsets=[(0, 1), (0, -1)]), "joins the same pairs as offset 0"),
        (dict(height=(3, 3), offsets=[(0, 0)]), "joins nodes to themselves"),
        (dict(height=(3, 3), offsets=[(0, 1, 0)]), r"wanted whole numbers \(n_offsets, 2\)"),
        (dict(height=(3, 3), offsets=[(0.5, 1.0)]), "wanted whole numbers"),
        (dict(height=(3, 3), offsets=[(0, 1)], connectivity=4), "beside offsets, wanted one of them"),
        (dict(height=(3, 3, 3), connectivity=8), "wanted 6 or 18 or 26 in 3 dimensions"),
        (dict(height=(3, 3), width=2), "width is 2 beside all sides"),
        (dict(height=3), "width is missing"),
        (dict(height=()), "there are no sides"),
        (dict(height=(3, -1)), "side 1 of the grid is -1"),
    ],
)
def test_bad_grids_are_refused(options, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        Graph.grid(**options)


@pytest.mark.parametrize(
    ("graph", "shape"),
    [
        (Graph.grid(3, 4), (3, 4)),
        (Graph.grid(3, 4, 8), (3, 4)),
        (Graph.grid(1, 4), (1, 4)),
        (Graph.grid(4, 1), (4, 1)),
        (Graph.grid(1, 1), (1, 1)),
        (Graph.grid(3, 4, offsets=[(1, 0), (0, 1), (2, 3)]), (3, 4)),
        (Graph.grid(3, 4, offsets=[(0, 1)]), None),
        (Graph.grid(3, 4, offsets=[(0, 2), (1, 0)]), None),
        (Graph.grid((2, 3, 4)), None),
        (Graph.chain(4), None),
    ],
)
def test_an_image_is_a_grid_with_all_its_neighbours(graph: Graph, shape) -> None:
    assert graph.image_shape == shape


@pytest.mark.parametrize("options", [dict(), dict(offsets=[(0, 0, 1), (0, 1, 0), (1, 1, -1), (0, 0, 2)])])
def test_volumes_are_solved_like_any_graph(options) -> None:
    """Problems on a volume, and on the same graph without a shape, have the same answers, messages and files."""
    graph = Graph.grid((2, 3, 4), **options)
    plain = Graph.from_edges(graph.edges, graph.n_nodes)
    scores = np.random.default_rng(0).normal(size=(2, 3, 4, 3))
    problem, other = (Problem(own, u, 0.4 * np.eye(3)) for own, u in ((graph, scores), (plain, scores.reshape(24, 3))))
    for solver in (None, "TRWS", "JunctionTree", "DualDecomposition"):
        assert solve(problem, solver).score == pytest.approx(solve(other, solver).score, abs=1e-3)
    assert solve(problem).score == solve(other, "JunctionTree").score


def test_a_volume_is_kept_in_its_file(tmp_path) -> None:
    problem = Problem(Graph.grid((2, 2, 3)), np.zeros((12, 2)), np.eye(2))
    problem.save(tmp_path / "volume.npz")
    assert read_problem(tmp_path / "volume.npz").graph.shape == (2, 2, 3)
