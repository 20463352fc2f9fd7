"""Labellings of tight relaxations: made of maximal nodes and edges only, found as a constraint satisfaction problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.consistency import locally_consistent, maximal_csp, maximal_set
from ..core.problem import Problem
from ..core.result import Guarantee
from .exact.search import BranchAndBound


def trivial_labelling(
    problem: Problem, messages: Any = None, time_limit: float | None = None, tol: float | None = None
) -> np.ndarray | None:
    r"""A labelling that uses maximal nodes and edges only, after the reparametrisation by ``messages``.

    Its score equals the bound of the messages up to the number of nodes and edges times ``tol``, so it is optimal and proves
    the relaxation tight. Labels without a partner are removed first (local consistency); what is left is searched.

    Parameters
    ----------
    problem : Problem
    messages : Messages or ndarray, optional
        Those of an optimal dual, such as ``result.messages``; none by default.
    time_limit : float, optional
        Seconds for the search.
    tol : float, optional
        Scores within ``tol`` of the largest count as maximal; see `maximal_set`.

    Returns
    -------
    ndarray of int32, shape (n_nodes,), or None
        None if there is no such labelling, or none was found in time; `is_trivial` tells the two apart.
    """
    return _search(problem, messages, time_limit, tol)[1]


def is_trivial(
    problem: Problem, messages: Any = None, time_limit: float | None = None, tol: float | None = None
) -> bool | None:
    """Whether some labelling uses maximal nodes and edges only.

    Parameters
    ----------
    problem : Problem
    messages, time_limit, tol : optional
        As of `trivial_labelling`.

    Returns
    -------
    bool or None
        None if time did not suffice to tell.
    """
    return _search(problem, messages, time_limit, tol)[0]


def _search(
    problem: Problem, messages: Any, time_limit: float | None, tol: float | None
) -> tuple[bool | None, np.ndarray | None]:
    top = locally_consistent(problem, maximal_set(problem, messages, tol))
    if not top.nodes.any(axis=1).all():
        return False, None
    if top.unique:
        return True, top.nodes.argmax(axis=1).astype(np.int32) if problem.n_nodes else np.zeros(0, dtype=np.int32)
    result = BranchAndBound(time_limit=time_limit).solve(maximal_csp(problem, top))
    if result.guarantee == Guarantee.infeasible:
        return False, None
    if result.labels is not None and np.isfinite(result.score):
        return True, np.array(result.labels)
    return None, None
