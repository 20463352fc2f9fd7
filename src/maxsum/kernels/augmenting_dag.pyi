# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


fields_of_Dag: tuple = ...

BUDGET: int = 0

CONSISTENT: int = 1

ROUNDED: int = 2

def refresh(net: tuple, messages: numpy.ndarray, dag: tuple) -> float:
    """Scores and maxima of all nodes and edges; returns the height."""

def propagate(net: tuple, messages: numpy.ndarray, epsilon: float, dag: tuple) -> tuple[int, int]:
    """
    Arc consistency at threshold ``epsilon``; returns the first node without labels (-1 if none) and the number of deletions.
    """

def direct(net: tuple, messages: numpy.ndarray, epsilon: float, dag: tuple, node: int, size: int) -> int:
    """
    The direction that lowers ``node`` by 1, from the ``size`` deletions; returns its number of edges.
    """

def advance(net: tuple, messages: numpy.ndarray, dag: tuple, node: int, size: int, n_touched: int) -> tuple[float, float]:
    """
    Step along the direction; returns the step and the change of the height, ``(step, 0)`` if rounding ate the gain.
    """

def descend(net: tuple, messages: numpy.ndarray, epsilon: float, max_steps: int, dag: tuple) -> tuple[int, float, int]:
    """
    Up to ``max_steps`` steps at one threshold, after `refresh`; returns ``(steps, change of the height, status)``.
    """

def maximal_pairs(net: tuple, messages: numpy.ndarray, epsilon: float, dag: tuple, nodes: numpy.ndarray, pairs: numpy.ndarray) -> None:
    """
    After `propagate`: masks of the labels that are left, and of the pairs of them within ``epsilon`` of their edge's best.
    """
