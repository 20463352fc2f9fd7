# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def gains(net: maxsum.kernels.records.Net, messages: numpy.ndarray, ptr: numpy.ndarray, edge: numpy.ndarray, turned: numpy.ndarray) -> numpy.ndarray:
    """
    By how much the bound falls if each of the cycles were a cluster by itself.
    """

def tops(net: maxsum.kernels.records.Net, ptr: numpy.ndarray, edge: numpy.ndarray, turned: numpy.ndarray, held: numpy.ndarray) -> float:
    """Sum of the best closed walks through what the cycles hold."""

def round(net: maxsum.kernels.records.Net, messages: numpy.ndarray, ptr: numpy.ndarray, edge: numpy.ndarray, turned: numpy.ndarray, held: numpy.ndarray, own: numpy.ndarray, place: numpy.ndarray, forward: bool) -> None:
    """
    Every cycle in turn takes what its edges have and gives each its max-marginal. ``own`` are the tables ``place[e]`` of its edges.
    """
