# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def icm_sweeps(net: tuple, labels: numpy.ndarray, max_iter: int) -> tuple[int, int]:
    """
    Improve ``labels`` (int32, in place) by sweeps in node order until nothing changes; returns ``(sweeps, moves)``.
    """
