"""Published experiments: the same reports as ``maxsum reproduce NAME``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

from maxsum import experiments
from maxsum.experiments.report import page

from .measure import NO_DATA, data_folder

FULL = ("shapes",)
PLOTS = Path(__file__).parents[1] / "docs"
"""Where the curves of a report are drawn, beside the page."""


class Reproduction:
    """The report of one experiment as a section of the results."""

    def __init__(self, name: str):
        self.name, self.full = name, name in FULL
        self.TITLE = f"Experiment: {name}"
        self.DESCRIPTION = f"""
The report of `maxsum reproduce {name}{" --full" if self.full else ""}`: what the paper says beside what this run found. *met* and *missed* compare with the published number of the row, *aim met* and *aim missed* with a threshold of our own.
"""

    def rows(self, quick: bool = False) -> list[dict[str, Any]]:
        """Claims, details, plots and notes of the report."""
        folder = data_folder()
        if folder is None:
            return [{"table": self.name, "claim": NO_DATA}]
        with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
            report = experiments.run(self.name, quick=quick, full=self.full)
        heading = f"{report.title} ({report.source})"
        columns, claims = page.claim_rows(report)
        found: list[dict[str, Any]] = [{"table": heading, **dict(zip(columns, row, strict=True))} for row in claims]
        runs = f"Runs: {report.title}"
        found += [{"table": runs, **dict(zip(report.columns, map(str, row), strict=True))} for row in report.rows]
        if report.plots and not quick:
            names = page.pictures(report, PLOTS)
            found += [
                {"table": runs, "note": f"![{plot.title}]({name})"} for plot, name in zip(report.plots, names, strict=True)
            ]
        return found + [{"table": runs if report.rows else heading, "note": f"- {note}"} for note in report.every_note]


def part(name: str) -> Reproduction:
    """The section of one experiment."""
    return Reproduction(name)
