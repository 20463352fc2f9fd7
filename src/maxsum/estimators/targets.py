"""Labels that are neither all numbers nor all strings, and masked ones, as what the models read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.transitions import forbidden_pairs
from ..core.validation import is_missing
from ..models.bound import BoundModel
from ..models.labels import encode_labels, read_labels
from ..models.sample import GraphSample

UNKNOWN = -1  # a label that was not given
UNSEEN = -2  # a label that is none of the classes


def unmasked(labels: Any) -> Any:
    """Labels with None where they are masked."""
    if not isinstance(labels, np.ma.MaskedArray):
        return labels
    plain = np.array(labels.data, dtype=object)
    plain[np.ma.getmaskarray(labels)] = None
    return plain


def form_of(y: Any) -> str:
    """In which form labels came, so that predictions come in the same: ``"flat"`` (one row a sample), ``"table"`` (one array for all), both, or
    neither (a list, each label in its place of the sample)."""
    table = isinstance(y, np.ndarray) and y.ndim > 1
    first = next(iter(y), None) if isinstance(y, (list, tuple, np.ndarray)) else None
    flat = isinstance(first, (list, tuple, np.ndarray)) and not any(isinstance(own, (list, np.ndarray)) for own in first)
    return " ".join(["flat"] * flat + ["table"] * table)


def in_form(form: str, labels: list[np.ndarray]) -> Any:
    """Labels of samples in the form in which others came."""
    if "flat" in form:
        labels = [own.reshape(-1) for own in labels]
    return np.array(labels) if "table" in form and len({own.shape for own in labels}) == 1 else labels


@dataclass(frozen=True)
class Rule:
    """Numbers of any hashable labels; -1 for unknown ones, -2 for what is no class."""

    classes: np.ndarray
    number: dict[Hashable, int]

    def encode(self, samples: Sequence[GraphSample], labels: Sequence[Any]) -> list[Any]:
        """Labels as numbers, where they can be read as one a node; others as they are, for the models to refuse."""
        coded: list[Any] = []
        for j, given in enumerate(labels):
            items = _items(samples[j], given) if j < len(samples) else None
            if items is None:
                coded.append(given)
                continue
            numbers = np.array([self._number(label) for label in items], dtype=np.int64)
            coded.append(numbers.reshape(np.shape(given) if isinstance(given, np.ndarray) else (len(items),)))
        return coded

    def _number(self, label: Hashable) -> int:
        found = self.number.get(label)
        if found is not None:
            return found
        return UNKNOWN if is_missing(label) or label == UNKNOWN else UNSEEN


class Coding(NamedTuple):
    """Targets and declared classes for the models, and the rule behind them (None: as they were given)."""

    targets: list[Any]
    declared: Any
    rule: Rule | None

    @classmethod
    def read(cls, samples: Sequence[GraphSample], labels: list[Any], classes: Any) -> Coding:
        """Plain labels (all numbers, or all strings, but for unknown ones) stay as they are; any others get numbers."""
        if any(sample.node_types is not None for sample in samples):
            return cls(labels, classes, None)
        found: dict[Hashable, None] = {}
        kinds: set[str] = set()
        for j, given in enumerate(labels):
            if isinstance(given, np.ndarray) and given.dtype.kind != "O":
                if given.dtype.kind not in "biuf":
                    kinds.add(given.dtype.kind)
                elif not ((given == UNKNOWN) | (given != given)).all():
                    kinds.add("number")
                continue
            items = _items(samples[j], given) if j < len(samples) else None
            if items is None:
                return cls(labels, classes, None)
            found.update(dict.fromkeys(items))
        kinds |= {_kind(label) for label in found if not is_missing(label) and (label != UNKNOWN or _has_unknown(classes))}
        if _plain(kinds) and _plain(_declared_kinds(classes)):
            return cls(labels, classes, None)
        for given in labels:
            if isinstance(given, np.ndarray) and given.dtype.kind != "O":
                found.update(dict.fromkeys(given.ravel().tolist()))
        ordered = (
            _sorted([label for label in found if not is_missing(label) and label != UNKNOWN])
            if classes is None
            else list(classes)
        )
        try:
            number = {label: i for i, label in enumerate(ordered)}
        except TypeError as error:
            raise InvalidParameterError(f"classes is {classes!r}, wanted a list of hashable labels ({error}).") from error
        if len(number) != len(ordered):
            raise InvalidParameterError(f"classes is {classes!r}, wanted different labels.")
        outside = np.empty(len(ordered), dtype=object)
        outside[:] = ordered
        rule = Rule(outside, number)
        coded = rule.encode(samples, labels)
        for j, own in enumerate(coded):
            wrong = np.flatnonzero(np.ravel(own) == UNSEEN)
            if len(wrong):
                items = _items(samples[j], labels[j]) or []
                raise InvalidSampleError(
                    f"label of sample {j}, node {wrong[0]} is {items[wrong[0]]!r}, wanted one of the classes {ordered[:12]}."
                )
        return cls(coded, list(range(len(ordered))), rule)

    def rules(self, forbidden: Any) -> Any:
        """What `Neighbours.of` takes, with numbers for labels that have some."""
        if self.rule is None or forbidden is None:
            return forbidden
        given = self.rule.classes.tolist()

        def numbered(own: Any) -> Any:
            return forbidden_pairs(own if isinstance(own, str) else list(own), given)

        return (
            {kind: numbered(own) for kind, own in forbidden.items()} if isinstance(forbidden, Mapping) else numbered(forbidden)
        )

    def named(self, bound: BoundModel) -> BoundModel:
        """The model with the labels of the user as its classes."""
        if self.rule is None:
            return bound
        classes = (self.rule.classes,) * len(bound.classes)
        return replace(bound, classes=classes)


def _items(sample: GraphSample, given: Any) -> list[Any] | None:
    """Labels one a node, flat; None if they are not hashable or not a list."""
    if isinstance(given, np.ndarray):
        items = given.reshape(-1).tolist() if given.ndim else None
    elif isinstance(given, (list, tuple)):
        items = list(given)
        shape = sample.graph.shape
        sides = () if shape is None else shape
        for k, width in enumerate(sides[1:]):
            if len(items) != prod(sides[: k + 1]) or not all(_is_row(row, width) for row in items):
                break
            items = [label for row in items for label in (row.tolist() if isinstance(row, np.ndarray) else row)]
    else:
        return None
    try:
        set(items or ())
    except TypeError:
        return None
    return items


def _is_row(given: Any, width: int) -> bool:
    """A row of labels; a tuple of one item is rather a label itself."""
    return isinstance(given, (list, np.ndarray)) or (isinstance(given, tuple) and len(given) == width > 1)


def _plain(kinds: set[str]) -> bool:
    return len(kinds) <= 1 and "other" not in kinds


def _declared_kinds(classes: Any) -> set[str]:
    """Kinds of declared labels; none for lists of labels, one for each node type."""
    if not isinstance(classes, (list, tuple, np.ndarray)) or (len(classes) == 1 and isinstance(classes[0], tuple)):
        return set()
    nested = any(isinstance(own, (list, np.ndarray)) for own in classes)
    return set() if nested else {_kind(own) for own in classes}


def _has_unknown(classes: Any) -> bool:
    """Whether -1 is declared, and so a class."""
    return isinstance(classes, (list, tuple, np.ndarray)) and any(_kind(own) == "number" and own == UNKNOWN for own in classes)


def _kind(label: Any) -> str:
    if isinstance(label, (bool, int, float, complex, np.number, np.bool_)):
        return "number"
    return "U" if isinstance(label, str) else "S" if isinstance(label, bytes) else "other"


def _sorted(labels: list[Any]) -> list[Any]:
    """In order if they have one, else as first seen."""
    try:
        return sorted(labels)
    except TypeError:
        return labels


def split_sets(samples: Sequence[GraphSample], labels: Sequence[Any]) -> tuple[list[Any], list[dict[int, set[Any]]]]:
    """Labels with None where a ``set`` of them is given, and these sets by node, for each sample. Sets of one are their label; frozen sets are
    labels like any others."""
    plain: list[Any] = []
    sets: list[dict[int, set[Any]]] = []
    for j, given in enumerate(labels):
        own = unmasked(given)
        if isinstance(own, np.ndarray) and own.dtype.kind == "O":
            own = own.reshape(-1).tolist()
        elif isinstance(own, (list, tuple)) and j < len(samples):
            shape = samples[j].graph.shape
            rows = shape is not None and len(own) == shape[0] and all(isinstance(row, (list, np.ndarray)) for row in own)
            own = [label for row in own for label in row] if rows else list(own)
        found = {v: label for v, label in enumerate(own) if isinstance(label, set)} if isinstance(own, list) else {}
        for v, some in found.items():
            if not some:
                raise InvalidSampleError(
                    f"label of sample {j}, node {v} is an empty set, wanted the labels that it may have, or None for any."
                )
        if found:
            own = [(next(iter(label)) if len(label) == 1 else None) if isinstance(label, set) else label for label in own]
        plain.append(own if found else given)
        sets.append({v: some for v, some in found.items() if len(some) > 1})
    return plain, sets


def allowed_labels(
    samples: Sequence[GraphSample], given: Any, classes: list[np.ndarray], coding: Rule | None = None
) -> list[np.ndarray]:
    """Which labels (n_nodes, K) the nodes of each sample may have: the one that is given, those of a set, or all."""
    rows = list(given)
    if len(rows) != len(samples):
        raise InvalidSampleError(f"there are {len(samples)} samples, but {len(rows)} labellings; wanted one for each.")
    plain, sets = split_sets(samples, rows)
    if coding is not None:
        plain, classes = coding.encode(samples, plain), [np.arange(len(own)) for own in classes]
        sets = [{v: {coding._number(label) for label in some} for v, some in own.items()} for own in sets]
    read = read_labels(samples, plain, classes if len(classes) > 1 else classes[0])
    size, found = max(len(own) for own in classes), []
    for j, (sample, (labels, known), some) in enumerate(zip(samples, read, sets, strict=True)):
        types = np.zeros(sample.n_nodes, dtype=np.int64) if sample.node_types is None else sample.node_types
        mask: np.ndarray = np.arange(size) < np.array([len(own) for own in classes])[types][:, None]
        filler = np.array([classes[t][0] for t in types]) if len(types) else labels
        number = encode_labels([np.where(known, labels, filler)], [sample], tuple(classes))
        mask[known] = number[known][:, None] == np.arange(size)
        for v, own in some.items():
            here = np.array([label in own for label in classes[types[v]].tolist()], dtype=bool)
            if here.sum() != len(own):
                strange = sorted(map(str, own - set(classes[types[v]].tolist())))
                raise InvalidSampleError(
                    f"label of sample {j}, node {v} may be {strange[0]}, wanted some of the classes {classes[types[v]].tolist()[:12]}."
                )
            mask[v] = False
            mask[v, : len(here)] = here
        found.append(mask)
    return found
