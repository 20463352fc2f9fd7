r"""Sums over all labellings of graphs of small width, by elimination; many problems on one graph at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.certificates.elimination_order import EliminationOrder


class Sums(NamedTuple):
    r""":math:`\log Z` (B,) of each problem, marginals of nodes (B, n, K) and of edges (B, E, K, K)."""

    log_z: np.ndarray
    node: np.ndarray
    edge: np.ndarray


def eliminate(order: EliminationOrder, edges: np.ndarray, n_states: np.ndarray, unary: np.ndarray, tables: np.ndarray) -> Sums:
    r""":math:`\log Z = \log\sum_y e^{F(y)}` and marginals of problems that share a graph.

    With :math:`B_v` the sum of all terms and messages whose first eliminated node is ``v``, the message to the separator is
    :math:`M_v(y_S) = \log\sum_{y_v} e^{B_v(y_v, y_S)}`. Backwards, :math:`p(y_v, y_S) = p(y_S)\, e^{B_v - M_v}`.

    Parameters
    ----------
    order : EliminationOrder
    edges : ndarray of int, shape (E, 2)
    n_states : ndarray of int, shape (n,)
    unary : ndarray, shape (B, n, K)
    tables : ndarray, shape (B, E, K, K)
    """
    size, states = len(unary), n_states.tolist()
    rank = {v: i for i, v in enumerate(order.nodes)}
    own: list[list[int]] = [[] for _ in order.nodes]
    for e, (u, v) in enumerate(edges.tolist()):
        own[min(rank[u], rank[v])].append(e)
    inbox: list[list[int]] = [[] for _ in order.nodes]
    bags: list[np.ndarray] = []
    messages: list[np.ndarray] = []
    log_z = np.zeros(size)
    for i, (v, separator) in enumerate(zip(order.nodes, order.separators, strict=True)):
        axes = (v, *separator)
        bag = np.zeros((size, *[states[w] for w in axes]))
        bag += _spread(unary[:, v, : states[v]], (v,), axes)
        for e in own[i]:
            a, b = edges[e].tolist()
            bag += _spread(tables[:, e, : states[a], : states[b]], (a, b), axes)
        for j in inbox[i]:
            bag += _spread(messages[j], order.separators[j], axes)
        top = bag.max(axis=1)
        safe = np.where(top > -np.inf, top, 0.0)
        with np.errstate(divide="ignore"):
            message = safe + np.log(np.exp(bag - safe[:, None]).sum(axis=1))
        bags.append(bag)
        messages.append(message)
        if separator:
            inbox[min(rank[w] for w in separator)].append(i)
        else:
            log_z += message
    node, edge = np.zeros(unary.shape), np.zeros(tables.shape)
    for i in range(len(order.nodes) - 1, -1, -1):
        v, separator = order.nodes[i], order.separators[i]
        axes, message = (v, *separator), messages[i]
        share = np.exp(bags[i] - np.where(message > -np.inf, message, 0.0)[:, None])
        if separator:
            above = min(rank[w] for w in separator)
            share *= _sum_to(bags[above], (order.nodes[above], *order.separators[above]), separator)[:, None]
        bags[i] = share
        node[:, v, : states[v]] = _sum_to(share, axes, (v,))
        for e in own[i]:
            a, b = edges[e].tolist()
            edge[:, e, : states[a], : states[b]] = _sum_to(share, axes, (a, b))
    return Sums(log_z, node, edge)


def _spread(array: np.ndarray, scope: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    """An array over ``scope``, after a batch axis, made to broadcast over ``axes``."""
    places = [axes.index(w) for w in scope]
    array = array.transpose([0, *[1 + i for i in np.argsort(places)]])
    shape = [len(array)] + [1] * len(axes)
    for place, length in zip(sorted(places), array.shape[1:], strict=True):
        shape[1 + place] = length
    return array.reshape(shape)


def _sum_to(array: np.ndarray, axes: tuple[int, ...], scope: tuple[int, ...]) -> np.ndarray:
    """Sum over all axes that ``scope`` does not name; the rest in its order."""
    kept = [w for w in axes if w in scope]
    array = array.sum(axis=tuple(1 + i for i, w in enumerate(axes) if w not in scope))
    return array.transpose([0, *[1 + kept.index(w) for w in scope]])
