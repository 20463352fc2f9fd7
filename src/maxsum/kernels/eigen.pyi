# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def inverse_of(matrix: numpy.ndarray, tol: float, out: numpy.ndarray) -> None:
    """
    Pseudo-inverse of a symmetric matrix, which is destroyed; eigenvalues of at most ``tol`` of the largest count as 0.
    """
