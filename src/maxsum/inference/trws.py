"""TRWS: sequential tree-reweighted message passing, for any graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.certificate import MessageCertificate
from ..core.persistency import fixed_nodes
from ..core.problem import Messages, Problem
from ..core.result import Termination
from ..kernels.height import clique_terms
from ..kernels.net import Net
from ..kernels.trws import decode, sweep
from ..kernels.trws_uniform import uniform_sweep
from .base import Run, Solver, Support
from .icm import polish
from .prepare import NO_LABELS, Prepared, measure, net_score, start

_FIXED_NODES = 20_000


@dataclass(frozen=True)
class TRWS(Solver):
    """Sequential tree-reweighted message passing, for any graph, unequal label counts and associative cliques.

    Its bound falls towards, and may stall above, the value of the local-polytope LP. The labelling comes from
    conditioning in message order, polished by `ICM` and, at the end, by expansion moves where they fit. `Result.fixed`
    marks nodes whose label is proven to be the same in every optimal labelling (up to 20 000 nodes).

    Parameters
    ----------
    max_iter : int
        Largest number of passes, forward or backward.
    tol : float
        Stop as `stalled` when 20 passes gain less than ``tol`` times the gap that is left.
    time_limit : float, optional
        Seconds.
    """

    max_iter: int = 2000
    tol: float = 1e-3
    time_limit: float | None = None

    does = "any problem: bound and labelling by message passing; optimal where the LP is tight"

    def supports(self, problem: Problem) -> Support:
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        closed = ascend(problem, prepared, messages, run, self.max_iter, self.tol)
        if run.labels is None:
            return
        if not closed and run.seconds_left > 0:
            _expand(problem, prepared, messages, run)
        if problem.n_nodes <= _FIXED_NODES:
            run.fixed = fixed_nodes(problem, messages, run.labels)


def _expand(problem: Problem, prepared: Prepared, messages: Messages, run: Run) -> None:
    """Polish the labelling by expansion moves, where they are supermodular."""
    from .expansion import expand, expansion_witness

    if run.labels is not None and problem.n_labels > 2 and np.isfinite(run.score) and expansion_witness(problem) is None:
        run.offer(expand(prepared.net, run.labels, messages))


def passes(problem: Problem, net: Net) -> Callable[[Messages, bool], float]:
    """The kernel that fits the problem: a function of messages and direction that does one pass and returns the bound."""
    uniform = (
        not problem.has_hard_constraints and not len(problem.cliques) and bool((problem.n_states == problem.n_labels).all())
    )
    if not uniform or problem.n_labels < 2:
        return lambda messages, forward: (
            sweep(net, forward, messages.edge, messages.clique) + clique_terms(net, messages.clique, NO_LABELS)[0]
        )
    one_pass, associative = uniform_sweep(problem.n_labels), associative_tables(net.tables)
    arrays = (net.unary, net.edges, net.edge_table, net.edge_weight, net.tables, net.turned, associative)
    adjacency = (net.ptr, net.adj_edge, net.adj_side)
    return lambda messages, forward: one_pass(*arrays, *adjacency, messages.edge, forward)


def associative_tables(tables: np.ndarray) -> np.ndarray:
    """Which tables are a constant plus a diagonal that is nowhere smaller."""
    off = ~np.eye(tables.shape[1], dtype=bool)
    base = tables[:, :1, 1:2]
    constant = (tables == base)[:, off].all(axis=1)
    return constant & (np.diagonal(tables, axis1=1, axis2=2) >= base[:, 0]).all(axis=1)


def ascend(problem: Problem, prepared: Prepared, messages: Messages, run: Run, max_iter: int, tol: float) -> bool:
    """Passes until the gap is closed (True), the bound stalls or a limit is met; ``messages`` are improved in place.

    Without cliques no pass worsens the bound, so the certificate holds the live messages; with cliques it keeps a copy of
    the best. Bounds and scores are compared in the centred scores of the net, where no constant hides their difference.
    """
    net, one_pass = prepared.net, passes(problem, prepared.net)
    labels = np.zeros(problem.n_nodes, dtype=np.int32)
    closed = max(0.5 * problem.resolution, problem.step - 2 * problem.resolution)
    bounds: list[float] = []
    run.certify(measure(problem, messages)[0], MessageCertificate(messages))
    for iteration in range(1, max_iter + 1):
        forward = iteration % 2 == 1
        if 1 < iteration <= 5 or iteration % 10 < 2 or iteration == max_iter:
            decode(net, forward, messages.edge, messages.clique, labels)
            run.offer(polish(net, labels, 10))
        bound = one_pass(messages, forward)
        if not bounds or bound <= bounds[-1]:
            keep = Messages(messages.edge.copy(), messages.clique.copy()) if len(problem.cliques) else messages
            run.certify(prepared.constant + bound, MessageCertificate(keep))
        bounds.append(min(bound, bounds[-1]) if bounds else bound)
        if run.step(iteration):
            return False
        gap = bounds[-1] - net_score(net, run.labels)
        if gap <= closed:
            return True
        if iteration > 40 and bounds[-21] - bounds[-1] <= tol * gap:
            run.termination = Termination.stalled
            return False
    run.termination = Termination.iteration_limit
    return False
