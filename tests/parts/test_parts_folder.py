"""Graphs in parts on disk: what is written is read back as the same problem, and faults are named."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from parts.parts_samples import loose_problem

import maxsum as ms
from maxsum.core.files.arrays import map_arrays, write_arrays
from maxsum.parts import grow_parts, open_parts, solve_parts, tile_parts, write_grid, write_parts
from maxsum.parts.writer import Cuts, PartsWriter


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("own_tables", [True, False])
def test_the_parts_are_the_problem(tmp_path, size, own_tables):
    problem = loose_problem(own_tables=own_tables)
    part = grow_parts(problem.graph, size)
    assert np.bincount(part).max() <= size
    parts = write_parts(problem, part, tmp_path / "a")
    assert parts.n_parts == -(-40 // size)
    assert (parts.n_nodes, parts.n_edges, parts.n_labels) == (40, problem.n_edges, 3)
    whole, rng = parts.problem(), np.random.default_rng(1)
    assert {frozenset(e) for e in whole.graph.edges.tolist()} == {frozenset(e) for e in problem.graph.edges.tolist()}
    for _ in range(20):
        labels = rng.integers(0, 3, 40)
        assert whole.score(labels) == pytest.approx(problem.score(labels), abs=1e-9)


@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("edge_types", ["tied", "directions"])
def test_a_grid_in_strips_is_the_grid(tmp_path, connectivity, edge_types):
    rng = np.random.default_rng(0)
    unary, graph = rng.normal(size=(9, 5, 3)), ms.Graph.grid(9, 5, connectivity, edge_types)
    tables = rng.normal(size=(graph.n_edge_types, 3, 3))
    strips = (unary[a:b] for a, b in [(0, 4), (4, 5), (5, 9)])
    parts = write_grid(strips, tmp_path / "a", tables=tables, connectivity=connectivity, edge_types=edge_types)
    problem, whole = ms.Problem(graph, unary, tables), parts.problem()
    assert (parts.shape, parts.n_edges) == ((9, 5), graph.n_edges)
    for _ in range(20):
        labels = rng.integers(0, 3, 45)
        assert whole.score(labels) == pytest.approx(problem.score(labels), abs=1e-9)


def test_one_table_serves_all_directions(tmp_path):
    parts = write_grid([np.zeros((1, 3, 2))] * 2, tmp_path / "a", tables=np.eye(2), edge_types="directions")
    assert parts.problem().score(np.zeros(6, dtype=int)) == 7


def test_tiles():
    assert tile_parts((4, 5), (2, 3)).reshape(4, 5).tolist() == [[0, 0, 0, 1, 1]] * 2 + [[2, 2, 2, 3, 3]] * 2
    with pytest.raises(ms.InvalidGraphError, match="sizes >= 1"):
        tile_parts((4, 5), (0, 3))
    with pytest.raises(ms.InvalidParameterError, match="nodes >= 1"):
        grow_parts(ms.Graph.chain(3), 0)


def test_parts_grown_on_a_grid_have_short_seams():
    graph = ms.Graph.grid(30, 30)
    part = grow_parts(graph, 90)
    across = (part[graph.edges[:, 0]] != part[graph.edges[:, 1]]).sum()
    assert across < 0.35 * graph.n_edges


CHAIN = ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), np.eye(2))


def written(folder):
    return write_parts(loose_problem(), grow_parts(loose_problem().graph, 9), folder)


@pytest.mark.parametrize("name", ["part-00002.arrays", "cuts.arrays"])
@pytest.mark.parametrize("fault", ["bit", "short", "missing", "foreign"])
def test_a_damaged_file_is_named(tmp_path, name, fault):
    parts = written(tmp_path / "a")
    path = parts.folder / name
    content = bytearray(path.read_bytes())
    if fault == "missing":
        path.unlink()
    elif fault == "foreign":
        write_arrays(path, {"x": np.zeros(3)})
    else:
        content[-5] ^= 1
        path.write_bytes(content[:-3] if fault == "short" else content)
    with pytest.raises(ms.ParseError, match=name):
        open_parts(parts.folder)
    with pytest.raises(ms.ParseError, match=name):
        solve_parts(parts.folder, tmp_path / "out")
    if fault != "bit":
        with pytest.raises(ms.ParseError, match=name):
            solve_parts(open_parts(parts.folder, check=False), tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(format="other"), "does not say"),
        (lambda m: m.update(version=2), "version 2"),
        (lambda m: m.pop("cuts"), "lacks entries"),
        (lambda m: m["parts"][0].update(file="../x.arrays"), "its own folder"),
        (lambda m: m["parts"][0].update(nodes=-1), "strange counts"),
        (lambda m: m["parts"][0].pop("sha256"), "strange entries"),
    ],
)
def test_a_strange_manifest_is_refused(tmp_path, change, words):
    path = written(tmp_path / "a").folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(ms.ParseError, match=words):
        open_parts(tmp_path / "a")
    path.write_text("{")
    with pytest.raises(ms.ParseError, match="not JSON"):
        open_parts(tmp_path / "a")


def test_without_manifest_there_is_no_graph(tmp_path):
    PartsWriter(tmp_path / "a").add(CHAIN)
    with pytest.raises(ms.ParseError, match=r"manifest\.json"):
        open_parts(tmp_path / "a")
    written(tmp_path / "b")
    with pytest.raises(ms.InvalidParameterError, match="already"):
        written(tmp_path / "b")


def test_indices_past_the_end_do_not_reach_the_kernels(tmp_path):
    parts = written(tmp_path / "a")
    arrays = {name: np.array(array) for name, array in map_arrays(parts.path(1)).items()}
    arrays["edges"][0, 0] = 1000
    write_arrays(parts.path(1), arrays)
    with pytest.raises(ms.ParseError, match=r"edges has numbers outside 0\.\.8"):
        solve_parts(open_parts(parts.folder, check=False), tmp_path / "out")


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (Cuts([1], [1], [0], [True]), None, "exactly once"),
        (Cuts([1], [1], [0], [True]), Cuts([0], [0], [1], [True]), "exactly once"),
        (Cuts([1, 1], [1, 1], [0, 0], [True, True]), Cuts([0, 0], [0, 0], [1, 1], [False, False]), "exactly once"),
        (Cuts([1], [7], [0], [True]), None, "does not exist"),
        (Cuts([1], [0], [0], [True]), None, "its own"),
        (Cuts([5], [1], [0], [True]), None, "outside 0..1"),
        (Cuts([1], [1], [0], [True], [3]), Cuts([0], [0], [1], [False]), "table 3"),
        (Cuts([1], [1], [0], [True], [0], [np.inf]), Cuts([0], [0], [1], [False]), "kind and weight"),
        (Cuts([1.5], [1], [0], [True]), None, "whole number"),
    ],
)
def test_cuts_that_do_not_match_are_refused(tmp_path, first, second, words):
    def write():
        with PartsWriter(tmp_path / "a") as writer:
            writer.add(CHAIN, cuts=first)
            writer.add(CHAIN, cuts=second)

    with pytest.raises(ms.InvalidGraphError, match=words):
        write()
    assert not (tmp_path / "a" / "manifest.json").exists()


def test_bad_input(tmp_path):
    hard = ms.Problem(ms.Graph.chain(2), [[0, -np.inf], [0, 1]], np.eye(2))
    clique = ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), np.eye(2), cliques=[([0, 1], [0.0, 1.0])])
    uneven = ms.Problem(ms.Graph.from_edges([(0, 1)]), [[0, 1], [0, 1, 2]], [np.zeros((2, 3))])
    for problem, words in ((hard, "forbids"), (clique, "cliques"), (uneven, "fewer labels")):
        with pytest.raises(ms.UnsupportedProblemError, match=words):
            write_parts(problem, [0, 1], tmp_path / "x")
    for part in ([0], [0, 2], [0.0, 1.0], [0, -1]):
        with pytest.raises(ms.InvalidGraphError, match="part"):
            write_parts(CHAIN, part, tmp_path / "x")
    with pytest.raises(ms.InvalidSampleError, match="no parts"):
        write_grid([], tmp_path / "y", tables=np.eye(2))
    with pytest.raises(ms.InvalidSampleError, match="strip 1 has shape"):
        write_grid([np.zeros((2, 3, 2)), np.zeros((2, 4, 2))], tmp_path / "z", tables=np.eye(2))
    writer = PartsWriter(tmp_path / "w")
    with pytest.raises(ms.InvalidSampleError, match="wanted a Problem or a GraphSample"):
        writer.add("text")
    writer.add(CHAIN)
    with pytest.raises(ms.InvalidSampleError, match="3 labels, the parts before 2"):
        writer.add(ms.Problem(ms.Graph.chain(2), np.zeros((2, 3)), np.eye(3)))
    with pytest.raises(ms.InvalidSampleError, match="wanted one kind"):
        writer.add(ms.GraphSample(np.zeros((2, 3)), ms.Graph.chain(2)))


@pytest.mark.parametrize(("nodes", "words"), [([0, 5], "outside 0"), ([0, 1], "no part has node 2")])
def test_strange_node_numbers_are_named(tmp_path, nodes, words):
    with PartsWriter(tmp_path / "a") as writer:
        writer.add(CHAIN)
        writer.add(CHAIN, nodes=nodes)
    result = solve_parts(tmp_path / "a", tmp_path / "out")
    with pytest.raises(ms.ParseError, match=words):
        result.labels()


def test_workers_get_the_manifest_alone(tmp_path):
    parts = written(tmp_path / "a")
    before = len(pickle.dumps(parts))
    assert parts.n_cuts
    assert len(parts.cuts_of) == parts.n_parts
    assert len(pickle.dumps(parts)) == before
    assert pickle.loads(pickle.dumps(parts)).n_cuts == parts.n_cuts
