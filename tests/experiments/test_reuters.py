"""Newswire stories: the experiment on made stories, and (slow) on the data themselves."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from maxsum import InvalidSampleError, experiments
from maxsum.experiments import MissingDataError, reuters


def write_stories(folder: Path, n: int, categories: tuple[str, ...] = reuters.CATEGORIES) -> None:
    """Stories in the order of time, with words of their category and words that all have."""
    random = np.random.default_rng(0)
    alphabet = np.array(list("abcdefghijklmnopqrst"))
    stories = []
    for i in range(n):
        category = categories[i % len(categories)]
        own = [f"{category[:2]}{letter}" for letter in random.choice(alphabet, 6)]
        words = own + [f"zz{letter}" for letter in random.choice(alphabet, 8)]
        stories.append(
            f'<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="{i}"><DATE>{1 + i // 60:02d}-FEB-1987 15:00:{i % 60:02d}</DATE>'
            f"<TOPICS><D>{category}</D></TOPICS><TEXT><BODY>{' '.join(words)}</BODY></TEXT></REUTERS>"
        )
    raw = "\n".join(stories).encode()
    (folder / "reuters21578").mkdir()
    with tarfile.open(folder / "reuters21578" / reuters.FILE, "w:xz") as archive:
        member = tarfile.TarInfo("reut2-000.sgm")
        member.size = len(raw)
        archive.addfile(member, io.BytesIO(raw))


def test_the_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_stories(tmp_path, 280)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(reuters, "N_QUICK_TRAIN", 24)
    lines: list[str] = []
    report = experiments.run("reuters", quick=True, progress=lines.append)
    assert len(lines) == reuters.N_QUICK_FOLDS
    assert [row[0] for row in report.rows] == ["SVM", "AMN", "AMN, constant", "AMN, cosine", "AMN, both"]
    assert all(float(row[5]) < 25 for row in report.rows)
    assert report.claims[-1].holds and not report.failed


def test_folds_keep_the_order_of_time_and_do_not_meet() -> None:
    for which in range(reuters.N_FOLDS):
        nodes, others = reuters.fold(2246, which, 200)
        assert len(nodes) == 200 and 1900 < len(others) < 1950
        assert not set(nodes.tolist()) & set(others.tolist())
        assert (np.diff(nodes) == 1).all()


def test_a_category_without_stories_to_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_stories(tmp_path, 140, reuters.CATEGORIES[:3])
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(InvalidSampleError, match="category 'money-fx' has no story among the 20 to train of fold 1"):
        experiments.run("reuters", quick=True)


def test_the_picture(tmp_path: Path) -> None:
    errors = {name: np.arange(8.0).reshape(2, 4) + 1 for name in ("SVM", "AMN")}
    reuters.picture(tmp_path / "r.png", reuters.Errors(errors, [], 0.0, (1, 1, 1)))
    assert (tmp_path / "r.png").read_bytes()[:4] == b"\x89PNG"


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="reuters21578"):
        reuters.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "reuters21578" / reuters.FILE).is_file():
        pytest.skip("no reuters21578/reuters21578.tar.xz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    assert len(reuters.load().y) == 2246
    assert not experiments.run("reuters", quick=True).failed
