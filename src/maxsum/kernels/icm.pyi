# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def icm_sweeps(net: maxsum.kernels.records.Net, labels: numpy.ndarray, max_iter: int) -> tuple[int, int]:
    """
    Improve ``labels`` (int32, in place) by sweeps in node order until nothing changes; returns ``(sweeps, moves)``.
    """
