"""What ``fit``, ``predict``, ``evaluate`` and ``info MODEL`` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .fitting import Fitted, Plan
from .show import _count, print_rows

_MOST_CLASSES = 40  # rows of the table of classes, about a screen; the most frequent ones are shown


def fit_json(fitted: Fitted, plan: Plan, checkpoint: Path | None) -> dict[str, Any]:
    """What `fit --json` prints."""
    result = fitted.estimator.result_
    names = ("learner", "objective", "lower_bound", "gap", "relative_gap", "n_iter", "n_oracle_calls", "seconds", "message")
    return {
        "model": str(plan.out),
        "data": str(plan.data),
        "task": plan.task,
        "estimator": type(fitted.estimator).__name__,
        "C": _C(fitted.estimator),
        "n_samples": len(fitted.content.names),
        "n_weights": len(fitted.estimator.weights_),
        **{name: getattr(result, name) for name in names},
        "guarantee": str(result.guarantee),
        "termination": str(result.termination),
        "finished": not fitted.unfinished,
        "verified": None if fitted.verified is None else asdict(fitted.verified),
        "not_checked": fitted.unchecked or None,
        "checkpoint": str(checkpoint) if checkpoint is not None and fitted.unfinished else None,
        "warnings": fitted.warnings,
    }


def _C(estimator: Any) -> float:
    return float(getattr(estimator, "C_", None) or estimator.C)


def print_fit(fitted: Fitted, plan: Plan, checkpoint: Path | None) -> None:
    """A table of a training: the learner, the objective, its gap, and where the model is."""
    estimator, result = fitted.estimator, fitted.estimator.result_
    chosen = ""
    if hasattr(estimator, "C_"):
        best = float(estimator.cv_results_["mean_test_score"][estimator.Cs_ == estimator.C_][0])
        share = f"{best:.2%} right" if estimator.scoring in (None, "accuracy") else f"{estimator.scoring} {best:.4g}"
        chosen = f" by cross-validation of {len(estimator.Cs_)} values ({share} in held-out folds)"
    rows = [
        ("data", escape(f"{plan.data}: {fitted.content.words}")),
        (
            "model",
            f"{type(estimator).__name__} with {_count(len(estimator.weights_), 'weight')}, C = {_C(estimator):g}{chosen}",
        ),
        (
            "learner",
            f"{escape(result.learner)}: {_ended(result)} after {result.n_iter} {'pass' if result.n_iter == 1 else 'passes'}, {_count(result.n_oracle_calls, 'oracle call')}, {result.seconds:.3g} s",
        ),
        ("objective", f"{result.objective:.6g}"),
        ("lower bound", f"{result.lower_bound:.6g}" if result.lower_bound > -1e300 else "none"),
        ("relative gap", f"{result.relative_gap:.2g}"),
        ("certificate", _certificate(fitted)),
        ("saved as", escape(str(plan.out))),
    ]
    if checkpoint is not None and fitted.unfinished:
        rows.append(("checkpoint", escape(f"{checkpoint}; the same command with --resume goes on from it")))
    print_rows("Learned" if not fitted.unfinished else "Learned so far", rows)


def _ended(result: Any) -> str:
    return str(result.termination.replace("_", " "))


def _certificate(fitted: Fitted) -> str:
    proven = fitted.verified
    if fitted.unchecked:
        return f"not checked ({fitted.unchecked})"
    if proven is None:
        return "none: this learner proves nothing about its weights"
    return f"checked: no weights have an objective below {proven.lower_bound:.6g}; these have {proven.objective:.6g}"


def print_predicted(out: Path, words: str, proven: Mapping[str, Any] | None, file: Path | None) -> None:
    """A table of predictions: where they are, and what is proven of them."""
    rows = [("data", escape(words)), ("predictions", escape(str(out)))]
    if proven is not None:
        rows += _proven_rows(proven)
    if file is not None:
        rows.append(("certificates", escape(str(file))))
    print_rows("Predicted", rows)


def _proven_rows(proven: Mapping[str, Any]) -> list[tuple[str, str]]:
    by = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in proven["guarantees"].items())
    rows = [("proven", f"{by}, of {_count(proven['n_samples'], 'sample')}; each certificate checked")]
    worst = proven["largest"]
    if worst is not None and worst["guarantee"] != "optimal":
        rows.append(("largest gap", f"{worst['gap']:.4g} ({worst['relative_gap']:.2g} relative), {escape(worst['sample'])}"))
    return rows


def print_scores(
    found: Mapping[str, Any], proven: Mapping[str, Any] | None, words: str, title: str, per_class: bool = False
) -> None:
    """Tables of scores: of all labels, and of each class (with chunks, of each tag too where ``per_class``)."""
    names = {
        "accuracy": "labels right",
        "samples_right": "samples all right",
        "mean_iou": "mean IoU",
        "hamming_loss": "Hamming loss",
        "subset_accuracy": "samples all right",
        "micro_f1": "F1, all labels together",
        "macro_f1": "F1, mean over labels",
    }
    rows = [("data", escape(words))]
    for name, text in names.items():
        if name in found:
            rows.append((text, f"{found[name]:.4f}" if name == "hamming_loss" else f"{found[name]:.2%}"))
        if name == "accuracy" and "baseline" in found:
            same = found["baseline"]
            rows.append(("always the commonest", f"{same['accuracy']:.2%} ({escape(str(same['class']))})"))
    if "chunks" in found:
        own = found["chunks"]
        rows.append(
            ("chunks", f"F1 {own['f1']:.2%}, precision {own['precision']:.2%}, recall {own['recall']:.2%}, of {own['n_true']}")
        )
    if proven is not None:
        rows += _proven_rows(proven)
    print_rows(title, rows)
    if "chunks" in found:
        types = [{"class": name, **own} for name, own in found["chunks"]["types"].items()]
        _print_classes("Chunks", types, ("n_true", "precision", "recall", "f1"))
    if "chunks" not in found or per_class:
        columns = ("n_true", "n_predicted", "precision", "recall", "f1", *(["iou"] if "mean_iou" in found else []))
        _print_classes("Classes", found["classes"], columns)


def _print_classes(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    heads = {"n_true": "there", "n_predicted": "found", "f1": "F1", "iou": "IoU"}
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("")
    for name in columns:
        table.add_column(heads.get(name, name), justify="right")
    shown = sorted(rows, key=lambda row: -row["n_true"])[:_MOST_CLASSES] if len(rows) > _MOST_CLASSES else rows
    for row in shown:
        table.add_row(escape(str(row["class"])), *(str(row[n]) if n.startswith("n_") else f"{row[n]:.2%}" for n in columns))
    Console().print(table)
    if len(shown) < len(rows):
        Console().print(f"The {len(shown)} most frequent of {len(rows)}; --json has all.", highlight=False)


def print_model(header: Mapping[str, Any], file: Path) -> None:
    """A table of a model file, from its header alone."""
    result, notes = header["result"], header.get("notes") or {}
    objective = header["objective"]
    size = next((shape for name, _, shape in header["arrays"] if name == "weights"), [header.get("n_weights", 0)])
    settings = ", ".join(f"{name}={value}" for name, value in header["parameters"].items() if _is_plain(value))
    rows = [
        (
            "estimator",
            escape(f"{header['estimator']}, {size[0]} weights, written by maxsum {header['library']} at {header['saved']}"),
        ),
        ("trained on", escape(_trained(objective, notes))),
        ("objective", f"{_number(result['objective'])}, surrogate {objective.get('surrogate')}, C = {objective.get('C'):g}"),
        ("lower bound", _number(result["lower_bound"])),
        ("relative gap", f"{_number(result['relative_gap'])} ({escape(str(result['guarantee']).replace('_', ' '))})"),
        ("learner", escape(f"{result['learner']}: {str(result['termination']).replace('_', ' ')}, {result['n_iter']} passes")),
        ("parameters", escape(settings)),
    ]
    if notes.get("reader"):
        rows.append(("reads", escape(f"{notes.get('task')} data: {_reader(notes['reader'])}")))
    rows.append(
        ("proof", "kept: maxsum verify MODEL DATA checks it" if header.get("proof") else "not kept (fit --proof keeps it)")
    )
    print_rows(str(file), rows)


def _trained(objective: Mapping[str, Any], notes: Mapping[str, Any]) -> str:
    own = notes.get("trained_on") or {}
    words = (
        f"{own['name']}: {own['words']}" if own else f"{objective.get('n_examples')} samples, {objective.get('n_nodes')} nodes"
    )
    return f"{words}; fingerprint {str(objective.get('fingerprint', ''))[:12]}"


def _reader(settings: Mapping[str, Any]) -> str:
    parts = []
    for name, value in settings.items():
        text = str(value)
        parts.append(f"{name}={text if len(text) <= 60 else text[:57] + '...'}")
    return ", ".join(parts)


def _is_plain(value: Any) -> bool:
    return value is not None and isinstance(value, (str, int, float, bool))


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else str(value)
