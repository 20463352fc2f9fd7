"""Reports as Markdown with plots, one page for all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .claims import NOTHING, Plot, Report


def cell(value: Any) -> str:
    """A value in a Markdown table."""
    return str(value).replace("|", "\\|")


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def claim_rows(report: Report) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of the table of claims; columns that nobody fills are left out."""
    columns: tuple[str, ...] = ("claim", "published", "ours", "aim", "verdict")
    rows = [
        (own.what, "" if own.published in NOTHING else own.published, own.ours, own.aim, own.verdict) for own in report.claims
    ]
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    return tuple(columns[i] for i in kept), [tuple(row[i] for i in kept) for row in rows]


def section(report: Report, pictures: Sequence[str] = (), level: str = "##") -> str:
    """A report: claims, details, pictures, and all notes."""
    parts = [f"{level} {report.title}", f"{report.source}; `maxsum reproduce {report.name}`.", table(*claim_rows(report))]
    if report.rows:
        parts.append(table(report.columns, report.rows))
    parts += [f"![{plot.title}]({name})" for plot, name in zip(report.plots, pictures, strict=False)]
    parts.append("\n".join(f"- {note}" for note in report.every_note))
    return "\n\n".join(part for part in parts if part)


def draw(plot: Plot, path: str | os.PathLike[str]) -> None:
    """Write the curves of a plot as a picture.

    Parameters
    ----------
    plot : Plot
    path : path-like
        ``.png``.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6.4, 3.6))
    for name, (x, y) in plot.curves.items():
        axis.plot(list(x), list(y), marker="o", markersize=4, linewidth=1.4, label=name)
    if plot.log_x:
        axis.set_xscale("log")
    if plot.log_y:
        axis.set_yscale("log")
    axis.set_xlabel(plot.x)
    axis.set_ylabel(plot.y)
    axis.set_title(plot.title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def pictures(report: Report, folder: Path) -> list[str]:
    """Draw the plots of a report; their names in the folder."""
    names = [
        f"plot-{report.name}-{i + 1}.png" if len(report.plots) > 1 else f"plot-{report.name}.png"
        for i in range(len(report.plots))
    ]
    for plot, name in zip(report.plots, names, strict=True):
        draw(plot, folder / name)
    return names


def write(
    folder: str | os.PathLike[str],
    reports: Sequence[Report],
    absent: Sequence[tuple[str, str]] = (),
    seconds: Sequence[float] = (),
) -> Path:
    """Write the page of all reports, and their plots beside it.

    Parameters
    ----------
    folder : path-like
        Made if there is none.
    reports : sequence of Report
    absent : sequence of (str, str)
        Names of experiments that could not run, and why.
    seconds : sequence of float, optional
        CPU seconds of each report.

    Returns
    -------
    path : Path
        The page, ``index.md``.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    parts = ["# Published experiments, run again"]
    held = [(own.name, sum(c.holds is True for c in own.claims), len(own.failed)) for own in reports]
    rows = [(name, own.source, met, missed) for own, (name, met, missed) in zip(reports, held, strict=True)]
    columns: tuple[str, ...] = ("experiment", "source", "claims and aims met", "missed")
    if seconds:
        columns += ("CPU s",)
        parts.append(table(columns, [(*row, f"{cpu:.0f}") for row, cpu in zip(rows, seconds, strict=True)]))
    else:
        parts.append(table(columns, rows))
    if absent:
        parts.append("\n".join(f"- {name} did not run: {why}" for name, why in absent))
    parts += [section(own, pictures(own, place)) for own in reports]
    page = place / "index.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page
