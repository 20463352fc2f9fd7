# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def best(net: maxsum.kernels.records.FactorNet, factor: int, psi: numpy.ndarray, counts: numpy.ndarray) -> float:
    """
    Which members count in the best tuple of a factor of kind CARDINALITY, into ``counts`` (uint8); returns its value, ``-inf`` where there is none.
    """
