"""CuttingPlane: Algorithm 4 of the 2008 paper, n-slack and 1-slack, with hard constraints and stabilisation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ...core.parameters import Flag, Maybe, OneOf, Real, settings
from ...core.result import Termination
from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..dual.vectors import VectorModel
from ..objectives.base import Answer, Plane, PlaneObjective
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
    first_precision : float
        Part of the tolerance to which reduced problems are solved at first.
    precise : float
        Part of the tolerance at which the reduced problem cannot be what keeps the gap open.
    most_proximity, least_proximity, loose_proximity : float
        The largest; what is smaller is none; what is smaller is given up at once where the oracle finds nothing new.
    """

    idle: int = 30
    first_proximity: float = 1.0
    serious: float = 0.1
    few_examples: int = 100
    first_precision: float = 0.1
    precise: float = 1e-3
    most_proximity: float = 1e3
    least_proximity: float = 1e-3
    loose_proximity: float = 1e-2


_TUNING = Tuning()


@dataclass(frozen=True)
class CuttingPlane(Learner):
    r"""Cutting planes: solve the reduced quadratic program over the planes found so far, ask the oracle at its solution, add
    what is violated.

    .. math:: \max_{\alpha,\mu}\; b^\top\alpha - \tfrac12\|Z\alpha + A^\top\mu\|^2,\quad \sum_{i\in j}\alpha_i \le c_j

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

    _parameters = settings(slacks=OneOf("n", "one"), stabilise=Maybe(Flag()), absolute=Real(0.0, wanted="a gap >= 0"))

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


class Master(VectorModel):
    """The reduced problem of a training: its planes (kept over C, and in checkpoints), and what rules how well it is solved and where the
    oracle is asked."""

    def __init__(self, objective: PlaneObjective, one: bool, before: Master | None = None):
        super().__init__(objective, one)
        self.proximity, self.precision = _TUNING.first_proximity, _TUNING.first_precision
        if before is not None and before.objective is objective and not (before.one or one):
            for name in ("rows", "offset", "block", "keys", "idle", "qp"):
                setattr(self, name, getattr(before, name))
            self.rescale(objective.c)

    @property
    def w(self) -> np.ndarray:
        """Weights at the solution of the reduced problem."""
        return self.weights.value

    @property
    def precise(self) -> bool:
        """Whether reduced problems are solved so exactly that their gap does not matter."""
        return self.precision <= _TUNING.precise

    def sharpen(self) -> None:
        """Solve the next reduced problems more exactly."""
        self.precision = max(0.1 * _TUNING.precise, 0.1 * self.precision)

    def loosen(self) -> None:
        """Less stabilisation, after a proximal point where the oracle found nothing new."""
        self.proximity = 0.1 * self.proximity if self.proximity > _TUNING.loose_proximity else 0.0

    def solve(self, tol: float, training: Training) -> None:
        """The reduced problem, to a fraction of the tolerance; planes without weight for long are dropped."""
        started = time.perf_counter()
        self.correct(max(1e-12, self.precision * max(tol, 1e-9)), training.seconds_left)
        training.qp_seconds += time.perf_counter() - started
        old = self.idle > _TUNING.idle
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
        if decrease >= _TUNING.serious * predicted:
            self.proximity *= 0.5
        elif decrease < 0:
            self.proximity = min(_TUNING.most_proximity, 1.5 * self.proximity)
        if self.proximity < _TUNING.least_proximity:
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

    def state(self) -> dict[str, Any]:
        return super().state() | {"proximity": self.proximity, "precision": self.precision}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.proximity, self.precision = state["proximity"], state["precision"]
