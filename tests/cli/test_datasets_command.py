"""``maxsum datasets list`` and ``fetch``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from maxsum.cli import datasets as command
from maxsum.cli.app import app
from maxsum.datasets.sources import SOURCES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scene").mkdir()
    (tmp_path / "scene" / "scene.npz").write_bytes(b"")
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setenv("MAXSUM_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["datasets", *arguments])


def test_list(folder: Path) -> None:
    text = run("list").stdout
    for name, source in SOURCES.items():
        assert name in text and source.title[:20] in text and source.licence[:20] in text
    assert str(folder / "scene") in text and "MAXSUM_DATA_CACHE" in text
    content = json.loads(run("list", "--json").stdout)
    assert content["cache"] == str(folder / "cache")
    by_name = {row["name"]: row for row in content["datasets"]}
    assert by_name["scene"]["folder"] == str(folder / "scene") and by_name["yeast"]["folder"] is None
    assert by_name["yeast"]["files"][0]["sha256"] == SOURCES["yeast"].remotes[0].sha256 and by_name["yeast"]["size"] == 2419630


def test_fetch(folder: Path) -> None:
    done = run("fetch", "scene")
    assert done.exit_code == 0 and f"scene: {folder / 'scene'}" in done.stdout and "licence: none stated" in done.stdout
    assert json.loads(run("fetch", "scene", "--json").stdout) == {"folders": {"scene": str(folder / "scene")}}
    wrong = run("fetch", "chess")
    assert wrong.exit_code == 2 and "no dataset 'chess'" in wrong.stderr


def test_without_a_net(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    result = run("fetch", "yeast", "--timeout", "5")
    assert result.exit_code == 2 and "out of reach" in result.stderr and "put yeast.npz into" in result.stderr


def test_bars(capsys: pytest.CaptureFixture[str]) -> None:
    with command._Bars(True) as bars:
        bars("a[b].zip", 10, None)
        bars("a[b].zip", 50, 100)
        assert [(task.description, task.completed, task.total) for task in bars._display.tasks] == [("a[b].zip", 50, 100)]
    with command._Bars(False) as bars:
        bars("a", 1, 2)
    assert capsys.readouterr().out == ""
