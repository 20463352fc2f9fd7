# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def node_terms(net: tuple, edge_messages: numpy.ndarray, clique_messages: numpy.ndarray, labels: numpy.ndarray) -> tuple[float, float]:
    """
    Sum over nodes of the best reparametrised score, and of its distance from the labelling (where given).
    """

def edge_terms(net: tuple, edge_messages: numpy.ndarray, labels: numpy.ndarray, first: int, last: int) -> tuple[float, float]:
    """The same for the edges ``first .. last - 1``."""

def clique_terms(net: tuple, clique_messages: numpy.ndarray, labels: numpy.ndarray) -> tuple[float, float]:
    """
    The same for the cliques: the larger of the best without the reward and the best with it.
    """
