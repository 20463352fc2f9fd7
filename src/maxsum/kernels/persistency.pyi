# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def box_losses(unary: numpy.ndarray, edges: numpy.ndarray, edge_table: numpy.ndarray, edge_weight: numpy.ndarray, tables: numpy.ndarray, ptr: numpy.ndarray, adj_edge: numpy.ndarray, adj_side: numpy.ndarray, messages: numpy.ndarray, domain: numpy.ndarray, labels: numpy.ndarray, loss: numpy.ndarray) -> float:
    """
    How far the best of a box may lie above a known labelling; what each of its labels loses is put into ``loss``.
    """
