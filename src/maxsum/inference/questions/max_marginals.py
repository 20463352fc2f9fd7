"""`max_marginals`: the best score that a labelling can have with a given label at a given node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.dual import arc_consistent, excess, raised_score
from ...core.certificates.scale import UNIT
from ...core.errors import UnsupportedProblemError
from ...core.parameters import TIME_LIMIT, check_value
from ...core.problem import Messages, Problem
from ...core.result import Guarantee
from ..dispatch import solve
from ..relaxations.trws import TRWS
from .bags import BagTree, best, exact_order
from .log_partition import check_problem


@dataclass(frozen=True, eq=False)
class MaxMarginals:
    r"""Bounds of :math:`\max_{y : y_v = k} F(y)`.

    Attributes
    ----------
    lower, upper : ndarray, shape (n_nodes, K)
        The best score with label ``k`` at node ``v`` lies between them: ``lower`` is the score of a labelling that was found (``-inf``
        if none was). Both are ``-inf`` for what is forbidden.
    exact : bool
        Whether they are equal, by dynamic programming, up to rounding.
    message : str
        One sentence for people.
    """

    lower: np.ndarray
    upper: np.ndarray
    exact: bool
    message: str

    @property
    def values(self) -> np.ndarray:
        """The exact numbers; `UnsupportedProblemError` where there are bounds only."""
        if not self.exact:
            raise UnsupportedProblemError(
                "these max-marginals are bounds, as the graph is too wide for exact ones; take .lower and .upper."
            )
        return self.upper


def max_marginals(problem: Problem, *, time_limit: float | None = None) -> MaxMarginals:
    r"""The best score with label ``k`` at node ``v``, :math:`\max_{y : y_v = k} F(y)`, for all nodes and labels.

    On forests and graphs of small width they are exact. Elsewhere upper bounds come from the messages of `TRWS` (the bound less what
    the label loses at its node), lower ones from the labellings that differ from the best one found in a single node.

    Parameters
    ----------
    problem : Problem
    time_limit : float, optional
        Seconds for messages and labelling, where they are needed.

    Returns
    -------
    MaxMarginals

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> p = ms.Problem(ms.Graph.chain(3), [[0, 1], [0, 0], [2, 0]], tables=np.eye(2))
    >>> ms.max_marginals(p).values.tolist()
    [[4.0, 4.0], [4.0, 4.0], [4.0, 3.0]]
    """
    check_problem(problem, "max_marginals")
    check_value("time_limit", time_limit, TIME_LIMIT)
    order = exact_order(problem)
    if order is None:
        return _bounds(problem, time_limit)
    tree = BagTree(problem, order, best)
    if not tree.feasible:
        nothing = np.full(problem.unary.shape, -np.inf)
        return MaxMarginals(nothing, nothing, True, "max-marginals: no labelling satisfies the hard constraints.")
    relative = tree.to_nodes(tree.max_beliefs(), np.maximum, -np.inf)
    values = (tree.total + relative.astype(np.longdouble)).astype(np.float64)
    said = f"max-marginals: exact by dynamic programming over bags of at most {order.width + 1} nodes."
    return MaxMarginals(values, values, True, said)


def _bounds(problem: Problem, time_limit: float | None) -> MaxMarginals:
    """Bounds by messages from above, by flips of the best labelling from below."""
    result = TRWS(time_limit=time_limit).solve(problem)
    messages = result.messages
    if messages is None or result.labels is None or not np.isfinite(result.score):
        # Hard constraints are in the way of a labelling: a search may find one, or that there is none.
        searched = solve(problem, time_limit=time_limit)
        if Guarantee.infeasible in (result.guarantee, searched.guarantee):
            nothing = np.full(problem.unary.shape, -np.inf)
            return MaxMarginals(nothing, nothing, True, "max-marginals: no labelling satisfies the hard constraints.")
        messages = problem.zero_messages() if messages is None else messages
        labels = searched.labels if searched.labels is not None and np.isfinite(searched.score) else None
    else:
        labels = result.labels
    upper = _upper(problem, messages, labels)
    if labels is None:
        lower, low = np.full(problem.unary.shape, -np.inf), "nothing, as no labelling was found"
    else:
        lower, low = flips(problem, labels), "labellings that differ from the best one found in one node"
    said = f"max-marginals: upper bounds by messages, lower bounds by {low}."
    return MaxMarginals(lower, np.maximum(upper, lower), False, said)


def _upper(problem: Problem, messages: Messages, labels: np.ndarray | None) -> np.ndarray:
    domain = arc_consistent(problem)
    if labels is None:
        return np.where(domain, problem.bound(messages), -np.inf)
    above, loss = excess(problem, messages, domain, labels)
    bound = raised_score(problem, labels, max(above, 0.0))
    with np.errstate(invalid="ignore"):
        room = 4 * UNIT * (abs(bound) + np.abs(loss))
        return np.where(domain, bound - loss + room, -np.inf)


_FLIPPED = 64
"""Nodes of a factor whose flips are tried one by one: each takes a look at all of them."""


def flips(problem: Problem, labels: np.ndarray) -> np.ndarray:
    """Scores (N, K) of all labellings that differ from a given one, of finite score, in one node at most; ``-inf`` for labels it lacks."""
    at = np.arange(problem.n_nodes)
    change = problem.unary - problem.unary[at, labels][:, None]
    u, v = problem.graph.edges.T
    here = problem.tables[problem.edge_table, labels[u], labels[v]][:, None]
    weight = problem.edge_weight[:, None]
    np.add.at(change, u, (problem.tables[problem.edge_table, :, labels[v]] - here) * weight)
    np.add.at(change, v, (problem.tables[problem.edge_table, labels[u], :] - here) * weight)
    cliques = problem.cliques
    paid = cliques.values(labels)
    for c in range(len(cliques)):
        members = cliques.members(c)
        for w in members.tolist():
            others = np.unique(labels[members[members != w]])
            gain = np.zeros(problem.n_labels)
            if not len(others):
                gain = cliques.weights[c].copy()
            elif len(others) == 1:
                gain[others[0]] = cliques.weights[c, others[0]]
            change[w] += gain - paid[c]
    if len(problem.factors):
        with np.errstate(invalid="ignore"):
            change += problem.factors.moves(labels, problem.n_labels, problem.n_states, _FLIPPED)
        large = problem.factors.nodes[np.repeat(np.diff(problem.factors.ptr), np.diff(problem.factors.ptr)) > _FLIPPED]
        change[large] = -np.inf  # their flips are not looked at
    scores = problem.score(labels) + change
    scores[at, labels] = problem.score(labels)
    return np.where(np.arange(problem.n_labels) < problem.n_states[:, None], scores, -np.inf)
