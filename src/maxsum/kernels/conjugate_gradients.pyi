# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def solve_parts(rows: maxsum.kernels.records.BlockRows, b: numpy.ndarray, x: numpy.ndarray, r: numpy.ndarray, p: numpy.ndarray, q: numpy.ndarray, inverse: numpy.ndarray, starts: numpy.ndarray, part: int, n_parts: int, tol: float, max_iter: int, residual: numpy.ndarray) -> int:
    """
    Solve ``Theta x = b`` on each of the parts ``part .. n_parts - 1``, from the ``x`` that is given.
    """

def block_diagonal(rows: maxsum.kernels.records.BlockRows, out: numpy.ndarray) -> None:
    """The diagonal of the matrix."""
