"""Results in the formats of the UAI competitions: a best labelling (MAP, MPE), marginals (MAR), a partition function (PR).

Newer files have the result after the word; older ones the number of sets of evidence (1) before it, and solvers that improve write ``-BEGIN-``
before each of their answers, of which the last counts.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import ParseError
from .text import COMPRESSIONS, Limits, opened, shown

_LARGEST = 1 << 28  # bytes of a result: 10 million marginals and more
_SUM = 0.02
"""By how much marginals may miss a sum of 1: competitions print six digits, and some solvers fewer."""


class UAISolution(NamedTuple):
    """A result.

    Attributes
    ----------
    kind : {"MAP", "MPE", "MAR", "PR"}
    labels : ndarray of int64, shape (n_nodes,), or None
        Of MAP and MPE.
    marginals : list of ndarray, or None
        Of MAR: probabilities of the values of each variable.
    log10_z : float or None
        Of PR: logarithm to base 10 of the partition function, or of the probability of the evidence.
    """

    kind: str
    labels: np.ndarray | None = None
    marginals: list[np.ndarray] | None = None
    log10_z: float | None = None


def read_uai_solution(path: str | os.PathLike[str]) -> UAISolution:
    """Read a ``.MAP``, ``.MPE``, ``.MAR`` or ``.PR`` file, in the older or the newer form.

    Parameters
    ----------
    path : path-like
        Perhaps with ``.gz``, ``.xz`` or ``.bz2`` at its end. The first word of the file says what it holds.

    Raises
    ------
    ParseError
        The file is broken, or holds results for several sets of evidence.
    """
    source = Path(path)
    ending = source.suffix[1:].lower()
    with opened(source, ending if ending in COMPRESSIONS else None, Limits()) as stream:
        words = stream.read_all(_LARGEST).split()
    kind = words[0].decode("ascii", "replace").upper() if words else ""
    if kind not in ("MAP", "MPE", "MAR", "PR"):
        found = f"starts with {shown(words[0])}" if words else "is empty"
        raise ParseError(f"the file {found}, wanted MAP, MPE, MAR or PR.", str(source))
    last = max((i for i, word in enumerate(words) if word.upper() == b"-BEGIN-"), default=0)
    numbers = _numbers(words[last + 1 :], str(source))
    if kind == "PR":
        if len(numbers) == 2 and numbers[0] == 1:
            numbers = numbers[1:]
        if len(numbers) != 1:
            raise ParseError(f"{len(numbers)} numbers follow PR, wanted one: a logarithm to base 10.", str(source))
        return UAISolution(kind, log10_z=numbers[0])
    for skip in (0, 1):  # the newer form first: it is the one that a file of one variable can be
        if skip and not (len(numbers) > 1 and numbers[0] == 1):
            break
        if kind == "MAR" and (marginals := _marginals(numbers[skip:])) is not None:
            return UAISolution(kind, marginals=marginals)
        if kind != "MAR" and (labels := _labels(numbers[skip:])) is not None:
            return UAISolution(kind, labels=labels)
    wanted = (
        "count, then for each variable its number of values and their probabilities"
        if kind == "MAR"
        else "count, then as many values"
    )
    raise ParseError(
        f"the {len(numbers)} numbers after {kind} do not fit; wanted {wanted}, for one set of evidence.", str(source)
    )


def _numbers(words: list[bytes], path: str) -> list[float]:
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) < len(words) or any(math.isnan(number) for number in numbers) or any(b"_" in word for word in words):
        bad = next(word for word in words if not _is_number(word))
        raise ParseError(f"{shown(bad)} stands where a number should be.", path)
    return numbers


def _is_number(word: bytes) -> bool:
    try:
        return not math.isnan(float(word)) and b"_" not in word
    except ValueError:
        return False


def _whole(number: float, low: int) -> bool:
    return low <= number < 2**53 and number == int(number)


def _labels(numbers: list[float]) -> np.ndarray | None:
    if not numbers or numbers[0] != len(numbers) - 1 or not all(_whole(number, 0) for number in numbers):
        return None
    return np.array(numbers[1:], dtype=np.int64)


def _marginals(numbers: list[float]) -> list[np.ndarray] | None:
    if not numbers or not _whole(numbers[0], 0):
        return None
    found, at = [], 1
    for _ in range(int(numbers[0])):
        if at >= len(numbers) or not _whole(numbers[at], 1) or at + numbers[at] >= len(numbers):
            return None
        some = np.array(numbers[at + 1 : at + 1 + int(numbers[at])])
        if some.min() < 0 or abs(some.sum() - 1) > _SUM:
            return None
        found.append(some)
        at += 1 + len(some)
    return found if at == len(numbers) else None
