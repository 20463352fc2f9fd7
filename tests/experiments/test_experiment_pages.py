"""The rules of the page of experiments: verdicts beside what they compare with, aims called so, all notes kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from maxsum import InvalidParameterError, experiments
from maxsum.experiments.report import Claim, Plot, Report, page


def report(**changes: object) -> Report:
    options: dict[str, object] = dict(
        name="made",
        source="Somebody 2000",
        title="A | title",
        claims=(Claim("error", "3 %", "2 %", True), Claim("time", "", "2 s", False, "at most 1 s"), Claim("size", "-", "7")),
        columns=("C", "error %"),
        rows=((0.1, "2"), (1, "3")),
        notes=("split by seed 0",),
        plots=(Plot("errors", "C", "%", {"ours": ([0.1, 1.0], [2.0, 3.0])}),),
    )
    return Report(**options | changes)  # type: ignore[arg-type]


def test_a_verdict_needs_what_it_compares_with() -> None:
    with pytest.raises(InvalidParameterError, match="'gap' has a verdict but nothing that it compares with"):
        Claim("gap", "-", "1e-3", True)
    assert Claim("gap", "-", "1e-3", True, "at most 1e-2").verdict == "aim met"
    assert [claim.verdict for claim in report().claims] == ["met", "aim missed", ""]
    assert [claim.what for claim in report().failed] == ["time"]


def test_no_published_number_beside_other_data() -> None:
    with pytest.raises(InvalidParameterError, match="'error' has a published number beside one on other data"):
        report(substitute="made data; the paper has 3 %")
    claims = (Claim("error", "", "2 %"),)
    other = report(claims=claims, substitute="made data; the paper has 3 %")
    assert other.every_note == ("Other data than the paper's: made data; the paper has 3 %", "split by seed 0")
    assert page.claim_rows(other) == (("claim", "ours"), [("error", "2 %")])


def test_rows_are_as_wide_as_columns() -> None:
    with pytest.raises(InvalidParameterError, match="a row of made has 1 cells, wanted 2"):
        report(rows=((1,),))


def test_the_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = page.write(tmp_path / "new", [report()], [("glyphs", "no data")])
    timed = page.write(tmp_path / "timed", [report()], seconds=[12.4]).read_text()
    assert "| CPU s |" in timed and "| made | Somebody 2000 | 1 | 1 | 12 |" in timed
    text = path.read_text()
    for line in (
        "| made | Somebody 2000 | 1 | 1 |",
        "| error | 3 % | 2 % |  | met |",
        "| time |  | 2 s | at most 1 s | aim missed |",
        "| 0.1 | 2 |",
        "![errors](plot-made.png)",
        "- split by seed 0",
        "- glyphs did not run: no data",
        "## A | title",
    ):
        assert line in text.splitlines()
    assert (path.parent / "plot-made.png").read_bytes().startswith(b"\x89PNG")
    assert page.cell("a | b") == "a \\| b"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(experiments.EXPERIMENTS))
def test_a_quick_run_takes_less_than_a_minute(name: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    began = time.process_time()
    try:
        experiments.run(name, quick=True)
    except experiments.MissingDataError as missing:
        pytest.skip(str(missing))
    assert time.process_time() - began < 60.0
