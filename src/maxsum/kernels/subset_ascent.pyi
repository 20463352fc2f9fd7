# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def ascend(order: numpy.ndarray, x: numpy.ndarray, x_ptr: numpy.ndarray, x_col: numpy.ndarray, x_val: numpy.ndarray, norm: numpy.ndarray, loss: numpy.ndarray, edges: numpy.ndarray, alpha: numpy.ndarray, node: numpy.ndarray, tables: numpy.ndarray, own: numpy.ndarray, pair: numpy.ndarray, max_steps: int, gaps: numpy.ndarray) -> float:
    """
    Visit the examples of ``order``; ``gaps[j]`` is the gap of block ``j`` before. Returns the gain of the dual.
    """
