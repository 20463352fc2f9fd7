"""CuttingPlane: Algorithm 4 of the 2008 paper, n-slack and 1-slack, with hard constraints and stabilisation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ...core.errors import InvalidSampleError
from ...core.result import Termination
from ...qp.reduced import ReducedQP
from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..objectives.base import Answer, Objective, PlaneObjective
from ..oracles.relaxed import Relaxed
from ..protocols import HasPlanes


@dataclass(frozen=True)
class Tuning:
    """Numbers that trade time for time; none of them changes what is proven.

    Attributes
    ----------
    idle : int
        Solutions of the reduced problem after which a plane without weight goes: fewer make small programs, and planes that come back.
    first_proximity : float
        The first weight of the distance to the best weights, in units of the regularisation.
    serious : float
        Part of the predicted decrease from which on a step has kept its promise, as usual for bundle methods.
    few_examples : int
        Up to so many, steps are stabilised: few slacks make a rough model whose solution jumps.
    """

    idle: int = 30
    first_proximity: float = 1.0
    serious: float = 0.1
    few_examples: int = 100


_TUNING = Tuning()


@dataclass(frozen=True)
class CuttingPlane(Learner):
    r"""Cutting planes: solve the reduced quadratic program over the planes found so far, ask the oracle at its solution, add
    what is violated.

    .. math:: \max_{\alpha,\mu}\; b^\top\alpha - \tfrac12\|Z\alpha + A^\top\mu\|^2,\quad \textstyle\sum_{i\in j}\alpha_i \le c_j

    Hard constraints :math:`A w \ge 0` of the cone are in every reduced program. A plane is added if it satisfies the rule (30);
    the training stops by the duality gap (31).

    Parameters
    ----------
    slacks : {"n", "one"}
        A slack for each example, or one for all with averaged planes.
    stabilise : bool or None
        Ask the oracle at the proximal point
        :math:`\arg\min_w F_{model}(w) + \tfrac\rho2\|w - \hat w\|^2` around the best weights so far; None does so for few examples
        (at most 100), where the solution of the reduced program jumps most.
    absolute : float, optional
        Stop at this absolute gap as well.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes,)

    slacks: str = "n"
    stabilise: bool | None = None
    absolute: float = 0.0

    def _check(self, objective: Objective) -> None:
        super()._check(objective)
        if self.slacks not in ("n", "one"):
            raise InvalidSampleError(f"slacks is {self.slacks!r}, wanted 'n' or 'one'.")
        if not self.absolute >= 0:
            raise InvalidSampleError(f"absolute is {self.absolute!r}, wanted a gap >= 0.")

    def init(self, objective: PlaneObjective, training: Training, start: Any = None) -> CuttingState:
        return CuttingState(Master(objective, self.slacks == "one", start if isinstance(start, Master) else None))

    def step(self, state: CuttingState, training: Training) -> None:
        """The reduced problem, the oracle at its solution, new planes."""
        master, objective = state.master, state.master.objective
        training.extra["planes"] = master
        # where to ask: at the solution, or between it and the best weights so far
        master.solve(self.tol, training)
        steady = objective.n_examples <= _TUNING.few_examples if self.stabilise is None else self.stabilise
        proximal = steady and np.isfinite(training.primal)
        w = objective.repair(master.proximal_point(training.weights, training) if proximal else master.w)
        answer = objective.tighten_brackets(w, objective.ask(w), master.dual, self.tol, training.seconds_left)
        primal = objective.primal(w, np.maximum(answer.upper, 0.0))
        if proximal:
            master.adapt(training.primal - primal, training.primal - master.dual)
        training.offer(w, primal, answer.is_proven)
        training.bound(master.dual, state.certificate)
        added = master.add(answer, w, max(self.tol * abs(training.primal), self.absolute), training)
        # whether this was the last step
        if training.primal - training.dual <= self.absolute:
            training.end(Termination.converged)
        elif not added and not proximal and master.precise:
            words = "CuttingPlane: no plane violates the rule (30); the oracle's open brackets keep the gap."
            training.end(Termination.stalled, words)
        elif not added:
            master.sharpen()
            master.loosen()


@dataclass(eq=False)
class CuttingState:
    """The reduced problem."""

    master: Master

    def certificate(self) -> DualCertificate:
        """The proof of its dual value."""
        return self.master.certificate()


class Master:
    """The reduced problem: planes, their products, multipliers; kept over C, and in checkpoints."""

    holds = (Relaxed,)

    def __init__(self, objective: PlaneObjective, one: bool, before: Master | None = None):
        self.objective, self.one = objective, one
        self.proximity = _TUNING.first_proximity
        self.precision = 0.1
        if before is not None and before.objective is objective and not (before.one or one):
            self._take(before)
            return
        matrix = objective.cone.matrix
        self.n_rows = matrix.shape[0]
        self.rows = sparse.csr_array(matrix)
        self.offset = np.zeros(self.n_rows)
        self.examples = np.full(self.n_rows, -1, dtype=np.int64)
        self.keys: list[Any] = [None] * self.n_rows
        self.idle = np.zeros(self.n_rows, dtype=np.int64)
        self.qp = self._new_qp()
        self._refresh()

    def _new_qp(self) -> ReducedQP:
        qp = ReducedQP([1.0] if self.one else self.objective.c, loose=True)
        if len(self.offset):
            blocks = np.where(self.examples < 0, -1, 0 if self.one else self.examples)
            qp.extend((self.rows @ self.rows.T).toarray(), self.offset, blocks)
        return qp

    def _take(self, before: Master) -> None:
        for name in ("n_rows", "rows", "offset", "examples", "keys", "idle", "qp"):
            setattr(self, name, getattr(before, name))
        self.qp.reweight(self.objective.c)
        self._refresh()

    def _refresh(self) -> None:
        alpha = self.qp.alpha
        self.w = np.asarray(self.rows.T @ alpha).reshape(-1) if len(alpha) else np.zeros(self.objective.n_weights)
        self.dual = float(alpha @ self.offset - 0.5 * (self.w @ self.w))

    @property
    def precise(self) -> bool:
        return self.precision <= 1e-3

    def sharpen(self) -> None:
        """Solve the next reduced problems more exactly."""
        self.precision = max(1e-4, 0.1 * self.precision)

    def loosen(self) -> None:
        """Less stabilisation, after a proximal point where the oracle found nothing new."""
        self.proximity = 0.1 * self.proximity if self.proximity > 1e-2 else 0.0

    def solve(self, tol: float, training: Training) -> None:
        """The reduced problem, to a fraction of the tolerance."""
        if len(self.qp) == 0:
            return
        started = time.perf_counter()
        self.qp.warm(self.qp.alpha.copy())
        self.qp.solve(max(1e-12, self.precision * max(tol, 1e-9)), training.seconds_left)
        training.qp_seconds += time.perf_counter() - started
        self._refresh()
        self.idle = np.where(self.qp.alpha > 0, 0, self.idle + 1)
        old = (self.idle > _TUNING.idle) & (self.examples >= 0)
        if old.any():
            self._remove(old)

    def _remove(self, mask: np.ndarray) -> None:
        self.qp.remove(mask)
        keep = ~mask
        self.rows = sparse.csr_array(self.rows[np.flatnonzero(keep)])
        self.offset, self.examples, self.idle = self.offset[keep], self.examples[keep], self.idle[keep]
        self.keys = [key for key, stays in zip(self.keys, keep, strict=True) if stays]
        self._refresh()

    def proximal_point(self, centre: np.ndarray, training: Training) -> np.ndarray:
        r"""Minimiser of the model plus :math:`\tfrac\rho2\|w - \hat w\|^2`: the same program with other offsets."""
        if len(self.qp) == 0:
            return self.w
        started = time.perf_counter()
        rho = self.proximity
        moved = (1 + rho) * self.offset - rho * np.asarray(self.rows @ centre).reshape(-1)
        alpha = self.qp.solve_with(moved, max(1e-9, 0.1 * max(training.learner.tol, 1e-6)), training.seconds_left)
        training.qp_seconds += time.perf_counter() - started
        return (np.asarray(self.rows.T @ alpha).reshape(-1) + rho * centre) / (1 + rho)

    def adapt(self, decrease: float, predicted: float) -> None:
        """Weaker stabilisation after a step that kept its promise, stronger after one that did not."""
        if decrease >= _TUNING.serious * predicted:
            self.proximity *= 0.5
        elif decrease < 0:
            self.proximity = min(1e3, 1.5 * self.proximity)
        if self.proximity < 1e-3:
            self.proximity = 0.0

    def add(self, answer: Answer, w: np.ndarray, epsilon: float, training: Training) -> int:
        """Planes that the rule (30) lets in, as long as there is time; returns how many."""
        objective = self.objective
        if self.one:
            planes = [objective.plane(int(j), key) for j, key in zip(answer.examples, answer.keys, strict=True)]
            z, b = np.zeros(objective.n_weights), 0.0
            for plane, value in zip(planes, answer.value, strict=True):
                if value > 0:
                    z[plane.index] += objective.c[plane.example] * plane.value
                    b += objective.c[plane.example] * plane.offset
            own = self.examples >= 0
            known = float(self.qp.alpha[own] @ (self.offset - np.asarray(self.rows @ w).reshape(-1))[own])
            if b - z @ w - known <= 0.1 * epsilon:
                return 0
            keys = [(answer.examples[answer.value > 0], [k for k, v in zip(answer.keys, answer.value, strict=True) if v > 0])]
            self._append(sparse.csr_array(z[None]), np.array([b]), np.zeros(1, dtype=np.int64), keys)
            return 1
        slack = self.offset - np.asarray(self.rows @ w).reshape(-1)
        reached = np.zeros(objective.n_examples)
        own = self.examples >= 0
        np.add.at(reached, self.examples[own], (self.qp.alpha * slack)[own])
        wanted = objective.c[answer.examples] * answer.value - reached[answer.examples] > 0.1 * epsilon / objective.n_examples
        new = [
            i
            for i in np.flatnonzero(wanted)
            if answer.value[i] > 0 and not self._known(int(answer.examples[i]), answer.keys[i])
        ]
        if not new:
            return 0
        planes = []
        for i in new:
            planes.append(objective.plane(int(answer.examples[i]), answer.keys[i]))
            if training.seconds_left <= 0:
                break
        ptr = np.cumsum([0] + [len(plane.index) for plane in planes])
        rows = sparse.csr_array(
            (np.concatenate([p.value for p in planes]), np.concatenate([p.index for p in planes]), ptr),
            shape=(len(planes), objective.n_weights),
        )
        self._append(rows, np.array([p.offset for p in planes]), np.array([p.example for p in planes]), [p.key for p in planes])
        return len(planes)

    def _known(self, j: int, key: np.ndarray) -> bool:
        return any(np.array_equal(self.keys[i], key) for i in np.flatnonzero(self.examples == j))

    def _append(self, rows: Any, offset: np.ndarray, examples: np.ndarray, keys: list[Any]) -> None:
        every = sparse.csr_array(sparse.vstack([self.rows, rows], format="csr"))
        columns = np.asarray((every @ rows.T).toarray())
        self.qp.extend(columns, offset, examples)
        self.rows, self.offset = every, np.concatenate([self.offset, offset])
        self.examples = np.concatenate([self.examples, examples])
        self.keys += keys
        self.idle = np.concatenate([self.idle, np.zeros(len(offset), dtype=np.int64)])

    def certificate(self) -> DualCertificate:
        """The planes with weight, averaged ones taken apart, and the multipliers of the cone."""
        alpha = self.qp.alpha
        examples, keys, weight = [], [], []
        for i in np.flatnonzero((alpha > 0) & (self.examples >= 0)):
            if self.one:
                members, labels = self.keys[i]
                examples += members.tolist()
                keys += labels
                weight += (alpha[i] * self.objective.c[members]).tolist()
            else:
                examples.append(int(self.examples[i]))
                keys.append(self.keys[i])
                weight.append(alpha[i])
        return DualCertificate(np.array(examples, dtype=np.int64), tuple(keys), np.array(weight), alpha[: self.n_rows].copy())

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        kept = {name: getattr(self, name) for name in ("offset", "examples", "idle", "rows", "proximity", "precision")}
        return kept | {"keys": self.keys[self.n_rows :], "alpha": self.qp.alpha.copy(), "crawled": bool(self.qp.crawled)}

    def restore(self, state: dict[str, Any]) -> None:
        """What `state` gave."""
        for name in ("offset", "examples", "idle", "rows", "proximity", "precision"):
            setattr(self, name, state[name])
        self.keys = [None] * self.n_rows + state["keys"]
        self.qp = self._new_qp()
        self.qp.crawled = state["crawled"]
        self.qp.warm(state["alpha"])
        self._refresh()
