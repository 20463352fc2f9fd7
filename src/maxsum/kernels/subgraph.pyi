# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def subgraph_move(net: maxsum.kernels.records.Net, most_cells: int, temperature: float, gumbel: numpy.ndarray, state: numpy.ndarray, labels: numpy.ndarray) -> tuple[int, float]:
    """
    Give a random subgraph of small width its best labelling; returns its number of nodes and the cells of its tables.
    """

def grow_subgraph(net: maxsum.kernels.records.Net, most_cells: int, state: numpy.ndarray) -> numpy.ndarray:
    """Nodes of the subgraph that a move would choose."""

def take_better_parts(net: maxsum.kernels.records.Net, labels: numpy.ndarray, other: numpy.ndarray) -> float:
    """
    Take from another labelling the connected parts that are better; returns how much the score grew.
    """
