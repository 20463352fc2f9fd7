"""CuttingPlane: Algorithm 4 of the 2008 paper, n-slack and 1-slack, with hard constraints and stabilisation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...core.errors import InvalidSampleError
from ..driver import Learner, Training
from ..dual.vectors import VectorModel
from ..objectives.margin import Answer, Objective, Plane
from .block_frank_wolfe import certain, feasible, is_exact


@dataclass(frozen=True)
class Tuning:
    """Constants of `CuttingPlane`. Proximities are relative to the curvature 1 of the regulariser."""

    idle: int = 30  # solutions without weight after which a plane goes: more keep the program large, fewer find planes twice
    first_precision: float = 0.1  # of the tolerance, to which reduced problems are solved at first
    precise: float = 1e-3  # of the tolerance: where the reduced problem cannot be what keeps the gap open
    first_proximity: float = 1.0
    most_proximity: float = 1e3
    least_proximity: float = 1e-3  # less than this is none
    loose_proximity: float = 1e-2  # less than this is given up at once where the oracle finds nothing new
    serious: float = 0.1  # part of the promised decrease that makes a step serious, as usual for bundle methods


TUNING = Tuning()


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

    slacks: str = "n"
    stabilise: bool | None = None
    absolute: float = 0.0

    def _check(self, objective: Objective) -> None:
        super()._check(objective)
        if self.slacks not in ("n", "one"):
            raise InvalidSampleError(f"slacks is {self.slacks!r}, wanted 'n' or 'one'.")
        if not self.absolute >= 0:
            raise InvalidSampleError(f"absolute is {self.absolute!r}, wanted a gap >= 0.")

    def _run(self, objective: Objective, training: Training, init: Any) -> None:
        master = Master(objective, self.slacks == "one", init if isinstance(init, Master) else None)
        training.extra["planes"] = master
        state = training.resume()
        training.state = master.state
        if state is not None:
            master.restore(state)
            training.certificate = master.certificate
            if training.step(training.n_iter + 1):
                return
        steady = objective.n_examples <= 100 if self.stabilise is None else self.stabilise
        while True:
            master.solve(self.tol, training)
            proximal = steady and np.isfinite(training.primal)
            w = feasible(objective, master.proximal_point(training.weights, training) if proximal else master.w)
            answer = certain(objective, w, objective.ask(w), master.dual, self.tol, training.seconds_left)
            primal = objective.primal(w, np.maximum(answer.upper, 0.0))
            if proximal:
                master.adapt(training.primal - primal, training.primal - master.dual)
            training.offer(w, primal, is_exact(answer))
            training.bound(master.dual, master.certificate)
            scale = self.tol * abs(training.primal)
            added = master.add(answer, w, max(scale, self.absolute), training)
            if training.step(training.n_iter + 1):
                return
            if training.primal - training.dual <= self.absolute:
                training.termination = training.termination.converged
                return
            if not added and not proximal and master.precise:
                training.termination = training.termination.stalled
                training.message = "CuttingPlane: no plane violates the rule (30); the oracle's open brackets keep the gap."
                return
            if not added:
                master.sharpen()
                master.loosen()


class Master(VectorModel):
    """The reduced problem of a training: its planes (kept over C, and in checkpoints), and what rules how well it is solved and where the
    oracle is asked."""

    def __init__(self, objective: Objective, one: bool, before: Master | None = None):
        super().__init__(objective, one)
        self.proximity, self.precision = TUNING.first_proximity, TUNING.first_precision
        if before is not None and before.objective is objective and not (before.one or one):
            for name in ("rows", "offset", "block", "keys", "idle", "qp"):
                setattr(self, name, getattr(before, name))
            self.rescale(objective.c)

    @property
    def w(self) -> np.ndarray:
        return self.weights.value

    @property
    def precise(self) -> bool:
        return self.precision <= TUNING.precise

    def sharpen(self) -> None:
        """Solve the next reduced problems more exactly."""
        self.precision = max(0.1 * TUNING.precise, 0.1 * self.precision)

    def loosen(self) -> None:
        """Less stabilisation, after a proximal point where the oracle found nothing new."""
        self.proximity = 0.1 * self.proximity if self.proximity > TUNING.loose_proximity else 0.0

    def solve(self, tol: float, training: Training) -> None:
        """The reduced problem, to a fraction of the tolerance; planes without weight for long are dropped."""
        started = time.perf_counter()
        self.correct(max(1e-12, self.precision * max(tol, 1e-9)), training.seconds_left)
        training.qp_seconds += time.perf_counter() - started
        old = self.idle > TUNING.idle
        if old.any():
            self.remove(old)

    def proximal_point(self, centre: np.ndarray, training: Training) -> np.ndarray:
        r"""Minimiser of the model plus :math:`\tfrac\rho2\|w - \hat w\|^2`: the same program with other offsets."""
        if len(self.qp) == 0:
            return self.w
        started = time.perf_counter()
        rho = self.proximity
        every = sparse.vstack([self.hard, self.rows], format="csr")
        moved = (1 + rho) * self.qp.offset - rho * np.asarray(every @ centre).reshape(-1)
        alpha = self.qp.solve_with(moved, max(1e-9, 0.1 * max(training.learner.tol, 1e-6)), training.seconds_left)
        training.qp_seconds += time.perf_counter() - started
        return (np.asarray(every.T @ alpha).reshape(-1) + rho * centre) / (1 + rho)

    def adapt(self, decrease: float, predicted: float) -> None:
        """Weaker stabilisation after a step that kept its promise, stronger after one that did not."""
        if decrease >= TUNING.serious * predicted:
            self.proximity *= 0.5
        elif decrease < 0:
            self.proximity = min(TUNING.most_proximity, 1.5 * self.proximity)
        if self.proximity < TUNING.least_proximity:
            self.proximity = 0.0

    def add(self, answer: Answer, w: np.ndarray, epsilon: float, training: Training) -> int:
        """Planes that the rule (30) lets in, as long as there is time; returns how many."""
        objective, reached = self.objective, self.alpha * self.slack(w)
        if self.one:
            z, b, members, keys = np.zeros(objective.n_weights), 0.0, [], []
            for j, key, value in zip(answer.examples.tolist(), answer.keys, answer.value, strict=True):
                if value > 0:
                    plane = objective.plane(j, key)
                    z[plane.index] += objective.c[j] * plane.value
                    b += objective.c[j] * plane.offset
                    members.append(j)
                    keys.append(key)
            if b - z @ w - float(reached.sum()) <= 0.1 * epsilon:
                return 0
            self.append(
                sparse.csr_array(z[None]),
                np.array([b]),
                np.zeros(1, dtype=np.int64),
                [(np.array(members, dtype=np.int64), keys)],
            )
            return 1
        mass = np.bincount(self.block, reached, objective.n_examples)[answer.examples]
        wanted = (objective.c[answer.examples] * answer.value - mass > 0.1 * epsilon / objective.n_examples) & (
            answer.value > 0
        )
        planes: list[Plane] = []
        for i in np.flatnonzero(wanted):
            j, key = int(answer.examples[i]), answer.keys[i]
            if any(np.array_equal(self.keys[k], key) for k in np.flatnonzero(self.block == j)):
                continue
            planes.append(objective.plane(j, key))
            if training.seconds_left <= 0:
                break
        self.append_planes(planes)
        return len(planes)

    def append_planes(self, planes: list[Plane]) -> None:
        """Add planes of examples."""
        if planes:
            ptr = np.cumsum([0] + [len(plane.index) for plane in planes])
            entries = np.concatenate([p.value for p in planes]), np.concatenate([p.index for p in planes]), ptr
            rows = sparse.csr_array(entries, shape=(len(planes), self.objective.n_weights))
            block = np.array([p.example for p in planes], dtype=np.int64)
            self.append(rows, np.array([p.offset for p in planes]), block, [p.key for p in planes])

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "ruling": np.array([self.proximity, self.precision])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self.proximity, self.precision = (float(v) for v in state["ruling"])
