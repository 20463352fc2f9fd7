"""Every inequality of the trivial surrogate, (20) of Franc & Savchynskyy (2008), as a plane of a structured SVM."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .structured_svm import Planes


def all_inequalities(model: Any) -> list[Planes]:
    """All planes by finite differences of the reparametrised scores, which are linear in the weights."""
    size, n_weights = model.n_labels, model.n_weights
    total = n_weights + 2 * size * int(model.data.edge_ptr[-1])
    found = []
    for j in range(model.n_examples):
        rows = np.array([margins(model, j, unit) for unit in np.eye(total)]).T
        zero = np.zeros((1, total))
        found.append(Planes(np.concatenate([[0.0], np.ones(len(rows))]), np.concatenate([zero, rows.reshape(-1, total)])))
    return found


def margins(model: Any, j: int, w: np.ndarray) -> list[float]:
    """<z, w> of all inequalities of an example, nodes first, straight from the definition (4) of potentials."""
    size, truth, graph = model.n_labels, model.truth(j), model.data.graphs[j]
    start = model.n_weights + 2 * size * int(model.data.edge_ptr[j])
    phi = w[start : start + 2 * size * graph.n_edges].reshape(graph.n_edges, 2, size)
    problem = model.problem(w[: model.n_weights], j)
    q = problem.unary.copy()
    for e, (u, v) in enumerate(graph.edges):
        q[u] -= phi[e, 0]
        q[v] -= phi[e, 1]
    found = [q[t, truth[t]] - q[t, k] for t in range(graph.n_nodes) for k in range(size) if k != truth[t]]
    for e, (u, v) in enumerate(graph.edges):
        g = problem.edge_scores()[e] + phi[e, 0][:, None] + phi[e, 1]
        for k, m in itertools.product(range(size), repeat=2):
            if (k, m) != (truth[u], truth[v]):
                found.append(g[truth[u], truth[v]] - g[k, m])
    return found
