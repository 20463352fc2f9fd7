"""Tables of labels as they are given: read, completed, and with the costs of their cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import type_of_target

from ...core.errors import InvalidParameterError, InvalidSampleError
from ...core.graph import Graph
from ...core.validation import blank, label_array, missing
from ...learning.objectives.multilabel import MOST_ENUMERATED
from ...losses import Hamming
from ...models.bound import BoundModel, Encoded
from ...models.multilabel import MultiLabelBound
from ..answers.inspection import column_names
from ..costs import balanced, check_balanced, costs_of_classes, iou_loss
from ..settings import Settings
from ..targets import UNKNOWN


@dataclass(frozen=True, eq=False)
class Target:
    """Labels as numbers, (n, L) of 0 and 1 (-1 where unknown) or (n,), and what they stand for."""

    kind: str  # "multilabel", "binary", "multiclass" or "columns"
    labels: np.ndarray
    classes: Any  # those of columns are `Columns`

    def __getitem__(self, which: np.ndarray) -> Target:
        return replace(self, labels=self.labels[which])


def hidden(y: Any) -> tuple[Any, np.ndarray | None]:
    """Labels with something known in the place of unknown ones, and where these are; None if all are known.

    Unknown are masked entries, None, NaN and pandas' NA; in tables of labels -1 and empty cells; among strings the empty one.
    """
    if isinstance(y, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(y)
        if not mask.any():
            return np.asarray(y), None
        _check_some(~mask)
        if mask.ndim == 1:
            return np.asarray(y.data), mask
        return np.where(mask, 0, np.asarray(y.data)), mask
    table = label_array(y.toarray() if sparse.issparse(y) else y) if _is_table(y) else None
    if table is None or table.ndim != 2 or table.shape[1] < 2:
        return _hidden_classes(y)
    absent = np.zeros(table.shape, dtype=bool)
    if table.dtype.kind == "O":
        empty = np.array([isinstance(own, str) and own == "" for own in table.flat], dtype=bool)
        absent = (missing(table.flat) | empty).reshape(table.shape)
        try:
            table = np.where(absent, 0, table).astype(np.float64)
        except (TypeError, ValueError):
            return y, None
    elif table.dtype.kind == "f":
        absent = np.isnan(table)
        table = np.where(absent, 0, table)
    minus = table == UNKNOWN if table.dtype.kind in "if" else np.zeros(table.shape, dtype=bool)
    unknown = absent | minus
    if not unknown.any() or not np.isin(table, (UNKNOWN, 0, 1)).all():
        return y, None
    _check_some(~unknown)
    if minus.any() and (table[~absent] != 0).all():
        raise InvalidSampleError(
            f"y holds -1 and 1, but no 0: here 0 is a label that a sample does not have, and -1 one that is unknown (sample "
            f"{np.argwhere(minus)[0][0]} has some). Replace -1 by 0, or mask what is unknown."
        )
    return np.where(unknown, 0, table).astype(np.int64), unknown


def _hidden_classes(y: Any) -> tuple[Any, np.ndarray | None]:
    """`hidden` for one class a sample: -1 is a class like others here, as for every classifier of scikit-learn."""
    if not isinstance(y, (list, tuple)) and not hasattr(y, "__array__"):
        return y, None
    try:
        labels = label_array(y)
    except ValueError:
        return y, None
    if labels.dtype.kind not in "OfU" or labels.ndim not in (1, 2) or labels.size != len(labels):
        return y, None
    labels = labels.reshape(-1)
    unknown = np.isnan(labels) if labels.dtype.kind == "f" else missing(labels)
    known = labels[~unknown]
    if known.dtype.kind == "O" and all(isinstance(label, str) for label in known) and len(known):
        known = known.astype(str)
    if known.dtype.kind == "U" and not blank(known).all():
        unknown[~unknown] = blank(known)
        known = known[~blank(known)]
    if not unknown.any():
        return y, None
    _check_some(~unknown)
    plain = np.array(known.tolist())
    filled = np.full(len(labels), plain[0], dtype=plain.dtype)
    filled[~unknown] = plain
    return filled, unknown


def _check_some(known: np.ndarray) -> None:
    if not known.any():
        raise InvalidSampleError(f"y has {known.size} labels, but none is known; wanted some.")


@contextmanager
def named_samples(X: Any) -> Iterator[None]:
    """Errors about numbers that are not finite with the sample and the feature they are at."""
    try:
        yield
    except ValueError as error:
        if np.iscomplexobj(X):
            raise
        try:
            rows = X.tocsr() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
            bad = ~np.isfinite(rows.data if sparse.issparse(X) else rows)
        except (TypeError, ValueError):
            place = _text_cell(X)
            if place is None or "could not convert" not in str(error):
                raise error from None
            j, name, text = place
            raise InvalidSampleError(
                f"sample {j} has the text {text!r} at feature {name}, wanted numbers; make indicators of texts first "
                f"(sklearn.preprocessing.OneHotEncoder, or pandas.get_dummies). ({error})"
            ) from error
        if rows.ndim != 2 or not bad.any():
            raise
        j, f = np.argwhere(bad)[0] if not sparse.issparse(X) else _place(rows, int(bad.argmax()))
        raise InvalidSampleError(
            f"sample {j} has {rows[j, f]} at feature {f}, wanted finite numbers; impute or drop it first. ({error})"
        ) from error


def _text_cell(X: Any) -> tuple[int, Any, Any] | None:
    """Row, column (its name, where there are names) and content of the first cell that is no number."""
    names = column_names(X)
    for f, column in enumerate(np.asarray(X, dtype=object).T if np.ndim(X) == 2 else ()):
        for j, cell in enumerate(column.tolist()):
            try:
                float(cell)
            except (TypeError, ValueError):
                return j, f if names is None else repr(str(names[f])), cell
    return None


def _place(rows: Any, position: int) -> tuple[int, int]:
    return int(np.searchsorted(rows.indptr, position, side="right")) - 1, int(rows.indices[position])


def _is_table(y: Any) -> bool:
    if hasattr(y, "shape"):
        return len(y.shape) == 2
    return isinstance(y, (list, tuple)) and len(y) > 0 and all(isinstance(row, (list, tuple, np.ndarray)) for row in y)


def with_bias(X: Any, bias: bool) -> Any:
    """Features as kernels read them, with a constant one at the end."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        X.sum_duplicates()
        return sparse.csr_array(sparse.hstack([X, np.ones((X.shape[0], 1))], format="csr")) if bias else X
    X = X + 0.0
    return np.hstack([X, np.ones((len(X), 1))]) if bias else np.ascontiguousarray(X)


def read_target(y: Any, unknown: np.ndarray | None) -> Target:
    """Classes as numbers."""
    kind = type_of_target(y, input_name="y")
    if kind == "multilabel-indicator":
        labels = np.asarray(y.toarray() if sparse.issparse(y) else y)
        other = np.argwhere((labels != 0) & (labels != 1))
        if len(other):
            j, m = other[0]
            raise InvalidSampleError(f"y of sample {j} has {labels[j, m]} for label {m}, wanted 0 or 1.")
        labels = labels.astype(np.int32)
        if unknown is not None:
            labels[unknown] = UNKNOWN
        return Target("multilabel", labels, np.arange(labels.shape[1]))
    if y.ndim != 1:
        raise InvalidSampleError(
            f"y has shape {y.shape} and is {kind}, wanted (n_samples, n_labels) of 0 and 1, or (n_samples,)."
        )
    classes, coded = np.unique(y, return_inverse=True)
    if len(classes) == 2:
        return Target("binary", coded.reshape(-1, 1).astype(np.int32), classes)
    return Target("multiclass", coded.astype(np.int32), classes)


def merged(X: Any, labels: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Samples that are the same as one, those of weight 0 left out, in the order of their bytes."""
    keep = np.flatnonzero(weight > 0) if weight.any() else np.arange(len(weight))
    keys = {}
    for j in keep.tolist():
        if sparse.issparse(X):
            row = slice(X.indptr[j], X.indptr[j + 1])
            own = X.indices[row].astype(np.int64).tobytes() + X.data[row].tobytes()
        else:
            own = X[j].tobytes()
        keys[j] = labels[j].tobytes() + own
    first: dict[bytes, int] = {}
    total: dict[bytes, float] = {}
    for j, key in keys.items():
        first.setdefault(key, j)
        total[key] = total.get(key, 0.0) + float(weight[j])
    order = sorted(first)
    rows = np.array([first[key] for key in order], dtype=np.int64)
    return X[rows], labels[rows], np.array([total[key] for key in order])


def for_graph(labels: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels that a label graph is read off: samples without unknown ones, or all, with 0 for unknown, if there are none."""
    whole = (labels >= 0).all(axis=1) & (weight > 0)
    if not whole.any():
        return np.maximum(labels, 0), np.where(weight.any(), weight, 1.0)
    return labels[whole], weight[whole]


def class_costs(given: Any, target: Target, weight: np.ndarray) -> np.ndarray:
    r"""Cost of missing each class, (n_labels, n_classes); ``balanced`` is :math:`\sum_l n_l / (K n_k)`, counted by weights.

    Parameters
    ----------
    given : "balanced", dict of classes, or array-like of shape (n_classes,)
        For tables of labels the classes are 0 and 1, and a list of such dicts, one for each label, is taken as well.
    """
    labels = target.labels.reshape(len(target.labels), -1)
    classes = [0, 1] if target.kind == "multilabel" else target.classes.tolist()
    n_labels = labels.shape[1]
    if isinstance(given, str):
        check_balanced(given)
        known = [labels[:, m] >= 0 for m in range(n_labels)]
        counts = [np.bincount(labels[own, m], weights=weight[own], minlength=len(classes)) for m, own in enumerate(known)]
        return np.array([balanced(own) for own in counts])
    several = isinstance(given, (list, tuple)) and any(isinstance(own, Mapping) for own in given)
    rows = list(given) if several else [given] * n_labels
    if len(rows) != n_labels or (several and target.kind != "multilabel"):
        raise InvalidParameterError(f"class_weight has {len(rows)} dicts, wanted one for each of {n_labels} labels.")
    return np.array([costs_of_classes(own, classes) for own in rows])


def iou_costs(settings: Settings, target: Target, weight: np.ndarray) -> tuple[np.ndarray | None, Any]:
    """Costs at the nodes and the loss beside them that bound 1 - IoU, as `iou_loss`: of two classes a wrong label costs the same either way."""
    if settings.loss == "normalised":
        raise InvalidParameterError(
            "class_weight is 'iou' beside loss='normalised', wanted loss='hamming': sizes of classes are those of all samples."
        )
    inverse = class_costs("balanced", target, weight)
    if target.kind == "multiclass":
        return None, iou_loss(inverse[0])
    return np.repeat(inverse.mean(axis=1, keepdims=True), 2, axis=1), Hamming()


def open_potentials(graph: Graph) -> tuple[str, str]:
    """Tables where they are left open, and why."""
    if graph.is_forest or graph.n_nodes <= MOST_ENUMERATED:
        return "general", "general potentials, as the best labels are found exactly all the same; "
    return "supermodular", f"supermodular potentials, as {graph.n_nodes} labels with cycles are then solved exactly; "


def weighted(bound: BoundModel, costs: np.ndarray, place: np.ndarray) -> BoundModel:
    """The model with a weight at each node: what missing its class costs. ``place`` is the number of the label at each node."""
    node_weights = costs[place, np.asarray(bound.labels)]
    return replace(bound, data=replace(bound.data, node_weights=node_weights))


def partly_known(full: MultiLabelBound, x: Any, labels: np.ndarray) -> tuple[BoundModel, np.ndarray]:
    """`full` bound to samples of which some labels are unknown: these, and their edges, are left out of the graph of a sample.

    Returns the model, and the number of the label at each of its nodes.
    """
    known = labels >= 0
    size, width = labels.shape[1], x.shape[1]
    edges = full.graph.edges
    example, place = np.nonzero(known)
    node_ptr = np.concatenate([[0], np.cumsum(known.sum(axis=1))]).astype(np.int64)
    number = np.cumsum(known, axis=1) - 1
    inside = known[:, edges[:, 0]] & known[:, edges[:, 1]]
    edge_ptr = np.concatenate([[0], np.cumsum(inside.sum(axis=1))]).astype(np.int64)
    own_example, kind = np.nonzero(inside)
    own = np.stack([number[own_example, edges[kind, 0]], number[own_example, edges[kind, 1]]], axis=1).astype(np.int32)
    pieces = np.split(own, edge_ptr[1:-1])
    graphs = tuple(
        Graph(int(c), piece, np.zeros(len(piece), dtype=np.int32), 1)
        for c, piece in zip(np.diff(node_ptr), pieces, strict=True)
    )
    rows = sparse.csr_array(x)[example]
    columns = rows.indices + np.repeat(place * width, np.diff(rows.indptr))
    data = Encoded(
        graphs,
        node_ptr,
        edge_ptr,
        (own + node_ptr[own_example][:, None]).astype(np.int32),
        sparse.csr_array((rows.data, columns, rows.indptr), shape=(len(example), size * width)),
        sparse.csr_array((np.ones(len(kind)), kind, np.arange(len(kind) + 1)), shape=(len(kind), len(edges))),
        np.full(len(example), 2, dtype=np.int32),
        np.zeros(len(example), dtype=np.int64),
        np.ones(len(example)),
    )
    bound = BoundModel(
        full.layout,
        data,
        full.node_index,
        full.edge_index,
        full.cone,
        full.classes,
        2,
        full.name,
        labels[known].astype(np.int32),
    )
    return bound, place
