"""PartialObjective: the hinge of labellings that are known in part, with the unknown part completed; what a round of the concave-convex procedure minimises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...losses import Loss
from ...models.bound import BoundModel
from .margin import MarginObjective


class PartialObjective(MarginObjective):
    r"""The margin hinge where node :math:`v` may have any label of a set :math:`S_v`, and :math:`h \in S` completes the labelling:

    .. math:: \xi_j(w) = \max_y \sum_v \min_{s \in S_v} L_v(s, y_v) + \langle w, \Psi(x_j, y) - \Psi(x_j, h_j)\rangle.

    No label of the set costs anything. For every completion it is convex and not below the latent hinge, whose last term is the largest over
    :math:`h \in S`; they agree where :math:`h` is the best completion under :math:`w`.

    Parameters
    ----------
    model : BoundModel
        With the completions as its labels.
    allowed : ndarray of bool, shape (n_nodes, K)
        The sets.
    C, loss, oracle, sample_weight, n_jobs
        As of `MarginObjective`.
    """

    def __init__(
        self,
        model: BoundModel,
        allowed: np.ndarray,
        C: float = 1.0,
        loss: Loss | str = "hamming",
        oracle: Any = None,
        sample_weight: Any = None,
        n_jobs: int = 1,
    ):
        self.allowed = allowed
        super().__init__(model, C, loss, oracle, sample_weight, n_jobs)

    def _loss_rows(self, j: int) -> np.ndarray:
        model = self.model
        nodes = slice(int(model.data.node_ptr[j]), int(model.data.node_ptr[j + 1]))
        allowed, n = self.allowed[nodes], nodes.stop - nodes.start
        least = np.full((n, model.n_labels), np.inf)
        for k in np.flatnonzero(allowed.any(axis=0)).tolist():
            table = self.loss.table(np.full(n, k), model.n_labels)
            least = np.where(allowed[:, k, None], np.minimum(least, table), least)
        return least * model.data.node_weights[nodes, None]

    def content(self) -> Iterable[np.ndarray]:
        return (*super().content(), self.allowed)
