"""One sample of a report: its true labels beside the predicted ones."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ..models.sample import GraphSample
from ..plotting import plot_graph, plot_labelling
from ..plotting.canvas import canvas, quiet
from ..plotting.labelling import as_colours
from .evidence import Evidence
from .page import picture, text

_WORDS = ("word", "w", "w[0]", "0[0]", "token", "form", "text")
_LONGEST = 120  # items of a sequence that a page shows
_MOST_NODES = 400  # nodes of a graph whose drawing can be read


def show(found: Evidence, j: int) -> str:
    """A sample: a picture of an image or a graph, a table of a sequence, or sets of labels."""
    truth, predicted = found.truth[j], found.predicted[j]
    if found.multilabel:
        return _sets(found.names, truth, predicted)
    if not found.items:
        return text(f"{found.names[truth[0]]}, taken for {found.names[predicted[0]]}.")
    sample: GraphSample = found.items[j]
    graph = sample.graph
    if graph.shape is not None and graph.n_nodes > 1:
        return picture(lambda ax: _image(found, sample, truth, predicted, ax), f"sample {j}: image, truth and prediction")
    if np.array_equal(graph.edges, np.stack([np.arange(graph.n_nodes - 1), np.arange(1, graph.n_nodes)], axis=1)):
        return _sequence(found.names, sample, truth, predicted)
    if graph.n_nodes > _MOST_NODES:
        return text(f"A graph of {graph.n_nodes} nodes and {graph.n_edges} edges: too large to draw here.", "soft")
    return picture(lambda ax: _graph(found, sample, truth, predicted, ax), f"sample {j}: truth and prediction")


def _image(found: Evidence, sample: GraphSample, truth: np.ndarray, predicted: np.ndarray, ax: Any) -> Any:
    sides = sample.graph.shape or (1, 1)
    shown = sample.X.toarray() if hasattr(sample.X, "toarray") else sample.X
    pixels, truth, predicted = _layer(sides, np.asarray(shown), truth, predicted)
    tall = float(np.clip(3.0 * pixels.shape[0] / max(1, pixels.shape[1]), 1.2, 6.0))
    axes = canvas(ax, 1, 3, (10.4, tall + 0.4))[0]
    axes[0].imshow(as_colours(pixels)[0], interpolation="nearest", cmap="gray")
    axes[0].set_title("image", fontsize="medium")
    quiet(axes[0])
    names = list(range(len(found.names)))
    plot_labelling(pixels, truth, classes=names, ax=axes[1])
    plot_labelling(pixels, predicted, classes=names, marked=_wrong(truth, predicted), ax=axes[2])
    _finish(axes[1:], found, truth, predicted)
    return axes


def _layer(
    sides: tuple[int, ...], x: np.ndarray, truth: np.ndarray, predicted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An image, its truth and its prediction, flat; of a volume the layer with most wrong labels."""
    flat = (-1, *(1, 1, *sides)[-2:])
    wrong = _wrong(truth, predicted).reshape(flat).sum(axis=(1, 2))
    layer = int(wrong.argmax()) if len(wrong) else 0
    return x.reshape(*flat, *x.shape[1:])[layer], truth.reshape(flat)[layer].ravel(), predicted.reshape(flat)[layer].ravel()


def _graph(found: Evidence, sample: GraphSample, truth: np.ndarray, predicted: np.ndarray, ax: Any) -> Any:
    axes = canvas(ax, 1, 2, (10.4, 4.2))[0]
    names = list(range(len(found.names)))
    plot_graph(sample, truth, classes=names, ax=axes[0])
    plot_graph(sample, predicted, classes=names, marked=_wrong(truth, predicted), ax=axes[1])
    _finish(axes, found, truth, predicted)
    return axes


def _wrong(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    wrong: np.ndarray = (truth != predicted) & (truth != -1)
    return wrong


def _finish(axes: Any, found: Evidence, truth: np.ndarray, predicted: np.ndarray) -> None:
    """Titles, and one legend with the names of the classes of both panels."""
    from ..plotting.classes import legend, short

    handles: dict[str, Any] = {}
    for axis, title in zip(axes, ("truth", f"predicted, {int(_wrong(truth, predicted).sum())} wrong"), strict=True):
        axis.set_title(title, fontsize="medium")
        box = axis.get_legend()
        if box is not None:
            for handle, words in zip(box.legend_handles, box.get_texts(), strict=True):
                handles.setdefault(words.get_text(), handle)
            box.remove()
    order = sorted(handles, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0))
    for name in order:
        handles[name].set_label(short(found.names[int(name)]) if name.isdigit() else "wrong" if name == "marked" else name)
    legend(axes[-1], [handles[name] for name in order])


def _sequence(names: list[str], sample: GraphSample, truth: np.ndarray, predicted: np.ndarray) -> str:
    rows: list[list[str]] = [["item"], ["truth"], ["predicted"]]
    wrong = _wrong(truth, predicted)
    for i in range(min(sample.n_nodes, _LONGEST)):
        kind = ' class="wrong"' if wrong[i] else ""
        word = word_at(sample, i)
        true = "?" if truth[i] < 0 else names[truth[i]]
        for row, cell in zip(rows, (word, true, names[predicted[i]]), strict=True):
            row.append(f"<td{kind}>{escape(cell)}</td>")
    lines = "".join(f"<tr><th>{row[0]}</th>{''.join(row[1:])}</tr>" for row in rows)
    more = text(f"The first {_LONGEST} of {sample.n_nodes} items.", "soft") if sample.n_nodes > _LONGEST else ""
    return f'<div class="scroll"><table class="items"><tbody>{lines}</tbody></table></div>{more}'


def word_at(sample: GraphSample, i: int) -> str:
    """What stands for an item of a sample: its word, or its number."""
    return _word(sample.X[i]) if isinstance(sample.X, list) else str(i)


def _word(features: Mapping[Any, Any]) -> str:
    """What stands for an item: its feature that is called a word (``word: dog`` or ``word=dog``), or else its first one."""
    for name in _WORDS:
        if isinstance(features.get(name), str):
            return str(features[name])
        for own in features:
            if isinstance(own, str) and own.startswith(f"{name}="):
                return own[len(name) + 1 :]
    first = next(iter(features.items()), ("", ""))
    return str(first[1]) if isinstance(first[1], str) else str(first[0])


def _sets(names: list[str], truth: np.ndarray, predicted: np.ndarray) -> str:
    """Labels that are there and found, missed, made up."""

    def listed(which: np.ndarray) -> str:
        return ", ".join(names[k] for k in np.flatnonzero(which)) or "none"

    parts = (
        ("right", (truth == 1) & (predicted == 1), ""),
        ("missed", (truth == 1) & (predicted == 0), ' class="wrong"'),
        ("made up", (truth == 0) & (predicted == 1), ' class="wrong"'),
    )
    lines = "".join(
        f"<tr><th>{words}</th><td{kind if which.any() else ''}>{escape(listed(which))}</td></tr>"
        for words, which, kind in parts
    )
    return f'<div class="scroll"><table class="facts"><tbody>{lines}</tbody></table></div>'
