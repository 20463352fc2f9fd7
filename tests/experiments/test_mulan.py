"""Multi-label data of Mulan beside scikit-learn: the experiment on made files, and on the data where they are."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from maxsum import ParseError, experiments
from maxsum.experiments import MissingDataError, mulan


def write(folder: Path, n: int = 60) -> None:
    """Three labels of which the second is mostly the opposite of the first, and the third is off but once."""
    (folder / "mulan").mkdir()
    random = np.random.default_rng(0)
    head = (
        "@relation made\n"
        + "".join(f"@attribute x{i} numeric\n" for i in range(4))
        + "".join(f"@attribute l{i} {{0,1}}\n" for i in range(3))
    )
    for part in ("train", "test"):
        X = random.normal(size=(n, 4))
        first = X[:, 0] + 0.3 * random.normal(size=n) > 0
        Y = np.stack([first, first ^ (random.random(n) < 0.9), np.arange(n) == 0], axis=1).astype(int)
        rows = "".join(",".join([*(f"{v:.4f}" for v in x), *map(str, y)]) + "\n" for x, y in zip(X, Y, strict=True))
        (folder / "mulan" / f"emotions-{part}.arff.xz").write_bytes(lzma.compress((head + "@data\n" + rows).encode()))
    labels = "".join(f'<label name="l{i}"></label>' for i in range(3))
    (folder / "mulan" / "emotions.xml").write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{labels}</labels>')


def test_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    report = experiments.run("mulan", quick=True)
    assert [row[1] for row in report.rows] == list(mulan.METHODS) and not report.failed
    assert all(float(row[3]) < 20 and float(row[4]) > 50 for row in report.rows)
    assert float(report.rows[2][7]) <= mulan.TOL and report.rows[0][7] == ""
    assert report.claims[0].verdict == "aim met"


def test_scores() -> None:
    truth, said = np.array([[1, 0], [1, 1]]), np.array([[1, 1], [0, 1]])
    assert mulan.f1(truth, said) == pytest.approx(2 * 2 / 6)
    assert mulan.varied(np.array([[1, 0, 1], [1, 0, 0]])).tolist() == [2]
    worse = mulan.Found("a", "maxsum", 1.0, 1.0, 1.0, 1.0, 1.0, 0.5)
    assert mulan.report([worse]).failed


def test_faults_of_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"emotions-train\.arff\.xz"):
        experiments.run("mulan", quick=True)
    path = tmp_path / "names.xml"
    for text, fault in (
        ("<labels>", "no XML"),
        ("<labels></labels>", "no label with a name"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><labels/>", "declares entities"),
    ):
        path.write_text(text)
        with pytest.raises(ParseError, match=fault):
            mulan.label_names(path)


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    report = experiments.run("mulan", quick=True)
    assert len(report.rows) == 3 and all(float(row[3]) < 35 for row in report.rows)
