"""Pipes, what stays of true labels, patterns of masks, what a model shows."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from maxsum.cli.app import app
from maxsum.datasets import read_table


def test_predict_from_standard_input_to_standard_output(sentences, maxsum):
    model = sentences / "tag.model"
    maxsum("fit", sentences / "train.conll", "--out", model, "--tol", "0.1")
    maxsum("predict", model, sentences / "new.conll", "--out", sentences / "out.conll")
    piped = CliRunner().invoke(
        app, ["predict", str(model), "-", "--out", "-"], input=(sentences / "new.conll").read_bytes(), catch_exceptions=False
    )
    assert piped.exit_code == 0 and piped.stdout_bytes == (sentences / "out.conll").read_bytes()
    scored = CliRunner().invoke(app, ["evaluate", str(model), "-"], input=(sentences / "test.conll").read_bytes())
    assert scored.exit_code == 0 and "labels right" in scored.stdout and "always the commonest" in scored.stdout
    refused = maxsum("predict", model, "-", "--out", "-", "--json", code=2)
    assert "name a file" in refused.stderr


def test_a_reader_that_stops_early_is_no_error(sentences, maxsum):
    model = sentences / "tag.model"
    maxsum("fit", sentences / "train.conll", "--out", model, "--tol", "0.1")
    with (sentences / "long.conll").open("w") as file:
        file.write((sentences / "new.conll").read_text().rstrip("\n") + "\n\n")
        file.write(((sentences / "new.conll").read_text().rstrip("\n") + "\n\n") * 3000)
    command = [sys.executable, "-m", "maxsum.cli", "predict", str(model), str(sentences / "long.conll"), "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stdout.readline()
        run.stdout.close()
        assert run.stderr is not None and run.stderr.read() == b""
        assert run.wait() == 0


def test_true_labels_of_a_table_stay(table, maxsum):
    model, out = table / "m.model", table / "out.csv"
    maxsum("fit", table / "train.csv", "--labels", "3", "--set", "id=name", "--out", model)
    maxsum("predict", model, table / "test.csv", "--out", out)
    given, found = read_table(table / "test.csv"), read_table(out)
    assert all(found.texts(name) == given.texts(name) for name in given.names)
    assert found.names[len(given.names) :] == ["predicted_beach", "predicted_sunset", "predicted_field"]


def test_masks_by_a_pattern(tmp_path, maxsum):
    rng = np.random.default_rng(0)
    for i in range(3):
        truth = np.kron(rng.integers(0, 2, (3, 3)), np.ones((3, 3), int))
        noisy = (truth * 120 + rng.integers(0, 60, truth.shape)).astype(np.uint8)
        Image.fromarray(noisy).save(tmp_path / f"{i}.png")
        Image.fromarray(truth.astype(np.uint8)).save(tmp_path / f"mask-{i}.png")
    model = tmp_path / "m.model"
    learned = maxsum("fit", tmp_path, "--mask", "mask-*.png", "--out", model, json_=True)
    assert learned["task"] == "image"
    maxsum("predict", model, tmp_path, "--out", tmp_path / "labels")
    assert sorted(path.name for path in (tmp_path / "labels").iterdir()) == [f"mask-{i}.png" for i in range(3)]
    assert maxsum("evaluate", model, tmp_path, json_=True)["baseline"]["accuracy"] < 1
    for wrong in ("mask.png", "*", "*-*.png"):
        assert "with one * for the name" in maxsum("fit", tmp_path, "--mask", wrong, "--out", model, code=2).stderr


def test_show_is_what_the_estimator_says(sentences, table, maxsum):
    import maxsum as ms

    model = sentences / "tag.model"
    read = maxsum("fit", sentences / "train.conll", "--out", model, "--tol", "0.1")
    assert re.search(r"\d+ tags, \d+\s+distinct\s+words", read.stdout)
    net = ms.load_model(model)
    shown = maxsum("show", model, "--top", "3", json_=True)
    first = net.classes_.tolist()[0]
    assert [tuple(own) for own in shown["classes"][0]["for"]] == net.top_features(first, 3)
    table_ = net.transitions()
    best = np.unravel_index(table_.argmax(), table_.shape)
    assert shown["pairs"][0]["for"][0][:2] == [str(net.classes_[k]) for k in best]
    assert str(first) in maxsum("show", model).stdout
    assert "there is no class 'nobody'" in maxsum("show", model, "--label", "nobody", code=2).stderr
    other = table / "m.model"
    maxsum("fit", table / "train.csv", "--labels", "3", "--set", "id=name", "--out", other)
    assert len(maxsum("show", other, "--label", "beach", json_=True)["classes"]) == 1


@pytest.mark.parametrize("name", ["C", "tol", "max_iter", "time_limit", "potentials", "surrogate", "learner", "n_jobs"])
def test_help_tells_defaults(name):
    import inspect

    from maxsum.cli.learning import fit

    option = inspect.signature(fit, eval_str=True).parameters[name].annotation.__metadata__[0]
    assert "by default" in option.help


def test_the_whole_command_in_a_pipe_of_bytes(sentences, maxsum, monkeypatch):
    """Standard input that is no text is refused with a word, not with a traceback."""
    model = sentences / "tag.model"
    maxsum("fit", sentences / "train.conll", "--out", model, "--tol", "0.1")
    refused = CliRunner().invoke(app, ["predict", str(model), "-", "--out", "-"], input=b"\xff\xfe\x00\x01")
    assert refused.exit_code == 2 and "Traceback" not in refused.stderr
