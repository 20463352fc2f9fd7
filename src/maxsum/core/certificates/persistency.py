"""Persistency: nodes whose label is the same in every optimal labelling, proven by the dual bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..validation import as_labels
from .dual import arc_consistent, excess, raised_edge_scores, rounded_up
from .scale import UNIT, chunks

if TYPE_CHECKING:
    from ..problem import Messages, Problem


_ROUNDS = 10  # rounds of exclusion; what a round excludes falls fast, and fewer exclude less but nothing wrong


def excluded_labels(problem: Problem, messages: Any, labels: Any) -> np.ndarray:
    r"""Mask (N, K) of the labels that no optimal labelling has, proven by messages and a labelling of score :math:`s`.

    A labelling with label ``k`` at ``v`` scores at most the bound :math:`U(\varphi)` less what ``k`` loses there,

    .. math:: \ell_v(k) = \max q^\varphi_v - q^\varphi_v(k)
              + \sum_{uv} \big( \max g^\varphi_{uv} - \max_l g^\varphi_{uv}(l, k) \big),

    so ``k`` is excluded if :math:`U - \ell_v(k) < s`, by more than `Problem.resolution`. All optimal labellings lie among the
    labels that are left, so the maxima are taken over these again, a few times. Forbidden labels and those that arc
    consistency removes are excluded always.
    """
    y = as_labels(labels, problem.n_states)
    given = problem.as_messages(messages)
    domain = arc_consistent(problem)
    if not np.isfinite(problem.score(y)):
        return ~domain
    for _ in range(_ROUNDS):
        above, loss = excess(problem, given, domain, y)
        _add_edge_losses(problem, given, domain, loss)
        kept = domain & (loss <= above + problem.resolution)
        if (kept == domain).all():
            break
        domain = kept
    return ~domain


def _add_edge_losses(problem: Problem, messages: Messages, domain: np.ndarray, loss: np.ndarray) -> None:
    for part in chunks(np.arange(problem.n_edges), problem.n_labels):
        u, v = problem.graph.edges[part].T
        table = raised_edge_scores(problem, messages, domain, part)
        first, second = rounded_up(table.max(axis=2)), rounded_up(table.max(axis=1))
        top = first.max(axis=1, keepdims=True)
        np.add.at(loss, u, np.where(domain[u], (top - first) * (1 - 4 * UNIT), 0.0))
        np.add.at(loss, v, np.where(domain[v], (top - second) * (1 - 4 * UNIT), 0.0))


def fixed_nodes(problem: Problem, messages: Any, labels: Any) -> np.ndarray:
    """Mask (N,) of the nodes that have the label of ``labels`` in every optimal labelling, as far as `excluded_labels` proves it.

    ``labels`` need not be optimal. What is fixed stays fixed however the search goes on.
    """
    y = as_labels(labels, problem.n_states)
    excluded = excluded_labels(problem, messages, y)
    if not problem.n_nodes or not np.isfinite(problem.score(y)):
        return np.zeros(problem.n_nodes, dtype=bool)
    nodes = np.arange(problem.n_nodes)
    others = excluded.copy()
    others[nodes, y] = True
    return others.all(axis=1) & ~excluded[nodes, y]
