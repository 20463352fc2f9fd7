"""ConvexBP: the entropy-smoothed dual of the local-polytope LP, by convex belief propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.certificate import MessageCertificate
from ..core.dual import spreads
from ..core.errors import InvalidProblemError, UnsupportedProblemError
from ..core.problem import Messages, Problem
from ..core.result import Termination
from ..kernels import convex_bp as kernels
from ..kernels.trws import decode
from .base import Run, Solver, Support
from .icm import polish, start_labels
from .prepare import Prepared, measure, prepare, start

_CHECK_EVERY = 5
_MAX_HALVES = 60
_LARGE = 1_000_000
_COUNTINGS = ("trw", "uniform")


class Smoothed(NamedTuple):
    """Smoothed height, its gradient by the edge messages (2, E, K), and the node beliefs (N, K)."""

    value: float
    gradient: np.ndarray
    beliefs: np.ndarray


class Counts(NamedTuple):
    """Counting numbers ``c_v`` (N,) and ``c_e`` (E,), all > 0."""

    node: np.ndarray
    edge: np.ndarray


def counting_numbers(problem: Problem, counting: str = "trw") -> Counts:
    """``c = 1`` for all (``"uniform"``), or ``c_v = 1`` and ``c_uv = 1 / max(deg u, deg v)`` (``"trw"``)."""
    if counting not in _COUNTINGS:
        raise InvalidProblemError(f"counting is {counting!r}, wanted one of {', '.join(_COUNTINGS)}.")
    edge = np.ones(problem.n_edges)
    if counting == "trw":
        edge /= problem.graph.degrees[problem.graph.edges].max(axis=1, initial=1)
    return Counts(np.ones(problem.n_nodes), edge)


def smoothing_error(problem: Problem, epsilon: float, counting: str = "trw") -> float:
    r"""The most by which smoothing lifts a height: :math:`\epsilon (\sum_v c_v \log K_v + \sum_{uv} c_{uv} \log K_u K_v)`."""
    count, logs = counting_numbers(problem, counting), np.log(problem.n_states)
    return epsilon * float(count.node @ logs + count.edge @ logs[problem.graph.edges].sum(axis=1))


def smoothed_height(problem: Problem, messages: Any = None, *, epsilon: float, counting: str = "trw") -> Smoothed:
    r"""Height with soft maxima, an upper bound on every score, convex and smooth in the messages:

    .. math:: U_\epsilon(\varphi) = c + \sum_v c_v \epsilon \log \sum_k \exp \frac{q^\varphi_v(k)}{c_v \epsilon}
              + \sum_{uv} c_{uv} \epsilon \log \sum_{k,l} \exp \frac{g^\varphi_{uv}(k, l)}{c_{uv} \epsilon}.

    It lies between `Problem.bound` and that plus `smoothing_error`. The gradient by a message is the marginal of the
    edge's softmax less the softmax of the node (the belief). Infeasible problems (by arc consistency) have the value
    ``-inf`` and gradient and beliefs 0.

    Parameters
    ----------
    messages : Messages or ndarray (2, E, K), optional
        Zero by default.
    epsilon : float
        Temperature, > 0.
    counting : str
        See `counting_numbers`.
    """
    _check_epsilon(epsilon, "smoothed_height")
    if len(problem.cliques):
        raise UnsupportedProblemError("smoothed_height takes nodes and edges only; this problem has clique terms.")
    given = problem.as_messages(messages)
    prepared, count = prepare(problem), counting_numbers(problem, counting)
    gradient, beliefs = np.zeros(given.edge.shape), np.zeros(problem.unary.shape)
    if not prepared.feasible:
        return Smoothed(-np.inf, gradient, beliefs)
    value = kernels.smoothed_height(prepared.net, given.edge, float(epsilon), count.node, count.edge, gradient, beliefs)
    return Smoothed(prepared.constant + value, gradient, beliefs)


def _check_epsilon(epsilon: float, name: str) -> None:
    if not 0 < epsilon < np.inf:
        raise InvalidProblemError(f"{name}: epsilon is {epsilon}, wanted a finite temperature > 0, in units of the scores.")


@dataclass(frozen=True)
class ConvexBP(Solver):
    r"""Minimises the smoothed height `smoothed_height` at a temperature that is halved down to :math:`\epsilon`.

    Each sweep minimises it over all messages of one node after the other, in closed form; sweeps are accelerated by momentum,
    which is dropped whenever it raises the smoothed height. The certified bound is the plain
    height of the best messages met. It does not stall as max-sum message passing does: as :math:`\epsilon \to 0` it reaches
    the value of the local-polytope LP, on any graph, to within `smoothing_error`. The message of the result brackets
    that value, from below by a point of the local polytope made from the beliefs.

    ``marginals`` are the beliefs at :math:`\epsilon`. The labelling comes from them or from conditioning, improved by `ICM`.

    Parameters
    ----------
    epsilon : float, optional
        Last temperature, in units of the scores; a thousandth of the median spread of a term by default.
    counting : {"trw", "uniform"}
        Weights of the terms' entropies, see `counting_numbers`.
    max_iter : int
        Largest number of iterations, each a forward and a backward sweep.
    tol : float
        A temperature is solved when no belief of an edge and of its node differ by more than ``tol``. With that
        at the last one, the run has `converged`: the smoothed problem, not the max-sum problem, is solved.
    time_limit : float, optional
        Seconds.
    """

    epsilon: float | None = None
    counting: str = "trw"
    max_iter: int = 1500
    tol: float = 1e-3
    time_limit: float | None = None

    does = "problems without cliques: the LP bound to any accuracy by smoothing, and a labelling"

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            _check_epsilon(self.epsilon, "ConvexBP")
        if self.counting not in _COUNTINGS:
            raise InvalidProblemError(f"ConvexBP: counting is {self.counting!r}, wanted one of {', '.join(_COUNTINGS)}.")
        if not self.max_iter >= 0:
            raise InvalidProblemError(f"ConvexBP: max_iter is {self.max_iter}, wanted 0 or more iterations.")
        if not self.tol >= 0:
            raise InvalidProblemError(f"ConvexBP: tol is {self.tol}, wanted a difference of beliefs >= 0.")

    def supports(self, problem: Problem) -> Support:
        if len(problem.cliques):
            return Support(False, "takes nodes and edges only; this problem has clique terms", problem.cliques.members(0))
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        run.certify(measure(problem, messages)[0], MessageCertificate(Messages(messages.edge.copy(), messages.clique)))
        run.offer(polish(prepared.net, start_labels(prepared.net)))
        if run.step(0):
            return
        median = float(np.median(spreads(problem))) if len(spreads(problem)) else 1.0
        last = max(1e-3 * median, float(np.finfo(float).tiny)) if self.epsilon is None else float(self.epsilon)
        steps = 0 if init is not None or last >= median else min(_MAX_HALVES, np.ceil(np.log2(median) - np.log2(last)))
        state = _Descent(self, problem, prepared, messages, run)
        try:
            state.anneal([median * 0.5**i for i in range(int(steps))] + [last])
        finally:
            state.report()


class _Descent:
    """All state of one run."""

    def __init__(self, solver: ConvexBP, problem: Problem, prepared: Prepared, messages: Messages, run: Run):
        self.solver, self.problem, self.prepared, self.run = solver, problem, prepared, run
        self.net, self.messages = prepared.net, messages
        self.count = counting_numbers(problem, solver.counting)
        self.gradient, self.beliefs = np.zeros(messages.edge.shape), np.zeros(problem.unary.shape)
        self.labels = np.zeros(problem.n_nodes, dtype=np.int32)
        self.every = 1 if problem.n_edges * problem.n_labels**2 > _LARGE else _CHECK_EVERY
        self.epsilon, self.value = 0.0, np.inf

    @property
    def closed(self) -> bool:
        gap = self.run.bound - self.run.score
        return gap <= 0.5 * self.problem.resolution or gap < self.problem.step - 2 * self.problem.resolution

    @property
    def agreed(self) -> bool:
        return float(np.abs(self.gradient).max(initial=0.0)) <= self.solver.tol

    def anneal(self, temperatures: list[float]) -> None:
        """Each temperature in turn, with an equal share of the iterations that are left."""
        run = self.run
        for i, epsilon in enumerate(temperatures):
            self.epsilon, levels_left = epsilon, len(temperatures) - i
            share = -(-(self.solver.max_iter - run.n_iter) // levels_left)
            going = self.descend(share)
            self.decode()
            if not going or self.closed:
                return
        if not self.agreed:
            limit = run.n_iter >= self.solver.max_iter
            run.termination = Termination.iteration_limit if limit else Termination.stalled

    def evaluate(self) -> None:
        """Value, gradient and beliefs at the messages."""
        self.value = self.smooth(self.messages.edge)

    def smooth(self, edge: np.ndarray) -> float:
        return float(kernels.smoothed_height(self.net, edge, self.epsilon, *self.count, self.gradient, self.beliefs))

    def certify(self) -> None:
        """Keep a copy of the messages if their plain height is the best so far."""
        bound = measure(self.problem, self.messages)[0]
        if bound < self.run.bound:
            self.run.certify(bound, MessageCertificate(Messages(self.messages.edge.copy(), self.messages.clique)))

    def descend(self, max_iter: int) -> bool:
        """Iterations at one temperature until the beliefs agree; False if the run has to end.

        An iteration starts from the messages moved on along their last change, as far as Nesterov's rule says. One that
        raises the smoothed height is taken back, and the next starts from the messages themselves: then only rounding
        can raise it, which ends the temperature.
        """
        run, x = self.run, self.messages.edge
        self.evaluate()
        ahead, moved, pace, last = x.copy(), np.empty_like(x), 1.0, run.n_iter + max_iter
        while run.n_iter < last:
            moved[:] = ahead
            for forward in (True, False):
                kernels.star_sweep(self.net, moved, self.epsilon, *self.count, forward)
            run.n_iter += 1
            value = self.smooth(moved)
            if value <= self.value:
                faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * pace * pace))
                ahead[:] = moved + (pace - 1.0) / faster * (moved - x)
                ends = self.agreed or (value == self.value and pace == 1.0)
                pace, self.value, x[:] = faster, value, moved
            else:
                ends, pace, ahead[:] = pace == 1.0, 1.0, x
                self.evaluate()
            if run.n_iter % self.every == 0 or ends:
                self.certify()
                if run.step(run.n_iter):
                    return False
            if ends:
                return True
        self.certify()
        return True

    def decode(self) -> None:
        """Labellings from the beliefs and from conditioning in both orders."""
        self.run.offer(polish(self.net, self.beliefs.argmax(axis=1)))
        for forward in (True, False):
            decode(self.net, forward, *self.messages, self.labels)
            self.run.offer(polish(self.net, self.labels))

    def report(self) -> None:
        """Beliefs as marginals, and the bracket of the LP value."""
        run = self.run
        if not np.isfinite(self.value):
            return
        self.evaluate()
        self.certify()
        run.marginals = self.beliefs
        lower = kernels.relaxed_value(self.net, self.messages.edge, self.epsilon, self.count.edge, self.beliefs)
        lower += self.prepared.constant
        within = f"between {lower:.10g} and" if np.isfinite(lower) else "at or below"
        run.message = (
            f"ConvexBP: smoothed height {self.value + self.prepared.constant:.10g} at epsilon {self.epsilon:.4g}; "
            f"the LP value lies {within} the bound {run.bound:.10g}."
        )
