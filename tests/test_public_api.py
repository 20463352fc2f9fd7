"""The public names, their parameters and defaults are those of docs/api.txt."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_public_names_parameters_and_defaults_are_the_listed_ones():
    listed = (ROOT / "docs" / "api.txt").read_text(encoding="utf-8").splitlines()
    found = runpy.run_path(str(ROOT / "tools" / "build" / "api.py"))["text"]().splitlines()
    gone, new = sorted(set(listed) - set(found)), sorted(set(found) - set(listed))
    assert not gone and not new, f"gone or changed: {gone[:10]}; new: {new[:10]}. If that is meant: python tools/build/api.py"
    assert len(found) > 500


def test_a_changed_default_is_noticed():
    tool = runpy.run_path(str(ROOT / "tools" / "build" / "api.py"))

    def one(a, b=1): ...

    def two(a, b=2): ...

    assert tool["signature"](one) == "(a, b=1)" != tool["signature"](two)
