# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


VALUE: int = 0

GAP: int = 1

TOP: int = 2

N_STATE: int = 3

def ascend(gram: numpy.ndarray, offset: numpy.ndarray, alpha: numpy.ndarray, grad: numpy.ndarray, order: numpy.ndarray, ptr: numpy.ndarray, rest: numpy.ndarray, loose: bool, noise: numpy.ndarray, cost: tuple[float, float], tol: float, floor: float, max_work: int, state: numpy.ndarray) -> int:
    """
    Sweeps over the blocks until the gap is at most ``max(tol * value, floor)`` or ``max_work`` numbers were touched.
    """
