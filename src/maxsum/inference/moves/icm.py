"""ICM: local search from a labelling; fast, without a bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.parameters import WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels.icm import icm_sweeps
from ...kernels.records import Net
from ..base import Factored, Run, Solver, Support
from ..prepare import prepare


def start_labels(net: Net) -> np.ndarray:
    """Best label of each node alone, the lowest on ties."""
    return net.unary.argmax(axis=1).astype(np.int32) if net.unary.size else np.zeros(len(net.n_states), dtype=np.int32)


def polish(net: Net, labels: np.ndarray, max_iter: int = 100) -> np.ndarray:
    """A labelling that no change of a single label improves (or what ``max_iter`` sweeps reach); ``labels`` is not changed."""
    improved = np.array(labels, dtype=np.int32)
    icm_sweeps(net, improved, max_iter)
    return improved


@dataclass(frozen=True)
class ICM(Solver):
    """Iterated conditional modes: sweeps in which each node takes its best label given its neighbours.

    Starts from the labelling of ``init`` if that is a result with one, and from the best label of each node alone
    otherwise. While terms are forbidden (``-inf``), fewer of them count before a higher score. There is no bound.

    Parameters
    ----------
    max_iter : int
        Sweeps.
    time_limit : float, optional
        Seconds, looked at between sweeps.
    """

    max_iter: int = 100
    time_limit: float | None = None

    takes_factors = Factored.native
    does = "any problem: a labelling by local search, no bound"
    _copies = 1

    _parameters = settings(max_iter=WholeNumber(0, wanted="0 or more sweeps"))

    def supports(self, problem: Problem) -> Support:
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        if len(problem.factors):
            self._run_on_factors(problem, run)
            return
        prepared = prepare(problem)
        if not prepared.feasible:
            run.certify(-np.inf, MessageCertificate(problem.zero_messages()))
            return
        labels = start_labels(prepared.net) if run.labels is None else run.labels.copy()
        run.offer(labels)
        run.termination = Termination.iteration_limit
        for sweep in range(self.max_iter):
            _, moves = icm_sweeps(prepared.net, labels, 1)
            run.offer(labels)
            if run.step(sweep + 1):
                return
            if moves == 0:
                run.termination = Termination.converged
                return

    def _run_on_factors(self, problem: Problem, run: Run) -> None:
        from ...kernels.factor_moves import icm
        from ..factor_net import factor_problem

        form = factor_problem(problem)
        if not form.feasible:
            run.certify(-np.inf, MessageCertificate(problem.zero_messages()))
            return
        given = form.net.unary.argmax(axis=1) if run.labels is None else run.labels
        labels = np.array(given, dtype=np.int32)
        run.offer(labels)
        run.termination = Termination.iteration_limit
        for sweep in range(self.max_iter):
            before = labels.copy()
            icm(form.net, labels, 1)
            run.offer(labels)
            if run.step(sweep + 1):
                return
            if (before == labels).all():
                run.termination = Termination.converged
                return
