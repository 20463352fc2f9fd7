"""MAP solvers, each with a certificate; `solve` picks one by the structure of the problem."""

from ..qp.block_form import BlockForm
from ..qp.simplex import SimplexQPResult, minimise_simplex_qp
from .augmenting_dag import AugmentingDAG
from .base import Callback, Solver, Support
from .convex_bp import ConvexBP, smoothed_height
from .decomposition import DualDecomposition
from .dispatch import solve
from .exhaustive import Exhaustive
from .expansion import AlphaExpansion
from .finisher import LPFinisher
from .icm import ICM
from .junction import JunctionTree
from .linear_program import LinearProgram
from .local_search import LocalSearch
from .maxflow import MaxFlow
from .qp import QPRelaxation
from .registry import SOLVERS, list_solvers
from .search import BranchAndBound
from .toulbar2 import Toulbar2
from .tree import TreeDP
from .trivial import is_trivial, trivial_labelling
from .trws import TRWS

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
