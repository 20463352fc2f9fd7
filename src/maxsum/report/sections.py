"""The sections of a report."""

from __future__ import annotations

import inspect
import platform
import re
import sys
from dataclasses import fields, is_dataclass
from html import escape
from importlib import metadata
from typing import Any

import numpy as np

from ..core.cards import duration, gap_words, number, percent, proven
from ..core.errors import InvalidParameterError, InvalidSampleError
from ..estimators.settings import problem_words
from ..plotting import plot_convergence, plot_pairwise
from .evidence import Evidence, Verdict
from .page import facts, picture, section, table, text
from .sample import show
from .scores import headline, lead

_PACKAGES = ("maxsum", "numpy", "scipy", "scikit-learn", "highspy", "piqp", "matplotlib")
_PRIVATE = ("checkpoint", "callback")
_MOST_CLASSES = 30  # rows of the table of confusions; the most frequent classes are shown
_MOST_WEIGHTS = 20  # rows of a table of weights; the largest are shown
_NO_DATA = "Needs samples with labels to compare with: give them to write_report, or DATA to maxsum report."


def tiles(found: Evidence) -> str:
    """The numbers to see first."""
    result = found.estimator.result_
    whole = int(((found.wrong == 0) & (found.known > 0)).sum())
    gap = percent(result.relative_gap) if np.isfinite(result.relative_gap) else "none"
    shown = []
    if found.truth:
        shown += [*headline(found), (f"{whole} of {int((found.known > 0).sum())}", "samples without a wrong label")]
    shown += [
        (gap, "proven gap of the training" if gap != "none" else "bound proven in training"),
        (duration(result.seconds), f"training, {result.n_oracle_calls} oracle calls"),
    ]
    inside = "".join(f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in shown)
    return (
        text(f"{type(found.estimator).__name__}: {problem_words(found.estimator)}", "soft")
        + lead(found)
        + f'<div class="tiles">{inside}</div>'
    )


def certificate(found: Evidence) -> str:
    """What is proven about training and predictions."""
    result = found.estimator.result_
    exact = str(result.oracle_guarantee) == "optimal"
    training = [
        ("guarantee", proven(result.guarantee, result.relative_gap)[1]),
        ("objective", number(result.objective) + ("" if exact else " or less")),
        ("lower bound", number(result.lower_bound)),
        ("gap", gap_words(result.gap, result.relative_gap)),
        (
            "ended",
            f"{result.learner}: {result.termination.replace('_', ' ')} after {result.n_iter} iteration{'s' if result.n_iter != 1 else ''}",
        ),
        ("in words", result.message),
    ]
    words = "The weights minimise the objective up to the gap: no weights have a value below the lower bound."
    if not np.isfinite(result.lower_bound):
        words = "No lower bound is known, so other weights may have a much smaller objective."
    count = sum(found.guarantees.values())
    by = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in sorted(found.guarantees.items(), key=lambda item: -item[1]))
    finite = found.gaps[np.isfinite(found.gaps)]
    predictions = [
        ("guarantee", f"{by}, of {count}"),
        ("gaps", f"{finite.sum():.3g} in all, {finite.max():.3g} at most" if len(finite) else "none"),
    ]
    learned = ["<h3>Training</h3>", text(words, "soft"), facts(training), _verdict(found.training)]
    if not found.truth:
        return section("What is proven", *learned)
    return section(
        "What is proven",
        *learned,
        "<h3>Predictions</h3>",
        text("Each labelling of predict_result scores at least the best possible score less its gap.", "soft"),
        facts(predictions),
        _verdict(found.proofs),
    )


def _verdict(verdict: Verdict) -> str:
    sign, kind = {True: ("✓", "good"), False: ("✗ does not hold:", "poor"), None: ("–", "soft")}[verdict.holds]
    return text(f"{sign} {verdict.words}", kind)


def convergence(found: Evidence) -> str:
    """How the training went."""
    result = found.estimator.result_
    words = "Objective and bound close in on the optimum; the relative gap is what is not proven yet."
    if not np.isfinite(result.lower_bound):
        words = "This learner proves no bound; the objective alone is drawn."
    return section(
        "Convergence",
        text(words, "soft"),
        picture(lambda ax: plot_convergence(result, ax=ax), "objective, bound and gap of the training"),
    )


def weights(found: Evidence) -> str:
    """Pairwise tables, and the largest weights of nodes."""
    estimator = found.estimator
    parts = []
    try:
        parts.append(picture(lambda ax: plot_pairwise(estimator, classes=_pair_names(found), ax=ax), "pairwise weights"))
    except (InvalidParameterError, InvalidSampleError) as error:
        parts.append(text(str(error), "soft"))
    names, values = _node_weights(found)
    order = np.argsort(-np.abs(values), kind="stable")[:_MOST_WEIGHTS]
    order = order[values[order] != 0]
    if len(order):
        top = np.abs(values[order]).max()
        lines = "".join(
            f'<tr><th>{escape(names[p])}</th><td class="n">{values[p]:.4g}</td><td class="bar">'
            f'<i class="{"minus" if values[p] < 0 else "plus"}" style="width:{100 * abs(values[p]) / top:.1f}%"></i></td></tr>'
            for p in order.tolist()
        )
        parts.append(
            "<h3>Largest weights of nodes</h3>"
            + text(f"{len(order)} of {int(np.count_nonzero(values))} that are not 0; feature, then class.", "soft")
            + f'<div class="scroll"><table><tbody>{lines}</tbody></table></div>'
        )
    return section("Weights", *parts)


def _pair_names(found: Evidence) -> list[str] | None:
    own = found.estimator.classes_
    return None if isinstance(own, list) else found.names[: len(own)]


def _node_weights(found: Evidence) -> tuple[list[str], np.ndarray]:
    """Names and values of the weights of nodes."""
    estimator = found.estimator
    if hasattr(estimator, "graph_"):
        node = estimator.coef_blocks_["nodes"]
        features = [str(name) for name in getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(node.shape[1])])]
        labels = found.names[: len(node)] if len(node) > 1 else found.names[-1:]
        return [f"{feature}, {label}" for label in labels for feature in features], node.ravel()
    own = [
        (name, value)
        for name, value in zip(estimator.weight_names_, estimator.weights_.tolist(), strict=True)
        if name[:1] == "q"
    ]
    return [_spoken(name) for name, _ in own], np.array([value for _, value in own])


def _spoken(name: str) -> str:
    """``q[type 0](x1, a)`` as feature, class, and where."""
    parts = re.fullmatch(r"q(?:\[([^\]]*)\])?\((.*)\)( \.\.\.)?", name, re.DOTALL)
    if parts is None:
        return name
    return parts[2] + (parts[3] or "") + (f" ({parts[1]})" if parts[1] else "")


def confusion(found: Evidence) -> str:
    """Which classes are mistaken for which."""
    if not found.truth:
        return section("Confusion", text(_NO_DATA, "soft"))
    counts = found.confusion()
    if found.multilabel:
        rows = [_label_row(name, own) for name, own in zip(found.names, counts, strict=True)]
        head = ["label", "there", "found", "right", "missed", "made up", "precision", "recall", "F1"]
        return section("Labels", text("Of the samples where a label is known.", "soft"), table(head, rows, numbers=1))
    names = found.names
    words = "True classes are rows, predicted ones columns; a stronger colour is a larger share of the row."
    if len(names) > _MOST_CLASSES:
        kept = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:_MOST_CLASSES])
        words += f" The {len(kept)} most frequent of {len(names)} classes; all others together are the last."
        rest = np.setdiff1d(np.arange(len(names)), kept)
        counts = np.block(
            [
                [counts[np.ix_(kept, kept)], counts[np.ix_(kept, rest)].sum(axis=1, keepdims=True)],
                [counts[np.ix_(rest, kept)].sum(axis=0, keepdims=True), counts[np.ix_(rest, rest)].sum(keepdims=True)],
            ]
        )
        names = [*(names[k] for k in kept), "(others)"]
    return section("Confusion", text(words, "soft"), _heat(names, counts))


def _label_row(name: str, own: np.ndarray) -> list[str]:
    right, missed, extra = int(own[1, 1]), int(own[1, 0]), int(own[0, 1])
    shares = [right / n if n else None for n in (right + extra, right + missed)]
    f1 = 2 * right / (2 * right + missed + extra) if right + missed + extra else None
    return [
        name,
        *(str(n) for n in (right + missed, right + extra, right, missed, extra)),
        *("–" if s is None else f"{s:.3f}" for s in (*shares, f1)),
    ]


def _heat(names: list[str], counts: np.ndarray) -> str:
    total = counts.sum(axis=1)
    head = "".join(f'<th class="v"><span>{escape(name)}</span></th>' for name in names)
    lines = []
    for k, name in enumerate(names):
        share = counts[k] / max(int(total[k]), 1)
        cells = "".join(
            f'<td{" class=right" if m == k else ""} style="background:rgba(var(--heat),{0.55 * share[m]:.3f})">{int(counts[k, m]) or ""}</td>'
            for m in range(len(names))
        )
        lines.append(
            f'<tr><th>{escape(name)}</th>{cells}<td class="n">{int(total[k])}</td><td class="n">{f"{100 * share[k]:.1f} %" if total[k] else "–"}</td></tr>'
        )
    return (
        f'<div class="scroll"><table class="heat{" dense" if len(names) > 12 else ""}"><thead><tr><th></th>{head}<th class="v"><span>all</span></th>'
        f'<th class="v"><span>right</span></th></tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def examples(found: Evidence, most: int) -> str:
    """The samples with the most wrong labels."""
    if not found.truth:
        return section("Samples with the most wrong labels", text(_NO_DATA, "soft"))
    order = np.argsort(-found.wrong, kind="stable")[:most]
    order = order[found.wrong[order] > 0]
    if not len(order):
        words = "No label is wrong." if not found.wrong.any() else "Not asked for."
        return section("Samples with the most wrong labels", text(words))
    n_wrong = int((found.wrong > 0).sum())
    parts = [text(f"{len(order)} of {n_wrong} sample{'s' if n_wrong > 1 else ''} with wrong labels.", "soft")]
    for j in order.tolist():
        parts.append(
            f"<h3>Sample {escape(found.title_of(j))}: {int(found.wrong[j])} of {int(found.known[j])} labels wrong</h3>"
            + show(found, j)
        )
    return section("Samples with the most wrong labels", *parts)


def environment(found: Evidence) -> str:
    """Parameters and versions."""
    estimator = found.estimator
    defaults = {name: own.default for name, own in inspect.signature(type(estimator).__init__).parameters.items()}
    changed = [
        (name, _value(value))
        for name, value in estimator.get_params(deep=False).items()
        if name not in _PRIVATE and not _same(value, defaults.get(name))
    ]
    versions = [("Python", platform.python_version()), ("system", f"{platform.system()} on {platform.machine()}")]
    for name in _PACKAGES:
        if name.replace("scikit-learn", "sklearn") in sys.modules:
            versions.append((name, metadata.version(name)))
    words = (
        text("Parameters that are not at their default:", "soft")
        if changed
        else text("All parameters are at their default.", "soft")
    )
    return section("How it was made", words, facts(changed) if changed else "", "<h3>Versions</h3>", facts(versions))


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value is default or value == default)
    except ValueError:
        return False


def _value(value: Any) -> str:
    """A parameter in a line; records without what is private in them, functions and paths by their kind alone."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = [own for own in fields(value) if own.init and own.name not in _PRIVATE]
        changed = [(own.name, getattr(value, own.name)) for own in inner if not _same(getattr(value, own.name), own.default)]
        return f"{type(value).__name__}({', '.join(f'{name}={_value(own)}' for name, own in changed)})"
    if isinstance(value, (str, int, float, bool, list, tuple, dict, np.ndarray)):
        shown = " ".join(repr(value).split())
        return shown if len(shown) <= 120 else shown[:119] + "…"
    return type(value).__name__
