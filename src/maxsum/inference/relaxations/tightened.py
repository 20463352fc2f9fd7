"""TightenedTRWS: message passing with cycles of edges as clusters, whose bound is below that of the local polytope."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.dual import arc_consistent, slack
from ...core.certificates.scale import tolerance
from ...core.parameters import Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels.records import Net
from ...kernels.trws import decode
from ..base import Factored, Run, Solver, Support, without_cliques
from ..moves.icm import polish
from ..prepare import Prepared, net_score, start
from .clusters import Clusters
from .table_forms import table_forms
from .trws import ascend, is_uniform


@dataclass(frozen=True)
class Tuning:
    """When more cycles are looked for; tried on grids, tori and complete graphs."""

    decode_every: int = 8  # rounds between two labellings
    first_rounds: int = 16  # before it is asked whether rounds gain
    window: int = 16  # rounds over which a gain is measured
    decided_share: float = 1e-2  # of the mean loss of a term: those that lose less are decided
    near_steps: int = 4  # edges from undecided terms to the cycles that are taken first
    near_share: float = 0.5  # of the nodes at most; with more of them all cycles are taken at once


_TUNING = Tuning()


@dataclass(frozen=True)
class TightenedTRWS(Solver):
    r"""`TRWS`, then cycles of edges as clusters.

    Every cycle takes a part of the tables of its edges (`core.certificates.cycles.CycleCertificate`): the bound is

    .. math:: \sum_v \max \theta_v + \sum_e \max \theta_e + \sum_c \max_y \sum_{e=uv \in c} h_{c,e}(y_u, y_v),

    with :math:`\theta` what messages and cycles leave. A round visits all cycles: each takes what its edges have and gives each of them its max-marginal, the
    :math:`i`-th of :math:`n` a share of :math:`1 / (n - i + 1)` of what is left, which never raises the bound; passes of `TRWS` follow. Triangles and squares
    come first; when rounds gain little, frustrated cycles of any length are added (Sontag, Choe & Li 2012). On many grids and sparse graphs the bound is tight
    then.

    Parameters
    ----------
    max_iter : int
        Largest number of rounds after the passes of `TRWS`.
    tol : float
        Relative gap at which to stop; with 0, when the labelling is optimal.
    stall : float
        When 16 rounds gain less than ``stall`` times the gap that is left, more cycles are looked for; without any, stop as `stalled`.
    time_limit : float, optional
        Seconds.
    """

    max_iter: int = 2000
    tol: float = 0.0
    stall: float = 5e-3
    time_limit: float | None = None

    takes_factors = Factored.lifted
    does = "nodes and edges: a tighter bound than TRWS, by cycles as clusters; optimal on many grids and sparse graphs"
    _parameters = settings(max_iter=WholeNumber(0), stall=Real())

    def supports(self, problem: Problem) -> Support:
        return without_cliques(problem)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        if ascend(problem, prepared, messages, run, 2000, 1e-3) or run.halted or run.labels is None or problem.n_edges < 3:
            return
        Tightening(problem, prepared, messages, run).ascend(self.max_iter, self.stall)


class Tightening(Clusters):
    """The clusters of one run."""

    def __init__(self, problem: Problem, prepared: Prepared, messages: Messages, run: Run):
        forms = table_forms(prepared.net.tables) if is_uniform(problem) else None
        super().__init__(prepared.net, Messages(messages.edge.copy(), messages.clique.copy()), forms)
        self.problem, self.prepared, self.run = problem, prepared, run

    @property
    def best(self) -> np.ndarray:
        """The best labelling so far."""
        return self.labels if self.run.labels is None else np.array(self.run.labels, dtype=np.int32)

    @property
    def least_gap(self) -> float:
        """Gap of the present labelling that counts as none."""
        problem, labels = self.problem, self.run.labels
        if labels is None:
            return 0.0
        resolution = problem.resolution
        return problem.step - 2 * resolution if problem.step else 0.5 * min(resolution, tolerance(problem, labels))

    # ---- rounds ---------------------------------------------------------------------------------------------------------

    def undecided(self) -> np.ndarray | None:
        """The nodes about the terms that a labelling does not reach; None where these are many."""
        problem, labels, edges = self.problem, self.run.labels, self.problem.graph.edges
        assert labels is not None
        terms = slack(problem, self.messages, labels, arc_consistent(problem))
        least = _TUNING.decided_share * max(terms.gap, 0.0) / max(1, len(terms.node) + len(terms.edge))
        near = terms.node > least
        near[edges[terms.edge > least]] = True
        for _ in range(_TUNING.near_steps):
            near[edges[near[edges].any(axis=1)]] = True
        return near if near.mean() <= _TUNING.near_share else None

    def ascend(self, max_iter: int, stall: float, near: np.ndarray | None = None) -> bool:
        """Rounds until the gap is closed (True), nothing gains any more, or a limit is met; with the short cycles of the nodes ``near`` alone."""
        run = self.run
        if not self.short(near) and (near is not None or not self.frustrated(run.bound - run.score, self.best)):
            return False
        run.termination = Termination.iteration_limit
        bounds: list[float] = []
        first, since = run.n_iter, 0
        for iteration in range(1, max_iter + 1):
            bound = self.round(iteration % 2 == 0)
            bounds.append(bound)
            run.certify(self.prepared.constant + bound, self.certificate)
            if iteration % _TUNING.decode_every == 1 or iteration == max_iter:
                self.read_off()
            if run.step(first + iteration):
                return run.closed
            gap = bound - net_score(self.prepared.net, run.labels)
            if gap <= self.least_gap:
                run.termination = Termination.converged
                return True
            since += 1
            if since > _TUNING.first_rounds and bounds[-1 - _TUNING.window] - bound <= stall * gap:
                self.make_tables()
                self.read_off()
                if near is not None or not self.frustrated(gap, self.best):
                    run.termination = Termination.stalled
                    return False
                since = 0
        return False

    def read_off(self) -> None:
        """Labellings by conditioning, forwards and backwards."""
        net: Net = self.net
        for forward in (True, False):
            decode(net, forward, self.messages.edge, self.messages.clique, self.labels)
            self.run.offer(polish(self.prepared.net, self.labels, 10))
