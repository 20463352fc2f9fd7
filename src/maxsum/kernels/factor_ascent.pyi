# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Factors: tuple[str, ...]

def factor_passes(design: maxsum.kernels.records.Design, factors: maxsum.kernels.records.Factors, rho: float, order: numpy.ndarray, n_passes: int, n_steps: int) -> float:
    """
    Visit the blocks ``order`` (nodes, then edges after the number of nodes) so many times; returns the sum of their gaps in the last pass.
    """

def agree(design: maxsum.kernels.records.Design, factors: maxsum.kernels.records.Factors, rho: float) -> None:
    """The step of the multipliers, m <- m + rho d."""

def message_bounds(design: maxsum.kernels.records.Design, factors: maxsum.kernels.records.Factors, w: numpy.ndarray, messages: numpy.ndarray, slack: numpy.ndarray) -> None:
    """
    The slack of each example that messages prove for weights: sum_t max_k + sum_e max_kl less the score of the truth.
    """
