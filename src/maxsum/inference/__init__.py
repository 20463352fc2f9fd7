"""MAP solvers, each with a certificate; `solve` picks one by the structure of the problem."""

from ..qp.block_form import BlockForm
from ..qp.simplex import SimplexQPResult, minimise_simplex_qp
from .base import Callback, Solver, Support
from .dispatch import solve
from .exact.exhaustive import Exhaustive
from .exact.junction import JunctionTree
from .exact.maxflow import MaxFlow
from .exact.search import BranchAndBound
from .exact.toulbar2 import Toulbar2
from .exact.tree import TreeDP
from .moves.expansion import AlphaExpansion
from .moves.icm import ICM
from .moves.local_search import LocalSearch
from .registry import SOLVERS, list_solvers
from .relaxations.augmenting_dag import AugmentingDAG
from .relaxations.convex_bp import ConvexBP, smoothed_height
from .relaxations.decomposition import DualDecomposition
from .relaxations.finisher import LPFinisher
from .relaxations.linear_program import LinearProgram
from .relaxations.qp import QPRelaxation
from .relaxations.trws import TRWS
from .trivial import is_trivial, trivial_labelling

__all__ = [
    "ICM",
    "SOLVERS",
    "TRWS",
    "AlphaExpansion",
    "AugmentingDAG",
    "BlockForm",
    "BranchAndBound",
    "Callback",
    "ConvexBP",
    "DualDecomposition",
    "Exhaustive",
    "JunctionTree",
    "LPFinisher",
    "LinearProgram",
    "LocalSearch",
    "MaxFlow",
    "QPRelaxation",
    "SimplexQPResult",
    "Solver",
    "Support",
    "Toulbar2",
    "TreeDP",
    "is_trivial",
    "list_solvers",
    "minimise_simplex_qp",
    "smoothed_height",
    "solve",
    "trivial_labelling",
]
