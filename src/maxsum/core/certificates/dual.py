r"""The dual bound in plain numpy: what certificates are checked with. Nothing here is shared with the kernels.

Every sum of maxima is taken over *centred* scores (each node's and each table's best is 0), and the gap is summed
term by term, each term being a maximum minus one of the values it was taken over. So a gap is never negative, and a
large constant in the scores does not drown it.

Rounding is part of the proof: every maximum is rounded up and every value at the labelling down, by what the operations behind
it can be off. With :math:`u = 2^{-53}`, a node's score with ``d`` messages is off by at most
:math:`(d + 3) u (|q| + \sum |\varphi|)`, label by label. An edge's value :math:`x = g + \varphi_{uv}(k) + \varphi_{vu}(l)` is off by
at most :math:`5u|x| + 8u(|\varphi_{uv}(k)| + |\varphi_{vu}(l)|)`, since :math:`|g|` is no larger than the rest; as
:math:`x + 5u|x|` grows with :math:`x`, only the maximum needs it, and what is left is added to the messages beforehand. So a label
or a pair that lies far below the maximum costs nothing, however large its numbers are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..rows import row_max, row_min
from .scale import UNIT, chunks, edge_centres, table_centres, vanishing

if TYPE_CHECKING:
    from ..problem import Messages, Problem

_EXACT_SUM = 4_096
"""Numbers up to which sums are exact before they are rounded (`math.fsum`, 20 times slower than numpy's)."""

_MESSAGE, _VALUE = 8 * UNIT, 5 * UNIT
"""Rounding of an edge's value, relative to its messages and to itself: see above."""


_NO_TERMS = np.zeros(0)


class Slack(NamedTuple):
    """Bound, and the part of it that a labelling does not reach, term by term.

    ``gap`` is the sum of ``node``, ``edge``, ``clique`` and ``factor``, each of them >= 0 and rounded up; ``rounding`` is the part of it that
    rounding alone may have made; ``bound == F(labels) + gap``, rounded up.
    """

    bound: float
    gap: float
    node: np.ndarray
    edge: np.ndarray
    clique: np.ndarray
    rounding: float = 0.0
    factor: np.ndarray = _NO_TERMS


def own_labels(problem: Problem) -> np.ndarray:
    """Mask (N, K) of the labels that each node has and that its unary does not forbid."""
    mask: np.ndarray = np.arange(problem.n_labels) < problem.n_states[:, None]
    return mask & ~np.isneginf(problem.unary)


def arc_consistent(problem: Problem, domain: np.ndarray | None = None) -> np.ndarray:
    """Remove every label that has no allowed partner at some edge, or in some factor, until nothing changes.

    No labelling of finite score uses a removed label; a node left without labels proves infeasibility.

    Parameters
    ----------
    domain : ndarray of bool, shape (N, K), optional
        Labels to start from; `own_labels` by default.
    """
    if domain is None and problem.factors.is_hard:  # factors take longer, so what they leave is kept
        if "_consistent" not in problem.__dict__:
            problem.__dict__["_consistent"] = arc_consistent(problem, own_labels(problem))
        return np.array(problem.__dict__["_consistent"])
    domain = own_labels(problem) if domain is None else domain.copy()
    while problem.factors.is_hard:
        smaller = problem.factors.supported(_edge_consistent(problem, domain))
        if (smaller == domain).all() or not smaller.any(axis=1).all():
            return smaller
        domain = smaller
    return _edge_consistent(problem, domain)


def _edge_consistent(problem: Problem, domain: np.ndarray) -> np.ndarray:
    """The same by edges alone; the domain is changed in place."""
    allowed = ~np.isneginf(problem.tables)
    hard = ~np.logical_and.reduce(allowed, axis=(1, 2))[problem.edge_table]
    dirty = hard
    if not hard.any():
        return domain
    u, v = problem.graph.edges.T
    while dirty.any():
        before = domain.copy()
        for part in chunks(np.flatnonzero(dirty), problem.n_labels):
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


def term_tops(problem: Problem, messages: Messages, domain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maxima of all nodes and edges over the labels in ``domain``, in centred scores and rounded up."""
    terms = _evaluate(problem, messages, domain, None)
    return terms.node, terms.edge


def _centred(problem: Problem, domain: np.ndarray) -> np.ndarray:
    scores = np.where(domain, problem.unary, -np.inf)
    top = row_max(scores)
    scores -= np.where(np.isneginf(top), 0.0, top)[:, None]
    return scores


def _subtract_messages(problem: Problem, messages: Messages, scores: np.ndarray) -> None:
    np.subtract.at(scores, problem.graph.edges[:, 0], messages.edge[0])
    np.subtract.at(scores, problem.graph.edges[:, 1], messages.edge[1])
    np.subtract.at(scores, problem.cliques.nodes, messages.clique)
    if len(problem.factors):
        np.subtract.at(scores, problem.factors.nodes, messages.factor)


def node_intervals(problem: Problem, messages: Messages, domain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centred reparametrised node scores (N, K), ``-inf`` outside the domain, and by how much each may be off (0 outside)."""
    scores = _centred(problem, domain)
    size = np.where(domain, -np.abs(scores), 0.0)
    _subtract_messages(problem, messages, scores)
    _subtract_messages(problem, type(messages)(*(np.abs(part) for part in messages)), size)
    terms = _messages_at(problem) + 3
    error = -size
    error *= UNIT * terms[:, None]
    return scores, np.where(domain, error, 0.0)


def _messages_at(problem: Problem) -> np.ndarray:
    """Number of messages of each node."""
    members = np.concatenate([problem.cliques.nodes, problem.factors.nodes])
    return np.asarray(problem.graph.degrees + np.bincount(members, minlength=problem.n_nodes))


def edge_scores(problem: Problem, messages: Messages, domain: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Centred reparametrised tables of some edges (n, K, K), ``-inf`` outside the domain."""
    return _edge_scores(problem, messages.edge[0, part], messages.edge[1, part], domain, part)


def _edge_scores(problem: Problem, first: np.ndarray, second: np.ndarray, domain: np.ndarray, part: np.ndarray) -> np.ndarray:
    u, v = problem.graph.edges[part].T
    first, second = np.where(domain[u], first, -np.inf), np.where(domain[v], second, -np.inf)
    table = problem.tables[problem.edge_table[part]] - table_centres(problem)[part, None, None]
    return table * problem.edge_weight[part, None, None] + first[:, :, None] + second[:, None, :]


def raised_edge_scores(problem: Problem, messages: Messages, domain: np.ndarray, part: np.ndarray) -> np.ndarray:
    """`edge_scores` with messages rounded up: `rounded_up` of a maximum of them is not below the exact maximum."""
    first, second = messages.edge[0, part], messages.edge[1, part]
    return _edge_scores(problem, first + _MESSAGE * np.abs(first), second + _MESSAGE * np.abs(second), domain, part)


def rounded_up(top: np.ndarray) -> np.ndarray:
    """What the exact maximum is at most, from the maximum of `raised_edge_scores`."""
    return top + _VALUE * np.abs(np.where(np.isfinite(top), top, 0.0))


def edge_values(problem: Problem, messages: Messages, labels: np.ndarray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centred reparametrised values of some edges at a labelling, and by how much each may be off."""
    k, m = labels[problem.graph.edges[part]].T
    table = problem.tables[problem.edge_table[part], k, m] - table_centres(problem)[part]
    first, second = messages.edge[0, part, k], messages.edge[1, part, m]
    value = table * problem.edge_weight[part] + first + second
    finite = np.where(np.isfinite(value), np.abs(value), 0.0)
    return value, _VALUE * finite + _MESSAGE * (np.abs(first) + np.abs(second))


def excess(problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """How far the best of a box may lie above a known labelling, and what each label of the box loses at its node.

    Returns ``(H, loss)``: no labelling inside ``domain`` scores more than ``F(labels) + H``, and none that has label
    ``k`` at ``v`` more than ``F(labels) + H - loss[v, k]``. ``labels`` may lie outside the box, so ``H`` may be negative. ``H``
    is rounded up and ``loss`` down.
    """
    own = own_labels(problem)
    theta, error = node_intervals(problem, messages, own)
    at = np.arange(problem.n_nodes), labels
    node_at = theta[at] - error[at]
    theta = np.where(domain, theta + error, -np.inf)
    top = row_max(theta)
    edge = np.zeros(problem.n_edges)
    for part in chunks(np.arange(problem.n_edges), problem.n_labels):
        value, off = edge_values(problem, messages, labels, part)
        table = raised_edge_scores(problem, messages, domain, part)
        edge[part] = rounded_up(table.reshape(len(part), -1).max(axis=1)) - (value - off)
    clique_top = _clique_terms(problem, messages, domain, None)[0]
    clique_at = _clique_terms(problem, messages, np.ones_like(domain), labels)[1]
    factor_value, factor_off = problem.factors.at(messages.factor, np.ones_like(domain), labels)
    factor = problem.factors.tops(messages.factor, domain) - (factor_value - factor_off)
    with np.errstate(invalid="ignore"):
        loss = top[:, None] - theta
        above = sum_up(top - node_at, edge, clique_top - clique_at, factor, np.array([4 * vanishing(problem)]))
        return above + 4 * UNIT * abs(above) if np.isfinite(above) else above, loss * (1 - 4 * UNIT)


def _evaluate(problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray | None) -> Slack:
    theta, error = node_intervals(problem, messages, domain)
    node_top = row_max(theta + error)
    node_at = np.zeros(problem.n_nodes)
    edge_top, edge_at = np.zeros(problem.n_edges), np.zeros(problem.n_edges)
    off = 0.0
    if labels is not None:
        at = np.arange(problem.n_nodes), labels
        node_at, off = theta[at] - error[at], 2 * float(error[at].sum())
    for part in chunks(np.arange(problem.n_edges), problem.n_labels):
        table = raised_edge_scores(problem, messages, domain, part)
        edge_top[part] = rounded_up(table.reshape(len(part), -1).max(axis=1))
        if labels is not None:
            value, error = edge_values(problem, messages, labels, part)
            u, v = problem.graph.edges[part].T
            inside = domain[u, labels[u]] & domain[v, labels[v]]
            edge_at[part], off = np.where(inside, value - error, -np.inf), off + 2 * float(error.sum())
    clique_top, clique_at = _clique_terms(problem, messages, domain, labels)
    factor_top = problem.factors.tops(messages.factor, domain)
    if problem.n_nodes and any(np.isneginf(part).any() for part in (node_top, edge_top, factor_top)):
        return Slack(-np.inf, np.inf, node_top, edge_top, clique_top, 0.0, factor_top)
    if labels is None:
        best = row_max(np.where(domain, problem.unary, -np.inf))
        centre = edge_centres(problem)
        off = UNIT * float(np.abs(centre[np.abs(problem.edge_weight) != 1]).sum())
        parts = (
            best,
            node_top,
            centre,
            edge_top,
            clique_top,
            factor_top,
            problem.factors.centres,
            np.array([problem.offset, off]),
        )
        return Slack(sum_up(*parts), np.nan, node_top, edge_top, clique_top, 0.0, factor_top)
    node, edge, clique = node_top - node_at, edge_top - edge_at, clique_top - clique_at
    value, error = problem.factors.at(messages.factor, domain, labels)
    factor, off = factor_top - (value - error), off + 2 * float(error.sum())
    gap = sum_up(node, edge, clique, factor, np.array([4 * vanishing(problem)])) * (1 + 4 * UNIT)
    bound = raised_score(problem, labels, gap)
    return Slack(bound, gap, node, edge, clique, off + 4 * vanishing(problem), factor)


def raised_score(problem: Problem, labels: np.ndarray, gap: float) -> float:
    """Score of a labelling plus a gap, rounded up."""
    if not np.isfinite(gap):
        return np.inf
    u, v = labels[problem.graph.edges].T
    edge = problem.tables[problem.edge_table, u, v] * problem.edge_weight
    off = UNIT * float(np.abs(edge[np.abs(problem.edge_weight) != 1]).sum()) + vanishing(problem)
    node = problem.unary[np.arange(problem.n_nodes), labels]
    more = (problem.cliques.values(labels), problem.factors.values(labels))
    return sum_up(node, edge, *more, np.array([problem.offset, gap, off]))


def sum_up(*parts: np.ndarray) -> float:
    """Sum of all numbers, rounded up; exact where it is a floating point number."""
    if sum(len(part) for part in parts) > _EXACT_SUM:
        total = sum((part.sum(dtype=np.longdouble) for part in parts), np.longdouble(0.0))
        size = sum(float(np.abs(part).sum()) for part in parts)
        error = 2 * float(np.finfo(np.longdouble).eps) * (sum(len(part) for part in parts) + 2) * size
        return up(float(total) + error) if np.isfinite(total) else float(total)
    values = np.concatenate(parts).tolist()
    if not np.isfinite(values).all():
        return float(sum(values))
    total = math.fsum(values)
    return total if math.fsum([*values, -total]) <= 0 else up(total)


def up(value: float) -> float:
    """The next number above: what a sum that was rounded to nearest is at most."""
    return float(np.nextafter(value, np.inf))


def _clique_terms(
    problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Maximum over the labels of each clique, rounded up, and value at ``labels``, rounded down.

    As weights are >= 0, the maximum is the larger of the best without the reward and the best with it.
    """
    cliques = problem.cliques
    if not len(cliques):
        return np.zeros(0), np.zeros(0)
    start, inside = cliques.ptr[:-1], domain[cliques.nodes]
    psi = np.where(inside, messages.clique, -np.inf)
    size = np.where(inside, np.abs(messages.clique), 0.0)
    off = UNIT * (np.diff(cliques.ptr) + 3)
    best = row_max(psi)
    apart = np.add.reduceat(best, start) + off * np.add.reduceat(np.where(np.isfinite(best), np.abs(best), 0.0), start)
    together = cliques.weights + np.add.reduceat(psi, start, axis=0)
    together += off[:, None] * (cliques.weights + np.add.reduceat(size, start, axis=0))
    top = np.maximum(apart, together.max(axis=1))
    if labels is None:
        return top, np.zeros(len(cliques))
    member = np.arange(len(psi)), labels[cliques.nodes]
    paid = cliques.values(labels)
    own = np.add.reduceat(psi[member], start) + paid
    return top, own - off * (np.add.reduceat(size[member], start) + paid)


def centred_score(problem: Problem, labels: np.ndarray) -> float:
    """Score of a labelling below the best of every term by itself: differences of such scores lose no digits to constants."""
    u, v = labels[problem.graph.edges[:, 0]], labels[problem.graph.edges[:, 1]]
    node = problem.unary[np.arange(problem.n_nodes), labels] - row_max(problem.unary)
    edge = (problem.tables[problem.edge_table, u, v] - table_centres(problem)) * problem.edge_weight
    factor = problem.factors.values(labels) - problem.factors.centres
    return float(node.sum() + edge.sum() + problem.cliques.values(labels).sum() + factor.sum())


def rounding(problem: Problem, messages: Messages) -> float:
    r"""What rounding can hide from a gap that kernels summed up under these messages, from their sizes alone.

    At a node with ``d`` messages, :math:`M_v` being the sum of their largest entries, the best reparametrised score is at most
    :math:`M_v` in size (its own best is 0), so the node's term is off by at most :math:`6(d + 3)u M_v` and a few units of itself; an
    edge's by :math:`26u` of its messages and :math:`10u` of the best entry of its table; a clique's of ``s`` members by
    :math:`8(s + 3)u` of its messages and weights. What is relative to the gap itself is a share of `gap_rounding`.
    """
    ends, members, cliques = problem.graph.edges, problem.cliques.nodes, problem.cliques
    size = [np.maximum(row_max(part), -row_min(part)) if part.size else np.zeros(part.shape[:-1]) for part in messages]
    terms = problem.graph.degrees + np.bincount(members, minlength=problem.n_nodes) + 3
    error = 0.0
    for nodes, part in ((ends[:, 0], size[0][0]), (ends[:, 1], size[0][1])):
        error += float(((6 * terms[nodes] + 26) * part).sum())
    if len(members):
        count = np.diff(cliques.ptr) + 3
        error += float(((6 * terms[members] + 8 * count[cliques.owner]) * size[1]).sum())
        error += float((8 * count * row_max(cliques.weights)).sum())
    return UNIT * error


def largest_rounding(n_terms: int, degree: int, score: float, message: float) -> float:
    """What rounding can hide in a gap of ``n_terms`` terms, from their largest scores and messages alone: a few units in the last place of
    the largest number that ``degree`` messages and a score make in a term, for every term. Coarser than `rounding`, and cheaper."""
    return 8 * UNIT * (degree + 4) * n_terms * (score + (degree + 2) * message)


def gap_rounding(problem: Problem) -> float:
    """Share of a gap summed up by kernels that rounding may hide: each term's own, and that of their plain sum."""
    degree = int(problem.graph.degrees.max(initial=0)) + int(np.diff(problem.cliques.ptr).max(initial=0))
    return UNIT * (3 * degree + 16 + problem.n_nodes + problem.n_edges + len(problem.cliques))
