"""TRWS: sequential tree-reweighted message passing, for any graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.certificate import MessageCertificate
from ..core.problem import Messages, Problem
from ..core.result import Termination
from ..kernels.height import clique_terms
from ..kernels.trws import sweep
from .base import Run, Solver, Support
from .icm import polish
from .prepare import NO_LABELS, Prepared, prepare


@dataclass(frozen=True)
class TRWS(Solver):
    """Sequential tree-reweighted message passing, for any graph, unequal label counts and associative cliques.

    Its bound falls towards, and may stall above, the value of the local-polytope LP. The labelling comes from
    conditioning in message order, polished by `ICM`.

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
        prepared = prepare(problem)
        messages = problem.zero_messages() if init is None else Messages(init.edge.copy(), init.clique.copy())
        if not prepared.feasible:
            run.certify(-np.inf, MessageCertificate(messages))
            return
        ascend(problem, prepared, messages, run, self.max_iter, self.tol)


def ascend(problem: Problem, prepared: Prepared, messages: Messages, run: Run, max_iter: int, tol: float) -> None:
    """Passes until the gap is closed, the bound stalls or a limit is met; ``messages`` are improved in place.

    Without cliques no pass worsens the bound, so the certificate holds the live messages; with cliques it keeps a copy of
    the best.
    """
    net = prepared.net
    labels = np.zeros(problem.n_nodes, dtype=np.int32)
    history: list[float] = []
    for iteration in range(1, max_iter + 1):
        decode = iteration <= 4 or iteration % 10 < 2 or iteration == max_iter
        bound = sweep(net, iteration % 2 == 1, decode, messages.edge, messages.clique, labels)
        bound += clique_terms(net, messages.clique, NO_LABELS)[0]
        if decode:
            run.offer(polish(net, labels, 10))
        keep = Messages(messages.edge.copy(), messages.clique.copy()) if len(problem.cliques) else messages
        run.certify(prepared.constant + bound, MessageCertificate(keep))
        history.append(run.bound)
        if run.step(iteration):
            return
        gap = run.bound - run.score
        if gap <= 0.5 * problem.resolution or gap < problem.step - 2 * problem.resolution:
            return
        if iteration > 40 and history[-21] - history[-1] <= tol * gap:
            run.termination = Termination.stalled
            return
    run.termination = Termination.iteration_limit
