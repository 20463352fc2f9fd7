"""ShardCertificate: the proof that comes with weights learned on shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..core.errors import CertificateError
from ..learning.certificate import Check, DualCertificate, LearningCertificate, Proven, multipliers
from ..learning.proofs.feature_sums import EPS, PAIRWISE, FeatureSum, dual_bound
from .tasks import Job, Place, Sum, gather, load_store, shard_objective, tree_sum

if TYPE_CHECKING:
    from .ascent import ShardedObjective


@dataclass(frozen=True, eq=False)
class ShardCertificate(LearningCertificate):
    """The proof of a training on shards: planes and multipliers in the states of the shards, and those of the cone.

    It holds as long as these files do: those of a training without a checkpoint go when its objective does.

    Attributes
    ----------
    job : Job
    places : tuple of Place
        Which state of each shard counts, with which step.
    mu : ndarray
        Multipliers of ``cone.matrix``.
    """

    job: Job
    places: tuple[Place, ...]
    mu: np.ndarray

    objectives: ClassVar[tuple[str, ...]] = ("ShardedObjective",)

    def shard(self, k: int, objective: Any | None = None) -> DualCertificate:
        """Planes and multipliers of one shard."""
        own = shard_objective(self.job.source, k, self.job.C) if objective is None else objective
        store, _ = load_store(self.job, own, self.places[k])
        store.weights.plain[:] = 0.0
        return store.certificate()

    def _bound(self, objective: ShardedObjective, check: Check) -> Proven:
        """Recomputed from features, shard by shard."""
        matrix = objective.cone.matrix
        mu = multipliers(self.mu, (matrix.shape[0],), "the cone multipliers of the certificate")
        if len(self.places) != objective.n_shards or [place.shard for place in self.places] != list(range(objective.n_shards)):
            raise CertificateError(
                f"the certificate is one of {len(self.places)} shards, the objective has {objective.n_shards}."
            )
        if check.exact:
            raise CertificateError(
                "a training on shards cannot be checked in rational arithmetic; leave exact=True out, or train in memory."
            )
        check.expect(2)
        total: Sum = gather(
            objective.executor, _bound_group, len(self.places), lambda a, b: (self, objective.C, a, b), None, "verify-bound"
        )
        check.step()
        vector, error = np.split(total.vector, 2)
        return dual_bound(matrix, mu, FeatureSum(vector, error, *total.scalars.tolist()))

    def _value(self, objective: ShardedObjective, w: np.ndarray, check: Check, goal: float | None) -> Proven:
        found = shard_value(objective, w)
        check.step()
        return found


def _bound_group(item: tuple[ShardCertificate, float, int, int]) -> Sum:
    certificate, C, first, last = item

    def leaf(a: int, b: int) -> Sum | None:
        if b - a > 1:
            return None
        objective = shard_objective(certificate.job.source, a, C)
        own = certificate.shard(a, objective)
        return as_sum(objective.sum_planes(*own.planes(objective), Check()))

    return tree_sum(first, last, leaf)  # type: ignore[no-any-return]


def as_sum(found: FeatureSum) -> Sum:
    """A sum of planes as shards return it; vectors that are added up later round once more each time."""
    error = found.error + 64 * EPS * np.abs(found.vector)  # a tree of sums is not deeper than 64
    return Sum(np.concatenate([found.vector, error]), np.array([found.value, found.value_error]), ())


def shard_value(objective: Any, w: np.ndarray) -> Proven:
    """The objective of weights, shard by shard, by the independent way of each."""
    n = len(objective.source.sizes)
    C = objective.C
    total: Sum = gather(objective.executor, _value_group, n, lambda a, b: (objective.source, C, a, b), w, "verify-objective", n)
    half = 0.5 * float((w * w).sum())
    low, high, rounding = (float(value) for value in total.scalars)
    few = PAIRWISE * (abs(half) + abs(high))
    words = next(iter(sorted(set(total.facts))), "")
    return Proven(half + low - few, half + high + few, rounding + few, f"{words}, shard by shard")


def _value_group(item: tuple[Any, float, int, int], w: np.ndarray) -> Sum:
    source, C, first, last = item
    half = 0.5 * float((w * w).sum())

    def leaf(a: int, b: int) -> Sum | None:
        if b - a > 1:
            return None
        low, high, rounding, words = shard_objective(source, a, C).prove(w, Check())
        few = PAIRWISE * half
        return Sum(np.zeros(0), np.array([low - half - few, high - half + few, rounding + few]), (words,))

    return tree_sum(first, last, leaf)  # type: ignore[no-any-return]
