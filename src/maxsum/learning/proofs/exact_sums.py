"""Rational arithmetic for certificates of learning: float64 numbers are whole numbers times a power of two, and so are their sums."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...core.certificates.exact import lowest_exponent, to_float_up, to_integers


def scaled(values: Any) -> tuple[np.ndarray, int]:
    """Whole numbers (Python's, in an object array) and a power: ``values == numbers * 2.0 ** power``, exactly."""
    power = lowest_exponent(values)
    return to_integers(values, power), power


def add_up(keys: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys, each once and ascending, and the sums of their numbers; sums of 0 are left out."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=object)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    sums = np.add.reduceat(numbers[order].astype(object), first)
    some = np.flatnonzero(sums != 0)
    return keys[first][some].astype(np.int64), sums[some]


@dataclass(frozen=True, eq=False)
class Dyadic:
    """A sparse vector of whole numbers times a power of two."""

    index: np.ndarray
    numbers: np.ndarray
    power: int

    @classmethod
    def none(cls) -> Dyadic:
        """The zero vector."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=object), 0)

    @classmethod
    def of(cls, values: np.ndarray) -> Dyadic:
        """A vector of float64."""
        index = np.flatnonzero(values)
        return cls(index.astype(np.int64), *scaled(values[index]))

    def __add__(self, other: Dyadic) -> Dyadic:
        power = min(self.power, other.power)
        own = [one.numbers * (1 << (one.power - power)) for one in (self, other)]
        return Dyadic(*add_up(np.concatenate([self.index, other.index]), np.concatenate(own)), power)

    def sum(self) -> Fraction:
        """The sum of all entries."""
        return power_of(self.power) * int(sum(self.numbers.tolist()))

    def square(self) -> Fraction:
        """The square of the Euclidean norm."""
        return power_of(2 * self.power) * int(sum(number * number for number in self.numbers.tolist()))


def power_of(power: int) -> Fraction:
    """``2 ** power``."""
    return Fraction(1 << power) if power >= 0 else Fraction(1, 1 << -power)


def rounded(value: Fraction, up: bool) -> float:
    """The nearest float64 that is not below (or not above) a number."""
    return to_float_up(value) if up else -to_float_up(-value)
