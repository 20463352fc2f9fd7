# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def prepare(image: numpy.ndarray, radius: int, epsilon: float, mean: numpy.ndarray, inverse: numpy.ndarray) -> None:
    """
    Mean colour and (Sigma + epsilon I / m)^-1 (six entries) of every window of ``m`` pixels.
    """

def product(image: numpy.ndarray, mean: numpy.ndarray, inverse: numpy.ndarray, radius: int, scale: float, x: numpy.ndarray, out: numpy.ndarray) -> None:
    """``out = scale * L x`` for each column of ``x`` (n_pixels, K)."""
