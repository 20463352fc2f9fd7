"""The dual bound in plain numpy: what certificates are checked with. Nothing here is shared with the kernels.

Every sum of maxima is taken over *centred* scores (each node's and each table's best is 0), and the gap is summed
term by term, each term being a maximum minus one of the values it was taken over. So a gap is never negative, and a
large constant in the scores does not drown it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .problem import Messages, Problem

_CHUNK = 1 << 21


class Slack(NamedTuple):
    """Bound, and the part of it that a labelling does not reach, term by term.

    ``gap`` is the sum of ``node``, ``edge`` and ``clique``, each of them >= 0, and ``bound == F(labels) + gap``.
    """

    bound: float
    gap: float
    node: np.ndarray
    edge: np.ndarray
    clique: np.ndarray


def own_labels(problem: Problem) -> np.ndarray:
    """Mask (N, K) of the labels that each node has and that its unary does not forbid."""
    mask: np.ndarray = np.arange(problem.n_labels) < problem.n_states[:, None]
    return mask & ~np.isneginf(problem.unary)


def arc_consistent(problem: Problem, domain: np.ndarray | None = None) -> np.ndarray:
    """Remove every label that has no allowed partner at some edge, until nothing changes.

    No labelling of finite score uses a removed label; a node left without labels proves infeasibility.

    Parameters
    ----------
    domain : ndarray of bool, shape (N, K), optional
        Labels to start from; `own_labels` by default.
    """
    domain = own_labels(problem) if domain is None else domain.copy()
    allowed = ~np.isneginf(problem.tables)
    dirty = np.zeros(problem.n_edges, dtype=bool)
    dirty[:] = ~allowed.all(axis=(1, 2))[problem.edge_table]
    hard = dirty.copy()
    if not hard.any():
        return domain
    u, v = problem.graph.edges.T
    while dirty.any():
        before = domain.copy()
        for part in _chunks(np.flatnonzero(dirty), problem.n_labels):
            pair = allowed[problem.edge_table[part]] & domain[u[part], :, None] & domain[v[part], None, :]
            np.logical_and.at(domain, u[part], pair.any(axis=2))
            np.logical_and.at(domain, v[part], pair.any(axis=1))
        changed = (before != domain).any(axis=1)
        dirty = hard & (changed[u] | changed[v])
        if not domain.any(axis=1).all():
            return domain
    return domain


def height(problem: Problem, messages: Messages, domain: np.ndarray | None = None) -> float:
    """Bound of `Problem.bound`, over the labels in ``domain`` (arc consistent ones by default)."""
    return _evaluate(problem, messages, arc_consistent(problem) if domain is None else domain, None).bound


def slack(problem: Problem, messages: Messages, labels: np.ndarray, domain: np.ndarray | None = None) -> Slack:
    """Bound and gap of a labelling, term by term."""
    return _evaluate(problem, messages, arc_consistent(problem) if domain is None else domain, labels)


def node_scores(problem: Problem, messages: Messages, domain: np.ndarray) -> np.ndarray:
    """Centred reparametrised node scores (N, K), ``-inf`` outside the domain."""
    scores = np.where(domain, problem.unary, -np.inf)
    top = scores.max(axis=1, initial=-np.inf)
    scores -= np.where(np.isneginf(top), 0.0, top)[:, None]
    np.subtract.at(scores, problem.graph.edges[:, 0], messages.edge[0])
    np.subtract.at(scores, problem.graph.edges[:, 1], messages.edge[1])
    np.subtract.at(scores, problem.cliques.nodes, messages.clique)
    return scores


def edge_scores(problem: Problem, messages: Messages, domain: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Centred reparametrised tables of some edges (n, K, K), ``-inf`` outside the domain."""
    u, v = problem.graph.edges[part].T
    first = np.where(domain[u], messages.edge[0, part], -np.inf)
    second = np.where(domain[v], messages.edge[1, part], -np.inf)
    table = problem.tables[problem.edge_table[part]] * problem.edge_weight[part, None, None]
    table -= edge_centres(problem)[part][:, None, None]
    return table + first[:, :, None] + second[:, None, :]


def excess(problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """How far the best of a box may lie above a known labelling, and what each label of the box loses at its node.

    Returns ``(H, loss)``: no labelling inside ``domain`` scores more than ``F(labels) + H``, and none that has label
    ``k`` at ``v`` more than ``F(labels) + H - loss[v, k]``. ``labels`` may lie outside the box, so ``H`` may be negative.
    """
    theta = node_scores(problem, messages, own_labels(problem))
    node_at = theta[np.arange(problem.n_nodes), labels]
    theta = np.where(domain, theta, -np.inf)
    top = theta.max(axis=1, initial=-np.inf)
    everything = np.ones_like(domain)
    edge = np.zeros(problem.n_edges)
    for part in _chunks(np.arange(problem.n_edges), problem.n_labels):
        u, v = problem.graph.edges[part].T
        table = edge_scores(problem, messages, everything, part)
        at = table[np.arange(len(part)), labels[u], labels[v]]
        table[~(domain[u][:, :, None] & domain[v][:, None, :])] = -np.inf
        edge[part] = table.reshape(len(part), -1).max(axis=1) - at
    clique_top = _clique_terms(problem, messages, domain, None)[0]
    clique_at = _clique_terms(problem, messages, everything, labels)[1]
    with np.errstate(invalid="ignore"):
        total = float((top - node_at).sum() + edge.sum() + (clique_top - clique_at).sum())
        return total, top[:, None] - theta


def _evaluate(problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray | None) -> Slack:
    theta = node_scores(problem, messages, domain)
    node_top = theta.max(axis=1, initial=-np.inf)
    node_at = np.zeros(problem.n_nodes) if labels is None else theta[np.arange(problem.n_nodes), labels]
    edge_top, edge_at = np.zeros(problem.n_edges), np.zeros(problem.n_edges)
    for part in _chunks(np.arange(problem.n_edges), problem.n_labels):
        table = edge_scores(problem, messages, domain, part)
        edge_top[part] = table.reshape(len(part), -1).max(axis=1)
        if labels is not None:
            u, v = problem.graph.edges[part].T
            edge_at[part] = table[np.arange(len(part)), labels[u], labels[v]]
    clique_top, clique_at = _clique_terms(problem, messages, domain, labels)
    if problem.n_nodes and (np.isneginf(node_top).any() or np.isneginf(edge_top).any()):
        return Slack(-np.inf, np.inf, node_top, edge_top, clique_top)
    if labels is None:
        best = np.where(domain, problem.unary, -np.inf).max(axis=1, initial=-np.inf)
        terms = (best, node_top, edge_centres(problem), edge_top, clique_top)
        total = np.longdouble(problem.offset) + sum(term.sum(dtype=np.longdouble) for term in terms)
        return Slack(float(total), np.nan, node_top, edge_top, clique_top)
    node, edge, clique = node_top - node_at, edge_top - edge_at, clique_top - clique_at
    gap = float(node.sum() + edge.sum() + clique.sum())
    return Slack(problem.score(labels) + gap if np.isfinite(gap) else np.inf, gap, node, edge, clique)


def _clique_terms(
    problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Maximum over the labels of each clique, and value at ``labels``.

    As weights are >= 0, the maximum is the larger of the best without the reward and the best with it.
    """
    cliques = problem.cliques
    if not len(cliques):
        return np.zeros(0), np.zeros(0)
    psi = np.where(domain[cliques.nodes], messages.clique, -np.inf)
    apart = np.add.reduceat(psi.max(axis=1), cliques.ptr[:-1])
    together = (cliques.weights + np.add.reduceat(psi, cliques.ptr[:-1], axis=0)).max(axis=1)
    top = np.maximum(apart, together)
    if labels is None:
        return top, np.zeros(len(cliques))
    own = np.add.reduceat(psi[np.arange(len(psi)), labels[cliques.nodes]], cliques.ptr[:-1])
    return top, own + cliques.values(labels)


def edge_centres(problem: Problem) -> np.ndarray:
    """Best finite entry of each edge's weighted table (0 where all are forbidden)."""
    finite = np.isfinite(problem.tables)
    high = np.where(finite, problem.tables, -np.inf).max(axis=(1, 2), initial=-np.inf)
    low = np.where(finite, problem.tables, np.inf).min(axis=(1, 2), initial=np.inf)
    high, low = np.where(np.isfinite(high), high, 0.0), np.where(np.isfinite(low), low, 0.0)
    weight = problem.edge_weight
    return np.where(weight >= 0, high[problem.edge_table], low[problem.edge_table]) * weight


def typical_spread(problem: Problem) -> float:
    """Number of terms that are not constant, times the median of their spreads (largest minus smallest finite value)."""
    masked = np.where(own_labels(problem), problem.unary, np.nan)
    with np.errstate(invalid="ignore"):
        node = _spread(masked)
        table = _spread(np.where(np.isfinite(problem.tables), problem.tables, np.nan).reshape(len(problem.tables), -1))
    clique = problem.cliques.weights.max(axis=1, initial=0.0)
    spreads = np.concatenate([node, table[problem.edge_table] * np.abs(problem.edge_weight), clique])
    spreads = spreads[spreads > 0]
    return float(np.median(spreads) * len(spreads)) if len(spreads) else 0.0


def _spread(rows: np.ndarray) -> np.ndarray:
    if not rows.size:
        return np.zeros(len(rows))
    return np.fmax.reduce(rows, axis=1) - np.fmin.reduce(rows, axis=1)


def _chunks(edges: np.ndarray, n_labels: int) -> Iterator[np.ndarray]:
    size = max(1, _CHUNK // max(1, n_labels * n_labels))
    for start in range(0, len(edges), size):
        yield edges[start : start + size]
