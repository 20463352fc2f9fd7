"""``maxsum predict``: labels of new data, and what is proven about each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.files.store import atomic
from ..core.result import Result
from .forms import Content, Form


class Predicted(NamedTuple):
    """Labels in the form of the estimator, and a record a sample of what is proven (None: nobody asked)."""

    labels: Any
    facts: list[dict[str, Any]] | None


def predict(estimator: Any, form: Form, content: Content, certificate: bool, solver: str | None, keep: bool) -> Predicted:
    """Labels of all samples; with ``certificate`` each proof is checked without the solvers."""
    options: dict[str, Any] = {}
    if keep:
        if form.task != "graph":
            raise InvalidParameterError(
                f"--keep-known is for graphs, where labels of some nodes are known; these are {form.task} data."
            )
        form.keeps_known = True  # type: ignore[attr-defined]
        if content.y is not None:
            options["observed"] = content.y
    if solver is not None:
        from .common import known_solver

        solver = known_solver(solver)
        if form.task == "multilabel":
            estimator.set_params(solver=solver)
        else:
            options["solver"] = solver
    if not certificate:
        return Predicted(estimator.predict(content.X, **options), None)
    results = estimator.predict_result(content.X, **options)
    problems = _problems(estimator, content.X, options.get("observed"))
    facts = [_fact(name, problem, result) for name, problem, result in zip(content.names, problems, results, strict=True)]
    return Predicted(_labels(estimator, content.X, results), facts)


def _problems(estimator: Any, X: Any, observed: Any) -> Any:
    if hasattr(estimator, "problems"):
        return estimator.problems(X) if observed is None else estimator.problems(X, observed)
    return estimator.model_.problems(estimator.weights_, estimator._new(X))


def _labels(estimator: Any, X: Any, results: Sequence[Result]) -> Any:
    """Labels of results as ``predict`` gives them."""
    for j, result in enumerate(results):
        if result.labels is None:
            raise InvalidSampleError(f"sample {j} has no labelling ({result.message}).")
    if hasattr(estimator, "graph_"):
        labels = np.array([result.labels for result in results])
        return estimator._in_form(labels)
    found = []
    for sample, result in zip(estimator._new(X), results, strict=True):
        own = estimator._outside(sample, result.labels)
        found.append(own if sample.graph.shape is None else own.reshape(sample.graph.shape))
    return found


def _fact(name: str, problem: Any, result: Result) -> dict[str, Any]:
    """What a certificate proves, recomputed; without one the score alone."""
    if result.certificate is None:
        score, bound, gap, guarantee = result.score, np.inf, np.inf, "feasible"
    else:
        proven = result.certificate.verify(problem, result.labels)
        score, bound, gap = proven.score, proven.bound, proven.gap
        guarantee = "optimal" if proven.optimal else "within_gap" if np.isfinite(gap) else "feasible"
    scale = max(abs(score), abs(bound))
    relative = 0.0 if gap == 0 else gap / scale if np.isfinite(scale) and scale > 0 else np.inf
    return {
        "sample": name,
        "score": float(score),
        "bound": float(bound),
        "gap": float(gap),
        "relative_gap": float(relative),
        "guarantee": guarantee,
        "solver": result.solver,
    }


def summary(facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts by guarantee, and the largest gap."""
    gaps = [fact["gap"] for fact in facts]
    worst = max(facts, key=lambda fact: fact["gap"], default=None)
    return {
        "n_samples": len(facts),
        "guarantees": dict(Counter(fact["guarantee"] for fact in facts).most_common()),
        "total_gap": float(np.sum([gap for gap in gaps if np.isfinite(gap)])) if facts else 0.0,
        "largest": worst,
    }


def write_facts(path: Path, facts: Sequence[dict[str, Any]], plain: Any) -> None:
    """A line of JSON a sample."""
    text = "".join(json.dumps(plain(fact), allow_nan=False) + "\n" for fact in facts)

    def fill(file: BinaryIO) -> None:
        file.write(text.encode("utf-8"))

    atomic(path, None, fill)


def check_target(out: Path, data: Path, form: Form) -> None:
    """Refuse to write over what was given."""
    for own in form.inputs(data):
        if out.exists() and own.exists() and out.samefile(own):
            raise InvalidParameterError(f"predictions would replace {own}; name another place with --out.")
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(2, "the folder does not exist; make it first", str(out.absolute().parent))
    if form.task != "image" and out.is_dir():
        raise InvalidParameterError(f"{out} is a folder, wanted the name of a file.")
    if form.task == "image" and out.is_file():
        raise InvalidParameterError(f"{out} is a file, wanted the name of a folder for the label images.")
