"""``maxsum report``: a page about a model, or about a training that is still going on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, BinaryIO

from ..core.errors import InvalidParameterError, InvalidSampleError, ParseError
from ..core.files.store import atomic
from .common import is_model

_LARGEST_LOG = 1 << 28  # bytes of a log that is read into memory


def write_page(source: Path, data: Path | None, out: Path, title: str | None, edges: str | None) -> str:
    """Write the page; the words say what it is about."""
    if is_model(source):
        return _model_page(source, data, out, title, edges)
    if data is not None:
        raise InvalidParameterError(
            f"{source} is no model, so there is nothing to predict {data} with; wanted MODEL and DATA, or RUN alone."
        )
    return _run_page(source, out, title)


def _model_page(source: Path, data: Path | None, out: Path, title: str | None, edges: str | None) -> str:
    from ..report import write_report
    from .fitting import load_fitted

    estimator, form, _ = load_fitted(source)
    if form.task == "graph":
        form.settings["edges"] = edges
    content = None if data is None else form.read(data, training=False)
    if content is not None and content.y is None:
        raise InvalidSampleError(f"{data} has no labels to compare with; leave it out, or give labelled data.")
    names = None
    if form.task == "multilabel" and getattr(estimator, "_kind", "") == "multilabel":
        names = form.settings["label_names"]
    elif form.task == "image":
        names = [form.class_name(label) for label in estimator.classes_.tolist()]
    X, y = (None, None) if content is None else (content.X, content.y)
    write_report(
        out,
        estimator,
        X,
        y,
        title=title or f"{form.estimator}: {source.name}",
        classes=names,
        names=None if content is None else content.names,
    )
    return f"{source}{'' if content is None else f' on {data}: {content.words}'}"


def _run_page(source: Path, out: Path, title: str | None) -> str:
    from ..core.result import Guarantee, Termination
    from ..learning.result import LearningPoint, LearningResult
    from ..plotting import plot_convergence
    from ..report.page import facts, page, picture, section, text

    head, points = read_log(source)
    trace = tuple(LearningPoint(**point) for point in points)
    last = trace[-1]
    result = LearningResult(
        weights=_nothing(),
        objective=last.objective,
        lower_bound=last.lower_bound,
        termination=Termination.stopped,
        oracle_guarantee=Guarantee.none,
        certificate=None,
        learner="",
        n_iter=last.iteration,
        n_oracle_calls=last.n_oracle_calls,
        seconds=last.seconds,
        trace=trace,
    )
    rows = [
        ("data", str(head.get("data", ""))),
        ("pass", str(last.iteration)),
        ("objective", f"{last.objective:.8g}"),
        ("lower bound", f"{last.lower_bound:.8g}"),
        ("relative gap", f"{last.relative_gap:.3g}, wanted {head.get('tol', '')}"),
        ("oracle calls", str(last.n_oracle_calls)),
        ("time", f"{last.seconds:.1f} s"),
    ]
    words = "As the training wrote it down, pass by pass; nothing is recomputed here. A report of the finished model has the proofs."
    body = [
        text(words, "soft"),
        section("The last pass", facts(rows)),
        section("Convergence", picture(lambda ax: plot_convergence(result, ax=ax), "objective, bound and gap of the training")),
    ]
    content = page(title or f"Training: {source.name}", body).encode("utf-8")

    def fill(file: BinaryIO) -> None:
        file.write(content)

    atomic(out, None, fill)
    return f"{source}: {len(trace)} passes"


def _nothing() -> Any:
    import numpy as np

    return np.zeros(0)


def read_log(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The first line and the passes of the last training in a file of `maxsum fit --log`."""
    with path.open("rb") as file:
        raw = file.read(_LARGEST_LOG + 1)
    if len(raw) > _LARGEST_LOG:
        raise ParseError(f"the file holds more than {_LARGEST_LOG} bytes; refused.", str(path))
    *whole, _ = raw.split(b"\n")
    head: dict[str, Any] = {}
    points: list[dict[str, Any]] = []
    for number, line in enumerate(whole, 1):
        try:
            found = json.loads(line)
            if number == 1:
                if found["maxsum"] != "run":
                    raise ValueError
                head = found
                continue
            point = {
                "iteration": int(found["iteration"]),
                "seconds": float(found["seconds"]),
                "objective": _or(found["objective"], math.inf),
                "lower_bound": _or(found["lower_bound"], -math.inf),
                "n_oracle_calls": int(found["n_oracle_calls"]),
            }
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ParseError(
                "neither a model nor a line of a run; wanted what `maxsum fit` wrote, --out or --log.", str(path), number
            ) from None
        if points and point["iteration"] <= points[-1]["iteration"]:
            points.clear()
        points.append(point)
    if not head:
        raise ParseError("neither a model nor a run; wanted what `maxsum fit` wrote, --out or --log.", str(path))
    if not points:
        raise ParseError("the training has not ended its first pass yet; nothing to show.", str(path))
    return head, points


def _or(value: Any, default: float) -> float:
    return default if value is None else float(value)
