# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def descend(gradient: numpy.ndarray, weights: numpy.ndarray, curvature: float, rows: numpy.ndarray, core: numpy.ndarray, l1: float, l2: float, tolerance: float, most: int, step: numpy.ndarray) -> int:
    """
    Coordinate descent on ``<g, d> + d' (curvature I - rows core rows') d / 2 + l1 |w + d|_1 + l2 |w + d|^2 / 2`` from 0; the minimiser is written to ``step``. Returns the number of passes.
    """
