"""Arrays that belong to this library: read-only for good, so that they can be shared without a copy.

A flag does not tell whose an array is: who froze an array may thaw it. Ours are views, by way of a type of our own, of a frozen array that
nobody else holds. numpy does not let a view of frozen memory be thawed, and the type says that the memory is ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class _Held(np.ndarray):
    """Marks the memory of an array as ours; no array of this type is handed out."""


def is_own(array: Any) -> bool:
    """Whether an array is a view of memory that `own` took."""
    while isinstance(array, np.ndarray):
        if type(array) is _Held:
            return True
        array = array.base
    return False


def own(array: np.ndarray) -> np.ndarray:
    """A read-only view, to be used in place of an array that no caller holds (nor one that it is a view of); one that is ours already is
    returned as it is."""
    if is_own(array):
        return array
    part: Any = array
    while isinstance(part, np.ndarray):
        part.flags.writeable = False
        part = part.base
    return array.view(_Held).view(_Held).view(np.ndarray)  # numpy skips a single view between two arrays of one type


def owned(array: np.ndarray) -> np.ndarray:
    """An array that is ours: the given one if it is, else a copy."""
    return array if is_own(array) else own(np.array(array))
