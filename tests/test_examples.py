"""Every example runs to its end, says what it proved and ends in a picture.

Those that take seconds are `slow` here: the build of the site runs them all (``.ci/run``).
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
QUICK = {
    "chain_tagging",
    "denoise",
    "five_best",
    "forbidden_tags",
    "how_sure",
    "learn_images",
    "problem_file",
    "sudoku",
    "tag_names",
}


def test_the_order_of_the_gallery_names_examples():
    tools = (ROOT / "docs" / "page_tools.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "([a-z_]+)",$', tools, flags=re.MULTILINE)
    assert len(names) >= 23 and set(names) <= {path.stem for path in EXAMPLES}
    assert set(names) >= QUICK


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_ends_in_a_picture(path):
    source = path.read_text(encoding="utf-8")
    assert "plt.savefig(" in source or "plt.show()" in source
    assert ".verify(" in source  # raises if a claim does not hold


@pytest.mark.parametrize(
    "path", [pytest.param(own, id=own.stem, marks=() if own.stem in QUICK else pytest.mark.slow) for own in EXAMPLES]
)
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
