# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def energies(rows: maxsum.kernels.records.BlockRows, theta: numpy.ndarray, mu: numpy.ndarray, work: numpy.ndarray, starts: numpy.ndarray, first: int, last: int, out: numpy.ndarray) -> None:
    """``out[i]``: the energy of the parts ``first .. last - 1``."""

def pair_moments(x: numpy.ndarray, y: numpy.ndarray, edges: numpy.ndarray, n_states: numpy.ndarray, indptr: numpy.ndarray, indices: numpy.ndarray, values: numpy.ndarray, weight: numpy.ndarray, first: int, last: int, out: numpy.ndarray) -> None:
    """
    Add half the second moments of the edges ``first .. last - 1``, each times its weight and its features, to ``out``.
    """
