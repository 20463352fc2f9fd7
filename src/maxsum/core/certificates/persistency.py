"""Persistency: nodes whose label is the same in every optimal labelling, proven by the dual bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..rows import row_max
from ..validation import as_labels
from .dual import arc_consistent, edge_scores, excess, node_intervals, raised_edge_scores, rounded_up
from .scale import UNIT, chunks

if TYPE_CHECKING:
    from ..problem import Messages, Problem


_SPARE = 1e-9  # of margins and losses: more than the rounding of their sums
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


def persistent_nodes(problem: Problem, messages: Any, labels: Any) -> np.ndarray:
    r"""Mask (N,) of nodes that have the label of ``labels`` in every optimal labelling, however far the bound is from the optimum.

    Let :math:`k` be the labelling and :math:`S` some nodes. Giving all of :math:`S` their label changes the score of a labelling by at least

    .. math:: \sum_{v \in D} \Big( q^\varphi_v(k_v) - \max_{l \ne k_v} q^\varphi_v(l) - \sum_{e \ni v} d_e \Big),

    where :math:`D \subset S` are the nodes that had another one, and :math:`d_e` is the most that an edge can lose: :math:`\max g^\varphi_e -
    g^\varphi_e(k_u, k_v)` inside :math:`S`, and :math:`\max_l (\max_j g^\varphi_e(j, l) - g^\varphi_e(k_u, l))` where only :math:`u` is in :math:`S`. If every term is
    positive, no optimal labelling differs on :math:`S` (an improving mapping, Shekhovtsov 2014). :math:`S` starts with the nodes whose label is the best by
    itself, and loses those whose term is not positive until none is left out; rounding is on the safe side.
    """
    y = as_labels(labels, problem.n_states)
    given, domain = problem.as_messages(messages), arc_consistent(problem)
    n, nodes, edges = problem.n_nodes, np.arange(problem.n_nodes), problem.graph.edges
    if len(problem.cliques) or len(problem.factors) or not domain[nodes, y].all():
        return np.zeros(n, dtype=bool)
    theta, error = node_intervals(problem, given, domain)
    others = np.where(domain, theta + error, -np.inf)
    others[nodes, y] = -np.inf
    with np.errstate(invalid="ignore"):
        margin = ((theta - error)[nodes, y] - row_max(others)) * (1 - _SPARE)
    # what an edge loses at most with both ends, its first and its second end in S
    loss = np.zeros((3, problem.n_edges))
    for part in chunks(np.arange(problem.n_edges), problem.n_labels):
        u, v = edges[part].T
        high = rounded_up(raised_edge_scores(problem, given, domain, part))
        plain = edge_scores(problem, given, domain, part)
        some = np.arange(len(part))
        with np.errstate(invalid="ignore"):
            low = np.where(np.isneginf(plain), -np.inf, plain - 2 * (high - plain))
            loss[0, part] = high.max(axis=(1, 2)) - low[some, y[u], y[v]]
            loss[1, part] = np.nanmax(high.max(axis=1) - low[some, y[u]], axis=1)
            loss[2, part] = np.nanmax(high.max(axis=2) - low[some, :, y[v]], axis=1)
    loss *= 1 + _SPARE
    chosen = margin > 0
    while True:
        first, second = chosen[edges].T if problem.n_edges else np.zeros((2, 0), dtype=bool)
        own = np.where(first & second, loss[0], np.where(first, loss[1], loss[2]))
        lost = np.zeros(n)
        for side, mine in ((0, first), (1, second)):
            np.add.at(lost, edges[mine, side], own[mine])
        kept = chosen & (margin > lost * (1 + _SPARE))
        if (kept == chosen).all():
            return chosen
        chosen = kept
