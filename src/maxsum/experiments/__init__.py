"""Published experiments, run again: each module holds the numbers of its paper beside ours."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from ..core.errors import InvalidParameterError
from ..datasets.source import MissingDataError, data_folder
from .report import Claim, Plot, Report

__all__ = ["EXPERIMENTS", "TABLES", "Claim", "MissingDataError", "Plot", "Progress", "Report", "data_folder", "run"]

EXPERIMENTS = {
    "background": "background",
    "chunking": "chunking",
    "glyph-trees": "glyph_trees",
    "glyphs": "glyphs",
    "handwritten-sudoku": "handwritten_sudoku",
    "letters": "letters",
    "made-images": "images.made_images",
    "mulan": "mulan",
    "multilabel": "multilabel",
    "reuters": "reuters",
    "robustness": "robustness",
    "scene": "scene",
    "segmentation": "images.segmentation",
    "shapes": "shapes",
    "sudoku": "sudoku",
    "webkb": "webkb",
    "tagging": "tagging",
}

TABLES = {
    "background": (7,),
    "glyph-trees": (5, 6),
    "glyphs": (5, 6),
    "handwritten-sudoku": (3,),
    "made-images": (1,),
    "multilabel": (1,),
    "scene": (1,),
    "segmentation": (1,),
    "shapes": (1,),
    "tagging": (2, 3, 4),
}


Progress = Callable[[str], Any]


def run(
    name: str, quick: bool = False, progress: Progress | None = None, table: int | None = None, full: bool = False
) -> Report:
    """Run an experiment.

    Parameters
    ----------
    name : str
        One of ``EXPERIMENTS``.
    quick : bool
        A small part of it, for a look.
    progress : callable, optional
        Called with a line of text now and then.
    table : int, optional
        One of the published tables (see ``TABLES``), by its number in the paper; by default all. What other tables alone need is not run.
    full : bool
        The complete protocol, where it takes more than a coffee; elsewhere that is the default.
    """
    if name not in EXPERIMENTS:
        raise InvalidParameterError(f"there is no experiment {name!r}; wanted one of {', '.join(EXPERIMENTS)}.")
    module = importlib.import_module(f".{EXPERIMENTS[name]}", __name__)
    known, options = inspect.signature(module.run).parameters, dict[str, Any]()
    if table is not None:
        numbers = TABLES.get(name, ())
        if table not in numbers:
            wanted = f"wanted {' or '.join(map(str, numbers))}" if numbers else "which has no tables"
            raise InvalidParameterError(f"there is no table {table} in the experiment {name!r}, {wanted}.")
        if "tables" in known:
            options["tables"] = (table,)
    if full and not quick and "full" in known:
        options["full"] = True
    report: Report = module.run(quick=quick, progress=progress or (lambda line: None), **options)
    return report
