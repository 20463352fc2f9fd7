"""TRWS: sequential tree-reweighted message passing, for any graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.dual import rounding
from ...core.certificates.persistency import fixed_nodes
from ...core.parameters import JOBS, Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels.distance import GENERAL
from ...kernels.height import clique_terms
from ...kernels.persistency import box_losses
from ...kernels.records import Forms, Net
from ...kernels.trws import decode, sweep
from ...kernels.trws_uniform import TURNED, uniform_sweep
from ..base import Factored, Run, Solver, Support
from ..moves.icm import polish
from ..prepare import NO_LABELS, Prepared, measure, net_score, prepare, start
from .grid_passes import strip_passes, strips
from .table_forms import table_forms


@dataclass(frozen=True)
class Tuning:
    """What `TRWS` does beside its passes."""

    # Nodes up to which labels are proven fixed: 10 ms there by the kernel, two passes; numpy, for uneven label counts, takes
    # longer.
    fixed_nodes: int = 20_000
    fixed_rounds: int = 10  # rounds of it; 5 and 20 fixed the same nodes on two grids
    decode_every: int = 10  # passes between two labellings; 5 found no better ones on two grids, 20 a worse one
    # Share of the limit that is kept for expansion moves where they fit: they improve a labelling more than further passes.
    polish_share: float = 0.1
    spare_share: float = 0.01  # share of the limit at which expansion moves end, so that the answer can be handed over
    # Where a gap is asked for, expansion moves come between passes as soon as the gap is at most so many times that: on Potts
    # grids they leave half of the gap that a decoded labelling has.
    expand_gap: float = 2.5
    expand_again: float = (
        1.5  # growth of the number of passes before moves are tried again: they cost as much as 20 to 40 passes
    )


_TUNING = Tuning()


@dataclass(frozen=True)
class TRWS(Solver):
    """Sequential tree-reweighted message passing, for any graph, unequal label counts, associative cliques and factors.

    Its bound falls towards, and may stall above, the value of the local-polytope LP. The labelling comes from
    conditioning in message order, polished by `ICM` and, at the end, by expansion moves where they fit. `Result.fixed`
    marks nodes whose label is proven to be the same in every optimal labelling (up to 20 000 nodes).

    Parameters
    ----------
    max_iter : int
        Largest number of passes, forward or backward.
    tol : float
        Relative gap at which to stop; with 0, when the labelling is optimal.
    stall : float
        Stop as `stalled` when 20 passes gain less than ``stall`` times the gap that is left; never for a number < 0.
    time_limit : float, optional
        Seconds. Where expansion moves fit, the last tenth is theirs.
    n_jobs : int
        Threads of the passes over one large grid (-1: one per core). The messages are the same bit for bit; the bound is
        summed in another order. Several problems are better solved in a thread each.
    """

    max_iter: int = 2000
    tol: float = 0.0
    stall: float = 1e-3
    time_limit: float | None = None
    n_jobs: int = 1

    takes_factors = Factored.native
    improves_messages = True
    does = "any problem: bound and labelling by message passing; optimal where the LP is tight"
    _parameters = settings(
        max_iter=WholeNumber(0),
        stall=Real(),
        n_jobs=JOBS,
    )

    def supports(self, problem: Problem) -> Support:
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        if len(problem.factors):
            from .factor_passes import ascend_factors

            ascend_factors(problem, run, init, self.max_iter, self.stall)
            return
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        expands = _expands(problem)
        reserve = _TUNING.polish_share * self.time_limit if expands and self.time_limit is not None else 0.0
        moves = _Moves(prepared, messages, run) if expands else None
        closed = ascend(problem, prepared, messages, run, self.max_iter, self.stall, reserve, self.n_jobs, moves)
        if run.labels is None:
            return
        if moves is not None and not closed and run.seconds_left > 0:
            moves()
            if run.within_gap and run.termination in (Termination.stalled, Termination.iteration_limit):
                run.termination = Termination.converged
        if problem.n_nodes <= _TUNING.fixed_nodes:
            run.fixed = fixed(problem, prepared.net, messages, run.labels)


def _expands(problem: Problem) -> bool:
    """Whether expansion moves may polish a labelling: they are supermodular, and more than ICM does already."""
    from ..moves.expansion import expansion_witness

    return problem.n_labels > 2 and problem.n_edges > 0 and expansion_witness(problem) is None


class _Moves:
    """Expansion moves that improve the labelling of a run, as long as there is time; their network is made when it is first needed."""

    def __init__(self, prepared: Prepared, messages: Messages, run: Run):
        self.prepared, self.messages, self.run = prepared, messages, run
        self.network: Any = None
        self.decoded: np.ndarray | None = None

    def late(self) -> bool:
        run = self.run
        return run.time_limit is not None and run.seconds_left <= _TUNING.spare_share * run.time_limit

    def enough(self, labels: np.ndarray) -> bool:
        """Asked after a move: whether time is over, or the gap that was asked for is reached."""
        if self.run.gap:
            self.run.offer(labels)
        return self.run.within_gap or self.late()

    def __call__(self) -> None:
        """Moves from the best labelling; once they were made, from the last one that was read off messages, which better messages made."""
        from ..moves.expansion import Expander

        run = self.run
        start = run.labels if self.network is None else self.decoded
        if start is None or not np.isfinite(run.problem.score(start)):
            return
        labels = np.array(start, dtype=np.int32)
        try:
            if self.network is None:
                self.network = Expander(self.prepared.net, self.messages)
            self.network.cycle(labels, 100, lambda: self.enough(labels), self.late)
        finally:
            run.offer(labels)


def is_uniform(problem: Problem) -> bool:
    """Whether all nodes have all labels, nothing is forbidden, and there are edges but no cliques."""
    if problem.has_hard_constraints or len(problem.cliques) or problem.n_labels < 2 or not problem.n_edges:
        return False
    return bool((problem.n_states == problem.n_labels).all())


def fixed(problem: Problem, net: Net, messages: Messages, labels: np.ndarray) -> np.ndarray:
    """`core.certificates.persistency.fixed_nodes`, by a kernel where the problem is uniform."""
    if not is_uniform(problem):
        return fixed_nodes(problem, messages, labels)
    domain, loss = np.ones(net.unary.shape, dtype=np.uint8), np.empty(net.unary.shape)
    arrays = (net.unary, net.edges, net.edge_table, net.edge_weight, net.tables, net.ptr, net.adj_edge, net.adj_side)
    error = 2 * (rounding(problem, messages) + prepare(problem).rounding) + problem.resolution
    for _ in range(_TUNING.fixed_rounds):
        above = box_losses(*arrays, messages.edge, domain, labels, loss) + error
        kept = domain & (loss <= above)
        if (kept == domain).all() or not kept.any(axis=1).all():
            break
        domain = kept
    nodes = np.arange(problem.n_nodes)
    return (domain.sum(axis=1) == 1) & (domain[nodes, labels] == 1)


def passes(problem: Problem, net: Net, n_jobs: int = 1) -> Callable[[Messages, bool], float]:
    """The kernel that fits the problem: a function of messages and direction that does one pass and returns the bound."""
    if not is_uniform(problem):
        return lambda messages, forward: (
            sweep(net, forward, messages.edge, messages.clique) + clique_terms(net, messages.clique, NO_LABELS)[0]
        )
    n_strips = strips(problem, n_jobs)
    return uniform_passes(net, table_forms(net.tables), problem.graph.image_shape if n_strips > 1 else None, n_strips)


def uniform_passes(
    net: Net,
    forms: Forms,
    shape: tuple[int, int] | None = None,
    n_strips: int = 1,
    nodes: tuple[int, int] | None = None,
) -> Callable[[Messages, bool], float]:
    """The same for a uniform problem, by the kernels of its tables' forms; in strips of the grid if it has a shape. With a range of
    ``nodes`` these alone are visited, and the bound is that of the terms which they own in this direction."""
    n_nodes, n_labels = net.unary.shape
    first, last = (0, n_nodes) if nodes is None else nodes
    needed = int(np.bitwise_or.reduce(forms.kind)) | (GENERAL if net.edge_weight.min() < 0 else 0)
    bank = net.tables.ravel()
    if needed & GENERAL and len(net.turned):
        needed |= TURNED
        bank = np.concatenate([bank, net.turned.ravel()])
    arrays = (net.unary.ravel(), net.edges.ravel(), net.edge_table, net.edge_weight, bank, *forms)
    rest = (net.ptr, net.adj_edge, net.adj_side, n_labels, needed)
    if shape is None:
        return lambda messages, forward: uniform_sweep(
            *arrays, *rest, messages.edge.ravel(), forward, 0, 1, first, last, n_nodes
        )
    in_strips = strip_passes(partial(uniform_sweep, *arrays, *rest), shape, n_strips)
    return lambda messages, forward: in_strips(messages.edge.ravel(), forward)


def ascend(
    problem: Problem,
    prepared: Prepared,
    messages: Messages,
    run: Run,
    max_iter: int,
    stall: float,
    reserve: float = 0.0,
    n_jobs: int = 1,
    moves: _Moves | None = None,
) -> bool:
    """Passes until the gap is closed (True), the bound stalls or a limit is met; ``messages`` are improved in place.

    Without cliques no pass worsens the bound, so the certificate holds the live messages; with cliques it keeps a copy of
    the best. Bounds and scores are compared in the centred scores of the net, where no constant hides their difference.
    A labelling is read off after a forward and a backward pass, ever more rarely: it costs more than a pass. The last
    ``reserve`` seconds of the time limit are left to the caller. Where a gap is asked for, ``moves`` improve the labelling when
    that may be all that is missing.
    """
    net, one_pass = prepared.net, passes(problem, prepared.net, n_jobs)
    labels = np.zeros(problem.n_nodes, dtype=np.int32)
    optimal = max(0.5 * problem.resolution, problem.step - 2 * problem.resolution)
    bounds: list[float] = []
    known, score, next_decode, next_moves = None, -np.inf, 2, 0.0
    run.certify(measure(problem, messages), MessageCertificate(messages))
    for iteration in range(1, max_iter + 1):
        forward = iteration % 2 == 1
        if iteration in (1, next_decode, next_decode + 1, max_iter):
            decode(net, forward, messages.edge, messages.clique, labels)
            decoded = polish(net, labels, 10)
            run.offer(decoded)
            if moves is not None:
                moves.decoded = decoded
        if iteration == next_decode + 1:
            next_decode = 4 if iteration == 3 else iteration - 1 + max(_TUNING.decode_every, iteration // 5)
        bound = one_pass(messages, forward)
        if not bounds or bound <= bounds[-1]:
            keep = Messages(messages.edge.copy(), messages.clique.copy()) if len(problem.cliques) else messages
            run.certify(prepared.constant + bound, MessageCertificate(keep))
        bounds.append(min(bound, bounds[-1]) if bounds else bound)
        if run.step(iteration):
            return run.closed
        if run.seconds_left <= reserve:
            run.termination = Termination.time_limit
            return False
        if run.labels is not known:
            known, score = run.labels, net_score(net, run.labels)
        gap = bounds[-1] - score
        if gap <= optimal:
            return True
        if moves is not None and iteration >= next_moves and gap <= _TUNING.expand_gap * run.gap * abs(run.score):
            moves()
            next_moves = _TUNING.expand_again * iteration
            if run.within_gap:
                return True
        if iteration > 40 and bounds[-21] - bounds[-1] <= stall * gap:
            run.termination = Termination.stalled
            return False
    run.termination = Termination.iteration_limit
    return False
