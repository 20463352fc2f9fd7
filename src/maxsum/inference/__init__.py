"""MAP solvers, each with a certificate; `solve` picks one by the structure of the problem."""

from .base import Callback, Solver, Support
from .dispatch import solve
from .exhaustive import Exhaustive
from .icm import ICM
from .junction import JunctionTree
from .linear_program import LinearProgram
from .maxflow import MaxFlow
from .registry import SOLVERS, list_solvers
from .search import BranchAndBound
from .toulbar2 import Toulbar2
from .tree import TreeDP
from .trws import TRWS

__all__ = [
    "ICM",
    "SOLVERS",
    "TRWS",
    "BranchAndBound",
    "Callback",
    "Exhaustive",
    "JunctionTree",
    "LinearProgram",
    "MaxFlow",
    "Solver",
    "Support",
    "Toulbar2",
    "TreeDP",
    "list_solvers",
    "solve",
]
