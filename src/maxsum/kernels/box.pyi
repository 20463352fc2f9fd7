# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


fields_of_Box: tuple = ...

def pack(net: tuple, domain: numpy.ndarray, edge_messages: numpy.ndarray, box: tuple) -> None:
    """Labels, tables and messages of the box into ``box``."""

def unpack(net: tuple, edge_messages: numpy.ndarray, box: tuple) -> None:
    """Write the messages back; those of labels outside the box become 0."""

def packed_sweep(unary: numpy.ndarray, edges: numpy.ndarray, ptr: numpy.ndarray, adj_edge: numpy.ndarray, adj_side: numpy.ndarray, box: tuple, forward: bool) -> float:
    """One pass as `trws.sweep`; returns the bound."""

def tighten(net: tuple, domain: numpy.ndarray, edge_messages: numpy.ndarray, height: float, target: float, max_iter: int, least: float, box: tuple, labels: numpy.ndarray) -> tuple[float, int]:
    """
    TRW-S passes on the box, at most ``max_iter``, as long as they promise to close it: ``(score of a labelling, passes)``.
    """
