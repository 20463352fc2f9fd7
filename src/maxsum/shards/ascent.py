"""ShardAscent: dual ascent on a training set in shards, whose workers see nothing but their shard and the weights."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError, UnsupportedProblemError
from ..executors.base import Executor, as_executor
from ..kernels.vectors import inner
from ..learning.checkpoint import digest_arrays
from ..learning.driver import Learner, LearningCallback, Training
from ..learning.learners.block_frank_wolfe import BlockFrankWolfe
from ..learning.objectives.margin import Answer, Objective, Plane
from ..learning.oracles.exact import Key
from ..learning.result import LearningResult, relative
from .certificate import ShardCertificate
from .tasks import Job, Place, ShardSource, Sum, evaluate_group, forget, gather, shard_objective, tree_sum, visit_group


@dataclass(frozen=True)
class Tuning:
    """Work between rounds of `ShardAscent`."""

    # An evaluation is asked for when the estimated gap is below so many tolerances: estimates are too high, and oracles cheap.
    near: float = 2.5
    # The same where oracles only bracket: an evaluation costs more than passes, so it waits for the tolerance itself.
    near_inexact: float = 1.0
    often: int = 10  # passes after which an evaluation is asked for anyway, at a tenth of their cost or less
    # Work of a visit, in times of what sending its weights costs: a tenth of the time is spent on the way.
    local_work: float = 10.0
    bisections: int = 30  # halvings of the step length, down to 1e-9 of it


_TUNING = Tuning()


# Efforts of the oracles that an evaluation goes through, one list after another until the gap is closed.
_EFFORTS = ((1,), (1, 2), (1, 2, 3))


class ShardedObjective(Objective):
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
        """Number of shards."""
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

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: int) -> Answer:
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

    width: int | None = None
    communication: float = 1.0
    parts: int = 2
    local: BlockFrankWolfe = field(default_factory=BlockFrankWolfe)
    memory: int = 2**28

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
        self._check(objective)
        if self.checkpoint is None:
            folder = Path(tempfile.mkdtemp(prefix="maxsum-shards-"))
            weakref.finalize(objective, shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = Path(self.checkpoint)
            folder.mkdir(parents=True, exist_ok=True)
        own = replace(self, checkpoint=folder / "driver")
        training = Training(own, objective, callback)
        with training:
            own._ascend(objective, training, durable=self.checkpoint is not None)
        return training.result()

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        if not isinstance(objective, ShardedObjective):
            raise UnsupportedProblemError(
                f"ShardAscent minimises a ShardedObjective, not a {type(objective).__name__}. For data in memory use BlockFrankWolfe."
            )
        if self.width is not None and (isinstance(self.width, bool) or not isinstance(self.width, int) or self.width < 1):
            raise InvalidSampleError(f"width is {self.width!r}, wanted None or a number of shards >= 1.")

    def _run(self, objective: ShardedObjective, training: Training, init: Any) -> None:  # type: ignore[override]
        self._ascend(objective, training, durable=True)

    def _ascend(self, objective: ShardedObjective, training: Training, durable: bool) -> None:
        """The rounds; states are ``durable`` if they outlive the training."""
        rounds = _Rounds(self, objective, training, durable)
        training.state = rounds.state
        try:
            while rounds.position or not training.step(training.n_iter + 1):
                if not rounds.over_all():
                    break
                if rounds.wants_evaluation():
                    rounds.evaluate()
        finally:
            forget(objective.source)
        if not rounds.evaluated:
            rounds.evaluate()
        training.extra |= {
            "rounds": rounds.number,
            "bytes_sent": objective.executor.bytes_sent,
            "bytes_received": objective.executor.bytes_received,
            "work": rounds.work,
            "gammas": rounds.gammas,
            "duals": rounds.duals,
        }


class _Rounds:
    """The driver's side of one training: the sum of all contributions, and which state of each shard counts, with which step."""

    def __init__(self, learner: ShardAscent, objective: ShardedObjective, training: Training, durable: bool):
        self.learner, self.objective, self.training = learner, objective, training
        n, folder = objective.n_shards, Path(str(learner.checkpoint)).parent
        self.width = min(n, learner.width or 4)
        least = _TUNING.local_work * 2 * learner.communication * objective.n_weights
        origin = {"training": digest_arrays((*objective.content(), objective.c[:1])).hex()}
        seed, parts = learner.random_state, learner.parts
        work = (learner.local, seed, parts, least, learner.memory, durable)
        self.job = Job(objective.source, str(folder), origin, objective.C, *work)
        self.sum, self.offset = np.zeros(objective.n_weights), 0.0
        self.version, self.gamma = np.full(n, -1), np.ones(n)
        self.saved = self.version.copy()
        self.slack = np.full(n, np.inf)
        self.number, self.position, self.sigma, self.work = 0, 0, float(self.width), 0.0
        self.mean = np.zeros(objective.n_weights)
        self.gammas: list[float] = []
        self.duals: list[float] = []
        self.evaluated = False
        state = training.resume()
        if state is not None:
            self.sum, self.mean, self.version = (np.array(state[name]) for name in ("sum", "mean", "version"))
            self.gamma, self.slack = np.array(state["gamma"]), np.array(state["slack"])
            self.offset, self.sigma, self.work = (float(value) for value in state["numbers"])
            self.number, self.position = (int(value) for value in state["counts"])
            self.gammas, self.duals = state["gammas"].tolist(), state["duals"].tolist()
            self.saved = self.version.copy()
            training.n_iter += self.position > 0
            training.certificate = self.certificate  # type: ignore[assignment]
        self.project()

    def state(self) -> dict[str, np.ndarray]:
        return {
            "sum": self.sum, "mean": self.mean, "version": self.version, "gamma": self.gamma, "slack": self.slack,
            "numbers": np.array([self.offset, self.sigma, self.work]), "counts": np.array([self.number, self.position]),
            "gammas": np.array(self.gammas), "duals": np.array(self.duals),
        }  # fmt: skip

    def project(self) -> None:
        """Weights and dual value from the sum of contributions."""
        self.weights, self.mu = _projected(self.objective, self.sum)
        self.dual = self.offset - 0.5 * inner(self.weights, self.weights)

    def place(self, k: int) -> Place:
        return Place(int(k), int(self.version[k]), float(self.gamma[k]), (int(self.saved[k]),))

    def order(self) -> list[np.ndarray]:
        """Shards of each round of a pass."""
        random = np.random.default_rng([self.learner.random_state, 0, self.training.n_iter])
        return seated(self.objective.n_shards, self.width, random)

    def over_all(self) -> bool:
        """The rounds of one pass, from where it stands; False if time is up."""
        n, rounds = self.objective.n_shards, self.order()
        while self.position < n:
            if self.training.seconds_left <= 0:
                self.training.termination = self.training.termination.time_limit
                return False
            self.round(rounds[self.position // self.width])
            self.position += self.width
            self.maybe_save()
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

    def wants_evaluation(self) -> bool:
        """Whether slacks seen in this pass promise the tolerance, or it is time to know."""
        estimate = relative(0.5 * inner(self.weights, self.weights) + float(self.slack.sum()), self.dual)
        near = _TUNING.near if self.objective.exact else _TUNING.near_inexact
        n_iter, tol = self.training.n_iter, self.learner.tol
        return estimate <= near * tol or n_iter % _TUNING.often == 0 or n_iter + 1 >= self.learner.max_iter

    def evaluate(self) -> None:
        """A pure evaluation, which leaves no trace in the rounds to come: the value at the mean of the last weights, and the bound from
        planes, in the order of shards."""
        objective, training, tol = self.objective, self.training, self.learner.tol
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
        mu = self.objective.cone.multipliers(self.sum)
        return ShardCertificate(self.job, tuple(self.place(k) for k in range(self.objective.n_shards)), mu)

    def maybe_save(self) -> None:
        before = self.training.saved
        self.training._maybe_save(False)
        if self.training.saved != before and "checkpoint_error" not in self.training.extra:
            self.saved = self.version.copy()


def _projected(objective: Objective, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest weights of the cone, and the multipliers of its rows."""
    if objective.cone.is_free:
        return total, np.zeros(0)
    found = objective.cone.project(total)
    return found.weights, found.rows
