"""The proof that comes with learned weights, and its check, which shares no code with the learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import CertificateError

if TYPE_CHECKING:
    from .objective import Objective


@dataclass(frozen=True)
class LearningVerification:
    """What the check found: the objective from an independent evaluation, the bound from planes and multipliers."""

    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        return self.objective - self.lower_bound

    def __str__(self) -> str:
        relative = self.gap / abs(self.objective) if self.objective else 0.0
        return f"verified: objective {self.objective:.8g}, lower bound {self.lower_bound:.8g}, relative gap {relative:.2g}"


@dataclass(frozen=True, eq=False)
class DualCertificate:
    r"""Planes and multipliers that prove a lower bound on the objective, whatever their numbers are:

    .. math:: D = \sum_i \alpha_i b_i - \tfrac12\Big\|\sum_i\alpha_i z_i + A^\top\mu\Big\|^2 \le \min_w F(w)

    for :math:`\alpha \ge 0` with :math:`\sum_{i \in j}\alpha_i \le c_j` and :math:`\mu \ge 0`; the true labelling, with
    :math:`b = 0, z = 0`, takes what is left.

    Attributes
    ----------
    examples : ndarray of int64, shape (n_planes,)
    keys : tuple
        Where each plane comes from: a labelling of its example, pseudo-marginals (`Relaxed`), or an inequality of the trivial surrogate.
    alpha : ndarray, shape (n_planes,)
    mu : ndarray
        Multipliers of ``cone.matrix``.
    """

    examples: np.ndarray
    keys: tuple[Any, ...]
    alpha: np.ndarray
    mu: np.ndarray

    def lower_bound(self, objective: Objective) -> float:
        """The bound, recomputed from features; multipliers that are slightly off are scaled into place."""
        u, value = self.contribution(objective)
        u += np.asarray(objective.cone.matrix.T @ self.mu).astype(np.float64)
        return float(value - 0.5 * (u @ u))

    def contribution(self, objective: Objective) -> tuple[np.ndarray, float]:
        r""":math:`\sum_i\alpha_i z_i` and :math:`\sum_i\alpha_i b_i`, from features."""
        if not (np.isfinite(self.alpha).all() and np.isfinite(self.mu).all()):
            raise CertificateError("the multipliers of the certificate are not finite.")
        if (self.alpha < 0).any() or (self.mu < 0).any():
            raise CertificateError("a multiplier of the certificate is negative, so it proves nothing.")
        matrix = objective.cone.matrix
        if len(self.mu) != matrix.shape[0]:
            raise CertificateError(f"the certificate has {len(self.mu)} cone multipliers, the cone {matrix.shape[0]} rows.")
        total = np.zeros(objective.n_examples)
        np.add.at(total, self.examples, self.alpha)
        over = np.where(total > objective.c, np.divide(objective.c, total, out=np.ones_like(total), where=total > 0), 1.0)
        if (total > objective.c * (1 + 1e-6) + 1e-300).any():
            j = int((total - objective.c).argmax())
            raise CertificateError(f"multipliers of example {j} sum to {total[j]}, more than its {objective.c[j]}.")
        u, value = np.zeros(objective.n_weights), 0.0
        for j, key, alpha in zip(self.examples.tolist(), self.keys, (self.alpha * over[self.examples]).tolist(), strict=True):
            if alpha > 0:
                plane = objective.plane(j, key)
                u[plane.index] += alpha * plane.value
                value += alpha * plane.offset
        return u, value

    def verify(self, objective: Objective, weights: np.ndarray) -> LearningVerification:
        """Check everything: the cone, the primal value by an independent evaluation, the bound from planes.

        Raises
        ------
        CertificateError
            If the weights leave the cone, or the bound exceeds the objective.
        """
        if not objective.cone.contains(weights):
            raise CertificateError("the weights are outside the cone of the model.")
        primal = objective.evaluate(weights)
        bound = self.lower_bound(objective)
        if bound > primal + 1e-9 * (1.0 + abs(primal)):
            raise CertificateError(f"the lower bound {bound} exceeds the objective {primal}.")
        return LearningVerification(primal, min(bound, primal))
