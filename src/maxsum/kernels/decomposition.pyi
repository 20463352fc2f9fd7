# Made by tools/build/stubs.py from the extension; do not edit.
from typing import overload

import numpy


@overload
def split_forests(n_nodes: int, edges: numpy.ndarray, order: numpy.ndarray, largest: int) -> numpy.ndarray: ...

@overload
def split_forests(n_nodes: int, edges: numpy.ndarray, order: numpy.ndarray, largest: int) -> numpy.ndarray:
    """
    Forest of each edge: the first one is a maximal forest of all edges, taken in ``order``, the next of those left, ...
    """

def column_scores(starts: numpy.ndarray, filled: numpy.ndarray, columns: numpy.ndarray, constant: numpy.ndarray, shares: numpy.ndarray, linear: numpy.ndarray) -> None:
    """
    ``linear[c, j]``: score of column ``j`` of tree ``c`` under the node shares.
    """

def add_columns(starts: numpy.ndarray, copy_weight: numpy.ndarray, labels: numpy.ndarray, value: numpy.ndarray, filled: numpy.ndarray, columns: numpy.ndarray, constant: numpy.ndarray, weights: numpy.ndarray, idle: numpy.ndarray, gram: numpy.ndarray) -> int:
    """
    Give each tree the column ``labels`` with the edge score ``value[c]``, unless it has it; returns how many are new.
    """

def spread_weights(starts: numpy.ndarray, copy_node: numpy.ndarray, node_share: numpy.ndarray, filled: numpy.ndarray, columns: numpy.ndarray, weights: numpy.ndarray, x: numpy.ndarray, mean: numpy.ndarray) -> None:
    """
    Means ``x`` of the columns of each tree, and ``mean`` of the copies of each node (``node_share`` is 1 / copies).
    """

def master(starts: numpy.ndarray, copy_node: numpy.ndarray, node_share: numpy.ndarray, filled: numpy.ndarray, columns: numpy.ndarray, linear: numpy.ndarray, gram: numpy.ndarray, weights: numpy.ndarray, idle: numpy.ndarray, x: numpy.ndarray, mean: numpy.ndarray, step: float, tol: float, max_sweeps: int) -> tuple[float, float]:
    """
    Weights that maximise the bundle's model over a product of simplices. Returns the value and what it may lack of the maximum.
    """

def edge_means(tree: numpy.ndarray, edges: numpy.ndarray, filled: numpy.ndarray, columns: numpy.ndarray, weights: numpy.ndarray, out: numpy.ndarray) -> None:
    """
    Pairwise marginals (E, K, K) of the weights; ``edges`` join copies, ``tree[e]`` is where edge ``e`` lies.
    """
