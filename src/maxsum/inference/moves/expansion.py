"""AlphaExpansion: local search by minimum cuts, for associative and other tables that like equal labels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.errors import InvalidProblemError
from ...core.parameters import Flag, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels import expansion, maxflow
from ...kernels.records import Move, Net, new_flow
from ..base import Run, Solver, Support
from ..prepare import Prepared, measure, start
from ..relaxations.linear_program import roundings
from ..relaxations.trws import ascend
from .icm import polish, start_labels

_MAX_ARCS = 2**29 - 1  # what 32-bit numbers of arcs and of their reverses allow


@dataclass(frozen=True)
class Tuning:
    """How moves are made."""

    visits: int = 1 << 18  # of a cut between looks at the clock: some milliseconds
    passes: int = 20  # of message passing for the bound: the bound of TRW-S hardly falls after that on Potts problems
    few: float = 0.02  # share of nodes with excess below which a cut starts from them, not from sweeps over all nodes


_TUNING = Tuning()


@dataclass(frozen=True)
class ExpansionWitness:
    """An edge whose expansion moves are no minimum cuts: ``g(a,a) + g(k,l) - g(a,l) - g(k,a) = value < 0`` at these labels."""

    edge: int
    nodes: tuple[int, int]
    table: int
    labels: tuple[int, int, int]
    value: float

    def __str__(self) -> str:
        a, k, m = self.labels
        return (
            f"edge {self.edge} (nodes {self.nodes[0]}-{self.nodes[1]}, table {self.table}) has "
            f"g({a},{a}) + g({k},{m}) - g({a},{m}) - g({k},{a}) = {self.value:.6g}"
        )


@dataclass(frozen=True)
class AlphaExpansion(Solver):
    r"""Expansion moves: in each, every node keeps its label or takes the label ``alpha``, in the best way (a minimum cut).

    Takes tables with :math:`g(a,a) + g(k,l) \ge g(a,l) + g(k,a)` for all labels: Potts, associative, truncated metrics; and
    associative cliques of any size, forbidden labels, unequal label counts. The labels take their turns until no move
    improves. No labelling that one expansion move reaches is then better, which for Potts tables written as costs is within
    a factor 2 of the lowest cost.

    The start is the labelling of ``init``, if that is a result with one, or of the message passing below, or the best label
    of each node alone. If ``init`` has fractional marginals (of `LinearProgram`) there are two more: their roundings, for associative
    problems the derandomised one of Kleinberg & Tardos 1999 too, whose guarantee the answer then has. Moves that do not improve are not
    made. Each label keeps the flow of its last move, and the first moves start from the messages.

    Parameters
    ----------
    max_iter : int
        Cycles over the labels. ``n_iter`` of the result counts passes and moves.
    tol : float
        Relative gap at which to stop; with 0, when no move improves.
    time_limit : float, optional
        Seconds, looked at between and inside moves.
    bound : bool
        Whether to run message passing (`TRWS`, up to 20 passes) first: its messages are the certificate of the bound. Without
        it the answer is ``feasible`` only, unless ``init`` brings a certificate or messages.
    """

    max_iter: int = 100
    tol: float = 0.0
    time_limit: float | None = None
    bound: bool = True

    does = "tables that like equal labels (Potts, associative; cliques): a labelling by minimum cuts, bound by message passing"

    _parameters = settings(
        max_iter=WholeNumber(0, wanted="0 or more cycles"),
        bound=Flag(),
    )

    def supports(self, problem: Problem) -> Support:
        witness = expansion_witness(problem)
        if witness is not None:
            return Support(False, f"needs tables that like equal labels; {witness}", witness)
        arcs = 2 * problem.n_edges + 4 * problem.cliques.n_members
        if arcs > _MAX_ARCS:
            return Support(False, f"can number {_MAX_ARCS} arcs; the network of a move has {arcs}", arcs)
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        if init is not None:
            given = Messages(init.edge.copy(), init.clique.copy())
            run.certify(measure(problem, given), MessageCertificate(given))
        if self.bound:
            ascend(problem, prepared, messages, run, _TUNING.passes, 0.0)
            if run.halted:
                return
            run.termination = Termination.converged
            if run.closed:
                return
        starts = _starts(problem, prepared, run)
        if not starts:
            run.termination = Termination.stalled
            run.message = "AlphaExpansion: found no labelling to start from that satisfies the hard constraints."
            return
        network = Expander(prepared.net, messages if self.bound or init is not None else None)
        done = True
        for labels in starts:
            run.offer(labels)
            run.termination = Termination.iteration_limit
            try:
                done &= network.cycle(labels, self.max_iter, partial(_moved, run, labels), lambda: run.seconds_left <= 0)
            finally:
                run.offer(labels)
            if run.halted:
                return
        if done:
            run.termination = Termination.converged


def _moved(run: Run, labels: np.ndarray) -> bool:
    """Record a move; True if the run has to stop. Where a gap was asked for, the labelling counts from now on."""
    if run.gap:
        run.offer(labels)
    return run.step(run.n_iter + 1)


def expand(net: Net, labels: np.ndarray, messages: Messages | None = None, max_iter: int = 100) -> np.ndarray:
    """A labelling that no expansion move improves (or what ``max_iter`` cycles reach); ``labels`` is not changed.

    For the net of a problem that `AlphaExpansion` supports. A labelling that uses something forbidden is returned as it is.
    ``messages`` speed up the first moves.
    """
    improved = np.array(labels, dtype=np.int32)
    if _allowed(net, improved):
        Expander(net, messages).cycle(improved, max_iter)
    return improved


def _never() -> bool:
    return False


class Expander:
    """The network of the expansion moves of a net, and the flows of earlier moves; it serves many labellings in turn."""

    def __init__(self, net: Net, messages: Messages | None = None):
        n_nodes, n_labels = net.unary.shape
        n_edges, n_members = len(net.edges), len(net.clique_nodes)
        n_variables = n_nodes + 2 * (len(net.clique_ptr) - 1)
        self.net = net
        self.messages = messages
        self.hard = bool(np.isneginf(net.tables).any())
        self.flow = new_flow(np.zeros(n_variables + 1, dtype=np.int64), n_variables, 2 * n_edges + 4 * n_members)
        self.data = Move(
            np.empty((n_edges, 2), dtype=np.int32),
            np.zeros(n_nodes, dtype=np.uint8),
            np.zeros(n_edges),
            np.full((n_labels, n_edges), expansion.NO_SHARE),
            np.zeros((n_labels, 2, n_members)),
        )
        self.fresh = np.ones(n_labels, dtype=bool)
        expansion.link(net, self.flow, self.data.slot)

    def cycle(
        self,
        labels: np.ndarray,
        max_iter: int,
        stop: Callable[[], bool] = _never,
        late: Callable[[], bool] = _never,
    ) -> bool:
        """Moves to each label in turn, ``labels`` being changed in place; True if none of them improves any more.

        ``stop`` is asked after each move; ``late``, now and then inside one, which is then given up.
        """
        n_labels = len(self.fresh)
        idle = 0
        for _ in range(max_iter):
            for alpha in range(n_labels):
                improved = self.move(labels, alpha, late)
                idle = 1 if improved else idle + 1
                if stop():
                    return False
                if idle >= n_labels:
                    return True
        return n_labels == 0

    def move(self, labels: np.ndarray, alpha: int, late: Callable[[], bool] = _never) -> bool:
        """The best expansion move to ``alpha``, made if it improves the labelling."""
        net, flow, data = self.net, self.flow, self.data
        if not expansion.choose_active(net, labels, alpha, self.hard, data.active):
            return False
        fresh = self.fresh[alpha]
        if fresh and self.messages is not None:
            expansion.shares_of_messages(net, self.messages.edge, labels, alpha, data.shares[alpha])
        self.fresh[alpha] = False
        sources = expansion.fill(net, flow, data, labels, alpha)
        if sources == 0:
            return False
        if sources > _TUNING.few * len(labels):
            for backward in (False, True, False, True) if fresh else ():
                maxflow.sweep(flow, backward)
            maxflow.start(flow)
        else:
            expansion.start_from_sources(flow)
        while not maxflow.advance(flow, _TUNING.visits):
            if late():
                return False
        expansion.keep(net, flow, data, alpha)
        gain, moved, error = expansion.gain(net, flow, data, labels, alpha)
        if moved == 0 or gain <= error:
            return False
        expansion.take(labels, data.active, alpha)
        return True


def _starts(problem: Problem, prepared: Prepared, run: Run) -> list[np.ndarray]:
    """Where to start from, the best labelling so far first: moves from another may lead further."""
    first = _start(problem, prepared, run)
    found = [] if first is None else [first]
    if run.init_marginals is not None:
        with contextlib.suppress(InvalidProblemError):  # marginals of another problem, which ``init`` may be a result of
            found += [labels for labels in roundings(problem, run.init_marginals) if _allowed(prepared.net, labels)]
    return found


def _start(problem: Problem, prepared: Prepared, run: Run) -> np.ndarray | None:
    """The best labelling so far, or the best label of each node alone; where that is forbidden, a constant one or ICM's."""
    net = prepared.net
    if run.labels is not None and np.isfinite(run.score):
        return np.array(run.labels)
    labels = start_labels(net)
    if _allowed(net, labels):
        return labels
    for k in np.flatnonzero((net.unary > -np.inf).all(axis=0)):
        return np.full(problem.n_nodes, k, dtype=np.int32)
    labels = polish(net, labels)
    return labels if _allowed(net, labels) else None


def _allowed(net: Net, labels: np.ndarray) -> bool:
    """Whether the labelling uses nothing forbidden."""
    if np.isneginf(net.unary[np.arange(len(labels)), labels]).any():
        return False
    ends = labels[net.edges]
    return not np.isneginf(net.tables[net.edge_table, ends[:, 0], ends[:, 1]]).any()


def expansion_witness(problem: Problem) -> ExpansionWitness | None:
    """The first edge some expansion move of which is not supermodular, or None; rounding of the entries is forgiven."""
    if "_expansion" not in problem.__dict__:
        problem.__dict__["_expansion"] = None if _plainly_associative(problem) else _witness(problem)
    found: ExpansionWitness | None = problem.__dict__["_expansion"]
    return found


def _plainly_associative(problem: Problem) -> bool:
    """A quick test that settles the usual case: finite tables, a constant off the diagonal and no less on it."""
    n = problem.n_labels
    if not problem.n_edges or n < 2:
        return True
    if problem.edge_weight.min() < 0 or problem.n_states.min() < n or not np.isfinite(problem.tables).all():
        return False
    off = problem.tables[:, ~np.eye(n, dtype=bool)]
    diagonal = np.diagonal(problem.tables, axis1=1, axis2=2)
    return bool((off == off[:, :1]).all() and (diagonal >= off[:, :1]).all())


def _witness(problem: Problem) -> ExpansionWitness | None:
    u, v = problem.graph.edges.T
    n = problem.n_labels
    sign = np.sign(problem.edge_weight).astype(np.int64)
    rows, cols = problem.n_states[u].astype(np.int64), problem.n_states[v].astype(np.int64)
    code = ((problem.edge_table.astype(np.int64) * 3 + sign + 1) * (n + 1) + rows) * (n + 1) + cols
    distinct = np.sort(np.unique(code, return_index=True)[1])
    states = (sign[distinct], rows[distinct], cols[distinct])
    i, a, k, m = expansion.first_conflict(problem.tables, problem.edge_table[distinct], *states, 4 * np.finfo(float).eps)
    if i < 0:
        return None
    e = int(distinct[i])
    table, weight = problem.tables[problem.edge_table[e]], float(problem.edge_weight[e])
    value = -np.inf
    if np.isfinite(table[a, a] + table[k, m]):
        value = weight * float(table[a, a] + table[k, m] - table[a, m] - table[k, a])
    return ExpansionWitness(e, (int(u[e]), int(v[e])), int(problem.edge_table[e]), (a, k, m), value)
