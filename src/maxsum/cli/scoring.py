"""``maxsum evaluate``: how often predictions are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError
from .forms import Content, Form


def scores(form: Form, content: Content, labels: Any) -> dict[str, Any]:
    """The usual numbers of a task, fit for JSON; shares are from 0 to 1."""
    if content.y is None:
        raise InvalidSampleError("the data have no labels to compare with; `maxsum predict` labels them.")
    if form.task == "multilabel" and np.ndim(content.y) == 2:
        return _several(form, np.asarray(content.y), np.asarray(labels))
    if form.task == "multilabel":
        truth, found = [np.asarray(content.y)], [np.asarray(labels)]
    else:
        truth, found = [_flat(own) for own in content.y], [_flat(own) for own in labels]
    return _nodes(form, truth, found)


def _flat(labels: Any) -> np.ndarray:
    if isinstance(labels, np.ndarray):
        return labels.reshape(-1)
    own = np.empty(len(labels), dtype=object)
    own[:] = labels
    return own


def _nodes(form: Form, truth: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> dict[str, Any]:
    known = [np.array([label is not None and label != -1 for label in own.tolist()], dtype=bool) for own in truth]
    right = [own == guess for own, guess in zip(truth, found, strict=True)]
    n_known = int(sum(own.sum() for own in known))
    if not n_known:
        raise InvalidSampleError("no label of the data is known, so there is nothing to compare.")
    n_right = int(sum((own & shown).sum() for own, shown in zip(right, known, strict=True)))
    result: dict[str, Any] = {"n_labels": n_known, "accuracy": n_right / n_known}
    labels = [label for own, shown in zip(truth, known, strict=True) for label in own[shown].tolist()]
    commonest, count = Counter(labels).most_common(1)[0]
    result["baseline"] = {"class": form.class_name(commonest), "accuracy": count / n_known}
    if len(truth) > 1 and form.task != "image":
        whole = [bool(own[shown].all()) for own, shown in zip(right, known, strict=True) if shown.any()]
        result["samples_right"] = float(np.mean(whole))
    a = np.concatenate([own[shown] for own, shown in zip(truth, known, strict=True)])
    b = np.concatenate([own[shown] for own, shown in zip(found, known, strict=True)])
    result["classes"] = _classes(form, a.tolist(), b.tolist())
    if form.task == "image":
        result["mean_iou"] = float(np.mean([own["iou"] for own in result["classes"]]))
    if form.task == "sequence" and _is_iob({*a.tolist(), *b.tolist()}):
        from ..metrics import chunk_f1

        chunks = chunk_f1([own.tolist() for own in truth], [own.tolist() for own in found])
        result["chunks"] = {
            "precision": chunks.precision / 100,
            "recall": chunks.recall / 100,
            "f1": chunks.f1 / 100,
            "n_true": chunks.n_true,
            "n_predicted": chunks.n_predicted,
            "types": {
                name: {"precision": own.precision / 100, "recall": own.recall / 100, "f1": own.f1 / 100, "n_true": own.n_true}
                for name, own in chunks.by_type.items()
            },
        }
    return result


def _classes(form: Form, truth: list[Any], found: list[Any]) -> list[dict[str, Any]]:
    names = sorted({*truth, *found}, key=lambda label: (isinstance(label, str), label))
    place = {name: k for k, name in enumerate(names)}
    size = len(names)
    counts = np.bincount(
        [size * place[t] + place[p] for t, p in zip(truth, found, strict=True)], minlength=size * size
    ).reshape(size, size)
    rows = []
    for k, name in enumerate(names):
        rows.append({"class": form.class_name(name), **_shares(counts[k, k], counts[k].sum(), counts[:, k].sum())})
    return rows


def _shares(right: Any, n_true: Any, n_found: Any) -> dict[str, Any]:
    """Counts of one class, and what follows from them; shares of nothing are 0."""
    right, n_true, n_found = int(right), int(n_true), int(n_found)
    either = n_true + n_found - right
    return {
        "n_true": n_true,
        "n_predicted": n_found,
        "precision": right / n_found if n_found else 0.0,
        "recall": right / n_true if n_true else 0.0,
        "f1": 2 * right / (n_true + n_found) if n_true + n_found else 0.0,
        "iou": right / either if either else 0.0,
    }


def _several(form: Form, truth: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    names = form.settings["label_names"]
    rows = [
        {"class": name, **_shares((t & p).sum(), t.sum(), p.sum())}
        for name, t, p in zip(names, truth.T.astype(bool), found.T.astype(bool), strict=True)
    ]
    total = _shares((truth & found).sum(), truth.sum(), found.sum())
    return {
        "n_labels": int(truth.size),
        "hamming_loss": float((truth != found).mean()),
        "subset_accuracy": float((truth == found).all(axis=1).mean()),
        "micro_f1": total["f1"],
        "macro_f1": float(np.mean([row["f1"] for row in rows])),
        "classes": rows,
    }


def _is_iob(tags: set[Any]) -> bool:
    """Whether tags are of chunks: O, and B-, I- or E- with a type."""
    shapes = [isinstance(tag, str) and (tag == "O" or (tag[:2] in ("B-", "I-", "E-") and len(tag) > 2)) for tag in tags]
    return all(shapes) and any(tag != "O" for tag in tags)
