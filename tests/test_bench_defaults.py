"""The benchmark of the defaults: errors, the trivial answer and verdicts, on rows made by hand."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
defaults = importlib.import_module("benchmarks.bench_defaults")
Part, Row = defaults.Part, defaults.Row


def row(error, chosen_error, trivial=50.0, n_classes=(3, 3)):
    return Row("made", "2 samples", 3, 1.0, [0.1], error, chosen_error, trivial, n_classes, 1e-3, np.zeros(6), 1.0)


def test_errors_count_nodes_and_labels():
    lists = Part([None, None], [np.array([[0, 1], [1, 1]]), np.array([[2, 2]])])
    assert defaults.error([np.array([[0, 1], [1, 0]]), np.array([[2, 0]])], lists) == pytest.approx(100 * 2 / 6)
    table = Part(None, np.array([[0, 1], [1, 1]]))
    assert defaults.error(np.array([[0, 1], [0, 1]]), table) == 25.0


def test_the_trivial_answer_is_that_of_the_training_part():
    train, test = Part([None], [np.array(["a", "b", "b"])]), Part([None], [np.array(["a", "a"])])
    assert defaults.trivial(train, test).tolist() == ["b", "b"]
    sets = defaults.trivial(Part(None, np.array([[1, 0], [1, 0], [0, 1]])), Part(None, np.zeros((2, 2), int)))
    assert sets.tolist() == [[True, False]] * 2


def test_one_held_out_part_is_a_third_that_is_not_trained_on():
    task = defaults.Task("made", "", object, [], 1)
    ((train, held),) = task.folds(Part(None, np.zeros(9)))
    assert len(held) == 3 and sorted([*train, *held]) == list(range(9))
    assert defaults.Task("made", "", object, [], 3).folds(Part(None, np.zeros(9))) == 3


def test_verdicts_follow_the_targets():
    found = [row(11.5, 10.0)] * 8 + [row(11.6, 10.0)] * 2
    assert [own["verdict"] for own in defaults._targets(found)] == ["met", "met"]
    assert [defaults._shown(own)["verdict"] for own in found[-3:]] == ["met", "missed", "missed"]
    assert [own["verdict"] for own in defaults._targets([*found[1:], row(11.6, 10.0)])] == ["missed", "met"]
    for bare in (row(50.0, 50.0), row(20.0, 20.0, n_classes=(1, 3))):
        assert defaults._targets([*found, bare])[1]["verdict"] == "missed" and defaults._shown(bare)["verdict"] == "missed"
    assert defaults._shown(row(0.0, 0.0))["ratio"] is None and defaults._shown(row(0.0, 0.0))["verdict"] == "met"
