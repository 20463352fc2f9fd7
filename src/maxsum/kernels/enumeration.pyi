# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


fields_of_Enumeration: tuple = ...

def enumerate_box(net: tuple, edge_messages: numpy.ndarray, slack: numpy.ndarray, box: tuple, room: tuple, wanted: float, closed_gap: float, limit: int, labels: numpy.ndarray) -> tuple[int, float]:
    """
    Close all labellings of the box whose loss is at least ``wanted``, and look at the others: ``(opened, least loss)``.
    """
