# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def products(rows: numpy.ndarray, first: numpy.ndarray, second: numpy.ndarray, out: numpy.ndarray) -> None:
    """
    ``out[i, j] = <rows[first[i]], rows[second[j]]>`` in one pass over all of them.
    """

def combination(rows: numpy.ndarray, which: numpy.ndarray, shares: numpy.ndarray, out: numpy.ndarray) -> None:
    """``out = sum_i shares[i] * rows[which[i]]`` in one pass."""

def best_shares(offsets: numpy.ndarray, square: numpy.ndarray, alpha: numpy.ndarray, enough: float, n_steps: int) -> None:
    """
    Maximise <a, alpha> - alpha' Q alpha / 2 over shares >= 0 with sum 1, in place, by pairwise steps.
    """
