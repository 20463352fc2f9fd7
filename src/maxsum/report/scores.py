"""What a reader of a report looks for first: scores of the kind of data, beside what one constant answer would reach."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from ..core.cards import percent
from ..metrics import ChunkScores, chunk_f1
from .evidence import UNSEEN, Evidence
from .page import section, table, text
from .sample import word_at

MOST_LABELS = 60_000  # nodes whose margins are asked for: a few seconds on forests
MOST_DOUBTS = 10  # rows of each table of doubts


def lead(found: Evidence) -> str:
    """What is proven, in a sentence or two that need no knowledge of certificates."""
    result = found.estimator.result_
    parts = []
    if found.training.holds is False or found.proofs.holds is False:
        return text("A proof does not hold: see below.", "poor")
    if np.isfinite(result.relative_gap):
        done = "proven" if found.training.holds else "as the training says"
        parts.append(f"No other weights have an objective that is more than {percent(result.relative_gap)} lower ({done}).")
    else:
        parts.append("Nothing is proven about how good the weights are.")
    count, best = sum(found.guarantees.values()), found.guarantees["optimal"]
    if count:
        how = "checked" if found.proofs.holds else "not checked here"
        share = "All" if best == count else f"{best} of"
        words = "The labelling is" if best == count == 1 else f"{share} {count} labelling{'s' if count > 1 else ''} are"
        parts.append(f"{words} the best that these weights have ({how}).")
    return text(" ".join(parts), "lead")


def baseline(found: Evidence) -> tuple[int, float]:
    """The commonest true class, and the share of the labels that are right if it is always given."""
    counts = found.confusion().sum(axis=1)
    return int(counts.argmax()), float(counts.max() / counts.sum())


def headline(found: Evidence) -> list[tuple[str, str]]:
    """Numbers and words of tiles: right labels, and the score that people of the trade look at, beside a constant answer."""
    shown = [(f"{100 * found.accuracy:.2f} %", f"right, of {int(found.known.sum())} known labels")]
    if found.multilabel:
        return shown + _labels_apart(found)
    commonest, share = baseline(found)
    shown.append((f"{100 * share:.2f} %", f"right by always saying {found.names[commonest]}"))
    chunks = entities(found)
    if chunks is not None:
        alone = entities(replace(found, predicted=[np.full_like(own, commonest) for own in found.predicted]))
        shown.append(
            (
                f"{chunks.f1:.2f}",
                f"F1 of {chunks.n_true} chunks; always {found.names[commonest]}: {alone.f1 if alone else 0:.2f}",
            )
        )
    elif has_pixels(found):
        iou = ious(found.confusion())
        constant = ious(_constant(found.confusion(), commonest))
        shown.append((f"{np.nanmean(iou):.3f}", f"mean IoU; always {found.names[commonest]}: {np.nanmean(constant):.3f}"))
    return shown


def _labels_apart(found: Evidence) -> list[tuple[str, str]]:
    """Of a table of labels: what is right if each label is always what it is most often, and the mean F1 of the labels."""
    truth, told = np.array(found.truth), np.array(found.predicted)
    known, there = truth >= 0, truth == 1
    often = 2 * there.sum(axis=0) > known.sum(axis=0)
    share = (known & (there == often)).sum() / known.sum()
    both, either = (known & there & (told == 1)).sum(axis=0), there.sum(axis=0) + (known & (told == 1)).sum(axis=0)
    f1 = np.divide(2.0 * both, either, out=np.zeros(len(both)), where=either > 0)
    always = np.divide(2.0 * there.sum(axis=0), there.sum(axis=0) + known.sum(axis=0), out=np.zeros(len(both)), where=often)
    some = either > 0 if either.any() else np.ones(len(f1), dtype=bool)  # labels that are there, or were given
    return [
        (f"{100 * share:.2f} %", "right by always giving what each label is most often"),
        (f"{f1[some].mean():.3f}", f"mean F1 of {some.sum()} labels; always the most frequent: {always[some].mean():.3f}"),
    ]


def has_pixels(found: Evidence) -> bool:
    """Whether the samples are images or volumes."""
    return bool(found.items) and all(item.graph.shape is not None for item in found.items)


def ious(counts: np.ndarray) -> np.ndarray:
    """Intersection over union of each class; NaN for a class that is neither true nor predicted anywhere."""
    right = np.diagonal(counts).astype(float)
    union = counts.sum(axis=0) + counts.sum(axis=1) - right
    return np.divide(right, union, out=np.full(len(right), np.nan), where=union > 0)


def _constant(counts: np.ndarray, label: int) -> np.ndarray:
    """The table of confusions of one answer for all."""
    table_ = np.zeros_like(counts)
    table_[:, label] = counts.sum(axis=1)
    return table_


def entities(found: Evidence) -> ChunkScores | None:
    """Scores of chunks where the classes are tags O, B-X, I-X, E-X of sequences; else None."""
    names = [name for name in found.names if name != UNSEEN]
    tags = [name for name in names if name != "O"]
    if found.multilabel or not found.items or len(names) != len(found.names) or not tags:
        return None
    if any(name[:2] not in ("B-", "I-", "E-") or len(name) < 3 for name in tags):
        return None
    truth = [["" if k < 0 else found.names[k] for k in own.tolist()] for own in found.truth]
    return chunk_f1(truth, [[found.names[k] for k in own.tolist()] for own in found.predicted])


def by_class(found: Evidence) -> str:
    """Chunks by type, as conlleval has them; else classes, of images with their intersection over union."""
    if not found.truth or found.multilabel:
        return ""
    chunks = entities(found)
    if chunks is not None:
        rows = [
            [
                name,
                str(own.n_true),
                str(own.n_predicted),
                str(own.n_correct),
                f"{own.precision:.2f}",
                f"{own.recall:.2f}",
                f"{own.f1:.2f}",
            ]
            for name, own in [*chunks.by_type.items(), ("all", chunks)]
        ]
        head = ["chunk", "there", "found", "right", "precision", "recall", "F1"]
        return section("Chunks", text("By the rules of conlleval; in per cent.", "soft"), table(head, rows, numbers=1))
    counts = found.confusion()
    there, told, right, iou = counts.sum(axis=1), counts.sum(axis=0), np.diagonal(counts), ious(counts)
    pixels = has_pixels(found)
    rows = []
    for k in np.argsort(-there, kind="stable")[:60].tolist():
        shares = [right[k] / n if n else None for n in (told[k], there[k])]
        both = there[k] + told[k]
        scores = [*shares, 2 * right[k] / both if both else None, *([None if np.isnan(iou[k]) else iou[k]] if pixels else [])]
        rows.append(
            [found.names[k], str(there[k]), str(told[k]), str(right[k]), *("–" if s is None else f"{s:.3f}" for s in scores)]
        )
    head = ["class", "there", "found", "right", "precision", "recall", "F1", *(["IoU"] if pixels else [])]
    return section("Classes", text("The most frequent first.", "soft"), table(head, rows, numbers=1))


def doubts(found: Evidence, X: Any) -> str:
    """The labels that the model is least sure of, and the wrong ones that it is surest of, by what another label would lose."""
    if not found.items or int(found.known.sum()) > MOST_LABELS:
        return ""
    forests = [j for j, item in enumerate(found.items) if item.graph.n_edges < max(1, item.n_nodes)]
    if len(forests) < len(found.items):
        return ""  # with cycles margins are brackets, which say less than they cost
    margins = [np.asarray(own.margin).ravel() for own in found.estimator.predict_max_marginals(X)]
    sample = np.repeat(np.arange(len(margins)), [len(own) for own in margins])
    place = np.concatenate([np.arange(len(own)) for own in margins])
    margin, truth, predicted = (np.concatenate(own) for own in (margins, found.truth, found.predicted))
    wrong = (truth != predicted) & (truth != -1)
    head = ["sample", "item", "predicted", "truth", "margin"]
    parts = []
    for words, chosen in (
        ("Least sure", np.argsort(margin, kind="stable")[:MOST_DOUBTS]),
        ("Wrong, and surest", np.flatnonzero(wrong)[np.argsort(-margin[wrong], kind="stable")[:MOST_DOUBTS]]),
    ):
        rows = [
            [
                found.title_of(int(sample[i])),
                word_at(found.items[int(sample[i])], int(place[i])),
                found.names[predicted[i]],
                "?" if truth[i] < 0 else found.names[truth[i]],
                f"{margin[i]:.3g}",
            ]
            for i in chosen.tolist()
        ]
        if rows:
            parts.append(f"<h3>{escape(words)}</h3>" + table(head, rows))
    words = "The margin is the score that the best labelling loses if this label must be another: small where the model is in doubt."
    return section("Doubts", text(words, "soft"), *parts)
