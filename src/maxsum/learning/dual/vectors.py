"""VectorModel: planes by their vectors, with the products of all with all, so that the quadratic program over them is always at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...kernels.vectors import inner
from ...qp.reduced import ReducedQP
from ..certificate import DualCertificate
from ..oracles.relaxed import Relaxed
from .model import Columns, DualModel, dense
from .planes import new_weights


class VectorModel(DualModel):
    """Planes of any objective with a block for each example, or one for all (one slack, planes summed over examples).

    Parameters
    ----------
    objective : Objective
        What has ``n_weights``, ``c``, ``cone`` and ``plane``.
    one : bool
        One block for all; the key of a plane is then (examples, keys).

    Attributes
    ----------
    hard : csr_array, shape (n_rows, P)
        Rows of the cone: the first variables of ``qp``.
    rows : csr_array, shape (n, P)
    offset, block, idle : ndarray, shape (n,)
        ``b``, the block, and for how many solutions a plane has had no weight.
    keys : list
    qp : ReducedQP
    dual : float
        As of the last `refresh`.
    """

    holds = (Relaxed,)

    def __init__(self, objective: Any, one: bool = False):
        self.objective, self.one = objective, one
        self.hard = sparse.csr_array(objective.cone.matrix)
        self.n_rows, self.weights = self.hard.shape[0], new_weights(objective.cone)
        self.rows = sparse.csr_array((0, objective.n_weights))
        self.offset, self.block, self.idle = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.keys: list[Any] = []
        self.qp = self.new_qp()
        self.dual = self.refresh()

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def limit(self) -> np.ndarray:
        """``c`` of each block."""
        return np.ones(1) if self.one else self.objective.c

    @property
    def alpha(self) -> np.ndarray:
        """Multipliers of the planes; live."""
        return self.qp.alpha[self.n_rows :]

    def new_qp(self) -> ReducedQP:
        """The quadratic program of the present planes, with multipliers 0."""
        qp = ReducedQP(self.limit, loose=True)
        if self.n_rows + len(self):
            block = np.concatenate([np.full(self.n_rows, -1, dtype=np.int64), self.block])
            qp.extend(self.gram(), np.concatenate([np.zeros(self.n_rows), self.linear()]), block)
        return qp

    def gram(self) -> np.ndarray:
        """Products of all rows of the cone and all planes."""
        every = sparse.vstack([self.hard, self.rows], format="csr")
        return dense(every @ every.T)

    def linear(self) -> np.ndarray:
        """Linear terms of the planes in the quadratic program."""
        return self.offset

    def append(self, rows: Any, offset: np.ndarray, block: np.ndarray, keys: list[Any]) -> None:
        """Add planes without weight."""
        before = len(self)
        self.rows = sparse.csr_array(sparse.vstack([self.rows, rows], format="csr"))
        self.offset, self.block = np.concatenate([self.offset, offset]), np.concatenate([self.block, block])
        self.idle, self.keys = np.concatenate([self.idle, np.zeros(len(offset), dtype=np.int64)]), self.keys + keys
        self.qp.extend(self.products(before), self.linear()[before:], block)

    def products(self, before: int) -> np.ndarray:
        """Products of the planes from ``before`` on with all rows of the cone and all planes, (n_rows + n, m)."""
        new = self.rows[before:]
        return np.concatenate([dense(self.hard @ new.T), dense(self.rows @ new.T)])

    def remove(self, mask: np.ndarray) -> None:
        """Drop the planes where ``mask`` is true."""
        self.qp.remove(np.concatenate([np.zeros(self.n_rows, dtype=bool), mask]))
        self.keep(~mask)
        self.dual = self.refresh()

    def keep(self, mask: np.ndarray) -> None:
        """What is stored of the planes where ``mask`` is true, without the quadratic program."""
        self.rows = sparse.csr_array(self.rows[np.flatnonzero(mask)])
        self.offset, self.block, self.idle = self.offset[mask], self.block[mask], self.idle[mask]
        self.keys = [key for key, stays in zip(self.keys, mask, strict=True) if stays]

    def slack(self, w: np.ndarray) -> np.ndarray:
        r""":math:`b - \langle w, z\rangle` of each plane."""
        return np.asarray(self.offset - np.asarray(self.rows @ w).reshape(-1))

    def correct(self, tol: float, seconds: float | None = None) -> float:
        """Solve the quadratic program from where it stands; returns the dual value."""
        if len(self.qp):
            self.qp.warm(self.qp.alpha.copy())
            self.qp.solve(tol, seconds)
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        self.dual = self.refresh()
        return self.dual

    def refresh(self) -> float:
        """Weights recomputed from the planes; returns the dual value.

        What is cut off of negative weights are the best multipliers of their signs, so those of the program are not needed.
        """
        nonneg, weights = self.objective.cone.nonneg, self.weights
        weights.mu[:] = self.qp.alpha[int(nonneg.sum()) : self.n_rows]
        weights.plain[:] = self.rows.T @ self.alpha + self.objective.cone.rows.T @ weights.mu
        if weights.value is not weights.plain:
            weights.value[:] = np.where(nonneg, np.maximum(weights.plain, 0.0), weights.plain)
        return float(self.alpha @ self.qp.offset[self.n_rows :] - 0.5 * inner(weights.value, weights.value))

    def columns(self) -> Columns:
        return Columns(self.rows, self.offset, self.block, self.alpha.copy(), self.limit, np.zeros(self.objective.n_weights))

    def assign(self, alpha: np.ndarray) -> None:
        self.qp.warm(np.concatenate([self.qp.alpha[: self.n_rows], alpha]))

    def rescale(self, c: np.ndarray) -> None:
        """Move the multipliers to another regularisation: those of each block keep their proportions."""
        self.qp.reweight(c)
        self.dual = self.refresh()

    def certificate(self) -> DualCertificate:
        """The planes with weight, summed ones taken apart, and the multipliers of the cone."""
        examples, keys, weight = [], [], []
        for i in np.flatnonzero(self.alpha > 0):
            if self.one:
                members, labels = self.keys[i]
                examples += members.tolist()
                keys += labels
                weight += (self.alpha[i] * self.objective.c[members]).tolist()
            else:
                examples.append(int(self.block[i]))
                keys.append(self.keys[i])
                weight.append(self.alpha[i])
        return DualCertificate(np.array(examples, dtype=np.int64), tuple(keys), np.array(weight), self.cone_multipliers)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        kept = {name: getattr(self, name) for name in ("rows", "offset", "block", "idle", "keys")}
        return kept | {"alpha": self.qp.alpha.copy(), "crawled": bool(self.qp.crawled)}

    def restore(self, state: dict[str, Any]) -> None:
        """What `state` gave."""
        for name in ("rows", "offset", "block", "idle", "keys"):
            setattr(self, name, state[name])
        self.qp = self.new_qp()
        self.qp.crawled = state["crawled"]
        self.qp.warm(state["alpha"])
        self.dual = self.refresh()
