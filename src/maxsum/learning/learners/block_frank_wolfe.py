"""BlockFrankWolfe: dual block-coordinate ascent of the n-slack problem, with planes kept as labellings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...core.parameters import Flag, Maybe, WholeNumber, settings
from ..certificate import DualCertificate, relative
from ..driver import Learner, Training
from ..dual.model import TUNING as MASTER
from ..dual.planes import PlaneStore, few_weights
from ..dual.regions import RegionStore, fits
from ..objectives.base import Answer
from ..objectives.margin import MarginObjective
from ..oracles.base import Effort
from ..oracles.relaxed import Relaxed
from ..protocols import HasDesign, HasOracle, HasPlanes
from ..state import REBUILT


@dataclass(frozen=True)
class Tuning:
    """Constants of `BlockFrankWolfe`. Work is counted in operations; what is compared is always work with work."""

    batch: int = 8  # fewest examples of a batch: smaller ones ask at newer weights, and cost more calls
    region_batch: int = 2  # the same with regions, where an example is a large graph
    steps: int = 10  # pairwise steps of a visit of planes that are labellings
    vector_steps: int = 100  # the same where planes are vectors, and a step costs less
    often: int = 10  # rounds after which the objective is evaluated anyway
    last_share: float = 0.1  # of the limit, the most that is kept free for a last evaluation
    near: float = 2.5  # estimated gap, in tolerances, at which an evaluation may be the last; estimates are too high
    near_inexact: float = 1.0  # the same where oracles only bracket, and an evaluation costs more than a round
    all_examples: int = 4  # every so many batches cached passes visit all examples, not the active ones alone
    active: float = 0.5  # of the mean gap: examples below are passed over in between
    vectorised: float = 0.4  # what an operation of an oracle counts: its loops are vectorised, those of cached passes are not

    # The master (see `BlockFrankWolfe`). Found on the 40 tasks of ``python -m benchmarks panel``.
    patience: int = 5  # rounds of block steps before their progress is judged
    window: int = 5  # rounds that progress is judged by
    rounds_a_decade: float = (
        15.0  # rounds with the master that a tenth of the gap is expected to take: 10 to 20 on most tasks, 100 on one
    )
    setup_work: float = 3e6  # operations that a round with the master costs however small it is
    cubic_work: float = 10.0  # operations for the cube of the number of planes, of the interior point method
    pull: float = 0.3  # share of the master's solution in the weights that are asked; the rest are the best so far. 0.2 and 0.5 took 0.9 and 1.2 times as long
    precision: float = 0.3  # of the tolerance, to which the master is solved; 0.1 took up to three times as long
    gap_share: float = 0.1  # of the present gap, below which the master need not be solved while the gap is large
    gain: float = 0.99  # a window of rounds of the master that leaves more of the gap has gained nothing
    most_planes: int = 400  # of an example, while the master keeps them: few planes are found again and again
    retreat: float = 2.0  # times the work that block steps promised, at which the master is given up for them


TUNING = Tuning()


@dataclass(frozen=True)
class BlockFrankWolfe(Learner):
    r"""Dual block-coordinate ascent: the oracle gives each example a new plane, pairwise steps with closed-form line search
    improve the multipliers of its own planes, and passes over stored planes go on as long as they gain more for their work
    than calls of the oracle do.

    Block steps crawl where features are badly scaled or C is large: then the *master* takes over, the exact quadratic program over all
    planes kept (`DualModel.correct`), with the oracle asked between its solution and the best weights so far (in-out separation;
    Ben-Ameur & Neto 2007). Which of the two goes on is decided by the work that the progress of either promises to take.

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
    master : bool
        Solve the quadratic program over all planes where block steps crawl.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasDesign, HasOracle)

    batch: int | None = None
    cached_passes: int = 1000
    max_planes: int = 40
    corrective: bool = True
    averaging: bool = False
    gap_sampling: bool = False
    regions: bool = True
    master: bool = True

    _parameters = settings(
        batch=Maybe(WholeNumber(1)),
        cached_passes=WholeNumber(0),
        max_planes=WholeNumber(1),
        corrective=Flag(),
        averaging=Flag(),
        gap_sampling=Flag(),
        regions=Flag(),
        master=Flag(),
    )

    def init(self, objective: MarginObjective, training: Training, start: Any = None) -> BlockState:
        by_regions = self.corrective and self.regions and fits(objective)
        if isinstance(start, (PlaneStore, RegionStore)) and start.objective is objective:
            store: Any = start
            store.rescale(objective.c)
        else:
            store = RegionStore(objective) if by_regions else PlaneStore(objective, self.max_planes)
        random, fewest = np.random.default_rng(self.random_state), TUNING.region_batch if by_regions else TUNING.batch
        state = BlockState(self, objective, store, random, fewest)
        state.dual = store.refresh()
        return state

    def step(self, state: BlockState, training: Training) -> None:
        """The first step evaluates the objective; the others are rounds over all examples, with an evaluation where it may be the last."""
        training.extra["planes"] = state.store
        if not np.isfinite(training.primal):
            state.evaluate(training)
            return
        if state.mastered:
            state.master_round(training)
            training.extra["planes"] = state.store
            return
        exact, most = state.objective.exact, self.tol * (TUNING.near if state.objective.exact else TUNING.near_inexact)
        estimate = state.exact_round(training)
        last = training.n_iter + 1 == self.max_iter or training.seconds_left <= 0
        if estimate <= state.caution * most or training.n_iter % TUNING.often == 0 or last:
            gap = state.evaluate(training)
            near = min(most, estimate * max(0.5, self.tol / gap)) if not exact and gap > self.tol else most
            state.caution = near / most if most > 0 else 1.0
        state.judge_blocks(estimate)
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
    fewest: InitVar[int] = TUNING.batch
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
        steps = 0 if not self.learner.corrective else TUNING.vector_steps if self.store.explicit else TUNING.steps
        gain, work = self.store.add(answer.examples, answer.keys, steps, self.exact_gaps)
        work += self.oracle_work * len(answer.examples)
        order, store = self.random.permutation(self.objective.n_examples), self.store
        if not store.explicit and self.absorbed % TUNING.all_examples:
            order = order[self.gaps[order] > TUNING.active * self.gaps.mean()]
        self.absorbed += 1
        active = 0.0 if store.explicit else TUNING.active
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
    mastered : bool
        Whether the master goes on, not block steps.
    progress : ndarray (rounds, 2)
        Relative gap and work so far after the last rounds of the way of going on now.
    promised : float
        Work that block steps promised to need when they were left.
    doubt : float
        How many times more than the master block steps have to promise to be left for it; doubles with every retreat.
    """

    mean: np.ndarray = field(init=False)
    steps: int = 0
    caution: float = 1.0
    mastered: bool = False
    progress: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    promised: float = np.inf
    doubt: float = 1.0

    def __post_init__(self, fewest: int) -> None:
        super().__post_init__(fewest)
        self.mean = np.zeros(self.objective.n_weights)

    def make(self, name: str, kind: str) -> PlaneStore | RegionStore:
        """An empty store, for a checkpoint that has one of the other kind."""
        return RegionStore(self.objective) if kind == "RegionStore" else PlaneStore(self.objective, self.learner.max_planes)

    def certificate(self) -> DualCertificate:
        """The proof of the dual value."""
        return self.store.certificate()

    def evaluate(self, training: Training, centre: np.ndarray | None = None) -> float:
        """Ask all examples at one point, or between it and ``centre``: a primal value, and a new plane for each; returns the relative gap
        there."""
        started = training.clock.seconds
        self.dual = self.store.refresh()
        training.bound(self.dual, self.certificate)
        at = self.query()
        if centre is not None:
            at = self.objective.repair(centre + TUNING.pull * (at - centre))
        for w in (at, self.objective.repair(self.mean)) if self.learner.averaging else (at,):
            answer = self.objective.tighten_brackets(
                w, self.objective.ask(w), self.dual, self.learner.tol, training.seconds_left
            )
            primal = self.objective.primal(w, answer.upper)
            training.offer(w, primal, answer.is_proven)
            self.absorb(answer)
        if training.time_limit is not None:  # the last one follows when time is up
            training.reserve = min(training.clock.seconds - started, TUNING.last_share * training.time_limit)
        return relative(primal, self.dual)

    def judge_blocks(self, gap: float) -> None:
        """After a round of block steps: leave them for the master if that promises to need less work."""
        self._note(gap)
        learner, tol = self.learner, self.learner.tol
        if not (learner.master and learner.corrective) or learner.gap_sampling or tol <= 0 or not tol < gap < np.inf:
            return
        if len(self.progress) <= TUNING.patience:
            return
        promised = self._work_left(tol)
        if promised > self.doubt * self.master_work() * TUNING.rounds_a_decade * np.log10(gap / tol):
            if isinstance(self.store, RegionStore):
                if not few_weights(self.objective):
                    return
                self.store = self.store.as_planes(learner.max_planes)
            n = max(1, self.objective.n_examples)
            self.store.max_planes = max(learner.max_planes, min(TUNING.most_planes, MASTER.largest // n))
            self.mastered, self.promised, self.progress = True, promised, self.progress[:0]

    def master_work(self) -> float:
        """Operations of a round with the master, for as many planes as there are with weight and one more an example."""
        n = self.objective.n_examples
        planes = min(MASTER.largest, n + self.store.n_planes)
        return TUNING.setup_work + n * self.oracle_work + planes**2 * self.objective.n_weights + TUNING.cubic_work * planes**3.0

    def master_round(self, training: Training) -> None:
        """Solve the master, ask all examples between its solution and the best weights, and keep their planes."""
        tol, before = self.learner.tol, training.relative_gap
        work = self.master_work()
        self.dual = self.store.correct(TUNING.precision * max(tol, TUNING.gap_share * before), training.seconds_left)
        # At the solution itself after rounds without gain: there the slacks of labellings are those of the dual, so that what is
        # left of the gap is the oracle's to close, by pseudo-marginals or search.
        stuck = len(self.progress) > TUNING.window and before > TUNING.gain * self.progress[-1 - TUNING.window, 0]
        self.evaluate(training, None if stuck else training.weights)
        self.work += work
        self._note(training.relative_gap)
        if len(self.progress) > 2 * TUNING.patience and self._work_left(tol) > TUNING.retreat * self.promised:
            self.mastered, self.progress, self.doubt = False, self.progress[:0], 2 * self.doubt
            if isinstance(self.store, PlaneStore):
                self.store.max_planes = self.learner.max_planes

    def _note(self, gap: float) -> None:
        self.progress = np.concatenate([self.progress[-2 * TUNING.window :], [[gap, self.work]]])

    def _work_left(self, tol: float) -> float:
        """Operations until the gap is the tolerance, if it goes on falling as in the last rounds; infinite if it does not fall."""
        gap, work = self.progress[-1 - TUNING.window :].T
        fallen = np.log(gap[0] / gap[-1]) if 0 < gap[-1] < gap[0] < np.inf else 0.0
        return float((work[-1] - work[0]) * np.log(gap[-1] / tol) / fallen) if fallen > 0 else np.inf

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
    return TUNING.vectorised * work / max(1, objective.n_examples)
