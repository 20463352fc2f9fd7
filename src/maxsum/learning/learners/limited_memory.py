r"""L-BFGS for exact, strongly convex objectives without constraints, at two passes over a few long vectors an iteration.

The inverse matrix is kept in compact form (Byrd, Nocedal and Schnabel 1994): inner products of steps and gradient changes, and one
combination of them for a direction. The same products give the tangents' lower bound: with modulus 1 and :math:`h_t = g_t - w_t`,

.. math:: \min_w F(w) \ge \max_{\alpha \ge 0,\ \sum\alpha = 1}\ \sum_t \alpha_t a_t - \tfrac12\Big\|\sum_t\alpha_t h_t\Big\|^2,
          \qquad a_t = F(w_t) - \langle g_t, w_t\rangle + \tfrac12\|w_t\|^2,

as the :math:`h_t` differ by steps and gradient changes. So neither points nor tangents take room of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.result import Termination
from ...kernels.limited_memory import best_shares, combination, products
from ...kernels.vectors import inner
from ..driver import Training
from ..objectives.smooth import _ULPS, Evaluation, GradientCertificate, SmoothObjective
from .quasi_newton import _careful, _first, _search

_STEPS = 1000
_ENOUGH = 1e-4
_CURVED = 1e-12


class _Tangents(NamedTuple):
    """What proves the bound: places of the pairs, oldest first, and offset, size and share of each point, the newest last."""

    live: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    alpha: np.ndarray
    w: np.ndarray


class Memory:
    """The last steps and gradient changes, their inner products, and the tangents at their ends.

    Place ``i`` has its step in row ``2 i`` and its change in row ``2 i + 1``; the last two rows hold the gradient and ``h = g - w``. A
    free place is written before anything refers to it, so that an interrupt leaves the last state whole.
    """

    def __init__(self, n_weights: int, size: int):
        self.rows, self.size = np.empty((2 * size + 4, n_weights)), size
        self.now = 2 * size + 2
        self.gram = np.zeros((2 * size + 4, 2 * size + 4))
        self.tangents: _Tangents | None = None
        self.proven: _Tangents | None = None

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
        curved = np.diagonal(sy) > _CURVED * np.sqrt(np.diagonal(ss) * np.diagonal(yy))
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
        best_shares(offsets, square, alpha, _ENOUGH * max(value - alone, 0.0), _STEPS)
        alpha /= alpha.sum()
        self.tangents = self.proven = _Tangents(live, offsets, sizes, alpha, w)
        passed = np.cumsum(alpha)[:n]
        size = float(alpha @ sizes) + hh + 2.0 * n * float(passed**2 @ np.diagonal(yy + ss))
        return float(offsets @ alpha - 0.5 * alpha @ square @ alpha) - _ULPS * size

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

    def state(self) -> dict[str, np.ndarray]:
        """Arrays that `restore` goes on from."""
        assert self.tangents is not None
        live, offsets, sizes, alpha, w = self.tangents
        pairs = {"steps": self.rows[2 * live], "changes": self.rows[2 * live + 1]}
        return {**pairs, "w": w, "offsets": np.stack([offsets, sizes]), "alpha": alpha}

    def restore(self, state: dict[str, np.ndarray], g: np.ndarray) -> None:
        """The state that `state` gave, at a point of gradient ``g``."""
        live, w = np.arange(len(state["steps"])), np.array(state["w"])
        self.rows[2 * live], self.rows[2 * live + 1] = state["steps"], state["changes"]
        for n in range(len(live) + 1):
            self._meet(w, g, live[:n])
        offsets, sizes = np.array(state["offsets"])
        self.tangents = _Tangents(live, offsets, sizes, np.array(state["alpha"]), w)


def _offset(w: np.ndarray, found: Evaluation) -> tuple[float, float]:
    """The tangent's value at 0 less the quadratic, and the size of the numbers it is made of."""
    slope, square = float(inner(found.gradient, w)), 0.5 * float(inner(w, w))
    return found.value - slope + square, abs(found.value) + abs(slope) + square


def minimise(objective: SmoothObjective, training: Training, init: Any, memory: int) -> None:
    """Minimise a free, exact objective with modulus 1 until the gap of the training is closed.

    The lower bound of the training is that of the tangents at hand, which can fall a little from one iteration to the next.
    """
    own = Memory(objective.n_weights, memory)
    state = training.resume()
    if state is None:
        w = _first(objective, init)
        training.weights = w.copy()
        found = objective.ask(w)
        own.start(w, found)
    else:
        found = Evaluation(float(state["value"][0]), np.array(state["gradient"]))
        own.restore(state, found.gradient)
        assert own.tangents is not None
        w = own.tangents.w
    training.state = lambda: {**own.state(), "gradient": found.gradient, "value": np.array([found.value])}
    while True:
        training.offer(w, found.value, True)
        training.dual, training.certificate = own.bound(found.value), own.certificate  # type: ignore[assignment]
        training.extra["projected_gradient"] = float(inner(found.gradient, found.gradient)) ** 0.5
        if training.step(training.n_iter + 1):
            return
        if not found.gradient.any():
            training.termination = Termination.converged
            return
        assert own.tangents is not None
        answer = None
        if len(own.tangents.live):
            d = own.direction()
            slope = float(inner(found.gradient, d))
            answer = _search(objective, w, found, d, slope, 1.0) if slope < 0 else None
        if answer is None:
            d = -found.gradient
            answer = _search(objective, w, found, d, -float(inner(d, d)), _careful(d, w))
        if answer is None:
            training.termination = Termination.stalled
            return
        new_w, new = answer
        own.add(w, found, new_w, new)
        w, found = new_w, new
