"""``maxsum fit --shards`` and ``predict`` on shards: the same model as in Python, on one process and on two."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import maxsum as ms
from maxsum.cli.app import app


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(own) for own in arguments])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, list[tuple[np.ndarray, np.ndarray]]]:
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 3, 6) for _ in range(30)]
    data = [(np.eye(3)[y] + 0.4 * rng.normal(size=(6, 3)), np.array(["a", "b", "c"])[y]) for y in codes]
    ms.datasets.write_shards(data, tmp_path / "shards", samples=10)
    return tmp_path, data


def test_fit_and_predict(made):
    folder, data = made
    shards, model = folder / "shards", folder / "net.maxsum"
    told = json.loads(run("fit", "--shards", shards, "--out", model, "--C", 10, "--tol", 0.01, "--json"))
    assert told["n_samples"] == 30 and told["finished"] and told["verified"]["lower_bound"] <= told["objective"]
    net = ms.SequenceLabeler(C=10.0, tol=0.01).fit(ms.datasets.ShardedDataset(shards))
    assert told["objective"] == net.result_.objective
    np.testing.assert_array_equal(ms.load_model(model).weights_, net.weights_)
    words = run("predict", model, shards, "--out", folder / "labels")
    assert "30 samples in 3 shards" in " ".join(words.split())
    labels = ms.datasets.ShardedDataset(folder / "labels")
    found = [own for k in range(labels.n_shards) for own in labels.shard(k).labels()]
    for own, want in zip(found, net.predict([x for x, _ in data]), strict=True):
        assert list(own) == list(want)
    assert "rounds" in run("fit", "--shards", shards, "--out", model, "--tol", 0.1)


@pytest.mark.slow
def test_two_workers_give_the_same_bits(made):
    folder, _ = made
    for name, extra in (("one", ()), ("two", ("--workers", 2))):
        run("fit", "--shards", folder / "shards", "--out", folder / name, "--C", 10, "--tol", 0.01, *extra)
    one, two = (ms.load_model(folder / name).weights_ for name in ("one", "two"))
    assert one.tobytes() == two.tobytes()


def test_what_does_not_fit_is_refused(made):
    folder, _ = made
    fit = ("fit", "--shards", folder / "shards", "--out", folder / "m")
    assert "--task is image" in run(*fit, "--task", "image", code=2)
    assert "--cv is given" in run(*fit, "--cv", code=2)
    assert "setting of readers" in run(*fit, "--set", "window=2", code=2)
    assert "wanted one of them" in run(*fit, "--scheduler", "tcp://127.0.0.1:1", "--workers", 1, code=2)
    assert "manifest" in run("fit", "--shards", folder, "--out", folder / "m", code=2)
    assert "for --shards" in run("fit", folder / "shards", "--out", folder / "m", "--workers", 1, "--task", "sequence", code=2)
    (folder / "state").mkdir()
    (folder / "state" / "x").touch()
    assert "--resume" in run(*fit, "--checkpoint", folder / "state", code=2)
    assert not (folder / "m").exists()
