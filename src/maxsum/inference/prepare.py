"""From a `Problem` to the arrays of the kernels, made once per problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.certificates.base import Evaluation, MessageCertificate
from ..core.certificates.dual import gap_rounding, own_labels, raised_score, rounding
from ..core.certificates.scale import UNIT, edge_centres, vanishing
from ..core.problem import Messages, Problem
from ..core.rows import row_max, row_min
from ..kernels import consistency, height
from ..kernels.net import adjacency, memberships
from ..kernels.records import Net

if TYPE_CHECKING:
    from .base import Run


class Prepared(NamedTuple):
    """``F(y) == constant + score of y in net``; ``feasible`` is False if arc consistency leaves a node without labels.

    ``rounding`` is what the tables of the net add to `core.certificates.dual.rounding`.
    """

    net: Net
    constant: float
    feasible: bool
    rounding: float


def prepare(problem: Problem) -> Prepared:
    """Centre the scores, enforce arc consistency, build the adjacency. The answer is kept with the problem."""
    memo = problem.__dict__.get("_prepared")
    if memo is None:
        memo = problem.__dict__["_prepared"] = _prepare(problem)
    return memo


def start(problem: Problem, run: Run, init: Messages | None) -> tuple[Prepared, Messages] | None:
    """The kernel arrays, and messages of the caller's own: copies of ``init``, or zeros.

    None if arc consistency alone proves the problem infeasible; that is certified then.
    """
    prepared = prepare(problem)
    messages = problem.zero_messages() if init is None else Messages(*(part.copy() for part in init))
    if prepared.feasible:
        return prepared, messages
    run.certify(-np.inf, MessageCertificate(messages))
    return None


def _prepare(problem: Problem) -> Prepared:
    graph, cliques = problem.graph, problem.cliques
    ptr, adj_edge, adj_side = adjacency(graph.n_nodes, graph.edges)
    member_ptr, member = memberships(graph.n_nodes, cliques.nodes)
    tables, moved = centred_tables(problem)
    net = Net(
        problem.n_states,
        problem.unary,
        graph.edges,
        problem.edge_table,
        problem.edge_weight,
        tables,
        ptr,
        adj_edge,
        adj_side,
        cliques.ptr,
        cliques.nodes,
        cliques.weights,
        member_ptr,
        member,
        cliques.owner.astype(np.int32),
        _turned(tables, problem),
    )
    unary, feasible = problem.unary, True
    if problem.has_hard_constraints and problem.n_nodes:
        domain = own_labels(problem).astype(np.uint8)
        queue, queued = np.empty(problem.n_nodes, dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.uint8)
        feasible = bool(consistency.arc_consistency(net, domain, queue, queued, True))
        if feasible:
            unary = np.where(domain.view(bool), unary, -np.inf)
    top = row_max(unary)
    unary = unary - top[:, None]
    total = np.longdouble(problem.offset) + top.sum(dtype=np.longdouble) + moved.sum(dtype=np.longdouble)
    tables_size = float(np.abs(edge_centres(problem) - moved).sum()) if problem.n_edges else 0.0
    return Prepared(net._replace(unary=unary), float(total), feasible, 10 * UNIT * tables_size + 4 * vanishing(problem))


def centred_tables(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Tables without a large common constant, and what was taken from each edge. Usually the tables as they are."""
    tables, weight = problem.tables, problem.edge_weight
    flat = tables.reshape(len(tables), -1)
    high, low = row_max(flat), row_min(np.where(np.isneginf(flat), np.inf, flat))
    known = np.isfinite(high)
    high, low = np.where(known, high, 0.0), np.where(known, low, 0.0)
    large = np.abs(high) > 16 * (high - low)
    if not (large & (high != 0)).any():
        return tables, np.zeros(1)
    shift = np.where(large, high, 0.0)
    centred = tables - shift[:, None, None]
    centred.flags.writeable = False
    return centred, shift[problem.edge_table] * weight


def _turned(tables: np.ndarray, problem: Problem) -> np.ndarray:
    """Transposed tables, unless the bank is large and larger than the messages."""
    if tables.size > max(2**20, 2 * problem.n_edges * problem.n_labels):
        return np.zeros((0, 0, 0))
    return np.ascontiguousarray(tables.transpose(0, 2, 1)).copy()


def net_score(net: Net, labels: np.ndarray | None) -> float:
    """Score of a labelling in the centred scores of the net; ``-inf`` without one."""
    if labels is None:
        return -np.inf
    u, v = labels[net.edges[:, 0]], labels[net.edges[:, 1]]
    total = net.unary[np.arange(len(labels)), labels].sum() + (net.tables[net.edge_table, u, v] * net.edge_weight).sum()
    if len(net.clique_nodes):
        member = labels[net.clique_nodes]
        low = np.minimum.reduceat(member, net.clique_ptr[:-1])
        agree = low == np.maximum.reduceat(member, net.clique_ptr[:-1])
        total += net.clique_weights[np.arange(len(low)), low][agree].sum()
    return float(total)


NO_LABELS = np.zeros(0, dtype=np.int32)


def evaluate(problem: Problem, messages: Messages, labels: np.ndarray) -> Evaluation:
    """What messages prove about a labelling, by the kernels (by numpy where there are factors); all that rounding could hide is added."""
    if len(problem.factors):
        return MessageCertificate(messages).evaluate(problem, labels)
    prepared = prepare(problem)
    if not prepared.feasible:
        return Evaluation(-np.inf, np.inf)
    gap = sum(part[1] for part in _terms(prepared.net, messages, labels))
    error = rounding(problem, messages) + prepared.rounding + gap_rounding(problem) * gap
    return Evaluation(raised_score(problem, labels, gap + error), gap + error, error)


def measure(problem: Problem, messages: Messages) -> float:
    """Bound of messages, by the kernels: to compare, not to claim."""
    if len(problem.factors):
        return MessageCertificate(messages).bound(problem)
    prepared = prepare(problem)
    if not prepared.feasible:
        return -np.inf
    return prepared.constant + sum(part[0] for part in _terms(prepared.net, messages, NO_LABELS))


def _terms(net: Net, messages: Messages, labels: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Sum of the maxima of nodes, edges and cliques, and of their distances from a labelling."""
    return (
        height.node_terms(net, messages.edge, messages.clique, labels),
        height.edge_terms(net, messages.edge, labels, 0, len(net.edges)),
        height.clique_terms(net, messages.clique, labels),
    )
