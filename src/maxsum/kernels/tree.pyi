# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def forest_order(n_nodes: int, edges: numpy.ndarray, ptr: numpy.ndarray, adj_edge: numpy.ndarray, adj_side: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """
    Nodes component by component, parents first; the edge to the parent and the side of the child on it: ``(order, parent_edge, parent_side, starts)``.
    """

def solve_forest(net: maxsum.kernels.records.Net, order: numpy.ndarray, parent_edge: numpy.ndarray, parent_side: numpy.ndarray, starts: numpy.ndarray, first: int, last: int, hard: bool, messages: numpy.ndarray, labels: numpy.ndarray) -> None:
    """
    Best labelling of the components ``first .. last - 1``, with messages that prove it.
    """

def solve_forests(net: maxsum.kernels.records.Net, order: numpy.ndarray, parent_edge: numpy.ndarray, parent_side: numpy.ndarray, starts: numpy.ndarray, ranges: numpy.ndarray, hard: bool, messages: numpy.ndarray, labels: numpy.ndarray) -> None:
    """
    `solve_forest` for several ranges of components, ``ranges[i, 0] .. ranges[i, 1] - 1``.
    """

def solve_apart(net: maxsum.kernels.records.Net, order: numpy.ndarray, parent_edge: numpy.ndarray, parent_side: numpy.ndarray, starts: numpy.ndarray, ranges: numpy.ndarray, truth: numpy.ndarray, messages: numpy.ndarray, labels: numpy.ndarray) -> None:
    """
    The best labelling of each range of components that is not the true one; the truth where there is no other.
    """
