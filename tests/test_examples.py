"""Every example runs to its end and says what it proved."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} >= {
        "chain_tagging",
        "denoise",
        "sudoku",
        "neural_images",
        "neural_sudoku",
        "linked_pages",
        "five_best",
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_proves_its_answer(path, tmp_path, monkeypatch, capsys):
    if "import torch" in path.read_text(encoding="utf-8"):
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")
        monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "verified: score" in printed
    if path.stem in ("chain_tagging", "sudoku"):
        assert "optimal" in printed
