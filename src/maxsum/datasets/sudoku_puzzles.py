"""Sudoku puzzles, made at random with one solution each, and the search that counts solutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.parameters import WholeNumber, check_value
from .made.generate import _check_sizes, _generator

_ALL = 0b111111111  # one bit a digit, 1 to 9
_ROW, _COLUMN = np.divmod(np.arange(81), 9)
_UNITS = list(zip(_ROW.tolist(), (9 + _COLUMN).tolist(), (18 + _ROW // 3 * 3 + _COLUMN // 3).tolist(), strict=True))


def make_sudoku(n_puzzles: int = 10, n_given: int = 30, random_state: Any = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sudoku puzzles with exactly one solution.

    A solved grid is found by a search in random order; digits are then taken away in random order as long as the solution stays
    the only one.

    Parameters
    ----------
    n_puzzles : int
        How many.
    n_given : int
        Digits to leave, 17 to 81. Where no more can be taken away, more are left: about 24 on average for the least number.
    random_state : int, sequence of int or numpy Generator
        For the grids.

    Returns
    -------
    X : list of ndarray of int64, shape (81,)
        Given digits, 0 for a blank.
    y : list of ndarray of int64, shape (81,)
        Digits of the solution, 1 to 9.
    """
    _check_sizes(n_images=n_puzzles, n_given=n_given)
    check_value("n_given", n_given, WholeNumber(17, 81, wanted="17 to 81; no puzzle with fewer digits has one solution"))
    random = _generator(random_state)
    X, y = [], []
    for _ in range(n_puzzles):
        solution = solutions([0] * 81, most=1, order=random)[0]
        given, left = list(solution), 81
        for cell in random.permutation(81).tolist():
            if left == n_given:
                break
            given[cell] = 0
            if len(solutions(given, most=2)) == 1:
                left -= 1
            else:
                given[cell] = solution[cell]
        X.append(np.array(given, dtype=np.int64))
        y.append(np.array(solution, dtype=np.int64))
    return X, y


def solutions(given: Sequence[int], most: int, order: np.random.Generator | None = None) -> list[list[int]]:
    """Solutions of a puzzle, ``most`` at most, by a search that fills the cell with the fewest digits first.

    Parameters
    ----------
    given : sequence of 81 ints
        0 for a blank.
    most : int
        Stop when so many are found.
    order : numpy Generator, optional
        Tries digits in random order instead of ascending order.

    Returns
    -------
    list of lists of 81 ints
    """
    grid = list(given)
    free = [_ALL] * 27
    for cell, digit in enumerate(grid):
        if digit:
            bit = 1 << digit - 1
            if any(not free[unit] & bit for unit in _UNITS[cell]):
                return []
            for unit in _UNITS[cell]:
                free[unit] ^= bit
    found: list[list[int]] = []
    _search(grid, free, [cell for cell in range(81) if not grid[cell]], most, order, found)
    return found


def _search(
    grid: list[int], free: list[int], blank: list[int], most: int, order: np.random.Generator | None, found: list[list[int]]
) -> None:
    """Extend a grid in all ways. ``free`` holds, as bits, the digits that each row, column and box lacks."""
    if not blank:
        found.append(list(grid))
        return
    place, best = _next_cell(free, blank)
    cell = blank[place]
    rest = blank[:place] + blank[place + 1 :]
    choices = [digit for digit in range(1, 10) if best >> digit - 1 & 1]
    for digit in choices if order is None else order.permutation(choices).tolist():
        bit = 1 << digit - 1
        grid[cell] = digit
        for unit in _UNITS[cell]:
            free[unit] ^= bit
        _search(grid, free, rest, most, order, found)
        for unit in _UNITS[cell]:
            free[unit] ^= bit
        grid[cell] = 0
        if len(found) >= most:
            return


def _next_cell(free: list[int], blank: list[int]) -> tuple[int, int]:
    """Where to go on in ``blank``, and the digits to try there: what only one cell can take, else the cell with the fewest."""
    place, best, fewest = 0, 0, 10
    once, twice = [0] * 27, [0] * 27
    options = []
    for i, cell in enumerate(blank):
        row, column, box = _UNITS[cell]
        digits = free[row] & free[column] & free[box]
        options.append(digits)
        n_digits = digits.bit_count()
        if n_digits < fewest:
            place, best, fewest = i, digits, n_digits
            if n_digits <= 1:
                return place, best
        for unit in (row, column, box):
            twice[unit] |= once[unit] & digits
            once[unit] |= digits
    if any(once[unit] != free[unit] for unit in range(27)):
        return 0, 0
    for i, cell in enumerate(blank):
        for unit in _UNITS[cell]:
            only = options[i] & once[unit] & ~twice[unit]
            if only:
                return i, only & -only
    return place, best
