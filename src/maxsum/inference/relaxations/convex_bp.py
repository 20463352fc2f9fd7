"""ConvexBP: the entropy-smoothed dual of the local-polytope LP, by convex belief propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.scale import spreads
from ...core.errors import UnsupportedProblemError
from ...core.parameters import Maybe, OneOf, Real, WholeNumber, check_value, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels import convex_bp as kernels
from ...kernels.records import Net
from ...kernels.trws import decode
from ..base import Run, Solver, Support, without_cliques
from ..moves.icm import polish, start_labels
from ..prepare import Prepared, measure, prepare, start
from .trws import passes

_COLDEST = 1e-290  # temperature below which scores divided by it overflow; the kernels have the same floor


@dataclass(frozen=True)
class Tuning:
    """The annealing of `ConvexBP`."""

    # Iterations between two looks at bound and beliefs, which cost about one; 2 and 10 gave the same answers.
    check_every: int = 5
    # Temperatures that are halved on the way: 2^-60 of the spread of a term is below the rounding of any sum.
    most_halves: int = 60
    # Table cells (8 MB of floats) from which an iteration is long enough to look each time, and copies of tables are not made.
    large_cells: int = 1_000_000
    # Measured for a pair of labels in the value of the beliefs, which is not asked for where there is no time.
    pair_seconds: float = 1e-8
    # First temperature of chains, in median spreads; half of it took a fifth fewer iterations and gave a worse labelling on a
    # grid.
    first_heat: float = 0.125
    # Gain a node, in temperatures, at which the next temperature begins; half and double took +8 % and -17 % iterations to the
    # same bound.
    slow_gain: float = 1e-3
    brief_passes: int = 6  # hard passes after a temperature, for its bound; 3 and 12 gave the same bounds
    last_passes: int = 20  # hard passes at the end; 10 left the bound of a grid 2e-3 higher, 40 gained nothing
    # Hard passes after which a labelling is read, ever more rarely: reading and polishing costs a pass.
    label_passes: tuple[int, ...] = (1, 2, 5, 11, 19)


_TUNING = Tuning()


_COUNTINGS = ("trw", "uniform")
_EPSILON = Real(above=0.0, below=np.inf, wanted="a finite temperature > 0, in units of the scores")


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
    check_value("counting", counting, OneOf(*_COUNTINGS))
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
    problem : Problem
    messages : Messages or ndarray (2, E, K), optional
        Zero by default.
    epsilon : float
        Temperature, > 0.
    counting : str
        See `counting_numbers`.

    Returns
    -------
    Smoothed
    """
    check_value("epsilon", epsilon, _EPSILON, "smoothed_height")
    if len(problem.cliques):
        raise UnsupportedProblemError("smoothed_height takes nodes and edges only; this problem has clique terms.")
    given = problem.as_messages(messages)
    prepared, count = prepare(problem), counting_numbers(problem, counting)
    gradient, beliefs = np.zeros(given.edge.shape), np.zeros(problem.unary.shape)
    if not prepared.feasible:
        return Smoothed(-np.inf, gradient, beliefs)
    value = kernels.smoothed_height(prepared.net, given.edge, float(epsilon), count.node, count.edge, gradient, beliefs)
    return Smoothed(prepared.constant + value, gradient, beliefs)


@dataclass(frozen=True)
class ConvexBP(Solver):
    r"""Minimises a smoothed dual, at a temperature that is halved down to :math:`\epsilon`, on any graph.

    By default whole chains are smoothed: an iteration is two passes of TRW-S, forward and backward, with soft maxima. After each
    temperature a few passes with hard maxima, on a copy of the messages, lower their plain height, which is the certified bound.
    With other counting numbers the function is `smoothed_height`: an iteration minimises it over all messages of one node after
    the other, in closed form, and is accelerated by momentum, dropped whenever it raises the smoothed height.

    It does not stall as max-sum message passing does: as :math:`\epsilon \to 0` the bound falls to the value of the
    local-polytope LP. The message of the result brackets that value, from below by a point of the local polytope made from the
    beliefs. On a large problem the first temperatures take seconds and the last ones minutes, so give an ``epsilon`` (a hundredth
    of the spread of a term, say) or a time limit.

    ``marginals`` are the beliefs at :math:`\epsilon`. The labelling comes from them or from conditioning, improved by `ICM`; on
    problems with many nodes, beliefs at middle temperatures give far better ones than the messages of TRW-S.

    Parameters
    ----------
    epsilon : float, optional
        Last temperature, in units of the scores; a thousandth of the median spread of a term by default.
    counting : {"chains", "trw", "uniform"}
        Entropies of the monotone chains of TRW-S, whose counting numbers are 1 for an edge and
        :math:`\max(n_{earlier}, n_{later}) - \deg v` for a node; or positive weights of the terms' entropies, see `counting_numbers`.
    max_iter : int
        Largest number of iterations, each a forward and a backward sweep.
    tol : float
        Relative gap at which to stop; with 0, when the labelling is optimal.
    stall : float
        A temperature is solved when no belief of an edge and of its node differ by more than ``stall`` (with chains: no belief
        of a node after a pass forward and after one back). With that
        at the last one, the run has `converged`: the smoothed problem, not the max-sum problem, is solved.
    time_limit : float, optional
        Seconds.
    """

    epsilon: float | None = None
    counting: str = "chains"
    max_iter: int = 1500
    tol: float = 0.0
    stall: float = 1e-3
    time_limit: float | None = None

    improves_messages = True
    does = "problems without cliques: the LP bound to any accuracy by smoothing, and a labelling"

    _parameters = settings(
        epsilon=Maybe(_EPSILON),
        counting=OneOf(*_COUNTINGS, "chains"),
        max_iter=WholeNumber(0, wanted="0 or more iterations"),
        stall=Real(0.0, wanted="a difference of beliefs >= 0"),
    )

    def supports(self, problem: Problem) -> Support:
        return without_cliques(problem)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        run.certify(measure(problem, messages), MessageCertificate(Messages(messages.edge.copy(), messages.clique)))
        run.offer(polish(prepared.net, start_labels(prepared.net)))
        if run.step(0):
            return
        median = float(np.median(spreads(problem))) if len(spreads(problem)) else 1.0
        last = max(1e-3 * median, float(np.finfo(float).tiny)) if self.epsilon is None else float(self.epsilon)
        chains = self.counting == "chains"
        first = _TUNING.first_heat * median if chains else median
        steps = 0 if init is not None or last >= first else min(_TUNING.most_halves, np.ceil(np.log2(first) - np.log2(last)))
        state = (_Chains if chains else _Descent)(self, problem, prepared, messages, run)
        try:
            state.anneal([first * 0.5**i for i in range(int(steps))] + [last])
        finally:
            state.report()


class _Descent:
    """All state of one run."""

    def __init__(self, solver: ConvexBP, problem: Problem, prepared: Prepared, messages: Messages, run: Run):
        self.solver, self.problem, self.prepared, self.run = solver, problem, prepared, run
        self.net, self.messages = prepared.net, messages
        self.count = counting_numbers(problem, solver.counting if solver.counting in _COUNTINGS else "uniform")
        self.gradient, self.beliefs = np.zeros(messages.edge.shape), np.zeros(problem.unary.shape)
        self.labels = np.zeros(problem.n_nodes, dtype=np.int32)
        self.every = 1 if problem.n_edges * problem.n_labels**2 > _TUNING.large_cells else _TUNING.check_every
        self.epsilon, self.value, self.final = 0.0, np.inf, False

    @property
    def agreed(self) -> bool:
        return float(np.abs(self.gradient).max(initial=0.0)) <= self.solver.stall

    def anneal(self, temperatures: list[float]) -> None:
        """Each temperature in turn, with an equal share of the iterations that are left."""
        run = self.run
        for i, epsilon in enumerate(temperatures):
            if i and run.n_iter >= self.solver.max_iter:
                break
            self.epsilon, levels_left = epsilon, len(temperatures) - i
            share = -(-(self.solver.max_iter - run.n_iter) // levels_left)
            self.final = levels_left == 1
            going = self.descend(share)
            self.decode()
            if not going or run.closed:
                return
        if not (self.final and self.agreed):
            limit = run.n_iter >= self.solver.max_iter
            run.termination = Termination.iteration_limit if limit else Termination.stalled

    @property
    def joined(self) -> np.ndarray:
        """Messages for which the softmax of an edge's table is its belief."""
        return self.messages.edge

    def evaluate(self) -> None:
        """Value, gradient and beliefs at the messages."""
        self.value = self.smooth(self.messages.edge)

    def smooth(self, edge: np.ndarray) -> float:
        return float(kernels.smoothed_height(self.net, edge, self.epsilon, *self.count, self.gradient, self.beliefs))

    def certify(self) -> None:
        """Keep a copy of the messages if their plain height is the best so far."""
        bound = measure(self.problem, self.messages)
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
            decode(self.net, forward, self.messages.edge, self.messages.clique, self.labels)
            self.run.offer(polish(self.net, self.labels))

    def report(self) -> None:
        """Beliefs as marginals, and the bracket of the LP value."""
        run = self.run
        if not np.isfinite(self.value):
            return
        self.evaluate()
        self.certify()
        run.marginals = self.beliefs
        lower = -np.inf
        if run.seconds_left >= _TUNING.pair_seconds * self.problem.n_edges * self.problem.n_labels**2:
            lower = kernels.relaxed_value(self.net, self.joined, self.epsilon, self.count.edge, self.beliefs)
            lower += self.prepared.constant
        within = f"between {lower:.10g} and" if np.isfinite(lower) else "at or below"
        run.message = (
            f"ConvexBP: smoothed height {self.value + self.prepared.constant:.10g} at epsilon {self.epsilon:.4g}; "
            f"the LP value lies {within} the bound {run.bound:.10g}."
        )


def _weighted_tables(net: Net) -> tuple[np.ndarray, np.ndarray]:
    """A bank of tables times weights, and which of it each edge has.

    Where that would be large and larger than the tables (many different weights), it is a bank without any score, which makes
    the kernel go back to the tables.
    """
    if bool((net.edge_weight == 1.0).all()):
        return net.edge_table, net.tables
    pairs, index = np.unique(np.stack([net.edge_table, net.edge_weight], axis=1), axis=0, return_inverse=True)
    n_labels = net.unary.shape[1]
    if len(pairs) * n_labels**2 > max(_TUNING.large_cells, 2 * net.tables.size):
        return np.zeros(len(net.edges), dtype=np.int32), np.full((1, n_labels, n_labels), -np.inf)
    scores = net.tables[pairs[:, 0].astype(np.int64)] * pairs[:, 1][:, None, None]
    return index.reshape(-1).astype(np.int32), scores


class _Chains(_Descent):
    """The same with smoothed chains; ``gradient`` holds the joined messages."""

    def __init__(self, solver: ConvexBP, problem: Problem, prepared: Prepared, messages: Messages, run: Run):
        super().__init__(solver, problem, prepared, messages, run)
        net = self.net
        self._bank_of, self._scores = _weighted_tables(net)
        self._visited = np.zeros_like(net.unary)
        self._sweep, self._hard_pass = kernels.chain_sweep, passes(problem, net)
        self._change, self._reserve = np.inf, 0.0

    @property
    def agreed(self) -> bool:
        return self._change <= self.solver.stall

    @property
    def joined(self) -> np.ndarray:
        return self.gradient

    def evaluate(self) -> None:
        """Beliefs of the last pass."""
        self.believe(False)

    def heat(self) -> None:
        """Exponentials of the tables at the temperature."""
        self.epsilon = max(self.epsilon, _COLDEST)
        peaks = self._scores.max(axis=(1, 2), initial=-np.inf)
        self._peaks = np.where(np.isfinite(peaks), peaks, 0.0)
        with np.errstate(over="ignore"):
            self._bank = np.exp((self._scores - self._peaks[:, None, None]) / self.epsilon)
        small = self._bank.size <= max(_TUNING.large_cells, self.messages.edge.size)
        self._turned = np.ascontiguousarray(self._bank.transpose(0, 2, 1)) if small else np.zeros((0, 0, 0))

    def sweep(self, forward: bool) -> float:
        net, bank = self.net, (self._bank_of, self._bank, self._turned, self._peaks)
        arrays = (net.unary, net.edges, net.edge_table, net.edge_weight, net.tables, net.ptr, net.adj_edge, net.adj_side)
        return float(self._sweep(*arrays, *bank, self.messages.edge, self._visited, self.epsilon, forward))

    def believe(self, forward: bool) -> float:
        """Beliefs after a pass; returns their largest change since the last call."""
        net, out = self.net, (self.gradient, self.beliefs)
        arrays = (net.unary, net.edges, self.messages.edge, self._visited)
        return float(kernels.chain_beliefs(*arrays, self.epsilon, forward, *out))

    def descend(self, max_iter: int) -> bool:
        """Passes at one temperature until they gain little: next to nothing at the last one."""
        run, last = self.run, self.run.n_iter + max_iter
        self.heat()
        self.value, self._change = np.inf, np.inf
        while run.n_iter < last:
            looks = self.final and run.n_iter % _TUNING.check_every == 0
            self.sweep(True)
            if looks:
                self.believe(True)
            before, self.value = self.value, self.sweep(False)
            run.n_iter += 1
            if looks:
                self._change = self.believe(False)
            if run.step(run.n_iter):
                return False
            if run.seconds_left < self._reserve:
                run.termination = Termination.time_limit
                return False
            gain = before - self.value
            if gain <= 0 or (
                looks and self.agreed if self.final else gain <= _TUNING.slow_gain * self.epsilon * len(self.labels)
            ):
                break
        return True

    def decode(self) -> None:
        """Passes with hard maxima on a copy of the messages, and the labellings that they give."""
        run, started = self.run, self.run.clock.seconds
        self.believe(False)
        run.offer(polish(self.net, self.beliefs.argmax(axis=1)))
        found = Messages(self.messages.edge.copy(), self.messages.clique)
        ends = self.final or run.termination != Termination.converged
        n_passes = _TUNING.last_passes if ends else _TUNING.brief_passes
        for i in range(n_passes):
            forward = i % 2 == 0
            if i in _TUNING.label_passes:
                decode(self.net, forward, found.edge, found.clique, self.labels)
                run.offer(polish(self.net, self.labels, 10))
            self._hard_pass(found, forward)
            if run.seconds_left <= 0:
                break
        bound = measure(self.problem, found)
        if bound < run.bound:
            run.certify(bound, MessageCertificate(found))
        self._reserve = 1.2 * _TUNING.last_passes / n_passes * (run.clock.seconds - started)
