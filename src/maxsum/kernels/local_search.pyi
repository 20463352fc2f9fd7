# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def total_score(net: maxsum.kernels.records.Net, labels: numpy.ndarray) -> float:
    """Score of a labelling."""

def grow_forest(net: maxsum.kernels.records.Net, state: numpy.ndarray, order: numpy.ndarray, touch: numpy.ndarray, up: numpy.ndarray, frontier: numpy.ndarray) -> int:
    """
    A random set of nodes without a cycle among them, to which no node could be added; returns its size.
    """

def forest_moves(net: maxsum.kernels.records.Net, n_moves: int, temperature: float, factor: float, gumbel: numpy.ndarray, state: numpy.ndarray, labels: numpy.ndarray, best: numpy.ndarray, levels: numpy.ndarray, work: tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray]) -> float:
    """
    Give a random forest its best labelling, ``n_moves`` times; returns the temperature after them.
    """
