"""Prediction: the best labelling of a problem, by the solver that fits it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import OracleError
from ..core.parameters import JOBS, Maybe, check_value
from ..core.problem import Problem
from ..core.result import Result
from ..executors.threads import thread_map
from ..inference.base import Solver
from ..inference.dispatch import TABLE, solve
from ..inference.exact.junction import has_small_width
from ..learning.objectives.multilabel import best_labels, is_small
from ..models.bound import BoundModel
from ..models.convex import ConvexBound
from ..models.multilabel import MultiLabelBound

_QUICK_CELLS = 2**14  # cells of a junction tree up to which prediction is exact by default: about 0.1 ms a bag
SOME_JOBS = Maybe(JOBS, wanted="None, a number of threads >= 1, or -1 for one a core")


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


def own_solver(estimator: Any, solver: Solver | str | None) -> Solver | str | None:
    """The solver of the call, else that of the estimator; None where both leave it open."""
    chosen = estimator.solver if solver is None else solver
    return None if isinstance(chosen, str) and chosen == "auto" else chosen


def given_solver(solver: Solver | str | None, oracle: Any) -> Solver | str | None:
    """Who predicts: the solver that is asked for, else the oracle of the training if it is one."""
    if solver is None and isinstance(oracle, (Solver, str)) and oracle not in ("bracket", "auto"):
        return oracle
    return solver


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


def default_solver(model: BoundModel) -> str | None:
    """`TRWS` where many labels with general tables are too entangled for exact solvers to be quick; None for the best that fits."""
    if not isinstance(model, MultiLabelBound) or is_small(model) or model.graph.is_forest or not model.cone.is_free:
        return None
    any_sample: Any = np.zeros((1, len(model.node_index) // model.graph.n_nodes))
    quick = has_small_width(model.problems(np.zeros(model.n_weights), any_sample)[0], _QUICK_CELLS)
    return None if quick else "TRWS"


def predicted(model: Any, w: np.ndarray, X: Any, n_jobs: int, solver: Solver | str | None = None) -> np.ndarray:
    """Best labels as numbers, (n, L)."""
    convex = isinstance(model, ConvexBound)
    if not convex and not isinstance(model, MultiLabelBound):
        return np.argmax(model.unary(w, model.encode(X)), axis=1)[:, None]
    if not convex and is_small(model) and solver is None:
        return best_labels(model, w, X)
    who = default_solver(model) if solver is None else solver
    results = thread_map(lambda problem: best(problem, who), model.problems(w, X), n_jobs)
    labels = [labels_of(result, j) for j, result in enumerate(results)]
    return np.array(labels, dtype=np.int32).reshape(X.shape[0], -1)


def as_jobs(n_jobs: Any, default: int | None = None) -> int:
    """A number of threads; ``default`` for None, where there is one."""
    if n_jobs is None and default is not None:
        return default
    check_value("n_jobs", n_jobs, JOBS if default is None else SOME_JOBS)
    return int(n_jobs)
