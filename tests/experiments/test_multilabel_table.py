"""Four surrogates on label graphs: the experiment on made data of its shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from factories.folders import write_label_table

from maxsum import ParseError, experiments
from maxsum.experiments import MissingDataError, multilabel


def write_tables(folder: Path) -> None:
    write_label_table(folder, "scene", 60, 4, 8)
    write_label_table(folder, "yeast", 60, 5, 8)


def test_the_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(multilabel, "QUICK_SECONDS", 0.2)
    monkeypatch.setattr(multilabel, "QUICK_VALUES", (8.0,))
    lines: list[str] = []
    report = experiments.run("multilabel", quick=True, progress=lines.append)
    assert len(lines) == len(report.rows) == 8
    assert {row[:2] for row in report.rows} == set(multilabel.PUBLISHED)
    assert all(float(row[3]) < 35 for row in report.rows)
    assert not report.failed
    assert [row[4] for row in report.rows if row[1] == "logistic"] == ["not convex"] * 2


def test_a_claim_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(multilabel, "C_VALUES", {"qp": (8.0,)})
    monkeypatch.setattr(multilabel, "MAX_HAMMING", {"scene": -1.0, "yeast": 100.0})
    report = experiments.run("multilabel")
    assert [claim.what for claim in report.failed] == ["scene: Hamming error of qp"]


def test_full_means_more_folds_and_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(multilabel, "C_VALUES", {"exact": (8.0,)})
    monkeypatch.setattr(multilabel, "FULL_VALUES", (0.5,))
    monkeypatch.setattr(multilabel, "N_FULL_FOLDS", 3)
    chosen = {full: experiments.run("multilabel", full=full).rows[0][2] for full in (False, True)}
    assert chosen == {False: "8", True: "0.5"}


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"yeast\.npz"):
        multilabel.load("yeast")
    (tmp_path / "yeast").mkdir()
    np.savez(tmp_path / "yeast" / "yeast.npz", X_train=np.zeros((1, 1)))
    with pytest.raises(ParseError, match="y_train is missing"):
        multilabel.load("yeast")
