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
    monkeypatch.setattr(reuters, "FORMS", ("log",))
    lines: list[str] = []
    report = experiments.run("reuters", quick=True, progress=lines.append)
    assert len(lines) == reuters.N_QUICK_FOLDS
    assert [row[0] for row in report.rows] == [
        "SVM",
        "AMN",
        *(f"SVM, {form}" for form in reuters.FORMS),
        *(f"AMN, {form}, {edges}" for form in reuters.FORMS for edges in reuters.EDGES),
    ]
    assert all(float(row[5]) < 25 for row in report.rows)
    assert report.claims[-1].holds and not report.failed


def test_words_edges_and_C_are_chosen_by_training_stories_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_stories(tmp_path, 140)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(reuters, "FORMS", ("log",))
    monkeypatch.setattr(reuters, "N_BLOCKS", 2)
    news = reuters.load()
    assert all(np.allclose(np.sqrt(own.multiply(own).sum(axis=1)), 1.0) for own in news.words.values())
    nodes = np.arange(16)
    found = reuters.choose(news, nodes, True)
    others = news._replace(y=np.where(np.arange(140) < 16, news.y, 3 - news.y))  # other labels of the test
    assert reuters.choose(others, nodes, True) == found
    assert set(found.by_edges) == {(form, edges) for form in reuters.FORMS for edges in reuters.EDGES}
    total, C = reuters.validate(news, nodes, "log", "cosine", (4.0, 16.0))
    by_hand = {}
    for value in (4.0, 16.0):
        by_hand[value] = 0.0
        for rest, block, c in reuters.blocks_of(news, nodes):
            net = reuters.train(reuters.network(news, rest, "log", "cosine"), news.y[rest] == c, value)
            wrong = net.predict([reuters.network(news, block, "log", "cosine")])[0] != (news.y[block] == c)
            by_hand[value] += 100 * wrong.mean()
    assert total == pytest.approx(min(by_hand.values())) == pytest.approx(by_hand[C])


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
