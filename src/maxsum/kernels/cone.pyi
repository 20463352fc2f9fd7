# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def project_duals(band: numpy.ndarray, targets: numpy.ndarray, multipliers: numpy.ndarray, max_rounds: int) -> int:
    """
    Multipliers of the projection onto ``D w >= 0``, one table a row, by block principal pivoting (Judice and Pires 1994).
    """

def raise_corners(weights: numpy.ndarray, quads: numpy.ndarray) -> None:
    """
    Raise the last corner of each quadruple ``(a, d, b, c)`` that does not hold; later quadruples see the change.
    """
