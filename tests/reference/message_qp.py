r"""LP-M3N as one sparse quadratic programme for Clarabel, quick enough for many small cases, with pseudo-marginals.

.. math:: \min_{w, \rho, s}\; \tfrac12\|w\|^2 + \sum_j c_j\Big(\sum_t s_t + \sum_{tt'} s_{tt'} - \langle w, \Psi(x_j, y_j)\rangle\Big)

subject to :math:`s_t \ge L_t(k) + q_t(k; w) - \sum_{t'}\rho_{tt'}(k)`, :math:`s_{tt'} \ge g_{tt'}(k, l; w) + \rho_{tt'}(k) +
\rho_{t't}(l)` and :math:`A w \ge 0`. Only ``model.feature_marginals`` and Clarabel are used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse


class MessageSolution(NamedTuple):
    """Optimal weights, value, and pseudo-marginals (node, edge) of the union from the multipliers."""

    weights: np.ndarray
    value: float
    node: np.ndarray
    edge: np.ndarray


def solve_message_qp(objective: Any, tol: float = 1e-10) -> MessageSolution:
    """Solve by Clarabel; skips the test where that is not installed."""
    clarabel = pytest.importorskip("clarabel", reason="the reference of LP-M3N needs clarabel")
    model, c, loss = objective.model, objective.c, objective.loss_table
    data, size, n_weights = model.data, model.n_labels, model.n_weights
    n_nodes, n_edges = len(data.n_states), len(data.edges)
    rho = n_weights + np.arange(n_edges * 2 * size).reshape(n_edges, 2, size)
    slack = n_weights + rho.size + np.arange(n_nodes + n_edges)
    n_all = n_weights + rho.size + len(slack)
    linear = np.zeros(n_all)
    rows: list[np.ndarray] = []
    right: list[float] = []
    cells: list[tuple[int, ...]] = []
    scale: list[float] = []

    def add(j: int, node: np.ndarray, edge: np.ndarray, extra: dict[int, float], low: float, cell: tuple[int, ...]) -> None:
        row = np.zeros(n_all)
        row[:n_weights] = -model.feature_marginals(j, node, edge)
        for p, value in extra.items():
            row[p] = value
        rows.append(row)
        right.append(low)
        cells.append(cell)
        scale.append(float(c[j]))

    for j in range(model.n_examples):
        linear[:n_weights] -= c[j] * model.feature(j, model.truth(j))
        first, last = int(data.node_ptr[j]), int(data.node_ptr[j + 1])
        start, stop = int(data.edge_ptr[j]), int(data.edge_ptr[j + 1])
        node, edge = np.zeros((last - first, size)), np.zeros((stop - start, size, size))
        linear[slack[first:last]] = linear[slack[n_nodes + start : n_nodes + stop]] = c[j]
        for v in range(first, last):
            for k in range(int(data.n_states[v])):
                node[v - first, k] = 1.0
                extra = {int(rho[e, side, k]): 1.0 for e in range(start, stop) for side in (0, 1) if data.edges[e, side] == v}
                add(j, node, edge, {**extra, int(slack[v]): 1.0}, float(loss[v, k]), (v, k))
                node[v - first, k] = 0.0
        for e in range(start, stop):
            for k in range(int(data.n_states[data.edges[e, 0]])):
                for m in range(int(data.n_states[data.edges[e, 1]])):
                    edge[e - start, k, m] = 1.0
                    extra = {int(slack[n_nodes + e]): 1.0, int(rho[e, 0, k]): -1.0, int(rho[e, 1, m]): -1.0}
                    add(j, node, edge, extra, 0.0, (e, k, m))
                    edge[e - start, k, m] = 0.0
    cone = model.cone.matrix.toarray()
    whole = sparse.csc_matrix(-np.vstack([np.array(rows), np.hstack([cone, np.zeros((len(cone), n_all - n_weights))])]))
    limit = np.concatenate([-np.array(right), np.zeros(len(cone))])
    quadratic = sparse.csc_matrix(sparse.diags(np.r_[np.ones(n_weights), np.zeros(n_all - n_weights)]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 500
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    answer = clarabel.DefaultSolver(quadratic, linear, whole, limit, [clarabel.NonnegativeConeT(len(limit))], settings).solve()
    z = np.maximum(np.array(answer.z), 0.0)
    node, edge = np.zeros((n_nodes, size)), np.zeros((n_edges, size, size))
    for cell, value, cj in zip(cells, z, scale, strict=False):
        (node if len(cell) == 2 else edge)[cell] = value / cj if cj > 0 else 0.0
    return MessageSolution(np.array(answer.x)[:n_weights], float(answer.obj_val), node, edge)
