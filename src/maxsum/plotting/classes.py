"""Classes in pictures: their names, their colours, the nodes that are marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.parameters import Real, check_value
from ..core.result import Guarantee, Result

# Okabe and Ito's colours but black; then always the one farthest from all before it in CIELAB, in the least favourable of normal,
# protanope, deuteranope and tritanope vision.
COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#691E00", "#4B2D4B", "#4B0FB4"),
    *("#C3F0C3", "#9669FF", "#69FF87", "#E1004B", "#780078", "#B4A54B", "#D2C3E1", "#4B693C", "#87C387", "#695A78"),
    *("#874B00", "#D200B4", "#8796FF", "#690F96", "#F0C35A", "#5A2D2D", "#0F4BE1", "#A5B4A5", "#FFE1F0", "#5A961E"),
)
MARKERS = ("o", "s", "^", "D", "v", "P")
_LONGEST = 24  # letters of a name beside an axis


def colour(k: int) -> str:
    """Colour of class number ``k``; they come round again after 30."""
    return COLOURS[k % len(COLOURS)]


def marker(k: int) -> str:
    """Shape of nodes of class number ``k``: every seventh class has another one, so that colour is not all there is."""
    return MARKERS[k // 7 % len(MARKERS)]


def short(name: Any, longest: int = _LONGEST) -> str:
    """A name as text that fits, without what matplotlib would take for formulas."""
    text = " ".join(str(name).split())
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return text.replace("$", r"\$")


class Labelling(NamedTuple):
    """Numbers of classes one a node (-1 for unknown), and the names of the classes."""

    codes: np.ndarray
    names: list[str]

    @property
    def present(self) -> list[int]:
        """Classes that occur."""
        return [int(k) for k in np.unique(self.codes) if k >= 0]


def read_labelling(labels: Any, n_nodes: int, classes: Any) -> Labelling:
    """Labels as numbers of classes; -1, None and masked ones, unless -1 is a class, are unknown."""
    masked = np.ma.getmaskarray(labels).ravel() if isinstance(labels, np.ma.MaskedArray) else None
    items = np.asarray(labels).ravel().tolist()
    if len(items) != n_nodes:
        raise InvalidSampleError(f"labels has {len(items)} entries, wanted one for each of {n_nodes} nodes.")
    if masked is not None:
        items = [None if hidden else item for item, hidden in zip(items, masked.tolist(), strict=True)]
    if classes is None:
        found = {item for item in items if item is not None and item != -1}
        try:
            known = sorted(found)
        except TypeError:
            known = sorted(found, key=str)
        if (
            known
            and all(isinstance(item, int) and not isinstance(item, bool) for item in known)
            and known[0] >= 0
            and known[-1] < 1000
        ):
            known = list(range(known[-1] + 1))
    else:
        known = class_list(classes)
    number = {item: k for k, item in enumerate(known)}
    if len(number) != len(known):
        raise InvalidParameterError(f"classes is {known[:12]!r}, wanted different labels.")
    unknown = {None, -1} - set(number)
    codes = np.array([-1 if item in unknown else number.get(item, -2) for item in items], dtype=np.int64)
    if (codes == -2).any():
        node = int((codes == -2).argmax())
        raise InvalidSampleError(
            f"label of node {node} is {items[node]!r}, wanted one of the classes {known[:12]!r}, or -1 for unknown."
        )
    return Labelling(codes, [short(name) for name in known])


def class_list(classes: Any) -> list[Any]:
    """Classes as a list; several lists, one for each node type, are joined."""
    if isinstance(classes, str) or not hasattr(classes, "__len__"):
        raise InvalidParameterError(f"classes is {classes!r}, wanted a list of labels, in the order of their numbers.")
    if _is_nested(classes):
        return list(dict.fromkeys(item for own in classes for item in own.tolist()))
    return list(classes.tolist() if isinstance(classes, np.ndarray) else classes)


def _is_nested(classes: Any) -> bool:
    """Whether there is a list of classes for each node type."""
    arrays = isinstance(classes, (list, tuple)) and all(isinstance(own, np.ndarray) and own.ndim == 1 for own in classes)
    return arrays and len(classes) > 0


class Marks(NamedTuple):
    """Nodes to mark, and what a mark means; or, with ``whole``, words about all nodes at once."""

    nodes: np.ndarray
    words: str
    whole: bool = False


def read_marks(result: Any, marked: Any, labelling: Labelling, classes: Any, certain: float) -> Marks:
    r"""Nodes to mark: those given, or those that a result leaves open.

    Of an optimal labelling none is. Else those outside ``Result.fixed`` (not known to have this label in every optimal labelling), or
    where the largest marginal is below ``certain``; with neither of them nodes are not told apart, and none is marked.
    """
    n_nodes = len(labelling.codes)
    if marked is not None:
        nodes = np.asarray(marked)
        if nodes.dtype.kind != "b" or nodes.size != n_nodes:
            raise InvalidSampleError(
                f"marked has dtype {nodes.dtype} and {nodes.size} entries, wanted True or False for each of {n_nodes} nodes."
            )
        return Marks(nodes.ravel(), "marked")
    none = np.zeros(n_nodes, dtype=bool)
    if result is None:
        return Marks(none, "", whole=True)
    _check_result(result, labelling, classes, certain)
    if result.guarantee == Guarantee.optimal:
        return Marks(none, "proven optimal", whole=True)
    if result.fixed is not None:
        return Marks(~result.fixed, "not proven")
    if result.marginals is not None:
        return Marks(np.max(result.marginals, axis=1, initial=0.0) < certain, f"marginal below {certain:g}")
    known = result.guarantee == Guarantee.within_gap
    return Marks(none, f"within {result.gap:.3g} of the best score" if known else "nothing proven", whole=True)


def _check_result(result: Any, labelling: Labelling, classes: Any, certain: float) -> None:
    """Refuse a result of something else: what it proves would be said of the wrong labels."""
    n_nodes = len(labelling.codes)
    if not isinstance(result, Result):
        raise InvalidSampleError(
            f"result is a {type(result).__name__}, wanted a maxsum.Result, as predict_result or solve gives."
        )
    check_value("certain", certain, Real(above=0.0, at_most=1.0, wanted="a marginal above 0 and at most 1"))
    for name, array in (("labels", result.labels), ("fixed", result.fixed), ("marginals", result.marginals)):
        if array is not None and len(array) != n_nodes:
            raise InvalidSampleError(f"{name} of the result has {len(array)} nodes, wanted {n_nodes}. Is it of another sample?")
    if result.labels is None:
        raise InvalidSampleError(f"the result has no labelling ({result.guarantee}), so it says nothing about these labels.")
    shown = labelling.codes >= 0
    codes, labels = labelling.codes[shown], result.labels[shown]
    if classes is None or _is_nested(classes):
        same = len(np.unique(np.stack([codes, labels]), axis=1).T) == len(np.unique(labels))
    else:
        same = np.array_equal(codes, labels) or np.array_equal(codes, labels % len(labelling.names))
    if not same:
        raise InvalidSampleError(
            "labels are not those of the result, so what it proves is not about them; wanted classes_[result.labels], with "
            "classes=classes_, or marked=... to mark nodes of other labels."
        )


def heading(marks: Marks) -> str:
    """A title for a labelling: how many nodes are marked, and why."""
    if marks.whole:
        return f"labels: {marks.words}" if marks.words else "labels"
    return f"labels: {int(marks.nodes.sum())} of {len(marks.nodes)} {marks.words}"


def legend(axis: Any, handles: Sequence[Any]) -> None:
    """A legend right of the axes, in as few columns as fit."""
    if handles:
        axis.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            borderaxespad=0.0,
            fontsize="small",
            frameon=False,
            ncols=-(-len(handles) // 16),
            handlelength=1.2,
        )
