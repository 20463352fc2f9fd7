# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def solve_pairs(ranges: numpy.ndarray, head: numpy.ndarray, x_ptr: numpy.ndarray, x_col: numpy.ndarray, x_val: numpy.ndarray, nodes: numpy.ndarray, pairs: numpy.ndarray, triples: numpy.ndarray, loss: numpy.ndarray, rest: numpy.ndarray, scores: numpy.ndarray, tags: numpy.ndarray) -> None:
    """
    Best tags of the nodes ``ranges[i, 0] .. ranges[i, 1] - 1``, in chains that start where ``head`` is set.
    """
