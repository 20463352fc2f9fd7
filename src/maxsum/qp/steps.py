"""The reduced problem: its solution, and steps for where pairwise ones crawl (Newton on a face, PIQP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InvalidProblemError

_EPS = float(np.finfo(float).eps)  # unit roundoff, twice
_RIDGE = 1e-13  # of the mean diagonal, added to it: columns that depend on each other leave no hole
_LARGEST_FACE = 2500  # variables of a Newton step: about a second


@dataclass(frozen=True, eq=False)
class ReducedSolution:
    r"""Answer of `ReducedQP.solve`, with its proof.

    Attributes
    ----------
    alpha : ndarray, shape (n,)
        Feasible: non-negative, blocks sum to their ``c`` up to rounding.
    value : float
        ``b' a - a' H a / 2``: no smaller than at the start.
    gap : float
        The optimum of the reduced problem is at most ``value + gap``. ``inf`` where the orthant is violated and no way to a
        feasible point is known, or where hard constraints contradict each other.
    violation : float
        Largest ``g_i`` of the non-negative variables above the rounding of ``g``, with ``g = b - H a``.
    complementarity : float
        Largest ``a_i |g_i|`` of the non-negative variables.
    stationarity : float
        Largest ``max_j g - g_i`` over variables with ``a_i > 0`` of a block.
    feasibility : float
        Largest ``|sum_j a - c_j|`` (excess only, where a sum may fall short).
    top : ndarray, shape (n_blocks,)
        ``max_i g_i`` of each block: the slacks of the reduced problem. ``-inf`` (0 if a sum may fall short) for an empty block.
    converged : bool
        The gap is at most ``tol`` relative to the value, or at the level of rounding.
    steps : int
        Pairwise and coordinate steps.
    method : str
        What was needed: ``"smo"``, and ``"piqp"``, ``"face"`` behind it.
    seconds : float
    """

    alpha: np.ndarray
    value: float
    gap: float
    violation: float
    complementarity: float
    stationarity: float
    feasibility: float
    top: np.ndarray
    converged: bool
    steps: int
    method: str
    seconds: float

    @property
    def upper(self) -> float:
        """``value + gap``: the maximum is at most that."""
        return self.value + self.gap

    @property
    def relative_gap(self) -> float:
        """The gap relative to the larger size of value and upper bound."""
        scale = max(abs(self.value), abs(self.upper))
        return 0.0 if self.gap <= 0 else (self.gap / scale if 0 < scale < np.inf else float("inf"))


def block_sums(values: np.ndarray, block: np.ndarray, n_blocks: int) -> np.ndarray:
    """Sum of the values of each block; block -1 is left out."""
    own = block >= 0
    return np.bincount(block[own], values[own], n_blocks).astype(np.float64, copy=False)


def spare(alpha: np.ndarray, block: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``c_j - sum_j a`` of each block, cut at 0."""
    return np.maximum(weights - block_sums(alpha, block, len(weights)), 0.0)


def face_step(
    gram: np.ndarray, alpha: np.ndarray, grad: np.ndarray, block: np.ndarray, weights: np.ndarray, loose: bool
) -> bool:
    r"""One Newton step on the face of the positive variables; ``alpha`` and ``grad`` are changed in place.

    .. math:: \max_d\; g^T d - \tfrac12 d^T H d, \qquad \sum_{i \in j} d_i = 0 \text{ for blocks without spare weight},

    cut at the first variable that reaches zero, or projected where that gains more. Returns whether a bound was hit, that is
    whether another step may help.
    """
    free = np.flatnonzero(alpha > 0)
    if not 0 < len(free) <= _LARGEST_FACE:
        return False
    room = spare(alpha, block, weights) if loose else np.zeros_like(weights)
    room[room <= 4 * _EPS * weights] = 0.0
    own = block[free]
    tight = np.append(room == 0, False)[own]
    held, rank = np.unique(own[tight], return_inverse=True)
    m, k = len(free), len(held)
    part = gram[np.ix_(free, free)]
    system = np.zeros((m + k, m + k))
    system[:m, :m] = part
    system[np.arange(m), np.arange(m)] += _RIDGE * max(float(part.trace()) / m, 1e-300)
    level = max(float(np.abs(np.diag(part)).max()), 1e-300)
    system[np.flatnonzero(tight), m + rank] = level
    system[m + rank, np.flatnonzero(tight)] = level
    right = np.concatenate([grad[free], np.zeros(k)])
    try:
        d = np.linalg.solve(system, right)[:m]
    except np.linalg.LinAlgError:
        return False
    if not np.isfinite(d).all():
        return False
    count = np.bincount(rank, minlength=k)
    d[tight] -= (np.bincount(rank, d[tight], k) / np.maximum(count, 1))[rank]
    slope, bend = float(grad[free] @ d), float(d @ part @ d)
    if not slope > 0:
        return False
    falling = d < 0
    limit = float((alpha[free][falling] / -d[falling]).min(initial=np.inf))
    if loose:
        growth = block_sums(d, own, len(weights))
        grows = (growth > 0) & (room > 0)
        limit = min(limit, float((room[grows] / growth[grows]).min(initial=np.inf)))
    best = slope / bend if bend > 0 else np.inf
    length = min(best, limit)
    if not np.isfinite(length):
        return False
    step = length * d
    gain = length * (slope - 0.5 * length * bend)
    if limit < best:
        other = _inside(alpha[free] + min(best, 1e3 * limit + 1.0) * d, own, weights, loose) - alpha[free]
        other_gain = float(grad[free] @ other - 0.5 * (other @ part @ other))
        if other_gain > gain:
            step, gain = other, other_gain
    if not gain > 0:
        return False
    new = np.maximum(alpha[free] + step, 0.0)
    if limit < best and step is not None:
        new[new <= 1e-15 * np.maximum(alpha[free], 1e-300)] = 0.0
    grad -= gram[:, free] @ (new - alpha[free])
    alpha[free] = new
    return bool(limit < best)


def _inside(alpha: np.ndarray, block: np.ndarray, weights: np.ndarray, loose: bool) -> np.ndarray:
    """Clip at zero and scale each block to its weight (only down, where a sum may fall short)."""
    alpha = np.maximum(alpha, 0.0)
    own = block >= 0
    mass = block_sums(alpha, block, len(weights))
    factor = np.divide(weights, mass, out=np.ones_like(mass), where=mass > 0)
    if loose:
        factor = np.minimum(factor, 1.0)
    alpha[own] *= factor[block[own]]
    return alpha


def interior_direction(gram: np.ndarray) -> np.ndarray | None:
    """``p >= 0`` with ``gram @ p >= 1``, or None if none was found: where the constraints leave no interior.

    The optimum of ``max 1' p - p' H p / 2`` over ``p >= 0`` is such a point.
    """
    n = len(gram)
    size = float(np.diag(gram).max(initial=0.0))
    if size <= 0 or (np.diag(gram) <= 0).any():
        return None
    p, none = np.full(n, 1.0 / size), np.zeros(0)
    grad = 1.0 - gram @ p
    outside = np.full(n, -1)
    for _ in range(50):
        for _ in range(5):
            if not face_step(gram, p, grad, outside, none, False):
                break
        grad = 1.0 - gram @ p
        if grad.max() <= 0.5:
            return p / (1.0 - float(grad.max()))
        for i in range(n):
            t = max(grad[i] / gram[i, i], -p[i])
            if t != 0:
                p[i] = max(p[i] + t, 0.0)
                grad -= t * gram[i]
        if grad.max() <= 0.5:
            return p / (1.0 - float((1.0 - gram @ p).max()))
    return None


def interior_point(
    gram: np.ndarray,
    offset: np.ndarray,
    block: np.ndarray,
    weights: np.ndarray,
    loose: bool,
    near: np.ndarray,
    size: float,
    tol: float,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Two feasible points near the optimum over the variables ``near``, by PIQP; None if it is absent or fails.

    The first is its answer, the second has the variables that go to zero removed and a Newton step on the face of the others.
    ``size`` is the size of the optimal value.
    """
    try:
        import piqp
    except ImportError:
        return None
    live = np.flatnonzero(near & np.append(weights > 0, True)[block])
    if not len(live):
        return None
    own = block[live]
    held, rank = np.unique(own[own >= 0], return_inverse=True)
    unit = float(weights[held].max()) if len(held) else 1.0
    part = gram[np.ix_(live, live)] * unit * unit
    linear = offset[live] * unit
    scale = size if size > 0 else max(float(np.diag(part).max()), float(np.abs(linear).max())) or 1.0
    sums = np.zeros((len(held), len(live)), order="F")
    sums[rank, np.flatnonzero(own >= 0)] = 1.0
    right = weights[held] / unit
    solver = piqp.DenseSolver()
    settings, eps = solver.settings, float(np.clip(1e-3 * tol, 1e-11, 1e-8))
    settings.eps_abs = settings.eps_rel = settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = eps
    settings.max_iter = 80
    form = np.asfortranarray(part / scale)
    if loose:
        solver.setup(form, -linear / scale, None, None, sums, None, right, np.zeros(len(live)), None)
    else:
        solver.setup(form, -linear / scale, sums, right, None, None, None, np.zeros(len(live)), None)
    solver.solve()
    x = np.array(solver.result.x, dtype=np.float64)
    if not np.isfinite(x).all():
        return None
    whole, trimmed = np.zeros(len(gram)), np.zeros(len(gram))
    whole[live] = _inside(x * unit, own, weights, loose)
    kept = _inside(np.where(x < np.asarray(solver.result.z_bl)[: len(x)], 0.0, x) * unit, own, weights, loose)
    mass = block_sums(kept, own, len(weights))
    if not loose and (mass[held] <= 0).any():
        return whole, whole
    trimmed[live] = kept
    grad = offset - gram @ trimmed
    for _ in range(3):
        if not face_step(gram, trimmed, grad, block, weights, loose):
            break
    trimmed[live] = _inside(trimmed[live], own, weights, loose)
    return whole, trimmed


def checked_weights(weights: Any) -> np.ndarray:
    """Weights of the blocks as an array; infinite and negative ones are refused."""
    c = np.array(weights, dtype=np.float64).reshape(-1)
    if not np.isfinite(c).all() or (c < 0).any():
        raise InvalidProblemError(f"weights of the blocks reach from {c.min()} to {c.max()}; wanted finite numbers >= 0")
    return c


def check_columns(columns: np.ndarray, offset: np.ndarray, block: np.ndarray, n: int, n_blocks: int) -> None:
    """Refuse new columns, after ``n`` others, that are not finite, in no block, or impossible as hard constraints."""
    if not np.isfinite(columns).all() or not np.isfinite(offset).all():
        raise InvalidProblemError("columns or offsets of the reduced problem are not finite; wanted finite numbers")
    if len(block) and not (block.min() >= -1 and block.max() < n_blocks):
        raise InvalidProblemError(f"blocks {block.min()} to {block.max()}; wanted -1 to {n_blocks - 1}")
    square = np.diag(columns[n:])
    if (square < 0).any():
        raise InvalidProblemError(f"a column has the square {square.min():.6g}; wanted products of vectors with themselves")
    hopeless = (block < 0) & (square == 0) & (offset > 0)
    if hopeless.any():
        i = int(np.argmax(hopeless))
        raise InvalidProblemError(
            f"hard constraint 0 >= {offset[i]:.6g} (a zero column with a positive offset) cannot hold; drop it or its offset"
        )
