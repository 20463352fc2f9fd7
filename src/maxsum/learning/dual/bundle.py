"""Bundle: the bundle method for the proximal problems (13) of Franc & Laskov 2011, Algorithm 1, with its dual and its lower bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...core.parameters import OneOf, check_value
from ...kernels import dual_bound as kernels
from .dual_bound import BoundPoint, DualBound
from .model import dense
from .pseudo_marginals import PseudoMarginals
from .vectors import VectorModel

IDLE = 20  # solutions without weight after which a plane goes; it can be found again, for one evaluation


class Ragged:
    """Rows of different length one after another, with room to grow."""

    def __init__(self, *types: Any):
        self.ptr = np.zeros(1, dtype=np.int64)
        self._data = [np.zeros(256, dtype=kind) for kind in types]

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def columns(self) -> list[np.ndarray]:
        """The arrays, cut to what is used."""
        return [data[: self.ptr[-1]] for data in self._data]

    def append(self, *row: np.ndarray) -> None:
        """Add a row."""
        start, stop = int(self.ptr[-1]), int(self.ptr[-1]) + len(row[0])
        for i, part in enumerate(row):
            if stop > len(self._data[i]):
                grown = np.zeros(max(2 * len(self._data[i]), stop), dtype=self._data[i].dtype)
                grown[:start] = self._data[i][:start]
                self._data[i] = grown
            self._data[i][start:stop] = part
        self.ptr = np.append(self.ptr, stop)

    def keep(self, mask: np.ndarray) -> None:
        """Drop all rows but some."""
        sizes = np.diff(self.ptr)
        chosen = np.repeat(mask, sizes)
        total = int(sizes[mask].sum())
        for data in self._data:
            data[:total] = data[: self.ptr[-1]][chosen]
        self.ptr = np.concatenate([[0], np.cumsum(sizes[mask])]).astype(np.int64)


class Bundle(VectorModel):
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
        self.bound, self.centre, self.scale = bound, bound.zeros(), 1.0
        self.turns = Ragged(np.int32, bound.label_type, bound.label_type)
        rows = sparse.csr_array(bound.objective.cone.matrix)
        self.gram_w, self.gram_s = dense(rows @ rows.T), np.zeros((0, 0))
        self.weight = np.ones(bound.n_messages)
        super().__init__(bound.objective, slacks == "one")
        self.reweight()

    def reweight(self) -> None:
        """Take the weights of the examples as they are now; planes of one model for all are of no use after a change."""
        c = self.objective.c
        if self.one:
            self.remove(np.ones(len(self), dtype=bool))
            self.weight = np.repeat(c, np.diff(self.bound.copies.row_ptr))
        else:
            self.rescale(c)

    def recentre(self, centre: np.ndarray, scale: float) -> None:
        r"""Make the proximal problem around ``centre`` with :math:`\lambda` = ``scale``; the planes stay."""
        alpha, self.centre, self.scale = self.qp.alpha.copy(), centre.copy(), scale
        self.qp = self.new_qp()
        self.qp.warm(alpha)

    def gram(self) -> np.ndarray:
        gram = self.gram_w.copy()
        gram[self.n_rows :, self.n_rows :] += 0.5 * self.scale * self.gram_s
        return gram

    def linear(self) -> np.ndarray:
        return self.offset + self._message_products(self.centre)

    def _message_products(self, phi: np.ndarray) -> np.ndarray:
        out = np.empty(len(self))
        row, plus, minus = self.turns.columns
        kernels.message_products(row, plus, minus, self.turns.ptr, self.block, -1, phi, self.weight, out)
        return out

    def refresh(self) -> float:
        """Weights and ``turn``, :math:`S\\alpha`, from the planes; returns the lower bound on the proximal problem."""
        self.turn = self.bound.zeros()
        row, plus, minus = self.turns.columns
        kernels.combine_messages(row, plus, minus, self.turns.ptr, self.alpha, self.weight, self.turn)
        return super().refresh() - 0.25 * self.scale * float(np.vdot(self.turn, self.turn))

    def solve(self, tol: float) -> tuple[np.ndarray, np.ndarray, float]:
        """The minimiser of the model (weights in the cone, messages) and the lower bound on the proximal problem."""
        low = self.correct(tol)
        return self.objective.repair(self.weights.value), self.centre - 0.5 * self.scale * self.turn, low

    def model(self, w: np.ndarray, phi: np.ndarray) -> np.ndarray:
        """The model's slacks at a point, one a block."""
        reached = np.zeros(len(self.limit))
        np.maximum.at(reached, self.block, self.slack(w) + self._message_products(phi))
        return reached

    def add(self, point: BoundPoint, w: np.ndarray, phi: np.ndarray, least: float) -> int:
        """Planes of the examples whose slack the model misses, by more than ``least`` in all; returns how many."""
        c, copies = self.objective.c, self.bound.copies
        reached = self.model(w, phi)
        missed = np.array([float(c @ point.slack)]) - reached if self.one else c * (point.slack - reached)
        wanted = np.flatnonzero(missed > least / len(missed))
        if not len(wanted):
            return 0
        old = self.idle > IDLE
        if old.any():
            self.remove(old)
        rows, offset, keys = Ragged(np.int32, np.float64), [], []
        for i in wanted.tolist():
            cuts = [self.bound.cut(j, point.labels) for j in (range(len(c)) if self.one else (i,))]
            factor = c if self.one else np.ones(len(c))
            z = np.asarray(sum(factor[cut.example] * cut.z for cut in cuts))
            rows.append(np.flatnonzero(z), z[np.flatnonzero(z)])
            self.turns.append(*(np.concatenate([getattr(cut, name) for cut in cuts]) for name in ("row", "plus", "minus")))
            offset.append(sum(factor[cut.example] * cut.offset for cut in cuts))
            keys.append(point.labels[slice(None) if self.one else slice(*copies.starts[copies.tree_ptr[i : i + 2]])].copy())
        index, value = rows.columns
        matrix = sparse.csr_array((value, index, rows.ptr), shape=(len(rows), self.objective.n_weights))
        self.append(matrix, np.array(offset), wanted, keys)
        return len(wanted)

    def products(self, before: int) -> np.ndarray:
        columns, turned, phi = super().products(before), np.zeros((len(self) - before, len(self))), self.bound.zeros()
        row, plus, minus = self.turns.columns
        for i in range(len(turned)):
            own = slice(*self.turns.ptr[before + i : before + i + 2])
            at = row[own]
            phi[at, plus[own]], phi[at, minus[own]] = self.weight[at], -self.weight[at]
            block = self.block[before + i]
            kernels.message_products(row, plus, minus, self.turns.ptr, self.block, block, phi, self.weight, turned[i])
            phi[at] = 0.0
        self.gram_w, self.gram_s = _bordered(self.gram_w, columns), _bordered(self.gram_s, turned.T)
        columns[self.n_rows :] += 0.5 * self.scale * turned.T
        return columns

    def keep(self, mask: np.ndarray) -> None:
        super().keep(mask)
        every = np.concatenate([np.ones(self.n_rows, dtype=bool), mask])
        self.turns.keep(mask)
        self.gram_w, self.gram_s = self.gram_w[np.ix_(every, every)], self.gram_s[np.ix_(mask, mask)]

    def state(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("centre", "scale", "weight", "gram_w", "gram_s")}
        return super().state() | own | {"turns": [self.turns.ptr, *self.turns.columns]}

    def restore(self, state: dict[str, Any]) -> None:
        for name in ("centre", "scale", "weight", "gram_w", "gram_s"):
            setattr(self, name, state[name])
        self.turns.ptr, *self.turns._data = state["turns"]
        super().restore(state)

    def marginals(self) -> PseudoMarginals:
        """The mixture of labellings that the multipliers are, moved into the local polytope: a bound on LP-M3N itself."""
        bound, c = self.bound, self.objective.c
        node, edge = bound.empty_tables()
        share = np.zeros(len(c))
        copies = bound.copies
        whole = np.zeros(len(copies.owner), dtype=bound.label_type)
        own = self.alpha
        for i in np.flatnonzero(own > 0):
            j = int(self.block[i])
            if self.one:
                whole[:] = self.keys[i]
                members = np.flatnonzero(c > 0)
            else:
                whole[slice(*copies.starts[copies.tree_ptr[j : j + 2]])] = self.keys[i]
                members = np.array([j])
            for k in members.tolist():
                weight = float(own[i] if self.one else own[i] / c[k])
                bound.add(node, edge, k, whole, weight)
                share[k] += weight
        return bound.settled(node, edge, 1.0 - share)


def _bordered(gram: np.ndarray, columns: np.ndarray) -> np.ndarray:
    n, m = len(gram), columns.shape[1]
    grown = np.empty((n + m, n + m))
    grown[:n, :n] = gram
    grown[:, n:] = columns
    grown[n:, :n] = columns[:n].T
    return grown
