"""The solvers by name. Adding one: its kernel, its class with `supports` and `_run`, and a line here."""

from __future__ import annotations

from ..core.problem import Problem
from .augmenting_dag import AugmentingDAG
from .base import Solver, Support
from .convex_bp import ConvexBP
from .decomposition import DualDecomposition
from .exhaustive import Exhaustive
from .expansion import AlphaExpansion
from .finisher import LPFinisher
from .icm import ICM
from .junction import JunctionTree
from .linear_program import LinearProgram
from .local_search import LocalSearch
from .maxflow import MaxFlow
from .qp import QPRelaxation
from .search import BranchAndBound
from .toulbar2 import Toulbar2
from .tree import TreeDP
from .trws import TRWS

SOLVERS: dict[str, type[Solver]] = {
    solver.__name__: solver
    for solver in (
        TreeDP,
        MaxFlow,
        JunctionTree,
        TRWS,
        BranchAndBound,
        LinearProgram,
        LPFinisher,
        DualDecomposition,
        AlphaExpansion,
        AugmentingDAG,
        ConvexBP,
        QPRelaxation,
        Exhaustive,
        ICM,
        LocalSearch,
        Toulbar2,
    )
}


def list_solvers(problem: Problem) -> dict[str, Support]:
    """Every solver by name, with whether it takes the problem and, if not, why not.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    dict of str to Support
    """
    return {name: solver().supports(problem) for name, solver in SOLVERS.items()}
