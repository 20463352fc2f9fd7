"""Covered glyphs by trees on pixels (Jancsary, Nowozin & Rother 2013, Table 5): the experiment on made strokes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxsum import experiments
from maxsum.core.errors import OracleError
from maxsum.experiments import glyph_trees as own
from maxsum.experiments import glyphs


@pytest.fixture
def strokes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crosses of straight strokes with boxes in their middle."""
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(glyphs, "N_TRAIN", 4)
    monkeypatch.setattr(glyphs, "N_TREES", 5)
    random = np.random.default_rng(0)
    ink = np.zeros((8, 64, 64), dtype=np.uint8)
    for one in ink:
        row, column = random.integers(26, 36, size=2)
        one[row : row + 4, 8:56] = 1
        one[8:56, column : column + 4] = 1
    boxes = np.column_stack([random.integers(29, 35, size=(8, 2)), np.full((8, 2), 3)])
    (tmp_path / "chinese_glyphs").mkdir()
    packed = np.packbits(ink.reshape(8, -1), axis=1)
    np.savez(
        tmp_path / "chinese_glyphs" / glyphs.FILE,
        ukai_packed=packed,
        occlusion_small=boxes,
        occlusion_large=boxes + [0, 0, 1, 1],
    )


def test_the_experiment(strokes: None) -> None:
    report = experiments.run("glyph-trees", quick=True, table=5)
    names = [row[0] for row in report.rows]
    assert names == ["random forest", "no edges", "QP-M3N", "LRF", "RTF", "DTF, TRW-S", "DTF, annealing"]
    assert all(0 <= float(row[2]) < 50 for row in report.rows), (
        report.rows
    )  # half of the pixels of a stroke's box are ink, or fewer
    assert not report.failed and all(claim.published == "" for claim in report.claims)
    assert "QP-M3N 22.36 %, LRF 22.35 %" in report.substitute


def test_what_trees_see_is_not_what_is_covered(strokes: None) -> None:
    one = glyphs.load(4, 4)["small"].train[0]
    sample = own.samples([one])[0]
    other = own.samples([one._replace(ink=np.where(one.hidden, 1 - one.ink, one.ink))])[0]
    tests = own.tests_of()
    some = np.random.default_rng(0).choice(tests.n_node_tests, 200, replace=False)
    answers = tests.node(sample, some)
    assert np.array_equal(answers, tests.node(other, some)) and 0.05 < answers.mean() < 0.95
    assert sample.X.shape == (one.hidden.sum(), 0) and own.alone([sample])[0].graph.n_edges == 0
    assert own.alone([sample])[0].pixels is sample.pixels


def test_systems_that_cannot_be_solved_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise OracleError("badly conditioned")

    monkeypatch.setattr(own, "LogisticObjective", refuse)
    trees: Any = SimpleNamespace(model=None, weights=None)
    assert own.convex(trees, "logistic", 1.0, 1.0) is None
