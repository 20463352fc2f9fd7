"""Folders and files that are not what a newcomer takes them for."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from maxsum.cli.app import app


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (None, "is empty, wanted the folders images and masks"),
        ("nodes.csv", "has nodes.csv but no edges.csv"),
        ("a.txt", "no masks"),
    ],
)
def test_a_folder_that_is_none_of_the_forms(tmp_path, file, words):
    folder = tmp_path / "data"
    folder.mkdir()
    if file:
        (folder / file).write_text("id,x,label\na,1,p\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["fit", str(folder), "--out", str(tmp_path / "m")])
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split()) and "Traceback" not in result.stderr
