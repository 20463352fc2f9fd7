"""Files of max-sum problems: UAI, toulbar2's ``.wcsp`` and ``.cfn``, and the exact ``.npz`` of this library.

============ ======= ======= ==========================================================================
suffix       read    write   holds
============ ======= ======= ==========================================================================
``.npz``     yes     yes     every field of a `Problem`, exactly
``.uai``     yes     yes     factors as probabilities (the standard), or as costs or scores
``.wcsp``    yes     yes     toulbar2's cost functions (whole numbers), global ones too
``.cfn``     yes     yes     toulbar2's cost functions (JSON, decimals), its relaxed form too
============ ======= ======= ==========================================================================

``.gz``, ``.xz`` or ``.bz2`` after the suffix compresses the file. Files may come from anybody: a broken or hostile one
raises `ParseError` with the line and the fault, within bounded memory.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import MaxsumError, ParseError
from ..problem import Problem
from . import cfn, npz, uai, wcsp
from .evidence import Evidence, find_evidence, given_evidence, observed, read_evidence
from .store import atomic
from .text import COMPRESSIONS, Limits, opened
from .toulbar2_write import CfnWriter, WcspWriter
from .uai_results import UAISolution, read_uai_solution

__all__ = ["UAISolution", "find_evidence", "holds_costs", "read_evidence", "read_problem", "read_uai_solution", "save"]

_HEAD = 1 << 16  # bytes in which the bound of a .cfn file stands: it is its second word
FORMATS = ("uai", "wcsp", "cfn", "npz")


def read_problem(
    path: str | os.PathLike[str], *, format: str | None = None, values: str | None = None, evidence: Evidence | None = None
) -> Problem:
    """Read a max-sum problem.

    Functions of one or two variables with the same scope, in either orientation, are summed (the first one sets the orientation of the edge);
    larger ones are factors. Equal tables are stored once. Of toulbar2's global cost functions those are read that factors can express
    (all different, counts of values, linear inequalities and sums); others are refused by name.

    Parameters
    ----------
    path : path-like
        A ``.uai``, ``.wcsp``, ``.cfn`` or ``.npz`` file, perhaps with ``.gz``, ``.xz`` or ``.bz2`` after it.
    format : {"uai", "wcsp", "cfn", "npz"}, optional
        Taken from the suffix by default.
    values : {"probabilities", "costs", "scores"}, optional
        What the numbers of a UAI file mean: ``score = log(value)`` (the default), ``-value`` or ``value``.
        The other formats say it themselves.
    evidence : path-like, dict of {variable: value} or "auto", optional
        What is known about variables: every other label of such a node gets the score ``-inf``. Nodes keep their numbers and labellings have
        an entry for all of them. A path is a file of the UAI competitions (a count, then pairs ``variable value``, perhaps after the number of
        sets, 1); ``"auto"`` takes ``NAME.uai.evid`` or ``NAME.evid`` beside the file, perhaps compressed, if there is one.

    Returns
    -------
    Problem
        For files of costs, ``cost(y) == -problem.score(y)``; forbidden tuples have the score ``-inf``.

    Raises
    ------
    ParseError
        The file is broken, too large, or holds something that a `Problem` cannot.
    """
    return _read(Path(path), format, values, Limits(), evidence)


def _read(path: Path, format: str | None, values: str | None, limits: Limits, evidence: Evidence | None = None) -> Problem:
    kind, compression = _kind(path, format)
    _check_values(path, kind, values)
    known, source = given_evidence(evidence, path, limits)
    try:
        with opened(path, compression, limits) as stream:
            if kind == "uai":
                problem = uai.read(stream, limits, values or "probabilities")
            else:
                problem = {"wcsp": wcsp.read, "cfn": cfn.read, "npz": npz.read}[kind](stream, limits)
    except ParseError:
        raise
    except MaxsumError as error:
        raise ParseError(str(error), str(path)) from error
    return observed(problem, known, source)


def holds_costs(path: str | os.PathLike[str], *, format: str | None = None, values: str | None = None) -> bool:
    """Whether the numbers of a file are costs, which are minimised: toulbar2's files (but for those that say ``mustbe: >``), UAI files of costs.

    Parameters
    ----------
    path : path-like
    format, values : str, optional
        As for `read_problem`.
    """
    target = Path(path)
    kind, compression = _kind(target, format)
    if kind != "cfn":
        return kind == "wcsp" or values == "costs"
    with opened(target, compression, Limits()) as stream:
        return cfn.minimises(stream.read(_HEAD))


def save(
    problem: Problem,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    values: str | None = None,
    precision: int | None = None,
) -> None:
    """Write a problem, whole or not at all: a temporary file in the same folder replaces ``path`` at the very end.

    Parameters
    ----------
    problem : Problem
    path : path-like
        A ``.npz`` file, which keeps every field exactly (but for ``graph.merge`` and table entries that no edge can
        use), or a ``.uai``, ``.wcsp`` or ``.cfn`` file, perhaps with ``.gz``, ``.xz`` or ``.bz2`` after it. These three keep the score of every
        labelling; edge types, the shape of a grid and the parts of a union are not in them, and a clique comes back as a factor. A UAI file has
        tables only, so a factor without one (all different, say) must be small enough for one.
    format : {"uai", "wcsp", "cfn", "npz"}, optional
        Taken from the suffix by default.
    values : {"probabilities", "costs", "scores"}, optional
        UAI only. ``"costs"`` (``-score``, with ``inf`` for a forbidden label) and ``"scores"`` are exact; read such
        a file with the same ``values``. ``"probabilities"``, the default and the standard, writes
        ``exp(score - maximum of the factor)``, so scores come back rounded; factors of no variables keep the constant.
    precision : int, optional
        ``.wcsp`` only, whose costs are whole numbers, 0 or more: costs (``-score``) are multiplied by 10 to this power and rounded, and come back
        as such. Without it a problem with other numbers is refused. ``.cfn`` has decimals and costs of both signs, and is exact.

    Raises
    ------
    UnsupportedProblemError
        The format cannot hold the problem.
    """
    target = Path(path)
    kind, compression = _kind(target, format)
    _check_values(target, kind, values)
    if precision is not None and kind != "wcsp":
        raise ParseError(f'precision={precision!r} is for .wcsp files; a ".{kind}" file keeps all digits.', str(target))
    if kind == "npz":
        return atomic(target, compression, lambda file: npz.write(problem, file))
    writer: uai.Writer | WcspWriter | CfnWriter
    if kind == "uai":
        writer = uai.Writer(problem, values or "probabilities")
    else:
        writer = WcspWriter(problem, precision) if kind == "wcsp" else CfnWriter(problem)
    atomic(target, compression, writer.write)


def _kind(path: Path, format: str | None) -> tuple[str, str | None]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop()[1:] if suffixes and suffixes[-1][1:] in COMPRESSIONS else None
    if format is not None:
        if format not in FORMATS:
            raise ParseError(f"format is {format!r}, wanted one of {', '.join(FORMATS)}.", str(path))
        return format, compression
    suffix = suffixes[-1] if suffixes else ""
    if suffix[1:] not in FORMATS:
        raise ParseError(
            f'the suffix "{suffix}" names no known format; wanted .uai, .wcsp, .cfn or .npz, perhaps with '
            f".{', .'.join(COMPRESSIONS)} after it. Say which it is with format=...",
            str(path),
        )
    return suffix[1:], compression


def _check_values(path: Path, kind: str, values: str | None) -> None:
    if values is None:
        return
    if values not in uai.VALUES:
        raise ParseError(f"values is {values!r}, wanted one of {', '.join(uai.VALUES)}.", str(path))
    if kind != "uai":
        raise ParseError(f'values={values!r} is for UAI files; a ".{kind}" file says itself what its numbers are.', str(path))
