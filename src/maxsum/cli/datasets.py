"""``maxsum datasets``: which datasets there are, and fetching them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import EXIT_CODES, JsonOption, exit_codes

datasets = typer.Typer(help="Datasets of the experiments: list them, fetch them.", no_args_is_help=True, epilog=EXIT_CODES)


@datasets.command("list", epilog=EXIT_CODES)
def list_datasets(json: JsonOption = False) -> None:
    """List the datasets: what they are, their licences, how they are checked, and where they are on this machine."""
    from ..datasets.source import cache_folder, found_folder
    from ..datasets.sources import SOURCES
    from . import show

    with exit_codes():
        cache = cache_folder()
        rows = [(name, source, found_folder(name, source.files, cache)) for name, source in SOURCES.items()]
    if json:
        show.print_json(
            {
                "cache": str(cache),
                "datasets": [
                    {
                        "name": name,
                        "title": source.title,
                        "licence": source.licence,
                        "checked": source.checked,
                        "size": source.size,
                        "files": [
                            {"url": remote.url, "size": remote.size, "sha256": remote.sha256, "md5": remote.md5}
                            for remote in source.remotes
                        ],
                        "folder": None if place is None else str(place),
                    }
                    for name, source, place in rows
                ],
            }
        )
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "what", "MB", "here", box=SIMPLE_HEAD)
    for name, source, place in rows:
        size = "?" if source.size is None else f"{source.size / 1e6:.1f}"
        facts = f"[dim]licence: {escape(source.licence)}; checked by {escape(source.checked)}[/dim]"
        table.add_row(name, f"{escape(source.title)}\n{facts}", size, "" if place is None else escape(str(place)))
    console = Console()
    console.print(table)
    console.print(f"Fetched data are kept in {escape(str(cache))} (MAXSUM_DATA_CACHE changes that).", highlight=False)


@datasets.command("fetch", epilog=EXIT_CODES)
def fetch_datasets(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets of `maxsum datasets list`.")],
    folder: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where to keep them; the cache by default.")] = None,
    timeout: Annotated[float, typer.Option(metavar="S", min=0.1, help="Seconds to wait for an answer.")] = 60.0,
    json: JsonOption = False,
) -> None:
    """Fetch datasets, checked; a download that broke off goes on where it stopped."""
    from . import show

    with exit_codes():
        found = {name: _fetch(name, folder, timeout, quiet=json) for name in names}
    if json:
        show.print_json({"folders": {name: str(place) for name, place in found.items()}})


def _fetch(name: str, folder: Path | None, timeout: float, quiet: bool) -> Path:
    from rich.console import Console
    from rich.markup import escape

    from ..datasets.fetch import download
    from ..datasets.sources import SOURCES

    with _Bars(not quiet and sys.stderr.isatty()) as bars:
        place = download(name, folder, timeout=timeout, progress=bars)
    if not quiet:
        Console().print(f"{escape(name)}: {escape(str(place))}", highlight=False, soft_wrap=True)
        Console().print(f"licence: {escape(SOURCES[name].licence)}", highlight=False, soft_wrap=True)
    return place


class _Bars:
    """A progress bar a file, on stderr."""

    def __init__(self, wanted: bool):
        self._display: Any = None
        self._tasks: dict[str, Any] = {}
        if wanted:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn()
            self._display = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> _Bars:
        if self._display is not None:
            self._display.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._display is not None:
            self._display.__exit__(*error)

    def __call__(self, file: str, done: int, total: int | None) -> None:
        if self._display is None:
            return
        if file not in self._tasks:
            self._tasks[file] = self._display.add_task(file, total=total)
        self._display.update(self._tasks[file], completed=done, total=total)
