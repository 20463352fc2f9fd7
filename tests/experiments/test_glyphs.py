"""Covered glyphs (Jancsary, Nowozin & Rother 2013, §5.3): the experiment on made strokes, and (slow) on rendered characters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxsum import ParseError, experiments
from maxsum.experiments import MissingDataError
from maxsum.experiments import glyphs as own


def write_glyphs(folder: Path, n: int = 10) -> np.ndarray:
    """Crosses of straight strokes; boxes in their middle."""
    random = np.random.default_rng(0)
    ink = np.zeros((n, 64, 64), dtype=np.uint8)
    for one in ink:
        row, column = random.integers(26, 36, size=2)
        one[row : row + 4, 8:56] = 1
        one[8:56, column : column + 4] = 1
    boxes = np.column_stack([random.integers(29, 35, size=(n, 2)), np.full((n, 2), 4)])
    (folder / "chinese_glyphs").mkdir()
    np.savez(
        folder / "chinese_glyphs" / own.FILE,
        ukai_packed=np.packbits(ink.reshape(n, -1), axis=1),
        occlusion_small=boxes,
        occlusion_large=boxes + [0, 0, 2, 2],
    )
    return ink


@pytest.fixture
def strokes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    for name, value in {"N_TRAIN": 6, "N_TEST": 4, "N_TREES": 5, "LAST": 10, "MIN_ITEMS": 20}.items():
        monkeypatch.setattr(own, name, value)
    return write_glyphs(tmp_path)


def test_load_hides_boxes(strokes: np.ndarray) -> None:
    found = own.load(6, 4)
    assert [[len(part) for part in found[kind]] for kind in ("small", "large")] == [[6, 4, 0], [6, 4, 0]]
    for one, ink in zip(found["small"][0], strokes, strict=False):
        assert np.array_equal(one.ink, ink) and one.hidden.sum() == 81
        assert np.array_equal(one.labels, ink[one.hidden])
    assert found["large"][1][0].hidden.sum() == 169
    first, more = found["small"].tests, own.load(6, 2, 2)["small"].further
    assert [np.array_equal(a.ink, b.ink) for a, b in zip(first[2:], more, strict=True)] == [True, True]


def test_windows_show_what_is_not_covered(strokes: np.ndarray) -> None:
    one = own.load(6, 4)["small"][0][0]
    seen = own.window(one, 6).reshape(-1, 13, 13)
    for at, (row, column) in zip(seen, np.argwhere(one.hidden), strict=True):
        for i, j in ((0, 0), (6, 6), (3, 12), (12, 1)):
            place = (row + i - 6, column + j - 6)
            expected = 0 if one.hidden[place] else 2 * int(one.ink[place]) - 1
            assert at[i, j] == expected


def test_each_pixel_has_64_neighbours_of_32_kinds() -> None:
    steps = own.offsets()
    assert len(set(steps)) == 32 and not {(-i, -j) for i, j in steps} & set(steps)
    assert max(i * i + j * j for i, j in steps) <= 20
    hidden = np.zeros((64, 64), dtype=bool)
    hidden[:40, 20:60] = True
    graph = own.graph(hidden)
    degree = np.bincount(graph.edges.ravel(), minlength=graph.n_nodes)
    at = np.argwhere(hidden)
    inside = (at[:, 0] >= 5) & (at[:, 0] < 35) & (at[:, 1] >= 25) & (at[:, 1] < 55)
    assert (degree[inside] == 64).all() and degree.max() == 64
    difference = at[graph.edges[:, 1]] - at[graph.edges[:, 0]]
    assert (difference == np.array(steps)[graph.edge_type]).all()


def test_the_experiment(strokes: np.ndarray) -> None:
    lines: list[str] = []
    report = experiments.run("glyphs", quick=True, progress=lines.append)
    assert len(report.rows) == 5 and len(lines) == 8 and not report.failed
    assert all(len(row) == len(report.columns) for row in report.rows)
    errors = {row[2]: float(row[3]) for row in report.rows}
    assert set(errors) == {"forest", "forest, same features", "no edges", "qp", "logistic"} and max(errors.values()) < 50.0


def test_panels_show_answers_in_the_box_alone(strokes: np.ndarray, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tests = own.load(6, 2)["large"][1]
    said = own.MethodRun([1 - one.labels for one in tests], 0.0, 0.0, 0.0, "")
    rows = own.panels(tests, {"forest": said, "qp": said})
    assert [title for title, _ in rows[0]] == ["input", "truth", "forest: 100.0 %", "QP-M3N: 100.0 %"]
    truth, answer = rows[0][1][1], rows[0][3][1]
    assert np.array_equal(truth[~tests[0].hidden], answer[~tests[0].hidden])
    assert (truth[tests[0].hidden] == 255 - answer[tests[0].hidden]).all()
    own.draw(tmp_path / "a.png", rows, "")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_bad_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"chinese_glyphs_64\.npz"):
        own.load()
    write_glyphs(tmp_path)
    with pytest.raises(ParseError, match="there are 10 glyphs and 10 boxes, wanted 400"):
        own.load()
    np.savez(tmp_path / "chinese_glyphs" / own.FILE, ukai_packed=np.zeros((1, 512)))
    with pytest.raises(ParseError, match="occlusion_small is missing"):
        own.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "chinese_glyphs" / own.FILE).is_file():
        pytest.skip("no chinese_glyphs/chinese_glyphs_64.npz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    assert not experiments.run("glyphs", quick=True).failed
