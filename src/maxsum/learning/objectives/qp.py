r"""Surrogate ``qp``: the margin-rescaled hinge of a convex QP relaxation (Jancsary, Nowozin & Rother 2013, §4.2), smooth in the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.result import Termination
from ...losses import Loss
from ...models.bound import Encoded
from ...models.convex import ConvexBound, one_hot, part_sums, samples_of
from ..certificate import Check, Proven
from ..proofs.evaluation import Slacks, total
from ..proofs.feature_sums import FeatureSum
from ..proofs.tangents import PlainEnergies, allowed_bound
from .convex import ConvexObjective, energies_at
from .energy import Minimum
from .smooth import Evaluation

_EXACT = 1e-12  # of the largest loss: gaps of the relaxations that are not made smaller, as float64 could not tell them
_LEAST_LOSS = 1e-9  # of the largest loss of an example: that of one without any, whose share of the accuracy must not be 0


class SlackBrackets(NamedTuple):
    """Proven brackets of the slacks of all examples at some weights."""

    lower: np.ndarray
    upper: np.ndarray


class QPObjective(ConvexObjective):
    r"""Large-margin learning of convex energies, (17) of Jancsary, Nowozin & Rother 2013 in the scale of this library:

    .. math:: F(w) = \tfrac12\|w\|^2 + \sum_j c_j\,\xi_j(w),\qquad
              \xi_j(w) = E_j(\psi(y_j); w) - \min_{\mu\in\Delta}\big[E_j(\mu; w) - \langle\mu, \delta(y_j)\rangle\big],

    over the allowed weights of the model. As energies are linear in the weights and strictly convex in :math:`\mu`, each slack is
    convex and differentiable in :math:`w`; its gradient is :math:`\Psi_j(\psi(y_j)) - \Psi_j(\hat{\mu})` at the minimiser (Danskin).

    The regulariser is that of the paper, around zero: the least allowed matrix is ``floor`` times the identity, which adds the same
    constant to the energy of every labelling.

    What is proven: the fractional loss :math:`\langle\hat{\mu}_j, \delta(y_j)\rangle` of the prediction is at most :math:`\xi_j`; the
    Hamming loss of its rounding is at most :math:`2\xi_j`, as a wrong label has :math:`\hat{\mu}_v(y_v) \le \tfrac12`.

    Parameters
    ----------
    model : ConvexBound
        With labels.
    C : float
    loss : Loss or str
    sample_weight : array-like, optional
    operators : sequence, optional
        Operators of form 4, see `Energies`.
    n_jobs : int
        Threads over examples.
    accuracy : float
        First relative accuracy of the values; learners tighten it.
    """

    surrogate = "qp"

    modulus = 1.0
    inexact = True

    def __init__(
        self,
        model: ConvexBound,
        C: float = 1.0,
        loss: Loss | str = "hamming",
        sample_weight: Any = None,
        operators: Sequence[Any] | None = None,
        n_jobs: int = 1,
        accuracy: float = 1e-2,
    ):
        super().__init__(model, C, loss, sample_weight, operators, n_jobs)
        self.truth_moments = self.energies.moments(self.truth, self.c)
        worst = part_sums(model.data, self.loss_table.max(axis=1, initial=0.0))
        self.worst = np.maximum(worst, _LEAST_LOSS * max(1.0, float(worst.max(initial=0.0))))
        self.allowed = float(accuracy) * float(self.c @ self.worst)
        self.mu: np.ndarray = self.truth

    def _rescale(self, ratio: float) -> None:
        self.allowed, self.truth_moments = self.allowed * ratio, self.energies.moments(self.truth, self.c)

    def least_error(self) -> float:
        return _EXACT * float(self.c @ self.worst)

    def solve(self, w: np.ndarray, allowed: float | None = None, init: np.ndarray | None = None) -> Minimum:
        """Loss-augmented minimisers with :math:`\\sum_j c_j gap_j` of at most ``allowed``, equal shares for equal losses."""
        limits = (self.allowed if allowed is None else allowed) / float(self.c @ self.worst) * self.worst
        return self.energies.at(w).minimise(-self.loss_table, self.mu if init is None else init, 0.0, limits)

    def slacks(self, w: np.ndarray, allowed: float | None = None) -> SlackBrackets:
        """Brackets of all slacks."""
        return self._slacks(self.solve(w, allowed))

    def _slacks(self, found: Minimum) -> SlackBrackets:
        value = self.energies.energy(self.truth) - found.values
        return SlackBrackets(value, value + found.gaps)

    def value_and_gradient(self, w: np.ndarray) -> Evaluation:
        found = self.solve(w)
        self.mu = found.mu
        return self._evaluation(w, found)

    def exactly(self, w: np.ndarray) -> Evaluation:
        return self._evaluation(w, self.solve(w, self.least_error(), self.truth))

    def _evaluation(self, w: np.ndarray, found: Minimum) -> Evaluation:
        lower, upper = self._slacks(found)
        gradient = w + self.truth_moments - self.energies.moments(found.mu, self.c)
        return Evaluation(0.5 * float(w @ w) + float(self.c @ lower), gradient, float(self.c @ (upper - lower)))

    def tangent(self, w: np.ndarray, check: Check) -> FeatureSum:
        return self._plain().tangent(self.loss_table, self.c, self.truth, self._proposed(w))

    def lowest(self, total: FeatureSum) -> Proven:
        return allowed_bound(self.model, total)

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """Slacks from a cold start; what the points prove is worked out in plain numpy, from the formula of the energies."""
        found = self._plain().slacks(w, self.loss_table, self.truth, self._proposed(w))
        check.step(0)
        return total(self.c, w, Slacks(*found, "points of the relaxations and their tangents"))

    def _plain(self) -> PlainEnergies:
        return PlainEnergies(self.model, self.energies.operators)

    def _proposed(self, w: np.ndarray) -> np.ndarray:
        """Points near the minimisers at ``w``; nobody has to trust them."""
        return self.solve(np.ascontiguousarray(w, dtype=np.float64), self.least_error(), self.truth).mu

    def evaluate(self, w: np.ndarray) -> float:
        """The objective, never from below; see `prove`."""
        return self.prove(np.asarray(w, dtype=np.float64), Check()).high

    def state(self) -> dict[str, np.ndarray]:
        return {"qp_mu": self.mu, "qp_allowed": np.array([self.allowed])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.mu, self.allowed = np.array(state["qp_mu"]), float(state["qp_allowed"][0])


@dataclass(frozen=True, eq=False)
class ConvexPrediction:
    r"""Prediction of one sample by its convex relaxation, and what is proven of it.

    Attributes
    ----------
    labels : ndarray of int32, shape (n_nodes,)
        The nearest labelling to ``mu``: its largest entries.
    mu : ndarray, shape (n_nodes, K)
    energy : float
        Energy of the labelling.
    value : float
        Energy of ``mu``, at most ``gap`` above the minimum of the relaxation.
    lower_bound : float
        ``value - gap``: no point of the simplices, hence no labelling, has less energy.
    gap : float
        Frank-Wolfe gap of ``mu``.
    termination : Termination
    """

    labels: np.ndarray
    mu: np.ndarray
    energy: float
    value: float
    gap: float
    termination: Termination

    @property
    def lower_bound(self) -> float:
        return self.value - self.gap

    @property
    def message(self) -> str:
        """One sentence for people."""
        return (
            f"The relaxation has its minimum in [{self.lower_bound:.8g}, {self.value:.8g}]; the rounded labelling has the energy "
            f"{self.energy:.8g}, at most {max(0.0, self.energy - self.lower_bound):.3g} above that of the best one."
        )


def predict_convex(
    model: ConvexBound,
    w: np.ndarray,
    samples: Any = None,
    *,
    data: Encoded | None = None,
    operators: Sequence[Any] | None = None,
    tol: float = 1e-4,
    max_iter: int = 5000,
    n_jobs: int = 1,
) -> list[ConvexPrediction]:
    """Predictions (19) of Jancsary, Nowozin & Rother 2013 for samples, or for the training data.

    Parameters
    ----------
    model : ConvexBound
    w : ndarray, shape (n_weights,)
    samples : sequence of GraphSample, or what the model encodes, optional
    data : Encoded, optional
        Samples that are encoded already.
    operators : sequence, optional
        Operators of form 4, see `Energies`.
    tol : float
        Frank-Wolfe gap of a sample at most ``tol`` times its number of nodes.
    """
    energies = energies_at(model, w, samples, data, operators, n_jobs)
    sizes = np.diff(energies.data.node_ptr).astype(np.float64)
    found = energies.minimise(tol=0.0, allowed=tol * sizes, max_iter=max_iter)
    labels = found.mu.argmax(axis=1).astype(np.int32) if found.mu.size else np.zeros(0, dtype=np.int32)
    rounded = energies.energy(one_hot(labels, model.n_labels))
    return [
        ConvexPrediction(y, mu, float(energy), float(value), float(gap), found.termination)
        for y, mu, energy, value, gap in zip(
            samples_of(energies.data, labels),
            samples_of(energies.data, found.mu),
            rounded,
            found.values,
            found.gaps,
            strict=True,
        )
    ]
