"""Segmentation (Franc & Savchynskyy 2008, §7.1): the experiment on made images, and (slow) on photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxsum import InvalidParameterError, InvalidSampleError, ParseError, experiments
from maxsum.experiments import MissingDataError
from maxsum.experiments.images import segmentation as own

NAMES = np.array(["building", "grass", "cow", "water"])
COLOURS = {
    "cow": (120, 70, 40),
    "grass": (60, 160, 50),
    "water": (60, 90, 190),
    "void": (200, 200, 200),
    "building": (90, 90, 90),
}


def write_cows(folder: Path, n: int = 11, height: int = 48, width: int = 64) -> list[np.ndarray]:
    """Photographs of a meadow, a lake, something void and a cow, of noisy colours; the last two have a house, or no cow."""
    random = np.random.default_rng(0)
    numbers = {name: NAMES.tolist().index(name) for name in NAMES} | {"void": 255}
    labels, pixels = [], []
    for i in range(n + 2):
        place = np.full((height, width), "grass", dtype="<U8")
        place[: random.integers(8, 16)] = "water"
        place[:, -random.integers(6, 12) :] = "void"
        row, column = random.integers(16, 26), random.integers(4, 30)
        place[row : row + 16, column : column + 20] = ("cow", "building", "grass")[max(0, i - n + 1)]
        colour = np.array([[COLOURS[str(name)] for name in line] for line in place])
        pixels.append(np.clip(colour + random.normal(0, 60, colour.shape), 0, 255).astype(np.uint8))
        labels.append(np.vectorize(numbers.get)(place).astype(np.uint8))
    (folder / "msrc_v2").mkdir()
    np.savez(
        folder / "msrc_v2" / own.FILE,
        ids=np.array([f"{i}_s" for i in range(n + 2)]),
        size=np.array([(height, width)] * (n + 2)),
        image=np.concatenate([one.ravel() for one in pixels]),
        label=np.concatenate([one.ravel() for one in labels]),
        class_names=NAMES,
    )
    return labels


@pytest.fixture
def photographs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    return write_cows(tmp_path)


def test_load(photographs: list[np.ndarray]) -> None:
    images = own.load()
    assert [one.name for one in images] == [f"{i}_s" for i in range(11)]
    for one, labels in zip(images, photographs, strict=False):
        assert one.x.shape == (48, 64, 3) and 0 <= one.x.min() < one.x.max() <= 1
        assert ((one.y == 0) == (labels == 2)).all() and ((one.y == 3) == (labels == 255)).all()


def test_split(photographs: list[np.ndarray]) -> None:
    images = own.load()
    parts = own.split_images(images, 0, True)
    assert [len(part) for part in parts] == [4, 2, 3] and parts[0][0].x.shape == (12, 16, 3)
    names = [one.name for part in parts for one in part]
    assert len(set(names)) == 9 and names != [one.name for part in own.split_images(images, 1, True) for one in part]
    with pytest.raises(InvalidSampleError, match="there are 11 images, wanted 20"):
        own.split_images(images, 0, False)
    with pytest.raises(InvalidParameterError, match="kind is 'crf'"):
        own.classifier("crf")


def test_the_experiment(photographs: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "QUICK_C", (1.0,))
    lines: list[str] = []
    report = experiments.run("segmentation", quick=True, progress=lines.append)
    assert len(lines) == len(report.rows) == 3 and not report.failed
    assert set(report.plots[0].curves) == set(own.NAMES.values())
    errors = {row[1]: float(row[6]) for row in report.rows if row[6]}
    assert errors["general"] < errors["multi-class SVM"] and errors["supermodular"] < errors["multi-class SVM"]
    assert all(float(row[3]) <= own.TOL and len(row) == len(report.columns) for row in report.rows)
    assert sum(claim.holds is True for claim in report.claims) == 2


def test_error() -> None:
    images = [
        own.Image("a", np.zeros((1, 4, 3)), np.array([[0, 1, 2, 3]])),
        own.Image("b", np.zeros((1, 1, 3)), np.array([[0]])),
    ]
    assert own.error([np.array([0, 1, 2, 0]), np.array([[0]])], images) == 12.5


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    images = [own.Image(str(i), np.eye(3)[y], y) for i, y in enumerate(np.random.default_rng(0).integers(3, size=(4, 4, 5)))]
    rows = own.panels(images[:3], images[3:], 3, False)
    assert [title for title, _ in rows[0]] == [
        "image",
        "truth",
        "multi-class SVM: 0.0 %",
        "general: 0.0 %",
        "supermodular: 0.0 %",
    ]
    assert rows[0][0][1] is rows[0][1][1] is None and rows[0][2][1].shape == (4, 5, 3)
    own.draw(tmp_path / "a.png", rows, "a legend")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert own.panels(images[:3], images[3:], 3, True)[0][0][1] is images[3].x


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"msrc_v2_half\.npz"):
        own.load()
    (tmp_path / "msrc_v2").mkdir()
    path = tmp_path / "msrc_v2" / own.FILE
    np.savez(path, ids=np.zeros(1))
    with pytest.raises(ParseError, match="size is missing"):
        own.load()
    np.savez(path, ids=np.array(["a"]), size=np.array([[2, 2]]), image=np.zeros(3), label=np.zeros(4), class_names=NAMES)
    with pytest.raises(ParseError, match="3 colours and 4 labels, but sizes of 4 pixels"):
        own.load()
    np.savez(path, ids=np.array(["a"]), size=np.array([[1, 1]]), image=np.zeros(3), label=np.zeros(1), class_names=NAMES[:2])
    with pytest.raises(ParseError, match="class_names lacks cow"):
        own.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "msrc_v2" / own.FILE).is_file():
        pytest.skip("no msrc_v2/msrc_v2_half.npz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    report = experiments.run("segmentation", quick=True)
    assert not report.failed
    errors = {row[1]: float(row[6]) for row in report.rows if row[6]}
    assert max(errors["general"], errors["supermodular"]) < errors["multi-class SVM"]
