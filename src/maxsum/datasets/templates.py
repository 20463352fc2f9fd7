"""Features of tokens in files of columns, by templates such as ``0[-1]|0[0]``: the word before and the word itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.errors import InvalidParameterError
from ..core.parameters import WholeNumber, check_value

_PART = re.compile(r"(\d{1,6})\[([+-]?\d{1,6})\]")
_DIGITS = re.compile(r"\d+")


class Template(NamedTuple):
    """A feature of several cells around a token.

    Attributes
    ----------
    name : str
    parts : tuple of (int, int)
        Column and offset of each cell.
    """

    name: str
    parts: tuple[tuple[int, int], ...]


def as_template(text: str, n_columns: int) -> Template:
    """Read ``column[offset]``, or several of them joined by ``|``."""
    found = [_PART.fullmatch(part.strip()) for part in text.split("|")] if isinstance(text, str) else [None]
    if not all(found):
        raise InvalidParameterError(
            f"the template is {text!r}, wanted column[offset], or several joined by |, as in '0[-1]|0[0]'."
        )
    parts = tuple((int(match[1]), int(match[2])) for match in found if match)
    for column, _ in parts:
        if column >= n_columns:
            raise InvalidParameterError(
                f"the template {text!r} names column {column}, but there are the columns 0 to {n_columns - 1}."
            )
    return Template(text, parts)


def default_templates(columns: Sequence[int], window: int = 2) -> list[str]:
    """Cells of each column in a window, pairs of neighbours, and for all but the first column, the words, triples.

    Parameters
    ----------
    columns : sequence of int
        Columns that hold features; the first of them the words.
    window : int
        How far to look to each side.

    Returns
    -------
    list of str
    """
    check_value("window", window, WholeNumber(0, wanted="a whole number, 0 or more"))
    found = []
    for c in columns:
        near = range(-window, window + 1)
        found += [f"{c}[{d}]" for d in near]
        word = c == columns[0]
        found += [f"{c}[{d}]|{c}[{d + 1}]" for d in near[:-1] if not word or d in (-1, 0)]
        found += [f"{c}[{d}]|{c}[{d + 1}]|{c}[{d + 2}]" for d in near[:-2] if not word]
    return found


def column_features(sentence: Sequence[Sequence[str]], templates: Sequence[str], affixes: int = 0) -> list[dict[str, Any]]:
    """Features of the tokens of a sentence, for `SequenceLabeler`.

    Parameters
    ----------
    sentence : sequence of tuples of str
        Tokens of columns.
    templates : sequence of str
        ``column[offset]``, or several joined by ``|``; a template that reaches past an end of the sentence is left out there.
    affixes : int
        Above 0: first and last letters of the first column, up to so many, its shape (``Xx``, ``0``), and its small letters.

    Returns
    -------
    list of dicts
        Names of features to strings, one dict a token, with marks at both ends of the sentence.

    Examples
    --------
    >>> from maxsum.datasets import column_features
    >>> column_features([("the", "D"), ("dog", "N")], ["0[0]", "1[-1]|1[0]"])[1]
    {'bias': 1.0, '0[0]': 'dog', '1[-1]|1[0]': 'D|N', 'last': 1.0}
    """
    check_value("affixes", affixes, WholeNumber(0, wanted="a whole number, 0 or more"))
    n = len(sentence)
    width = min((len(token) for token in sentence), default=0)
    read = [as_template(text, width) for text in templates] if n else []
    features = []
    for i, token in enumerate(sentence):
        own: dict[str, Any] = {"bias": 1.0}
        for name, parts in read:
            if all(0 <= i + d < n for _, d in parts):
                own[name] = "|".join([sentence[i + d][c] for c, d in parts])
        if affixes:
            word = token[0]
            own["lower"], own["shape"] = word.lower(), _shape(word)
            for k in range(1, min(affixes, len(word)) + 1):
                own[f"prefix{k}"], own[f"suffix{k}"] = word[:k], word[-k:]
        if i == 0:
            own["first"] = 1.0
        if i == n - 1:
            own["last"] = 1.0
        features.append(own)
    return features


def _shape(word: str) -> str:
    """Kinds of letters in a row, each once: ``Xx`` of Paris, ``0-x`` of 19-year."""
    kinds = ["X" if c.isupper() else "x" if c.islower() else "0" if c.isdigit() else c for c in word]
    return "".join(kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind)
