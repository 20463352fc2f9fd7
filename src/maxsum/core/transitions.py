"""Which label may follow which along a chain: the schemes of tagging, BIO and BIOES, and pairs that a caller lists.

A tag of a scheme is ``"O"`` or a prefix, a hyphen and a type, as in ``"B-NP"``; types may hold hyphens themselves. In both schemes a chunk is a run of
tags of one type that begins with ``B``; in BIOES it also ends with ``E``, and a chunk of one word is ``S``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import InvalidParameterError, InvalidSampleError
from .graph import Graph

_PREFIXES = {"bio": "BI", "bioes": "BIES"}
"""Prefixes of tags with a type, by scheme."""
_INSIDE = {"bio": "I", "bioes": "IE"}
"""Prefixes that go on with a chunk: only after a tag of the same type that leaves its chunk open."""
_OPEN = {"bio": "BI", "bioes": "BI"}
"""Prefixes that may be, or in BIOES must be, followed by the same chunk."""

Tag = tuple[str, str]


def forbidden_pairs(scheme: str | Iterable[tuple[Any, Any]], classes: Sequence[Any]) -> list[tuple[int, int]]:
    """Pairs ``(a, b)`` of label indices where label ``b`` may not follow label ``a``.

    Parameters
    ----------
    scheme : {"bio", "bioes"} or iterable of pairs
        A scheme of tagging: in BIO ``I-X`` comes after ``B-X`` or ``I-X`` only; in BIOES an open chunk (``B-X``, ``I-X``) goes on with ``I-X`` or
        ``E-X``, and these come after nothing else. Or pairs of members of ``classes``.
    classes : sequence
        The labels, in the order of their indices.

    Returns
    -------
    list of tuple of int
        Sorted, each pair once.

    Examples
    --------
    >>> forbidden_pairs("bio", ["O", "B-NP", "I-NP"])
    [(0, 2)]
    >>> forbidden_pairs([("red", "green")], ["green", "red"])
    [(1, 0)]
    """
    if isinstance(scheme, str):
        name, tags = _tags(scheme, classes)
        count = range(len(tags))
        return [(a, b) for a in count for b in count if not _may_follow(name, tags[a], tags[b])]
    return _listed(scheme, classes)


def forbidden_starts(scheme: str | Iterable[tuple[Any, Any]], classes: Sequence[Any]) -> list[int]:
    """Labels that a chain may not begin with: in BIO ``I-X``, in BIOES ``I-X`` and ``E-X``; none for listed pairs.

    Examples
    --------
    >>> forbidden_starts("bio", ["O", "B-NP", "I-NP"])
    [2]
    """
    if not isinstance(scheme, str):
        return []
    name, tags = _tags(scheme, classes)
    return [i for i, (prefix, _) in enumerate(tags) if prefix in _INSIDE[name]]


def forbidden_ends(scheme: str | Iterable[tuple[Any, Any]], classes: Sequence[Any]) -> list[int]:
    """Labels that a chain may not end with: in BIOES ``B-X`` and ``I-X``, whose chunk is still open; none in BIO and for listed pairs.

    Examples
    --------
    >>> forbidden_ends("bioes", ["O", "B-NP", "I-NP", "E-NP", "S-NP"])
    [1, 2]
    """
    if not isinstance(scheme, str):
        return []
    name, tags = _tags(scheme, classes)
    return [i for i, (prefix, _) in enumerate(tags) if name == "bioes" and prefix in _OPEN[name]]


def _may_follow(scheme: str, first: Tag, second: Tag) -> bool:
    """Whether the second tag may stand after the first."""
    continues = second[0] in _INSIDE[scheme]
    same_chunk = first[0] in _OPEN[scheme] and first[1] == second[1]
    must_continue = scheme == "bioes" and first[0] in _OPEN[scheme]
    return (same_chunk and continues) if (continues or must_continue) else True


def _tags(scheme: str, classes: Sequence[Any]) -> tuple[str, list[Tag]]:
    """The scheme's name in lower case, and (prefix, type) of each class, ``("O", "")`` for the tag outside of all chunks."""
    name = scheme.lower()
    if name not in _PREFIXES:
        raise InvalidParameterError(
            f'forbidden={scheme!r} is no scheme of tags, wanted "bio", "bioes", or pairs of labels such as [("B", "C")].'
        )
    tags = []
    for place, label in enumerate(classes):
        prefix, hyphen, kind = str(label).partition("-")
        if str(label) == "O":
            tags.append(("O", ""))
        elif len(prefix) == 1 and prefix in _PREFIXES[name] and hyphen and kind:
            tags.append((prefix, kind))
        else:
            wanted = ", ".join(f"{prefix}-TYPE" for prefix in _PREFIXES[name])
            raise InvalidParameterError(
                f"forbidden={scheme!r}: class {place} is {label!r}, wanted O, {wanted}. Tags of another scheme? List the forbidden pairs instead, or "
                "leave forbidden away."
            )
    return name, tags


def _listed(pairs: Iterable[tuple[Any, Any]], classes: Sequence[Any]) -> list[tuple[int, int]]:
    """The indices of pairs of classes that a caller listed."""
    try:
        listed = [tuple(pair) for pair in pairs]
    except TypeError:
        listed = [()]
    if any(len(pair) != 2 for pair in listed):
        raise InvalidParameterError(
            f'forbidden is {pairs!r}, wanted "bio", "bioes", or pairs (a, b) of labels where b may not follow a, such as [("O", "I")].'
        )
    values = classes.tolist() if isinstance(classes, np.ndarray) else list(classes)
    place = {label: i for i, label in enumerate(values)}
    for pair in listed:
        for label in pair:
            if label not in place:
                shown = ", ".join(map(repr, values[:8])) + (", ..." if len(values) > 8 else "")
                raise InvalidParameterError(
                    f"forbidden names the label {label!r} in the pair {pair!r}, which is none of the classes: {shown}."
                )
    return sorted({(place[first], place[second]) for first, second in listed})


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What may not stand at the two ends of an edge, by the type of the edge.

    Attributes
    ----------
    pairs : ndarray of bool, shape (n_edge_types, K, K)
        Labels of the first and of the second end of an edge that exclude each other.
    starts, ends : ndarray of bool, shape (n_edge_types, K)
        Labels that a node may not have where no edge of the type leads to it, or away from it.
    """

    pairs: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, given: Any, classes: Sequence[Any], n_edge_types: int, symmetric: bool = False) -> Neighbours | None:
        """The rules of ``forbidden=``: a scheme or pairs for all edges, or a dictionary of these by the number of the edge type.

        Parameters
        ----------
        given : None, str, iterable of pairs, dict, or Neighbours
        classes : sequence
            Labels in the order of their numbers.
        n_edge_types : int
        symmetric : bool
            Whether a pair excludes its reverse as well.
        """
        if given is None or isinstance(given, cls):
            return given
        by_type = dict(given) if isinstance(given, Mapping) else dict.fromkeys(range(n_edge_types), given)
        size = len(classes)
        own = cls(
            np.zeros((n_edge_types, size, size), dtype=bool),
            np.zeros((n_edge_types, size), dtype=bool),
            np.zeros((n_edge_types, size), dtype=bool),
        )
        for kind, scheme in by_type.items():
            if not isinstance(kind, (int, np.integer)) or isinstance(kind, bool) or not 0 <= kind < n_edge_types:
                raise InvalidParameterError(
                    f"forbidden has rules for the edge type {kind!r}, wanted numbers of edge types, 0..{n_edge_types - 1} here."
                )
            listed = scheme if isinstance(scheme, str) else list(scheme) if isinstance(scheme, Iterable) else scheme
            for a, b in forbidden_pairs(listed, classes):
                own.pairs[kind, a, b] = True
                own.pairs[kind, b, a] |= symmetric
            own.starts[kind, forbidden_starts(listed, classes)] = True
            own.ends[kind, forbidden_ends(listed, classes)] = True
        return own

    @property
    def has_ends(self) -> bool:
        """Whether first or last nodes lack labels."""
        return bool(self.starts.any() or self.ends.any())

    def excluded(self, graph: Graph) -> np.ndarray:
        """Labels (n_nodes, K) that first and last nodes of a graph may not have."""
        found = np.zeros((graph.n_nodes, self.pairs.shape[1]), dtype=bool)
        for kind in range(len(self.pairs)):
            edges = graph.edges[graph.edge_type == kind]
            for side, labels in ((1, self.starts[kind]), (0, self.ends[kind])):
                alone = np.ones(graph.n_nodes, dtype=bool)
                alone[edges[:, side]] = False
                found |= alone[:, None] & labels
        return found

    def check(self, graph: Graph, labels: np.ndarray, known: np.ndarray, classes: Sequence[Any], sample: int) -> None:
        """Refuse a training labelling that breaks a rule, where all labels that it looks at are known."""
        a, b = graph.edges.T
        both = known[a] & known[b] & self.pairs[np.minimum(graph.edge_type, len(self.pairs) - 1), labels[a], labels[b]]
        if both.any():
            e = int(both.argmax())
            u, v = (int(node) for node in graph.edges[e])
            raise InvalidSampleError(
                f"sample {sample}: node {v} has the label {classes[labels[v]]!r} after {classes[labels[u]]!r} of node {u} (edge {e}), a pair that "
                "forbidden excludes; wanted a training labelling that keeps the rule. Correct the label, hide it (None), or leave the pair out."
            )
        if not self.has_ends:
            return
        wrong = known & self.excluded(graph)[np.arange(len(labels)), labels]
        if wrong.any():
            v = int(wrong.argmax())
            raise InvalidSampleError(
                f"sample {sample}: node {v} has the label {classes[labels[v]]!r}, which forbidden excludes at the start or end of a sequence; wanted "
                "a training labelling that keeps the rule. Correct the label, hide it (None), or list forbidden pairs instead of the scheme."
            )
