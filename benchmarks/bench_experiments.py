"""Published experiments: the same reports as ``maxsum reproduce NAME``."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

from maxsum import experiments

from .measure import NO_DATA, data_folder, verdict

TITLE = "Published experiments"
DESCRIPTION = """
Each table is the report of `maxsum reproduce NAME`: what the paper says beside what this run found. *Sudoku* (003 §7.2): one puzzle
and its solution teach the rules; the puzzles of top95 are then played with the sharpened weights, see the notes of the command.
"""


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    found = []
    for name in sorted(experiments.EXPERIMENTS):
        if folder is None:
            found.append({"table": name, "claim": NO_DATA})
            continue
        with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
            report = experiments.run(name, quick=quick)
        for claim in report.claims:
            found.append(
                {
                    "table": f"{report.title} ({report.source})",
                    "claim": claim.what,
                    "published": claim.published,
                    "ours": claim.ours,
                    "verdict": "" if claim.holds is None else verdict(claim.holds),
                }
            )
    return found
