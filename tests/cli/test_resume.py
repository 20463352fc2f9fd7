"""A training that is killed, stopped or interrupted: nothing is lost, and what goes on ends with the same weights."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

import maxsum as ms
from cli.data import start, write_sentences
from maxsum.cli.app import app


def arguments(folder, model, *more):
    return ["fit", folder / "train.conll", "--out", folder / model, "--C", "200", "--tol", "1e-7", "--max-iter", "60", *more]


def wait_for(path, process, seconds=120.0):
    """Until a file is there."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)


def noisy_sentences(folder, n):
    write_sentences(folder / "train.conll", n, 0)
    lines = (folder / "train.conll").read_text().split("\n")
    rng = np.random.default_rng(0)
    noisy = [line.replace("I-NP", "O") if line and rng.random() < 0.3 else line for line in lines]
    (folder / "train.conll").write_text("\n".join(noisy))
    return folder


@pytest.fixture
def data(tmp_path):
    return noisy_sentences(tmp_path, 30)


@pytest.fixture
def much(tmp_path):
    """What no training finishes within a second."""
    return noisy_sentences(tmp_path, 400)


def fork(*given):
    """Run a command in a process of its own that has all kernels loaded; its exit code is that of the command."""

    def run():
        main = app(args=[str(own) for own in given], prog_name="maxsum", standalone_mode=False)
        os._exit(main or 0)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    return process


def changes(path, n, process):
    """Wait until a file was replaced n times, or the process has ended."""
    seen, last = 0, None
    while seen < n and process.is_alive():
        with contextlib.suppress(FileNotFoundError):
            now = (path.stat().st_ino, path.stat().st_mtime_ns)
            seen, last = seen + (now != last), now
        time.sleep(0.0005)


def test_a_killed_training_ends_with_the_same_weights(data, maxsum):
    whole = maxsum(*arguments(data, "whole.model"), code=5, json_=True)
    assert whole["n_iter"] == 60
    wanted = ms.load_model(data / "whole.model")
    checkpoint = data / "killed.model.checkpoint"
    own = arguments(data, "killed.model", "--resume", "--checkpoint-seconds", "0", "--json")
    kills = 0
    for n in (1, 2, 5, 9, 3):
        process = fork(*own)
        changes(checkpoint, n, process)
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        assert checkpoint.exists() and not (data / "killed.model").exists()
    assert kills == 5
    maxsum(*own, code=5)
    found = ms.load_model(data / "killed.model")
    np.testing.assert_array_equal(found.weights_, wanted.weights_)
    assert found.result_.lower_bound == wanted.result_.lower_bound and found.result_.n_iter == 60


def test_a_finished_training_removes_its_checkpoint(sentences, maxsum):
    checkpoint = sentences / "state"
    own = ["fit", sentences / "train.conll", "--out", sentences / "m", "--tol", "0.1", "--checkpoint", checkpoint]
    maxsum(*own)
    assert not checkpoint.exists()
    maxsum(*own[:5], "1e-9", "--max-iter", "3", "--checkpoint", checkpoint, code=5)
    assert checkpoint.exists()
    refused = maxsum(*own, code=2)
    assert "--resume" in refused.stderr and checkpoint.exists()
    checkpoint.write_bytes(checkpoint.read_bytes()[:-7])
    broken = maxsum(*own, "--resume", code=2)
    assert "truncated or damaged" in broken.stderr


def test_cross_validation_goes_on_where_it_was_killed(data, maxsum):
    own = ["fit", data / "train.conll", "--Cs", "0.1,1", "--set", "cv=3", "--tol", "1e-3"]
    maxsum(*own, "--out", data / "whole.model")
    options = ("--out", data / "killed.model", "--resume", "--checkpoint-seconds", "0")
    for name in ("fold0.1", "fold2.0", "fold2.1"):
        process = fork(*own, *options)
        changes(data / f"killed.model.checkpoint.{name}", 1, process)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    maxsum(*own, *options)
    first, second = (ms.load_model(data / name) for name in ("whole.model", "killed.model"))
    assert first.C_ == second.C_
    np.testing.assert_array_equal(first.scores_, second.scores_)
    np.testing.assert_array_equal(first.weights_, second.weights_)
    assert not [path.name for path in data.iterdir() if "checkpoint" in path.name]


def test_ctrl_c_saves_the_best_so_far(much):
    log = much / "log"
    process = start(*arguments(much, "m", "--max-iter", "100000", "--tol", "0", "--C", "50000", "--log", log, "--json"))
    wait_for(log, process)
    while log.read_text().count("\n") < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 5, (out, errors)
    assert '"termination": "interrupted"' in out
    net = ms.load_model(much / "m")
    assert net.result_.n_iter >= 1 and np.isfinite(net.result_.objective)


def test_a_time_limit_is_kept_and_said(much, maxsum):
    told = maxsum(
        *arguments(much, "m", "--max-iter", "1000000", "--tol", "0", "--C", "50000", "--time-limit", "0.3"), code=5, json_=True
    )
    assert told["termination"] == "time_limit" and not told["finished"] and (much / "m").exists()


def test_sigterm_is_like_ctrl_c(much, maxsum):
    maxsum(*arguments(much, "warm.model", "--max-iter", "2"), code=5)
    log = much / "log"
    process = fork(*arguments(much, "m", "--max-iter", "1000000", "--tol", "0", "--C", "50000", "--log", log, "--json"))
    while not log.exists() or log.read_text().count("\n") < 3:
        assert process.is_alive()
        time.sleep(0.001)
    process.terminate()
    process.join(120)
    assert process.exitcode == 5
    assert str(ms.load_model(much / "m").result_.termination) == "interrupted"
