# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def log_sums(unary: numpy.ndarray, lengths: numpy.ndarray, table: numpy.ndarray, first: int, last: int, log_z: numpy.ndarray, node: numpy.ndarray, edge: numpy.ndarray) -> None:
    """
    Logarithms of the sums over labellings of the chains ``first .. last - 1``, the marginals of nodes, and sums of those of edges.
    """

def best_chains(unary: numpy.ndarray, lengths: numpy.ndarray, table: numpy.ndarray, first: int, last: int, fill: int, labels: numpy.ndarray, score: numpy.ndarray, bound: numpy.ndarray) -> None:
    """
    Best labellings of the chains ``first .. last - 1``, their scores, and bounds that no labelling exceeds.
    """

def score_chains(unary: numpy.ndarray, lengths: numpy.ndarray, table: numpy.ndarray, labels: numpy.ndarray, first: int, last: int, amount: numpy.ndarray, score: numpy.ndarray, node: numpy.ndarray, edge: numpy.ndarray) -> None:
    """
    Scores of given labellings of the chains ``first .. last - 1``; ``amount`` times their indicators is added to ``node`` and ``edge``.
    """
