# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


GENERAL: int = 1

ASSOCIATIVE: int = 2

BAND: int = 4

LINEAR: int = 8

QUADRATIC: int = 16

def linear(own: numpy.ndarray, n_labels: int, step: float, same: float, apart: float, out: numpy.ndarray, back: numpy.ndarray) -> None:
    """``out[l] = max(apart, max_k own[k] + same - step * abs(k - l))``."""

def quadratic(own: numpy.ndarray, n_labels: int, step: float, same: float, apart: float, out: numpy.ndarray, lifted: numpy.ndarray, hull: numpy.ndarray) -> None:
    """``out[l] = max(apart, max_k own[k] + same - step * (k - l) ** 2)``."""
