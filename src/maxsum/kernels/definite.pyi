# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def clip_eigenvalues(weights: numpy.ndarray, starts: numpy.ndarray, size: int, floor: float) -> None:
    """
    Project matrices in place; that of ``starts[t]`` is stored by rows from its diagonal on, off it times sqrt(2).
    """
