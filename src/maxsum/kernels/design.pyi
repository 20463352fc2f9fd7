# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Design: tuple[str, ...]

def augmented_scores(design: maxsum.kernels.records.Design, examples: numpy.ndarray, w: numpy.ndarray, scores: numpy.ndarray) -> None:
    """
    Loss-augmented node scores of some examples, written to their rows of the union.
    """

def difference(design: maxsum.kernels.records.Design, j: int, labels: numpy.ndarray, index: numpy.ndarray, value: numpy.ndarray) -> tuple[int, float]:
    """
    Entries of z = Psi(x_j, y_j) - Psi(x_j, y), repeated indices left apart; returns (their number, the loss).
    """
