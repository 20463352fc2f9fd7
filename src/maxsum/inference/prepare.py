"""From a `Problem` to the arrays of the kernels, made once per problem."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.dual import own_labels
from ..core.problem import Messages, Problem
from ..kernels import consistency, height
from ..kernels.net import Net, adjacency, memberships


class Prepared(NamedTuple):
    """``F(y) == constant + score of y in net``; ``feasible`` is False if arc consistency leaves a node without labels."""

    net: Net
    constant: float
    feasible: bool


def prepare(problem: Problem) -> Prepared:
    """Centre the scores, enforce arc consistency, build the adjacency. The answer is kept with the problem."""
    memo = problem.__dict__.get("_prepared")
    if memo is None:
        memo = problem.__dict__["_prepared"] = _prepare(problem)
    return memo


def _prepare(problem: Problem) -> Prepared:
    graph, cliques = problem.graph, problem.cliques
    ptr, adj_edge, adj_side = adjacency(graph.n_nodes, graph.edges)
    member_ptr, member = memberships(graph.n_nodes, cliques.nodes)
    tables, moved = _centred_tables(problem)
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
    )
    unary, feasible = problem.unary, True
    if problem.has_hard_constraints and problem.n_nodes:
        domain = own_labels(problem).astype(np.uint8)
        queue, queued = np.empty(problem.n_nodes, dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.uint8)
        feasible = bool(consistency.arc_consistency(net, domain, queue, queued, True))
        if feasible:
            unary = np.where(domain.view(bool), unary, -np.inf)
    top = unary.max(axis=1) if unary.size else np.zeros(problem.n_nodes)
    unary = unary - top[:, None]
    total = np.longdouble(problem.offset) + top.sum(dtype=np.longdouble) + moved.sum(dtype=np.longdouble)
    unary.flags.writeable = False
    return Prepared(net._replace(unary=unary), float(total), feasible)


def _centred_tables(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Tables without a large common constant, and what was taken from each edge. Usually the tables as they are."""
    tables, weight = problem.tables, problem.edge_weight
    finite = np.isfinite(tables)
    high = np.where(finite, tables, -np.inf).max(axis=(1, 2), initial=-np.inf)
    low = np.where(finite, tables, np.inf).min(axis=(1, 2), initial=np.inf)
    known = np.isfinite(high)
    high, low = np.where(known, high, 0.0), np.where(known, low, 0.0)
    large = np.abs(high) > 16 * (high - low)
    if not (large & (high != 0)).any():
        return tables, np.zeros(1)
    shift = np.where(large, high, 0.0)
    centred = tables - shift[:, None, None]
    centred.flags.writeable = False
    return centred, shift[problem.edge_table] * weight


_NO_LABELS = np.zeros(0, dtype=np.int32)


def measure(problem: Problem, messages: Messages, labels: np.ndarray | None) -> tuple[float, float]:
    """Bound and gap of messages (gap ``inf`` without labels), by the kernels."""
    prepared = prepare(problem)
    if not prepared.feasible:
        return -np.inf, np.inf
    known = _NO_LABELS if labels is None else labels
    parts = (
        height.node_terms(prepared.net, messages.edge, messages.clique, known),
        height.edge_terms(prepared.net, messages.edge, known, 0, problem.n_edges),
        height.clique_terms(prepared.net, messages.clique, known),
    )
    if labels is None:
        return prepared.constant + sum(part[0] for part in parts), np.inf
    gap = sum(part[1] for part in parts)
    return problem.score(labels) + gap, gap
