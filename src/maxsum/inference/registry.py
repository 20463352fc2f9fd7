"""The solvers by name. Adding one: its kernel, its class with `supports` and `_run`, and a line here."""

from __future__ import annotations

from ..core.problem import Problem
from .base import Solver, Support
from .tree import TreeDP

SOLVERS: dict[str, type[Solver]] = {solver.__name__: solver for solver in (TreeDP,)}


def list_solvers(problem: Problem) -> dict[str, Support]:
    """Every solver by name, with whether it takes the problem and, if not, why not."""
    return {name: solver().supports(problem) for name, solver in SOLVERS.items()}
