# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Soft: tuple[str, ...]

ZERO: float = -700.0

def sweep(soft: maxsum.kernels.records.Soft, messages: numpy.ndarray, heat: float, j: int, forward: bool) -> None:
    """
    Minimise the smoothed bound of example ``j`` over the messages of each node in turn, in place.
    """

def relax(soft: maxsum.kernels.records.Soft, messages: numpy.ndarray, heat: float, c: numpy.ndarray, allowed: numpy.ndarray, n_rounds: int, first: int, last: int, before: numpy.ndarray, beliefs: numpy.ndarray, marginals: numpy.ndarray, out: numpy.ndarray) -> None:
    """
    Improve the messages of each of the examples ``first .. last - 1`` until ``c * error`` is at most ``allowed``.
    """

def message_gradient(soft: maxsum.kernels.records.Soft, messages: numpy.ndarray, heat: float, c: numpy.ndarray, first: int, last: int, beliefs: numpy.ndarray, marginals: numpy.ndarray, gradient: numpy.ndarray) -> float:
    """
    Derivative (2, E, K) of the smoothed slacks of the examples ``first .. last - 1``, times ``c``, by their messages.
    """
