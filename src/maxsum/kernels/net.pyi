# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


fields_of_Net: tuple[str, ...]

def adjacency(n_nodes: int, edges: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """
    Edges at each node in the order of the edges (counting sort): ``(ptr, adj_edge, adj_side)``.
    """

def memberships(n_nodes: int, nodes: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """
    Positions in ``nodes`` (clique members) of each node: ``(ptr, member)``.
    """
