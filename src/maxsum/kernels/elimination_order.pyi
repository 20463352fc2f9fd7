# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def least_fill(n_states: numpy.ndarray, edges: numpy.ndarray, scope_ptr: numpy.ndarray, scopes: numpy.ndarray, max_width: int, max_cells: float) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, int, float]:
    """
    The greedy order of least fill: ``(nodes, separator_ptr, separators, table_cells, width, cells)``; the width is -1 if it would pass a limit.
    """

def along(n_states: numpy.ndarray, edges: numpy.ndarray, scope_ptr: numpy.ndarray, scopes: numpy.ndarray, nodes: numpy.ndarray, max_width: int, max_cells: float) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, numpy.ndarray, int, float]:
    """The same for the order that removes the nodes as they are listed."""
