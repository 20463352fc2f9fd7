# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def arc_consistency(net: tuple, domain: numpy.ndarray, queue: numpy.ndarray, queued: numpy.ndarray, start_all: bool) -> bool:
    """
    Remove from ``domain`` (uint8, N x K) every label without a partner, in place; False if a node is left empty.
    """
