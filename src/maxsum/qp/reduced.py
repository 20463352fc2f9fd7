"""The reduced dual of Algorithm 4: a growing concave quadratic over a product of simplices and an orthant."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import InvalidProblemError
from ..executors.clock import Clock
from ..kernels import simplex_blocks as kernel
from .steps import (
    ReducedSolution,
    block_sums,
    check_columns,
    checked_weights,
    face_step,
    interior_direction,
    interior_point,
    spare,
)

_EPS = float(np.finfo(float).eps)  # unit roundoff, twice
_FIRST = 16  # variables that there is room for at first; it doubles
_ROUNDS = 60  # turns of pairwise steps and faces, or PIQP, before the best so far is returned
_WORK = 40  # numbers that pairwise steps touch in a turn, in squares of the number of variables
_FACE_WORK = 400  # work of Newton steps in a turn, in the same unit; a step takes the cube of its support
_PIQP_CALLS = 8  # of a solve: each takes in twice as many variables as the one before
_PIQP_LARGEST = 4000  # variables of PIQP: its dense factor takes 128 MB then
_PIQP_SMALL = 300  # so many of the nearest variables take part in any case: some milliseconds
_SMO_PACE = 5e8  # numbers a second that pairwise steps touch, for the time limit
_CUBE_SECONDS = 5e-11  # seconds of a Newton step, times the cube of its support, likewise
"""Operations of pairwise steps a second, and the seconds that a system of ``n`` unknowns takes over ``n**3``: what would not end in time is not
begun."""


class ReducedQP:
    r"""The reduced task (28) of the 2008 paper, grown column by column:

    .. math:: \max_a\; b^T a - \tfrac12 a^T H a, \qquad \sum_{i \in j} a_i = c_j,\quad a \ge 0,

    with :math:`H_{ik} = z_i^T z_k`. A variable of block -1 is only non-negative: a hard constraint :math:`w^T z_i \ge b_i`. The
    weights are :math:`w = \sum_i a_i z_i`.

    Pairwise steps (SMO) inside the blocks come first; where they crawl, Newton steps on the face of the positive variables, then
    PIQP. The value never falls, neither in `solve` nor with an appended column.

    Parameters
    ----------
    weights : array-like, shape (n_blocks,)
        ``c``.
    loose : bool
        Sums may fall short of ``c``, as if each block had the column ``b = 0, z = 0`` (the true labelling).
    """

    def __init__(self, weights: Any, loose: bool = False):
        self.loose = bool(loose)
        self._weights = checked_weights(weights)
        self._n = 0
        self._gram = np.zeros((_FIRST, _FIRST))
        self._offset, self._alpha, self._grad = np.zeros(_FIRST), np.zeros(_FIRST), np.zeros(_FIRST)
        self._block = np.zeros(_FIRST, dtype=np.int64)
        self._direction: np.ndarray | None = None
        self._direction_known = False
        self.crawled = False

    def __len__(self) -> int:
        return self._n

    @property
    def weights(self) -> np.ndarray:
        return self._weights

    @property
    def alpha(self) -> np.ndarray:
        """The current variables; live."""
        return self._alpha[: self._n]

    @property
    def gram(self) -> np.ndarray:
        """Inner products of the planes."""
        return self._gram[: self._n, : self._n]

    @property
    def offset(self) -> np.ndarray:
        """Constant terms of the planes."""
        return self._offset[: self._n]

    @property
    def block(self) -> np.ndarray:
        return self._block[: self._n]

    @property
    def value(self) -> float:
        """``b' a - a' H a / 2`` of the current variables."""
        return float(self.alpha @ (self.offset - 0.5 * (self.gram @ self.alpha)))

    def append(self, column: Any, offset: float, block: int) -> int:
        """Add a variable; returns its index.

        Parameters
        ----------
        column : array-like, shape (n + 1,)
            Products ``z' z_i`` with the present columns, and ``z' z``.
        offset : float
            ``b``.
        block : int
            Its simplex, or -1 for a non-negative variable.
        """
        column, n = np.asarray(column, dtype=np.float64), self._n
        if column.shape != (n + 1,):
            raise InvalidProblemError(f"column has shape {column.shape}; wanted ({n + 1},): {n} products and the square")
        return self.extend(column[:, None], [offset], [block])

    def extend(self, columns: Any, offset: Any, block: Any) -> int:
        """Add ``m`` variables with ``columns`` of shape (n + m, m): the new columns of ``H``. Returns the first index."""
        columns, offset, block = np.asarray(columns, float), np.asarray(offset, float), np.asarray(block, np.int64)
        n, m = self._n, len(offset)
        if columns.shape != (n + m, m) or block.shape != (m,):
            raise InvalidProblemError(
                f"columns have shape {columns.shape} for {m} offsets and {len(block)} blocks; wanted ({n + m}, {m})"
            )
        check_columns(columns, offset, block, n, len(self._weights))
        self._reserve(n + m)
        self._gram[: n + m, n : n + m] = columns
        self._gram[n : n + m, : n + m] = columns.T
        self._offset[n : n + m], self._block[n : n + m], self._alpha[n : n + m] = offset, block, 0.0
        self._n = n + m
        self._grad[n : n + m] = offset - columns[:n].T @ self._alpha[:n]
        if (block < 0).any():
            self._direction_known = False
        if not self.loose:
            self._fill_empty(block)
        return n

    def _fill_empty(self, block: np.ndarray) -> None:
        """A block that had no column puts its whole weight on its first."""
        first = np.unique(block[block >= 0])
        mass = self._mass()
        empty = first[(mass[first] == 0) & (self._weights[first] > 0)]
        for j in empty:
            i = int(np.flatnonzero(self.block == j)[0])
            self._alpha[i] = self._weights[j]
            self._grad[: self._n] -= self._weights[j] * self._gram[i, : self._n]

    def _reserve(self, n: int) -> None:
        size = len(self._offset)
        if n <= size:
            return
        size = max(2 * size, n)
        gram = np.zeros((size, size))
        gram[: self._n, : self._n] = self.gram
        self._gram = gram
        for name in ("_offset", "_alpha", "_grad", "_block"):
            old = getattr(self, name)
            new = np.zeros(size, dtype=old.dtype)
            new[: self._n] = old[: self._n]
            setattr(self, name, new)

    def remove(self, mask: Any) -> None:
        """Drop the variables where ``mask`` is true; their weight goes to the rest of the block (to none if ``loose``)."""
        mask = np.asarray(mask)
        if mask.shape != (self._n,) or mask.dtype != bool:
            raise InvalidProblemError(f"mask has shape {mask.shape} and type {mask.dtype}; wanted {self._n} bools")
        keep = np.flatnonzero(~mask)
        if (self.block[mask] < 0).any():
            self._direction_known = False
        mass = self._mass()
        n = len(keep)
        self._gram[:n, :n] = self._gram[np.ix_(keep, keep)]
        for values in (self._offset, self._alpha, self._grad, self._block):
            values[:n] = values[keep]
        self._n = n
        if not self.loose:
            own = self.block >= 0
            left = self._mass()
            factor = np.divide(mass, left, out=np.ones_like(mass), where=left > 0)
            self._alpha[:n][own] *= factor[self.block[own]]
            self._grad[:n] = self.offset - self.gram @ self.alpha
            self._fill_empty(self.block)
        self._grad[:n] = self.offset - self.gram @ self.alpha

    def reweight(self, weights: Any) -> None:
        """New ``c`` for the same columns; the variables are scaled with it, block by block."""
        new = checked_weights(weights)
        if new.shape != self._weights.shape:
            raise InvalidProblemError(f"{len(new)} new weights for {len(self._weights)} blocks")
        factor = np.divide(new, self._weights, out=np.zeros_like(new), where=self._weights > 0)
        own = self.block >= 0
        self._alpha[: self._n][own] *= factor[self.block[own]]
        self._weights = new
        if not self.loose:
            self._fill_empty(self.block)
        self._grad[: self._n] = self.offset - self.gram @ self.alpha

    def warm(self, alpha: np.ndarray) -> None:
        """Start from these variables, which have to be feasible."""
        self._alpha[: self._n] = alpha
        self._grad[: self._n] = self.offset - self.gram @ self.alpha

    def solve_with(self, offset: np.ndarray, tol: float, time_limit: float | None = None) -> np.ndarray:
        """Variables for other offsets and the same columns; the state of this problem stays as it is."""
        own, alpha = self.offset.copy(), self.alpha.copy()
        try:
            self._offset[: self._n] = offset
            self.warm(alpha)
            return self.solve(tol, time_limit).alpha
        finally:
            self._offset[: self._n] = own
            self.warm(alpha)

    def solve(
        self, tol: float = 1e-6, time_limit: float | None = None, piqp: bool = True, absolute: float = 0.0
    ) -> ReducedSolution:
        """Raise the value until the gap is at most ``tol * max(|value|, |value + gap|)``, or ``absolute``.

        Parameters
        ----------
        tol : float
        time_limit : float, optional
            Seconds; looked at between rounds, and before steps that take long.
        piqp : bool
            Whether PIQP may be called where the own steps crawl.
        absolute : float
            For programs whose value is a part of what matters.
        """
        clock = Clock(time_limit)
        layout = self._layout()
        budget = (_WORK if not self.crawled else _WORK // 4) * self._n**2 + 200_000
        steps, stalled, calls, used = 0, 0, 0, {"smo": True}
        near = np.zeros(self._n, dtype=bool)
        self._tidy()
        for turn in range(_ROUNDS):
            steps += self._smo(*layout, tol, int(min(budget, 200_000 + _SMO_PACE * clock.left)), 0.5 * absolute)
            self._tidy()
            facts = self._measure(tol, absolute)
            if facts["converged"] or clock.left <= _CUBE_SECONDS * float((self.alpha > 0).sum()) ** 3 or stalled > 2:
                break
            before = facts["value"]
            if piqp and (turn > 0 or self.crawled) and calls < _PIQP_CALLS and self._interior_point(facts, near, calls, tol):
                used["piqp"] = True
                calls += 1
            elif self._faces():
                used["face"] = True
            self._tidy()
            stalled = stalled + 1 if self.value <= before + 8 * _EPS * abs(before) else 0
        self.crawled = calls > 0
        return ReducedSolution(self.alpha.copy(), **facts, steps=steps, method="+".join(used), seconds=clock.seconds)

    def _faces(self) -> bool:
        """Newton steps, fewer where the face is large."""
        support = int((self.alpha > 0).sum())
        count = int(np.clip(_FACE_WORK * self._n**2 / max(support, 1) ** 3, 1, 10))
        value = self.value
        for _ in range(count):
            if not face_step(self.gram, self.alpha, self._live_grad, self.block, self._weights, self.loose):
                break
        return self.value > value

    def _interior_point(self, facts: dict[str, Any], near: np.ndarray, turn: int, tol: float) -> bool:
        """PIQP on the variables ``near`` the top of their block, which grow with the turns; False if nothing was gained."""
        distance = np.append(facts["top"], -np.inf)[self.block] - self._live_grad
        level = 4 * 2.0**turn * min(facts["gap"], 1e300) / max(float(self._weights.sum()), 1e-300)
        few = min(_PIQP_SMALL, self._n)
        near |= distance <= max(level, float(np.partition(distance, few - 1)[few - 1]))
        if int(near.sum()) > _PIQP_LARGEST:
            return False
        size = max(abs(facts["value"]), abs(facts["value"] + facts["gap"]) if facts["gap"] < np.inf else 0.0)
        task = (self.gram, self.offset, self.block, self._weights, self.loose)
        found = interior_point(*task, near, size, tol)
        if found is None:
            return False
        whole, sparse = found
        values = [float(alpha @ (self.offset - 0.5 * (self.gram @ alpha))) for alpha in found]
        return self._keep_if_better(sparse if values[1] >= values[0] - 0.1 * tol * abs(values[0]) else whole)

    @property
    def _live_grad(self) -> np.ndarray:
        return self._grad[: self._n]

    def _layout(self) -> tuple[np.ndarray, np.ndarray]:
        """Variables by block (those of weight 0 in none), the non-negative ones last."""
        n_blocks = len(self._weights)
        key = np.where(self.block < 0, n_blocks, self.block)
        alive = np.concatenate([self._weights > 0, [True]])[key]
        order = np.argsort(key, kind="stable")
        ptr = np.zeros(n_blocks + 2, dtype=np.int64)
        np.cumsum(np.bincount(key[alive], minlength=n_blocks + 1), out=ptr[1:])
        return order[alive[order]], ptr

    def _mass(self) -> np.ndarray:
        return block_sums(self.alpha, self.block, len(self._weights))

    def _tidy(self) -> None:
        """Sums exact up to an ulp, gradient fresh."""
        own = self.block >= 0
        alpha, mass = self.alpha, self._mass()
        factor = np.divide(self._weights, mass, out=np.ones_like(mass), where=mass > 0)
        alpha[own] *= (np.minimum(factor, 1.0) if self.loose else factor)[self.block[own]]
        self._live_grad[:] = self.offset - self.gram @ alpha

    def _noise(self) -> np.ndarray:
        """Rounding of the gradient."""
        length = np.sqrt(np.diag(self.gram))
        return 4 * _EPS * (np.abs(self.offset) + length * float(length @ self.alpha))

    def _interior(self) -> np.ndarray | None:
        """A direction that lowers the gradient of every non-negative variable by 1 or more, if one is known."""
        if not self._direction_known:
            orthant = np.flatnonzero(self.block < 0)
            self._direction = interior_direction(self.gram[np.ix_(orthant, orthant)])
            self._direction_known = True
        return self._direction

    def _orthant_cost(self) -> tuple[float, float]:
        """What it costs at most to lower the gradients of the non-negative variables by ``t``: factors of ``t`` and ``t**2``."""
        orthant = self.block < 0
        if not orthant.any():
            return 0.0, 0.0
        p = self._interior()
        if p is None:
            return 1e200, 0.0
        change = self.gram[:, orthant] @ p
        rise = np.zeros(len(self._weights))
        np.maximum.at(rise, self.block[~orthant], -change[~orthant])
        return max(float(change @ self.alpha), 0.0) + float(self._weights @ rise), 0.5 * float(p @ change[orthant])

    def _smo(self, order: np.ndarray, ptr: np.ndarray, tol: float, budget: int, absolute: float = 0.0) -> int:
        noise = self._noise()
        rest = spare(self.alpha, self.block, self._weights) if self.loose else np.zeros_like(self._weights)
        state = np.zeros(kernel.N_STATE)
        goal = 0.5 * tol
        return int(
            kernel.ascend(
                self._gram, self.offset, self.alpha, self._live_grad, order, ptr, rest, self.loose, noise,
                self._orthant_cost(), goal, max(self._floor(), absolute), budget, state,
            )
        )  # fmt: skip

    def _floor(self) -> float:
        """Rounding of the gap itself."""
        return 2 * _EPS * float(self.alpha @ (np.abs(self.offset) + np.abs(self.offset - self._live_grad)))

    def _keep_if_better(self, found: np.ndarray | None) -> bool:
        if found is None:
            return False
        grad = self.offset - self.gram @ found
        if not 0.5 * float(found @ (self.offset + grad)) > self.value:
            return False
        self.alpha[:], self._live_grad[:] = found, grad
        return True

    def _measure(self, tol: float, absolute: float = 0.0) -> dict[str, Any]:
        """Value, gap and KKT residuals, from a fresh gradient.

        Hard constraints that contradict each other send the variables to infinity, where rounding hides the violation; then
        nothing is claimed. (Without a positive offset among them ``w = 0`` satisfies all.)
        """
        alpha, grad, block = self.alpha, self._live_grad, self.block
        orthant = block < 0
        noise = self._noise()
        value = 0.5 * float(alpha @ (self.offset + grad))
        over = grad[orthant] - noise[orthant]
        violation = float(grad[orthant][over > 0].max(initial=0.0))
        moved, shifted, extra = alpha, grad, 0.0
        if violation > 0:
            p = self._interior()
            if p is None:
                extra = np.inf
            else:
                delta = np.zeros(self._n)
                delta[orthant] = violation * p
                change = self.gram @ delta
                moved, shifted = alpha + delta, grad - change
                extra = float(delta @ grad) - 0.5 * float(delta @ change)
        gap = self._block_gap(moved, shifted) - float(moved[orthant] @ shifted[orthant]) + extra
        blind = orthant & (self.offset > 0) & (noise > 1e-3 * self.offset)
        gap = np.inf if blind.any() or gap < -1e-10 * abs(value) else max(gap, 0.0)
        top = self._top(grad)
        used = (alpha > 0) & ~orthant
        distance = top[block[used]] - grad[used]
        mass = self._mass() - self._weights
        filled = np.bincount(block[~orthant], minlength=len(self._weights)) > 0
        missing = mass if self.loose else np.abs(mass)
        scale = max(abs(value), abs(value + gap)) if gap < np.inf else 0.0
        return dict(
            value=value,
            gap=gap,
            violation=violation,
            complementarity=float(np.abs(alpha[orthant] * grad[orthant]).max(initial=0.0)),
            stationarity=float(distance.max(initial=0.0)),
            feasibility=float(missing[filled].max(initial=0.0)),
            top=top,
            converged=bool(gap <= max(tol * scale, absolute, self._floor())),
        )

    def _top(self, grad: np.ndarray) -> np.ndarray:
        top = np.full(len(self._weights), 0.0 if self.loose else -np.inf)
        own = self.block >= 0
        np.maximum.at(top, self.block[own], grad[own])
        return top

    def _block_gap(self, alpha: np.ndarray, grad: np.ndarray) -> float:
        top, own = self._top(grad), self.block >= 0
        gap = float(alpha[own] @ (top[self.block[own]] - grad[own]))
        return gap + float(spare(alpha, self.block, self._weights) @ top) if self.loose else gap
