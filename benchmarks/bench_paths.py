"""Many values of C on shared planes: what a path costs beside its most expensive training."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from maxsum.estimators.cross.validation import VALUES
from maxsum.learning import BlockFrankWolfe, MarginObjective, path
from maxsum.models import GraphModel
from maxsum.models.bound import BoundModel

from .bench_learning import images, letters
from .measure import NO_DATA, verdict

TITLE = "Paths over C"
DESCRIPTION = """
What estimators with C by cross-validation do in each fold: 14 values of C in ascending order, each training from the planes of the one
before (`learning.path`), beside one training from nothing at the largest value, which is the most expensive. *Wide*: 1, 2, 4 … 8192,
the default. *Narrow*: 14 values within a factor of 16, where trainings from nothing differ least. Letters of fold 1 (704 words) and 20
noisy grids of 16×24 pixels with 3 labels. Target: a path costs at most 3 times that training, in processor seconds. A training that
its limit of 60 s ended is marked; the ratio is then too high.
"""
TARGET, LIMIT = 3.0, 60.0


def rows(quick: bool = False) -> list[dict[str, Any]]:
    grids = GraphModel().bind(*images(3 if quick else 20, 0))
    tasks: list[tuple[str, BoundModel | None, float, tuple[float, float]]] = [
        ("letters, fold 1", _letters(quick), 1e-2, (0.01, 0.2)),
        ("noisy grids", grids, 2e-2, (0.2, 3.0)),
    ]
    found = []
    for name, model, tol, narrow in tasks:
        if model is None:
            found.append({"data": name, "values": NO_DATA})
            continue
        BlockFrankWolfe(max_iter=2).fit(MarginObjective(model))
        for kind, values in (("wide", np.array(VALUES)), ("narrow", np.geomspace(*narrow, 14))):
            found.append(_row(name, kind, model, values[:4] if quick else values, 0.2 if quick else tol))
    return found


def _letters(quick: bool) -> BoundModel | None:
    data = letters(1)
    if data is None:
        return None
    n = 12 if quick else len(data[0])
    return GraphModel().bind(data[0][:n], data[1][:n], classes=np.arange(26))


def _row(name: str, kind: str, model: BoundModel, values: np.ndarray, tol: float) -> dict[str, Any]:
    learner = BlockFrankWolfe(tol=tol, time_limit=LIMIT)
    started = time.process_time()
    results = path(learner, MarginObjective(model), values)
    whole = time.process_time() - started
    started = time.process_time()
    alone = learner.fit(MarginObjective(model, C=float(values[-1])))
    one = time.process_time() - started
    calls = sum(result.n_oracle_calls for result in results)
    worst = max(result.relative_gap for result in results)
    return {
        "data": name,
        "values": f"{len(values)} {kind}, {values[0]:g} to {values[-1]:g}",
        "tolerance": tol,
        "largest gap": worst,
        "CPU s of the path": whole,
        "CPU s of the largest C": f"{one:.3g}" + ("" if alone.relative_gap <= tol else f" (ended at {alone.relative_gap:.2g})"),
        "ratio": whole / one,
        "oracle calls, ratio": calls / alone.n_oracle_calls,
        "target 3": verdict(whole <= TARGET * one and worst <= tol),
    }
