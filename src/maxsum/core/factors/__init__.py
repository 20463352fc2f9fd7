"""Factors: terms over any number of nodes, as tables, as lists of tuples, or as functions that never need a table.

``Problem(..., factors=[(nodes, function), ...])`` takes an array (a dense table, one axis a node) or one of the functions below. Each of
them knows its score, its max-marginals given messages, what a certificate counts for it (in floats rounded up, or exactly), which labels it
leaves possible, and how it is written with nodes and edges alone.
"""

from __future__ import annotations

from .all_different import AllDifferent
from .collection import Factors
from .counts import Cardinality, Linear, at_least, at_most, exactly
from .function import Function
from .tables import SparseTable, Table

KINDS: tuple[type[Function], ...] = (Table, SparseTable, AllDifferent, Cardinality, Linear)
"""The functions by the number that files have for them."""

__all__ = [
    "AllDifferent",
    "Cardinality",
    "Factors",
    "Function",
    "Linear",
    "SparseTable",
    "Table",
    "at_least",
    "at_most",
    "exactly",
]
