r"""`log_partition`: the logarithm of the sum of all exponentiated scores, exact or between two bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.scale import UNIT
from ...core.errors import InfeasibleError, InvalidProblemError
from ...core.parameters import TIME_LIMIT, WholeNumber, check_value
from ...core.problem import Problem
from ...core.result import Guarantee, Result
from ..dispatch import solve
from ..sums.reweighted import Bracket, Reweighted
from .bags import BagTree, exact_order, log_sum, without_factors
from .mean_field import MeanField, mean_field

_ROUNDS = 200
"""Rounds of tree-reweighted messages by default: on grids of 20 by 20 nodes the bound gains less than 1e-6 of itself after that."""
_WIDTH = 1e-9
"""Width of the bracket of the tree-reweighted bound's own minimum at which its rounds end."""


@dataclass(frozen=True)
class LogPartitionBracket:
    r"""Bounds of :math:`\log Z = \log\sum_y e^{F(y)}`.

    Attributes
    ----------
    lower, upper : float
        :math:`\log Z` lies between them; both are ``-inf`` if every labelling is forbidden.
    exact : bool
        Whether they are one number, by dynamic programming, up to its rounding.
    message : str
        One sentence for people.
    """

    lower: float
    upper: float
    exact: bool
    message: str

    @property
    def width(self) -> float:
        """``upper - lower``; 0 where the sum is exact."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower


def check_problem(problem: Problem, who: str) -> None:
    """Refuse what is no problem."""
    if not isinstance(problem, Problem):
        raise InvalidProblemError(f"{who}() was given a {type(problem).__name__}, wanted a maxsum.Problem.")


def log_partition(problem: Problem, *, max_iter: int = _ROUNDS, time_limit: float | None = None) -> LogPartitionBracket:
    r"""Logarithm of the sum of all exponentiated scores, :math:`\log Z = \log\sum_y e^{F(y)}`.

    On forests and graphs of small width it is exact. Elsewhere the upper bound is the least of the tree-reweighted one (Wainwright,
    Jaakkola & Willsky 2005) and of the best score's bound plus the logarithm of the number of labellings; the lower bound is that of
    structured mean field, which starts from the best labelling that `solve` finds. Both hold whatever was reached.

    Parameters
    ----------
    problem : Problem
    max_iter : int
        Most rounds of tree-reweighted messages.
    time_limit : float, optional
        Seconds for the labelling that the lower bound starts from.

    Returns
    -------
    LogPartitionBracket

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> p = ms.Problem(ms.Graph.chain(2), np.zeros((2, 3)), tables=np.zeros((3, 3)))
    >>> round(float(np.exp(ms.log_partition(p).upper)), 6)  # nine labellings, each of score 0
    9.0
    """
    check_problem(problem, "log_partition")
    check_value("max_iter", max_iter, WholeNumber(0))
    check_value("time_limit", time_limit, TIME_LIMIT)
    try:
        problem = without_factors(problem)
    except InfeasibleError:
        return LogPartitionBracket(
            -np.inf, -np.inf, True, "log-partition: arc consistency leaves no labelling, so the sum is 0."
        )
    order = exact_order(problem)
    if order is not None:
        tree = BagTree(problem, order, log_sum)
        value = float(tree.total)
        fact = f"exact by dynamic programming over bags of at most {order.width + 1} nodes"
        said = fact if tree.feasible else "no labelling satisfies the hard constraints, so the sum is 0"
        return LogPartitionBracket(value, value, True, f"log-partition: {said}.")
    return loopy_sums(problem, max_iter, time_limit).bracket


@dataclass(frozen=True)
class LoopySums:
    """What is known of sums on a graph with cycles: the bracket, the lower bound's distribution (if a labelling was found), and
    the tree-reweighted pseudo-marginals (None where their numbers are not finite)."""

    bracket: LogPartitionBracket
    lower: MeanField | None
    upper: Bracket | None


def loopy_sums(problem: Problem, max_iter: int = _ROUNDS, time_limit: float | None = None) -> LoopySums:
    """Both bounds where dynamic programming would take too long, of a problem without factors (`without_factors`)."""
    result = solve(problem, time_limit=time_limit)
    if result.guarantee == Guarantee.infeasible:
        said = "log-partition: no labelling satisfies the hard constraints, so the sum is 0."
        return LoopySums(LogPartitionBracket(-np.inf, -np.inf, True, said), None, None)
    found = mean_field(problem, result.labels) if result.labels is not None and np.isfinite(result.score) else None
    lower = -np.inf if found is None else found.lower
    by_count = _by_count(problem, result)
    by_trees, bracket = _by_trees(problem, max_iter)
    upper = max(min(by_count, by_trees), lower)
    how = "tree-reweighted messages" if by_trees <= by_count else "the best score and the number of labellings"
    low = "structured mean field" if found is not None else "nothing, as no labelling was found"
    said = f"log-partition: between {lower:.10g} (by {low}) and {upper:.10g} (by {how})."
    return LoopySums(LogPartitionBracket(lower, upper, False, said), found, bracket)


def _by_count(problem: Problem, result: Result) -> float:
    """No score is above the bound, and there are so many labellings."""
    allowed = (problem.unary > -np.inf).sum(axis=1)
    bound = min(result.bound, problem.bound())
    total = bound + float(np.log(np.maximum(allowed, 1)).sum())
    return total + 8 * UNIT * (problem.n_nodes + abs(total)) if np.isfinite(total) else float(total)


def _by_trees(problem: Problem, max_iter: int) -> tuple[float, Bracket | None]:
    r"""The tree-reweighted bound, rounded up, and its pseudo-marginals.

    A clique is bounded by node scores first: :math:`a_c(y_c) \le \frac1{|c|}\sum_{v\in c} w_c[y_v]`, which is :math:`w_c[k]` where all
    members agree and at least 0 elsewhere.
    """
    unary, n = problem.unary.copy(), problem.n_nodes
    cliques = problem.cliques
    if len(cliques):
        share = cliques.weights / np.diff(cliques.ptr)[:, None]
        np.add.at(unary, cliques.nodes, share[cliques.owner])
    # Scores are centred, so that constants of any size leave the digits of the sums alone.
    centre = unary.max(axis=1, initial=-np.inf)
    flat = problem.tables.reshape(len(problem.tables), -1)
    finite = np.where(np.isfinite(flat), flat, -np.inf).max(axis=1, initial=-np.inf)
    shift = np.where(np.isfinite(finite), finite, 0.0)
    kinds, place = np.unique(np.stack([problem.edge_table, problem.edge_weight], axis=1), axis=0, return_inverse=True)
    table, weight = kinds[:, 0].astype(np.int64), kinds[:, 1]
    tables = (problem.tables[table] - shift[table, None, None]) * weight[:, None, None]
    constant = np.longdouble(problem.offset) + centre.sum(dtype=np.longdouble)
    constant += (shift[problem.edge_table] * problem.edge_weight).sum(dtype=np.longdouble)
    ends = np.array([0, n], dtype=np.int64), np.array([0, problem.n_edges], dtype=np.int64)
    sums = Reweighted(*ends, np.ascontiguousarray(problem.graph.edges), problem.n_states, problem.n_labels)
    scores, kind = np.ascontiguousarray(unary - centre[:, None]), place.reshape(-1).astype(np.int32)
    best: Bracket | None = None
    for rounds in (0, max_iter):  # messages that hard constraints have spoilt are no bound; those of zeros always are
        with np.errstate(invalid="ignore"):
            found = sums.bracket(scores, tables, kind, np.full(1, _WIDTH), rounds)
        if np.isfinite(found.upper[0]) and (best is None or found.upper[0] <= best.upper[0]):
            best = found
    if best is None:
        return np.inf, None
    size = float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0)) + float(np.abs(constant)) + abs(float(best.upper[0]))
    room = 64 * UNIT * (problem.n_labels + 8) * (n + problem.n_edges + size)
    fine = bool(np.isfinite(best.node).all() and np.isfinite(best.edge).all())
    return float(constant + best.upper[0]) + room, best if fine else None
