# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def support(net: maxsum.kernels.records.FactorNet, factor: int, domain: numpy.ndarray) -> bool:
    """
    Remove from the domains of the members (uint8, one row a member) what no tuple of the factor with a finite score has; False where there is none.
    """

def consistency(net: maxsum.kernels.records.FactorNet, domain: numpy.ndarray) -> bool:
    """
    Remove from the domains of all nodes (uint8) what is forbidden by their scores or has no support in one of their factors, until nothing changes (generalised arc consistency); False where a domain becomes empty.
    """
