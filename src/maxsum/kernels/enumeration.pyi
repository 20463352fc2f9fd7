# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Enumeration: tuple[str, ...]

def enumerate_box(net: maxsum.kernels.records.Net, edge_messages: numpy.ndarray, slack: numpy.ndarray, box: maxsum.kernels.records.Box, room: maxsum.kernels.records.Enumeration, wanted: float, closed_gap: float, limit: int, labels: numpy.ndarray) -> tuple[int, float]:
    """
    Close all labellings of the box whose loss is at least ``wanted``, and look at the others: ``(opened, least loss)``.
    """
