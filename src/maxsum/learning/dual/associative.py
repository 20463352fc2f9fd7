"""The dual (11) of Taskar, Chatalbashev & Koller 2004: node marginals alone prove a lower bound, for edges and cliques that reward equal labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..certificate import DualCertificate
from ..oracles.relaxed import Relaxed
from .compact_program import is_associative, n_nonzeros
from .dual_bound import many_blocks


@dataclass(frozen=True)
class Tuning:
    """Which learner is the fastest for which sizes; see ``python -m benchmarks amn``."""

    small: int = 250_000  # nonzeros of a programme that an interior point method solves in about a second
    nodes_a_weight: int = 10  # with more, the few planes of a bundle are found sooner than those of all examples


_TUNING = Tuning()


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

    For associative potentials, where block steps may crawl: `CompactQP` where the programme is small, `RegionBundle` where there are many
    more nodes than weights. `FactorAscent` for large graphs with cycles and many weights: one with known and unknown nodes, say.
    `BlockFrankWolfe` elsewhere.
    """
    n_nodes, associative = len(objective.design.truth), is_associative(objective)
    if associative and n_nonzeros(objective) <= _TUNING.small:
        return "CompactQP"
    if many_blocks(objective):
        return "FactorAscent"
    return "RegionBundle" if associative and n_nodes >= _TUNING.nodes_a_weight * objective.n_weights else "BlockFrankWolfe"
