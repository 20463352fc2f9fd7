"""Files of multi-label data: ARFF (of Mulan and MEKA), dense or sparse, and the multi-label lines of LIBSVM."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.errors import InvalidParameterError, ParseError
from ..core.files.text import Limits, shown
from ..core.parameters import Maybe, OneOf, WholeNumber, check_value
from ..core.validation import LARGEST
from .source import lines

_LIMITS = Limits(bytes=1 << 30, cells=50_000_000)
_MOST_NAMES = 1_000_000  # attributes and nominal values of a file: memory is not trusted to strangers
_LARGEST_INDEX = 2**31 - 2  # largest feature number that fits int32 with one to spare
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{'\"]+)\s*(\S.*)", re.IGNORECASE)
_ITEM = re.compile(rf"\s*({_QUOTED}|[^,'\"]*)\s*(,|$)")


class MultiLabelData(NamedTuple):
    """Features, indicators of labels, and their names.

    Attributes
    ----------
    X : ndarray or scipy.sparse.csr_matrix, shape (n_samples, n_features)
    Y : ndarray of int64, shape (n_samples, n_labels)
        1 where a sample has a label.
    feature_names, label_names : list of str
        Features of LIBSVM files have no names: the list is empty.
    """

    X: Any
    Y: np.ndarray
    feature_names: list[str]
    label_names: list[str]


def read_arff(path: str | os.PathLike[str], n_labels: int | Sequence[str], *, labels: str = "last") -> MultiLabelData:
    """Read a multi-label ARFF file.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, perhaps compressed. Attributes are numeric or nominal; nominal values that are all numbers are
        these numbers, others are numbered 0, 1, ... in the order of their declaration.
    n_labels : int or list of str
        Number of the attributes that are labels (with values 0 and 1), or their names.
    labels : {"last", "first"}
        Where the labels stand if ``n_labels`` is a number: last as in Mulan's files, or first as in most of MEKA's.

    Returns
    -------
    MultiLabelData
        ``X`` is CSR if the rows of the file are sparse, ``{index value, ...}``.

    Raises
    ------
    ParseError
        The file is broken, too large, or has missing values or attributes of other types.
    """
    check_value("labels", labels, OneOf("last", "first"))
    if isinstance(n_labels, str) or not isinstance(n_labels, (int, np.integer, Sequence)) or isinstance(n_labels, bool):
        raise InvalidParameterError(f"n_labels is {n_labels!r}, wanted a number or a list of names.")
    if isinstance(n_labels, Sequence) and not all(isinstance(name, str) for name in n_labels):
        raise InvalidParameterError("n_labels has names that are not strings.")
    return _Arff(Path(path), _LIMITS).read(n_labels, labels)


def read_libsvm_multilabel(
    path: str | os.PathLike[str],
    *,
    labels: Sequence[int] | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
) -> MultiLabelData:
    """Read LIBSVM's multi-label lines, ``label,label index:value index:value``; a line may have no label.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, perhaps compressed; ``#`` starts a comment.
    labels : sequence of int, optional
        Labels of the columns of ``Y``. Those of the file in ascending order by default; give those of the training file for a
        test file.
    n_features : int, optional
        Columns of ``X``; the highest index of the file by default.
    zero_based : bool
        Whether the first feature has index 0 instead of 1.

    Returns
    -------
    MultiLabelData
        ``X`` is CSR, ``label_names`` are the labels as text.

    Raises
    ------
    ParseError
        The file is broken or too large, or has labels or features that were not declared.
    """
    known = None if labels is None else [int(label) for label in labels]
    if known is not None and len(set(known)) != len(known):
        raise InvalidParameterError("labels has a label twice, wanted different ones.")
    most = _LARGEST_INDEX + 1
    check_value("n_features", n_features, Maybe(WholeNumber(0, most, wanted=f"0 to {most}")))
    return _libsvm(Path(path), _LIMITS, known, n_features, zero_based)


class _Rows:
    """CSR rows that grow with what is read, never with what is declared."""

    def __init__(self) -> None:
        self.values, self.columns, self.ends = array("d"), array("q"), array("q", [0])

    def add(self, entries: dict[int, float]) -> None:
        for column in sorted(entries):
            if entries[column] != 0:
                self.columns.append(column)
                self.values.append(entries[column])
        self.ends.append(len(self.values))

    def matrix(self, n_columns: int) -> Any:
        from scipy import sparse

        parts = (np.array(self.values), np.array(self.columns, dtype=np.int64), np.array(self.ends, dtype=np.int64))
        return sparse.csr_matrix(parts, shape=(len(self.ends) - 1, n_columns))


class _Arff:
    def __init__(self, path: Path, limits: Limits):
        self._path = str(path)
        self._lines = lines(path, limits)
        self._limit = limits.cells
        self._number = 0
        self._names: list[str] = []
        self._codes: list[dict[str, float] | None] = []
        self._n_values = 0
        self._first_values: dict[int, float] = {}

    def _fail(self, message: str) -> NoReturn:
        raise ParseError(message, self._path, self._number or None)

    def read(self, n_labels: int | Sequence[str], where: str) -> MultiLabelData:
        self._header()
        is_label = self._labels(n_labels, where)
        sparse, rows, cells, dense = None, _Rows(), 0, array("d")
        label_rows, n = array("d"), len(self._names)
        columns = np.flatnonzero(is_label).tolist()
        place = np.cumsum(~is_label) - 1
        for text in self._texts():
            if sparse is None:
                sparse = text[0] == "{"
            if sparse != (text[0] == "{"):
                self._fail("rows `{index value, ...}` and rows of all values are mixed.")
            cells += len(columns) + 1 if sparse else n
            if sparse:
                entries = self._sparse_row(text)
                cells += len(entries)
                self._spend(cells)
                label_rows.extend(entries.pop(c, 0.0) for c in columns)
                rows.add({int(place[c]): value for c, value in entries.items()})
            else:
                self._spend(cells)
                row = self._dense_row(text)
                label_rows.extend([row[c] for c in columns])
                dense.extend(row)
            self._check_labels(label_rows, columns)
        n_rows = len(rows.ends) - 1 if sparse else len(dense) // n
        Y = np.array(label_rows).reshape(n_rows, len(columns)).astype(np.int64)
        X = rows.matrix(n - len(columns)) if sparse else np.array(dense).reshape(n_rows, n)[:, ~is_label]
        names = np.array(self._names, dtype=object)
        return MultiLabelData(X, Y, names[~is_label].tolist(), names[is_label].tolist())

    def _texts(self) -> Iterator[str]:
        for number, line in self._lines:
            self._number = number
            text = line.strip()
            if text and text[0] != "%":
                yield text

    def _header(self) -> None:
        for text in self._texts():
            word = text.split(None, 1)[0].lower()
            if word == "@data":
                if not self._names:
                    self._fail("there are no attributes before @data.")
                firsts = {i: next(iter(codes.values())) for i, codes in enumerate(self._codes) if codes}
                self._first_values = {i: value for i, value in firsts.items() if value != 0}
                return
            if word == "@attribute":
                self._attribute(text)
            elif word != "@relation":
                self._fail(f"the header has {shown(text)}, wanted @relation, @attribute or @data.")
        self._fail("the file ends before @data.")

    def _attribute(self, text: str) -> None:
        match = _ATTRIBUTE.fullmatch(text)
        if not match:
            self._fail(f"{shown(text)} is no attribute, wanted `@attribute name type`.")
        name, kind = _unquoted(match[1]), match[2].strip()
        if kind.lower() in ("numeric", "real", "integer"):
            self._codes.append(None)
        elif kind[0] == "{" and kind[-1] == "}":
            self._codes.append(self._nominal(kind[1:-1]))
        else:
            self._fail(f"attribute {shown(name)} has the type {shown(kind)}, wanted numeric or {{value, ...}}.")
        self._names.append(name)
        self._n_values += 1
        if self._n_values > _MOST_NAMES:
            self._fail(f"there are more than {_MOST_NAMES} attributes and nominal values; refused.")

    def _nominal(self, text: str) -> dict[str, float]:
        values = self._items(text)
        self._n_values += len(values)
        if len(set(values)) != len(values):
            self._fail("a nominal value is declared twice.")
        numbers = [_as_number(value) for value in values]
        if any(number is None for number in numbers):
            return {value: float(i) for i, value in enumerate(values)}
        return {value: number for value, number in zip(values, numbers, strict=True) if number is not None}

    def _labels(self, wanted: int | Sequence[str], where: str) -> np.ndarray:
        n = len(self._names)
        is_label = np.zeros(n, dtype=bool)
        if isinstance(wanted, (int, np.integer)):
            if not 0 < wanted <= n:
                self._fail(f"the file has {n} attributes, but n_labels is {wanted}.")
            is_label[n - int(wanted) :] = where == "last"
            is_label[: int(wanted)] |= where == "first"
        else:
            place = {name: i for i, name in enumerate(self._names)}
            for name in wanted:
                if name not in place:
                    self._fail(f"there is no attribute {shown(str(name))}, which n_labels names.")
                is_label[place[name]] = True
        for i in np.flatnonzero(is_label).tolist():
            codes = self._codes[i]
            if codes is not None and not set(codes.values()) <= {0.0, 1.0}:
                self._fail(f"label {shown(self._names[i])} has the values {shown(', '.join(codes))}, wanted 0 and 1.")
            if codes is not None and any(_as_number(value) is None for value in codes):
                self._fail(f"label {shown(self._names[i])} has values that are not numbers, wanted 0 and 1.")
        return is_label

    def _dense_row(self, text: str) -> list[float]:
        items = self._items(text)
        if len(items) != len(self._names):
            self._fail(f"the row has {len(items)} values, but there are {len(self._names)} attributes.")
        return [self._value(i, item) for i, item in enumerate(items)]

    def _sparse_row(self, text: str) -> dict[int, float]:
        if text[-1] != "}":
            self._fail("the row starts with { but does not end with }.")
        entries: dict[int, float] = {}
        inside = text[1:-1].strip()
        for pair in inside.split(",") if inside else ():
            parts = pair.split(None, 1)
            if len(parts) != 2 or not (parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 10):
                self._fail(f"the row has {shown(pair)}, wanted `index value`.")
            index = int(parts[0])
            if index >= len(self._names):
                self._fail(
                    f"the row has the index {index}, but there are {len(self._names)} attributes, 0..{len(self._names) - 1}."
                )
            if index in entries:
                self._fail(f"the row has the index {index} twice.")
            entries[index] = self._value(index, _unquoted(parts[1].strip()))
        for index, first in self._first_values.items():
            if index not in entries:
                self._fail(
                    f"attribute {shown(self._names[index])} is left out and has its first value {first:g} then, but only zeros "
                    "may be left out here; write it in the row."
                )
        return entries

    def _value(self, i: int, item: str) -> float:
        codes = self._codes[i]
        value = _as_number(item) if codes is None else codes.get(item)
        if value is None:
            hint = " Fill in missing values first." if item == "?" else ""
            wanted = "a number" if codes is None else f"one of {shown(', '.join(list(codes)[:8]))}"
            self._fail(f"attribute {shown(self._names[i])} is {shown(item)}, wanted {wanted}.{hint}")
        return value

    def _items(self, text: str) -> list[str]:
        if "'" not in text and '"' not in text:
            return [item.strip() for item in text.split(",")]
        items, at = [], 0
        while True:
            match = _ITEM.match(text, at)
            if not match:
                self._fail(f"a quote is not closed, or text follows one, in {shown(text[at:])}.")
            items.append(_unquoted(match[1].strip()))
            at = match.end()
            if not match[2]:
                return items

    def _check_labels(self, label_rows: array[float], columns: list[int]) -> None:
        for c, value in zip(columns, label_rows[len(label_rows) - len(columns) :], strict=True):
            if value not in (0.0, 1.0):
                self._fail(f"label {shown(self._names[c])} is {value:g}, wanted 0 or 1. Are the labels the last attributes?")

    def _spend(self, cells: int) -> None:
        if cells > self._limit:
            self._fail(f"the data have more than {self._limit} entries; refused.")


def _libsvm(path: Path, limits: Limits, known: list[int] | None, n_features: int | None, zero_based: bool) -> MultiLabelData:
    rows, label_rows, seen = _Rows(), [], {}
    entries_read, highest = 0, -1
    declared = None if known is None else set(known)
    most = _LARGEST_INDEX if n_features is None else n_features - 1
    number = 0

    def fail(message: str) -> NoReturn:
        raise ParseError(message, str(path), number or None)

    for number, line in lines(path, limits):  # noqa: B007
        text = line.partition("#")[0]
        words = text.split()
        if not words:
            continue
        own: tuple[int, ...] = ()
        if ":" not in words[0]:
            own = tuple(_whole(word, "a label", fail) for word in words.pop(0).split(","))
            if len(set(own)) != len(own):
                fail("a label stands twice.")
            for label in own:
                if declared is not None and label not in declared:
                    fail(f"the label {label} is not among those that were declared.")
                seen[label] = True
        entries: dict[int, float] = {}
        for word in words:
            left, _, right = word.partition(":")
            index = _whole(left, "an index", fail) - (not zero_based)
            value = _as_number(right)
            if value is None:
                fail(f"the entry is {shown(word)}, wanted `index:value` with a finite number.")
            if not 0 <= index <= most:
                hint = " Set zero_based=True if the first feature has index 0." if index < 0 else ""
                fail(f"the index is {left}, wanted {int(not zero_based)}..{most + (not zero_based)}.{hint}")
            if index in entries:
                fail(f"the index {left} stands twice.")
            entries[index] = value
            highest = max(highest, index)
        entries_read += len(entries) + len(own) + 1
        if entries_read > limits.cells:
            fail(f"the file has more than {limits.cells} entries; refused.")
        rows.add(entries)
        label_rows.append(own)
    order = sorted(seen) if known is None else known
    if len(order) * len(label_rows) > limits.cells:
        fail(f"{len(label_rows)} samples with {len(order)} labels need more than {limits.cells} indicators; refused.")
    column = {label: c for c, label in enumerate(order)}
    Y = np.zeros((len(label_rows), len(order)), dtype=np.int64)
    for i, own in enumerate(label_rows):
        Y[i, [column[label] for label in own]] = 1
    return MultiLabelData(
        rows.matrix(highest + 1 if n_features is None else n_features), Y, [], [str(label) for label in order]
    )


def _whole(text: str, what: str, fail: Any) -> int:
    digits = text.removeprefix("-") if what == "a label" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 11):
        fail(f"{what} is {shown(text)}, wanted a whole number.")
    return int(text)


def _as_number(text: str) -> float | None:
    """A finite number of at most 1e100 in size, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST and "_" not in text else None


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
