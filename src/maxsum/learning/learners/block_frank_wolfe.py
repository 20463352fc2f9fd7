"""BlockFrankWolfe: dual block-coordinate ascent of the n-slack problem, with planes kept as labellings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..dual.planes import PlaneStore, few_weights
from ..dual.regions import RegionStore, fits
from ..objectives.base import Answer
from ..objectives.margin import MarginObjective
from ..oracles.base import Effort
from ..oracles.relaxed import Relaxed
from ..protocols import HasDesign, HasOracle, HasPlanes
from ..result import relative
from ..state import REBUILT

_BATCH, _REGION_BATCH = 8, 2
_STEPS, _VECTOR_STEPS = 10, 100
_OFTEN = 10
_LAST_SHARE = 0.1  # of the limit, the most that is kept free for a last evaluation
_NEAR, _DEAR_NEAR = 2.5, 1.0
_ALL = 4
_VECTORISED = 0.4
_ACTIVE = 0.5


@dataclass(frozen=True)
class BlockFrankWolfe(Learner):
    r"""Dual block-coordinate ascent: the oracle gives each example a new plane, pairwise steps with closed-form line search
    improve the multipliers of its own planes, and passes over stored planes go on as long as they gain more for their work
    than calls of the oracle do.

    .. math:: \max_\alpha \sum_i \alpha_i b_i - \tfrac12\|w(\alpha)\|^2

    Work is counted in operations, not in seconds, so that runs repeat whatever the machine and ``n_jobs`` are.

    Parameters
    ----------
    batch : int, optional
        Examples that the oracle answers at the same weights; by default an eighth of them, at least 8, with regions 2.
    cached_passes : int
        Largest number of passes over stored planes after a batch; 0 for none.
    max_planes : int
        Planes without weight are dropped where an example has more.
    corrective : bool
        Pairwise steps on all planes of an example. If False, plain Frank-Wolfe steps towards the new plane alone.
    averaging : bool
        Also try the weighted average of the weights of all iterations, as usual for plain steps.
    gap_sampling : bool
        Draw examples in proportion to their last known gaps.
    regions : bool
        Keep planes region by region (`RegionStore`) where labellings of large graphs with cycles are learned by their linear relaxation.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasDesign, HasOracle)

    batch: int | None = None
    cached_passes: int = 1000
    max_planes: int = 40
    corrective: bool = True
    averaging: bool = False
    gap_sampling: bool = False
    regions: bool = True

    def init(self, objective: MarginObjective, training: Training, start: Any = None) -> BlockState:
        by_regions = self.corrective and self.regions and fits(objective)
        if isinstance(start, (PlaneStore, RegionStore)) and start.objective is objective:
            store: Any = start
            store.rescale(objective.c)
        else:
            store = RegionStore(objective) if by_regions else PlaneStore(objective, self.max_planes)
        random, fewest = np.random.default_rng(self.random_state), _REGION_BATCH if by_regions else _BATCH
        state = BlockState(self, objective, store, random, fewest)
        state.dual = store.refresh()
        return state

    def step(self, state: BlockState, training: Training) -> None:
        """The first step evaluates the objective; the others are rounds over all examples, with an evaluation where it may be the last."""
        training.extra["planes"] = state.store
        if not np.isfinite(training.primal):
            state.evaluate(training)
            return
        exact, most = state.objective.exact, self.tol * (_NEAR if state.objective.exact else _DEAR_NEAR)
        estimate = state.exact_round(training)
        last = training.n_iter + 1 == self.max_iter or training.seconds_left <= 0
        if estimate <= state.caution * most or training.n_iter % _OFTEN == 0 or last:
            gap = state.evaluate(training)
            near = min(most, estimate * max(0.5, self.tol / gap)) if not exact and gap > self.tol else most
            state.caution = near / most if most > 0 else 1.0
        training.extra["planes"] = state.store

    def finish(self, state: BlockState, training: Training) -> None:
        training.bound(state.store.refresh(), state.certificate)
        training.extra["planes"] = state.store


@dataclass(eq=False)
class Ascent:
    """Dual ascent on the planes of one objective: the store of planes, the random order, the gaps that rule the passes.

    Attributes
    ----------
    work : float
        Operations so far, of oracles and of steps.
    """

    learner: BlockFrankWolfe = field(metadata=REBUILT)
    objective: MarginObjective = field(metadata=REBUILT)
    store: PlaneStore | RegionStore
    random: np.random.Generator
    fewest: InitVar[int] = _BATCH
    batch: int = field(init=False, metadata=REBUILT)
    oracle_work: float = field(init=False, metadata=REBUILT)
    gaps: np.ndarray = field(init=False)
    exact_gaps: np.ndarray = field(init=False)
    absorbed: int = 0
    dual: float = 0.0
    work: float = 0.0

    def __post_init__(self, fewest: int) -> None:
        n = self.objective.n_examples
        self.batch = min(n, self.learner.batch or max(fewest, -(-n // 8)))
        self.oracle_work = oracle_work(self.objective)
        self.gaps, self.exact_gaps = np.zeros(n), np.full(n, np.nan)

    def query(self) -> np.ndarray:
        """Weights for the oracle, to be read before the next step: those of the dual, moved into the cone exactly."""
        w = self.store.weights.value
        return w if self.objective.cone.is_free else self.objective.repair(w)

    def absorb(self, answer: Answer) -> None:
        """Take in new planes, then pass over the stored ones while that pays."""
        relaxed = any(isinstance(key, Relaxed) for key in answer.keys)
        if relaxed and isinstance(self.store, RegionStore) and few_weights(self.objective):
            self.store = self.store.as_planes(self.learner.max_planes)
        steps = 0 if not self.learner.corrective else _VECTOR_STEPS if self.store.explicit else _STEPS
        gain, work = self.store.add(answer.examples, answer.keys, steps, self.exact_gaps)
        work += self.oracle_work * len(answer.examples)
        order, store = self.random.permutation(self.objective.n_examples), self.store
        if not store.explicit and self.absorbed % _ALL:
            order = order[self.gaps[order] > _ACTIVE * self.gaps.mean()]
        self.absorbed += 1
        active = 0.0 if store.explicit else _ACTIVE
        least = 1e-12 * abs(self.dual)
        self.work += store.ascend(order, self.learner.cached_passes, steps, active, least, gain, work, self.gaps)[1]

    def draw(self) -> np.ndarray:
        """Examples of the next round: all in random order, or drawn in proportion to their last known gaps."""
        n = self.objective.n_examples
        if not self.learner.gap_sampling or np.isnan(self.exact_gaps).any() or not self.exact_gaps.sum() > 0:
            return self.random.permutation(n)
        share = 0.9 * self.exact_gaps / self.exact_gaps.sum() + 0.1 / n
        return self.random.choice(n, n, p=share / share.sum())

    def batches(self, order: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Examples in batches, each asked at the newest weights: examples and slacks there."""
        for start in range(0, len(order), self.batch):
            examples = np.unique(order[start : start + self.batch])
            answer = self.objective.ask(self.query(), examples, Effort.QUICK)
            slack = np.maximum(answer.value, 0.0) if self.objective.relaxed else answer.upper
            self.absorb(answer)
            yield examples, slack


@dataclass(eq=False)
class BlockState(Ascent):
    """The ascent of one training, with its bounds and evaluations.

    Attributes
    ----------
    mean : ndarray
        Weighted average of the weights of all batches so far, where `BlockFrankWolfe.averaging` wants it; ``steps`` is their number.
    caution : float
        Part of the usual distance to the tolerance at which an evaluation is worth its while: evaluations that came too early lower it.
    """

    mean: np.ndarray = field(init=False)
    steps: int = 0
    caution: float = 1.0

    def __post_init__(self, fewest: int) -> None:
        super().__post_init__(fewest)
        self.mean = np.zeros(self.objective.n_weights)

    def make(self, name: str, kind: str) -> PlaneStore | RegionStore:
        """An empty store, for a checkpoint that has one of the other kind."""
        return RegionStore(self.objective) if kind == "RegionStore" else PlaneStore(self.objective, self.learner.max_planes)

    def certificate(self) -> DualCertificate:
        """The proof of the dual value."""
        return self.store.certificate()

    def evaluate(self, training: Training) -> float:
        """Ask all examples at one point: a primal value, and a new plane for each; returns the relative gap there."""
        started = training.clock.used
        self.dual = self.store.refresh()
        training.bound(self.dual, self.certificate)
        for w in (self.query(), self.objective.repair(self.mean)) if self.learner.averaging else (self.query(),):
            answer = self.objective.tighten_brackets(
                w, self.objective.ask(w), self.dual, self.learner.tol, training.seconds_left
            )
            primal = self.objective.primal(w, answer.upper)
            training.offer(w, primal, answer.is_proven)
            self.absorb(answer)
        if training.time_limit is not None:  # the last one follows when time is up
            training.reserve = min(training.clock.used - started, _LAST_SHARE * training.time_limit)
        return relative(primal, self.dual)

    def exact_round(self, training: Training) -> float:
        """One round over all examples; returns an estimate of the relative gap."""
        slack, seen = np.zeros(self.objective.n_examples), 0
        for examples, own in self.batches(self.draw()):
            slack[examples] = own
            seen += self.batch
            self.steps += 1
            if self.learner.averaging:
                self.mean += 2.0 / (self.steps + 1) * (self.store.weights.value - self.mean)
            if seen < self.objective.n_examples and training.seconds_left <= 0:
                return np.inf
        self.dual = self.store.refresh()
        training.bound(self.dual, self.certificate)
        w = self.store.weights.value
        return relative(self.objective.primal(w, slack), self.dual) if not self.learner.gap_sampling else 0.0


def oracle_work(objective: MarginObjective) -> float:
    """Operations of one oracle call, on average: scores of all labels, and a pass over the edges.

    Its loops over labels are vectorised, those of cached passes are not, so they count less.
    """
    design, size = objective.design, objective.design.loss.shape[1]
    sweeps = 1 if objective.exact else 8
    work = len(design.x_val) * size + sweeps * (2 * len(design.edges) * size**2 + len(design.truth) * size)
    return _VECTORISED * work / max(1, objective.n_examples)


def _pack(state: Any) -> np.ndarray:
    import json

    return np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)


def _unpack(array: np.ndarray) -> dict[str, Any]:
    import json

    return dict(json.loads(bytes(np.asarray(array, dtype=np.uint8))))
