"""PenalisedCuttingPlane: cutting planes for the hinge with a penalty of absolute values."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ...core.errors import InvalidSampleError
from ...core.parameters import settings
from ...core.result import Termination
from ...executors.clock import Clock
from ..driver import Learner, Training
from ..objectives.base import Answer
from ..proofs.feature_sums import FeatureSum
from ..protocols import HasPenalisedPlanes
from ..state import REBUILT
from .hinge import PenalisedCertificate
from .programs import LinearMaster, SmoothMaster


@dataclass(frozen=True)
class Tuning:
    """Numbers that trade time for time; none of them changes what is proven.

    Attributes
    ----------
    pull : float
        Share of the master's solution in the weights that are asked; the rest are the best so far. At the solution itself, vertices of
        the linear program jump from one corner of the model to the next.
    precision : float
        Of the present gap, to which the master is solved where it is solved step by step.
    new : float
        Part of the tolerance, in the sum over examples, below which a violation is none.
    idle : int
        Solutions of the master after which a plane without weight goes.
    """

    pull: float = 0.3
    precision: float = 0.1
    new: float = 0.1
    idle: int = 20


_TUNING = Tuning()
_ROUNDING = 1e-12  # relative, of sums of planes: far more than they are off


@dataclass(frozen=True)
class PenalisedCuttingPlane(Learner):
    r"""Cutting planes for a `PenalisedHinge`: weights are exactly zero where the penalty holds them there.

    .. math:: \min_{w, \xi \ge 0}\ \rho\|w\|_1 + \tfrac{1 - \rho}2\|w\|^2 + \sum_j c_j\xi_j,\qquad \xi_j \ge b_i - \langle w, z_i\rangle

    over the planes found so far, the *master*: a linear program for :math:`\rho = 1`, by the dual simplex method of HiGHS from its last basis;
    else its dual, a smooth concave function of the multipliers over simplices, by accelerated gradient steps. The oracle is asked between the
    master's solution and the best weights so far (Ben-Ameur & Neto 2007), and at the solution itself where that finds nothing new. The lower
    bound is that of the multipliers, made feasible by scaling.

    It takes longer than learners of squares: 60 words of letters with 4004 weights and C = 0.1 took 1 CPU second to 1 % with half of either penalty, where
    `BlockFrankWolfe` takes 0.07 with squares. The linear program is the harder one: with C = 1 it was at 30 % after 9.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPenalisedPlanes,)

    _parameters = settings()

    def init(self, objective: Any, training: Training, start: Any = None) -> CuttingState:
        w = np.zeros(objective.n_weights) if start is None else np.array(start, dtype=np.float64)
        if w.shape != (objective.n_weights,) or not np.isfinite(w).all():
            raise InvalidSampleError(f"init has shape {w.shape}, wanted {objective.n_weights} finite weights.")
        training.weights = w.copy()
        return CuttingState(objective, w, sparse.csr_array((0, objective.n_weights)))

    def step(self, state: CuttingState, training: Training) -> None:
        """The oracle between the master's solution and the best weights, new planes, the master again."""
        objective, best = state.objective, training.weights
        w = best + state.pull * (state.w - best) if np.isfinite(training.primal) else state.w
        answer = objective.ask(w)
        answer = objective.tighten(w, answer, max(training.dual, 0.0), self.tol, training.seconds_left)
        training.offer(w, objective.primal(w, np.maximum(answer.upper, 0.0)), answer.is_proven)
        added = state.add(answer, w, _TUNING.new * self.tol * training.primal / objective.n_examples)
        if added:
            state.pull = _TUNING.pull
        elif state.pull < 1.0:
            state.pull = 1.0
        elif state.precise:
            training.end(Termination.stalled, "PenalisedCuttingPlane: no plane is violated at the master's solution.")
        else:
            state.precision *= 0.1
        started = time.perf_counter()
        solved = state.solve(max(self.tol * training.primal, training.primal - state.bound), training.seconds_left)
        training.qp_seconds += time.perf_counter() - started
        if solved:
            training.bound(state.bound, state.certificate)


@dataclass(eq=False)
class CuttingState:
    """The planes with their multipliers, the master's solution, and the multipliers that prove most so far."""

    objective: Any = field(metadata=REBUILT)
    w: np.ndarray
    rows: Any
    offset: np.ndarray = field(default_factory=lambda: np.zeros(0))
    block: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    alpha: np.ndarray = field(default_factory=lambda: np.zeros(0))
    idle: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    keys: list[np.ndarray] = field(default_factory=list)
    pull: float = 1.0
    precision: float = _TUNING.precision
    bound: float = 0.0
    proof_examples: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    proof_keys: list[np.ndarray] = field(default_factory=list)
    proof_alpha: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        kind = LinearMaster if self.objective.l2 == 0 else SmoothMaster
        self.master = kind(self.objective.n_weights, self.objective.c, self.objective.l1)

    @property
    def precise(self) -> bool:
        """Whether the master is solved so exactly that its gap does not matter."""
        return self.objective.l2 == 0 or self.precision < 1e-3

    def certificate(self) -> PenalisedCertificate:
        """The proof of the best bound."""
        return PenalisedCertificate(self.proof_examples, tuple(self.proof_keys), self.proof_alpha.copy(), np.zeros(0))

    def add(self, answer: Answer, w: np.ndarray, least: float) -> int:
        """Take in planes that are violated by more than ``least``, weighted; returns how many."""
        known = np.zeros(self.objective.n_examples)
        np.maximum.at(known, self.block, self.offset - np.asarray(self.rows @ w).reshape(-1))
        wanted = np.flatnonzero(self.objective.c[answer.examples] * (answer.value - known[answer.examples]) > least)
        if not len(wanted):
            return 0
        planes = [self.objective.plane(int(answer.examples[i]), answer.keys[i]) for i in wanted.tolist()]
        ptr = np.cumsum([0] + [len(plane.index) for plane in planes])
        entries = np.concatenate([p.value for p in planes]), np.concatenate([p.index for p in planes]), ptr
        new = sparse.csr_array(entries, shape=(len(planes), self.objective.n_weights))
        self.rows = sparse.csr_array(sparse.vstack([self.rows, new], format="csr"))
        self.offset = np.concatenate([self.offset, [p.offset for p in planes]])
        self.block = np.concatenate([self.block, np.array([p.example for p in planes], dtype=np.int64)])
        self.alpha = np.concatenate([self.alpha, np.zeros(len(planes))])
        self.idle = np.concatenate([self.idle, np.zeros(len(planes), dtype=np.int64)])
        self.keys = [*self.keys, *(np.array(p.key) for p in planes)]
        return len(planes)

    def solve(self, gap: float, seconds: float) -> bool:
        """Solve the master, keep what it proves, drop idle planes; False if it found nothing."""
        found = self.master.solve(self.rows, self.offset, self.block, self.alpha, self.precision * gap, Clock(seconds))
        if found is None:
            return False
        self.w, alpha = found
        total = np.bincount(self.block, alpha, self.objective.n_examples)
        limit = self.objective.c / np.maximum(total, 1e-300)
        alpha = alpha * np.minimum(1.0, limit * (1.0 - 1e-12))[self.block]
        self.alpha, self.idle = alpha, np.where(alpha > 0, 0, self.idle + 1)
        vector = np.asarray(self.rows.T @ alpha).reshape(-1)
        size = np.asarray(abs(self.rows).T @ alpha).reshape(-1)
        value = float(alpha @ self.offset)
        bound = self.objective.lowest(FeatureSum(vector, _ROUNDING * size, value, _ROUNDING * value))
        if bound >= self.bound:
            used = np.flatnonzero(alpha > 0)
            self.bound, self.proof_examples, self.proof_alpha = bound, self.block[used], alpha[used]
            self.proof_keys = [self.keys[i] for i in used.tolist()]
        old = self.idle > _TUNING.idle
        if old.any():
            self.master.remove(old)
            self.rows = sparse.csr_array(self.rows[np.flatnonzero(~old)])
            self.offset, self.block, self.alpha, self.idle = (
                own[~old] for own in (self.offset, self.block, self.alpha, self.idle)
            )
            self.keys = [key for key, gone in zip(self.keys, old, strict=True) if not gone]
        return True
