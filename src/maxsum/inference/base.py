"""What a solver is, and the loop driver that all of them share."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np

from ..core.certificates.base import Certificate, EliminationCertificate, Evaluation, MessageCertificate, in_doubt, verdict
from ..core.certificates.dual import centred_score
from ..core.certificates.lifted import LiftedCertificate
from ..core.errors import CertificateError, InfeasibleError, UnsupportedProblemError
from ..core.factors.lifting import lift, unliftable
from ..core.memory import check_room
from ..core.parameters import RELATIVE_GAP, TIME_LIMIT, Constraint, Maybe, check, check_value, settings
from ..core.problem import Messages, Problem
from ..core.result import Guarantee, Result, Termination, TracePoint
from ..core.validation import as_labels
from ..executors.clock import Clock as Clock

log = logging.getLogger("maxsum")

Callback = Callable[[TracePoint], Any]

KEPT = "Kept from init:"
"""How a message begins to tell what a warm start gave."""


@dataclass(frozen=True)
class Tuning:
    """When a run stops, and which arithmetic judges it."""

    # Table entries of all edges up to which numpy gives the verdict at once, in 0.5 ms; of larger problems kernels do, five
    # times as fast.
    numpy_entries: int = 2**10
    # Nodes and edges up to which a run decides in rational arithmetic what rounding leaves open, about 0.2 s; `verify` always
    # does.
    exact_terms: int = 20_000
    # A step as long as the last one is begun if it ends at most so late: half of what a run may overrun; less leaves time
    # unused.
    overrun_seconds: float = 0.1
    overrun_share: float = 0.025  # the same as a share of the limit, added to the seconds
    # Measured for a cell of an edge's table in evaluating a proof of messages, for which a run ends earlier.
    evaluate_seconds: float = 2e-8
    # The most of the limit that is kept free for it: a proof that is cut short would be lost, a longer wait is wasted.
    evaluate_share: float = 0.1
    # Share of a relative gap that a run leaves to rounding, which is added to the gap of the answer; more would be a step too many.
    gap_share: float = 1 - 1e-9


_TUNING = Tuning()


@dataclass(frozen=True)
class Support:
    """Whether a solver takes a problem; if not, why, and the object that shows it.

    Attributes
    ----------
    ok : bool
    reason : str
    witness : object
    """

    ok: bool
    reason: str = ""
    witness: Any = None

    def __bool__(self) -> bool:
        return self.ok


class Factored(StrEnum):
    """How a solver takes factors: as they are, written with extra nodes and edges (`core.factors.lifting`), or not at all."""

    native = "native"
    lifted = "lifted"
    refused = "refused"


class Solver(ABC):
    """A MAP solver. Parameters are set once; `solve` writes nothing on the object, so threads may share it."""

    time_limit: float | None = None
    tol: float = 0.0
    does: ClassVar[str] = ""
    solves_relaxation: ClassVar[bool] = False
    """Whether ``tol`` is the relative gap of a relaxation's value; elsewhere it is that of the labelling."""
    takes_factors: ClassVar[Factored] = Factored.refused
    """What `supports` and `solve` do with a problem that has factors; a solver need not know more of them."""
    improves_messages: ClassVar[bool] = False
    """Whether iterations are passes that go on from the messages of ``init``; the answer then says what these gave."""
    _copies: ClassVar[int] = 3  # of all messages, that are in memory at a time
    _parameters: ClassVar[Mapping[str, Constraint | None]] = settings(time_limit=TIME_LIMIT, tol=RELATIVE_GAP)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "supports" in cls.__dict__:  # every solver is asked about factors first
            cls.supports = _with_factors(cls.__dict__["supports"])  # type: ignore[assignment, method-assign]

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        """Name of the class."""
        return type(self).__name__

    @abstractmethod
    def supports(self, problem: Problem) -> Support:
        """Whether `solve` takes the problem, and if not, why not."""

    @abstractmethod
    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        """Solve inside ``run``, which catches interrupts: offer labellings and certificates as they are found."""

    def solve(
        self, problem: Problem, init: Any = None, callback: Callback | None = None, *, gap: float | None = None
    ) -> Result:
        """Solve a problem.

        Parameters
        ----------
        init : Result, Messages or ndarray, optional
            Warm start: an earlier result for this or a similar problem, or messages.
        callback : callable, optional
            Called with a `TracePoint` at each step; a true return value stops the run.
        gap : float, optional
            Stop when the labelling is proven to be within this relative gap; ``tol`` by default, or 0 where that is the gap of
            a relaxation.
        """
        check_value("gap", gap, Maybe(RELATIVE_GAP))
        support = self.supports(problem)
        if not support:
            raise UnsupportedProblemError(f"{self.name} {support.reason}. {_alternatives(problem, self.name)}")
        if len(problem.factors) and self.takes_factors is Factored.lifted:
            return solve_lifted(self, problem, init, callback, gap)
        need = 8 * problem.n_labels * (2 * self._copies * problem.n_edges + problem.n_nodes)
        check_room(need, f"solving this problem by {self.name}", "Take fewer nodes or labels, or solve it in parts")
        wanted = (0.0 if self.solves_relaxation else self.tol) if gap is None else gap
        run = Run(self.name, problem, self.time_limit, callback, wanted)
        with run:
            start = run.warm_start(init)
            known = _bound_at_start(problem, start) if self.improves_messages and start is not None else None
            self._run(problem, run, start)
        result = run.result()
        if known is None:
            return result
        said = f"{KEPT} messages with the bound {known:.10g} at the start; {_passes(result.n_iter)} followed."
        return replace(result, message=f"{result.message} {said}")


def _bound_at_start(problem: Problem, messages: Messages) -> float:
    from .prepare import measure

    return measure(problem, messages)


def _passes(n_iter: int) -> str:
    return "no pass" if not n_iter else "1 pass" if n_iter == 1 else f"{n_iter} passes"


def _with_factors(supports: Callable[[Any, Problem], Support]) -> Callable[[Any, Problem], Support]:
    """`Solver.supports`, with the answer for problems with factors that the class declares."""

    @wraps(supports)
    def asked(self: Solver, problem: Problem) -> Support:
        if not len(problem.factors) or self.takes_factors is Factored.native:
            return supports(self, problem)
        if self.takes_factors is Factored.refused:
            return Support(False, "takes no factors; this problem has some", problem.factors.members(0))
        if reason := unliftable(problem):
            return Support(False, reason)
        try:
            return supports(self, lift(problem).problem)
        except InfeasibleError:  # which `solve` says
            return Support(True)

    return asked


def solve_lifted(solver: Solver, problem: Problem, init: Any, callback: Callback | None, gap: float | None) -> Result:
    """Solve the lifted problem, and say it of the given one."""
    run = Run(solver.name, problem, None, None, 0.0)
    try:
        lifted = lift(problem)
    except InfeasibleError:
        run.certify(-np.inf, MessageCertificate(problem.zero_messages()))
        return run.result()
    if isinstance(init, Result):
        labels = None if init.labels is None else lifted.labels(init.labels)
        kept = None if init.messages is None else MessageCertificate(lifted.messages_up(problem.as_messages(init.messages)))
        init = replace(init, labels=labels, certificate=kept, marginals=None, edge_marginals=None, fixed=None)
    elif init is not None:
        init = lifted.messages_up(problem.as_messages(init))
    found = solver.solve(lifted.problem, init, callback, gap=gap)
    if found.labels is not None:
        run.offer(found.labels[: problem.n_nodes])
    if found.certificate is not None:
        certificate: Certificate = LiftedCertificate(found.certificate)
        if isinstance(found.certificate, MessageCertificate):
            down = lifted.messages_down(found.certificate.messages)
            certificate = certificate if down is None else MessageCertificate(down)
        run.certify(found.bound, certificate)
    run.termination, run.message, run.n_iter, run.trace = found.termination, found.message, found.n_iter, list(found.trace)
    marginals = found.marginals
    run.marginals = None if marginals is None else marginals[: problem.n_nodes, : problem.n_labels]
    run.fixed = None if found.fixed is None else found.fixed[: problem.n_nodes]
    result = replace(run.result(), seconds=found.seconds)
    if result.guarantee != found.guarantee:  # the sentence of the lifted problem would say something else
        sentence = f"{solver.name}: {_sentence(result.guarantee)} ({result.termination.replace('_', ' ')})."
        result = replace(result, message=sentence)
    return result


def _alternatives(problem: Problem, but: str) -> str:
    from .registry import SOLVERS

    able = [name for name, solver in SOLVERS.items() if name != but and solver().supports(problem)]
    return f"Solvers that accept this problem: {', '.join(able) if able else 'none'}."


def without_cliques(problem: Problem) -> Support:
    """Support of a solver that takes nodes and edges only."""
    if len(problem.cliques):
        return Support(False, "takes nodes and edges only; this problem has clique terms", problem.cliques.members(0))
    return Support(True)


class Interruptible:
    """A run with a clock, used as a context: ``Ctrl-C`` inside ends the block and leaves the best so far."""

    time_limit: float | None
    termination: Termination

    reserve: float = 0.0
    """Seconds before the limit that belong to what comes after the last step."""

    def __init__(self, time_limit: float | None = None):
        check_value("time_limit", time_limit, TIME_LIMIT)
        self.time_limit, self.clock = time_limit, Clock(time_limit)
        self._lap: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if isinstance(error, KeyboardInterrupt) or (
            isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt)
        ):
            self.termination = Termination.interrupted
            return True
        return False

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return self.clock.seconds

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit (``inf`` without one), less the `reserve`."""
        return max(0.0, self.clock.left - self.reserve)

    def late(self) -> bool:
        """Whether time is up, or would be well before the end of another step as long as the last one; to be asked once a step."""
        used = self.clock.seconds
        last, self._lap = 0.0 if self._lap is None else used - self._lap, used
        left = self.seconds_left
        return left <= 0 or (
            self.time_limit is not None and last > left + _TUNING.overrun_seconds + _TUNING.overrun_share * self.time_limit
        )


class Run(Interruptible):
    """State of one solve: clock, limits, callback, trace, best labelling, best certificate."""

    def __init__(
        self,
        solver: str,
        problem: Problem,
        time_limit: float | None = None,
        callback: Callback | None = None,
        gap: float = 0.0,
    ):
        super().__init__(time_limit)
        self.solver, self.problem, self.gap = solver, problem, gap
        self._refused = np.inf
        self.callback = callback
        if time_limit is not None:
            cells = problem.n_edges * problem.n_labels**2 + problem.factors.n_cells
            self.reserve = min(_TUNING.evaluate_seconds * cells, _TUNING.evaluate_share * time_limit)
        self.labels: np.ndarray | None = None
        self.score = -np.inf
        self.relative_score = -np.inf
        self.bound = np.inf
        self.certificate: Certificate | None = None
        self.termination = Termination.converged
        self.message = ""
        self.marginals: np.ndarray | None = None
        self.edge_marginals: np.ndarray | None = None
        self.init_marginals: np.ndarray | None = None
        self.fixed: np.ndarray | None = None
        self.n_iter = 0
        self.trace: list[TracePoint] = []

    def warm_start(self, init: Any) -> Messages | None:
        """Messages of ``init``; a result's labelling is offered at once, and its certificate kept until a better one comes."""
        if init is None:
            return None
        messages = init
        if isinstance(init, Result):
            if init.labels is not None:
                self.offer(init.labels)
            if init.certificate is not None:
                self.certify(init.certificate.bound(self.problem), init.certificate)
            messages, self.init_marginals = init.messages, init.marginals
        return None if messages is None else self.problem.as_messages(messages)

    def offer(self, labels: np.ndarray) -> bool:
        """Keep a copy of the labelling if it is the best so far."""
        labels = as_labels(labels, self.problem.n_states)
        if self.labels is not None and np.array_equal(labels, self.labels):  # as after moves that were not made
            return False
        relative = centred_score(self.problem, labels)
        if relative > self.relative_score:
            self.labels, self.score = labels, self.problem.score(labels)
            self.relative_score = relative
            return True
        return False

    def certify(self, bound: float, certificate: Certificate) -> bool:
        """Keep the certificate if its bound is the best so far. What it proves is computed from it in the end."""
        if bound <= self.bound or self.certificate is None:
            self.bound, self.certificate = bound, certificate
            return True
        return False

    @property
    def closed(self) -> bool:
        """Whether the labelling reaches the bound, or is proven to be within the relative gap that was asked for."""
        problem, gap = self.problem, self.bound - self.score if self.labels is not None else np.inf
        return bool(gap <= 0.5 * problem.resolution or gap < problem.step - 2 * problem.resolution) or self.within_gap

    @property
    def within_gap(self) -> bool:
        """Whether the relative gap that was asked for is proven, with all that rounding could hide."""
        if not self.gap or self.labels is None or not np.isfinite(self.score) or not np.isfinite(self.bound):
            return False
        gap, share = self.bound - self.score, _TUNING.gap_share * self.gap
        if gap > share * max(abs(self.score), abs(self.bound)) or gap >= self._refused:
            return False
        if isinstance(self.certificate, MessageCertificate):
            from .prepare import evaluate

            proof = evaluate(self.problem, self.certificate.messages, self.labels)
            if not proof.gap <= self.gap * max(abs(self.score), abs(proof.bound)):
                self._refused = 0.5 * gap  # rounding is in the way: asked again when the gap is half as large
                return False
        return True

    def step(self, n_iter: int, bound: float = np.inf) -> bool:
        """Record a step, with a bound whose certificate is still to come; True if the run has to stop."""
        self.n_iter = n_iter
        point = TracePoint(n_iter, self.seconds, self.score, min(bound, self.bound))
        self.trace.append(point)
        if self.callback is not None and self.callback(point):
            self.termination = Termination.stopped
            return True
        if self.within_gap:
            self.termination = Termination.converged
            return True
        if self.late():
            self.termination = Termination.time_limit
            return True
        return False

    @property
    def halted(self) -> bool:
        """Whether the clock or the caller has ended the run, or the gap that was asked for is reached."""
        return self.termination in (Termination.time_limit, Termination.stopped) or self.within_gap

    def result(self) -> Result:
        """The best answer, with the gap recomputed from the certificate and the guarantee that follows from it."""
        gap, bound, guarantee = self._measure()
        if guarantee == Guarantee.optimal and self.termination == Termination.stalled:
            self.termination = Termination.converged
        result = Result(
            labels=self.labels,
            score=self.score,
            bound=bound,
            gap=gap,
            termination=self.termination,
            guarantee=guarantee,
            message=self.message or f"{self.solver}: {_sentence(guarantee)} ({self.termination.replace('_', ' ')}).",
            certificate=self.certificate,
            solver=self.solver,
            marginals=self.marginals,
            edge_marginals=self.edge_marginals,
            fixed=self.fixed,
            n_iter=self.n_iter,
            seconds=self.seconds,
            trace=tuple(self.trace),
        )
        if result.labels is not None:
            result.labels.flags.writeable = False
        log.info("%r", result)
        return result

    def _measure(self) -> tuple[float, float, Guarantee]:
        """Gap, bound and guarantee, from the labelling and the certificate alone: what `Certificate.judge` finds in plain numpy.

        Messages of larger problems are measured by the kernels of `core.certificates.dual`'s twin, `kernels.height`, and separator tables by
        `kernels.elimination_proof`, with what rounding could hide; numpy, and rational arithmetic, decide what these leave in doubt.
        """
        problem, labels, certificate = self.problem, self.labels, self.certificate
        if certificate is None:
            return np.inf, np.inf, Guarantee.none if labels is None else Guarantee.feasible
        found, proof = None, None if labels is None else self._by_kernels(labels)
        if labels is not None and proof is not None and np.isfinite(proof.gap):
            found = verdict(problem, labels, self.score, proof)
            found = None if not found.optimal and in_doubt(problem, labels, proof) else found
        if found is None:
            few = problem.n_nodes + problem.n_edges + problem.factors.n_members <= _TUNING.exact_terms
            found = certificate.judge(problem, labels, None if few else False)
        if found.infeasible and np.isfinite(self.score):
            raise CertificateError(f"{self.solver}: proven infeasible, but a labelling has the score {self.score}.")
        return found.gap, found.bound, found.guarantee

    def _by_kernels(self, labels: np.ndarray) -> Evaluation | None:
        """What the certificate proves about the labelling, by kernels; None where the problem is small or they do not know its form."""
        problem, certificate = self.problem, self.certificate
        if isinstance(certificate, EliminationCertificate):
            from .exact.elimination import evaluate as evaluate_tables

            return evaluate_tables(problem, certificate, labels)
        large = problem.n_edges * problem.n_labels**2 > _TUNING.numpy_entries and not len(problem.factors)
        if large and isinstance(certificate, MessageCertificate):
            from .prepare import evaluate

            return evaluate(problem, certificate.messages, labels)
        return None


def _sentence(guarantee: Guarantee) -> str:
    return {
        Guarantee.optimal: "the labelling is proven optimal",
        Guarantee.within_gap: "the labelling is proven to be within the gap of the optimum",
        Guarantee.upper_bound: "an upper bound, but no labelling, was found",
        Guarantee.feasible: "a labelling without a bound",
        Guarantee.infeasible: "proven: no labelling satisfies the hard constraints",
        Guarantee.none: "nothing was found",
    }[guarantee]
