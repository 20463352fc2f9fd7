"""Who solves: one rule for all predictions, and the labels that come of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import OracleError
from ..core.problem import Problem
from ..core.result import Result
from ..inference.base import Solver
from ..inference.dispatch import TABLE, solve
from ..inference.exact.junction import has_small_width
from ..learning.objectives.multilabel import is_small
from ..models.multilabel import MultiLabelBound
from .settings import chosen

_QUICK_CELLS = 2**14  # cells of a junction tree up to which prediction is exact by default: about 0.1 ms a bag


def who_solves(model: Any, *wishes: Any) -> Solver | str | None:
    """Who predicts: the first wish that is a solver or the name of one (of the call, of the estimator, the oracle of its training).

    Without any it is `TRWS` where many labels with general tables are too entangled for exact solvers to be quick, else None: for each
    problem the exact solver that fits it, and `TRWS` where none does (see `best`).
    """
    for wish in wishes:
        own = chosen(wish)
        if isinstance(own, Solver) or (isinstance(own, str) and own != "bracket"):
            return own
    if not isinstance(model, MultiLabelBound) or is_small(model) or model.graph.is_forest or not model.cone.is_free:
        return None
    any_sample: Any = np.zeros((1, len(model.node_index) // model.graph.n_nodes))
    quick = has_small_width(model.problems(np.zeros(model.n_weights), any_sample)[0], _QUICK_CELLS)
    return None if quick else "TRWS"


def best(problem: Problem, solver: Solver | str | None = None) -> Result:
    """The answer of a solver; by default the exact one that fits the structure, and `TRWS` elsewhere."""
    if solver is not None:
        return solve(problem, solver)
    exact = not (problem.n_edges or len(problem.cliques)) or any(row.fits(problem) for row in TABLE)
    return solve(problem, None if exact else "TRWS")


def labels_of(result: Result, j: int) -> np.ndarray:
    """The labelling of sample ``j``, or an error that names it."""
    if result.labels is None:
        raise OracleError(f"sample {j}: {result.solver} found no labelling ({result.message}). Try another solver.")
    return result.labels


def label_gains(problem: Problem, solver: Solver | str | None = None) -> np.ndarray:
    """What each label 1 gains over label 0, with the best labels elsewhere."""
    first = best(problem, solver)
    labels = labels_of(first, 0)
    out = np.zeros(len(labels))
    for m, label in enumerate(labels):
        unary = problem.unary.copy()
        unary[m, label] = -np.inf
        other = Problem(problem.graph, unary, problem.tables, problem.edge_table, problem.edge_weight, problem.n_states)
        out[m] = (first.score - best(other, solver).score) * (1 if label else -1)
    return out
