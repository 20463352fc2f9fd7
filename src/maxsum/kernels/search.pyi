# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def restrict(unary: numpy.ndarray, base: numpy.ndarray, domain: numpy.ndarray) -> None:
    """
    Write the box into ``unary``: the scores ``base`` inside ``domain``, ``-inf`` outside.
    """

def shrink(net: maxsum.kernels.records.Net, unary: numpy.ndarray, base: numpy.ndarray, domain: numpy.ndarray, edge_messages: numpy.ndarray, clique_messages: numpy.ndarray, target: float, slack: numpy.ndarray, queue: numpy.ndarray, queued: numpy.ndarray, hard: bool, box: maxsum.kernels.records.Box) -> float:
    """
    Remove from the box what cannot exceed ``target``, and write what is left into ``unary``, which is read in place of ``net.unary``; returns its height, ``-inf`` if nothing is left.
    """

def probe(net: maxsum.kernels.records.Net, domain: numpy.ndarray, trial: numpy.ndarray, queue: numpy.ndarray, queued: numpy.ndarray, found: numpy.ndarray) -> tuple[int, bool]:
    """
    Remove every label whose choice would empty a domain by arc consistency: ``(number removed, whether the box is not empty)``.
    """

def choose(net: maxsum.kernels.records.Net, domain: numpy.ndarray, slack: numpy.ndarray, many: bool) -> tuple[int, int]:
    """Node and label to branch on, -1 if all are decided."""

def middle(net: maxsum.kernels.records.Net, domain: numpy.ndarray, v: int) -> tuple[int, int]:
    """Label that halves the labels of ``v`` that are left, and their number."""

def visit(net: maxsum.kernels.records.Net, unary: numpy.ndarray, base: numpy.ndarray, domain: numpy.ndarray, edge_messages: numpy.ndarray, clique_messages: numpy.ndarray, limits: tuple[float, float, int, float, int, bool], scratch: tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray, bool, maxsum.kernels.records.Box], room: maxsum.kernels.records.Enumeration, labels: numpy.ndarray) -> tuple[int, int, float, float, int, int, int, int, float]:
    """
    Shrink, tighten, shrink, enumerate and choose in one: ``(passes, opened, height, score, node, label, middle, size, sizes)``.
    """
