"""`marginals`: the probability of each label of each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.conditioning import within
from ...core.errors import InfeasibleError, InvalidParameterError
from ...core.parameters import TIME_LIMIT, WholeNumber, check_value
from ...core.problem import Problem
from .bags import BagTree, exact_order, log_sum, without_factors
from .gibbs import BURN_IN, GibbsChains
from .log_partition import check_problem, log_partition, loopy_sums

_CHAINS = 20
"""Independent chains of a sampled estimate: the standard error is taken between them, and is itself off by a sixth."""
_ROOM = 1e-12
"""What brackets are widened by, relatively: logarithms of sums up to some thousand have that many digits."""


@dataclass(frozen=True, eq=False)
class Marginals:
    r"""Probabilities of labels under :math:`p(y) = e^{F(y)} / Z`.

    Attributes
    ----------
    node : ndarray, shape (n_nodes, K)
        Probability of each label of each node; 0 past the labels of a node.
    exact : bool
        Whether they are exact, up to rounding. If not, they are an estimate without a bound.
    message : str
        One sentence for people: by which method.
    standard_error : ndarray, shape (n_nodes, K), or None
        Of a sampled estimate, from chains that are independent of each other.
    lower, upper : ndarray, shape (n_nodes, K), or None
        What is proven, where ``bracket=True`` asked for it.
    """

    node: np.ndarray
    exact: bool
    message: str
    standard_error: np.ndarray | None = None
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    _edges: Callable[[], np.ndarray] | None = field(default=None, repr=False)

    def edges(self) -> np.ndarray:
        """Probabilities of pairs of labels, shape (n_edges, K, K), axes as in the tables; computed when they are asked for."""
        if self._edges is None:
            raise InvalidParameterError("these marginals know nothing of edges; take another method of marginals().")
        return self._edges()


def marginals(
    problem: Problem,
    *,
    method: str = "auto",
    bracket: bool = False,
    n_sweeps: int = 2000,
    random_state: Any = None,
    time_limit: float | None = None,
) -> Marginals:
    r"""Probability of each label of each node, :math:`p(y) = e^{F(y)} / Z`.

    On forests and graphs of small width they are exact. Elsewhere they are an estimate, and say so: tree-reweighted
    pseudo-marginals (those of structured mean field where there are cliques), or samples.

    Parameters
    ----------
    problem : Problem
    method : str
        ``"auto"``, or ``"gibbs"`` for sampled estimates with a standard error.
    bracket : bool
        Prove bounds of every probability, as ratios of brackets of `log_partition`: one for each label of each node.
    n_sweeps : int
        Sweeps of Gibbs sampling in all.
    random_state : int or numpy.random.Generator, optional
        For Gibbs sampling.
    time_limit : float, optional
        Seconds for the labelling that bounds of sums start from.

    Returns
    -------
    Marginals

    Raises
    ------
    InfeasibleError
        If every labelling is forbidden, so that there are no probabilities.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> p = ms.Problem(ms.Graph.chain(2), [[0, 0], [np.log(3), 0]], tables=np.zeros((2, 2)))
    >>> ms.marginals(p).node.round(6).tolist()
    [[0.5, 0.5], [0.75, 0.25]]
    """
    check_problem(problem, "marginals")
    check_value("n_sweeps", n_sweeps, WholeNumber(1))
    check_value("time_limit", time_limit, TIME_LIMIT)
    if method not in ("auto", "gibbs"):
        raise InvalidParameterError(f"method is {method!r}, wanted 'auto' or 'gibbs'.")
    if method == "gibbs":
        found = _sampled(problem, n_sweeps, np.random.default_rng(random_state))
    else:
        whole = without_factors(problem)
        found = _of_given(problem, _exact(whole) or _estimated(whole, time_limit))
    if not bracket:
        return found
    low, high = (found.node, found.node) if found.exact else _brackets(problem, time_limit)
    return Marginals(found.node, found.exact, found.message, found.standard_error, low, high, found._edges)


def _of_given(problem: Problem, found: Marginals) -> Marginals:
    """Marginals of the nodes and edges of the given problem, where extra ones stand for its factors."""
    if found.node.shape == problem.unary.shape:
        return found
    n, e, k = problem.n_nodes, problem.n_edges, problem.n_labels
    edges = found._edges
    mine = None if edges is None else (lambda: edges()[:e, :k, :k])
    return Marginals(found.node[:n, :k].copy(), found.exact, found.message, _edges=mine)


def _exact(problem: Problem) -> Marginals | None:
    order = exact_order(problem)
    if order is None:
        return None
    tree = BagTree(problem, order, log_sum)
    if not tree.feasible:
        raise InfeasibleError("no labelling satisfies the hard constraints of the problem, so there are no probabilities.")
    tables = tree.probabilities()
    said = f"marginals: exact by dynamic programming over bags of at most {order.width + 1} nodes."
    node = tree.to_nodes(tables, np.add, 0.0)
    return Marginals(node, True, said, _edges=lambda: tree.to_edges(tables, np.add, 0.0))


def _estimated(problem: Problem, time_limit: float | None) -> Marginals:
    sums = loopy_sums(problem, time_limit=time_limit)
    if sums.bracket.upper == -np.inf:
        raise InfeasibleError("no labelling satisfies the hard constraints of the problem, so there are no probabilities.")
    if sums.upper is not None and not len(problem.cliques):
        pseudo = sums.upper
        return Marginals(
            pseudo.node, False, "marginals: an estimate, tree-reweighted pseudo-marginals.", _edges=lambda: pseudo.edge
        )
    if sums.lower is None:
        raise InfeasibleError("no labelling of finite score was found, so there is nothing to estimate probabilities from.")
    field = sums.lower
    return Marginals(field.node, False, "marginals: an estimate, those of structured mean field.", _edges=lambda: field.edge)


def _sampled(problem: Problem, n_sweeps: int, random: np.random.Generator) -> Marginals:
    chains = GibbsChains(problem, _CHAINS, random)
    for _ in range(BURN_IN):
        chains.sweep()
    rounds = -(-n_sweeps // _CHAINS)
    count = np.zeros((_CHAINS, *problem.unary.shape))
    pairs = np.zeros((problem.n_edges, problem.n_labels, problem.n_labels))
    label, at = np.arange(problem.n_labels), np.arange(problem.n_edges)
    for _ in range(rounds):
        chains.sweep()
        count += chains.labels[:, :, None] == label
        for labels in chains.labels:
            pairs[at, labels[problem.graph.edges[:, 0]], labels[problem.graph.edges[:, 1]]] += 1
    count /= rounds
    error = count.std(axis=0, ddof=1) / np.sqrt(_CHAINS)
    said = f"marginals: an estimate, from {rounds * _CHAINS} sweeps of Gibbs sampling in {_CHAINS} chains; not exact."
    return Marginals(count.mean(axis=0), False, said, error, _edges=lambda: pairs / (rounds * _CHAINS))


def _brackets(problem: Problem, time_limit: float | None) -> tuple[np.ndarray, np.ndarray]:
    r"""Bounds of :math:`p(y_v = k) = Z_{vk} / (Z_{vk} + \sum_{l \ne k} Z_{vl})` from brackets of all :math:`Z_{vl}`."""
    low, high = (np.full(problem.unary.shape, -np.inf) for _ in range(2))
    own = problem.unary > -np.inf
    for v, k in np.argwhere(own).tolist():
        mask = own.copy()
        mask[v] = False
        mask[v, k] = True
        found = log_partition(within(problem, mask), time_limit=time_limit)
        low[v, k], high[v, k] = found.lower, found.upper
    # Exponentials and sums are off by some units of rounding.
    return _share(low, high) * (1 - _ROOM), np.minimum(_share(high, low) * (1 + _ROOM), 1.0)


def _share(mine: np.ndarray, others: np.ndarray) -> np.ndarray:
    """``e^mine / (e^mine + sum of e^others over the other labels of the node)``, all logarithms; 0 / 0 is 0 below and 1 above."""
    top = np.maximum(mine, others.max(axis=1, keepdims=True))
    top = np.where(np.isfinite(top), top, 0.0)
    own = np.exp(mine - top)
    # for each label, the other labels of its node under the same shift
    rest = np.stack([np.exp(np.delete(others, k, axis=1) - top[:, [k]]).sum(axis=1) for k in range(mine.shape[1])], axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(own > 0, own / (own + rest), 0.0)
