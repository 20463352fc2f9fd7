"""The dual (11) of Taskar, Chatalbashev & Koller 2004: node marginals alone prove a lower bound, for edges and cliques that reward equal labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..certificate import DualCertificate
from ..learners.compact_program import is_associative, n_nonzeros
from ..oracles.relaxed import Relaxed

_SMALL, _NODES_A_WEIGHT = 250_000, 10


def associative_bound(objective: Any, node: np.ndarray | None = None) -> tuple[float, DualCertificate]:
    r"""The bound of node marginals :math:`\mu` (those of the truth by default), and its proof.

    .. math:: D(\mu) = \sum_v c_v \langle L_v, \mu_v\rangle - \tfrac12\Big\|\Big[\sum_j c_j\,(\Psi(y_j) - \Psi(\mu))\Big]_+\Big\|^2,

    (11) with its :math:`\lambda_e` eliminated: what is cut off of the weights of edges and cliques. An edge, or a clique, has the share
    :math:`\min_v \mu_v(k)` of label ``k``, the largest that is allowed.

    Parameters
    ----------
    objective : LPObjective
        Of associative potentials.
    node : ndarray, shape (n_nodes, K), optional
        Not negative; rows are scaled to a sum of 1.
    """
    model = objective.model
    data, size = model.data, model.n_labels
    if node is None:
        node = np.eye(size)[objective.design.truth]
    node = node / node.sum(axis=1, keepdims=True)
    keys, u, value = [], np.zeros(objective.n_weights), 0.0
    for j in range(objective.n_examples):
        own = node[data.node_ptr[j] : data.node_ptr[j + 1]]
        ends = data.graphs[j].edges
        key = Relaxed.of(ends, own, coupled(own[ends[:, 0]], own[ends[:, 1]]))
        plane = objective.plane(j, key)
        u[plane.index] += objective.c[j] * plane.value
        value += objective.c[j] * plane.offset
        keys.append(key)
    below = np.where(objective.cone.nonneg, np.maximum(-u, 0.0), 0.0)
    w = u + below
    certificate = DualCertificate(
        np.arange(objective.n_examples), tuple(keys), objective.c.copy(), below[objective.cone.nonneg]
    )
    return float(value - 0.5 * (w @ w)), certificate


def coupled(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Tables (E, K, K) with the marginals ``first`` and ``second`` (E, K) and the largest diagonal."""
    same = np.minimum(first, second)
    left, right = first - same, second - same
    total = left.sum(axis=1)
    table = left[:, :, None] * right[:, None, :] / np.where(total > 0, total, 1.0)[:, None, None]
    k = np.arange(first.shape[1])
    table[:, k, k] += same
    return np.asarray(table)


def lp_learner(objective: Any) -> str:
    """Name of the learner of the lp surrogate that is fastest for these sizes.

    `CompactQP` where the programme (10) is small, `RegionBundle` where there are many more nodes than weights (and no supermodular
    rows), `BlockFrankWolfe` elsewhere.
    """
    if is_associative(objective) and n_nonzeros(objective) <= _SMALL:
        return "CompactQP"
    many = len(objective.design.truth) >= _NODES_A_WEIGHT * objective.n_weights
    return "RegionBundle" if many and not objective.cone.rows.shape[0] else "BlockFrankWolfe"
