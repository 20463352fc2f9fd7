# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_Dag: tuple[str, ...]

BUDGET: int = 0

CONSISTENT: int = 1

ROUNDED: int = 2

def refresh(net: maxsum.kernels.records.Net, messages: numpy.ndarray, dag: maxsum.kernels.records.Dag) -> float:
    """Scores and maxima of all nodes and edges; returns the height."""

def propagate(net: maxsum.kernels.records.Net, messages: numpy.ndarray, epsilon: float, dag: maxsum.kernels.records.Dag) -> tuple[int, int]:
    """
    Arc consistency at threshold ``epsilon``; returns the first node without labels (-1 if none) and the number of deletions.
    """

def direct(net: maxsum.kernels.records.Net, messages: numpy.ndarray, epsilon: float, dag: maxsum.kernels.records.Dag, node: int, size: int) -> int:
    """
    The direction that lowers ``node`` by 1, from the ``size`` deletions; returns its number of edges.
    """

def advance(net: maxsum.kernels.records.Net, messages: numpy.ndarray, dag: maxsum.kernels.records.Dag, node: int, size: int, n_touched: int) -> tuple[float, float]:
    """
    Step along the direction; returns the step and the change of the height, ``(step, 0)`` if rounding ate the gain.
    """

def descend(net: maxsum.kernels.records.Net, messages: numpy.ndarray, epsilon: float, max_steps: int, dag: maxsum.kernels.records.Dag) -> tuple[int, float, int]:
    """
    Up to ``max_steps`` steps at one threshold, after `refresh`; returns ``(steps, change of the height, status)``.
    """

def maximal_pairs(net: maxsum.kernels.records.Net, messages: numpy.ndarray, epsilon: float, dag: maxsum.kernels.records.Dag, nodes: numpy.ndarray, pairs: numpy.ndarray) -> None:
    """
    After `propagate`: masks of the labels that are left, and of the pairs of them within ``epsilon`` of their edge's best.
    """
