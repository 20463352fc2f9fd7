"""Bundle: the bundle method for the proximal problems (13) of Algorithm 1 of Franc & Laskov 2011, with its dual and its lower bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.parameters import OneOf, check_value
from ...kernels import dual_bound as kernels
from ...qp.reduced import ReducedQP
from ..dual.dual_bound import BoundPoint, DualBound
from ..dual.pseudo_marginals import PseudoMarginals

_IDLE = 20
_KEPT = ("labels", "offset", "examples", "idle", "gram_w", "gram_s", "alpha", "centre", "scale")


class Ragged:
    """Rows of different length one after another, with room to grow."""

    def __init__(self, *types: Any):
        self.ptr = np.zeros(1, dtype=np.int64)
        self._data = [np.zeros(256, dtype=kind) for kind in types]

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def columns(self) -> list[np.ndarray]:
        """The data of all rows, one array for each type."""
        return [data[: self.ptr[-1]] for data in self._data]

    def append(self, *row: np.ndarray) -> None:
        """Add a row, one part for each type."""
        start, stop = int(self.ptr[-1]), int(self.ptr[-1]) + len(row[0])
        for i, part in enumerate(row):
            if stop > len(self._data[i]):
                grown = np.zeros(max(2 * len(self._data[i]), stop), dtype=self._data[i].dtype)
                grown[:start] = self._data[i][:start]
                self._data[i] = grown
            self._data[i][start:stop] = part
        self.ptr = np.append(self.ptr, stop)

    def keep(self, mask: np.ndarray) -> None:
        """Drop the rows where the mask is False."""
        sizes = np.diff(self.ptr)
        chosen = np.repeat(mask, sizes)
        total = int(sizes[mask].sum())
        for data in self._data:
            data[:total] = data[: self.ptr[-1]][chosen]
        self.ptr = np.concatenate([[0], np.cumsum(sizes[mask])]).astype(np.int64)


class Bundle:
    r"""Minimise :math:`F(w, \varphi) + \tfrac1\lambda\|\varphi - \hat\varphi\|^2` by cutting planes, as BMRM (Teo et al. 2010) does:
    the planes of :math:`R` seen so far make a model, its minimiser is the next point to ask at. In the dual,

    .. math:: \max_{\alpha, \nu}\; \sum_i \alpha_i (b_i + \langle s_i, \hat\varphi\rangle) - \tfrac12\|Z\alpha + A^\top\nu\|^2
              - \tfrac\lambda4\|S\alpha\|^2, \qquad \sum_{i \in j}\alpha_i \le c_j,

    a quadratic program of as many variables as there are planes; :math:`w = Z\alpha + A^\top\nu` and :math:`\varphi = \hat\varphi -
    \tfrac\lambda2 S\alpha`. Its value bounds the proximal problem from below, and :math:`O(1/\epsilon)` planes reach any gap.

    Planes hold for any centre and any :math:`\lambda`, so they are kept from one proximal problem to the next; those without weight in
    the last solutions are dropped, so memory stays small. The messages' part of a plane is kept as the rows where two copies of a
    node differ, with the two labels.

    Parameters
    ----------
    bound : DualBound
    slacks : {"n", "one"}
        A model for each example, or one for their sum.
    """

    def __init__(self, bound: DualBound, slacks: str = "n"):
        check_value("slacks", slacks, OneOf("n", "one"))
        self.bound, self.objective, self.one = bound, bound.objective, slacks == "one"
        self.rows = self.objective.cone.matrix
        self.n_rows = self.rows.shape[0]
        self.vectors = Ragged(np.int32, np.float64)
        self.turns = Ragged(np.int32, bound.label_type, bound.label_type)
        self.labels: list[np.ndarray] = []
        self.offset, self.examples = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.idle = np.zeros(0, dtype=np.int64)
        self.gram_w, self.gram_s = np.zeros((self.n_rows, self.n_rows)), np.zeros((0, 0))
        self.gram_w[:] = (self.rows @ self.rows.T).toarray()
        self.reweight()
        self.recentre(bound.zeros(), 1.0)

    def __len__(self) -> int:
        return len(self.offset)

    def reweight(self) -> None:
        """Take the weights of the examples as they are now; planes of one model for all are of no use after a change."""
        c = self.objective.c
        if self.one and len(self):
            self._remove(np.ones(len(self), dtype=bool))
        self.weight = np.repeat(c, np.diff(self.bound.copies.row_ptr)) if self.one else np.ones(self.bound.n_messages)
        self.blocks = np.ones(1) if self.one else c
        self.alpha = np.zeros(self.n_rows + len(self))

    def recentre(self, centre: np.ndarray, scale: float) -> None:
        r"""Make the proximal problem around ``centre`` with :math:`\lambda` = ``scale``; the planes stay."""
        self.centre, self.scale = centre.copy(), scale
        self.qp = ReducedQP(self.blocks, loose=True)
        if self.n_rows + len(self):
            shifted = np.concatenate([np.zeros(self.n_rows), self.offset + self._products(centre)])
            self.qp.extend(self._gram(), shifted, np.concatenate([np.full(self.n_rows, -1), self.examples]).astype(np.int64))
            self.qp.warm(self.alpha)
        self.linear = self.qp.offset.copy()

    def _gram(self) -> np.ndarray:
        gram = self.gram_w.copy()
        gram[self.n_rows :, self.n_rows :] += 0.5 * self.scale * self.gram_s
        return gram

    def _products(self, phi: np.ndarray) -> np.ndarray:
        out = np.empty(len(self))
        row, plus, minus = self.turns.columns
        kernels.message_products(row, plus, minus, self.turns.ptr, self.examples, -1, phi, self.weight, out)
        return out

    def solve(self, tol: float) -> tuple[np.ndarray, np.ndarray, float]:
        """The minimiser of the model (weights in the cone, messages) and the lower bound on the proximal problem."""
        if len(self.qp):
            self.qp.solve(tol)
        self.alpha = self.qp.alpha.copy()
        own = self.alpha[self.n_rows :]
        w = np.asarray(self.rows.T @ self.alpha[: self.n_rows]).reshape(-1).astype(np.float64)
        index, value = self.vectors.columns
        kernels.combine_vectors(index, value, self.vectors.ptr, own, w)
        turn = self.bound.zeros()
        row, plus, minus = self.turns.columns
        kernels.combine_messages(row, plus, minus, self.turns.ptr, own, self.weight, turn)
        low = float(self.alpha @ self.linear) - 0.5 * float(w @ w) - 0.25 * self.scale * float(np.vdot(turn, turn))
        self.idle = np.where(own > 0, 0, self.idle + 1)
        return self.objective.repair(w), self.centre - 0.5 * self.scale * turn, low

    def model(self, w: np.ndarray, phi: np.ndarray) -> np.ndarray:
        """The model's slacks at a point, one a block."""
        reached = np.zeros(len(self.blocks))
        if len(self):
            out = np.empty(len(self))
            index, value = self.vectors.columns
            kernels.vector_products(index, value, self.vectors.ptr, w, out)
            np.maximum.at(reached, self.examples, self.offset - out + self._products(phi))
        return reached

    def add(self, point: BoundPoint, w: np.ndarray, phi: np.ndarray, least: float) -> int:
        """Planes of the examples whose slack the model misses, by more than ``least`` in all; returns how many."""
        c = self.objective.c
        if self.one:
            missed = np.array([float(c @ point.slack)]) - self.model(w, phi)
        else:
            missed = c * (point.slack - self.model(w, phi))
        wanted = np.flatnonzero(missed > least / len(self.blocks))
        if not len(wanted):
            return 0
        old = self.idle > _IDLE
        if old.any():
            self._remove(old)
        before = len(self)
        for i in wanted.tolist():
            self._append(range(len(c)) if self.one else (i,), point.labels, 0 if self.one else i)
        self._extend(before)
        return len(wanted)

    def _append(self, members: Any, labels: np.ndarray, block: int) -> None:
        cuts = [self.bound.cut(j, labels) for j in members]
        factor = self.objective.c if self.one else np.ones(self.objective.n_examples)
        z = sum(factor[cut.example] * cut.z for cut in cuts)
        index = np.flatnonzero(z)
        self.vectors.append(index, np.asarray(z)[index])
        self.turns.append(*(np.concatenate([getattr(cut, name) for cut in cuts]) for name in ("row", "plus", "minus")))
        self.offset = np.append(self.offset, sum(factor[cut.example] * cut.offset for cut in cuts))
        self.examples = np.append(self.examples, block)
        self.idle = np.append(self.idle, 0)
        copies = self.bound.copies
        ends = slice(None) if self.one else slice(*copies.starts[copies.tree_ptr[block : block + 2]])
        self.labels.append(labels[ends].copy())

    def _extend(self, before: int) -> None:
        """Products of the planes from ``before`` on with all, and their columns in the quadratic program."""
        n, m, shift = len(self), len(self) - before, self.n_rows
        columns, turned = np.zeros((shift + n, m)), np.zeros((m, n))
        dense, phi = np.zeros(self.objective.n_weights), self.bound.zeros()
        index, value = self.vectors.columns
        row, plus, minus = self.turns.columns
        for i in range(m):
            own = slice(*self.vectors.ptr[before + i : before + i + 2])
            dense[index[own]] = value[own]
            kernels.vector_products(index, value, self.vectors.ptr, dense, columns[shift:, i])
            columns[:shift, i] = self.rows @ dense
            dense[index[own]] = 0.0
            own = slice(*self.turns.ptr[before + i : before + i + 2])
            at = row[own]
            phi[at, plus[own]], phi[at, minus[own]] = self.weight[at], -self.weight[at]
            block = self.examples[before + i]
            kernels.message_products(row, plus, minus, self.turns.ptr, self.examples, block, phi, self.weight, turned[i])
            phi[at] = 0.0
        self.gram_w, self.gram_s = _bordered(self.gram_w, columns), _bordered(self.gram_s, turned.T)
        columns[shift:] += 0.5 * self.scale * turned.T
        linear = self.offset[before:] + self._products(self.centre)[before:]
        self.qp.extend(columns, linear, self.examples[before:])
        self.linear = np.concatenate([self.linear, linear])
        self.alpha = np.concatenate([self.alpha, np.zeros(m)])

    def _remove(self, mask: np.ndarray) -> None:
        keep = ~mask
        every = np.concatenate([np.ones(self.n_rows, dtype=bool), keep])
        self.vectors.keep(keep)
        self.turns.keep(keep)
        self.labels = [labels for labels, stays in zip(self.labels, keep, strict=True) if stays]
        self.offset, self.examples, self.idle = self.offset[keep], self.examples[keep], self.idle[keep]
        self.gram_w, self.gram_s = self.gram_w[np.ix_(every, every)], self.gram_s[np.ix_(keep, keep)]
        self.alpha = self.alpha[every]
        self.recentre(self.centre, self.scale)

    def marginals(self) -> PseudoMarginals:
        """The mixture of labellings that the multipliers are, moved into the local polytope: a bound on LP-M3N itself."""
        bound, c = self.bound, self.objective.c
        node, edge = bound.empty_tables()
        share = np.zeros(len(c))
        copies = bound.copies
        whole = np.zeros(len(copies.owner), dtype=bound.label_type)
        own = self.alpha[self.n_rows :]
        for i in np.flatnonzero(own > 0):
            j = int(self.examples[i])
            if self.one:
                whole[:] = self.labels[i]
                members = np.flatnonzero(c > 0)
            else:
                whole[slice(*copies.starts[copies.tree_ptr[j : j + 2]])] = self.labels[i]
                members = np.array([j])
            for k in members.tolist():
                weight = float(own[i] if self.one else own[i] / c[k])
                bound.add(node, edge, k, whole, weight)
                share[k] += weight
        return bound.settled(node, edge, 1.0 - share)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps; `recentre` makes the rest."""
        return {name: getattr(self, name) for name in _KEPT} | {
            name: [rows.ptr, *rows.columns] for name, rows in (("vectors", self.vectors), ("turns", self.turns))
        }

    def restore(self, state: dict[str, Any]) -> None:
        """What `state` gave."""
        for name in _KEPT:
            setattr(self, name, state[name])
        for rows, name in ((self.vectors, "vectors"), (self.turns, "turns")):
            rows.ptr, *rows._data = state[name]
        self.recentre(self.centre, self.scale)


def _bordered(gram: np.ndarray, columns: np.ndarray) -> np.ndarray:
    n, m = len(gram), columns.shape[1]
    grown = np.empty((n + m, n + m))
    grown[:n, :n] = gram
    grown[:, n:] = columns
    grown[n:, :n] = columns[:n].T
    return grown
