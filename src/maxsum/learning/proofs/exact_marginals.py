"""Pseudo-marginals in rational arithmetic: float64 tables become a point of the local polytope exactly, in whole numbers of a power of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import CertificateError
from ...models.bound import BoundModel
from ..oracles.relaxed import Relaxed
from .exact_sums import Dyadic, scaled
from .feature_sums import Cells, Moves, exact_feature_sum, settled_edges, settled_nodes


def exact_relaxed_sum(model: BoundModel, loss: np.ndarray, j: int, key: Relaxed, share: float) -> tuple[Dyadic, Dyadic]:
    r""":math:`\alpha z` and :math:`\alpha b` of pseudo-marginals of one example."""
    data = model.data
    first, edge_first = int(data.node_ptr[j]), int(data.edge_ptr[j])
    key.check(data.n_states[first : data.node_ptr[j + 1]], int(data.edge_ptr[j + 1]) - edge_first, model.n_labels)
    whole = np.asarray(model.labels, dtype=np.int64).copy()
    whole[first : data.node_ptr[j + 1]] = key.labels
    shares = np.zeros(model.n_examples)
    shares[j] = share
    return _sum(
        model, loss, np.asarray(key.nodes) + first, key.node, np.asarray(key.edges) + edge_first, key.edge, whole, shares, 1.0
    )


def exact_marginal_sum(
    objective: Any, nodes: np.ndarray, node: np.ndarray, edges: np.ndarray, edge: np.ndarray, gamma: float
) -> tuple[Dyadic, Dyadic]:
    r""":math:`\gamma\sum_j c_j (\Psi(y_j) - \Psi(\mu_j))` and :math:`\gamma\sum_j c_j\langle L_j, \mu_j\rangle`."""
    truth = np.asarray(objective.model.labels, dtype=np.int64)
    return _sum(objective.model, objective.loss_table, nodes, node, edges, edge, truth, objective.c, gamma)


def _sum(
    model: BoundModel,
    loss: np.ndarray,
    nodes: np.ndarray,
    node: np.ndarray,
    edges: np.ndarray,
    edge: np.ndarray,
    whole: np.ndarray,
    shares: np.ndarray,
    gamma: float,
) -> tuple[Dyadic, Dyadic]:
    data, size = model.data, model.n_labels
    truth = np.asarray(model.labels, dtype=np.int64)
    settled_nodes(data.n_states[nodes], node, nodes)
    owner = np.repeat(np.arange(data.n_examples), np.diff(data.node_ptr))
    edge_owner = np.repeat(np.arange(data.n_examples), np.diff(data.edge_ptr))
    numbers, power = scaled(np.concatenate([[0.5], node.ravel(), edge.ravel()]))
    one = int(numbers[0]) * 2
    marginal = {
        int(v): _node(row, one) for v, row in zip(nodes.tolist(), numbers[1 : 1 + node.size].reshape(node.shape), strict=True)
    }

    def full(v: int) -> list[int]:
        known = marginal.get(v)
        return [one if k == whole[v] else 0 for k in range(size)] if known is None else known

    (amount, unit), (factor, more) = scaled(shares), scaled(np.array([gamma]))
    amount, unit = amount * factor[0], unit + more
    soft = np.zeros(len(whole), dtype=bool)
    soft[nodes] = True
    changed = (soft | (whole != truth)) & (shares[owner] > 0)
    cells: list[tuple[int, int, int]] = []
    for v in np.flatnonzero(changed).tolist():
        for k, mass in enumerate(full(v)):
            left = (one if k == truth[v] else 0) - mass
            if left:
                cells.append((v, k, left * amount[owner[v]]))
    given = dict(zip(edges.tolist(), range(len(edges)), strict=True))
    tables = numbers[1 + node.size :].reshape(edge.shape)
    pairs: list[tuple[int, int, int]] = []
    touched = changed[data.edges].any(axis=1)
    touched[edges] = True
    for e in np.flatnonzero(touched & (shares[edge_owner] > 0)).tolist():
        a, b = data.edges[e].tolist()
        rows, columns = full(a), full(b)
        if e in given:
            i = given[e]
            sums = [np.array([[mass / one for mass in own]]) for own in (rows, columns)]
            settled_edges(edge[i : i + 1], sums[0], sums[1], np.array([e]))
            table = [[own * one for own in row] for row in _edge(tables[i].tolist(), rows, columns)]
        else:
            table = [[p * q for q in columns] for p in rows]
        table[truth[a]][truth[b]] -= one * one
        pairs += [
            (e, k * size + m, -left * amount[edge_owner[e]])
            for k, row in enumerate(table)
            for m, left in enumerate(row)
            if left
        ]
    cliques: list[tuple[int, int, int]] = []
    if data.cliques is not None and model.clique_index is not None:
        ptr, member_ptr, member, _ = data.cliques
        clique_owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        for c in np.flatnonzero(shares[clique_owner] > 0).tolist():
            own = member[member_ptr[c] : member_ptr[c + 1]].tolist()
            members = [full(v) for v in own]
            for k in range(size):
                left = (one if (truth[own] == k).all() else 0) - min(row[k] for row in members)
                if left:
                    cliques.append((c, k, left * amount[clique_owner[c]]))
    moves = Moves(*(_cells(own) for own in (cells, pairs, cliques)))
    return exact_feature_sum(model, loss, moves, (unit + power, unit + 2 * power, unit + power))


def _cells(entries: list[tuple[int, int, int]]) -> Cells:
    amount = np.empty(len(entries), dtype=object)
    amount[:] = [entry[2] for entry in entries]
    return Cells.of([entry[0] for entry in entries], [entry[1] for entry in entries], amount)


def _node(row: np.ndarray, one: int) -> list[int]:
    """Marginals with the sum 1: the largest takes what is missing."""
    own = [int(mass) for mass in row]
    top = max(range(len(own)), key=own.__getitem__)
    own[top] += one - sum(own)
    if own[top] < 0:
        raise CertificateError("marginals of a node do not sum to 1, so they prove nothing.")
    return own


def _edge(table: list[list[int]], rows: list[int], columns: list[int]) -> list[list[int]]:
    """A table with these marginals: what is too much is taken off, what is missing goes where it is missing (north-west corner rule)."""
    size = len(rows)
    for k in range(size):
        _cut(table[k], rows[k])
    for m in range(size):
        column = [table[k][m] for k in range(size)]
        _cut(column, columns[m])
        for k in range(size):
            table[k][m] = column[k]
    lack = [rows[k] - sum(table[k]) for k in range(size)]
    short = [columns[m] - sum(table[k][m] for k in range(size)) for m in range(size)]
    k = m = 0
    while k < size and m < size:
        step = min(lack[k], short[m])
        table[k][m] += step
        lack[k] -= step
        short[m] -= step
        if lack[k] == 0:
            k += 1
        else:
            m += 1
    return table


def _cut(values: list[int], most: int) -> None:
    """Take off the largest values, in place, until their sum is at most ``most``."""
    over = sum(values) - most
    while over > 0:
        top = max(range(len(values)), key=values.__getitem__)
        step = min(over, values[top])
        values[top] -= step
        over -= step
