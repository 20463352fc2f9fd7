"""Parts of speech and chunks at once: the experiment on made sentences, its parts, and (slow) on those of the shared task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from factories.folders import write_conll2000

from maxsum import experiments
from maxsum.experiments import MissingDataError, chunking, tagging


def test_the_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_conll2000(tmp_path, chunking.FILES)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(tagging, "QUICK_SECONDS", 0.5)
    lines: list[str] = []
    report = experiments.run("tagging", quick=True, progress=lines.append)
    assert len(report.rows) == 2 * len(tagging.COLUMNS) * len(tagging.QUICK_PATH)
    assert {row[2] for row in report.rows} == set(tagging.COLUMNS.values())
    assert all(float(row[4]) < 30 for row in report.rows if row[2] == "QP-M3N" and row[1] == "1e-06")
    assert {row[6] for row in report.rows if row[2] == "LRF"} == {"none"}
    assert not report.failed
    assert sum(claim.what.startswith("Table 4") for claim in report.claims) == len(tagging.COLUMNS) + 1
    assert len(lines) == 2 + 3 * len(tagging.COLUMNS)


def test_claims_can_fail() -> None:
    fit = {(own, name): [tagging.Fit(1.0, 9.0, 0.1, 1.0)] for own in ("strong", "weak, window 1") for name in tagging.COLUMNS}
    speeds = dict.fromkeys(tagging.COLUMNS, tagging.Speed(50.0, 100.0))
    failed = tagging._report({"strong": 9.1, "weak, window 1": 20.0}, fit, speeds, False).failed
    assert [claim.what.split(":")[0] for claim in failed] == ["Table 4", "Table 4"]
    assert not tagging._report({"strong": 9.1, "weak, window 1": 20.0}, fit, speeds, True).failed


def test_the_curvature_is_chosen_on_sentences_that_are_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[list[int]] = []
    tested: list[list[int]] = []

    class Net:
        def __init__(self, ridge: float):
            self.ridge = ridge

        def set_params(self, **options: object) -> Net:
            assert options["C"] == pytest.approx(1.0 / (tagging.RIDGE_C * 16))
            return self

        def fit(self, X: list[int], y: list[list[str]]) -> Net:
            learned.append(X)
            return self

        def predict(self, X: list[int]) -> list[list[str]]:
            tested.append(X)
            return [["a", "a" if self.ridge == tagging.RIDGES[1] else "b"] for _ in X]

    monkeypatch.setattr(tagging, "labeler", lambda task, surrogate, seconds, ridge: Net(ridge))
    task = tagging.Task(list(range(10)), [["a", "a"]] * 10, [], [], [])
    assert tagging.choose_ridge(task, "qp", 1.0) == tagging.RIDGES[1]
    assert learned == [[0, 1, 2, 3, 5, 6, 7, 8]] * 3 and tested == [[4, 9]] * 3


def test_a_ladder_has_a_rung_at_each_word() -> None:
    graph = tagging.ladder(3)
    assert graph.edges.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
    assert graph.edge_type.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert tagging.ladder(1).edges.tolist() == [[0, 1]] and tagging.ladder(1).edge_type.tolist() == [2]


def test_features_stay_in_the_window() -> None:
    sentence = [("The", "DT", "B-NP"), ("dog", "NN", "I-NP"), ("ran", "VBD", "B-VP")]
    alone, wide = (list(tagging.word_features(sentence, window)) for window in (0, 3))
    assert alone[1] == ["bias", "0w=dog", "0starts=d", "0starts=do", "0ends=g", "0ends=og"]
    assert "0capital" in alone[0] and "-1end" in wide[0] and "2w=ran" in wide[0] and "2starts=r" not in wide[0]
    assert not [name for name in alone[0] if "dog" in name]


def test_scores_of_training_words_are_out_of_sample() -> None:
    """A label that only one sentence has is not known to the classifier that scores this sentence."""
    random = np.random.default_rng(0)
    sentences = [[(f"w{k}", f"P{k}", f"C{k % 2}") for k in random.integers(0, 3, size=6)] for _ in range(12)]
    sentences[4] = [("odd", "P9", "C0")] * 3
    pos, chunk = tagging.local_scores(sentences, sentences, tagging.WEAK, 3)
    at = sum(map(len, sentences[:4]))
    assert pos.classes.tolist() == ["P0", "P1", "P2", "P9"] and chunk.classes.tolist() == ["C0", "C1"]
    assert (pos.train[at : at + 3, 3] == -1.0).all() and (pos.test[at : at + 3, 3] > 0).all()
    assert tagging.local_loss(pos, chunk, sentences) == 0.0


def test_the_loss_is_the_mean_over_sentences() -> None:
    assert tagging.mean_loss([["a", "b"], ["a"] * 4], [["a", "a"], ["a"] * 4]) == pytest.approx(25.0)


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"train\.txt\.gz"):
        tagging.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "conll2000" / "train.txt.gz").is_file():
        pytest.skip("no conll2000/train.txt.gz in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    report = experiments.run("tagging", quick=True)
    assert not report.failed and len(report.rows) == 16
