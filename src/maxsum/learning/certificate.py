"""Proofs that come with learned weights, and their check, which shares no code with the learners.

A proof of learning has two sides: a *lower bound* on the objective of all weights of the cone, which the certificate holds, and an
*upper bound* on the objective of the weights that were learned, which the check makes anew. Both are rigorous: what rounding could
hide is taken off the one and added to the other.
"""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.errors import CertificateError, CheckTimeout, MaxsumError
from ..core.result import Guarantee

AGREE = 1e-9  # what sums of the same numbers in another order may differ by, relative to the objective: a claim is held to this
LOOSE = 1e-6  # the same where slacks are only bracketed (graphs with cycles): the check's bracket may be a little wider than the learner's
OPTIMAL = 1e-9  # relative gap that is numerically nothing
Progress = Callable[[int, int], Any]


class Proven(NamedTuple):
    """A number between ``low`` and ``high``, both rigorous; ``rounding`` is what of the distance comes from float64 alone, and ``words``
    say how it was found."""

    low: float
    high: float
    rounding: float = 0.0
    words: str = ""


class Bracketed:
    """What has an ``objective`` of weights, from above, and a ``lower_bound`` on that of all weights: how far apart they are.

    Attributes
    ----------
    gap : float
        ``objective - lower_bound``, not below 0.
    relative_gap : float
        ``gap / objective``, and 0 if the gap is 0.
    guarantee : Guarantee
        ``within_gap`` with a finite lower bound, ``optimal`` if the gap is at rounding level, else ``feasible``.
    """

    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        return float(max(0.0, self.objective - self.lower_bound))

    @property
    def relative_gap(self) -> float:
        return relative(self.objective, self.lower_bound)

    @property
    def guarantee(self) -> Guarantee:
        return guarantee_of(self.objective, self.lower_bound)


@dataclass(frozen=True)
class LearningVerification(Bracketed):
    """What the check found.

    Attributes
    ----------
    objective : float
        The objective of the weights is not above this.
    lower_bound : float
        No weights of the cone have a smaller objective than this; ``-inf`` if nothing is proven.
    checked : str
        How both were found, in words.
    exact : bool
        Whether both come from rational arithmetic.
    """

    objective: float
    lower_bound: float
    checked: str = ""
    exact: bool = False

    def __str__(self) -> str:
        exactly = " exactly" if self.exact else ""
        return (
            f"verified{exactly}: objective {self.objective:.8g}, lower bound {self.lower_bound:.8g}, relative gap "
            f"{self.relative_gap:.2g}"
        )


class Check:
    """Clock and progress of one verification.

    Parameters
    ----------
    progress : callable, optional
        Called with (parts done, parts in all) as the check goes on.
    time_limit : float, optional
        Seconds; `CheckTimeout` is raised when they are over.
    exact : bool
        Whether to use rational arithmetic.
    """

    def __init__(self, progress: Progress | None = None, time_limit: float | None = None, exact: bool = False):
        self.progress, self.exact = progress, exact
        self.ends = np.inf if time_limit is None else time.perf_counter() + time_limit
        self.time_limit, self.done, self.total = time_limit, 0, 0

    def expect(self, n: int) -> None:
        """There are ``n`` more parts to do."""
        self.total += n
        self.step(0)

    def step(self, n: int = 1) -> None:
        """``n`` parts are done."""
        self.done += n
        if self.progress is not None:
            self.progress(self.done, max(self.total, self.done))
        if time.perf_counter() >= self.ends:
            raise CheckTimeout(
                f"the check did not end in {self.time_limit:g} s ({self.done} of {self.total} parts are done); nothing is known from it. Give "
                "it more time."
            )

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit of the check."""
        return self.ends - time.perf_counter()


class LearningCertificate(ABC):
    """A proof of a lower bound on an objective of learning.

    Attributes
    ----------
    objectives : tuple of str
        Classes of objectives that the certificate proves something about (or classes that inherit from them); others are refused.
    """

    objectives: ClassVar[tuple[str, ...]] = ()
    messages: Any = None
    """Messages (2, E, K) that prove the objective of the weights, where a certificate keeps some."""

    def verify(
        self,
        objective: Any,
        weights: Any,
        *,
        claimed: Any = None,
        exact: bool = False,
        progress: Progress | None = None,
        time_limit: float | None = None,
    ) -> LearningVerification:
        """Check everything: the cone, the value of the weights by an independent evaluation, the bound from the proof, every claim.

        Parameters
        ----------
        objective : Objective
            Of one of the classes in ``objectives``.
        weights : array-like, shape (n_weights,)
        claimed : LearningResult, optional
            Or what has some of its attributes ``weights``, ``objective``, ``lower_bound``, ``gap``, ``relative_gap``, ``guarantee``.
        exact : bool
            Use rational arithmetic: no rounding term at all. Refused where sums of exponentials are part of the objective.
        progress : callable, optional
            Called with (parts done, parts in all).
        time_limit : float, optional
            Seconds.

        Raises
        ------
        CertificateError
            If the certificate is malformed or of another kind of objective, the weights leave the cone, the bound exceeds the objective,
            or a claim does not hold.
        CheckTimeout
            If the time limit passes first.
        """
        check = Check(progress, time_limit, exact)
        found, bound = self._check(objective, weights, check, getattr(claimed, "objective", None))
        return _judged(found, bound, claimed, weights, exact)

    def lower_bound(self, objective: Any, exact: bool = False) -> float:
        """The bound that the certificate proves, recomputed; rounding is taken off.

        Raises
        ------
        CertificateError
            If it is malformed, or of another kind of objective.
        """
        return self._proof(objective, Check(exact=exact)).low

    def _check(self, objective: Any, weights: Any, check: Check, goal: float | None) -> tuple[Proven, Proven]:
        """Value of the weights and lower bound."""
        w = weights_of(objective, weights)
        bound = self._proof(objective, check)
        return self._value(objective, w, check, goal), bound

    def _proof(self, objective: Any, check: Check) -> Proven:
        """`_bound` of the right objective; a certificate that makes no sense is a `CertificateError`."""
        known = {own.__name__ for own in type(objective).__mro__}
        if not known & set(self.objectives):
            raise CertificateError(
                f"a {type(self).__name__} proves nothing about a {type(objective).__name__}, wanted one of {', '.join(self.objectives)}."
            )
        with refusing("the certificate is malformed"):
            return self._bound(objective, check)

    @abstractmethod
    def _bound(self, objective: Any, check: Check) -> Proven:
        """The lower bound: ``low`` counts."""

    def _value(self, objective: Any, w: np.ndarray, check: Check, goal: float | None) -> Proven:
        """The objective at ``w``, not learned from the learner; ``goal`` is a value that is low enough. Messages of the certificate, if it has
        some, are looked at first: any prove something, and fresh solves of large graphs may end above what is claimed."""
        found: Proven
        known: Proven | None = None
        if self.messages is not None:
            with refusing("the messages of the certificate are malformed"):
                known = objective.prove_by_messages(w, self.messages, check)
            if goal is not None and known.high <= goal + AGREE * abs(goal) + min(known.rounding, LOOSE * abs(goal)):
                return known
        found = objective.prove(w, check, goal)
        return found if known is None or found.high <= known.high else known


class NoProof(LearningCertificate):
    """For results without a certificate: no lower bound is proven, the objective is checked all the same."""

    objectives: ClassVar[tuple[str, ...]] = ("Objective",)

    def _bound(self, objective: Any, check: Check) -> Proven:
        return Proven(-np.inf, -np.inf, 0.0, "no lower bound is claimed")


def _judged(found: Proven, bound: Proven, claimed: Any, weights: Any, exact: bool) -> LearningVerification:
    """The verification of a value and a bound; raises `CertificateError` where they contradict each other or a claim."""
    _, high, rounding, _ = found
    room = AGREE * abs(high) + min(rounding + bound.rounding, LOOSE * abs(high))
    if not np.isfinite(high) or np.isnan(bound.low):
        raise CertificateError(f"the objective is {high} and the lower bound {bound.low}; wanted finite numbers.")
    if bound.low > high + (0.0 if exact else room):
        raise CertificateError(f"the lower bound {bound.low} exceeds the objective {high}.")
    if claimed is not None:
        _compare(claimed, found, bound, room, weights)
    words = "; ".join(part for part in (found.words, bound.words) if part)
    return LearningVerification(high, min(bound.low, high), words, exact)


def _compare(claimed: Any, found: Proven, bound: Proven, room: float, weights: Any) -> None:
    """Every claim beside what was found."""
    low, high, *_ = found
    own = getattr(claimed, "weights", None)
    if own is not None and not np.array_equal(own, weights):
        raise CertificateError("the weights are not those of the result that is claimed; wanted result.weights.")
    objective, lower = getattr(claimed, "objective", None), getattr(claimed, "lower_bound", None)
    if objective is not None:
        if not objective >= low - room:
            raise CertificateError(f"the claimed objective is {objective}, but that of the weights is {low} or more.")
        if not high <= objective + max(room, LOOSE * abs(high) if high - low > room else 0.0):
            raise CertificateError(f"the claimed objective is {objective}, but the check proves only {high}.")
    if lower is not None and not lower <= bound.low + room:
        raise CertificateError(f"the claimed lower bound is {lower}, but the certificate proves only {bound.low}.")
    _compare_gap(claimed, high if objective is None else objective, bound.low if lower is None else lower, room)


def _compare_gap(claimed: Any, objective: float, lower: float, room: float) -> None:
    """Whether gap and guarantee follow from objective and bound, which are checked."""
    gap, share, kind = (getattr(claimed, name, None) for name in ("gap", "relative_gap", "guarantee"))
    proven = max(0.0, objective - lower)
    if gap is not None and not gap >= proven - room:
        raise CertificateError(f"the claimed gap is {gap}, but objective and lower bound leave {proven}.")
    if share is not None and not share >= relative(objective, lower) - 2 * AGREE:
        raise CertificateError(
            f"the claimed relative gap is {share}, but objective and lower bound leave {relative(objective, lower)}."
        )
    if kind is not None and _RANK[Guarantee(kind)] > _RANK[guarantee_of(objective, lower)]:
        raise CertificateError(f"the claimed guarantee is {kind!s}, but what is proven is {guarantee_of(objective, lower)!s}.")


_RANK = {guarantee: rank for rank, guarantee in enumerate((Guarantee.feasible, Guarantee.within_gap, Guarantee.optimal))}


def relative(objective: float, lower_bound: float) -> float:
    """Gap relative to the objective."""
    gap = objective - lower_bound
    if gap <= 0:
        return 0.0
    return float(gap / abs(objective)) if np.isfinite(gap) and objective != 0 else float("inf")


def guarantee_of(objective: float, lower_bound: float) -> Guarantee:
    """What a lower bound proves about weights of this objective."""
    if not np.isfinite(lower_bound):
        return Guarantee.feasible
    return Guarantee.optimal if relative(objective, lower_bound) <= OPTIMAL else Guarantee.within_gap


def weights_of(objective: Any, weights: Any) -> np.ndarray:
    """Weights, checked to be finite, of the right number, and allowed by the model; by plain numpy."""
    with refusing("the weights are malformed"):
        w = np.ascontiguousarray(weights, dtype=np.float64)
    if w.shape != (objective.n_weights,) or not np.isfinite(w).all():
        raise CertificateError(f"the weights have shape {w.shape}, wanted {objective.n_weights} finite numbers.")
    cone = getattr(objective, "cone", None)
    if not (objective.contains(w) if cone is None else cone.contains(w)):
        raise CertificateError("the weights are outside the cone of the model.")
    return w


@contextlib.contextmanager
def refusing(words: str) -> Iterator[None]:
    """What goes wrong with numbers and shapes of a certificate says that it proves nothing."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        if isinstance(error, MaxsumError):
            raise
        raise CertificateError(f"{words}: {error}.") from error


def whole_numbers(values: Any, shape: tuple[int | None, ...], limit: Any, what: str) -> np.ndarray:
    """An array of whole numbers in ``0 .. limit - 1``, or a `CertificateError`; None in ``shape`` is any length."""
    array = np.asarray(values)
    fits = array.ndim == len(shape) and all(b is None or a == b for a, b in zip(array.shape, shape, strict=True))
    if not fits or (array.size and array.dtype.kind not in "iu"):
        raise CertificateError(f"{what} are {array.dtype} of shape {array.shape}, wanted whole numbers of shape {shape}.")
    array = array.astype(np.int64, copy=False)
    wrong = (array < 0) | (array >= limit)
    if wrong.any():
        place = tuple(int(i[0]) for i in np.nonzero(wrong))
        most = np.broadcast_to(limit, array.shape)[place]
        raise CertificateError(f"{what} hold {array[place]} at {place}, wanted 0 to {int(most) - 1}.")
    return array


def multipliers(values: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Finite numbers >= 0 of a shape, or a `CertificateError`."""
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise CertificateError(f"{what}: {array.dtype} of shape {array.shape}, wanted numbers of shape {shape}.")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise CertificateError(f"{what} are not finite.")
    if (array < 0).any():
        raise CertificateError(f"{what}: {array.min()} is negative, so it proves nothing.")
    return array


@dataclass(frozen=True, eq=False)
class DualCertificate(LearningCertificate):
    r"""Planes and multipliers that prove a lower bound on the objective, whatever their numbers are:

    .. math:: D = \sum_i \alpha_i b_i - \tfrac12\Big\|\sum_i\alpha_i z_i + A^\top\mu\Big\|^2 \le \min_w F(w)

    for :math:`\alpha \ge 0` with :math:`\sum_{i \in j}\alpha_i \le c_j` and :math:`\mu \ge 0`; the true labelling, with
    :math:`b = 0, z = 0`, takes what is left.

    Attributes
    ----------
    examples : ndarray of int64, shape (n_planes,)
    keys : tuple
        Where each plane comes from: a labelling of its example, pseudo-marginals (`Relaxed`, for the ``lp`` surrogate alone), an
        inequality of the trivial surrogate, or, on shards, the point where an oracle was asked.
    alpha : ndarray, shape (n_planes,)
    mu : ndarray
        Multipliers of ``cone.matrix``.
    """

    examples: np.ndarray
    keys: tuple[Any, ...]
    alpha: np.ndarray
    mu: np.ndarray

    objectives: ClassVar[tuple[str, ...]] = (
        "MarginObjective", "TrivialObjective", "FreeTrivialObjective", "AggregatedObjective", "PartsObjective",
    )  # fmt: skip

    def _bound(self, objective: Any, check: Check) -> Proven:
        mu = multipliers(self.mu, (objective.cone.matrix.shape[0],), "the cone multipliers of the certificate")
        found: Proven = objective.planes_bound(self.planes(objective), mu, check)
        return found

    def planes(self, objective: Any) -> tuple[np.ndarray, list[Any], np.ndarray]:
        """Examples, keys and multipliers of the planes that count, checked; multipliers that are slightly off are scaled into place."""
        n = len(self.keys)
        alpha = multipliers(self.alpha, (n,), "the multipliers of the certificate")
        examples = whole_numbers(self.examples, (n,), objective.n_examples, "examples of the certificate")
        c = np.asarray(objective.c, dtype=np.float64)
        total = np.bincount(examples, weights=alpha, minlength=objective.n_examples)
        if (total > c * (1 + LOOSE)).any():
            j = int((total - c).argmax())
            raise CertificateError(f"multipliers of example {j} sum to {total[j]}, more than its {c[j]}.")
        alpha = placed(examples, alpha, c, total)
        used = np.flatnonzero(alpha > 0)
        return examples[used], [self.keys[i] for i in used.tolist()], alpha[used]


def placed(examples: np.ndarray, alpha: np.ndarray, c: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Multipliers whose sums over each example, as real numbers, are at most ``c``: those that are not surely so are made smaller."""
    few = 4.0 * np.finfo(np.float64).eps  # two roundings of the scaling, one of the sum, one to spare
    alpha, order = alpha.copy(), np.argsort(examples, kind="stable")
    ends = np.searchsorted(examples[order], np.arange(len(c) + 1))
    counts = np.diff(ends)
    unsure = total * (1.0 + counts * few) > c
    for j in np.flatnonzero(unsure & (total > 0)).tolist():
        own = order[ends[j] : ends[j + 1]]
        exact = math.fsum(alpha[own].tolist())
        if exact * (1.0 + few) > c[j]:
            alpha[own] *= (c[j] / exact) * (1.0 - 3.0 * few)
            if math.fsum(alpha[own].tolist()) * (1.0 + few) > c[j]:  # denormal numbers round by more than their share
                alpha[own] = 0.0
    return alpha
