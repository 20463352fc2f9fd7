# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def sweep(net: maxsum.kernels.records.FactorNet, forward: bool, messages: numpy.ndarray, settled: bool = False) -> float:
    """
    One pass over the nodes in order (``forward``) or in reverse; returns the bound of the messages after it, which is never worse than before. ``settled``: the last change of these messages was a pass in the other direction, so that first members need not ask their factors again.
    """

def terms(net: maxsum.kernels.records.FactorNet, messages: numpy.ndarray, labels: numpy.ndarray) -> tuple[float, float, float, float]:
    """
    Sums of the maxima over nodes and over factors, and of their distances from the labelling (where ``labels`` is not empty): ``(node_top, node_gap, factor_top, factor_gap)``; a distance is ``inf`` where the labelling uses what is forbidden.
    """
