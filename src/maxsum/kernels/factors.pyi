# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_FactorNet: tuple[str, ...]

def max_marginals(net: maxsum.kernels.records.FactorNet, factor: int, psi: numpy.ndarray, out: numpy.ndarray) -> float:
    """
    ``out[i, k]`` = maximum over tuples with label k at member i of the score of the factor plus the ``psi`` of all members, that of i included; ``-inf`` where there is no such tuple. Returns the maximum of all.
    """

def max_marginal(net: maxsum.kernels.records.FactorNet, factor: int, slot: int, psi: numpy.ndarray, out: numpy.ndarray) -> float:
    """The same for one member, by its slot."""
