"""What the tests of commands share."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from cli.data import rows_of_labels, write_sentences
from maxsum.cli.app import app


@pytest.fixture
def maxsum():
    """Run a command in this process; ``json=True`` gives the object that it prints."""

    def run(*arguments, code=0, json_=False):
        own = [str(argument) for argument in arguments] + (["--json"] if json_ else [])
        result = CliRunner().invoke(app, own)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        if json_:
            return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        return result

    return run


@pytest.fixture
def sentences(tmp_path):
    write_sentences(tmp_path / "train.conll", 20, 0)
    write_sentences(tmp_path / "test.conll", 8, 1)
    write_sentences(tmp_path / "new.conll", 3, 2, labelled=False, separator="\t")
    return tmp_path


@pytest.fixture
def table(tmp_path):
    for name, n, seed in (("train.csv", 60, 0), ("test.csv", 20, 1)):
        X, Y = rows_of_labels(n, seed)
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["name", "x1", "x2", "x3", "beach", "sunset", "field"])
            writer.writerows([f"r{i}", *x, *y] for i, (x, y) in enumerate(zip(X.tolist(), Y.tolist(), strict=True)))
    return tmp_path


@pytest.fixture
def graph(tmp_path):
    for name, seed in (("train", 0), ("test", 1)):
        rng = np.random.default_rng(seed)
        folder = tmp_path / name
        folder.mkdir()
        labels = np.repeat(["red", "blue"], 12)
        values = (labels == "red") * 1.5 + rng.normal(size=24)
        with (folder / "nodes.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["node", "value", "kind", "label"]] + [
                [f"n{i}", round(float(v), 3), "xy"[i % 2], label if name == "test" or i % 5 else ""]
                for i, (v, label) in enumerate(zip(values, labels, strict=True))
            ])  # fmt: skip
        pairs = [(i, i + 1) for i in range(23)] + [(i, i + 2) for i in range(22)]
        with (folder / "edges.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["from", "to", "weight"]] + [[f"n{i}", f"n{j}", 1.0 + i % 3] for i, j in pairs])
    return tmp_path
