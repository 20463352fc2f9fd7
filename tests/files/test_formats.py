"""Readers and writers against hand-written files, enumeration and the instances of the shared data."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
from pathlib import Path

import numpy as np
import pytest
from factories.problems import random_case
from reference.enumeration import every_labelling

import maxsum as ms
from maxsum.core.files import read_problem, save

DATA = Path(os.environ.get("MAXSUM_DATA") or Path(__file__).parents[3] / "shared" / "data") / "map_benchmarks"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="no folder map_benchmarks: set MAXSUM_DATA to the shared data")


def general(seed, **options):
    """Everything that a format may hold."""
    problem, raw = random_case(seed, unequal=True, hard=0.15, weights=(0.5, 2.0), offset=seed / 3, **options)
    assert any(np.isneginf(table).any() for table in raw.tables)
    return problem


def write(path, text):
    path.write_text(text)
    return path


def assert_same(a, b):
    used = np.zeros(a.tables.shape, dtype=bool)
    for t, (u, v) in zip(a.edge_table, a.graph.edges, strict=True):
        used[t, : a.n_states[u], : a.n_states[v]] = True
    np.testing.assert_array_equal(a.tables[used], b.tables[used], strict=True)
    for name in ("unary", "edge_table", "edge_weight", "n_states", "offset"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)
    for name in ("n_nodes", "edges", "edge_type", "n_edge_types", "shape"):
        np.testing.assert_array_equal(getattr(a.graph, name), getattr(b.graph, name))
    for name in ("ptr", "nodes", "weights"):
        np.testing.assert_array_equal(getattr(a.cliques, name), getattr(b.cliques, name), strict=True)
    assert (a.graph.parts is None) == (b.graph.parts is None)
    if a.graph.parts is not None:
        np.testing.assert_array_equal(a.graph.parts, b.graph.parts, strict=True)


# ---- npz ---------------------------------------------------------------------------------------------------------------


def npz_cases():
    rng = np.random.default_rng(5)
    grid = ms.Graph.grid(3, 4, edge_types="directions")
    one = ms.Problem(ms.Graph.chain(2), [[0.1, -0.0], [1e-310, 1e99]], np.eye(2))
    return {
        "general": general(1, cliques=(3, 2)),
        "grid": ms.Problem(grid, rng.normal(size=(3, 4, 5)), rng.normal(size=(2, 5, 5)), offset=-1 / 3),
        "union": ms.Problem.union([general(2), one, general(3, cliques=(3, 2))]),
        "one node": ms.Problem(ms.Graph.chain(1), [[0.0, -np.inf, 2.0]]),
        "empty": ms.Problem(ms.Graph.chain(0), np.zeros((0, 2))),
        "unused type": ms.Problem(
            ms.Graph(2, np.array([[1, 0]], np.int32), np.zeros(1, np.int32), n_edge_types=3), np.zeros((2, 2)), np.eye(2)
        ),
        "merged": ms.Problem(
            ms.Graph.from_edges([(0, 1), (1, 0), (2, 1)], duplicates="merge"), np.zeros((3, 2)), rng.normal(size=(3, 2, 2))
        ),
    }


@pytest.mark.parametrize("name", npz_cases())
@pytest.mark.parametrize("suffix", [".npz", ".npz.xz"])
def test_npz_keeps_every_field(tmp_path, name, suffix):
    problem = npz_cases()[name]
    problem.save(tmp_path / f"p{suffix}")
    assert_same(problem, ms.read_problem(tmp_path / f"p{suffix}"))


def test_npz_bytes_are_a_function_of_the_problem(tmp_path):
    for name in "ab":
        save(general(4, cliques=(3, 2)), tmp_path / f"{name}.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


# ---- UAI ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".uai", ".uai.gz", ".uai.xz", ".uai.bz2", ".UAI"])
@pytest.mark.parametrize("values", ["costs", "scores"])
def test_uai_costs_and_scores_are_exact(tmp_path, values, suffix):
    problem = general(7)
    path = tmp_path / f"p{suffix}"
    save(problem, path, values=values)
    again = read_problem(path, values=values)
    np.testing.assert_array_equal(again.unary, problem.unary)
    np.testing.assert_array_equal(again.graph.edges, problem.graph.edges)
    np.testing.assert_array_equal(again.edge_scores(), problem.edge_scores())
    assert again.offset == problem.offset
    assert all(again.score(y) == problem.score(y) for y in every_labelling(problem))


@pytest.mark.parametrize("offset", [0.0, 2.5, 1500.0, -4000.0])
def test_uai_probabilities_keep_scores_and_constant(tmp_path, offset):
    plain = general(8)
    problem = ms.Problem(
        plain.graph, plain.unary, plain.tables, plain.edge_table, plain.edge_weight, plain.n_states, None, offset
    )
    save(problem, tmp_path / "p.uai")
    again = read_problem(tmp_path / "p.uai")
    for y in every_labelling(problem):
        assert again.score(y) == pytest.approx(problem.score(y), abs=1e-9)


def test_uai_writer_refuses_what_it_would_change(tmp_path):
    many = ms.Problem(ms.Graph.from_edges([], 30), np.zeros((30, 2)), factors=[(range(30), ms.factors.AllDifferent())])
    with pytest.raises(ms.UnsupportedProblemError, match=r"factor 0 \(AllDifferent\(\)\) has 1073741824 entries.*\.npz"):
        save(many, tmp_path / "p.uai")
    wide = ms.Problem(ms.Graph.chain(2), [[0.0, 0.0], [0.0, 0.0]], [[0.0, -800.0], [0.0, 0.0]])
    with pytest.raises(ms.UnsupportedProblemError, match=r"edge 0 \(nodes 0-1\) spans 800.*costs"):
        save(wide, tmp_path / "p.uai")
    with pytest.raises(ms.UnsupportedProblemError, match="1e\\+09"):
        save(ms.Problem(ms.Graph.chain(1), [[1e9, 1e9]]), tmp_path / "p.uai")
    assert list(tmp_path.iterdir()) == []
    save(wide, tmp_path / "p.uai", values="costs")


UAI = """MARKOV
3
2 3 1
5
2 1 0
1 1
2 0 1
0
2 1 2

6
 1 2 3 4 5 6
3
 0.5 0 1
6
 1 1 2
 1 .5 1e-1
1
7
3 1 1 4
"""


@pytest.mark.parametrize("kind", ["MARKOV", "BAYES"])
def test_uai_product_equals_enumeration(tmp_path, kind):
    problem = read_problem(write(tmp_path / "p.uai", UAI.replace("MARKOV", kind)))
    assert problem.graph.edges.tolist() == [[1, 0], [1, 2]]
    assert problem.n_states.tolist() == [2, 3, 1]
    first, second = np.arange(1, 7).reshape(3, 2), np.array([[1, 1, 2], [1, 0.5, 0.1]])
    for a, b, c in every_labelling(problem):
        product = first[b, a] * [0.5, 0, 1][b] * second[a, b] * 7 * [1, 1, 4][b]
        wanted = math.log(product) if product else -math.inf
        assert problem.score([a, b, c]) == pytest.approx(wanted, abs=1e-12)


def test_uai_costs_may_be_negative_or_infinite(tmp_path):
    text = "MARKOV 2 2 2 2 1 0 2 0 1 2 -1 inf 4 0 1 2 3"
    problem = read_problem(write(tmp_path / "p.uai", text), values="costs")
    assert problem.score([0, 1]) == 0.0
    assert problem.score([1, 1]) == -math.inf
    with pytest.raises(ms.ParseError, match=r'line 1: .*"-1".*values="costs"'):
        read_problem(tmp_path / "p.uai")


def test_equal_tables_are_stored_once(tmp_path):
    n, k = 4000, 3
    table = " ".join("0" if a == b else "1" for a in range(k) for b in range(k))
    text = [f"MARKOV\n{n}\n" + "3 " * n + f"\n{n - 1}\n"]
    text += [f"2 {i} {i + 1}\n" for i in range(n - 1)] + [f"9 {table}\n"] * (n - 1)
    problem = read_problem(write(tmp_path / "p.uai", "".join(text)), values="costs")
    assert problem.tables.shape == (1, k, k)
    assert problem.score(np.arange(n) % 2) == -(n - 1)


# ---- wcsp --------------------------------------------------------------------------------------------------------------


WCSP = """demo 4 3 7 50
2 3 2 2
2 0 1 4 2
0 2 50
1 1 7
-2 1 2 0 2
0 0 3
2 1 60
2 1 3 0 -1
2 1 0 1 1
2 1 9
1 1 2 1
0 0
1 1 -3 0
0 6 0
"""


def wcsp_cost(x):
    a, b, c, d = x
    cost = {(0, 2): math.inf, (1, 1): 7}.get((a, b), 4)
    cost += {(0, 0): 3, (2, 1): math.inf}.get((b, c), 0) + {(0, 0): 3, (2, 1): math.inf}.get((b, d), 0)
    return cost + {(2, 1): 9}.get((b, a), 1) + (0 if b == 0 else 2) - 3 + 6


def test_wcsp_cost_equals_enumeration(tmp_path):
    problem = read_problem(write(tmp_path / "p.wcsp", WCSP))
    assert problem.graph.edges.tolist() == [[0, 1], [1, 2], [1, 3]]
    assert problem.edge_table[1] == problem.edge_table[2]
    assert {-problem.score(y) == wcsp_cost(y) for y in every_labelling(problem)} == {True}


# ---- cfn ---------------------------------------------------------------------------------------------------------------

CFN = """{
 "problem": {"name": "demo", "mustbe": "<100.0"},
 "variables": {"x": ["a", "b"], "y": 3, "z": ["0", "1"]},
 "functions": {
  "late": {"scope": ["z", "y"], "costs": "xy"},
  "xy": {"scope": ["x", 1], "costs": [1, "2.5", 3, 4, 100, 0]},
  "yx": {"scope": ["y", "x"], "defaultcost": 0.5, "costs": [0, "a", 9, "2", "b", "inf"]},
  "z": {"scope": [2], "costs": [0.25, 0]},
  "c": {"scope": [], "costs": [1]},
  "d": {"scope": [], "defaultcost": 2, "costs": []}
 }
}
"""


def test_cfn_cost_equals_enumeration(tmp_path):
    problem = read_problem(write(tmp_path / "p.cfn", CFN))
    shared = np.array([[1, 2.5, 3], [4, math.inf, 0]])
    for x, y, z in every_labelling(problem):
        cost = shared[z, y] + shared[x, y] + {(0, 0): 9, (2, 1): math.inf}.get((y, x), 0.5) + [0.25, 0][z] + 3
        assert -problem.score([x, y, z]) == cost
    assert problem.graph.edges.tolist() == [[2, 1], [0, 1]]


def test_cfn_maximises_and_forbids_only_what_the_bound_excludes(tmp_path):
    """toulbar2 1.4 solves these two files with 0 and 7: an entry past the bound is allowed if others make up for it."""
    head = (
        '"variables": {"x": 2, "y": 2}, "functions": {"f": {"scope": [0], "costs": %s}, "g": {"scope": [0, 1], "costs": %s}}}'
    )
    text = '{"problem": {"mustbe": ">-10"}, ' + head % ([0, -20], [-11, -11, 15, 20])
    problem = read_problem(write(tmp_path / "max.cfn", text))
    assert max(map(problem.score, every_labelling(problem))) == 0.0
    text = '{"problem": {"mustbe": "<10"}, ' + head % ([12, 9], [-5, -4, 3, 4])
    problem = read_problem(write(tmp_path / "min.cfn", text))
    assert max(map(problem.score, every_labelling(problem))) == -7.0
    text = '{"problem": {"mustbe": "<10"}, ' + head % ([12, 9], [0, 4, 3, 4])
    problem = read_problem(write(tmp_path / "forbidden.cfn", text))
    assert problem.score([0, 0]) == -math.inf
    assert problem.score([1, 0]) == -12.0


def test_cfn_accepts_lists_without_names(tmp_path):
    text = (
        '{"problem": {"mustbe": "<10"}, "variables": [2, ["p", "q"]], "functions": [{"scope": [0, 1], "costs": [1, 2, 3, 4]}]}'
    )
    assert read_problem(write(tmp_path / "p.cfn", text)).score([1, 0]) == -3.0


# ---- paths, suffixes, writing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_compressed_files_of_several_streams(tmp_path, suffix, pack):
    data = WCSP.encode()
    path = tmp_path / f"p.wcsp{suffix}"
    path.write_bytes(pack(data[:60]) + pack(data[60:]) + (b"\0" * 8 if suffix == ".xz" else b""))
    assert -read_problem(path).score([0, 0, 0, 0]) == wcsp_cost((0, 0, 0, 0))


def test_suffix_and_options(tmp_path):
    path = write(tmp_path / "p.txt", UAI)
    with pytest.raises(ms.ParseError, match=r'suffix "\.txt" names no known format.*format='):
        read_problem(path)
    assert read_problem(path, format="uai").n_nodes == 3
    with pytest.raises(ms.ParseError, match="format is 'hdf5'"):
        read_problem(path, format="hdf5")
    with pytest.raises(ms.ParseError, match="values is 'energy'"):
        read_problem(path, format="uai", values="energy")
    with pytest.raises(ms.ParseError, match="is for UAI files"):
        read_problem(write(tmp_path / "p.wcsp", WCSP), values="costs")
    with pytest.raises(ms.ParseError, match=r"precision=3 is for \.wcsp"):
        save(general(1), tmp_path / "q.cfn", precision=3)
    with pytest.raises(FileNotFoundError):
        read_problem(tmp_path / "absent.uai")


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "p.npz"
    save(general(1), path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        save(general(2), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# ---- real instances ----------------------------------------------------------------------------------------------------

READABLE = {  # nodes, edges, labels, factors
    "toulbar2/example.wcsp.xz": (25, 63, 5, 0),
    "toulbar2/CELAR6-SUB1.wcsp.xz": (14, 75, 44, 0),
    "toulbar2/GEOM40_6.wcsp.xz": (40, 78, 6, 0),
    "toulbar2/cap131.wcsp.xz": (100, 2500, 50, 0),
    "toulbar2/scen06.wcsp.xz": (100, 350, 44, 0),
    "toulbar2/1aho.cfn.gz": (64, 544, 55, 0),
    "libmpopt/gm_000.uai.xz": (6912, 13656, 16, 0),
    "toulbar2/404.wcsp.xz": (100, 592, 4, 18),
    "toulbar2/sudoku.wcsp.xz": (81, 0, 9, 27),
    "toulbar2/alarm.cfn.gz": (37, 8, 4, 17),
    "toulbar2/water.uai.xz": (32, 6, 4, 18),
    "toulbar2/network.uai.xz": (120, 20, 2, 90),
}
# optimal labellings as toulbar2 finds them, with the optima that ship with the instances
SOLVED = {
    "toulbar2/example.wcsp.xz": ("1 0 1 2 0 2 0 4 2 0 4 1 0 0 3 0 1 1 2 4 2 1 2 4 1", 27),
    "toulbar2/GEOM40_6.wcsp.xz": ("2 0 1 0 0 1 2 1 0 2 0 5 3 2 1 1 1 4 0 1 2 1 3 1 0 0 3 4 0 2 2 2 0 2 2 0 0 1 3 0", 0),
    "toulbar2/CELAR6-SUB1.wcsp.xz": ("16 0 0 43 36 23 5 43 19 41 38 33 42 11", 2669),
    "toulbar2/1aho.cfn.gz": (
        "0 32 14 0 1 0 1 0 0 2 8 2 39 2 2 0 0 34 0 0 1 2 11 20 3 2 4 35 0 23 0 21 10 0 1 1 50 4 0 36 2 10 0 2 0 1 9 3 0 18 "
        "0 2 7 0 1 23 8 14 0 0 0 4 1 19",
        -33.729920,
    ),
}


@needs_data
@pytest.mark.parametrize("name", READABLE)
def test_instance_sizes(name):
    problem = read_problem(DATA / name, values="costs" if "gm_000" in name else None)
    assert (problem.n_nodes, problem.n_edges, problem.n_labels, len(problem.factors)) == READABLE[name]
    if "gm_000" in name:
        label = np.arange(16)
        np.testing.assert_array_equal(problem.tables, -np.minimum(2.0 * abs(label[:, None] - label), 4.0)[None])


@needs_data
@pytest.mark.parametrize("name", SOLVED)
def test_instance_optimum_has_its_published_cost(name):
    labels, cost = SOLVED[name]
    assert -read_problem(DATA / name).score([int(k) for k in labels.split()]) == pytest.approx(cost, abs=1e-9)


@needs_data
def test_every_instance_is_tested():
    found = {f"{p.parent.name}/{p.name}" for p in DATA.glob("*/*.*z")}
    assert found == set(READABLE)
