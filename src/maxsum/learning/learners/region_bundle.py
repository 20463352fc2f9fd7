"""RegionBundle: the proximal bundle method with a model that is taken apart by regions, for few large graphs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UnsupportedProblemError
from ...core.parameters import Real, WholeNumber, settings
from ...kernels.records import Regions
from ...kernels.region_planes import sparse_ascend
from ...kernels.regions import extend
from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..dual.regions import RegionStore
from ..objectives.base import Answer
from ..objectives.lp import LPObjective
from ..oracles.base import Effort
from ..oracles.relaxed import Relaxed
from ..protocols import HasDesign, HasOracle, HasPlanes, HasRelaxation
from .cutting_plane import CuttingPlane, CuttingState, Master


@dataclass(frozen=True)
class Tuning:
    """Constants of `RegionBundle`."""

    passes: int = 200  # over the regions, at most, for one model
    steps: int = 3  # pairwise steps in a visit of a region
    precision: float = 0.02  # of the tolerance, to which a model is minimised,
    early: float = 0.1  # or of this part of the gap, while that is larger
    serious: float = 0.3  # part of the promised decrease that makes the proximal term lighter
    lighter: float = 0.5  # what it is multiplied with then,
    heavier: float = 1.5  # and after a point that is no better than the centre
    heaviest: float = 1e4  # times the regulariser, the most that it becomes: steps would be too short to matter
    loose: float = 0.3  # of the gap: a wider bracket of the oracle is made narrower before a point is judged
    again: int = 8  # calls of the oracle for that, at most
    often: int = 25  # models after which the objective at the centre is proven, whatever the gap
    stuck: int = 60  # models without progress after which labellings are given up
    open: int = 8  # models in a row where the relaxation alone keeps the gap open, after which they are given up too


_TUNING = Tuning()
_KEPT = ("centre", "w", "heaviness", "value", "model", "dual", "stuck", "loose", "reached", "proven")


@dataclass(frozen=True)
class RegionBundle(Learner):
    r"""Proximal bundle method whose model has a maximum of its own for each *region* of a graph.

    Labellings that the oracle gave agree on most nodes once the weights are roughly right. The nodes where they do not fall apart
    into regions without links between them. Scores and features are sums over regions, so all mixtures of the labellings of
    each region, chosen independently, are distributions of labellings, and the model is

    .. math:: F_{model}(w) = \tfrac12\|w\|^2 + \sum_r c_r \max_{a \in r}\,(b_a - \langle w, z_a\rangle) + \text{const}
              \;\le\; F(w) .

    One call of the oracle gives as many planes as there are regions, also where there is a single example. The next point minimises
    :math:`F_{model}(w) + \tfrac\tau2\|w - \hat w\|^2` by pairwise steps in its dual, with the weights cut off at 0 where the cone
    says so (their multipliers are the negative parts). The lower bound is the dual at :math:`\tau = 0`,

    .. math:: D(\alpha) = \sum_r c_r\,\alpha_r^\top b - \tfrac12\Big\|\Big[\sum_r c_r\,\alpha_r^\top z\Big]_+\Big\|^2 .

    Its planes are labellings. Where nothing but the linear relaxation keeps the gap open (or the model fails to get better),
    `CuttingPlane` goes on with pseudo-marginals, from the mixture that is known by then.

    Parameters
    ----------
    heaviness : float
        The first :math:`\tau`.
    memory : int
        For how many calls of the oracle a labelling without weight is kept. More of them make a better model, of fewer regions.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasDesign, HasOracle, HasRelaxation)

    heaviness: float = 10.0
    memory: int = 0

    _parameters = settings(heaviness=Real(above=0.0), memory=WholeNumber(0))

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        if objective.cone.rows.shape[0]:
            raise UnsupportedProblemError(
                f"RegionBundle takes free and non-negative weights; the cone has {objective.cone.rows.shape[0]} supermodular rows. "
                "Use BlockFrankWolfe."
            )

    def init(self, objective: Any, training: Training, start: Any = None) -> RegionState:
        return RegionState(_Search(self, objective, training))

    def step(self, state: RegionState, training: Training) -> None:
        """One call of the oracle and one model; where that gets nowhere, one step of `CuttingPlane`."""
        if state.cutting is not None:
            CuttingPlane(self.tol, self.max_iter, self.time_limit).step(state.cutting, training)
        elif not state.search.iterate():
            state.search.prove()
            state.cutting = CuttingState(state.search.master())

    def finish(self, state: RegionState, training: Training) -> None:
        if state.cutting is None and state.search.centre is not training.weights:
            state.search.prove()


@dataclass(eq=False)
class RegionState:
    """The search by regions, and the cutting planes that go on where it got nowhere."""

    search: _Search
    cutting: CuttingState | None = None

    def make(self, name: str, kind: str) -> CuttingState:
        """Cutting planes without a plane, for a checkpoint that has some."""
        return CuttingState(Master(self.search.objective, False))

    def certificate(self) -> DualCertificate:
        """The proof of the best bound."""
        return self.search.certificate() if self.cutting is None else self.cutting.certificate()


class _Search:
    """One training: centre, regions, the best lower bound."""

    def __init__(self, learner: RegionBundle, objective: LPObjective, training: Training):
        self.learner, self.objective, self.training = learner, objective, training
        self.store = RegionStore(objective, apart=False)
        self.planes = self.store.examples[0]
        self.stuck = self.loose = 0
        self.reached = np.inf
        self.proven = np.inf
        self.best, self.dual = self.planes.regions, 0.0
        self.centre = self.w = objective.cone.repair(np.zeros(objective.n_weights))
        self.heaviness, self.value, self.model = learner.heaviness, np.inf, 0.0
        training.bound(0.0, self.certificate)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        regions = {"regions": list(self.planes.regions), "best": list(self.best)}
        return regions | {name: getattr(self, name) for name in _KEPT}

    def restore(self, state: dict[str, Any]) -> None:
        """What `state` gave."""
        self.planes.regions, self.best = Regions(*state["regions"]), Regions(*state["best"])
        for name in _KEPT:
            setattr(self, name, state[name])

    def ask(self) -> tuple[Answer, float, float]:
        """The oracle at the query point, again while nothing but its bracket is in the way; and the objective there, from above, and
        with the slacks of the labellings alone."""
        objective, w = self.objective, self.w
        answer = objective.ask(w, effort=Effort.GLANCE)
        upper = answer.upper
        for _ in range(_TUNING.again):
            high = objective.primal(w, np.maximum(upper, 0.0))
            low = objective.primal(w, np.maximum(answer.value, 0.0))
            target = self.value if high > self.value else high
            if objective.exact or high - low <= _TUNING.loose * max(target - self.dual, 0.0) or low >= self.value:
                break
            again = objective.ask(w, effort=Effort.EXPAND)
            upper = np.minimum(upper, again.upper)
            better = again.value > answer.value
            keys = [new if use else old for new, old, use in zip(again.keys, answer.keys, better, strict=True)]
            answer = Answer(answer.examples, keys, np.maximum(answer.value, again.value), upper)
        found = (objective.primal(w, np.maximum(slack, 0.0)) for slack in (upper, answer.value))
        return (answer, *found)  # type: ignore[return-value]

    def iterate(self) -> bool:
        """One call of the oracle, one model; False if nothing moves any more."""
        answer, value, reached = self.ask()
        before = (self.value, self.dual)
        if value < self.value:
            if self.value - value >= _TUNING.serious * (self.value - self.model):
                self.heaviness *= _TUNING.lighter
            self.value, self.centre, self.reached = value, self.w, reached
        else:
            self.heaviness = min(_TUNING.heaviest, _TUNING.heavier * self.heaviness)
        self.improve(np.concatenate(answer.keys).astype(np.int32, copy=False))
        tol, last = self.learner.tol, self.training.n_iter + 1 == self.learner.max_iter
        if self.value - self.dual <= tol * abs(self.value) or last or (self.training.n_iter + 1) % _TUNING.often == 0:
            self.prove()
        moved = before[0] - self.value + self.dual - before[1]
        self.stuck = 0 if moved > 1e-3 * (self.value - self.dual) or not np.isfinite(moved) else self.stuck + 1
        tight = self.reached - self.dual <= self.value - self.reached and not self.objective.exact
        self.loose = self.loose + 1 if tight else 0
        return self.stuck < _TUNING.stuck and self.loose < _TUNING.open

    def master(self) -> Master:
        """What is known as one plane an example, for `CuttingPlane` to go on with pseudo-marginals as new ones."""
        objective = self.objective
        master, known = Master(objective, False), self.certificate()
        master.append_planes([objective.plane(j, key) for j, key in zip(known.examples.tolist(), known.keys, strict=True)])
        return master

    def improve(self, labels: np.ndarray) -> None:
        """Take a labelling in, and move to the minimiser of the model."""
        objective, own, started = self.objective, self.planes, time.perf_counter()
        own.set(Regions(*extend(objective.design, own.regions, labels, self.learner.memory)), self.store.scratch)
        regions, c = own.regions, own.limit
        u, _ = own.mean(self.store.scratch, objective.n_weights)
        enough = _TUNING.precision * max(self.learner.tol * abs(self.value), _TUNING.early * (self.value - self.dual))
        w = sparse_ascend(
            *own.z, own.offset, regions.alpha, regions.atom_ptr, c, u, self.store.nonneg, self.heaviness, self.centre, _TUNING.passes,
            _TUNING.steps, enough,
        )  # fmt: skip
        self.w = objective.repair(w)
        dual = self.store.refresh()
        if dual > self.dual:
            self.dual, self.best = dual, regions
            self.training.bound(dual, self.certificate)
        slack, (base, loss) = own.offset - own.rows(len(w)) @ self.w, own.origin(self.store.scratch, len(w))
        height = float(c @ np.maximum.reduceat(slack, regions.atom_ptr[:-1])) if len(c) else 0.0
        self.model = 0.5 * float(self.w @ self.w) + loss - float(base @ self.w) + height
        self.training.qp_seconds += time.perf_counter() - started

    def prove(self) -> None:
        """The objective at the centre with a proven slack."""
        objective, training = self.objective, self.training
        w, learner = self.centre, self.learner
        if np.array_equal(w, training.weights) and np.isfinite(training.primal) and self.proven <= self.value:
            return
        answer = objective.tighten_brackets(w, objective.ask(w), self.dual, learner.tol, training.seconds_left)
        self.proven = self.value = objective.primal(w, np.maximum(answer.upper, 0.0))
        if training.offer(w, self.value, answer.is_proven):
            self.centre = training.weights
        if not any(isinstance(key, Relaxed) for key in answer.keys):
            self.improve(np.concatenate(answer.keys).astype(np.int32, copy=False))

    def certificate(self) -> DualCertificate:
        """The marginals of the regions, one plane an example."""
        store = RegionStore(self.objective, apart=False)
        store.examples[0].regions = self.best
        return store.certificate()
