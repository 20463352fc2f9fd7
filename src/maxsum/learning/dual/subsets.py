"""SubsetModel: all subsets of few labels as planes, with a multiplier for each of every example."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...kernels.subset_ascent import ascend
from ...models.multilabel import reduced_tables
from ..certificate import DualCertificate
from .model import Columns, DualModel
from .planes import new_weights


class SubsetModel(DualModel):
    r"""Every subset of labels is a plane of every example, so nothing is stored but multipliers (n, 2^L); bit ``l`` of a number says whether
    label ``l`` is in the subset.

    Parameters
    ----------
    objective : MultiLabelObjective
        Of free weights.
    """

    def __init__(self, objective: Any):
        self.objective, n, x = objective, objective.n_examples, objective.model.data.x
        self.truth = np.asarray(objective.model.labels).reshape(n, -1)
        n_labels = self.truth.shape[1]
        self.subsets = (np.arange(1 << n_labels)[:, None] >> np.arange(n_labels)) & 1
        self.own_subset = (self.truth.astype(np.int64) << np.arange(n_labels)).sum(axis=1)
        self.x = np.zeros((0, 0)) if sparse.issparse(x) else np.ascontiguousarray(x, dtype=np.float64)
        rows = sparse.csr_array(x) if sparse.issparse(x) else sparse.csr_array((0, 0))
        self.rows = (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float64))
        self.norm = np.asarray(
            x.multiply(x).sum(axis=1) if sparse.issparse(x) else (x * x).sum(axis=1), dtype=np.float64
        ).ravel()
        self.weights = new_weights(objective.cone)
        self.alpha = np.zeros((n, 1 << n_labels))
        self.alpha[np.arange(n), self.own_subset] = objective.c
        self.refresh()

    def refresh(self) -> float:
        model, x = self.objective.model, self.objective.model.data.x
        mass, used = self.alpha.sum(axis=1), self.alpha @ self.subsets.astype(np.float64)
        self.node = np.ascontiguousarray(np.asarray(x.T @ (mass[:, None] * self.truth - used)).T)
        each = -self.alpha.sum(axis=0) + np.bincount(self.own_subset, weights=mass, minlength=len(self.subsets))
        self.tables = np.zeros((len(model.graph.edges), 2, 2))
        for e, (u, v) in enumerate(model.graph.edges):
            np.add.at(self.tables[e], (self.subsets[:, u], self.subsets[:, v]), each)
        w = self.weights.plain
        w[:] = np.concatenate([self.node.ravel(), self.tables.ravel()])
        loss = self.objective.loss_table.reshape(len(used), -1, 2)
        return float((loss[:, :, 0] * (mass[:, None] - used) + loss[:, :, 1] * used).sum() - 0.5 * (w @ w))

    def reduced(self) -> tuple[np.ndarray, np.ndarray]:
        """`reduced_tables` of the present tables."""
        return reduced_tables(self.tables, self.objective.model.graph.edges, len(self.node))

    def ascend(self, order: np.ndarray, own: np.ndarray, pair: np.ndarray, max_steps: int, gaps: np.ndarray) -> float:
        """Visit the examples of ``order``, writing their gaps; ``own`` and ``pair`` are `reduced`, and kept up to date. Returns the gain."""
        return float(
            ascend(
                order, self.x, *self.rows, self.norm, self.objective.loss_gain, self.objective.model.graph.edges, self.alpha, self.node,
                self.tables, own, pair, max_steps, gaps,
            )
        )  # fmt: skip

    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Example and number of the subsets with weight, truths left out."""
        alpha = self.alpha.copy()
        alpha[np.arange(len(alpha)), self.own_subset] = 0.0
        example, subset = np.nonzero(alpha)
        return example, subset

    def columns(self) -> Columns:
        """The subsets with weight."""
        (example, subset), model = self._kept(), self.objective.model
        x, there, truth = sparse.csr_array(model.data.x)[example], self.subsets[subset], self.truth[example]
        parts = [sparse.diags_array((truth - there)[:, label].astype(np.float64)) @ x for label in range(truth.shape[1])]
        tables, m = np.zeros((len(example), len(model.graph.edges), 2, 2)), np.arange(len(example))
        for e, (u, v) in enumerate(model.graph.edges):
            tables[m, e, truth[:, u], truth[:, v]] += 1.0
            tables[m, e, there[:, u], there[:, v]] -= 1.0
        rows = sparse.csr_array(sparse.hstack([*parts, sparse.csr_array(tables.reshape(len(example), -1))], format="csr"))
        loss = self.objective.loss_table.reshape(len(self.alpha), -1, 2)[example]
        offset = np.where(there == 1, loss[:, :, 1], loss[:, :, 0]).sum(axis=1)
        origin = np.zeros(self.objective.n_weights)
        return Columns(rows, offset, example, self.alpha[example, subset], self.objective.c, origin)

    def assign(self, alpha: np.ndarray) -> None:
        example, subset = self._kept()
        self.alpha[example, subset] = alpha
        n = np.arange(len(self.alpha))
        self.alpha[n, self.own_subset] = 0.0
        self.alpha[n, self.own_subset] = np.maximum(self.objective.c - self.alpha.sum(axis=1), 0.0)

    def rescale(self, c: np.ndarray) -> None:
        """Move the multipliers to another regularisation: those of each example keep their proportions."""
        total = self.alpha.sum(axis=1)
        self.alpha *= np.divide(c, total, out=np.zeros(len(total)), where=total > 0)[:, None]
        self.alpha[np.arange(len(total)), self.own_subset] += np.maximum(0.0, c - self.alpha.sum(axis=1))
        self.refresh()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"alpha": self.alpha}

    def restore(self, state: dict[str, Any]) -> None:
        """What `state` gave."""
        self.alpha = state["alpha"]
        self.refresh()

    def certificate(self) -> DualCertificate:
        """Subsets with weight, as a proof of the dual value."""
        example, subset = self._kept()
        keys = tuple(self.subsets[subset].astype(np.int32))
        return DualCertificate(example.astype(np.int64), keys, self.alpha[example, subset], self.cone_multipliers)
