"""Handwritten digits on Sudoku grids (Franc & Savchynskyy 2008, §7.3): the experiment on made digits, and (slow) on USPS."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxsum import InvalidSampleError, ParseError, experiments
from maxsum.experiments import MissingDataError
from maxsum.experiments import handwritten_sudoku as own
from maxsum.models.features import Kernel

PATTERN = np.array([[(3 * (r % 3) + r // 3 + c) % 9 + 1 for c in range(9)] for r in range(9)]).ravel()


def solved(n: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [np.concatenate([[0], random.permutation(9) + 1])[PATTERN] for _ in range(n)]


def write_digits_and_grids(folder: Path, n: int = 9, noise: float = 0.3) -> None:
    """Ten random pictures under noise, and solved grids."""
    random = np.random.default_rng(1)
    digits = np.repeat(np.arange(10), 9 * n)
    images = np.clip(random.random((10, 256))[digits] + noise * random.standard_normal((len(digits), 256)), 0, 1)
    for name in ("usps", "sudoku"):
        (folder / name).mkdir()
    half = np.arange(len(digits)) % 2 == 0
    parts = {"X_train": images[half], "y_train": digits[half], "X_test": images[~half], "y_test": digits[~half]}
    np.savez(folder / "usps" / own.FILE, **parts)
    text = ("".join(map(str, grid)) for grid in solved(n))
    (folder / "sudoku" / own.SUDOKU_FILE).write_text("".join(f"a,{line},{line},1\n" for line in text))


def test_grids_show_their_digits_and_no_image_twice() -> None:
    y = np.repeat(np.arange(1, 10), 20)
    X = np.stack([y, np.arange(len(y))], axis=1).astype(float)
    grids = own.make_grids(X, y, solved(4), 2)
    for grid in grids:
        assert (grid.images[:, 0] == grid.digits).all()
    seen = np.concatenate([grid.images[:, 1] for grid in grids])
    assert len(np.unique(seen)) == 162
    with pytest.raises(InvalidSampleError, match="27 images of each digit"):
        own.make_grids(X, y, solved(4), 3)


def test_features() -> None:
    random = np.random.default_rng(0)
    grid = own.Grid(random.random((81, 4)), PATTERN)
    scaled, wide = own.Choice(None, 0.5), own.Choice(0.2, 0.1)
    assert (0.5 * grid.images == scaled.samples([grid])[0].X).all() and str(scaled) == "scale 0.5"
    values = wide.features().fit(wide.samples([grid])).encode(wide.samples([grid]))
    plain = Kernel("rbf", gamma=0.2).fit(wide.samples([grid])).encode(wide.samples([grid]))
    np.testing.assert_allclose(values, 0.1 * plain, rtol=1e-12)
    assert str(wide) == "width 0.2, scale 0.1" and str(own.Choice(None, 1.0)) == "-"
    assert len(own.choices("Gaussian", False)) == len(own.WIDTHS) + len(own.SCALES)
    every = [own.Choice(None, 255.0), own.Choice(None, 1.0), own.Choice(None, 1.0, True), scaled]
    assert [one.row for one in every] == [
        "linear, grey values 0 to 255",
        "linear, grey values 0 to 1",
        "linear, unit length",
        None,
    ]
    assert {one.row for one in own.choices("linear", True)} == {one.row for one in every}
    np.testing.assert_allclose(np.linalg.norm(every[2].samples([grid])[0].X, axis=1), 1.0)


def test_the_kernelised_machine_sees_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of what it sees of new cells and of training cells are the kernel; it separates what a linear machine cannot."""
    monkeypatch.setattr(own, "SVM_ITERATIONS", 300)
    monkeypatch.setattr(own, "SVM_WIDTHS", (0.1,))
    random = np.random.default_rng(0)
    grids = [own.Grid(random.normal(size=(81, 3)) + 3 * np.eye(9)[PATTERN - 1][:, :3], PATTERN) for _ in range(3)]
    found = own.machine("linear", False, grids[:1], grids[1:2])
    wide = own.machine("Gaussian", False, grids[:1], grids[1:2])
    X, _ = own.cells(grids[2:])
    assert len(wide.see(X)) == 81 and wide.error(grids[:1]) < found.error(grids[:1]) < 89
    x, z = wide.see(X), wide.see(own.cells(grids[:1])[0])
    width = float(wide.parameters.split()[-1])
    basis = own.cells(grids[:1])[0]
    np.testing.assert_allclose(x @ z.T, np.exp(-width * ((X[:, None] - basis) ** 2).sum(axis=2)), atol=1e-6)


def test_the_experiment_on_made_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_digits_and_grids(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    lines: list[str] = []
    report = experiments.run("handwritten-sudoku", quick=True, progress=lines.append)
    assert len(lines) == 2 and not report.failed
    ours = {claim.what: claim.ours for claim in report.claims}
    assert ours["chosen trainings that end without error on their grids"] == "6 of 6"
    assert ours["test labellings proven optimal"] == "18 of 18"
    errors = {row[1]: float(row[7]) for row in report.rows}
    assert errors["SVM, linear"] < 20 and errors["max-sum, Gaussian"] < 20 and len(report.rows) == 3 + 6
    assert all(len(row) == len(report.columns) for row in report.rows)


def test_a_consistent_classifier_reads_its_training_grids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_digits_and_grids(tmp_path, 3)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    grids = own.make_grids(*own.load(), 2)
    trained = own.learn(own.Choice(None, 0.3), grids, grids, 20.0)
    assert trained.converged and trained.validation == 0
    assert own.read(trained, grids).optimal == 2


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"usps\.npz"):
        own.load()
    (tmp_path / "usps").mkdir()
    np.savez(tmp_path / "usps" / "usps.npz", X_train=np.zeros((1, 1)))
    with pytest.raises(ParseError, match="y_train is missing"):
        own.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "usps" / own.FILE).is_file():
        pytest.skip("no usps/usps.npz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    report = experiments.run("handwritten-sudoku", quick=True)
    errors = {row[1]: float(row[7]) for row in report.rows}
    assert errors["max-sum, Gaussian"] < errors["SVM, Gaussian"]
