# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


UNROLLED: tuple[int, ...]

TURNED: int = 32

def uniform_sweep(unary: numpy.ndarray, edges: numpy.ndarray, edge_table: numpy.ndarray, edge_weight: numpy.ndarray, bank: numpy.ndarray, kind: numpy.ndarray, width: numpy.ndarray, slope: numpy.ndarray, ptr: numpy.ndarray, adj_edge: numpy.ndarray, adj_side: numpy.ndarray, n_labels: int, forms: int, messages: numpy.ndarray, forward: bool, first_row: int, last_row: int, first_column: int, last_column: int, n_columns: int) -> float:
    """
    One pass over the nodes of some rows and columns of a grid (all: one row of all nodes); returns its part of the bound.
    """
