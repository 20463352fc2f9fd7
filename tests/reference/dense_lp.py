r"""The local-polytope relaxation, written out densely for HiGHS through scipy.

.. math:: \max \sum_v q_v \mu_v + \sum_{uv} g_{uv} \mu_{uv} + \sum_c w_c \mu_c
    \quad \sum_k \mu_v(k) = 1,\; \sum_l \mu_{uv}(k, l) = \mu_u(k),\; \mu_c(k) \le \mu_i(k) \; (i \in c),\; \mu \ge 0

(the clique rows are (2) of the associative Markov network paper; factors have a variable for each tuple of labels, as edges do). Forbidden labels and pairs are fixed to zero.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from .enumeration import Raw


def local_polytope_value(raw: Raw) -> float:
    """Optimal value of the relaxation; ``-inf`` if it is infeasible."""
    states = [len(row) for row in raw.unary]
    node_at = np.concatenate([[0], np.cumsum(states)]).astype(int)
    scores = [row.astype(float) for row in raw.unary]
    edge_at, column = [], int(node_at[-1])
    for table, weight in zip(raw.tables, raw.weights, strict=True):
        edge_at.append(column)
        scores.append((table * weight).ravel())
        column += table.size
    clique_at = []
    for nodes, weights in raw.cliques:
        usable = min(states[v] for v in nodes)
        clique_at.append((column, usable))
        scores.append(np.asarray(weights, dtype=float)[:usable])
        column += usable
    factor_at = []
    for _, table, _ in raw.factors:
        factor_at.append(column)
        scores.append(table.ravel())
        column += table.size
    objective = np.concatenate([np.zeros(0), *scores])
    if not column:
        return raw.offset
    equal, right = [], []
    for v, size in enumerate(states):
        row = np.zeros(column)
        row[node_at[v] : node_at[v] + size] = 1
        equal.append(row)
        right.append(1.0)
    for (u, v), start in zip(raw.edges, edge_at, strict=True):
        cells = start + np.arange(states[u] * states[v]).reshape(states[u], states[v])
        for node, lines in ((u, cells), (v, cells.T)):
            for k, line in enumerate(lines):
                row = np.zeros(column)
                row[line] = 1
                row[node_at[node] + k] = -1
                equal.append(row)
                right.append(0.0)
    for (nodes, table, _), start in zip(raw.factors, factor_at, strict=True):
        cells = start + np.arange(table.size).reshape(table.shape)
        for axis, node in enumerate(nodes):
            for k in range(states[node]):
                row = np.zeros(column)
                row[np.take(cells, k, axis=axis).ravel()] = 1
                row[node_at[node] + k] = -1
                equal.append(row)
                right.append(0.0)
    below = []
    for (nodes, _), (start, usable) in zip(raw.cliques, clique_at, strict=True):
        for v in nodes:
            for k in range(usable):
                row = np.zeros(column)
                row[start + k], row[node_at[v] + k] = 1, -1
                below.append(row)
    finite = np.isfinite(objective)
    scale = float(np.abs(objective[finite]).max(initial=0.0)) or 1.0
    answer = linprog(
        -np.where(finite, objective, 0.0) / scale,
        A_ub=np.array(below) if below else None,
        b_ub=np.zeros(len(below)) if below else None,
        A_eq=np.array(equal) if equal else None,
        b_eq=np.array(right) if equal else None,
        bounds=[(0, None if ok else 0) for ok in finite],
        method="highs",
    )
    if answer.status == 2:
        return -np.inf
    if answer.status != 0:
        raise RuntimeError(answer.message)
    return float(-answer.fun * scale + raw.offset)
