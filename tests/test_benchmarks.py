"""The benchmarks run on tiny settings, and the results page keeps what was not measured again. No timing is judged."""

from __future__ import annotations

import importlib
import itertools
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
benchmarks = importlib.import_module("benchmarks")
main = importlib.import_module("benchmarks.__main__")
measure = importlib.import_module("benchmarks.measure")
report = importlib.import_module("benchmarks.report")

RUN = report.Run("chains", (0.5, 0.25, 0.125), (1.5, 0.25, 0.125), 3.2)


def module(name):
    return benchmarks.load(name)


@cache
def tiny(name):
    return module(name).rows(quick=True)


def test_every_bench_module_is_listed():
    found = {path.stem for path in (ROOT / "benchmarks").glob("bench_*.py")}
    assert found == {module.partition(":")[0] for module in benchmarks.MODULES.values()}


SLOW = (
    *(
        "sanitize",
        "reliability",
        "cluster",
        "panel",
        "shards",
        "parts",
        "torch",
        "startup",
        "firsthour",
        "tight",
        "adversary",
        "defaults",
    ),
    *(
        "exact",
        "random",
        "uai",
        "factors",
        "amn",
        "memory",
        "asked-latent",
        "asked-partial",
        "asked-trees",
        "asked-confidence",
        "asked-forbidden",
        "asked-query",
        "asked-streams",
    ),
    *("asked-penalties", "reproduce-scene"),
)
"""More than two seconds even when tiny (sanitize compiles the kernels): ``pytest -m slow tests/test_benchmarks.py``, which ``.ci/run`` does."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else [])
        for n in benchmarks.MODULES
        if not n.startswith("reproduce-") or n == "reproduce-scene"
    ],
)
def test_rows_of_a_tiny_setting(name):
    rows = tiny(name)
    assert rows
    block = report.section(RUN._replace(name=name), module(name).TITLE, module(name).DESCRIPTION, rows)
    assert f"## {module(name).TITLE}\n" in block
    assert f"`python -m benchmarks {name}`" in block
    assert "nan" not in block
    for row in rows:
        if "note" in row:
            assert row["note"] in block
            continue
        assert f"| {report.cell(next(value for key, value in row.items() if key != 'table'))} |" in block


@pytest.mark.slow
def test_tiny_answers_are_proven():
    rows = tiny("exact")
    if measure.data_folder() is None:
        pytest.skip("no data folder: set MAXSUM_DATA")
    files = [row for row in rows if row["table"] == "Files"]
    assert [(row["cost"], row["bound"], row["guarantee"]) for row in files] == [("27", "27", "optimal"), ("0", "0", "optimal")]
    assert [row["solved"] for row in rows if row["table"] == "Sudoku"] == ["2 of 2", "2 of 2"]
    assert [row["proven"] for row in tiny("random")] == ["1 of 1", "1 of 1"]


def test_missing_data_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path / "nothing"))
    rows = module("exact").rows(quick=True)
    assert len(rows) == len(module("exact").INSTANCES) + 2
    assert all(measure.NO_DATA in row.values() for row in rows)


def test_a_missing_peer_is_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytoulbar2", None)
    monkeypatch.setitem(sys.modules, "maxflow", None)
    assert [peer.text() for peer in measure.toulbar2([None, None], 1.0)] == ["skipped: pytoulbar2 is not installed"] * 2
    (row,) = module("maxflow").rows(quick=True)
    assert row["PyMaxflow, s"] == "skipped: PyMaxflow is not installed"


def test_the_numpy_peer_finds_the_optimum():
    rng = np.random.default_rng(0)
    unary, table = rng.normal(size=(3, 4, 3)), rng.normal(size=(3, 3))
    labels = module("chains").numpy_viterbi(unary, table)
    for q, y in zip(unary, labels, strict=True):
        scores = {z: _score(q, table, z) for z in np.ndindex(3, 3, 3, 3)}
        assert tuple(y.tolist()) == max(scores, key=scores.__getitem__)


def _score(q, table, y):
    return sum(q[v, k] for v, k in enumerate(y)) + sum(table[k, next_k] for k, next_k in itertools.pairwise(y))


def test_a_section_replaces_only_itself(tmp_path):
    page, order = tmp_path / "docs" / "results.md", ["chains", "memory"]
    memory = report.section(RUN._replace(name="memory"), "Memory", "About.", [{"what": "a", "MB": 1.25}])
    report.write(page, "memory", memory, order)
    for seconds in (0.5, 0.25):
        block = report.section(RUN, "Chains", "About.", [{"what": "b", "seconds": seconds, "ratio": None}])
        report.write(page, "chains", block, order)
    text = page.read_text(encoding="utf-8")
    assert memory in text
    assert "| b | 0.25 | – |" in text
    assert "0.5 |" not in text
    assert text.index("## Chains") < text.index("## Memory")
    assert "load average (1, 5, 15 min) 0.50 0.25 0.12 before, 1.50" in text


def test_unknown_benchmarks_are_refused(capsys):
    with pytest.raises(SystemExit):
        main.main(["nonsense"])
    assert "there is no benchmark 'nonsense'; known are chains, maxflow" in capsys.readouterr().err


def test_the_results_page_names_no_folder_or_host():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert "Generated by `python -m benchmarks`" in text
    assert not any(word in text for word in ("/tmp", "/home", "/root", "/work", str(ROOT)))
