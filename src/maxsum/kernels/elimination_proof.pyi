# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def evaluate(terms: maxsum.kernels.records.TermArrays, proof: maxsum.kernels.records.Separators, tables: numpy.ndarray, labels: numpy.ndarray, unit: float, largest_number: float) -> tuple[float, float, float, int]:
    """
    What separator tables prove about a labelling: ``(gap, rounding, value, status)``, the gap with all that rounding could hide, the sum of the bags at the labelling, and 0 if that is all; otherwise numpy has to look.
    """
