"""Which label may follow which along a chain: the schemes of tagging, BIO and BIOES, and pairs that a caller lists.

A tag of a scheme is ``"O"`` or a prefix, a hyphen and a type, as in ``"B-NP"``; types may hold hyphens themselves. In both schemes a chunk is a run of
tags of one type that begins with ``B``; in BIOES it also ends with ``E``, and a chunk of one word is ``S``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .errors import InvalidParameterError

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
