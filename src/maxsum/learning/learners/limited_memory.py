r"""L-BFGS for exact, strongly convex objectives without constraints, at two passes over a few long vectors an iteration.

The inverse matrix is kept in compact form (Byrd, Nocedal and Schnabel 1994): inner products of steps and gradient changes, and one
combination of them for a direction. The same products give the tangents' lower bound: with modulus 1 and :math:`h_t = g_t - w_t`,

.. math:: \min_w F(w) \ge \max_{\alpha \ge 0,\ \sum\alpha = 1}\ \sum_t \alpha_t a_t - \tfrac12\Big\|\sum_t\alpha_t h_t\Big\|^2,
          \qquad a_t = F(w_t) - \langle g_t, w_t\rangle + \tfrac12\|w_t\|^2,

as the :math:`h_t` differ by steps and gradient changes. So neither points nor tangents take room of their own.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

import numpy as np

from ...core.result import Termination
from ...kernels.limited_memory import best_shares, combination, products
from ...kernels.vectors import inner
from ..driver import Training
from ..objectives.base import ULPS
from ..objectives.smooth import Evaluation, GradientCertificate, SmoothObjective
from ..state import REBUILT
from .quasi_newton import _careful, _search


@dataclass(frozen=True)
class Tuning:
    """Numbers of the bound and of the matrix.

    Attributes
    ----------
    steps : int
        Most pairwise steps on the shares of the tangents; they are few, so a step costs next to nothing.
    enough : float
        Part of the gap at which these steps end.
    curved : float
        Cosine of a step and its gradient change below which a pair is left out of the matrix: rounding, not curvature.
    """

    steps: int = 1000
    enough: float = 1e-4
    curved: float = 1e-12


_TUNING = Tuning()


class _Tangents(NamedTuple):
    """What proves the bound: places of the pairs, oldest first, and offset, size and share of each point, the newest last."""

    live: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    alpha: np.ndarray
    w: np.ndarray


@dataclass(eq=False)
class Memory:
    """The last steps and gradient changes, their inner products, and the tangents at their ends.

    Place ``i`` has its step in row ``2 i`` and its change in row ``2 i + 1``; the last two rows hold the gradient and ``h = g - w``. A
    free place is written before anything refers to it, so that an interrupt leaves the last state whole.
    """

    n_weights: InitVar[int]
    size: int
    rows: np.ndarray = field(init=False)
    gram: np.ndarray = field(init=False)
    tangents: _Tangents | None = None
    proven: _Tangents | None = None

    def __post_init__(self, n_weights: int) -> None:
        self.rows, n = np.zeros((2 * self.size + 4, n_weights)), 2 * self.size + 4
        self.gram = np.zeros((n, n))

    @property
    def now(self) -> int:
        """Row of the present gradient."""
        return 2 * self.size + 2

    def start(self, w: np.ndarray, found: Evaluation) -> None:
        """Begin with one point and no pairs."""
        offset, size = _offset(w, found)
        live = np.zeros(0, dtype=np.int64)
        self._meet(w, found.gradient, live)
        self.tangents = _Tangents(live, np.array([offset]), np.array([size]), np.ones(1), w)

    def add(self, w: np.ndarray, found: Evaluation, new_w: np.ndarray, new: Evaluation) -> None:
        """Go on from ``w`` to ``new_w``; the oldest pair makes room."""
        assert self.tangents is not None
        live, offsets, sizes, alpha, _ = self.tangents
        place = int(np.setdiff1d(np.arange(self.size + 1), live)[0])
        np.subtract(new_w, w, out=self.rows[2 * place])
        np.subtract(new.gradient, found.gradient, out=self.rows[2 * place + 1])
        if len(live) == self.size:
            live, offsets, sizes, alpha = live[1:], offsets[1:], sizes[1:], alpha[1:]
        live = np.append(live, place)
        self._meet(new_w, new.gradient, live)
        offset, size = _offset(new_w, new)
        total = alpha.sum()
        alpha = np.append(alpha / total if total > 0 else np.zeros(len(alpha)), 0.0 if total > 0 else 1.0)
        self.tangents = _Tangents(live, np.append(offsets, offset), np.append(sizes, size), alpha, new_w)

    def _meet(self, w: np.ndarray, g: np.ndarray, live: np.ndarray) -> None:
        """Products of the newest pair, the gradient and ``h`` with all rows."""
        self.rows[self.now] = g
        np.subtract(g, w, out=self.rows[self.now + 1])
        new = np.array([2 * live[-1], 2 * live[-1] + 1] if len(live) else [], dtype=np.int64)
        new = np.append(new, [self.now, self.now + 1])
        every = np.concatenate([2 * live, 2 * live + 1, [self.now, self.now + 1]])
        out = np.empty((len(every), len(new)))
        products(self.rows, every, new, out)
        self.gram[np.ix_(every, new)] = out
        self.gram[np.ix_(new, every)] = out.T

    def _part(self, first: int, second: int) -> np.ndarray:
        """Products of steps (0) or changes (1) with others."""
        assert self.tangents is not None
        return self.gram[np.ix_(2 * self.tangents.live + first, 2 * self.tangents.live + second)]

    def direction(self) -> np.ndarray:
        """Minus the inverse matrix times the gradient."""
        assert self.tangents is not None
        live, out = self.tangents.live, np.empty(self.rows.shape[1])
        ss, sy, yy = self._part(0, 0), self._part(0, 1), self._part(1, 1)
        curved = np.diagonal(sy) > _TUNING.curved * np.sqrt(np.diagonal(ss) * np.diagonal(yy))
        if not curved.any():
            return -self.rows[self.now]
        live, sy, yy = live[curved], sy[curved][:, curved], yy[curved][:, curved]
        by_steps, by_changes = self.gram[2 * live, self.now], self.gram[2 * live + 1, self.now]
        scale = sy[-1, -1] / yy[-1, -1]
        upper = np.triu(sy)
        first = np.linalg.solve(upper, by_steps)
        inside = np.diag(np.diagonal(sy)) + scale * yy
        second = np.linalg.solve(upper.T, inside @ first - scale * by_changes)
        which = np.concatenate([[self.now], 2 * live, 2 * live + 1])
        combination(self.rows, which, np.concatenate([[-scale], -second, scale * first]), out)
        return out

    def bound(self, value: float) -> float:
        """The best lower bound of the tangents; ``value`` is the objective."""
        assert self.tangents is not None
        live, offsets, sizes, alpha, w = self.tangents
        n = len(live)
        later = np.triu(np.ones((n + 1, n)))
        ss, sy, yy = self._part(0, 0), self._part(0, 1), self._part(1, 1)
        change, here = yy - sy - sy.T + ss, self.now + 1
        ahead, hh = later @ (self.gram[2 * live + 1, here] - self.gram[2 * live, here]), float(self.gram[here, here])
        square = hh - ahead[:, None] - ahead[None] + later @ change @ later.T
        alone = float(offsets[-1] - 0.5 * square[-1, -1])
        if offsets @ alpha - 0.5 * alpha @ square @ alpha < alone:
            alpha = np.append(np.zeros(n), 1.0)
        alpha = alpha.copy()
        best_shares(offsets, square, alpha, _TUNING.enough * max(value - alone, 0.0), _TUNING.steps)
        alpha /= alpha.sum()
        self.tangents = self.proven = _Tangents(live, offsets, sizes, alpha, w)
        passed = np.cumsum(alpha)[:n]
        size = float(alpha @ sizes) + hh + 2.0 * n * float(passed**2 @ np.diagonal(yy + ss))
        return float(offsets @ alpha - 0.5 * alpha @ square @ alpha) - ULPS * size

    def certificate(self) -> GradientCertificate:
        """Points and shares of the last bound."""
        assert self.proven is not None
        live, _, _, alpha, w = self.proven
        point, points = w.copy(), []
        for t in range(len(live), -1, -1):
            if alpha[t] > 0:
                points.append(point.copy())
            if t:
                point -= self.rows[2 * live[t - 1]]
        return GradientCertificate(tuple(points), alpha[alpha > 0][::-1].copy())


def _offset(w: np.ndarray, found: Evaluation) -> tuple[float, float]:
    """The tangent's value at 0 less the quadratic, and the size of the numbers it is made of."""
    slope, square = float(inner(found.gradient, w)), 0.5 * float(inner(w, w))
    return found.value - slope + square, abs(found.value) + abs(slope) + square


@dataclass(eq=False)
class LimitedMemoryState:
    """The present weights, their evaluation, and what is remembered; the objective is free and exact and has modulus 1.

    The lower bound is that of the tangents at hand, which can fall a little from one iteration to the next.
    """

    objective: SmoothObjective = field(metadata=REBUILT)
    w: np.ndarray
    memory: Memory
    found: Evaluation | None = None

    def certificate(self) -> GradientCertificate:
        """The proof of the last bound."""
        return self.memory.certificate()

    def step(self, training: Training) -> None:
        """Move to better weights (the first step stays), and record them with the bound of the tangents."""
        objective, memory = self.objective, self.memory
        if self.found is None:
            self.found = objective.ask(self.w)
            memory.start(self.w, self.found)
        else:
            answer = self._better(self.found)
            if answer is None:
                training.end(Termination.stalled)
                return
            w, found = answer
            memory.add(self.w, self.found, w, found)
            self.w, self.found = w, found
        found = self.found
        training.offer(self.w, found.value, True)
        training.dual, training.certificate = memory.bound(found.value), self.certificate  # type: ignore[assignment]
        training.extra["projected_gradient"] = float(inner(found.gradient, found.gradient)) ** 0.5
        if not found.gradient.any():
            training.end(Termination.converged)

    def _better(self, found: Evaluation) -> tuple[np.ndarray, Evaluation] | None:
        """Better weights along the quasi-Newton direction, or else along the gradient; None if there are none."""
        objective, w, answer = self.objective, self.w, None
        if self.memory.tangents is not None and len(self.memory.tangents.live):
            d = self.memory.direction()
            slope = float(inner(found.gradient, d))
            answer = _search(objective, w, found, d, slope, 1.0) if slope < 0 else None
        if answer is None:
            d = -found.gradient
            answer = _search(objective, w, found, d, -float(inner(d, d)), _careful(d, w))
        return answer
