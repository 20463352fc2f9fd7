# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def cached_passes(design: maxsum.kernels.records.Design, planes: maxsum.kernels.records.Planes, weights: maxsum.kernels.records.Weights, order: numpy.ndarray, n_passes: int, max_steps: int, active: float, least: float, gain: float, work: float, gaps: numpy.ndarray, scratch: maxsum.kernels.records.Scratch) -> tuple[int, float, float]:
    """
    Passes over the stored planes of the examples in ``order`` (reordered in place) while they pay.
    """

def rebuild(design: maxsum.kernels.records.Design, planes: maxsum.kernels.records.Planes, weights: maxsum.kernels.records.Weights, scratch: maxsum.kernels.records.Scratch) -> float:
    """
    Recompute ``w`` from planes and multipliers, without the rounding of many small steps; returns sum of alpha * b.
    """
