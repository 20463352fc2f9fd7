# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def pair_sums(pair: numpy.ndarray, out: numpy.ndarray) -> None:
    """
    ``out[S]``: sum of ``pair[l, m]`` over ``l < m`` in ``S``, for all ``2 ** L`` subsets.
    """

def best_subsets(gain: numpy.ndarray, sums: numpy.ndarray, truth: numpy.ndarray, total: numpy.ndarray, labels: numpy.ndarray) -> numpy.ndarray:
    """
    The best subset of each row of ``gain`` (n, L) as 0/1 labels, the smallest number among equals.
    """

def max_marginals(gain: numpy.ndarray, sums: numpy.ndarray, total: numpy.ndarray, out: numpy.ndarray) -> None:
    """
    ``out[i, l]``: the best ``F`` with label ``l`` minus the best without it.
    """

def best_labellings(node_ptr: numpy.ndarray, edge_ptr: numpy.ndarray, edges: numpy.ndarray, n_states: numpy.ndarray, unary: numpy.ndarray, bank: numpy.ndarray, edge_table: numpy.ndarray, edge_weight: numpy.ndarray, examples: numpy.ndarray, total: numpy.ndarray, column: numpy.ndarray, labels: numpy.ndarray) -> None:
    """The best labelling of each example into its rows of ``labels``."""
