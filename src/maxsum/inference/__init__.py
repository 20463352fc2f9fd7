"""MAP solvers, each with a certificate; `solve` picks one by the structure of the problem."""

from .base import Callback, Solver, Support
from .registry import SOLVERS, list_solvers
from .tree import TreeDP

__all__ = ["SOLVERS", "Callback", "Solver", "Support", "TreeDP", "list_solvers"]
