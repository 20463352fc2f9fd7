"""``maxsum show``: what a model has learned, the heaviest features of each class and the transitions between classes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..core.errors import InvalidParameterError
from .common import JsonOption, exit_codes
from .learning import ModelFile

_WIDEST = 12  # classes of a table of transitions that fit on a terminal; of more the strongest pairs are listed


def show(
    model: ModelFile,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="Features for and against each class, and pairs of classes.")
    ] = 10,
    label: Annotated[str | None, typer.Option(metavar="CLASS", help="This class alone; all by default.")] = None,
    json: JsonOption = False,
) -> None:
    """Show what a model has learned: the features that speak most for and against each class, and which classes like to be neighbours."""
    from .fitting import load_fitted
    from .show import print_json

    with exit_codes():
        estimator, form, _ = load_fitted(model)
        found = learned(estimator, form, top, label)
        if json:
            print_json({"model": str(model), "task": form.task, **found})
        else:
            _print(found, model)


def learned(estimator: Any, form: Any, top: int, label: str | None) -> dict[str, Any]:
    """Heaviest features by class, and heaviest pairs of neighbouring classes."""
    known = np.asarray(estimator.classes_).tolist()
    several = form.task == "multilabel" and len(form.settings["label_names"]) > 1
    by_name = dict(zip(form.settings["label_names"] if several else map(form.class_name, known), known, strict=True))
    if label is not None and label not in by_name:
        raise InvalidParameterError(f"there is no class {label!r}; the model knows {', '.join(by_name)}.")
    classes = [
        {
            "class": name,
            "for": estimator.top_features(own, top),
            "against": estimator.top_features(own, top, smallest=True),
        }
        for name, own in by_name.items()
        if label in (None, name)
    ]
    return {"classes": classes, "pairs": _pairs(estimator, list(by_name), top)}


def _pairs(estimator: Any, names: list[str], top: int) -> list[dict[str, Any]]:
    """Blocks of pairwise weights that are tables of classes: their strongest entries, for and against."""
    found = []
    for block, weights in estimator.coef_blocks_.items():
        if block.startswith(("nodes", "bias")) or np.shape(weights) != (len(names), len(names)):
            continue
        order = np.argsort(-weights, axis=None, kind="stable")
        entries = [
            (names[i], names[j], float(weights[i, j])) for i, j in zip(*np.unravel_index(order, weights.shape), strict=True)
        ]
        found.append(
            {
                "block": block,
                "for": [own for own in entries[:top] if own[2] > 0],
                "against": [own for own in entries[::-1][:top] if own[2] < 0],
                "table": weights if len(names) <= _WIDEST else None,
                "names": names,
            }
        )
    return found


def _print(found: dict[str, Any], model: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for own in found["classes"]:
        table = Table(
            "for", "weight", "against", "weight", title=escape(str(own["class"])), title_justify="left", box=SIMPLE_HEAD
        )
        for i in range(max(len(own["for"]), len(own["against"]))):
            cells = [
                (escape(side[i][0]), f"{side[i][1]:+.3f}") if i < len(side) else ("", "")
                for side in (own["for"], own["against"])
            ]
            table.add_row(*cells[0], *cells[1])
        console.print(table)
    for own in found["pairs"]:
        title = f"{escape(own['block'])}: a row is the label of an edge's first node"
        if own["table"] is not None:
            table = Table("", *map(escape, own["names"]), title=title, title_justify="left", box=SIMPLE_HEAD)
            for name, row in zip(own["names"], own["table"], strict=True):
                table.add_row(escape(name), *(f"{value:+.2f}" for value in row))
        else:
            table = Table("liked", "weight", "disliked", "weight", title=title, title_justify="left", box=SIMPLE_HEAD)
            for i in range(max(len(own["for"]), len(own["against"]))):
                cells = [
                    (escape(f"{side[i][0]} - {side[i][1]}"), f"{side[i][2]:+.3f}") if i < len(side) else ("", "")
                    for side in (own["for"], own["against"])
                ]
                table.add_row(*cells[0], *cells[1])
        console.print(table)
    if not found["pairs"]:
        console.print(f"{model} has no table of pairs of classes.", highlight=False)
