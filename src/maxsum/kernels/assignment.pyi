# Made by tools/build/stubs.py from the extension; do not edit.
import numpy


def assign(scores: numpy.ndarray, chosen: numpy.ndarray) -> float:
    """
    The best assignment of the rows of ``scores`` to different columns into ``chosen`` (int32); returns its sum, ``-inf`` where there is none.
    """

def all_different_support(domain: numpy.ndarray) -> bool:
    """
    Remove from the domains (uint8, one row a member) what is in no choice of different labels for all (Regin 1994); False where there is none, and then the domains are as they were.
    """
