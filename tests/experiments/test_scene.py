"""Labels of scenes: the experiment on made data of its shape, and (slow) on the data themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from factories.folders import write_label_table

from maxsum import ParseError, experiments
from maxsum.experiments import MissingDataError, scene


def test_the_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_label_table(tmp_path, "scene", 120, 6, 12, seldom=0.8)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    lines: list[str] = []
    report = experiments.run("scene", quick=True, progress=lines.append)
    assert len(report.rows) == 4 and len(lines) == 4
    assert {row[0] for row in report.rows} >= {"complete", "tree", "none"}
    by_name = {claim.what: claim for claim in report.claims}
    assert by_name["that gap verified from planes and fresh solves"].holds
    error = float(report.rows[0][2])
    assert 0 < error < 25
    assert by_name["Hamming error, complete graph, C by cross-validation"].holds == (error <= scene.MAX_HAMMING)


def test_hamming() -> None:
    assert scene.hamming(np.array([[0, 1], [1, 1]]), np.array([[0, 0], [1, 1]])) == 25.0


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"scene\.npz"):
        scene.load()
    (tmp_path / "scene").mkdir()
    np.savez(tmp_path / "scene" / "scene.npz", X_train=np.zeros((1, 1)))
    with pytest.raises(ParseError, match="y_train is missing"):
        scene.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "scene" / "scene.npz").is_file():
        pytest.skip("no scene/scene.npz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    report = experiments.run("scene", quick=True)
    assert not report.failed
