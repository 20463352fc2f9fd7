"""Labels of training samples: classes declared or found, coded as numbers, unknown ones taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.graph import Graph
from ..core.validation import blank, label_array, missing
from .images.pixels import Pixels
from .sample import GraphSample


def as_classes(classes: Any, samples: Sequence[GraphSample], labels: Sequence[np.ndarray] | None) -> tuple[np.ndarray, ...]:
    """The labels of each node type, declared or found in the training labels."""
    n_types = 1 + max((int(s.node_types.max()) for s in samples if s.node_types is not None and s.n_nodes), default=0)
    if classes is not None:
        known = tuple(_declared(c) for c in _several(classes))
        if len(known) not in (1, n_types):
            raise InvalidParameterError(
                f"classes has {len(known)} lists of labels, but there are {n_types} types of nodes; wanted one for each."
            )
        return known if len(known) == n_types else known * n_types
    if labels is None:
        raise InvalidSampleError("neither labels nor classes are given; wanted one of them to know what can be predicted.")
    found = []
    for t in range(n_types):
        own = [
            y[s.node_types == t] if s.node_types is not None else y if t == 0 else y[:0]
            for s, y in zip(samples, labels, strict=True)
        ]
        own = [y for y in own if len(y)]
        found.append(np.unique(np.concatenate(own)) if own else np.zeros(0, dtype=np.int64))
    if not any(len(c) for c in found):
        raise InvalidSampleError("no node has a label, so there are no classes; give classes=[...] or labels.")
    return tuple(found)


def _several(classes: Any) -> list[Any]:
    """Classes of each node type: one list, or a list of lists."""
    classes = list(classes) if isinstance(classes, range) else classes
    if not isinstance(classes, (list, tuple, np.ndarray)):
        raise InvalidParameterError(f"classes is {classes!r}, wanted a list of different labels, or one for each node type.")
    nested = len(classes) > 0 and all(isinstance(c, (list, tuple, np.ndarray)) and np.ndim(c) == 1 for c in classes)
    return list(classes) if nested else [classes]


def _declared(classes: Any) -> np.ndarray:
    own = np.asarray(classes)
    if own.dtype.kind == "O" and own.ndim == 1 and len(own):
        own = np.array(own.tolist())
    if own.dtype.kind == "f" and np.isfinite(own).all() and (own == np.floor(own)).all():
        own = own.astype(np.int64)
    if own.ndim != 1 or len(own) == 0 or own.dtype.kind not in "biuSU" or len(np.unique(own)) != len(own):
        raise InvalidParameterError(
            f"classes is {classes!r}, wanted a list of different labels (numbers or strings), at least one."
        )
    return own


def induced(samples: Sequence[GraphSample], labels: Any, classes: Any = None) -> tuple[list[GraphSample], list[np.ndarray]]:
    """Samples without the nodes of unknown label, and the labels of the rest."""
    read = read_labels(samples, labels, classes)
    if classes is None and any(y.dtype.kind in "iu" and (y[~known] == -1).any() for y, known in read):
        found = {label for y, known in read for label in np.unique(y[known]).tolist()}
        if found == {1}:
            raise InvalidSampleError(
                "all labels are -1 or 1, and -1 means unknown. Declare classes=[-1, 1] if -1 is a class, classes=[1] if not."
            )
    if any(len(y) for y, _ in read) and not any(known.any() for _, known in read):
        raise InvalidSampleError(
            "no node has a label: all are unknown (-1, None, NaN or empty); wanted at least one to learn from."
        )
    kept_samples, kept_labels = [], []
    for j, (sample, (y, known)) in enumerate(zip(samples, read, strict=True)):
        if not known.all():
            _refuse_half_known(j, sample, known)
            sample, y = _without(sample, known), y[known]
        kept_samples.append(sample)
        kept_labels.append(y)
    return kept_samples, kept_labels


def read_labels(samples: Sequence[GraphSample], labels: Any, classes: Any = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Labels of each sample, one a node, and which of them are known.

    Unknown are None, NaN and pandas' NA; -1, unless it is declared as a class; and the empty string, unless it is declared, where other
    labels (or the declared classes) are strings. Whole numbers of type float are taken as integers.
    """
    labels = list(labels)
    if len(labels) != len(samples):
        raise InvalidSampleError(f"there are {len(samples)} samples, but {len(labels)} labellings; wanted one for each.")
    declared = [] if classes is None else [label for own in _several(classes) for label in np.asarray(own).tolist()]
    read = [_read(sample, given, j, -1 in declared) for j, (sample, given) in enumerate(zip(samples, labels, strict=True))]
    named = any(isinstance(label, str) for label in declared)
    if not declared:
        named = any(y.dtype.kind in "US" and not blank(y[known]).all() for y, known in read)
    if "" in declared or not named:
        return read
    return [(y, known & ~blank(y) if y.dtype.kind in "US" else known) for y, known in read]


_SINGLE = {
    type(None): "wanted a label for each node; leave the sample out, or say with -1 that all of them are unknown",
    str: "one string; wanted a list with a label for each node",
    dict: "wanted a list in the order of the nodes: [labels.get(node) for node in nodes]",
}


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _read(sample: GraphSample, given: Any, j: int, declared: bool) -> tuple[np.ndarray, np.ndarray]:
    """Labels of one sample, and which are known; ``declared`` says that -1 is a class."""
    y = label_array(given)
    if sample.graph.shape is not None and y.shape == sample.graph.shape:
        y = y.reshape(-1)
    if y.shape != (sample.n_nodes,):
        shape = sample.graph.shape
        turned = shape is not None and y.shape == shape[::-1] != shape
        size = f"{sample.n_nodes} nodes" if shape is None else f"{' x '.join(map(str, shape))} pixels"
        way = "; wanted one label for each" if not turned else "; rows and columns are swapped: give y.T"
        if shape is not None and y.ndim == len(shape) and y.shape == (*shape[1:], *np.shape(sample.X)[1:]):
            way = "; the channels of the image come first, wanted last: give np.moveaxis(image, 0, -1)"
        if y.ndim == 0:
            raise InvalidSampleError(
                f"labels of sample {j} are {_shown(given)}, {_SINGLE.get(type(given), 'wanted one for each node')}."
            )
        raise InvalidSampleError(f"labels of sample {j} have shape {y.shape}, but it has {size}{way}.")
    known = np.ones(len(y), dtype=bool)
    if y.dtype.kind == "O":
        items = y.tolist()
        known = ~missing(items)
        if not declared and str in set(map(type, items)):  # among strings -1 is no number to compare with later
            known[known] = [isinstance(label, str) or label != -1 for label in y[known].tolist()]
        some = np.array(y[known].tolist() or [0])
        y = np.full(len(y), some.flat[0], dtype=some.dtype)
        if some.shape != (max(1, known.sum()),) or some.dtype.kind not in "biufSU":
            raise InvalidSampleError(f"labels of sample {j} are not numbers or strings; wanted a class for each node.")
        y[known] = some[: known.sum()]
    if y.dtype.kind == "f":
        known = known & ~np.isnan(y)
        whole = ~known | (np.isfinite(y) & (y == np.floor(y)))
        if not whole.all():
            node = int(np.flatnonzero(~whole)[0])
            raise InvalidSampleError(
                f"label of sample {j}, node {node} is {y[node]}; wanted a class (a whole number or a string), or -1 for unknown."
            )
        y = np.where(known, y, 0).astype(np.int64)
    if y.dtype.kind not in "biuSU":
        raise InvalidSampleError(f"labels of sample {j} have dtype {y.dtype}, wanted whole numbers or strings.")
    if y.dtype.kind == "i" and not declared:
        known = known & (y != -1)
    return y, known


def _without(sample: GraphSample, known: np.ndarray) -> GraphSample:
    graph = sample.graph
    number = np.cumsum(known) - 1
    inside = known[graph.edges].all(axis=1)
    smaller = Graph(
        int(known.sum()), number[graph.edges[inside]].astype(np.int32), graph.edge_type[inside].copy(), graph.n_edge_types
    )
    x = [row for row, keep in zip(sample.X, known, strict=True) if keep] if isinstance(sample.X, list) else sample.X[known]
    features = None if sample.edge_features is None else sample.edge_features[inside]
    types = None if sample.node_types is None else sample.node_types[known]
    weights = None if sample.node_weights is None else sample.node_weights[known]
    whole = np.array([known[nodes].all() for nodes in sample.cliques], dtype=bool)
    cliques = [number[nodes] for nodes, kept in zip(sample.cliques, whole, strict=True) if kept]
    rewards = None if sample.clique_features is None else sample.clique_features[whole]
    factors = [(number[nodes], function) for nodes, function in sample.factors if known[nodes].all()]
    pixels = sample.pixels
    if pixels is None and sample.graph.shape is not None and sample.kind in ("dense", "codes"):
        pixels = Pixels.grid(sample.X, sample.graph.shape)
    pixels = None if pixels is None else pixels.of(known)
    return GraphSample(x, smaller, features, types, weights, cliques, rewards, sample.clique_types[whole], factors, pixels)


def _refuse_half_known(j: int, sample: GraphSample, known: np.ndarray) -> None:
    """Refuse factors over known and unknown labels: the slack with the best unknown labels beside the truth would not be convex.

    Factors over unknown labels alone go with their nodes: they change no slack.
    """
    for f, (nodes, function) in enumerate(sample.factors):
        if known[nodes].any() and not known[nodes].all():
            node = int(nodes[~known[nodes]][0])
            raise InvalidSampleError(
                f"factor {f} of sample {j} ({function!r}) joins node {node}, whose label is unknown, with nodes of known labels; wanted all of "
                "its labels known, or none: with some of them the objective would not be convex. Leave the factor out, or give the labels."
            )


def encode_labels(labels: Sequence[np.ndarray], samples: Sequence[GraphSample], classes: tuple[np.ndarray, ...]) -> np.ndarray:
    """Labels of all nodes as numbers ``0 .. K - 1``."""
    coded = []
    for j, (sample, y) in enumerate(zip(samples, labels, strict=True)):
        types = np.zeros(len(y), dtype=np.int64) if sample.node_types is None else sample.node_types
        out = np.zeros(len(y), dtype=np.int32)
        for t, own in enumerate(classes):
            here = types == t
            if not here.any():
                continue
            order = np.argsort(own, kind="stable")
            place = (
                np.searchsorted(own[order], y[here])
                if own.dtype.kind == y.dtype.kind or {own.dtype.kind, y.dtype.kind} <= set("iub")
                else None
            )
            if place is None:
                raise InvalidSampleError(f"labels of sample {j} have dtype {y.dtype}, but the classes have {own.dtype}.")
            place = order[np.minimum(place, len(own) - 1)]
            wrong = np.flatnonzero(own[place] != y[here])
            if len(wrong):
                node = int(np.flatnonzero(here)[wrong[0]])
                raise InvalidSampleError(
                    f"label of sample {j}, node {node} is {y[node]!r}, wanted one of the classes {own.tolist()[:12]}."
                )
            out[here] = place
        coded.append(out)
    return np.concatenate(coded) if coded else np.zeros(0, dtype=np.int32)
