"""``maxsum reproduce``: tables, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maxsum import experiments
from maxsum.cli.app import app
from maxsum.experiments import Claim, Report


def fake(holds: bool) -> Report:
    claims = (Claim("rules learned", "18 of 18", "2 of 2", holds), Claim("time", "1 s", "2 s"))
    return Report("sudoku", "Franc & Savchynskyy 2008", "Rules [of] Sudoku", claims, ("set", "s"), ((1, "0.5"),), ("a note",))


@pytest.mark.parametrize("holds", [True, False])
def test_the_exit_code_says_whether_claims_hold(monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    seen = []
    monkeypatch.setattr(
        experiments,
        "run",
        lambda name, quick, progress, table, full: (seen.append((name, quick, table, full)), progress("x"), fake(holds))[2],
    )
    result = CliRunner().invoke(app, ["reproduce", "sudoku", "--quick"])
    assert result.exit_code == (0 if holds else 1)
    for text in ("Rules [of] Sudoku", "18 of 18", "2 of 2", "a note", "met" if holds else "missed"):
        assert text in result.stdout
    full = CliRunner().invoke(app, ["reproduce", "sudoku", "--table", "3", "--full", "--json"])
    content = json.loads(full.stdout)
    assert content["failed"] == ([] if holds else ["rules learned"]) and content["rows"] == [{"set": 1, "s": "0.5"}]
    assert seen == [("sudoku", True, None, False), ("sudoku", False, 3, True)]


def test_names() -> None:
    assert "sudoku" in CliRunner().invoke(app, ["reproduce"]).stdout
    assert json.loads(CliRunner().invoke(app, ["reproduce", "--json"]).stdout) == {
        "experiments": sorted(experiments.EXPERIMENTS)
    }
    wrong = CliRunner().invoke(app, ["reproduce", "chess"])
    assert wrong.exit_code == 2 and "no experiment 'chess'" in wrong.stderr


def test_a_table_is_one_of_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    from maxsum.experiments import tagging

    for arguments, words in (
        (["tagging", "--table", "5"], "wanted 2 or 3 or 4"),
        (["letters", "--table", "1"], "has no tables"),
    ):
        wrong = CliRunner().invoke(app, ["reproduce", *arguments])
        assert wrong.exit_code == 2 and words in wrong.stderr
    seen = []
    monkeypatch.setattr(tagging, "run", lambda quick, progress, tables: (seen.append(tables), fake(True))[1])
    assert CliRunner().invoke(app, ["reproduce", "tagging", "--table", "2"]).exit_code == 0
    assert seen == [(2,)]


def test_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAXSUM_DATA", raising=False)
    result = CliRunner().invoke(app, ["reproduce", "sudoku"])
    assert result.exit_code == 2 and "MAXSUM_DATA is not set" in result.stderr and "GitHub" in result.stderr


def test_all_writes_the_page_of_those_that_have_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(name: str, *rest: object) -> Report:
        if name not in ("sudoku", "shapes"):
            raise experiments.MissingDataError(f"no data of {name}")
        return fake(True)

    monkeypatch.setattr(experiments, "run", run)
    done = CliRunner().invoke(app, ["reproduce", "all", "--quick", "--out", str(tmp_path / "page")])
    text = (tmp_path / "page" / "index.md").read_text()
    assert done.exit_code == 0 and "2 experiments, 0 claims or aims missed" in done.stdout
    for words in ("rules learned", "| met |", "- a note", "| CPU s |", "- glyphs did not run: no data of glyphs"):
        assert words in text
    wrong = CliRunner().invoke(app, ["reproduce", "all"])
    assert wrong.exit_code == 2 and "--out FOLDER" in wrong.stderr
    assert CliRunner().invoke(app, ["reproduce", "sudoku", "--out", str(tmp_path / "one")]).exit_code == 0
    assert "rules learned" in (tmp_path / "one" / "index.md").read_text()
