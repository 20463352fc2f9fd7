# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def value(net: maxsum.kernels.records.FactorNet, labels: numpy.ndarray) -> float:
    """
    Score of a labelling: unary and factors; ``-inf`` where it uses what is forbidden.
    """

def icm(net: maxsum.kernels.records.FactorNet, labels: numpy.ndarray, max_rounds: int) -> int:
    """
    Improve ``labels`` (int32, in place) by moves of single nodes in node order until nothing changes; returns the number of rounds. Violations of hard constraints are reduced first.
    """
