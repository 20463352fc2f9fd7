"""RegionBundle: the proximal bundle method with a model that is taken apart by regions, for few large graphs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import UnsupportedProblemError
from ...core.result import Termination
from ...kernels.region_planes import sparse_ascend
from ...kernels.regions import Regions, extend
from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..dual.regions import RegionStore
from ..objectives.lp import LPObjective
from ..objectives.margin import Answer
from ..oracles.relaxed import Relaxed
from .block_frank_wolfe import certain, feasible, is_exact
from .cutting_plane import CuttingPlane, Master

_QUICK, _EXPAND = -2, -3  # efforts of a BracketOracle: half as many passes as usual; the same, with expansion moves


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
    heaviest: float = 1e4
    loose: float = 0.3  # of the gap: a wider bracket of the oracle is made narrower before a point is judged
    again: int = 8  # calls of the oracle for that, at most
    often: int = 25  # models after which the objective at the centre is proven, whatever the gap
    stuck: int = 60  # models without progress after which labellings are given up
    open: int = 8  # models in a row where the relaxation alone keeps the gap open, after which they are given up too


TUNING = Tuning()


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
    `CuttingPlane` goes on with pseudo-marginals, from the mixture that is known by then; a training with checkpoints stops instead.

    Parameters
    ----------
    heaviness : float
        The first :math:`\tau`.
    memory : int
        For how many calls of the oracle a labelling without weight is kept. More of them make a better model, of fewer regions.
    """

    heaviness: float = 10.0
    memory: int = 0

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        if not isinstance(objective, LPObjective) or objective.smoothing > 0:
            raise UnsupportedProblemError(
                f"RegionBundle minimises an LPObjective without smoothing, not a {type(objective).__name__}. For two labels and "
                "associative potentials it equals the margin; learners of others: BlockFrankWolfe, CuttingPlane."
            )
        if objective.cone.rows.shape[0]:
            raise UnsupportedProblemError(
                f"RegionBundle takes free and non-negative weights; the cone has {objective.cone.rows.shape[0]} supermodular rows. "
                "Use BlockFrankWolfe."
            )
        if not self.heaviness > 0:
            raise UnsupportedProblemError(f"heaviness is {self.heaviness!r}, wanted a number > 0.")

    def _run(self, objective: Any, training: Training, init: Any) -> None:
        search = _Search(self, objective, training)
        training.state = search.state
        while not training.step(training.n_iter + 1):
            if not search.iterate():
                search.prove()
                if self.checkpoint is None:
                    search.finish()
                    return
                training.termination = Termination.stalled
                training.message = "RegionBundle: labellings do not close the gap of the linear relaxation any further."
                break
        if search.centre is not training.weights:
            search.prove()


class _Search:
    """One training: centre, regions, the best lower bound."""

    def __init__(self, learner: RegionBundle, objective: LPObjective, training: Training):
        self.learner, self.objective, self.training = learner, objective, training
        self.store = RegionStore(objective, apart=False)
        self.planes = self.store.examples[0]
        self.stuck = self.loose = 0
        self.reached = np.inf
        self.proven = np.inf
        state = training.resume()
        if state is not None:
            self.planes.regions = Regions(*(np.array(state[f"regions_{name}"]) for name in Regions._fields))
            self.best = Regions(*(np.array(state[f"best_{name}"]) for name in Regions._fields))
            self.centre = np.array(state["centre"])
            self.heaviness, self.value, self.model, self.dual = (float(v) for v in state["ruling"])
            self.w = np.array(state["query"])
            training.certificate = self.certificate
            return
        self.best, self.dual = self.planes.regions, 0.0
        self.centre = self.w = objective.cone.repair(np.zeros(objective.n_weights))
        self.heaviness, self.value, self.model = learner.heaviness, np.inf, 0.0
        training.bound(0.0, self.certificate)

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for a checkpoint."""
        arrays = {f"regions_{name}": value for name, value in self.planes.regions._asdict().items()}
        arrays |= {f"best_{name}": value for name, value in self.best._asdict().items()}
        ruling = np.array([self.heaviness, self.value, self.model, self.dual])
        return {**arrays, "centre": self.centre, "query": self.w, "ruling": ruling}

    def ask(self) -> tuple[Answer, float, float]:
        """The oracle at the query point, again while nothing but its bracket is in the way; and the objective there, from above, and
        with the slacks of the labellings alone."""
        objective, w = self.objective, self.w
        answer = objective.ask(w, effort=_QUICK)
        upper = answer.upper
        for _ in range(TUNING.again):
            high = objective.primal(w, np.maximum(upper, 0.0))
            low = objective.primal(w, np.maximum(answer.value, 0.0))
            target = self.value if high > self.value else high
            if objective.exact or high - low <= TUNING.loose * max(target - self.dual, 0.0) or low >= self.value:
                break
            again = objective.ask(w, effort=_EXPAND)
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
            if self.value - value >= TUNING.serious * (self.value - self.model):
                self.heaviness *= TUNING.lighter
            self.value, self.centre, self.reached = value, self.w, reached
        else:
            self.heaviness = min(TUNING.heaviest, TUNING.heavier * self.heaviness)
        self.improve(np.concatenate(answer.keys).astype(np.int32, copy=False))
        tol, last = self.learner.tol, self.training.n_iter + 1 == self.learner.max_iter
        if self.value - self.dual <= tol * abs(self.value) or last or self.training.n_iter % TUNING.often == 0:
            self.prove()
        moved = before[0] - self.value + self.dual - before[1]
        self.stuck = 0 if moved > 1e-3 * (self.value - self.dual) or not np.isfinite(moved) else self.stuck + 1
        tight = self.reached - self.dual <= self.value - self.reached and not self.objective.exact
        self.loose = self.loose + 1 if tight else 0
        return self.stuck < TUNING.stuck and self.loose < TUNING.open

    def finish(self) -> None:
        """Go on with one plane an example for what is known, and pseudo-marginals as new ones."""
        objective, learner = self.objective, self.learner
        master, known = Master(objective, False), self.certificate()
        master.append_planes([objective.plane(j, key) for j, key in zip(known.examples.tolist(), known.keys, strict=True)])
        CuttingPlane(learner.tol, learner.max_iter, learner.time_limit)._run(objective, self.training, master)

    def improve(self, labels: np.ndarray) -> None:
        """Take a labelling in, and move to the minimiser of the model."""
        objective, own, started = self.objective, self.planes, time.perf_counter()
        own.set(extend(objective.design, own.regions, labels, self.learner.memory), self.store.scratch)
        regions, c = own.regions, own.limit
        u, _ = own.mean(self.store.scratch, objective.n_weights)
        enough = TUNING.precision * max(self.learner.tol * abs(self.value), TUNING.early * (self.value - self.dual))
        w = sparse_ascend(
            *own.z, own.offset, regions.alpha, regions.atom_ptr, c, u, self.store.nonneg, self.heaviness, self.centre, TUNING.passes,
            TUNING.steps, enough,
        )  # fmt: skip
        self.w = feasible(objective, w)
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
        answer = certain(objective, w, objective.ask(w), self.dual, learner.tol, training.seconds_left)
        self.proven = self.value = objective.primal(w, np.maximum(answer.upper, 0.0))
        if training.offer(w, self.value, is_exact(answer)):
            self.centre = training.weights
        if not any(isinstance(key, Relaxed) for key in answer.keys):
            self.improve(np.concatenate(answer.keys).astype(np.int32, copy=False))

    def certificate(self) -> DualCertificate:
        """The marginals of the regions, one plane an example."""
        store = RegionStore(self.objective, apart=False)
        store.examples[0].regions = self.best
        return store.certificate()
