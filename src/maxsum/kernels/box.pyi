# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Box: tuple[str, ...]

def pack(net: maxsum.kernels.records.Net, domain: numpy.ndarray, edge_messages: numpy.ndarray, box: maxsum.kernels.records.Box) -> None:
    """Labels, tables and messages of the box into ``box``."""

def unpack(net: maxsum.kernels.records.Net, edge_messages: numpy.ndarray, box: maxsum.kernels.records.Box) -> None:
    """Write the messages back; those of labels outside the box become 0."""

def packed_sweep(unary: numpy.ndarray, edges: numpy.ndarray, ptr: numpy.ndarray, adj_edge: numpy.ndarray, adj_side: numpy.ndarray, box: maxsum.kernels.records.Box, forward: bool) -> float:
    """One pass as `trws.sweep`; returns the bound."""

def tighten(net: maxsum.kernels.records.Net, domain: numpy.ndarray, edge_messages: numpy.ndarray, height: float, target: float, max_iter: int, least: float, box: maxsum.kernels.records.Box, labels: numpy.ndarray) -> tuple[float, int]:
    """
    TRW-S passes on the box, at most ``max_iter``, as long as they promise to close it: ``(score of a labelling, passes)``.
    """
