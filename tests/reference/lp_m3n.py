r"""LP-M3N written out: the linear relaxation of every loss-augmented problem inside the learning problem, as dense programmes.

Primal, with messages :math:`\rho` and the heights of nodes and edges as variables, as (3) and (12) of Franc & Laskov 2011:

.. math:: \min\ \tfrac12\|w\|^2 + \sum_j c_j \Big[\sum_t a_t + \sum_e b_e - \langle w, \Psi(x_j, y_j)\rangle\Big],\qquad A w \ge 0,
.. math:: a_t \ge \langle w, \Psi_t(k)\rangle + L_t(k) - \sum_{e \ni t} \rho_{et}(k), \qquad
          b_e \ge \langle w, \Psi_e(k, l)\rangle + \rho_{eu}(k) + \rho_{ev}(l).

Dual, with pseudo-marginals :math:`\mu_j` in the local polytope and multipliers :math:`\nu \ge 0`:

.. math:: \max\ \sum_j c_j \langle L_j, \mu_j\rangle - \tfrac12\Big\|\sum_j c_j (\Psi(x_j, y_j) - \Psi(x_j, \mu_j)) + A^\top\nu\Big\|^2.

The two are modelled apart in cvxpy, the objective at the weights is computed once more by linear programmes, and all three have to
agree. Nothing is shared with the learners: features come from ``feature_marginals`` of the model, one indicator at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog


class LocalExample(NamedTuple):
    """One example with everything written out; entries of nodes come first, then entries of edges.

    Attributes
    ----------
    features : ndarray, shape (n, P)
        Feature vector of each entry: (node, label) or (edge, label, label).
    loss : ndarray, shape (n,)
    truth : ndarray, shape (P,)
        Features of the true labelling.
    node, edge : list of ndarray
        Entries of each node, and (k, l) entries of each edge.
    edges : ndarray, shape (E, 2)
    """

    features: np.ndarray
    loss: np.ndarray
    truth: np.ndarray
    node: list[np.ndarray]
    edge: list[np.ndarray]
    edges: np.ndarray


class LPSolution(NamedTuple):
    """Optimal weights, their objective by linear programmes, and a lower bound from pseudo-marginals."""

    weights: np.ndarray
    value: float
    dual: float


def local_examples(model: Any, loss: Sequence[np.ndarray] | None = None) -> list[LocalExample]:
    """Every training example written out; ``loss`` has one (n_nodes, K) table an example, Hamming by default."""
    found = []
    for j in range(model.n_examples):
        labels, size = np.asarray(model.truth(j)), model.n_labels
        edges = np.asarray(model.data.graphs[j].edges).reshape(-1, 2)
        states = np.asarray(model.data.n_states[model.data.node_ptr[j] : model.data.node_ptr[j + 1]])
        table = (np.arange(size) != labels[:, None]).astype(float) if loss is None else np.asarray(loss[j])
        rows: list[np.ndarray] = []
        losses: list[float] = []
        nodes, tables = [], []
        for t in range(len(labels)):
            own = []
            for k in range(states[t]):
                node = np.zeros((len(labels), size))
                node[t, k] = 1.0
                own.append(len(rows))
                rows.append(model.feature_marginals(j, node, np.zeros((len(edges), size, size))))
                losses.append(float(table[t, k]))
            nodes.append(np.array(own))
        for e, (u, v) in enumerate(edges):
            own = []
            for k in range(states[u]):
                for m in range(states[v]):
                    edge = np.zeros((len(edges), size, size))
                    edge[e, k, m] = 1.0
                    own.append(len(rows))
                    rows.append(model.feature_marginals(j, np.zeros((len(labels), size)), edge))
                    losses.append(0.0)
            tables.append(np.array(own).reshape(states[u], states[v]))
        features = np.array(rows).reshape(len(rows), model.n_weights)
        found.append(LocalExample(features, np.array(losses), np.asarray(model.feature(j, labels)), nodes, tables, edges))
    return found


def polytope(example: LocalExample) -> tuple[np.ndarray, np.ndarray]:
    """``A mu = b`` of the local polytope, (2) of Franc & Laskov 2011, with non-negative ``mu``."""
    rows, right = [], []
    for own in example.node:
        row = np.zeros(len(example.loss))
        row[own] = 1.0
        rows.append(row)
        right.append(1.0)
    for (u, v), table in zip(example.edges, example.edge, strict=True):
        for node, tables in ((example.node[u], table), (example.node[v], table.T)):
            for k, entries in enumerate(tables):
                row = np.zeros(len(example.loss))
                row[entries] = 1.0
                row[node[k]] -= 1.0
                rows.append(row)
                right.append(0.0)
    return np.array(rows).reshape(len(rows), len(example.loss)), np.array(right)


def relaxed_slack(example: LocalExample, weights: np.ndarray) -> float:
    """The hinge loss with the linear relaxation inside, by a linear programme."""
    scores = example.loss + example.features @ weights
    matrix, right = polytope(example)
    answer = linprog(-scores, A_eq=matrix, b_eq=right, bounds=(0, None), method="highs")
    if answer.status != 0:
        raise RuntimeError(answer.message)
    return float(-answer.fun - example.truth @ weights)


def lp_objective(examples: Sequence[LocalExample], c: Sequence[float], weights: np.ndarray) -> float:
    """The LP-M3N objective at ``weights`` with the best messages."""
    slacks = [relaxed_slack(example, weights) for example in examples]
    return float(0.5 * weights @ weights + np.dot(c, slacks))


def solve_lp_m3n(
    examples: Sequence[LocalExample], c: Sequence[float], rows: np.ndarray | None = None, gap: float = 1e-7
) -> LPSolution:
    """Solve both programmes; skips the test where cvxpy is missing. Raises if their values differ by more than ``gap``."""
    cvxpy = pytest.importorskip("cvxpy", reason="the dense reference of LP-M3N needs cvxpy")
    n = examples[0].features.shape[1]
    cone = np.zeros((0, n)) if rows is None else np.asarray(rows, dtype=float)
    exact = dict(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11, max_iter=500)

    w, total, limits = cvxpy.Variable(n), 0.0, []
    for cj, example in zip(c, examples, strict=True):
        scores = example.loss + example.features @ w
        heights = cvxpy.Variable(len(example.node) + len(example.edge))
        messages = [(cvxpy.Variable(t.shape[0]), cvxpy.Variable(t.shape[1])) for t in example.edge]
        for t, own in enumerate(example.node):
            leaving = sum(pair[i] for pair, ends in zip(messages, example.edges, strict=True) for i in (0, 1) if ends[i] == t)
            limits.append(heights[t] >= scores[own] - leaving)
        for e, table in enumerate(example.edge):
            for k, entries in enumerate(table):
                limits.append(heights[len(example.node) + e] >= scores[entries] + messages[e][0][k] + messages[e][1])
        total = total + cj * (cvxpy.sum(heights) - example.truth @ w)
    if len(cone):
        limits.append(cone @ w >= 0)
    primal = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + total), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        primal.solve(**exact)

    u, gain, limits = 0.0, 0.0, []
    for cj, example in zip(c, examples, strict=True):
        matrix, right = polytope(example)
        mu = cvxpy.Variable(len(example.loss), nonneg=True)
        limits.append(matrix @ mu == right)
        u = u + cj * (example.truth - example.features.T @ mu)
        gain = gain + cj * (example.loss @ mu)
    if len(cone):
        u = u + cone.T @ cvxpy.Variable(len(cone), nonneg=True)
    dual = cvxpy.Problem(cvxpy.Maximize(gain - 0.5 * cvxpy.sum_squares(u)), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        dual.solve(**exact)

    weights = np.asarray(w.value)
    value = lp_objective(examples, c, weights)
    found = np.array([value, primal.value, dual.value])
    worst = float(-(cone @ weights).min(initial=0.0))
    if not (np.ptp(found) <= gap * max(1.0, abs(value)) and worst <= gap * (1.0 + float(np.abs(weights).max(initial=0.0)))):
        raise RuntimeError(f"reference: objective, primal and dual are {found}, the cone is violated by {worst}")
    return LPSolution(weights, value, float(dual.value))
