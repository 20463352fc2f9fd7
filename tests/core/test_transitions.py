"""Schemes of tagging: legal successions compared with readers that parse whole sequences."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from maxsum.core.errors import InvalidParameterError
from maxsum.core.transitions import forbidden_ends, forbidden_pairs, forbidden_starts

BIO = ["O", "B-NP", "I-NP", "B-VP", "I-VP"]
BIOES = ["O", *(f"{prefix}-{kind}" for kind in ("NP", "A-B") for prefix in "BIES")]


def parses(tags: tuple[str, ...], scheme: str) -> bool:
    """Whether a sequence of tags is legal, by a machine that remembers the type of the open chunk; in BIO a chunk may stay open."""
    must_close, chunk = scheme == "bioes", None
    for tag in tags:
        prefix, _, kind = tag.partition("-")
        if prefix in ("I", "E"):
            if chunk != kind:
                return False
        elif chunk is not None and must_close:
            return False
        chunk = kind if prefix in ("B", "I") else None
    return not (must_close and chunk is not None)


@pytest.mark.parametrize(("scheme", "classes"), [("bio", BIO), ("bioes", BIOES), ("BIO", BIO)])
def test_schemes_agree_with_a_parser(scheme, classes):
    pairs, starts, ends = (set(rule(scheme, classes)) for rule in (forbidden_pairs, forbidden_starts, forbidden_ends))
    assert pairs and starts
    for length in (1, 2, 3):
        for labels in product(range(len(classes)), repeat=length):
            legal = labels[0] not in starts and labels[-1] not in ends and not any(p in pairs for p in pairwise(labels))
            assert legal == parses(tuple(classes[k] for k in labels), scheme.lower()), labels


def test_listed_pairs_are_members_of_the_classes():
    assert forbidden_pairs([("b", "a"), ("a", "c"), ("b", "a")], np.array(["a", "b", "c"])) == [(0, 2), (1, 0)]
    assert forbidden_pairs([], ["a"]) == []
    assert forbidden_starts([("a", "b")], ["a", "b"]) == [] == forbidden_ends([("a", "b")], ["a", "b"])


@pytest.mark.parametrize(
    ("scheme", "classes", "words"),
    [
        ("iob", BIO, "no scheme of tags"),
        ("bio", ["O", "B-NP", "E-NP"], "class 2 is 'E-NP'"),
        ("bio", ["O", "B-"], "class 1 is 'B-'"),
        ("bio", [0, 1], "class 0 is 0"),
        ([("a", "z")], ["a", "b"], "'z'"),
        ([("a", "b", "a")], ["a", "b"], 'wanted "bio"'),
        (3, ["a", "b"], 'wanted "bio"'),
    ],
)
def test_bad_schemes_are_refused(scheme, classes, words):
    with pytest.raises(InvalidParameterError, match=words):
        forbidden_pairs(scheme, classes)
