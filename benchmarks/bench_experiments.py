"""Published experiments: the same reports as ``maxsum reproduce NAME``."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

from maxsum import experiments

from .measure import NO_DATA, data_folder, verdict

FULL = ("shapes",)


class Reproduction:
    """The report of one experiment as a section of the results."""

    def __init__(self, name: str):
        self.name, self.full = name, name in FULL
        self.TITLE = f"Experiment: {name}"
        self.DESCRIPTION = f"""
The report of `maxsum reproduce {name}{" --full" if self.full else ""}`: what the paper says beside what this run found; the command prints notes as well.
"""

    def rows(self, quick: bool = False) -> list[dict[str, Any]]:
        folder = data_folder()
        if folder is None:
            return [{"table": self.name, "claim": NO_DATA}]
        with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
            report = experiments.run(self.name, quick=quick, full=self.full)
        return [
            {
                "table": f"{report.title} ({report.source})",
                "claim": claim.what,
                "published": claim.published,
                "ours": claim.ours,
                "verdict": "" if claim.holds is None else verdict(claim.holds),
            }
            for claim in report.claims
        ]


def part(name: str) -> Reproduction:
    """The section of one experiment."""
    return Reproduction(name)
