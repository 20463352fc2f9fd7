# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def settle_nodes(n_states: numpy.ndarray, node: numpy.ndarray, first: int, last: int) -> None:
    """
    Nodes ``first .. last - 1`` made distributions over their own labels, in place; an empty row becomes uniform.
    """

def add_edge_marginals(edges: numpy.ndarray, edge: numpy.ndarray, node: numpy.ndarray) -> None:
    """
    Add both marginals of each edge table to the rows of its nodes, so that `settle_nodes` makes their average.
    """

def settle_edges(edges: numpy.ndarray, node: numpy.ndarray, edge: numpy.ndarray, first: int, last: int) -> None:
    """
    Edges ``first .. last - 1`` moved, in place, to non-negative tables with the marginals that their nodes have.
    """

def expected_difference(design: maxsum.kernels.records.Design, c: numpy.ndarray, node: numpy.ndarray, edge: numpy.ndarray, first: int, last: int, out: numpy.ndarray) -> float:
    """
    Add the expected difference of features of the examples ``first .. last - 1`` to ``out``; returns their expected loss.
    """
