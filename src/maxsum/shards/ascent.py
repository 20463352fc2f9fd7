"""ShardAscent: dual ascent on a training set in shards, whose workers see nothing but their shard and the weights."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..core.errors import UnsupportedProblemError
from ..core.files.container import digest_arrays
from ..core.parameters import Instance, Maybe, Real, WholeNumber, settings
from ..core.result import Termination
from ..executors.base import Executor, as_executor
from ..kernels.vectors import inner
from ..learning.certificate import relative
from ..learning.driver import Learner, LearningCallback, Training
from ..learning.learners.block_frank_wolfe import BlockFrankWolfe
from ..learning.objectives.base import Answer, Plane, PlaneObjective
from ..learning.oracles.base import Effort, Key
from ..learning.protocols import HasShards
from ..learning.result import LearningResult
from ..learning.state import REBUILT
from .certificate import ShardCertificate
from .tasks import Job, Place, ShardSource, Sum, evaluate_group, forget, gather, shard_objective, tree_sum, visit_group

_EFFORTS = ((Effort.LONG,), (Effort.LONG, Effort.FULL), (Effort.LONG, Effort.FULL, Effort.SEARCH))


@dataclass(frozen=True)
class Tuning:
    """Numbers that trade time for time; none of them changes what is proven."""

    # An evaluation is made where the slacks of a pass, which are of older weights, promise a gap of so many tolerances.
    near: float = 2.5
    dear_near: float = 1.0  # the same where oracles leave brackets, whose closing is what an evaluation costs
    often: int = 10  # passes from one evaluation to the next at the latest
    local: float = 10.0  # work of a visit at least, in units of what sending the weights there and back takes
    bisections: int = 30  # halvings of the step where the cone bends the dual: enough for 1e-9 of a step of 1
    width: int = 4  # shards at the same time by default


_TUNING = Tuning()


class ShardedObjective(PlaneObjective):
    r"""The objective of a training set in shards, :math:`\tfrac12\|w\|^2 + \sum_k \sum_{j \in k} c_j\,\xi_j(w)`.

    Parameters
    ----------
    source : ShardSource
        Data, model and loss.
    C : float
    executor : None, str, Executor or dask.distributed.Client
        Who works on shards; see `as_executor`.
    """

    def __init__(self, source: ShardSource, C: float = 1.0, executor: Any = None):
        super().__init__(int(source.sizes.sum()), source.cone, C)
        self.source, self.surrogate = source, source.surrogate
        self.executor: Executor = as_executor(executor)

    @property
    def n_shards(self) -> int:
        """Number of shards of the training set."""
        return len(self.source.sizes)

    def __getstate__(self) -> dict[str, Any]:
        """Without the executor, which may hold connections; a copy works serially."""
        return {**vars(self), "executor": as_executor()}

    def content(self) -> Iterable[np.ndarray]:
        return (np.frombuffer(self.source.digest(), dtype=np.uint8), self.source.sizes)

    def evaluate(self, w: np.ndarray) -> float:
        r"""The objective, shard by shard, by the independent way of each."""
        n = self.n_shards
        total = gather(self.executor, slack_group, n, lambda a, b: (self.source, self.C, a, b), w, "verify-objective", n)
        return float(0.5 * inner(w, w) + total)

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer:
        raise UnsupportedProblemError(
            "a ShardedObjective does not answer for single examples. Learners for it: ShardAscent; with an AggregatedObjective CuttingPlane."
        )

    def plane(self, j: int, key: Key) -> Plane:
        raise UnsupportedProblemError(
            "planes of a ShardedObjective stay with their shards; its certificate is a ShardCertificate."
        )


def seated(n_shards: int, width: int, random: np.random.Generator) -> list[np.ndarray]:
    """Shards of each round of a pass. Neighbours share one of ``width`` seats, of which each sends one a round, in random order: at a
    seat is always the same worker, who has opened these shards before."""
    ends = [n_shards * i // width for i in range(width + 1)]
    seats = [a + random.permutation(b - a) for a, b in pairwise(ends)]
    return [np.array([seat[i] for seat in seats if i < len(seat)]) for i in range(-(-n_shards // width))]


def slack_group(item: tuple[ShardSource, float, int, int], w: np.ndarray) -> float:
    """Sum of the weighted slacks of some shards, by the independent way of each."""
    source, C, first, last = item

    def leaf(a: int, b: int) -> float | None:
        return float(shard_objective(source, a, C).evaluate(w) - 0.5 * inner(w, w)) if b - a == 1 else None

    return float(tree_sum(first, last, leaf))


@dataclass(frozen=True)
class ShardAscent(Learner):
    r"""Dual ascent on shards (after CoCoA): in a round some shards work on their own planes from the same weights, as
    `BlockFrankWolfe` does, and return the directions :math:`\Delta_k`; then a step is taken along their sum, the best one,

    .. math:: \gamma = \arg\max_{0 \le \gamma \le 1} D(\alpha + \gamma(\alpha' - \alpha)), \qquad
              D(\alpha) = \sum_i \alpha_i b_i - \tfrac12\Big\|\Pi\Big(\sum_i \alpha_i z_i\Big)\Big\|^2

    with :math:`\Pi` the projection onto the cone, so the dual never decreases. Shards of a round count curvature :math:`\sigma` times,
    as the others move as well; :math:`\sigma` follows the steps. The result depends on the shards, on ``width`` and on the seed, not
    on the executor or the number of its workers, down to the last bit.

    Parameters
    ----------
    width : int, optional
        Shards that work at the same time; by default 4, or as many as there are. More than workers are of no use.
    communication : float
        Operations in the time in which one weight is sent: about 1 between processes of one machine, 10 to 100 on a net. A visit does
        at least ten times as many as sending all weights there and back takes; larger shards do that in fewer passes.
    parts : int
        A visit asks the oracle for one of so many parts of a shard, and goes over the stored planes of all its examples. More parts are
        more visits, which bring shards together, for as many calls of the oracle.
    local : BlockFrankWolfe
        How a shard works; its limits and checkpoints have no effect.
    memory : int
        Bytes of shards that a worker keeps open, about.
    checkpoint : path, optional
        Here a *folder*, on a disk that all workers share: states of shards, and of this learner, from which training goes on. By default
        a temporary one.
    max_iter : int
        Passes over the shards.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasShards,)

    width: int | None = None
    communication: float = 1.0
    parts: int = 2
    local: BlockFrankWolfe = field(default_factory=BlockFrankWolfe)
    memory: int = 2**28

    _parameters = settings(
        width=Maybe(WholeNumber(1), wanted="None or a number of shards >= 1"),
        communication=Real(0.0),
        parts=WholeNumber(1),
        local=Instance(BlockFrankWolfe),
        memory=WholeNumber(0),
    )

    def fit(self, objective: Any, callback: LearningCallback | None = None, init: Any = None) -> LearningResult:
        """Minimise a `ShardedObjective`.

        Parameters
        ----------
        objective : ShardedObjective
        callback : callable, optional
            Called with a `LearningPoint` after each pass; a true return value stops the training.
        init : object, optional
            Not used; a checkpoint is what training goes on from.
        """
        self.check(objective)
        if self.checkpoint is None:
            folder = Path(tempfile.mkdtemp(prefix="maxsum-shards-"))
            weakref.finalize(objective, shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = Path(self.checkpoint)
            folder.mkdir(parents=True, exist_ok=True)
        own = replace(self, checkpoint=folder / "driver")
        training = Training(own, objective, callback)
        training.durable = self.checkpoint is not None
        try:
            with training:
                training.run(init)
        finally:
            forget(objective.source)
        return training.result()

    def init(self, objective: ShardedObjective, training: Training, start: Any = None) -> RoundState:
        return RoundState(self, objective, training.durable)

    def step(self, state: RoundState, training: Training) -> None:
        """A pass over the shards."""
        if not state.over_all(training):
            training.end(Termination.time_limit)
        elif state.wants_evaluation(training):
            state.evaluate(training)

    def finish(self, state: RoundState, training: Training) -> None:
        if not state.evaluated:
            state.evaluate(training)
        training.extra |= {
            "rounds": state.number,
            "bytes_sent": state.objective.executor.bytes_sent,
            "bytes_received": state.objective.executor.bytes_received,
            "work": state.work,
            "gammas": state.gammas,
            "duals": state.duals,
        }


@dataclass(eq=False)
class RoundState:
    """The driver's side of one training: the sum of all contributions, and which state of each shard counts, with which step.

    Attributes
    ----------
    sum, offset : ndarray, float
        Vectors and constants of all planes, with their multipliers.
    version, gamma : ndarray
        Round of each shard's state, and the step that was taken along its direction; ``saved`` are the rounds of the last checkpoint.
    slack : ndarray
        Weighted slacks of each shard when it worked last.
    position : int
        Shards of the present pass that have worked.
    """

    learner: ShardAscent = field(metadata=REBUILT)
    objective: ShardedObjective = field(metadata=REBUILT)
    durable: bool = field(metadata=REBUILT)
    sum: np.ndarray = field(init=False)
    mean: np.ndarray = field(init=False)
    version: np.ndarray = field(init=False)
    gamma: np.ndarray = field(init=False)
    slack: np.ndarray = field(init=False)
    sigma: float = field(init=False)
    offset: float = 0.0
    number: int = 0
    position: int = 0
    work: float = 0.0
    gammas: list[float] = field(default_factory=list)
    duals: list[float] = field(default_factory=list)
    evaluated: bool = False

    def __post_init__(self) -> None:
        learner, objective = self.learner, self.objective
        n, folder = objective.n_shards, Path(str(learner.checkpoint)).parent
        self.width = min(n, learner.width or _TUNING.width)
        least = _TUNING.local * 2 * learner.communication * objective.n_weights
        origin = {"training": digest_arrays((*objective.content(), objective.c[:1])).hex()}
        work = (learner.local, learner.random_state, learner.parts, least, learner.memory, self.durable)
        self.job = Job(objective.source, str(folder), origin, objective.C, *work)
        self.sum, self.mean = np.zeros(objective.n_weights), np.zeros(objective.n_weights)
        self.version, self.gamma, self.slack = np.full(n, -1), np.ones(n), np.full(n, np.inf)
        self.sigma = float(self.width)
        self.restored()

    def restored(self) -> None:
        """What follows from the fields."""
        self.saved = self.version.copy()
        self.project()

    def project(self) -> None:
        """Weights and dual value from the sum of contributions."""
        self.weights, self.mu = _projected(self.objective, self.sum)
        self.dual = self.offset - 0.5 * inner(self.weights, self.weights)

    def place(self, k: int) -> Place:
        """Where the state of a shard is, and what is to be done with it."""
        return Place(int(k), int(self.version[k]), float(self.gamma[k]), (int(self.saved[k]),))

    def over_all(self, training: Training) -> bool:
        """The rounds of one pass, from where it stands; False if time is up."""
        n, random = self.objective.n_shards, np.random.default_rng([self.learner.random_state, 0, training.n_iter + 1])
        rounds = seated(n, self.width, random)
        while self.position < n:
            if training.seconds_left <= 0:
                return False
            self.round(rounds[self.position // self.width])
            self.position += self.width
            if training.save_within():
                self.saved = self.version.copy()
        self.position = 0
        return True

    def round(self, shards: np.ndarray) -> None:
        """Let some shards work, and take the best step along the sum of their directions."""
        objective, number = self.objective, self.number
        places = [self.place(k) for k in shards]
        plain = self.sum if not len(self.mu) else self.sum + objective.cone.rows.T @ self.mu
        sigma = min(self.sigma, float(len(shards)))
        found: Sum = gather(
            objective.executor,
            visit_group,
            len(places),
            lambda a, b: (self.job, number, places[a:b]),
            (plain, self.mu, sigma, self.dual),
            f"visit-{number}",
            objective.executor.n_workers,
        )
        offset, work, calls, seconds = (float(value) for value in found.scalars)
        objective.n_calls += int(calls)
        objective.seconds += seconds
        self.work += work
        gamma, ideal = self.best_step(found.vector, offset)
        self.sum = self.sum + gamma * found.vector
        self.offset += gamma * offset
        self.project()
        window = -(-objective.n_shards // self.width)
        self.mean = self.mean + (self.weights - self.mean) / min(number + 1, max(1, window))
        self.version[shards], self.gamma[shards] = number, gamma
        for k, slack in found.facts:
            self.slack[k] = slack
        self.sigma = float(np.clip(sigma / np.sqrt(np.clip(ideal, 0.25, 4.0)), 1.0, self.width))
        self.gammas.append(gamma)
        self.duals.append(self.dual)
        self.number += 1
        self.evaluated = False

    def best_step(self, change: np.ndarray, offset: float) -> tuple[float, float]:
        """The step in [0, 1] along the sum of directions that raises the dual most, and the best one without the limit of 1."""
        slope, curve = offset - inner(self.weights, change), inner(change, change)
        if not slope > 0 or not curve > 0:
            return 0.0, 1.0
        ideal = slope / curve
        if self.objective.cone.is_free:
            return min(1.0, ideal), ideal
        low, high = min(1.0, ideal), 1.0
        for i in range(_TUNING.bisections):
            middle = high if i == 0 else 0.5 * (low + high)
            w, _ = _projected(self.objective, self.sum + middle * change)
            if offset - inner(w, change) >= 0:
                low = middle
            else:
                high = middle
            if high - low <= 1e-9:
                break
        return low, max(low, ideal)

    def wants_evaluation(self, training: Training) -> bool:
        """Whether slacks seen in this pass promise the tolerance, or it is time to know."""
        estimate = relative(0.5 * inner(self.weights, self.weights) + float(self.slack.sum()), self.dual)
        near = _TUNING.near if self.objective.exact else _TUNING.dear_near
        n_iter, tol = training.n_iter + 1, self.learner.tol
        return estimate <= near * tol or n_iter % _TUNING.often == 0 or n_iter >= self.learner.max_iter

    def evaluate(self, training: Training) -> None:
        """A pure evaluation, which leaves no trace in the rounds to come: the value at the mean of the last weights, and the bound from
        planes, in the order of shards."""
        objective, tol = self.objective, self.learner.tol
        w = objective.cone.repair(self.mean)
        for efforts in ((), *_EFFORTS):
            places = [self.place(k) for k in range(objective.n_shards)]
            allowed = 0.25 * tol * (0.5 * inner(w, w) + float(min(self.slack.sum(), objective.C * 1e300)))
            found: Sum = gather(
                objective.executor,
                evaluate_group,
                len(places),
                lambda a, b, places=places, allowed=allowed, efforts=efforts: (self.job, places[a:b], allowed, efforts),
                w,
                f"evaluate-{self.number}",
            )
            offset, reached, proven, calls, seconds = (float(value) for value in found.scalars)
            objective.n_calls += int(calls)
            objective.seconds += seconds
            rebuilt = _projected(objective, found.vector)[0]
            dual = offset - 0.5 * inner(rebuilt, rebuilt)
            training.bound(dual, self.certificate)  # type: ignore[arg-type]
            exact = all(found.facts)
            half = 0.5 * inner(w, w)
            training.offer(w, half + proven, exact)
            objective.exact = exact
            if exact or relative(half + reached, dual) > tol or training.relative_gap <= tol or training.seconds_left <= 0:
                break
        self.evaluated = True

    def certificate(self) -> ShardCertificate:
        """States of the shards that prove the dual value."""
        mu = self.objective.cone.multipliers(self.sum)
        return ShardCertificate(self.job, tuple(self.place(k) for k in range(self.objective.n_shards)), mu)


def _projected(objective: PlaneObjective, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest weights of the cone, and the multipliers of its rows."""
    if objective.cone.is_free:
        return total, np.zeros(0)
    found = objective.cone.project(total)
    return found.weights, found.rows
