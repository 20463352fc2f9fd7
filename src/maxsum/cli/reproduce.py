"""``maxsum reproduce``: a published experiment, its numbers beside ours."""

from __future__ import annotations

import time
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import experiments
from ..core.errors import InvalidParameterError
from ..experiments.report import page
from . import show

_COLOURS = {True: "green", False: "red", None: "default"}


def list_experiments(json: bool) -> bool:
    """Print the names of all experiments."""
    if json:
        show.print_json({"experiments": sorted(experiments.EXPERIMENTS)})
    else:
        Console().print("Experiments: " + ", ".join(sorted(experiments.EXPERIMENTS)), highlight=False)
    return False


def run_experiment(
    name: str, quick: bool, json: bool, table: int | None = None, full: bool = False, out: Path | None = None
) -> bool:
    """Run an experiment and print its report; True if a claim fails."""
    report = _run(name, quick, table, full)
    if out is not None:
        page.write(out, [report])
    if json:
        show.print_json(_report_json(report))
    else:
        _print(report)
    return bool(report.failed)


def run_all(quick: bool, json: bool, full: bool = False, out: Path | None = None) -> bool:
    """Run every experiment whose data are there, quietly, and write the page of all; True if a claim fails."""
    if out is None:
        raise InvalidParameterError("reproduce all needs a folder for its page, wanted --out FOLDER.")
    reports: list[experiments.Report] = []
    absent: list[tuple[str, str]] = []
    seconds: list[float] = []
    for name in experiments.EXPERIMENTS:
        try:
            began = time.process_time()
            reports.append(_run(name, quick, None, full))
            seconds.append(time.process_time() - began)
        except experiments.MissingDataError as missing:
            absent.append((name, str(missing)))
        path = page.write(out, reports, absent, seconds)  # after each, so that a run that is stopped leaves what it has
    if not reports:
        raise experiments.MissingDataError(f"no experiment could run; {absent[0][0]}: {absent[0][1]}")
    if json:
        show.print_json({"page": str(path), "experiments": [_report_json(own) for own in reports], "absent": dict(absent)})
    else:
        missed = sum(len(own.failed) for own in reports)
        print(f"{len(reports)} experiments, {missed} claims or aims missed, {len(absent)} without data: {path}")
    return any(own.failed for own in reports)


def _run(name: str, quick: bool, table: int | None, full: bool) -> experiments.Report:
    errors = Console(stderr=True)
    with errors.status(f"{name} ...") as status:
        return experiments.run(name, quick, lambda line: status.update(escape(f"{name}: {line}")), table, full)


def _report_json(report: experiments.Report) -> dict[str, object]:
    return {
        "experiment": report.name,
        "source": report.source,
        "title": report.title,
        "claims": [claim.__dict__ | {"verdict": claim.verdict} for claim in report.claims],
        "rows": [dict(zip(report.columns, row, strict=True)) for row in report.rows],
        "notes": list(report.every_note),
        "failed": [claim.what for claim in report.failed],
    }


def _print(report: experiments.Report) -> None:
    console = Console()
    console.print(f"[bold]{escape(report.title)}[/bold] ({escape(report.source)})", highlight=False)
    if report.rows:
        details = Table(*report.columns, box=SIMPLE_HEAD)
        for row in report.rows:
            details.add_row(*(escape(str(cell)) for cell in row))
        console.print(details)
    columns, rows = page.claim_rows(report)
    claims = Table(*("" if name in ("claim", "verdict") else name for name in columns), box=SIMPLE_HEAD)
    for claim, row in zip(report.claims, rows, strict=True):
        colour = _COLOURS[claim.holds]
        claims.add_row(
            *(f"[{colour}]{escape(text)}[/{colour}]" if text and text == claim.verdict else escape(text) for text in row)
        )
    console.print(claims)
    for note in report.every_note:
        console.print(escape(note), highlight=False)
    if report.failed:
        console.print(f"[red]{len(report.failed)} claims or aims missed.[/red]")
