"""What comes after a training: the model is saved first, then its proof is checked, in time, and so that Ctrl-C loses nothing."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

import maxsum as ms
from cli.data import start, write_names, write_sentences
from maxsum.cli import fitting
from maxsum.core.errors import CertificateError, CheckTimeout
from maxsum.learning.result import LearningResult

ANY = ["--C", "5", "--tol", "0.1"]


@pytest.fixture
def train(tmp_path):
    write_sentences(tmp_path / "train.conll", 20, 0)
    return ["fit", tmp_path / "train.conll", "--out", tmp_path / "m", *ANY]


@pytest.fixture
def shards(tmp_path):
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 3, 5) for _ in range(12)]
    data = [(np.eye(3)[y] + 0.4 * rng.normal(size=(5, 3)), y) for y in codes]
    ms.datasets.write_shards(data, tmp_path / "shards", samples=4)
    return ["fit", "--shards", tmp_path / "shards", "--out", tmp_path / "m", *ANY]


def stub(monkeypatch, model, raised):
    """Checks that end with an error; whether the model was there before."""
    seen = []

    def verify(self, objective, exact=False, progress=None, time_limit=None):
        seen.append((model.exists(), time_limit))
        progress(1, 2)
        raise raised

    monkeypatch.setattr(LearningResult, "verify", verify)
    return seen


@pytest.mark.parametrize("command", ["train", "shards"])
@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (KeyboardInterrupt(), 6, "not checked (interrupted)"),
        (CheckTimeout("late"), 6, "not checked (time limit"),
        (CertificateError("the claimed objective is wrong."), 1, "do not trust"),
    ],
)
def test_the_model_is_saved_before_the_check(command, raised, code, words, request, tmp_path, maxsum, monkeypatch):
    given = [*request.getfixturevalue(command), "--time-limit", 60]
    seen = stub(monkeypatch, tmp_path / "m", raised)
    told = maxsum(*given, code=code)
    assert words in " ".join((told.stdout + told.stderr).split()) and "checked:" not in told.stdout
    [(saved, limit)] = seen
    assert saved and 2.0 <= limit <= 60.0
    assert len(ms.load_model(tmp_path / "m").weights_) > 0


@pytest.mark.parametrize("command", ["train", "shards"])
def test_no_check_skips_it(command, request, tmp_path, maxsum, monkeypatch):
    seen = stub(monkeypatch, tmp_path / "m", AssertionError("called"))
    told = maxsum(*request.getfixturevalue(command), "--no-check", json_=True)
    assert not seen and told["verified"] is None and told["not_checked"] == "--no-check" and told["finished"]
    assert "not checked (--no-check)" in maxsum(*request.getfixturevalue(command), "--no-check").stdout


def test_the_check_has_a_line_of_its_own(train, tmp_path, maxsum):
    told = maxsum(*train, "--progress")
    assert "checking the proof" in told.stderr and "checked:" in told.stdout


def test_the_time_of_a_check():
    assert fitting.check_seconds(None, 7.0) is None
    assert fitting.check_seconds(100.0, 30.0) == 70.0
    assert fitting.check_seconds(100.0, 101.0) == 25.0
    assert fitting.check_seconds(1.0, 1.0) == 2.0


def test_demo_draws_before_it_checks(tmp_path, maxsum, monkeypatch):
    own = ["demo", "--size", 8, "--labels", 2, "--out", tmp_path / "p.png", "--time-limit", 30]
    seen = stub(monkeypatch, tmp_path / "p.png", KeyboardInterrupt())
    told = maxsum(*own, code=6, json_=True)
    assert seen[0][0] and told["learning"]["verified"] is None and told["learning"]["not_checked"] == "interrupted"
    told = maxsum(*own, "--no-check")
    assert len(seen) == 1 and "not checked (--no-check)" in told.stdout


def test_checkpoint_seconds_without_a_checkpoint_are_refused(train, shards, maxsum):
    for given in (train, shards):
        assert "--checkpoint-seconds" in maxsum(*given, "--checkpoint-seconds", 1, code=2).stderr


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """A corpus of the size of WNUT 2017: 3394 sentences, 727 272 weights."""
    path = tmp_path_factory.mktemp("names") / "train.conll"
    write_names(path)
    return path


def test_a_large_file_is_learned_in_time_saved_and_checked(names, tmp_path, maxsum):
    out, began = tmp_path / "m", time.monotonic()
    told = maxsum("fit", names, "--out", out, "--time-limit", 5, "--proof", code=5, json_=True)
    took = time.monotonic() - began
    assert told["n_samples"] == 3394 and told["n_weights"] > 700_000 and told["termination"] == "time_limit"
    assert told["verified"]["lower_bound"] > 0 and told["not_checked"] is None
    assert told["seconds"] < 10 and took < 60
    assert len(ms.load_model(out).weights_) == told["n_weights"]


def test_ctrl_c_in_the_check_leaves_the_model(train, tmp_path):
    """The check of a process is slowed down, so that the signal meets it."""
    slow = (
        "import sys, time; from maxsum.learning.result import LearningResult as R; v = R.verify\n"
        "def verify(self, *a, progress=None, **k):\n"
        "    print('checking', file=sys.stderr, flush=True); time.sleep(60)\n"
        "R.verify = verify; from maxsum.cli.app import app; app()\n"
    )
    out = tmp_path / "m"
    process = start(*train, "--json", code=slow)
    while "checking" not in process.stderr.readline():
        assert process.poll() is None
    assert out.exists()
    process.send_signal(signal.SIGINT)
    told, words = process.communicate(timeout=30)
    assert process.returncode in (5, 6) and "not checked (interrupted)" in words and '"not_checked": "interrupted"' in told
    assert ms.load_model(out).weights_.any()
