r"""What every objective of learning is: a function of weights in a cone, with a weight for each example.

.. math:: F(w) = \tfrac12\|w\|^2 + \sum_j c_j\,\xi_j(w),\qquad w \in \text{cone},\qquad c_j = C\,s_j

Learners see it in one of two ways: by planes below the slacks (`PlaneObjective`), or by values and gradients (`SmoothObjective`).
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.errors import CertificateError, InvalidSampleError
from ...core.parameters import POSITIVE, check_value
from ...executors.clock import Clock
from ...kernels.records import Design
from ...kernels.vectors import inner
from ...models.cone import Cone
from ..certificate import Check, Proven
from ..oracles.base import Effort, Key

if TYPE_CHECKING:
    from ..proofs.feature_sums import FeatureSum

ULPS = 64 * float(np.finfo(np.float64).eps)  # of a sum of terms: more than rounding takes from one that is summed in pairs
_PROVEN = 1e-9  # relative width at which the bracket of a slack counts as closed: that of optimal answers elsewhere
_OWN_ROUNDING = 1e-12  # of a value that an objective finds in its own way: sums of many examples, in any order
_FEATURES = 64  # numbers that may have been added up in one entry of a plane, beside planes themselves


class Objective(ABC):
    """A function of weights: what all learners and certificates know of it.

    Attributes
    ----------
    n_examples, n_weights : int
    C : float
    sample_weight : ndarray, shape (n_examples,)
    c : ndarray, shape (n_examples,)
        Weight of each slack: ``C * sample_weight``.
    n_calls : int
        Oracle calls, one an example.
    seconds : float
        Wall time in oracles and evaluations.
    """

    n_weights: int
    n_examples: int = 1
    C: float
    sample_weight: np.ndarray
    c: np.ndarray = np.ones(1)
    n_calls: int = 0
    seconds: float = 0.0

    def set_C(self, C: float) -> None:
        """Change the regularisation."""
        check_C(C)
        self._weigh(C)

    def _weigh(self, C: float) -> None:
        """The only place that sets ``C`` and ``c``."""
        self.C = float(C)
        self.c = self.C * self.sample_weight

    @abstractmethod
    def evaluate(self, w: np.ndarray) -> float:
        """The objective at ``w`` by as independent a way as there is, for certificates: never from below."""

    @abstractmethod
    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """`evaluate` as a rigorous bracket, for certificates; no more effort is made once the objective is proven to be ``goal`` or less."""

    def content(self) -> Iterable[np.ndarray]:
        """Arrays that tell these data from others."""
        return ()

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the data, without the weights of examples."""
        from ..checkpoint import digest_arrays

        return digest_arrays(self.content())

    def state(self) -> dict[str, np.ndarray]:
        """What oracles and evaluations remember, for a checkpoint."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:  # noqa: B027
        """The state that `state` gave; nothing by default."""

    @contextlib.contextmanager
    def _counted(self, n_examples: int) -> Iterator[None]:
        """Count the time and the calls of what is done inside."""
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started
        self.n_calls += n_examples


class Plane(NamedTuple):
    r"""A linear lower bound on the slack of one example: :math:`\xi_j(w) \ge b - \langle w, z\rangle`.

    ``key`` says where it comes from (the labelling), so that anyone can make it again.
    """

    example: int
    offset: float
    index: np.ndarray  # type: ignore[assignment]
    value: np.ndarray
    key: Key


class Answer(NamedTuple):
    """What an oracle found at ``w``: for each example the key of its most violated plane, the slack of that plane, and a proven
    upper bound on the slack of any."""

    examples: np.ndarray
    keys: list[Key]
    value: np.ndarray
    upper: np.ndarray

    @property
    def is_proven(self) -> bool:
        """Whether the slacks are proven to rounding."""
        return bool((self.upper - np.maximum(self.value, 0.0) <= _PROVEN * (1.0 + np.abs(self.upper))).all())


@dataclass(frozen=True)
class Tuning:
    """How brackets of slacks are made narrower when nothing else keeps the gap of a training open."""

    efforts: tuple[tuple[Effort, float], ...] = ((Effort.LONG, 10.0), (Effort.FULL, 0.5), (Effort.SEARCH, 0.25))
    """What is tried in turn, while the value that labellings reach is within so many tolerances of the dual: sweeps are cheap, so they are
    tried early; a search that proves one slack for long is wasted as long as the next step of the weights changes it."""
    share: float = 0.25  # of the tolerance, and of the gap that planes leave, that brackets may take; less costs searches
    chosen: float = 0.5  # of what is allowed, what may stay open: the widest brackets are asked about until that little is left


class PlaneObjective(Objective):
    """An objective whose slacks have planes below them, which oracles find: what margin and trivial surrogates share.

    Attributes
    ----------
    cone : Cone
    exact : bool
        Whether ``upper`` of an answer equals the slack.
    relaxed : bool
        Whether answers may be pseudo-marginals.
    """

    exact = True
    relaxed = False
    tuning = Tuning()
    design: Design

    def __init__(self, n_examples: int, cone: Cone, C: float, sample_weight: Any = None, n_jobs: int = 1):
        self.n_examples, self.cone, self.n_jobs = n_examples, cone, n_jobs
        self.sample_weight = as_sample_weight(sample_weight, n_examples)
        self.set_C(C)

    @property
    def n_weights(self) -> int:  # type: ignore[override]
        """Number of weights."""
        return self.cone.n_weights

    def ask(self, w: np.ndarray, examples: np.ndarray | None = None, effort: Effort = Effort.NORMAL) -> Answer:
        """The most violated planes of some examples (all by default) at ``w``."""
        examples = np.arange(self.n_examples) if examples is None else np.asarray(examples, dtype=np.int64)
        with self._counted(len(examples)):
            return self._ask(w, examples, Effort(effort))

    @abstractmethod
    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer: ...

    def repair(self, w: np.ndarray) -> np.ndarray:
        """The nearest weights that satisfy the cone exactly; a copy."""
        return w.copy() if self.cone.is_free else self.cone.repair(w)

    def tighten_brackets(self, w: np.ndarray, answer: Answer, dual: float, tol: float, seconds: float = np.inf) -> Answer:
        """The answer with its open brackets closed as far as the tolerance needs it: by more sweeps first, by `TRWS` to its end if what
        the labellings reach is within the tolerance, and by an exact search when nothing but the brackets keeps the gap open."""
        clock, share = Clock(seconds), self.tuning.share
        for effort, reach in self.tuning.efforts:
            reached = self.primal(w, np.maximum(answer.value, 0.0))
            left = reached - dual
            allowed = max(tol * reached - left, share * tol * reached, share * left)
            if answer.is_proven or left > reach * tol * reached:
                break
            answer = self.spend(w, answer, allowed, (effort,), clock.left)
        return answer

    def spend(
        self, w: np.ndarray, answer: Answer, allowed: float, efforts: Sequence[Effort], seconds: float = np.inf
    ) -> Answer:
        """The answer with more effort where its bracket is open, until ``c @ (upper - value) <= allowed``.

        Parameters
        ----------
        allowed : float
            Part of the objective that the oracle may leave unproven.
        efforts : sequence of Effort
            What to try, in this order.
        seconds : float
            No new call is made after this time.
        """
        value, upper, keys = answer.value.copy(), answer.upper.copy(), list(answer.keys)
        clock = Clock(seconds)
        for effort in efforts:
            loose = self.c[answer.examples] * (upper - np.maximum(value, 0.0))
            if loose.sum() <= allowed:
                break
            order = np.argsort(-loose, kind="stable")
            rest = loose.sum() - np.cumsum(loose[order])
            enough = int(np.searchsorted(-rest, -self.tuning.chosen * allowed)) + 1
            chosen = order[:enough][loose[order[:enough]] > 0]
            # searches are asked for one by one, so that the clock is looked at between them
            for part in np.split(chosen, range(1, len(chosen))) if effort >= Effort.SEARCH else [chosen]:
                if not len(part) or clock.left <= 0:
                    break
                better = self.ask(w, answer.examples[part], effort)
                for i, new, bound, key in zip(part, better.value, better.upper, better.keys, strict=True):
                    if new > value[i]:
                        value[i], keys[i] = new, key
                    upper[i] = max(value[i], min(upper[i], bound))
        return Answer(answer.examples, keys, value, upper)

    def primal(self, w: np.ndarray, slack: np.ndarray) -> float:
        r""":math:`\tfrac12\|w\|^2 + \sum_j c_j\,\xi_j`."""
        return float(0.5 * inner(w, w) + inner(self.c, slack))

    @abstractmethod
    def plane(self, j: int, key: Key) -> Plane:
        """The plane that a key stands for."""

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """`evaluate` as a rigorous bracket; from below nothing is known but that slacks are not negative."""
        high = self.evaluate(w)
        return Proven(0.5 * float(inner(w, w)), high, _OWN_ROUNDING * abs(high), "objective by the objective's own evaluation")

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray, check: Check) -> FeatureSum:
        r""":math:`\sum_i\alpha_i z_i` and :math:`\sum_i\alpha_i b_i` from the keys, which are checked, with bounds on rounding errors."""
        from ..proofs.feature_sums import EPS, FeatureSum

        u, size, value = np.zeros(self.n_weights), np.zeros(self.n_weights), 0.0
        check.expect(len(keys))
        for j, key, share in zip(examples.tolist(), keys, alpha.tolist(), strict=True):
            plane = self.plane(j, key)
            u[plane.index] += share * plane.value
            size[plane.index] += share * np.abs(plane.value)
            value += share * plane.offset
            check.step()
        few = (len(keys) + _FEATURES) * EPS
        return FeatureSum(u, few * size, value, few * abs(value))

    def exact_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray) -> tuple[Any, Any]:
        """The sums of `sum_planes` in rational arithmetic."""
        raise CertificateError(
            f"the certificate of a {type(self).__name__} cannot be checked in rational arithmetic; leave exact=True out, or train in memory."
        )

    def planes_bound(self, planes: tuple[np.ndarray, Sequence[Key], np.ndarray], mu: np.ndarray, check: Check) -> Proven:
        """What planes (examples, keys, multipliers) and multipliers of the cone prove about all weights; rounding is taken off."""
        from ..proofs.feature_sums import dual_bound

        if check.exact:
            return dual_bound(self.cone.matrix, mu, *self.exact_planes(*planes))
        return dual_bound(self.cone.matrix, mu, self.sum_planes(*planes, check))

    def content(self) -> Iterable[np.ndarray]:
        return (*self.design, self.cone.nonneg, *self.cone.tables)


def check_C(C: Any) -> None:
    """Refuse what is not a positive number."""
    check_value("C", C, POSITIVE)


def as_sample_weight(given: Any, n_examples: int) -> np.ndarray:
    """Weights of examples, all 1 by default; refused unless they are finite, not negative and not all 0."""
    weight = np.ones(n_examples) if given is None else np.asarray(given, dtype=np.float64)
    if weight.shape != (n_examples,) or not (np.isfinite(weight) & (weight >= 0)).all() or not weight.sum() > 0:
        raise InvalidSampleError(f"sample_weight is {given!r}, wanted {n_examples} finite numbers >= 0 that are not all 0.")
    return weight
