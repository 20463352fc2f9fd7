# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def short_cycles(net: maxsum.kernels.records.Net, wanted: numpy.ndarray, limit: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """
    Triangles, and squares without a diagonal, of the nodes marked in ``wanted`` (uint8), about ``limit`` at most: ``(ptr, edge, turned)``.
    """

def edge_signs(net: maxsum.kernels.records.Net, messages: numpy.ndarray, labels: numpy.ndarray) -> numpy.ndarray:
    """
    By how much each edge prefers that both ends, or none, have their label of ``labels``.
    """

def frustrated_cycles(net: maxsum.kernels.records.Net, messages: numpy.ndarray, labels: numpy.ndarray, least: float, longest: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """
    Cycles whose edges, of signs above ``least``, contradict each other, of at most ``longest`` edges: ``(ptr, edge, turned)``.
    """
