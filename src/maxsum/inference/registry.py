"""The solvers by name. Adding one: its kernel, its class with `supports` and `_run`, and a line here."""

from __future__ import annotations

from ..core.problem import Problem
from .base import Solver, Support
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
from .relaxations.augmenting_dag import AugmentingDAG
from .relaxations.convex_bp import ConvexBP
from .relaxations.decomposition import DualDecomposition
from .relaxations.finisher import LPFinisher
from .relaxations.linear_program import LinearProgram
from .relaxations.qp import QPRelaxation
from .relaxations.tightened import TightenedTRWS
from .relaxations.trws import TRWS

SOLVERS: dict[str, type[Solver]] = {
    solver.__name__: solver
    for solver in (
        TreeDP,
        MaxFlow,
        RoofDuality,
        JunctionTree,
        TRWS,
        TightenedTRWS,
        PartialSearch,
        CoreSearch,
        BranchAndBound,
        LPSearch,
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
