# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def fill_binary(net: maxsum.kernels.records.Net, flow: maxsum.kernels.records.Flow, slot: numpy.ndarray) -> None:
    """Network of a problem in which every node has two labels."""

def read_binary(net: maxsum.kernels.records.Net, flow: maxsum.kernels.records.Flow, messages: numpy.ndarray, labels: numpy.ndarray) -> None:
    """
    Labelling of the minimum cut and messages of the maximum flow, for `fill_binary`.
    """

def alive_labels(net: maxsum.kernels.records.Net, alive: numpy.ndarray, count: numpy.ndarray, base: numpy.ndarray) -> int:
    """
    Labels of each node that may be used, their number, and the first variable of each node; returns the number of variables.
    """

def list_arcs(net: maxsum.kernels.records.Net, alive: numpy.ndarray, count: numpy.ndarray, base: numpy.ndarray, write: bool, tail: numpy.ndarray, head: numpy.ndarray, cap: numpy.ndarray, excess: numpy.ndarray) -> int:
    """
    List all arcs and set the excesses (only count the arcs unless ``write``); returns the number of arcs.
    """

def link_arcs(tail: numpy.ndarray, head: numpy.ndarray, cap: numpy.ndarray, ptr: numpy.ndarray, flow: maxsum.kernels.records.Flow, back: numpy.ndarray) -> None:
    """Arrange listed arcs and their sisters node by node."""

def read_layers(net: maxsum.kernels.records.Net, alive: numpy.ndarray, count: numpy.ndarray, base: numpy.ndarray, flow: maxsum.kernels.records.Flow, back: numpy.ndarray, messages: numpy.ndarray, clique_messages: numpy.ndarray, labels: numpy.ndarray) -> None:
    """
    Labelling of the minimum cut and messages of the maximum flow, for `list_arcs`.
    """
