"""Sudoku puzzles with their solutions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError, ParseError
from ..core.files.text import Limits
from .source import MissingDataError, lines

SOURCE = (
    "Puzzles with solutions: lines `set,puzzle,solution,...` of 81 digits (0 or . for blank). The puzzles are in "
    "norvig/pytudes (sudoku-easy50, sudoku-top95), the training puzzles in toulbar2/CFN-learn (validation set of RRN), both on GitHub."
)
FILE = "norvig_with_solutions.csv"
_LIMITS = Limits(bytes=1 << 28)
_DIGITS = "123456789"


class Puzzle(NamedTuple):
    """Given digits (0: blank) and the solution, cell after cell."""

    given: np.ndarray
    solution: np.ndarray


def read_sudoku(path: str | os.PathLike[str], chosen: str | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Puzzles and their solutions from a file.

    Parameters
    ----------
    path : path-like
        A file of lines ``puzzle,solution`` or ``set,puzzle,solution,...``, perhaps compressed.
    chosen : str, optional
        Only the puzzles of this set.

    Returns
    -------
    X : list of ndarray of int64, shape (81,)
        Given digits, 0 for a blank.
    y : list of ndarray of int64, shape (81,)
        Digits of the solution, 1 to 9.

    Raises
    ------
    MissingDataError
        There is no such file.
    ParseError
        A line is no puzzle with a solution.
    """
    file = Path(path)
    if not file.is_file():
        raise MissingDataError(f"there is no file {file}. {SOURCE}")
    puzzles = read_puzzles(file, chosen)
    if chosen is not None and not puzzles:
        raise InvalidParameterError(f"{file} has no puzzles of the set {chosen!r}.")
    return [puzzle.given for puzzle in puzzles], [puzzle.solution for puzzle in puzzles]


def read_puzzles(path: Path, chosen: str | None = None) -> list[Puzzle]:
    """Puzzles of a file of lines ``set,puzzle,solution,...`` (of one set) or ``puzzle,solution``."""
    found = []
    for number, line in lines(path, _LIMITS):
        row = line.strip().split(",")
        if row == [""]:
            continue
        fields = row if len(row) == 2 else row[1:3]
        if len(fields) != 2 or any(len(text) != 81 for text in fields):
            raise ParseError(
                "wanted `puzzle,solution` or `set,puzzle,solution,...` with 81 characters each.", str(path), number
            )
        if chosen is not None and row[0] != chosen:
            continue
        given, solution = fields
        for cell, (digit, answer) in enumerate(zip(given, solution, strict=True)):
            if answer not in _DIGITS:
                raise ParseError(f"cell {cell} of the solution is {answer!r}, wanted a digit 1 to 9.", str(path), number)
            if digit not in "0." and digit != answer:
                wanted = f"{answer} as in the solution" if digit in _DIGITS else "a digit, or 0 or . for blank"
                raise ParseError(f"cell {cell} of the puzzle is {digit!r}, wanted {wanted}.", str(path), number)
        found.append(Puzzle(*(np.array([0 if c == "." else int(c) for c in text], dtype=np.int64) for text in fields)))
    return found


def read_givens(path: Path) -> list[list[int]]:
    """Puzzles without solutions, a line each: 81 digits, 0 or . for blank."""
    found = []
    for number, line in lines(path, _LIMITS):
        text = line.strip().replace(".", "0")
        if not text:
            continue
        if len(text) != 81 or text.strip("0" + _DIGITS):
            raise ParseError("wanted 81 digits, 0 or . for blank.", str(path), number)
        found.append([int(digit) for digit in text])
    return found
