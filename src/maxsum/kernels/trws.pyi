# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def decode(net: maxsum.kernels.records.Net, forward: bool, edge_messages: numpy.ndarray, clique_messages: numpy.ndarray, labels: numpy.ndarray) -> None:
    """
    Labelling by conditioning, in the order of the next pass: each node takes its best label given the labels of its neighbours visited before and the messages of those to come.
    """

def sweep(net: maxsum.kernels.records.Net, forward: bool, edge_messages: numpy.ndarray, clique_messages: numpy.ndarray) -> float:
    """One pass; returns the bound of nodes and edges (cliques apart)."""
