"""MAP solvers, each with a certificate; `solve` picks one by the structure of the problem."""

from ..core.consistency import is_locally_consistent, is_strictly_trivial, maximal_set, strictly_trivial_messages
from .base import Solver
from .dispatch import solve
from .exact.cores import CoreSearch
from .exact.exhaustive import Exhaustive
from .exact.junction import JunctionTree
from .exact.lp_search import LPSearch
from .exact.maxflow import MaxFlow
from .exact.partial import PartialSearch
from .exact.roof_duality import RoofDuality
from .exact.search import BranchAndBound
from .exact.toulbar2 import Toulbar2
from .exact.tree import TreeDP
from .moves.expansion import AlphaExpansion
from .moves.icm import ICM
from .moves.local_search import LocalSearch
from .registry import list_solvers
from .relaxations.augmenting_dag import AugmentingDAG
from .relaxations.convex_bp import ConvexBP
from .relaxations.decomposition import DualDecomposition
from .relaxations.linear_program import LinearProgram
from .relaxations.qp import QPRelaxation
from .relaxations.tightened import TightenedTRWS
from .relaxations.trws import TRWS
from .trivial import is_trivial, trivial_labelling

__all__ = [
    "ICM",
    "TRWS",
    "AlphaExpansion",
    "AugmentingDAG",
    "BranchAndBound",
    "ConvexBP",
    "CoreSearch",
    "DualDecomposition",
    "Exhaustive",
    "JunctionTree",
    "LPSearch",
    "LinearProgram",
    "LocalSearch",
    "MaxFlow",
    "PartialSearch",
    "QPRelaxation",
    "RoofDuality",
    "Solver",
    "TightenedTRWS",
    "Toulbar2",
    "TreeDP",
    "is_locally_consistent",
    "is_strictly_trivial",
    "is_trivial",
    "list_solvers",
    "maximal_set",
    "solve",
    "strictly_trivial_messages",
    "trivial_labelling",
]
