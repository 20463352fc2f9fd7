"""Objectives over shards for learners that know nothing of shards: sums of planes, and sums of smooth functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import CertificateError
from ..executors.base import as_executor
from ..kernels.vectors import inner
from ..learning.certificate import Check, Proven
from ..learning.objectives.base import Answer, Plane, PlaneObjective, check_C
from ..learning.objectives.convex import allows
from ..learning.objectives.smooth import Evaluation, SmoothObjective
from ..learning.oracles.base import Effort, Key
from ..learning.proofs.feature_sums import FeatureSum
from ..learning.proofs.tangents import allowed_bound
from .ascent import slack_group
from .certificate import as_sum, shard_value
from .tasks import ShardSource, Sum, gather, opened, tree_sum


class AggregatedObjective(PlaneObjective):
    r"""Each of the :math:`S` shards as one example, with the slack :math:`\xi_k(w) = \sum_{j \in k} \xi_j(w)` of its part of the
    :math:`n` examples, and planes that are sums of planes: for learners such as `CuttingPlane`, where oracles are expensive or weights
    few. Planes do not depend on C.

    The key of a plane is the point where the oracle was asked, and the effort at its end, so that anyone can make the plane again.

    Parameters
    ----------
    source : ShardSource
    C : float
    executor : None, str, Executor or dask.distributed.Client
    """

    def __init__(self, source: ShardSource, C: float = 1.0, executor: Any = None):
        super().__init__(len(source.sizes), source.cone, C)
        self.source, self.executor = source, as_executor(executor)
        self.surrogate, self.exact = source.surrogate, False
        self.planes: dict[tuple[int, bytes], Plane] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "executor": as_executor()}

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer:
        items = [(self.source, int(k), effort) for k in examples]
        homes = [self.executor.n_workers * int(k) // self.n_examples for k in examples]
        found = self.executor.run(_aggregate, items, [f"ask-{k}" for k in examples], w, homes)
        key = np.append(w, float(effort))
        for plane, k in zip(found, examples.tolist(), strict=True):
            self.planes[k, key.tobytes()] = Plane(k, plane.offset, plane.index, plane.value, key)
        self.n_calls += sum(int(plane.calls) for plane in found) - len(examples)
        self.exact = all(plane.exact for plane in found)
        value = np.array([plane.offset - w[plane.index] @ plane.value for plane in found])
        return Answer(examples, [key] * len(examples), value, np.array([plane.upper for plane in found]))

    def plane(self, j: int, key: Key) -> Plane:
        known = self.planes.get((j, np.asarray(key).tobytes()))
        if known is not None:
            return known
        *at, effort = np.asarray(key).tolist()
        found = _aggregate((self.source, j, Effort(int(effort))), np.array(at))
        return Plane(j, found.offset, found.index, found.value, key)

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        return shard_value(self, w)

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray, check: Check) -> FeatureSum:
        """Planes made again from the points where oracles were asked, not from those that are remembered."""
        asked = [np.asarray(key) for key in keys]
        for j, key in zip(examples.tolist(), asked, strict=True):
            if key.shape != (self.n_weights + 1,) or key.dtype.kind != "f" or not np.isfinite(key).all():
                raise CertificateError(
                    f"a plane of shard {j} has a key of {key.dtype} and shape {key.shape}, wanted a point of {self.n_weights} weights, and an effort."
                )
        items = [(self.source, int(k), key, float(share)) for k, key, share in zip(examples, asked, alpha, strict=True)]
        check.expect(len(items))
        found = self.executor.run(_checked_plane, items, [f"check-{k}" for k in range(len(items))])
        check.step(len(items))
        none = np.zeros(self.n_weights)
        return sum(found, FeatureSum(none, none, 0.0, 0.0))  # type: ignore[return-value]

    def evaluate(self, w: np.ndarray) -> float:
        n = self.n_examples
        total = gather(self.executor, slack_group, n, lambda a, b: (self.source, self.C, a, b), w, "verify-objective")
        return float(0.5 * inner(w, w) + total)

    def content(self) -> Iterable[np.ndarray]:
        return (np.frombuffer(self.source.digest(), dtype=np.uint8), self.source.sizes)


@dataclass(frozen=True)
class _Aggregate:
    offset: float
    index: np.ndarray
    value: np.ndarray
    upper: float
    exact: bool
    calls: int


def _aggregate(item: tuple[ShardSource, int, Effort], w: np.ndarray) -> _Aggregate:
    r""":math:`\sum_j z_j`, :math:`\sum_j b_j` and :math:`\sum_j \xi_j(w)` from above, of one shard at ``w``."""
    source, k, effort = item
    with opened(source, k, 1.0) as objective:
        return _sum_of_planes(objective, w, effort)


def _checked_plane(item: tuple[ShardSource, int, np.ndarray, float], *_: Any) -> FeatureSum:
    """The plane of a shard from the labellings that its oracle gives at a point, whatever they are, in plain numpy."""
    source, k, key, share = item
    with opened(source, k, 1.0) as objective:
        answer = objective.ask(key[:-1].copy(), None, int(key[-1]))
        some = np.flatnonzero(answer.value > 0)
        keys, c = [answer.keys[i] for i in some.tolist()], objective.c[answer.examples[some]]
        return objective.sum_planes(answer.examples[some], keys, c, Check()).scaled(share)  # type: ignore[no-any-return]


def _sum_of_planes(objective: Any, w: np.ndarray, effort: Effort) -> _Aggregate:
    answer = objective.ask(w, None, effort)
    z, offset = np.zeros(objective.n_weights), 0.0
    for j, key, value in zip(answer.examples.tolist(), answer.keys, answer.value.tolist(), strict=True):
        if value > 0:
            plane = objective.plane(j, key)
            z[plane.index] += objective.c[j] * plane.value
            offset += float(objective.c[j]) * plane.offset
    index = np.flatnonzero(z)
    upper = float(inner(objective.c, np.maximum(answer.upper, 0.0)))
    slack = float(inner(objective.c, np.maximum(answer.value, 0.0)))
    return _Aggregate(offset, index, z[index], upper, upper - slack <= 1e-9 * (1.0 + upper), len(answer.examples))


class ShardedSmooth(SmoothObjective):
    r"""A smooth objective over shards, for `ProjectedQuasiNewton`: value and gradient are summed in the order of shards,
    :math:`\tfrac12\|w\|^2 + \sum_k (F_k(w) - \tfrac12\|w\|^2)`.

    Parameters
    ----------
    source : ShardSource
        Its objectives are those of convex energies (surrogate ``qp``) on shards.
    C : float
    executor : None, str, Executor or dask.distributed.Client
    """

    surrogate = "qp"
    inexact = True

    def __init__(self, source: Any, C: float = 1.0, executor: Any = None):
        self.source, self.executor = source, as_executor(executor)
        self.model = source.model
        self.n_weights, self.free = self.model.n_weights, self.model.free
        self.n_examples = int(source.sizes.sum())
        self.modulus = 1.0
        self.C = 1.0
        self.worst, self.allowed, self.curvature = 0.0, 0.0, np.zeros(self.n_weights)
        self.set_C(C)
        found = self._gather(_start, None, "start")
        self.worst, self.curvature = float(found.scalars[0]), found.vector
        self.allowed = 1e-2 * self.worst

    def set_C(self, C: float) -> None:
        """Change the regularisation; shards follow when they are opened."""
        check_C(C)
        ratio = float(C) / self.C
        self.C, self.c = float(C), np.full(self.n_examples, float(C))
        self.worst, self.allowed, self.curvature = self.worst * ratio, self.allowed * ratio, self.curvature * ratio

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "executor": as_executor()}

    def _gather(self, function: Any, shared: Any, name: str) -> Any:
        n = len(self.source.sizes)
        return gather(self.executor, function, n, lambda a, b: (self.source, self.C, a, b), shared, name)

    def project(self, w: np.ndarray) -> np.ndarray:
        return self.model.project(w)  # type: ignore[no-any-return]

    def scale(self) -> np.ndarray:
        return 1.0 / np.sqrt(1.0 + self.curvature)

    def tighten(self, allowed: float) -> bool:
        least = 1e-12 * self.worst
        if self.allowed <= least or not allowed < self.allowed:
            return False
        self.allowed = max(float(allowed), least)
        return True

    def value_and_gradient(self, w: np.ndarray) -> Evaluation:
        return self._at(w, self.allowed)

    def exactly(self, w: np.ndarray) -> Evaluation:
        return self._at(w, 1e-12 * self.worst)

    def _at(self, w: np.ndarray, allowed: float) -> Evaluation:
        found = self._gather(_smooth, (w, allowed / self.worst), "gradient")
        half = 0.5 * inner(w, w)
        return Evaluation(half + float(found.scalars[0]), w + found.vector, float(found.scalars[1]))

    def evaluate(self, w: np.ndarray) -> float:
        total = self._gather(slack_group, w, "verify-objective")
        return float(0.5 * inner(w, w) + total)

    def contains(self, w: np.ndarray) -> bool:
        return allows(self.model, w)

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        return shard_value(self, w)

    def tangent(self, w: np.ndarray, check: Check) -> FeatureSum:
        found = self._gather(_tangent, w, "verify-tangent")
        vector, error = np.split(found.vector, 2)
        return FeatureSum(vector, error, *found.scalars.tolist())

    def lowest(self, total: FeatureSum) -> Proven:
        return allowed_bound(self.model, total)

    def content(self) -> Iterable[np.ndarray]:
        return (np.frombuffer(self.source.digest(), dtype=np.uint8), self.source.sizes)

    def state(self) -> dict[str, np.ndarray]:
        return {"qp_allowed": np.array([self.allowed])}

    def restore(self, state: Any) -> None:
        self.allowed = float(state["qp_allowed"][0])


def _start(item: tuple[ShardSource, float, int, int]) -> Sum:
    """Largest slacks, and curvatures, of some shards."""
    source, C, first, last = item

    def one(k: int) -> Sum:
        with opened(source, k, C) as own:
            return Sum(1.0 / own.scale() ** 2 - 1.0, np.array([float(inner(own.c, own.worst))]), ())

    return tree_sum(first, last, lambda a, b: one(a) if b - a == 1 else None)  # type: ignore[no-any-return]


def _smooth(item: tuple[ShardSource, float, int, int], shared: tuple[np.ndarray, float]) -> Sum:
    """Value, error and gradient of some shards without the regulariser."""
    source, C, first, last = item
    w, accuracy = shared
    half = 0.5 * inner(w, w)

    def one(k: int) -> Sum:
        with opened(source, k, C) as own:
            own.allowed = accuracy * float(inner(own.c, own.worst))
            found = own.value_and_gradient(w)
            return Sum(found.gradient - w, np.array([found.value - half, found.error]), ())

    return tree_sum(first, last, lambda a, b: one(a) if b - a == 1 else None)  # type: ignore[no-any-return]


def _tangent(item: tuple[ShardSource, float, int, int], w: np.ndarray) -> Sum:
    """What points of the relaxations of some shards prove."""
    source, C, first, last = item

    def one(k: int) -> Sum:
        with opened(source, k, C) as own:
            return as_sum(own.tangent(w, Check()))

    return tree_sum(first, last, lambda a, b: one(a) if b - a == 1 else None)  # type: ignore[no-any-return]
