# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


def decode(net: maxsum.kernels.records.FactorNet, forward: bool, messages: numpy.ndarray, labels: numpy.ndarray) -> None:
    """
    Labelling by conditioning, in node order (``forward``) or in reverse: each node takes its best label (the lowest of equal ones) given the labels of the members visited before and the messages of those to come. Where everything is impossible, the node's own part decides.
    """
