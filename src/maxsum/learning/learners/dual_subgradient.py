"""The plain subgradient algorithm of Franc & Laskov (2011, section 5) on the dual bound, with normalised steps, and a bound from averages."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from ..driver import Training
from ..dual.dual_bound import DualBound
from ..objectives.margin import MarginObjective
from ..state import REBUILT


@dataclass(frozen=True)
class Tuning:
    """Numbers of the steps; the length of the first one is what matters, and users can give it.

    Attributes
    ----------
    steps : int
        Steps an iteration: a bound takes as long as a few of them.
    share : float
        First step as a part of the radius in which the best weights lie.
    """

    steps: int = 10
    share: float = 0.1


_TUNING = Tuning()


@dataclass(eq=False)
class DescentState:
    r"""Steps :math:`w \leftarrow \Pi(w - \eta_t F'_w / \|F'_w\|)` and :math:`\varphi \leftarrow \varphi - \eta_t F'_\varphi /
    \|F'_\varphi\|` with :math:`\eta_t = \eta_0/\sqrt{t}`, which sum to infinity and go to 0.

    The labellings that the subgradients come from are averaged, each with the length of the step in the messages, since the last
    power of two; moved into the local polytope the averages are a dual feasible point.

    Attributes
    ----------
    step_size : float, optional
        :math:`\eta_0`. By default a tenth of the radius :math:`\sqrt{2 F(0)}` in which the best weights lie, and, in the messages, a
        tenth of the norm that all messages would have if each was as large as the mean loss of a node.
    w, phi : ndarray
        Weights and messages; ``best_phi`` are the messages of the best weights so far.
    node, edge : ndarray
        Sums of labellings since step ``fresh``, which weigh ``total`` together.
    """

    objective: MarginObjective = field(metadata=REBUILT)
    step_size: float | None = field(metadata=REBUILT)
    bound: DualBound = field(init=False, metadata=REBUILT)
    w: np.ndarray = field(init=False)
    phi: np.ndarray = field(init=False)
    best_phi: np.ndarray = field(init=False)
    node: np.ndarray = field(init=False)
    edge: np.ndarray = field(init=False)
    total: float = 0.0
    count: int = 0
    fresh: int = 1

    def __post_init__(self) -> None:
        self.bound = bound = DualBound(self.objective)
        self.w, self.phi = np.zeros(self.objective.n_weights), bound.zeros()
        self.best_phi = self.phi
        self.node, self.edge = bound.empty_tables()
        first = float(np.sqrt(2.0 * bound.primal(self.w, bound.evaluate(self.w, self.phi).slack)))
        table, given = self.objective.loss_table, self.step_size
        mean = float(table.max(axis=1).mean()) if len(table) else 0.0
        self._size_w = _TUNING.share * first if given is None else given
        self._size_phi = _TUNING.share * np.sqrt(self.phi.size) * mean if given is None else given

    def step(self, training: Training) -> None:
        """Some steps, then a bound from the averages."""
        training.extra["bound"] = self.bound
        for _ in range(_TUNING.steps):
            self._descend(training)
            if training.seconds_left <= 0:
                break
        active = self.objective.c > 0
        found = self.bound.settled(self.node / self.total, self.edge / self.total, np.where(active, 0.0, 1.0))
        if found.dual > training.dual:
            training.bound(found.dual, found.certificate())  # type: ignore[arg-type]
        other = self.objective.repair(found.weights)
        self._offer(training, other, self.bound.evaluate(other, self.phi).slack)
        training.extra["messages"] = self.best_phi

    def _offer(self, training: Training, w: np.ndarray, slack: np.ndarray) -> None:
        if training.offer(w, self.bound.primal(w, slack), False):
            self.best_phi = training.extra["messages"] = self.phi.copy()

    def _descend(self, training: Training) -> None:
        objective, bound = self.objective, self.bound
        self.count += 1
        started = time.perf_counter()
        point = bound.evaluate(self.w, self.phi)
        objective.seconds += time.perf_counter() - started
        objective.n_calls += objective.n_examples
        self._offer(training, self.w, point.slack)
        grad, turn = bound.subgradient(self.w, point.labels)
        length, width = float(np.linalg.norm(grad)), float(np.linalg.norm(turn))
        if self.count >= 2 * self.fresh:
            (self.node, self.edge), self.total, self.fresh = bound.empty_tables(), 0.0, self.count
        share = 1.0 / (np.sqrt(self.count) * width) if width > 0 else 1.0 / np.sqrt(self.count)
        for j in np.flatnonzero(objective.c > 0).tolist():
            bound.add(self.node, self.edge, j, point.labels, share)
        self.total += share
        if length > 0:
            self.w = objective.repair(self.w - self._size_w / np.sqrt(self.count) / length * grad)
        if width > 0:
            self.phi = self.phi - self._size_phi / np.sqrt(self.count) / width * turn
