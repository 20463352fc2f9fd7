"""Chunks of sentences: the experiment on made sentences, and (slow) on those of the shared task."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from maxsum import experiments
from maxsum.experiments import MissingDataError, chunking


def made(folder: Path, n: int = 40) -> None:
    """Noun phrases of a determiner and a noun, verbs between them, now and then a word with the wrong part of speech."""
    random = np.random.default_rng(0)
    parts = {"D": ("the", "a"), "N": ("dog", "cat", "bird"), "V": ("sees", "hears")}
    tags = {"D": "B-NP", "N": "I-NP", "V": "B-VP"}
    (folder / "conll2000").mkdir()
    for name in chunking.FILES:
        lines = []
        for _ in range(n):
            for kind in "DNVDN"[: random.integers(2, 6)]:
                shown = kind if random.random() < 0.9 else random.choice(list("DNV"))
                lines.append(f"{random.choice(parts[kind])} {shown} {tags[kind]}")
            lines.append("")
        with gzip.open(folder / "conll2000" / name, "wt") as file:
            file.write("\n".join(lines))


def test_the_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    lines: list[str] = []
    report = experiments.run("chunking", quick=True, progress=lines.append)
    ours, frequent = report.rows[:2]
    assert ours[0] == "chain" and float(ours[2]) > 95 and not report.failed
    assert int(frequent[1].split()[0]) < int(ours[1].split()[0])
    assert {claim.what: claim for claim in report.claims}["gap, certified"].holds
    assert len(lines) == 1 + len(report.rows)


def test_without_the_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, 12)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(chunking, "train_peer", lambda *_: None)
    report = experiments.run("chunking", quick=True)
    assert len(report.rows) == 2 and "not installed" in report.notes[-1]


def test_the_peer_learns_from_the_same_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    made(tmp_path)
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
