"""The dual bound in plain numpy: what certificates are checked with. Nothing here is shared with the kernels.

Every sum of maxima is taken over *centred* scores (each node's and each table's best is 0), and the gap is summed
term by term, each term being a maximum minus one of the values it was taken over. So a gap is never negative, and a
large constant in the scores does not drown it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .rows import row_max, row_min

if TYPE_CHECKING:
    from .problem import Messages, Problem

_CHUNK = 1 << 21
_EPS = float(np.finfo(float).eps)


class Slack(NamedTuple):
    """Bound, and the part of it that a labelling does not reach, term by term.

    ``gap`` is the sum of ``node``, ``edge`` and ``clique``, each of them >= 0, plus `rounding`; ``bound == F(labels) + gap``.
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
    hard = ~np.logical_and.reduce(allowed, axis=(1, 2))[problem.edge_table]
    dirty = hard
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
    top = row_max(scores)
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
    table = problem.tables[problem.edge_table[part]] - table_centres(problem)[part, None, None]
    return table * problem.edge_weight[part, None, None] + first[:, :, None] + second[:, None, :]


def excess(problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """How far the best of a box may lie above a known labelling, and what each label of the box loses at its node.

    Returns ``(H, loss)``: no labelling inside ``domain`` scores more than ``F(labels) + H``, and none that has label
    ``k`` at ``v`` more than ``F(labels) + H - loss[v, k]``. ``labels`` may lie outside the box, so ``H`` may be negative.
    """
    theta = node_scores(problem, messages, own_labels(problem))
    node_at = theta[np.arange(problem.n_nodes), labels]
    theta = np.where(domain, theta, -np.inf)
    top = row_max(theta)
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
        return total + rounding(problem, messages), top[:, None] - theta


def _evaluate(problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray | None) -> Slack:
    theta = node_scores(problem, messages, domain)
    node_top = row_max(theta)
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
        best = row_max(np.where(domain, problem.unary, -np.inf))
        terms = (best, node_top, edge_centres(problem), edge_top, clique_top)
        total = np.longdouble(problem.offset) + sum(term.sum(dtype=np.longdouble) for term in terms)
        total += rounding(problem, messages)
        return Slack(float(total), np.nan, node_top, edge_top, clique_top)
    node, edge, clique = node_top - node_at, edge_top - edge_at, clique_top - clique_at
    gap = float(node.sum() + edge.sum() + clique.sum()) + rounding(problem, messages)
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
    apart = np.add.reduceat(row_max(psi), cliques.ptr[:-1])
    together = (cliques.weights + np.add.reduceat(psi, cliques.ptr[:-1], axis=0)).max(axis=1)
    top = np.maximum(apart, together)
    if labels is None:
        return top, np.zeros(len(cliques))
    own = np.add.reduceat(psi[np.arange(len(psi)), labels[cliques.nodes]], cliques.ptr[:-1])
    return top, own + cliques.values(labels)


def table_centres(problem: Problem) -> np.ndarray:
    """Entry of each edge's table that its weight makes the best (0 where all are forbidden)."""
    high, low = table_extremes(problem)
    return np.where(problem.edge_weight >= 0, high, low)


def edge_centres(problem: Problem) -> np.ndarray:
    """Best finite score of each edge (0 where all are forbidden)."""
    return table_centres(problem) * problem.edge_weight


def centred_score(problem: Problem, labels: np.ndarray) -> float:
    """Score of a labelling below the best of every term by itself: differences of such scores lose no digits to constants."""
    u, v = labels[problem.graph.edges[:, 0]], labels[problem.graph.edges[:, 1]]
    node = problem.unary[np.arange(problem.n_nodes), labels] - row_max(problem.unary)
    edge = (problem.tables[problem.edge_table, u, v] - table_centres(problem)) * problem.edge_weight
    return float(node.sum() + edge.sum() + problem.cliques.values(labels).sum())


def table_extremes(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Largest and smallest finite entry of each edge's table (0 where none); padding past the nodes' labels does not count."""
    memo = problem.__dict__.get("_table_extremes")
    if memo is None:
        memo = problem.__dict__["_table_extremes"] = _table_extremes(problem)
    high, low, kind = memo
    return high[kind], low[kind]


def _table_extremes(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, kind = problem.n_labels, problem.edge_table
    shapes = np.full((len(problem.tables), 2), n)
    source = np.arange(len(problem.tables))
    if problem.n_nodes and problem.n_states.min() < n:
        states = problem.n_states[problem.graph.edges].astype(np.int64)
        code = (kind.astype(np.int64) * (n + 1) + states[:, 0]) * (n + 1) + states[:, 1]
        _, first, kind = np.unique(code, return_index=True, return_inverse=True)
        shapes, source = states[first], problem.edge_table[first]
    high, low, label = np.zeros(len(source)), np.zeros(len(source)), np.arange(n)
    for part in _chunks(np.arange(len(source)), n):
        table = problem.tables[source[part]]
        own = (label[:, None] < shapes[part, 0, None, None]) & (label < shapes[part, 1, None, None]) & np.isfinite(table)
        some = own.any(axis=(1, 2))
        high[part] = np.where(some, np.where(own, table, -np.inf).max(axis=(1, 2)), 0.0)
        low[part] = np.where(some, np.where(own, table, np.inf).min(axis=(1, 2)), 0.0)
    return high, low, kind


def spreads(problem: Problem) -> np.ndarray:
    """Largest minus smallest finite value of each term that is not constant."""
    full = not problem.has_hard_constraints and not (problem.n_states < problem.n_labels).any()
    finite = problem.unary if full else np.where(np.isneginf(problem.unary), np.inf, problem.unary)
    node = row_max(problem.unary) - row_min(finite)
    high, low = table_extremes(problem)
    every = np.concatenate([node, (high - low) * np.abs(problem.edge_weight), row_max(problem.cliques.weights)])
    return every[every > 0]


def typical_spread(problem: Problem) -> float:
    """A low spread of a term (the tenth percentile of those that vary), times the number of terms that vary.

    Large terms, such as soft constraints of 1e9 on most edges, do not move it.
    """
    return _typical(spreads(problem))


def _typical(each: np.ndarray) -> float:
    return float(np.quantile(each, 0.1) * len(each)) if len(each) else 0.0


def resolution(problem: Problem) -> float:
    """Gap that is numerically nothing: 1e-9 of the typical spread, plus the rounding error of the sum of all terms."""
    each = spreads(problem)
    return 1e-9 * _typical(each) + 16 * _EPS * float(each.sum())


def step(problem: Problem) -> float:
    """1 if every score of the problem is a whole number (so that two labellings differ by 0 or at least 1), else 0."""
    samples = (problem.unary[:64], problem.tables[:64])
    arrays = (problem.edge_weight, problem.cliques.weights, problem.tables, problem.unary, np.array([problem.offset]))
    if not all(_whole(values) for values in samples + arrays):
        return 0.0
    sizes = [float(np.abs(np.where(np.isfinite(values), values, 0.0)).max(initial=0.0)) for values in arrays]
    total = (sizes[0] * sizes[2] + sizes[1] + sizes[3]) * (problem.n_nodes + problem.n_edges + len(problem.cliques)) + sizes[4]
    return 1.0 if total < 2.0**50 else 0.0


def _whole(values: np.ndarray) -> bool:
    return bool((np.isneginf(values) | (values == np.floor(values))).all())


def rounding(problem: Problem, messages: Messages) -> float:
    """What rounding can add to or hide from a gap: large messages cancel, and leave their last digits behind.

    At node ``v`` with ``d`` messages, ``q_v`` less their sum is off by at most ``d`` units of the sum of their sizes. The
    answer is 0 where it is below `resolution`, so it matters only for messages far larger than the scores.
    """
    ends, members = problem.graph.edges, problem.cliques.nodes
    n_messages = 2 * len(ends) + len(members)
    largest = max((max(part.max(initial=0.0), -part.min(initial=0.0)) for part in messages), default=0.0)
    degree = problem.graph.degrees
    if len(members):
        degree = degree + np.bincount(members, minlength=problem.n_nodes)
    terms = int(degree.max(initial=0)) + int(np.diff(problem.cliques.ptr).max(initial=0)) + 2
    if 2 * _EPS * float(largest) * n_messages * terms <= problem.resolution:
        return 0.0
    size = [np.maximum(row_max(part), -row_min(part)) for part in messages]
    error = 0.0
    for nodes, part in ((ends[:, 0], size[0][0]), (ends[:, 1], size[0][1]), (members, size[1])):
        error += 2 * _EPS * float(((degree[nodes] + 2) * part).sum())
    error += 2 * _EPS * float((np.diff(problem.cliques.ptr)[problem.cliques.owner] * size[1]).sum())
    return error if error > problem.resolution else 0.0


def _chunks(edges: np.ndarray, n_labels: int) -> Iterator[np.ndarray]:
    size = max(1, _CHUNK // max(1, n_labels * n_labels))
    for start in range(0, len(edges), size):
        yield edges[start : start + size]
