r"""Programs over planes with a penalty of absolute values.

.. math:: \min_w\ \rho\|w\|_1 + \tfrac{1 - \rho}2\|w\|^2 + \sum_j c_j\max\Big(0, \max_{i \in j} b_i - \langle w, z_i\rangle\Big)
          = \max_\alpha\ b^\top\alpha - \sum_p \frac{(|Z^\top\alpha|_p - \rho)_+^2}{2(1 - \rho)}

with :math:`\alpha \ge 0` and sums of at most :math:`c_j`; for :math:`\rho = 1` the sum is a constraint, :math:`|Z^\top\alpha|_p \le 1`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...executors.clock import Clock
from ...inference.relaxations.linear_program import run_interruptibly

_GROW = 2.0  # of the curvature in accelerated steps, after one that was too long
_SHRINK = 0.9  # the same after each step: where it was too careful a few steps bring it down
_STEPS = 2000  # accelerated steps of one solution; the next one goes on from there
_LOOK = 10  # of them between two looks at the gap


class LinearMaster:
    """The linear program, for a penalty of absolute values alone: a model of HiGHS that grows and shrinks with the planes."""

    def __init__(self, n_weights: int, c: np.ndarray, l1: float):
        import highspy

        self.n_weights, self.n_rows, self.status = n_weights, 0, highspy.HighsModelStatus.kOptimal
        self.solver = solver = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("random_seed", 0)):
            solver.setOptionValue(name, value)
        costs = np.concatenate([np.full(2 * n_weights, l1), c])
        n, none = len(costs), np.zeros(0, dtype=np.int32)
        solver.addCols(n, costs, np.zeros(n), np.full(n, highspy.kHighsInf), 0, np.zeros(n, dtype=np.int32), none, np.zeros(0))

    def solve(
        self, rows: Any, offset: np.ndarray, block: np.ndarray, alpha: np.ndarray, gap: float, clock: Clock
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Weights and multipliers of the planes; None without a solution."""
        import highspy

        new = rows[self.n_rows :]
        if new.shape[0]:
            counts = 2 * np.diff(new.indptr) + 1
            starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)
            index, value = np.zeros(int(counts.sum()), dtype=np.int32), np.ones(int(counts.sum()))
            for i, (begin, end) in enumerate(zip(new.indptr[:-1].tolist(), new.indptr[1:].tolist(), strict=True)):
                n, at = end - begin, int(starts[i])
                index[at : at + n], value[at : at + n] = new.indices[begin:end], new.data[begin:end]
                index[at + n : at + 2 * n], value[at + n : at + 2 * n] = (
                    self.n_weights + new.indices[begin:end],
                    -new.data[begin:end],
                )
                index[at + 2 * n] = 2 * self.n_weights + block[self.n_rows + i]
            lower = offset[self.n_rows :]
            self.solver.addRows(len(lower), lower, np.full(len(lower), highspy.kHighsInf), len(index), starts, index, value)
            self.n_rows = rows.shape[0]
        if np.isfinite(clock.left):
            self.solver.setOptionValue("time_limit", max(0.0, clock.left) + self.solver.getRunTime())
        interrupted, ended = run_interruptibly(self.solver, max(0.0, clock.left))
        if interrupted:
            raise KeyboardInterrupt
        if not ended or self.solver.getModelStatus() != self.status:
            return None
        found = self.solver.getSolution()
        column = np.asarray(found.col_value)
        w = column[: self.n_weights] - column[self.n_weights : 2 * self.n_weights]
        return w, np.maximum(np.asarray(found.row_dual), 0.0)

    def remove(self, mask: np.ndarray) -> None:
        """Drop planes."""
        gone = np.flatnonzero(mask).astype(np.int32)
        self.solver.deleteRows(len(gone), gone)
        self.n_rows -= len(gone)


class SmoothMaster:
    """The dual with a share of squares, by accelerated projected gradient steps with restarts (O'Donoghue & Candes 2015)."""

    def __init__(self, n_weights: int, c: np.ndarray, l1: float):
        self.c, self.l1, self.curvature = c, l1, 1.0

    def solve(
        self, rows: Any, offset: np.ndarray, block: np.ndarray, alpha: np.ndarray, gap: float, clock: Clock
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Weights and multipliers of the planes, to a gap of the program; None if there is no time."""
        turned = rows.T.tocsr()

        def at(point: np.ndarray) -> tuple[float, np.ndarray]:
            z = np.asarray(turned @ point).reshape(-1)
            w = np.sign(z) * np.maximum(np.abs(z) - self.l1, 0.0) / (1.0 - self.l1)
            return float(point @ offset) - 0.5 * (1.0 - self.l1) * float((w * w).sum()), w

        point, speed = alpha.copy(), 1.0
        value, w = at(point)
        ahead, ahead_value, ahead_w = point, value, w
        for i in range(_STEPS):
            slope = offset - np.asarray(rows @ ahead_w).reshape(-1)
            if i % _LOOK == 0:
                slack = np.zeros(len(self.c))
                np.maximum.at(slack, block, offset - np.asarray(rows @ w).reshape(-1))
                reached = (
                    self.l1 * float(np.abs(w).sum()) + 0.5 * (1.0 - self.l1) * float((w * w).sum()) + float(self.c @ slack)
                )
                if reached - value <= gap or clock.left <= 0:
                    break
            while True:
                new = nearest(ahead + slope / self.curvature, block, self.c)
                move = new - ahead
                new_value, new_w = at(new)
                promised = float(slope @ move) - 0.5 * self.curvature * float(move @ move)
                if new_value >= ahead_value + promised - 1e-12 * abs(ahead_value):
                    break
                self.curvature *= _GROW
            self.curvature *= _SHRINK
            step = new - point
            if float(slope @ step) < 0:
                speed, ahead, ahead_value, ahead_w = 1.0, point, value, w
                continue
            faster = 0.5 * (1.0 + (1.0 + 4.0 * speed * speed) ** 0.5)
            ahead = new + (speed - 1.0) / faster * step
            point, value, w, speed = new, new_value, new_w, faster
            ahead_value, ahead_w = at(ahead)
        return w, point

    def remove(self, mask: np.ndarray) -> None:
        """Nothing is kept of planes."""


def nearest(point: np.ndarray, block: np.ndarray, limit: np.ndarray) -> np.ndarray:
    r"""The nearest :math:`\alpha \ge 0` whose sums over blocks are at most their limits."""
    out = np.maximum(point, 0.0)
    over = np.flatnonzero((np.bincount(block, out, len(limit)) > limit)[block])
    if not len(over):
        return out
    order = over[np.lexsort((-point[over], block[over]))]
    own, value = block[order], point[order]
    first = np.concatenate([[True], own[1:] != own[:-1]])
    start = np.flatnonzero(first)[np.cumsum(first) - 1]
    total = np.cumsum(value)
    within = total - (total[start] - value[start])
    cut = (within - limit[own]) / (np.arange(len(own)) - start + 1)
    stays = value > cut
    last = np.full(len(limit), -np.inf)
    np.maximum.at(last, own[stays], cut[stays])
    out[order] = np.maximum(value - last[own], 0.0)
    return out
