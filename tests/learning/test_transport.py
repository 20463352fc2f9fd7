"""Values that go through files are what they were, can be written to, and leave nothing behind."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from maxsum.executors.base import Processes
from maxsum.executors.transport import _LARGE, fetch, received, store, work_beside
from maxsum.shards.tasks import Sum

VALUES = {
    "a number": 3,
    "an array": np.arange(7.0),
    "no entries": np.zeros((0, 3)),
    "columns first": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "every other": np.arange(20)[::2],
    "objects": np.array([None, "x", 2], dtype=object),
    "a sum": Sum(np.arange(5.0), np.ones(2), ((1, 2.0), "x")),
    "many": [np.full(i, i, dtype=kind) for i, kind in enumerate((np.int8, np.float32, np.bool_, np.int64))],
}


def same(a, b):
    return pickle.dumps(a) == pickle.dumps(b)


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back(name, tmp_path):
    path, size = store(VALUES[name], tmp_path)
    found, read = fetch(path)
    assert same(found, VALUES[name]) and read == size
    assert [own.name for own in tmp_path.iterdir()] == [path.rsplit("/", 1)[-1]]


def test_what_is_written_to_a_copy_stays_there(tmp_path):
    path, _ = store(np.zeros(10), tmp_path)
    first, _ = fetch(path)
    first += 1.0
    second, _ = fetch(path, keep=False)
    assert not second.any() and first.all()
    assert not list(tmp_path.iterdir())
    assert second.sum() == 0.0


def ones(n):
    return np.ones(n)


@pytest.mark.parametrize(("n", "by_file"), [(10, False), (_LARGE // 8 + 1, True)])
def test_large_results_go_through_a_file(n, by_file, tmp_path):
    found = work_beside(pickle.dumps((ones, n)), None, str(tmp_path))
    assert isinstance(found, str) == by_file == bool(list(tmp_path.iterdir()))
    value, size = received(found)
    assert value.sum() == n and size >= 8 * n
    assert not list(tmp_path.iterdir())


def test_without_a_place_for_files_results_are_pickled(tmp_path):
    found = work_beside(pickle.dumps((ones, _LARGE)), None, str(tmp_path / "gone"))
    assert isinstance(found, bytes) and received(found)[0].sum() == _LARGE


def test_workers_return_large_arrays_and_leave_no_file():
    with Processes(1) as executor:
        found = executor.run(np.add, [0.0, 1.0], shared=np.arange(float(_LARGE)))
        assert (found[1] - found[0] == 1.0).all() and found[0][-1] == _LARGE - 1
        assert executor.bytes_received >= 16 * _LARGE
        assert not os.listdir(executor._folder)
