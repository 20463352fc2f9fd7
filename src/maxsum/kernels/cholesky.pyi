# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def cholesky(matrix: numpy.ndarray) -> bool:
    """
    Overwrite the lower triangle with ``L``, ``L @ L.T == matrix``; False where the matrix is not positive definite.
    """

def substitute(factor: numpy.ndarray, right: numpy.ndarray) -> numpy.ndarray:
    """
    Solve ``L @ L.T @ x == right``, with ``L`` in the lower triangle of ``factor``.
    """
