"""Functions for the factors of a problem: ``Problem(..., factors=[(nodes, function), ...])``, where a function may also be a plain table."""

from .core.factors import AllDifferent, Cardinality, Linear, SparseTable, at_least, at_most, exactly

__all__ = ["AllDifferent", "Cardinality", "Linear", "SparseTable", "at_least", "at_most", "exactly"]
