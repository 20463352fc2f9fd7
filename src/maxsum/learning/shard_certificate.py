"""ShardCertificate: the proof that comes with weights learned on shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import CertificateError
from .certificate import DualCertificate, LearningVerification
from .shard_tasks import Job, Place, Sum, gather, load_store, shard_objective, tree_sum

if TYPE_CHECKING:
    from .sharded import ShardedObjective


@dataclass(frozen=True, eq=False)
class ShardCertificate:
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

    def shard(self, k: int, objective: Any | None = None) -> DualCertificate:
        """Planes and multipliers of one shard."""
        own = shard_objective(self.job.source, k, self.job.C) if objective is None else objective
        store, _ = load_store(self.job, own, self.places[k])
        store.weights.plain[:] = 0.0
        return store.certificate()

    def lower_bound(self, objective: ShardedObjective) -> float:
        """The bound, recomputed from features, shard by shard."""
        if (self.mu < 0).any() or not np.isfinite(self.mu).all() or len(self.mu) != objective.cone.matrix.shape[0]:
            raise CertificateError(
                "the cone multipliers of the certificate are negative, not finite, or too few: they prove nothing."
            )
        total: Sum = gather(
            objective.executor, _bound_group, len(self.places), lambda a, b: (self, objective.C, a, b), None, "verify-bound"
        )
        u = total.vector + objective.cone.matrix.T @ self.mu
        return float(total.scalars[0] - 0.5 * (u @ u))

    def verify(self, objective: ShardedObjective, weights: np.ndarray) -> LearningVerification:
        """Check everything, as `DualCertificate.verify` does: the cone, the primal value, the bound from planes.

        Raises
        ------
        CertificateError
            If the weights leave the cone, or the bound exceeds the objective.
        """
        if not objective.cone.contains(weights):
            raise CertificateError("the weights are outside the cone of the model.")
        primal, bound = objective.evaluate(weights), self.lower_bound(objective)
        if bound > primal + 1e-9 * (1.0 + abs(primal)):
            raise CertificateError(f"the lower bound {bound} exceeds the objective {primal}.")
        return LearningVerification(primal, min(bound, primal))


def _bound_group(item: tuple[ShardCertificate, float, int, int]) -> Sum:
    certificate, C, first, last = item

    def leaf(a: int, b: int) -> Sum | None:
        if b - a > 1:
            return None
        objective = shard_objective(certificate.job.source, a, C)
        u, value = certificate.shard(a, objective).contribution(objective)
        return Sum(u, np.array([value]), ())

    return tree_sum(first, last, leaf)  # type: ignore[no-any-return]
