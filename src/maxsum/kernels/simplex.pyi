# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def project(points: numpy.ndarray, n_states: numpy.ndarray, out: numpy.ndarray) -> None:
    """Nearest point of the simplex, row by row."""

def ends(gradient: numpy.ndarray, alpha: numpy.ndarray, first: int, n: int) -> tuple[int, int]:
    """
    Of ``n`` entries, with weights ``alpha[first:]``: the one with the largest gradient, and that with the smallest among those with weight.
    """

def exchange(alpha: numpy.ndarray, high: int, low: int, slope: float, curve: float) -> float:
    """
    Move the best amount from ``alpha[low]`` to ``alpha[high]``; returns the amount.
    """
