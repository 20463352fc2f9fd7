# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def inner(x: numpy.ndarray, y: numpy.ndarray) -> float:
    """``<x, y>`` in four sums."""

def times(rows: numpy.ndarray, x: numpy.ndarray, out: numpy.ndarray) -> None:
    """``out = rows @ x``."""

def combine(rows: numpy.ndarray, shares: numpy.ndarray, out: numpy.ndarray) -> None:
    """``out = shares @ rows``."""
