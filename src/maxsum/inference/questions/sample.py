"""`sample`: labellings drawn with their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import InfeasibleError, InvalidParameterError, UnsupportedProblemError
from ...core.parameters import WholeNumber, check_value
from ...core.problem import Problem
from .bags import BagTree, exact_order, log_sum, without_factors
from .gibbs import BURN_IN, GibbsChains
from .log_partition import check_problem


@dataclass(frozen=True, eq=False)
class Samples:
    r"""Labellings drawn from :math:`p(y) = e^{F(y)} / Z`.

    Attributes
    ----------
    labels : ndarray of int32, shape (n, n_nodes)
    exact : bool
        Whether each has its probability and they are independent; if not, they are Gibbs samples, which have it in the limit.
    message : str
        One sentence for people.
    """

    labels: np.ndarray
    exact: bool
    message: str

    def __len__(self) -> int:
        return len(self.labels)


def sample(problem: Problem, n: int = 1, *, method: str = "exact", random_state: Any = None) -> Samples:
    r"""Draw labellings with their probabilities, :math:`p(y) = e^{F(y)} / Z`.

    Exact and independent on forests and graphs of small width, by dynamic programming and drawing backwards. Other problems are
    refused, unless Gibbs sampling is asked for.

    Parameters
    ----------
    problem : Problem
    n : int
        Number of labellings.
    method : str
        ``"exact"``, or ``"gibbs"``: the states of ``n`` chains after 200 sweeps from the best labelling that `solve` finds, marked as not exact.
    random_state : int or numpy.random.Generator, optional

    Returns
    -------
    Samples

    Raises
    ------
    UnsupportedProblemError
        If the graph is too wide for exact samples.
    InfeasibleError
        If every labelling is forbidden.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> p = ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), tables=np.where(np.eye(2), 0.0, -np.inf))
    >>> y = ms.sample(p, 4, random_state=0).labels  # neighbours must agree
    >>> bool((y == y[:, :1]).all())
    True
    """
    check_problem(problem, "sample")
    check_value("n", n, WholeNumber(0))
    if method not in ("exact", "gibbs"):
        raise InvalidParameterError(f"method is {method!r}, wanted 'exact' or 'gibbs'.")
    random = np.random.default_rng(random_state)
    if method == "gibbs":
        chains = GibbsChains(problem, int(n), random)
        for _ in range(BURN_IN):
            chains.sweep()
        said = f"sample: states of {n} chains after {BURN_IN} sweeps of Gibbs sampling; not exact."
        return Samples(chains.labels.astype(np.int32), False, said)
    given, problem = problem, without_factors(problem)
    order = exact_order(problem)
    if order is None:
        raise UnsupportedProblemError(
            "exact samples need a forest or a graph of small width, and this one is wider than what is tried. "
            'Take method="gibbs" for samples that are not exact, or condition() on nodes that cut the graph.'
        )
    tree = BagTree(problem, order, log_sum)
    if not tree.feasible:
        raise InfeasibleError("no labelling satisfies the hard constraints of the problem, so there is nothing to sample.")
    said = f"sample: {n} independent exact samples by dynamic programming over bags of at most {order.width + 1} nodes."
    return Samples(np.ascontiguousarray(tree.draw(int(n), random)[:, : given.n_nodes]), True, said)
