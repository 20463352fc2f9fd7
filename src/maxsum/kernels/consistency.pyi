# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def arc_consistency(net: maxsum.kernels.records.Net, domain: numpy.ndarray, queue: numpy.ndarray, queued: numpy.ndarray, start_all: bool) -> bool:
    """
    Remove from ``domain`` (uint8, N x K) every label without a partner, in place; False if a node is left empty.
    """
