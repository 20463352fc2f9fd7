# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Forest: tuple[str, ...]

FAINT: float = 1e-150

def log_sums(forest: maxsum.kernels.records.Forest, unary: numpy.ndarray, amount: numpy.ndarray, slot: numpy.ndarray, first: int, last: int, node: numpy.ndarray, up: numpy.ndarray, edge: numpy.ndarray, log_z: numpy.ndarray) -> None:
    """
    Logarithms of the sums over labellings of the components ``first .. last - 1`` into ``log_z``, and their marginals.
    """

def chain_colours(n_nodes: int, edges: numpy.ndarray, later: numpy.ndarray) -> numpy.ndarray:
    """
    Edges in as few classes as a greedy choice finds, such that in each class no node has two edges to lower or two to higher nodes.
    """

def reweighted_sweep(net: tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray], unary: numpy.ndarray, tables: numpy.ndarray, table_of: numpy.ndarray, rho: numpy.ndarray, messages: numpy.ndarray, first: int, last: int, forward: bool) -> None:
    """
    Tree-reweighted messages through the nodes ``first .. last - 1`` in turn, to higher nodes (``forward``) or to lower ones.
    """
