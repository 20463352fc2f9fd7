r"""Learning from data that come in chunks: of all examples seen before a chunk one plane is kept, and their data are forgotten.

Multipliers :math:`\alpha` of the examples seen so far, which stay feasible whatever comes later, make one number and one vector,

.. math:: \beta = \sum_i \alpha_i b_i,\qquad v = \sum_i \alpha_i z_i + A^\top\mu,

and :math:`\sum_j c_j \xi_j(w) \ge \beta - \langle w, v\rangle` for all weights of the cone. So with :math:`\sum_{j \text{ seen}} c_j\xi_j` in the place of
:math:`\max\{0, \beta - \langle w, v\rangle\}` the objective of a chunk would only be larger: what bounds it from below bounds the objective of *all
data seen* from below. Its value at given weights is no upper bound of that, which nobody knows without the old data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.errors import CertificateError, InvalidSampleError
from ..kernels.vectors import inner
from ..models.bound import BoundModel
from .certificate import Check, DualCertificate, Proven, multipliers
from .dual.model import Columns
from .dual.planes import PlaneStore, ranges
from .objectives.margin import MarginObjective

_EPS = float(np.finfo(np.float64).eps)  # of one rounding
_ROUNDING = 1e-12  # of the sums behind a plane: more than float64 takes from sums of millions of terms that are added in blocks
_STEPS = 3  # of the share of the old plane at a refresh: one is exact where no weights are cut off


@dataclass(frozen=True, eq=False)
class Past:
    r"""The plane :math:`\sum_j c_j \xi_j(w) \ge \beta - \langle w, v\rangle` of all examples seen.

    Attributes
    ----------
    offset : float
        :math:`\beta`.
    vector : ndarray, shape (n_weights,)
        :math:`v`.
    n_examples : int
        Examples that are behind it.
    lower_bound : float
        What is proven about the objective of all of them: no weights have a smaller one.
    """

    offset: float
    vector: np.ndarray
    n_examples: int = 0
    lower_bound: float = 0.0

    @classmethod
    def nothing(cls, n_weights: int) -> Past:
        """Before the first chunk."""
        return cls(0.0, np.zeros(n_weights))


class StreamObjective(MarginObjective):
    r"""The margin hinge of a chunk, and the plane of all examples before it:

    .. math:: \tfrac12\|w\|^2 + \sum_{j \in \text{chunk}} c_j\,\xi_j(w) + \max\{0,\; \beta - \langle w, v\rangle\}.

    Parameters
    ----------
    model : BoundModel
        Of the chunk.
    past : Past
    C, loss, oracle, sample_weight, n_jobs
        As of `MarginObjective`.
    """

    def __init__(
        self,
        model: BoundModel,
        past: Past,
        C: float = 1.0,
        loss: Any = "hamming",
        oracle: Any = None,
        sample_weight: Any = None,
        n_jobs: int = 1,
    ):
        if past.vector.shape != (model.n_weights,):
            raise InvalidSampleError(
                f"this chunk makes a model of {model.n_weights} weights, but those seen before had {past.vector.size}, wanted the same: features "
                "whose number does not depend on the data (arrays, CSR matrices, Hashed) and all classes declared."
            )
        super().__init__(model, C, loss, oracle, sample_weight, n_jobs)
        self.past = past

    def old(self, w: np.ndarray) -> float:
        """What the plane of the past says at some weights."""
        return max(0.0, self.past.offset - float(inner(w, self.past.vector)))

    def primal(self, w: np.ndarray, slack: np.ndarray) -> float:
        return super().primal(w, slack) + self.old(w)

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        if check.exact:
            raise CertificateError("the objective of a chunk is not checked in rational arithmetic; leave exact=True out.")
        own = self.old(w)
        size = abs(self.past.offset) + float(np.abs(w * self.past.vector).sum())
        error = (len(w) + 2) * _EPS * size
        found = super().prove(w, check, None if goal is None else goal - own)
        words = f"{found.words}, and the plane of {self.past.n_examples} examples seen before"
        return Proven(found.low + max(0.0, own - error), found.high + own + error, found.rounding + 2 * error, words)

    def content(self) -> Iterable[np.ndarray]:
        return (*super().content(), np.array([self.past.offset]), self.past.vector)


@dataclass(frozen=True, eq=False)
class StreamCertificate(DualCertificate):
    """Planes of a chunk, and the share of the plane of the past: a proof about all data seen, as far as that plane is taken on trust.

    Attributes
    ----------
    share : float
        Between 0 and 1.
    """

    share: float = 0.0

    objectives: ClassVar[tuple[str, ...]] = ("StreamObjective",)

    def _bound(self, objective: Any, check: Check) -> Proven:
        from .proofs.feature_sums import FeatureSum, dual_bound

        if check.exact:
            raise CertificateError("the bound of a chunk is not checked in rational arithmetic; leave exact=True out.")
        mu = multipliers(self.mu, (objective.cone.matrix.shape[0],), "the cone multipliers of the certificate")
        share = float(multipliers([self.share], (1,), "the share of the past")[0])
        if not share <= 1.0:
            raise CertificateError(f"the share of the plane of the past is {share}, wanted a number from 0 to 1.")
        past: Past = objective.past
        old = FeatureSum(share * past.vector, _EPS * share * np.abs(past.vector), share * past.offset, _EPS * abs(past.offset))
        return dual_bound(objective.cone.matrix, mu, objective.sum_planes(*self.planes(objective), check) + old)


class StreamStore(PlaneStore):
    r"""Planes of a chunk beside the plane of the past, whose share :math:`\theta \in [0, 1]` is ascended as well:

    .. math:: \max_{\alpha, \mu, \theta}\; \theta\beta + \sum_i\alpha_i b_i - \tfrac12\|\theta v + \sum_i\alpha_i z_i + A^\top\mu\|^2.

    Parameters
    ----------
    objective : StreamObjective
    max_planes : int
        As of `PlaneStore`.
    """

    def __init__(self, objective: StreamObjective, max_planes: int = 40):
        super().__init__(objective, max_planes)
        self.share = 1.0
        self.refresh()

    def refresh(self) -> float:
        past, weights = self.objective.past, self.weights
        super().refresh()
        square, sum_of_planes = float(past.vector @ past.vector), weights.plain.copy()
        for _ in range(_STEPS):
            self._set(sum_of_planes + self.share * past.vector)
            if square > 0:  # the step of a concave function whose slope changes by at most v.v
                slope = past.offset - float(inner(weights.value, past.vector))
                self.share = min(1.0, max(0.0, self.share + slope / square))
        self._set(sum_of_planes + self.share * past.vector)
        return float(self._offsets() + self.share * past.offset - 0.5 * inner(weights.value, weights.value))

    def _set(self, plain: np.ndarray) -> None:
        """Weights before and after negative ones are cut off."""
        self.weights.plain[:] = plain
        if self.weights.value is not self.weights.plain:
            nonneg = self.objective.cone.nonneg
            self.weights.value[:] = np.where(nonneg, np.maximum(plain, 0.0), plain)

    def _offsets(self) -> float:
        """Sum of offsets times multipliers of the chunk."""
        used = ranges(self.planes.slot_ptr[:-1], self.planes.used)
        return float(self.planes.alpha[used] @ self.planes.offset[used])

    @property
    def value(self) -> float:
        return super().value + self.share * float(self.objective.past.offset)

    def columns(self) -> Columns:
        return super().columns()._replace(origin=self.share * self.objective.past.vector)

    def certificate(self) -> StreamCertificate:
        own = super().certificate()
        return StreamCertificate(own.examples, own.keys, own.alpha, own.mu, self.share)

    def merged(self) -> Past:
        """One plane for the examples of the chunk and all before it, with what is proven of them: rounding of its sums is taken off."""
        self.refresh()
        past: Past = self.objective.past
        offset, vector = self._offsets() + self.share * past.offset, self.weights.plain.copy()
        room = _ROUNDING * (abs(offset) + float(vector @ vector))
        own = offset - 0.5 * float(inner(self.weights.value, self.weights.value)) - room
        # more data only raise the objective, so that an earlier bound holds as well
        return Past(offset, vector, past.n_examples + self.objective.n_examples, max(own, past.lower_bound))
