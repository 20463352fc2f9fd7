"""Letters of words: the experiment on made words, and (slow) on the data themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from maxsum import ParseError, experiments
from maxsum.experiments import MissingDataError, letters


def write_letters(folder: Path, n: int = 120) -> None:
    """Words of four letters out of a list of six, with noisy pixels, in ten folds."""
    random = np.random.default_rng(0)
    words = random.integers(0, 26, size=(6, 4))
    picture = random.random((26, 128)) < 0.3
    labels = words[random.integers(6, size=n)].ravel()
    pixels = picture[labels] ^ (random.random((len(labels), 128)) < 0.2)
    (folder / "letters").mkdir()
    np.savez(
        folder / "letters" / "letters.npz",
        pixels_packed=np.packbits(pixels, axis=1),
        labels=labels,
        lengths=np.full(n, 4),
        folds=np.arange(n) % 10,
    )


def test_the_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_letters(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    lines: list[str] = []
    report = experiments.run("letters", quick=True, progress=lines.append)
    assert len(report.rows) == 5 and len(lines) in (4, 5) and not report.failed
    by_name = {claim.what: claim for claim in report.claims}
    assert by_name["gap of that training, certified"].holds
    assert float(by_name["accuracy, fold 1 -> rest, C by cross-validation"].ours) > 0.5
    assert by_name["accuracy, fold 1 -> rest, C by cross-validation"].holds is None
    assert float(by_name["accuracy by likelihood to three digits, fold 1 -> rest, C by cross-validation"].ours) > 0.5
    assert by_name["gap of likelihood with the C of CRFsuite, certified"].holds


def test_crfsuite_is_left_out_where_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_letters(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pycrfsuite", None)
    words = letters.load()
    found = letters.field(*words.of(words.folds == 1), words.of(words.folds == 2), True, lambda line: None)
    assert found.peer is None and found.accuracy > 0.5 and found.same.result_.relative_gap <= letters.TOL


def test_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_letters(tmp_path, 30)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    words = letters.load()
    assert len(words.X) == 30 and words.X[0].shape == (4, 128) and set(np.unique(words.X[0])) == {0.0, 1.0}
    assert len(words.of(words.folds == 1)[0]) == 3 and len(words.of(words.folds != 1, 9)[0]) == 9


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"letters\.npz"):
        letters.load()
    (tmp_path / "letters").mkdir()
    one = dict(pixels_packed=np.zeros((1, 16), np.uint8), labels=[0], lengths=[2], folds=[0])
    np.savez(tmp_path / "letters" / "letters.npz", **one)
    with pytest.raises(ParseError, match="1 letters, but words of 2"):
        letters.load()
    np.savez(tmp_path / "letters" / "letters.npz", labels=[0])
    with pytest.raises(ParseError, match="pixels_packed is missing"):
        letters.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "letters" / "letters.npz").is_file():
        pytest.skip("no letters/letters.npz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    report = experiments.run("letters", quick=True)
    assert not report.failed and float(report.rows[0][2]) > 50
