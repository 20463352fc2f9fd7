"""Labels that were not given: None, NaN, pandas' NA, and what stands for them where numbers or strings are wanted (-1, an empty cell)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def is_missing(label: Any) -> bool:
    """Whether it is None, NaN or pandas' NA, which is known by the name of its type: pandas need not be there."""
    return label is None or _is_nan(label) or type(label).__name__ == "NAType"


def _is_nan(label: Any) -> bool:
    return isinstance(label, (float, np.floating)) and bool(label != label)


def missing(labels: Iterable[Any]) -> np.ndarray:
    """`is_missing` of each label; at once False where no type among them can be missing."""
    items = list(labels)
    if not any(_may_be_missing(kind) for kind in set(map(type, items))):
        return np.zeros(len(items), dtype=bool)
    return np.fromiter((is_missing(label) for label in items), dtype=bool, count=len(items))


def _may_be_missing(kind: type) -> bool:
    return kind is type(None) or issubclass(kind, (float, np.floating)) or kind.__name__ == "NAType"


def label_array(given: Any) -> np.ndarray:
    """Labels as an array, of objects where strings stand beside others: numpy alone would make the string ``"nan"`` of a NaN."""
    array = np.asarray(given)
    if array.dtype.kind not in "US" or isinstance(given, np.ndarray):
        return array
    objects = np.array(given, dtype=object)
    return array if all(issubclass(kind, (str, bytes)) for kind in set(map(type, objects.flat))) else objects


def blank(labels: np.ndarray) -> np.ndarray:
    """Where an array of strings has empty ones."""
    return labels == np.array("", dtype=labels.dtype)  # type: ignore[no-any-return]
