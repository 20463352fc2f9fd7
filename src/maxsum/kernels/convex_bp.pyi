# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def smoothed_height(net: maxsum.kernels.records.Net, messages: numpy.ndarray, epsilon: float, node_count: numpy.ndarray, edge_count: numpy.ndarray, gradient: numpy.ndarray, beliefs: numpy.ndarray) -> float:
    """
    Value of the smoothed height; fills its gradient (2, E, K) by the edge messages and the node beliefs (N, K).
    """

def star_sweep(net: maxsum.kernels.records.Net, messages: numpy.ndarray, epsilon: float, node_count: numpy.ndarray, edge_count: numpy.ndarray, forward: bool) -> None:
    """
    Minimise the smoothed height over the messages of each node in turn, in place.
    """

def relaxed_value(net: maxsum.kernels.records.Net, messages: numpy.ndarray, epsilon: float, edge_count: numpy.ndarray, beliefs: numpy.ndarray) -> float:
    """
    Score of a point of the local polytope: a lower bound on the value of its linear program.
    """

def chain_sweep(unary: numpy.ndarray, edges: numpy.ndarray, edge_table: numpy.ndarray, edge_weight: numpy.ndarray, tables: numpy.ndarray, ptr: numpy.ndarray, adj_edge: numpy.ndarray, adj_side: numpy.ndarray, bank_of: numpy.ndarray, bank: numpy.ndarray, turned: numpy.ndarray, peaks: numpy.ndarray, messages: numpy.ndarray, visited: numpy.ndarray, epsilon: float, forward: bool) -> float:
    """One pass of TRW-S with soft maxima; returns the smoothed bound."""

def chain_beliefs(unary: numpy.ndarray, edges: numpy.ndarray, messages: numpy.ndarray, visited: numpy.ndarray, epsilon: float, forward: bool, joined: numpy.ndarray, beliefs: numpy.ndarray) -> float:
    """
    After a pass: node beliefs, and messages ``joined`` for which the softmax of an edge's table is its belief; returns the change of beliefs.
    """
