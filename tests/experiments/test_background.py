"""Backgrounds (Jancsary, Nowozin & Rother 2013, §5.4): the experiment on made photographs, and (slow) on those of the database."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxsum import InvalidSampleError, ParseError, experiments
from maxsum.experiments import background as own

NAMES = np.array(["sky", "grass", "cow", "building"])
COLOURS = np.array([(120, 170, 230), (80, 150, 60), (120, 80, 50), (150, 150, 150)])


def write_msrc(folder: Path, n: int = 16, shape: tuple[int, int] = (36, 40)) -> list[np.ndarray]:
    """Sky over grass, a cow or a house on it, a void rim, noisy colours; the last four are to test."""
    random = np.random.default_rng(0)
    labels, pixels = [], []
    for _ in range(n):
        y = np.ones(shape, dtype=np.uint8)
        y[: random.integers(10, 20)] = 0
        row, column = random.integers(14, 22, size=2)
        y[row : row + 10, column : column + 12] = random.integers(2, 4)
        pixels.append(np.clip(COLOURS[y] + random.normal(0, 50, (*shape, 3)), 0, 255).astype(np.uint8))
        y[:, :2] = 255
        labels.append(y)
    (folder / "msrc_v2").mkdir()
    np.savez(
        folder / "msrc_v2" / own.FILE,
        ids=np.array([f"{i}_s" for i in range(n)]),
        size=np.array([shape] * n),
        image=np.concatenate([one.ravel() for one in pixels]),
        label=np.concatenate([one.ravel() for one in labels]),
        class_names=NAMES,
        split=(np.arange(n) >= n - 4).astype(int),
    )
    return labels


@pytest.fixture
def photographs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(own, "QUICK_STEP", 1)
    monkeypatch.setattr(own, "N_QUICK", 3)
    monkeypatch.setattr(own, "TOL", 0.05)
    monkeypatch.setattr(own, "SECONDS", 600.0)  # so that gaps do not depend on the machine
    return write_msrc(tmp_path)


def test_load(photographs: list[np.ndarray]) -> None:
    train, tests = own.load()
    assert (len(train), len(tests)) == (12, 4)
    for one, labels in zip([*train, *tests], photographs, strict=True):
        assert one.x.shape == (36, 40, 3) and 0 <= one.x.min() < one.x.max() <= 1
        assert ((one.y == own.LABELS.index("sky")) == (labels == 0)).all()
        assert ((one.y == own.LABELS.index("object")) == (labels == 2)).all()
        assert ((one.y == -1) == (labels == 255)).all()
    assert own.load(2)[0][0].y.shape == (18, 20)


def test_pixels_without_labels_take_the_nearest_one() -> None:
    assert own.filled(np.array([[-1, 3, -1, -1, 5]])).tolist() == [[3, 3, 3, 5, 5]]
    one = own.Photograph("a", np.zeros((1, 4, 3)), np.array([[0, 1, -1, -1]]))
    assert own.error([np.array([[0, 0, 0, 0]])], [one]) == 50.0


def test_scores_of_training_photographs_are_honest(photographs: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    plain = own.forest

    def spy(given, n_trees):
        seen.append({one.name for one in given})
        return plain(given, n_trees)

    monkeypatch.setattr(own, "forest", spy)
    train, tests = own.prepare(True, lambda line: None)
    assert not seen[0] & {one.one.name for one in train} and seen[0] < seen[1]
    assert not seen[1] & {one.one.name for one in tests}
    for one in [*train, *tests]:
        assert np.allclose(one.scores.sum(axis=2), 1.0) and one.scores.shape == (*one.one.y.shape, 8)


def test_the_experiment(photographs: list[np.ndarray]) -> None:
    lines: list[str] = []
    report = experiments.run("background", quick=True, progress=lines.append)
    assert len(report.rows) == 6 and len(lines) == 7 and not report.failed
    assert all(len(row) == len(report.columns) for row in report.rows)
    base = float(report.claims[0].ours.split()[0])
    assert all(float(row[2]) < base for row in report.rows[:2]), (base, report.rows)
    assert all(float(row[6]) <= 0.05 for row in report.rows[:3]) and {row[6] for row in report.rows[3:]} == {"not convex"}


def test_the_picture(photographs: list[np.ndarray], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    own.picture(tmp_path / "a.png", quick=True, n_images=1)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_bad_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    write_msrc(tmp_path, n=6)
    with pytest.raises(InvalidSampleError, match="there are 2 photographs to train, wanted 12"):
        own.prepare(True, lambda line: None)
    np.savez(tmp_path / "msrc_v2" / own.FILE, ids=np.zeros(1))
    with pytest.raises(ParseError, match="size is missing"):
        own.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "msrc_v2" / own.FILE).is_file():
        pytest.skip("no msrc_v2/msrc_v2_half.npz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    assert not experiments.run("background", quick=True).failed
