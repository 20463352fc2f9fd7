# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def node_terms(net: maxsum.kernels.records.Net, edge_messages: numpy.ndarray, clique_messages: numpy.ndarray, labels: numpy.ndarray) -> tuple[float, float]:
    """
    Sum over nodes of the best reparametrised score, and of its distance from the labelling (where given).
    """

def edge_terms(net: maxsum.kernels.records.Net, edge_messages: numpy.ndarray, labels: numpy.ndarray, first: int, last: int) -> tuple[float, float]:
    """The same for the edges ``first .. last - 1``."""

def clique_terms(net: maxsum.kernels.records.Net, clique_messages: numpy.ndarray, labels: numpy.ndarray) -> tuple[float, float]:
    """
    The same for the cliques: the larger of the best without the reward and the best with it.
    """
