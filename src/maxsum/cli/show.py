"""Tables for people and JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..core.certificates.answers import AnswerClaims
from ..core.certificates.base import Verification
from ..core.problem import Problem
from ..core.result import Guarantee, Result

if TYPE_CHECKING:
    from ..inference.base import Support
    from .demo import Learned, NoisyImage

_COLOURS = {
    Guarantee.optimal: "green",
    Guarantee.within_gap: "yellow",
    Guarantee.infeasible: "red",
}


# ---- JSON ------------------------------------------------------------------------------------------------------


def print_json(content: Mapping[str, Any]) -> None:
    """One object on stdout, valid JSON whatever the numbers are."""
    print(json.dumps(_plain(content), allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _sizes(problem: Problem) -> dict[str, Any]:
    return {
        "n_nodes": problem.n_nodes,
        "n_edges": problem.n_edges,
        "n_labels": problem.n_labels,
        "n_tables": len(problem.tables),
        "n_cliques": len(problem.cliques),
        "n_factors": len(problem.factors),
    }


def _facts(result: Result) -> dict[str, Any]:
    return {
        "solver": result.solver,
        "score": float(result.score),
        "bound": float(result.bound),
        "gap": float(result.gap),
        "relative_gap": float(result.relative_gap),
        "guarantee": str(result.guarantee),
        "termination": str(result.termination),
        "message": result.message,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
    }


def result_json(problem: Problem, result: Result, file: Path, costs: bool = False) -> dict[str, Any]:
    """What `solve --json` prints; for a file of costs also the cost and a lower bound on it."""
    own = {"cost": 0.0 - float(result.score), "cost_bound": 0.0 - float(result.bound)} if costs else {}
    return {"file": str(file), "problem": _sizes(problem), **own, **_facts(result), "labels": result.labels}


def verification_json(claim: AnswerClaims, proven: Verification | None, fault: str, file: Path, answer: Path) -> dict[str, Any]:
    """What `verify --json` prints: the claims, and what was proven or is wrong."""
    return {
        "file": str(file),
        "answer": str(answer),
        "holds": proven is not None,
        "fault": fault or None,
        "claimed": {
            "score": float(claim.score),
            "bound": float(claim.bound),
            "guarantee": claim.guarantee,
            "solver": claim.solver,
        },
        "proven": None if proven is None else {**asdict(proven), "statement": statement(proven)},
    }


def info_json(problem: Problem, solvers: Mapping[str, Support], file: Path, costs: bool = False) -> dict[str, Any]:
    """What `info --json` prints: sizes, structure, and which solvers take the problem."""
    facts = asdict(problem.structure())
    return {
        "file": str(file),
        "costs": costs,
        "problem": _sizes(problem),
        "structure": facts,
        "solvers": {name: {"ok": support.ok, "reason": support.reason or None} for name, support in solvers.items()},
    }


class Demo(NamedTuple):
    """All that ``maxsum demo`` has to show."""

    image: NoisyImage
    learned: Learned
    pixel_labels: np.ndarray
    problem: Problem
    result: Result
    verified: Verification | None
    out: Path


def demo_json(demo: Demo) -> dict[str, Any]:
    """What `demo --json` prints."""
    return {
        "learning": _learning_facts(demo.learned),
        "problem": _sizes(demo.problem),
        **_facts(demo.result),
        "accuracy": demo.image.accuracy(demo.result.labels),
        "pixelwise_accuracy": demo.image.accuracy(demo.pixel_labels),
        "verified": None if demo.verified is None else asdict(demo.verified),
        "picture": None if demo.result.labels is None else str(demo.out),
    }


def _learning_facts(learned: Learned) -> dict[str, Any]:
    result = learned.net.result_
    names = ("learner", "objective", "lower_bound", "gap", "relative_gap", "n_iter", "n_oracle_calls", "seconds", "message")
    return {
        "n_examples": learned.n_training,
        "n_weights": len(learned.net.weights_),
        **{name: getattr(result, name) for name in names},
        "guarantee": str(result.guarantee),
        "termination": str(result.termination),
        "verified": None if learned.verified is None else asdict(learned.verified),
        "not_checked": learned.unchecked or None,
    }


# ---- tables ----------------------------------------------------------------------------------------------------


def statement(proven: Verification) -> str:
    """What is proven, in one sentence."""
    if proven.infeasible:
        return "no labelling satisfies the hard constraints"
    if proven.optimal:
        return "the labelling is optimal"
    if math.isfinite(proven.gap):
        return f"no labelling is better by more than {proven.gap:.6g}"
    if math.isfinite(proven.bound):
        return f"no labelling scores more than {proven.bound:.10g}"
    return "the score of the labelling, and no bound" if math.isfinite(proven.score) else "nothing"


def print_rows(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """A table of names and values under a title."""
    table = Table(title=escape(title), title_justify="left", title_style="bold", show_header=False, box=SIMPLE_HEAD)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)


def _line(problem: Problem) -> str:
    counts = [(problem.n_nodes, "node"), (problem.n_edges, "edge"), (problem.n_labels, "label")]
    if len(problem.cliques):
        counts.append((len(problem.cliques), "clique"))
    if len(problem.factors):
        counts.append((len(problem.factors), "factor"))
    return ", ".join(_count(*count) for count in counts)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _coloured(guarantee: Guarantee) -> str:
    colour = _COLOURS.get(guarantee, "default")
    return f"[{colour}]{guarantee.replace('_', ' ')}[/]"


def _time(result: Result) -> str:
    return f"{result.seconds:.3g} s" if result.seconds < 10 else f"{result.seconds:.1f} s"


def print_result(problem: Problem, result: Result, file: Path, costs: bool = False) -> None:
    """A table of an answer; ``costs`` shows minimised costs in place of scores."""
    rows = [("problem", _line(problem)), ("solver", escape(result.solver))]
    if costs:
        rows += [("cost", f"{0.0 - result.score:.10g}"), ("lower bound", f"{0.0 - result.bound:.10g}")]
    else:
        rows += [("score", f"{result.score:.10g}"), ("bound", f"{result.bound:.10g}")]
    rows += [
        ("gap", f"{result.gap:.6g}"),
        ("relative gap", f"{result.relative_gap:.3g}"),
        ("guarantee", _coloured(result.guarantee)),
        ("termination", result.termination.replace("_", " ")),
        ("time", _time(result)),
        ("message", escape(result.message)),
    ]
    print_rows(str(file), rows)


def print_verification(claim: AnswerClaims, proven: Verification | None, fault: str, costs: bool = False) -> None:
    """A table of claims and of what was proven, or the fault."""
    rows = [
        ("claimed by", escape(claim.solver)),
        ("claimed score", f"{claim.score:.10g}"),
        ("claimed bound", f"{claim.bound:.10g}"),
        *([] if claim.guarantee is None else [("claim", claim.guarantee.replace("_", " "))]),
    ]
    if proven is None:
        rows.append(("[red]refuted[/]", escape(fault)))
    else:
        rows.append(("proven score", f"{proven.score:.10g}"))
        if costs:
            rows.append(("proven cost", f"{0.0 - proven.score:.10g}"))
        rows += [("proven bound", f"{proven.bound:.10g}"), ("[green]proven[/]", statement(proven))]
    print_rows("The claims hold" if proven is not None else "A claim does not hold", rows)


def print_info(problem: Problem, solvers: Mapping[str, Support], file: Path, costs: bool = False) -> None:
    """A table of a problem's sizes and structure, and one of the solvers that take it."""
    facts = problem.structure()
    states = problem.n_states
    spread = "" if not len(states) or states.min() == states.max() else f" (from {states.min()} to {states.max()} a node)"
    rows = [
        ("nodes", f"{facts.n_nodes} in {_count(facts.n_components, 'component')}"),
        ("edges", f"{facts.n_edges} with {_count(len(problem.tables), 'table')}"),
        ("labels", f"{facts.n_labels}{spread}"),
        ("cliques", f"{facts.n_cliques}"),
        ("factors", f"{len(problem.factors)}"),
        ("numbers", "costs, minimised (score = -cost)" if costs else "scores, maximised"),
        ("forest", _yes(facts.forest)),
        ("supermodular", "yes" if facts.supermodular else f"no: {facts.witness}"),
        ("associative", _yes(facts.associative) + (" (Potts)" if facts.potts and facts.n_edges else "")),
        ("hard constraints", _yes(facts.hard)),
        ("width", "above what is tried" if facts.width is None else f"at most {facts.width}"),
    ]
    print_rows(str(file), rows)
    table = Table(box=SIMPLE_HEAD, title="Solvers", title_justify="left", title_style="bold")
    for heading in ("name", "takes it", "why not"):
        table.add_column(heading, overflow="fold")
    for name, support in solvers.items():
        table.add_row(name, "[green]yes[/]" if support.ok else "no", escape(support.reason))
    Console().print(table)


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def print_demo(demo: Demo) -> None:
    """Tables of the demonstration: what was learned, what was found, and the pictures."""
    learned, proven = demo.learned.net.result_, demo.learned.verified
    rows = [
        ("training", f"{demo.learned.n_training} images, {_count(len(demo.learned.net.weights_), 'weight')}"),
        ("learner", f"{escape(learned.learner)}, {_count(learned.n_oracle_calls, 'oracle call')}"),
        ("objective", f"{learned.objective:.6g}"),
        ("lower bound", f"{learned.lower_bound:.6g}"),
        ("relative gap", f"{learned.relative_gap:.2g}"),
        ("time", f"{learned.seconds:.3g} s"),
        (
            "certificate",
            f"not checked ({demo.learned.unchecked})"
            if proven is None
            else f"checked: no weights have an objective below {proven.lower_bound:.6g}; these have {proven.objective:.6g}",
        ),
    ]
    print_rows("Weights, learned from noisy images", rows)
    result = demo.result
    rows = [
        ("problem", _line(demo.problem)),
        ("solver", escape(result.solver)),
        ("score", f"{result.score:.10g}"),
        ("bound", f"{result.bound:.10g}"),
        ("gap", f"{result.gap:.3g}"),
        ("guarantee", _coloured(result.guarantee)),
        ("time", _time(result)),
        ("certificate", "none" if demo.verified is None else f"checked: {statement(demo.verified)}"),
        (
            "pixels right",
            f"{_share(demo.image, demo.pixel_labels)} pixel by pixel, {_share(demo.image, result.labels)} with neighbours",
        ),
    ]
    if result.labels is not None:
        rows.append(("picture", escape(str(demo.out))))
    print_rows("A new image, cleaned", rows)


def _share(image: NoisyImage, labels: np.ndarray | None) -> str:
    accuracy = image.accuracy(labels)
    return "none" if accuracy is None else f"{accuracy:.1%}"
