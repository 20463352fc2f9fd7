"""Files of columns, a token a line, as of the CoNLL shared tasks, and the usual features of chunking."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import InvalidSampleError, ParseError
from ..core.files.text import Limits
from ..core.parameters import WholeNumber, check_value
from .source import lines

_LIMITS = Limits(bytes=1 << 30, cells=50_000_000)

Sentence = list[tuple[str, ...]]


def read_conll(path: str | os.PathLike[str]) -> list[Sentence]:
    """Sentences of a file of columns.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, perhaps compressed (``.gz``, ``.xz``, ``.bz2``): one token a line, its columns separated by blanks or tabs,
        sentences separated by empty lines.

    Returns
    -------
    list of lists of tuples of str
        Sentences of tokens of columns.

    Raises
    ------
    ParseError
        A line has another number of columns than the first one, or the file is broken or too large.
    """
    return _read(Path(path), _LIMITS)


def _read(path: Path, limits: Limits) -> list[Sentence]:
    sentences: list[Sentence] = []
    sentence: Sentence = []
    known: dict[str, str] = {}
    width, cells, tabs = 0, 0, False
    for number, line in lines(path, limits):
        columns = line.split()
        if not columns:
            if sentence:
                sentences.append(sentence)
                sentence = []
            continue
        width, tabs = width or len(columns), tabs or "\t" in line
        if len(columns) != width:
            mixed = " Blanks separate columns as tabs do: write New_York." if "\t" in line or tabs else ""
            raise ParseError(f"there are {len(columns)} columns, but {width} in the lines before.{mixed}", str(path), number)
        cells += width + 1
        if cells > limits.cells:
            raise ParseError(f"there are more than {limits.cells} entries; refused. Split the file.", str(path), number)
        sentence.append(tuple(known.setdefault(text, text) for text in columns))
    return sentences + [sentence] if sentence else sentences


def conll_features(sentence: Sequence[Sequence[str]], window: int = 2) -> list[dict[str, Any]]:
    r"""The usual features of chunking, for `SequenceLabeler`.

    At each token: words :math:`w_{-2}, \ldots, w_2` and parts of speech :math:`p_{-2}, \ldots, p_2` around it, pairs of adjacent
    words that hold it, and pairs and triples of adjacent parts of speech in the window; marks at both ends of the sentence.

    Parameters
    ----------
    sentence : sequence of tuples of str
        The first column is the word, the second the part of speech; further columns, such as the tag, are not looked at.
    window : int
        How far to look to each side, 0 or more.

    Returns
    -------
    list of dicts
        Names of features to strings, one dict a token.
    """
    check_value("window", window, WholeNumber(0, wanted="a whole number, 0 or more"))
    for i, token in enumerate(sentence):
        if isinstance(token, str) or len(token) < 2:
            raise InvalidSampleError(f"token {i} of the sentence is {token!r}, wanted a word and a part of speech.")
    words, kinds = [token[0] for token in sentence], [token[1] for token in sentence]
    n = len(words)
    offsets = range(-window, window + 1)
    w, p = ([f"{letter}[{d}]" for d in offsets] for letter in "wp")
    w2, p2 = ([f"{letter}[{d}]|{letter}[{d + 1}]" for d in offsets] for letter in "wp")
    p3 = [f"p[{d}]|p[{d + 1}]|p[{d + 2}]" for d in offsets]
    features = []
    for i in range(n):
        last = min(n - 1, i + window)
        own: dict[str, Any] = {"bias": 1.0}
        for j in range(max(0, i - window), last + 1):
            d = j - i + window
            own[w[d]] = words[j]
            own[p[d]] = kinds[j]
            if j < last:
                own[p2[d]] = f"{kinds[j]}|{kinds[j + 1]}"
                if j in (i - 1, i):
                    own[w2[d]] = f"{words[j]}|{words[j + 1]}"
            if j + 1 < last:
                own[p3[d]] = f"{kinds[j]}|{kinds[j + 1]}|{kinds[j + 2]}"
        if i == 0:
            own["first"] = 1.0
        if i == n - 1:
            own["last"] = 1.0
        features.append(own)
    return features
