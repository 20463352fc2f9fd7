# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def cached_passes(design: tuple, planes: tuple, weights: tuple, order: numpy.ndarray, n_passes: int, max_steps: int, active: float, least: float, gain: float, work: float, gaps: numpy.ndarray, scratch: tuple) -> tuple[int, float, float]:
    """
    Passes over the stored planes of the examples in ``order`` (reordered in place) while they pay.
    """

def rebuild(design: tuple, planes: tuple, weights: tuple, scratch: tuple) -> float:
    """
    Recompute ``w`` from planes and multipliers, without the rounding of many small steps; returns sum of alpha * b.
    """
