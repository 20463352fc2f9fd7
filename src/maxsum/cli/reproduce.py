"""``maxsum reproduce``: a published experiment, its numbers beside ours."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import experiments
from . import show

_VERDICT = {True: "[green]holds[/green]", False: "[red]FAILS[/red]", None: ""}


def list_experiments(json: bool) -> bool:
    """Print the names of all experiments."""
    if json:
        show.print_json({"experiments": sorted(experiments.EXPERIMENTS)})
    else:
        Console().print("Experiments: " + ", ".join(sorted(experiments.EXPERIMENTS)), highlight=False)
    return False


def run_experiment(name: str, quick: bool, json: bool, table: int | None = None, full: bool = False) -> bool:
    """Run an experiment and print its report; True if a claim fails."""
    errors = Console(stderr=True)
    with errors.status(f"{name} ...") as status:
        report = experiments.run(name, quick, lambda line: status.update(escape(f"{name}: {line}")), table, full)
    if json:
        show.print_json(_report_json(report))
    else:
        _print(report)
    return bool(report.failed)


def _report_json(report: experiments.Report) -> dict[str, object]:
    return {
        "experiment": report.name,
        "source": report.source,
        "title": report.title,
        "claims": [claim.__dict__ for claim in report.claims],
        "rows": [dict(zip(report.columns, row, strict=True)) for row in report.rows],
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
    claims = Table("", "published", "ours", "", box=SIMPLE_HEAD)
    for claim in report.claims:
        claims.add_row(*map(escape, (claim.what, claim.published, claim.ours)), _VERDICT[claim.holds])
    console.print(claims)
    for note in report.notes:
        console.print(escape(note), highlight=False)
    if report.failed:
        console.print(f"[red]{len(report.failed)} claims fail.[/red]")
