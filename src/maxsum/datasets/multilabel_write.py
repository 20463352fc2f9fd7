"""Writing multi-label data: ARFF and the multi-label lines of LIBSVM, whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.files.store import atomic
from .multilabel import _LIMITS, MultiLabelData, _Arff
from .tables import compression_of


def arff_names(path: str | os.PathLike[str]) -> list[str]:
    """Names of the attributes of an ARFF file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    list of str
    """
    reader = _Arff(Path(path), _LIMITS)
    reader._header()
    return reader._names


def write_arff(path: str | os.PathLike[str], data: MultiLabelData, relation: str = "data") -> None:
    """Write an ARFF file: numeric features, then labels with the values 0 and 1.

    Parameters
    ----------
    path : path-like
        ``.gz``, ``.xz`` or ``.bz2`` at the end compresses.
    data : MultiLabelData
        Rows are sparse, ``{index value, ...}``, if ``X`` is.
    relation : str
        Name of the data.
    """
    n = data.X.shape[1]
    features = data.feature_names or [f"x{i}" for i in range(n)]
    head = [f"@relation {_quoted(relation)}", ""]
    head += [f"@attribute {_quoted(name)} numeric" for name in features]
    head += [f"@attribute {_quoted(name)} {{0,1}}" for name in data.label_names]
    is_sparse = hasattr(data.X, "tocsr")

    def rows() -> Iterator[str]:
        for i, (columns, values) in enumerate(_rows(data.X)):
            labels = data.Y[i].tolist()
            if is_sparse:
                own = [*zip(columns, values, strict=True), *((n + k, y) for k, y in enumerate(labels) if y)]
                yield "{" + ", ".join(f"{c} {v!r}" for c, v in own) + "}"
            else:
                yield ",".join([*(repr(v) for v in values), *(str(y) for y in labels)])

    _write(path, [*head, "", "@data", *rows()])


def write_libsvm_multilabel(path: str | os.PathLike[str], data: MultiLabelData, *, zero_based: bool = False) -> None:
    """Write LIBSVM's multi-label lines, ``label,label index:value ...``.

    Parameters
    ----------
    path : path-like
        ``.gz``, ``.xz`` or ``.bz2`` at the end compresses.
    data : MultiLabelData
        ``label_names`` are whole numbers as text.
    zero_based : bool
        Whether the first feature has index 0 instead of 1.
    """
    first = 0 if zero_based else 1
    text = []
    for i, (columns, values) in enumerate(_rows(data.X)):
        labels = ",".join(name for name, y in zip(data.label_names, data.Y[i].tolist(), strict=True) if y)
        entries = " ".join(f"{c + first}:{v!r}" for c, v in zip(columns, values, strict=True) if v != 0)
        text.append(f"{labels} {entries or '' if labels else entries or f'{first}:0'}".rstrip())
    _write(path, text)


def _rows(X: Any) -> Iterator[tuple[list[int], list[float]]]:
    if hasattr(X, "tocsr"):
        own = X.tocsr()
        for a, b in zip(own.indptr[:-1].tolist(), own.indptr[1:].tolist(), strict=True):
            yield own.indices[a:b].tolist(), own.data[a:b].tolist()
        return
    for row in np.asarray(X, dtype=np.float64):
        yield list(range(len(row))), row.tolist()


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[^\s{}%,'\"\\@]+", name) else "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _write(path: str | os.PathLike[str], text: list[str]) -> None:
    content = ("\n".join(text) + "\n").encode("utf-8")

    def fill(file: BinaryIO) -> None:
        file.write(content)

    atomic(Path(path), compression_of(Path(path)), fill)
