"""Chunks of sentences: the experiment on made sentences, and (slow) on those of the shared task."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories.folders import write_conll2000

from maxsum import experiments
from maxsum.experiments import MissingDataError, chunking


def test_the_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_conll2000(tmp_path, chunking.FILES)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    lines: list[str] = []
    report = experiments.run("chunking", quick=True, progress=lines.append)
    ours, frequent = report.rows[:2]
    assert ours[0] == "chain" and float(ours[2]) > 95 and not report.failed
    assert int(frequent[1].split()[0]) < int(ours[1].split()[0])
    assert {claim.what: claim for claim in report.claims}["gap, certified"].holds
    assert len(lines) == 1 + len(report.rows)


def test_without_the_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_conll2000(tmp_path, chunking.FILES, 12)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(chunking, "train_peer", lambda *_: None)
    report = experiments.run("chunking", quick=True)
    assert len(report.rows) == 2 and "not installed" in report.notes[-1]


def test_the_peer_learns_from_the_same_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    write_conll2000(tmp_path, chunking.FILES)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    data, test = chunking.load()
    peer = chunking.train_peer(data, test, "lbfgs", {"c2": 1.0})
    assert peer is not None and peer.f1 > 95


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"train\.txt\.gz"):
        chunking.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "conll2000" / "train.txt.gz").is_file():
        pytest.skip("no conll2000/train.txt.gz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    report = experiments.run("chunking", quick=True)
    assert not report.failed and float(report.rows[0][2]) > 84
