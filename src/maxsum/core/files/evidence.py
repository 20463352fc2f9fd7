"""Evidence: values of variables that are known, as the UAI competitions write them beside a network.

Layout: the number of observed variables, then ``variable value`` for each. The older layout has the number of sets of evidence before that, and
then each set. The two differ in how many numbers there are: one set of c pairs has ``2 c + 2`` of them, an even number, and the newer layout
``2 c + 1``; s sets that are not empty have ``s + 1 + 2 c`` with ``c >= s``, more than ``2 s + 1``. So nothing has to be guessed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..errors import InfeasibleError, InvalidParameterError, ParseError
from ..ownership import own
from ..problem import Problem
from .text import COMPRESSIONS, Limits, Tokens, opened, shown

Evidence = str | os.PathLike[str] | Mapping[int, int]
_MOST_WORDS = 10**7  # numbers of a file of evidence: far above any network that fits into memory here


def find_evidence(path: Path) -> Path | None:
    """The file of evidence beside a problem: ``NAME.uai.evid`` or ``NAME.evid``, perhaps compressed.

    Parameters
    ----------
    path : Path
        The problem, ``NAME.uai``, perhaps compressed.
    """
    plain = path.with_suffix("") if path.suffix[1:].lower() in COMPRESSIONS else path
    names = (plain.with_name(plain.name + ".evid"), plain.with_suffix(".evid"))
    found = [name.with_name(name.name + end) for name in names for end in ("", *(f".{c}" for c in COMPRESSIONS))]
    found = [name for name in found if name.is_file()]
    if len(found) > 1:
        raise ParseError(
            f"two files of evidence lie beside it, {found[0].name} and {found[1].name}; say which with evidence=...", str(path)
        )
    return found[0] if found else None


def given_evidence(evidence: Evidence | None, path: Path, limits: Limits) -> tuple[dict[int, int], str]:
    """Values by variable from what a caller gave, and where they come from."""
    if evidence is None:
        return {}, ""
    if isinstance(evidence, Mapping):
        for pair in evidence.items():
            if not all(isinstance(item, (int, np.integer)) and not isinstance(item, bool) for item in pair):
                raise InvalidParameterError(f"evidence has {pair[0]!r}: {pair[1]!r}, wanted whole numbers, variable: value.")
        return {int(v): int(k) for v, k in evidence.items()}, "evidence"
    source = find_evidence(path) if evidence == "auto" else Path(evidence)
    return ({}, "") if source is None else (read_evidence(source, limits), str(source))


def read_evidence(path: str | os.PathLike[str], limits: Limits | None = None) -> dict[int, int]:
    """Read a file of evidence in the format of the UAI competitions.

    Parameters
    ----------
    path : path-like
        Perhaps with ``.gz``, ``.xz`` or ``.bz2`` at its end.
    limits : Limits, optional

    Returns
    -------
    dict
        Value of each observed variable.

    Raises
    ------
    ParseError
        The file is broken, or holds several sets of evidence.
    """
    source = Path(path)
    ending = source.suffix[1:].lower()
    limits = limits or Limits()
    with opened(source, ending if ending in COMPRESSIONS else None, limits) as stream:
        tokens = Tokens(stream)
        numbers = [tokens.integer("the number of observed variables", low=0, high=_MOST_WORDS)]
        while (word := tokens.maybe()) is not None:
            if not word.isdigit() or len(word) > 18:
                tokens.fail(f"{shown(word)} stands where a variable or a value should be, wanted a whole number, 0 or more.")
            numbers.append(int(word))
            if len(numbers) > _MOST_WORDS:
                tokens.fail(f"the file holds more than {_MOST_WORDS} numbers; refused.")
    return _pairs(numbers, str(source))


def _pairs(numbers: list[int], path: str) -> dict[int, int]:
    first = numbers[0]
    if len(numbers) == 2 * first + 1:
        flat = numbers[1:]
    elif first == 1 and len(numbers) >= 2 and len(numbers) == 2 * numbers[1] + 2:
        flat = numbers[2:]
    elif _sets(numbers):
        raise ParseError(
            f"the file holds {first} sets of evidence, wanted one; keep the set that is meant in a file by itself.", path
        )
    else:
        raise ParseError(
            f"the file says that {first} variables are observed, which takes {2 * first} numbers, but {len(numbers) - 1} follow; wanted "
            '"count variable value variable value ...", perhaps with the number of sets, 1, before it.',
            path,
        )
    found: dict[int, int] = {}
    for v, k in zip(flat[::2], flat[1::2], strict=True):
        if found.setdefault(v, k) != k:
            raise ParseError(f"variable {v} is observed twice, with the values {found[v]} and {k}.", path)
    return found


def _sets(numbers: list[int]) -> bool:
    """Whether the numbers are several sets of evidence in the older layout."""
    at = 1
    for _ in range(numbers[0]):
        if at >= len(numbers):
            return False
        at += 1 + 2 * numbers[at]
    return numbers[0] > 1 and at == len(numbers)


def observed(problem: Problem, values: Mapping[int, int], source: str) -> Problem:
    """The same problem with every other label of the observed nodes forbidden; nodes keep their numbers."""
    if not values:
        return problem
    unary = problem.unary.copy()
    for v, k in values.items():
        if not 0 <= v < problem.n_nodes:
            raise ParseError(
                f"variable {v} is observed, but there are {problem.n_nodes}, from 0; is it the evidence of this file?", source
            )
        if not 0 <= k < problem.n_states[v]:
            raise ParseError(f"variable {v} is observed to be {k}, but it has the values 0..{problem.n_states[v] - 1}.", source)
        kept = unary[v, k]
        if kept == -np.inf:
            infeasible = InfeasibleError(f"node {v} has the value {k}, which the problem forbids.")
            raise ParseError(
                f"variable {v} is observed to be {k}, which the problem forbids: no labelling exists.", source
            ) from infeasible
        unary[v] = -np.inf
        unary[v, k] = kept
    names = ("graph", "tables", "edge_table", "edge_weight", "n_states", "cliques", "offset", "factors")
    return Problem._trusted(unary=own(unary), **{name: getattr(problem, name) for name in names})
