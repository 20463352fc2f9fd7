"""Checkpoints: a training goes on bit for bit, and a file that is broken or strange is refused."""

from __future__ import annotations

import errno
import json
import os
import signal
import struct
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import CheckpointError
from maxsum.learning import BlockFrankWolfe, MarginObjective, checkpoint
from maxsum.learning.checkpoint import load_checkpoint, save_checkpoint
from maxsum.models import GraphModel, GraphSample

OBJECTIVES = {
    "general": dict(potentials="general"),
    "supermodular": dict(potentials="supermodular"),
    "associative": dict(potentials="associative"),
    "bracket": dict(potentials="general", oracle="bracket"),
    "many weights": dict(n_codes=100),
}
OPTIONS = {
    "averaging": dict(averaging=True),
    "gap sampling": dict(gap_sampling=True, batch=3),
    "plain": dict(corrective=False, cached_passes=0),
}


def objective_of(potentials="general", oracle=None, seed=0, C=30.0, n=12, n_codes=0):
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for i in range(n):
        graph = ms.Graph.complete(7) if oracle else ms.Graph.chain(3 + i % 4)
        y = random.integers(3, size=graph.n_nodes)
        x = random.integers(n_codes, size=len(y)) if n_codes else np.eye(3)[y] + random.normal(size=(len(y), 3))
        samples.append(GraphSample(x, graph))
        labels.append(y)
    return MarginObjective(GraphModel(potentials=potentials).bind(samples, labels, [0, 1, 2]), C=C, oracle=oracle)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("stop", [1, 11, 14])
def test_a_resumed_training_is_the_uninterrupted_one(name, stop, tmp_path):
    check_resumed(BlockFrankWolfe(tol=0.0, max_iter=25), name, stop, tmp_path)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("stop", [11, 14])
def test_so_it_is_with_every_option(options, stop, tmp_path):
    check_resumed(BlockFrankWolfe(tol=0.0, max_iter=25, **OPTIONS[options]), "general", stop, tmp_path)


def check_resumed(whole, name, stop, tmp_path):
    expected = whole.fit(objective_of(**OBJECTIVES[name]))
    learner = replace(whole, checkpoint=tmp_path / "state", checkpoint_seconds=0.0)
    first = learner.fit(objective_of(**OBJECTIVES[name]), callback=lambda point: point.iteration >= stop)
    assert first.termination == "stopped" and first.n_iter == stop
    second = learner.fit(objective_of(**OBJECTIVES[name]))
    assert second.weights.tobytes() == expected.weights.tobytes()
    assert (second.objective, second.lower_bound) == (expected.objective, expected.lower_bound)
    assert (second.n_iter, second.n_oracle_calls) == (expected.n_iter, expected.n_oracle_calls)
    assert [p.objective for p in second.trace] == [p.objective for p in expected.trace[stop - 1 :]]
    objective = objective_of(**OBJECTIVES[name])
    found = second.verify(objective)
    assert found.lower_bound == pytest.approx(second.lower_bound, rel=1e-9)


def test_a_finished_training_is_kept(tmp_path):
    learner = BlockFrankWolfe(tol=1e-2, checkpoint=tmp_path / "state")
    first = learner.fit(objective_of())
    assert (tmp_path / "state").exists()
    again = learner.fit(objective_of())
    assert again.weights.tobytes() == first.weights.tobytes() and again.termination == "converged"
    assert again.certificate.verify(objective_of(), again.weights).lower_bound == pytest.approx(first.lower_bound, rel=1e-9)
    closer = replace(learner, tol=1e-4).fit(objective_of())
    assert closer.relative_gap <= 1e-4 < first.relative_gap
    assert os.listdir(tmp_path) == ["state"]


@pytest.fixture
def saved(tmp_path):
    learner = BlockFrankWolfe(max_iter=2, tol=0.0, checkpoint=tmp_path / "state")
    learner.fit(objective_of())
    return learner


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {
        "float": np.random.default_rng(0).normal(size=(2, 3)),
        "inf": np.array([np.inf, -np.inf, -0.0, 5e-324]),
        "fortran": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        "bytes": np.arange(5, dtype=np.uint8),
        "empty": np.zeros((0, 4)),
        "scalar": np.array(3.0),
        "big": np.arange(3, dtype=">i8"),
        "bool": np.array([True, False]),
    }
    save_checkpoint(tmp_path / "a", BlockFrankWolfe(), objective_of(), arrays)
    found = load_checkpoint(tmp_path / "a", BlockFrankWolfe(), objective_of())
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(TypeError, match="holds numbers"):
        save_checkpoint(tmp_path / "a", BlockFrankWolfe(), objective_of(), {"o": np.array([object()])})


def test_truncated_files_are_refused(saved):
    content = saved.checkpoint.read_bytes()
    for size in [*range(0, 80, 7), len(content) // 2, len(content) - 1]:
        saved.checkpoint.write_bytes(content[:size])
        with pytest.raises(CheckpointError, match=r"truncated.* Remove .*state to start from nothing"):
            saved.fit(objective_of())
    saved.checkpoint.write_bytes(content + b"x")
    with pytest.raises(CheckpointError, match="truncated or damaged"):
        saved.fit(objective_of())


def test_flipped_bits_are_refused(saved):
    content = saved.checkpoint.read_bytes()
    objective = objective_of()
    places = [*range(400), *np.random.default_rng(0).integers(len(content), size=200)]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        saved.checkpoint.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            load_checkpoint(saved.checkpoint, saved, objective)


def test_other_versions_learners_and_data_are_refused(saved, monkeypatch):
    for C, seed, words in ((31.0, 0, "another training set, loss or C"), (30.0, 1, "another training set, loss or C")):
        with pytest.raises(CheckpointError, match=words):
            saved.fit(objective_of(C=C, seed=seed))
    with pytest.raises(CheckpointError, match=r"another learner's parameters: found .*'0'.* wanted .*'1'"):
        replace(saved, random_state=1).fit(objective_of())
    with pytest.raises(CheckpointError, match="another objective"):
        saved.fit(objective_of(oracle="bracket"))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FILE", replace(checkpoint.FILE, version=3, oldest=3))
        with pytest.raises(CheckpointError, match="format version 2, wanted 3"):
            saved.fit(objective_of())
    replace(saved, max_iter=3, tol=1e-2, time_limit=100.0).fit(objective_of())


@pytest.mark.parametrize(
    "header",
    [
        b"{}",
        b"[]",
        b"nonsense",
        b'{"arrays": [["a", "|O", [1]]]}',
        b'{"arrays": [["a", "<f8", [1000000000000]]]}',
        b'{"arrays": [["a", "<f8", [-1]]]}',
    ],
)
def test_hostile_headers_are_refused(saved, header):
    body = struct.pack("<Q", len(header)) + header
    saved.checkpoint.write_bytes(checkpoint.FILE.seal(body))
    with pytest.raises(CheckpointError, match="broken header"):
        saved.fit(objective_of())


def test_a_full_disk_is_a_warning(tmp_path, monkeypatch, caplog):
    learner = BlockFrankWolfe(tol=0.0, max_iter=4, checkpoint=tmp_path / "state", checkpoint_seconds=0.0)
    learner.fit(objective_of(), callback=lambda point: point.iteration == 2)
    before = (tmp_path / "state").read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = learner.fit(objective_of())
    assert result.n_iter == 4 and "No space left" in result.extra["checkpoint_error"]
    assert "was not written" in caplog.text
    assert (tmp_path / "state").read_bytes() == before and os.listdir(tmp_path) == ["state"]


def test_a_folder_that_is_not_there_is_a_warning(tmp_path, caplog):
    result = BlockFrankWolfe(max_iter=2, tol=0.0, checkpoint=tmp_path / "no" / "state").fit(objective_of())
    assert "checkpoint_error" in result.extra and "training goes on" in caplog.text
    with pytest.raises(CheckpointError, match="cannot be read"):
        BlockFrankWolfe(checkpoint=tmp_path).fit(objective_of())


RUN = """
import sys
sys.path[:0] = sys.argv[2:]
from learning.test_checkpoint import objective_of
from maxsum.learning import BlockFrankWolfe
learner = BlockFrankWolfe(tol=0.0, max_iter=10**6, checkpoint=sys.argv[1], checkpoint_seconds=0.0)
learner.fit(objective_of(), callback=lambda point: print(point.iteration, flush=True))
"""


def n_iter_of(state):
    """Iterations of the training that a checkpoint is of."""
    layout = load_checkpoint(state, BlockFrankWolfe(), objective_of())["layout"]
    return json.loads(bytes(layout))["fields"]["training"]["fields"]["n_iter"]["value"]


def killed(tmp_path, times, seed):
    """Kill trainings that write all the time; each goes on from the file that the one before left."""
    random = np.random.default_rng(seed)
    state, last = tmp_path / "state", 0
    tests = os.path.dirname(os.path.dirname(__file__))
    for _ in range(times):
        run = subprocess.Popen([sys.executable, "-c", RUN, str(state), tests], stdout=subprocess.PIPE, text=True)
        try:
            first = run.stdout.readline()
            assert first, "the training did not start"
            assert int(first) >= last
            time.sleep(random.uniform(0.0, 0.05))
        finally:
            run.send_signal(signal.SIGKILL)
            rest, _ = run.communicate()
        whole = [line for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]
        last = int(whole[-1]) - 1
        assert (n_iter_of(state) if state.exists() else 0) >= last
    return state


def check_killed(tmp_path, times):
    state = killed(tmp_path, times, seed=times)
    n_iter = n_iter_of(state)
    learner = BlockFrankWolfe(tol=0.0, max_iter=n_iter + 3)
    resumed = replace(learner, checkpoint=state).fit(objective_of())
    assert resumed.weights.tobytes() == learner.fit(objective_of()).weights.tobytes()


@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_fault_45_killed_trainings_leave_a_good_file(tmp_path):
    check_killed(tmp_path, 3)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_fault_45_two_hundred_killed_trainings_leave_a_good_file(tmp_path):
    check_killed(tmp_path, 200)
