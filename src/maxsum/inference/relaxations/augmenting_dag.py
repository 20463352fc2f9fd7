"""AugmentingDAG: descent of the height through failed arc consistency, with threshold scaling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.scale import spreads
from ...core.consistency import MaximalSet, maximal_csp
from ...core.parameters import Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels import augmenting_dag as kernels
from ...kernels.records import scratch
from ...kernels.trws import decode, sweep
from ..base import Run, Solver, Support, without_cliques
from ..exact.search import BranchAndBound
from ..moves.icm import polish, start_labels
from ..prepare import Prepared, measure, start


@dataclass(frozen=True)
class Tuning:
    """How `AugmentingDAG` divides its work; none of it is part of what is proven."""

    # Table cells between two looks at the clock, a few hundredths of a second; half and twice as many gave the same run.
    cells_a_look: int = 4_000_000
    # Largest table of maximal pairs, a byte a cell: beyond it only messages and passes give labellings.
    most_csp_cells: int = 20_000_000
    # Boxes of the search for a labelling of maximal pairs; 1000 and 4000 gave the same answers on grids of 256 nodes.
    csp_boxes: int = 2_000
    # TRW-S passes that break ties at the end; 5 and 20 gave the same labellings on grids of 256 nodes.
    label_passes: int = 10


_TUNING = Tuning()


@dataclass(frozen=True)
class AugmentingDAG(Solver):
    r"""Schlesinger's augmenting DAG algorithm, for any graph and unequal label counts; the LP solver of the 2008 paper.

    At threshold :math:`\epsilon`, labels and pairs within :math:`\epsilon` of the best of their node or edge form a constraint
    satisfaction problem. Where arc consistency empties a node, the deletions that led there give a direction in which the
    height `Problem.bound` falls, and the longest step that raises no maximum is taken. Where it empties none, the threshold
    is lowered. No step worsens the bound.

    The run ends with an arc-consistent problem. On forests, supermodular problems and two labels its height is the value
    of the local-polytope LP; elsewhere it may lie above it. A labelling is looked for in the problem of the maximal nodes and
    edges, where it would be optimal; otherwise it comes from conditioning, along a few TRW-S passes over a copy of the
    messages too, improved by `ICM`.

    Parameters
    ----------
    max_iter : int
        Largest number of steps.
    tol : float
        Relative gap at which to stop; with 0, when the labelling is optimal.
    stall : float
        Stop as `stalled` when the bound is arc consistent at a threshold whose effect on all terms together is less than
        ``stall`` times the gap that is left.
    ratio : float
        Factor between thresholds, in (0, 1).
    time_limit : float, optional
        Seconds.
    """

    max_iter: int = 200_000
    tol: float = 0.0
    stall: float = 1e-3
    ratio: float = 0.5
    time_limit: float | None = None

    improves_messages = True
    does = "problems without cliques: bound and labelling by Schlesinger's algorithm; optimal where the LP is tight"

    _parameters = settings(
        max_iter=WholeNumber(0, wanted="0 or more steps"),
        stall=Real(0.0, wanted="a share of the gap >= 0"),
        ratio=Real(above=0.0, below=1.0, wanted="a factor between 0 and 1"),
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
        if not problem.n_edges:
            run.step(1)
            return
        if not run.step(0):
            _Descent(self, problem, prepared, messages, run).scale()


class _Descent:
    """All state of one run."""

    def __init__(self, solver: AugmentingDAG, problem: Problem, prepared: Prepared, messages: Messages, run: Run):
        self.solver, self.problem, self.prepared, self.run = solver, problem, prepared, run
        self.net, self.messages = prepared.net, messages
        self.n_terms = problem.n_nodes + problem.n_edges
        self.chunk = max(1, min(1000, _TUNING.cells_a_look // (1 + problem.n_edges * problem.n_labels**2)))
        self.dag = scratch(problem.n_nodes, problem.n_edges, problem.n_labels)
        self.height = kernels.refresh(self.net, messages.edge, self.dag)
        self.labels = np.zeros(problem.n_nodes, dtype=np.int32)
        self.rounded, self.floor = False, 0.0

    def scale(self) -> None:
        """Lower the threshold until the gap is closed, or the threshold is too small to matter."""
        run, epsilon = self.run, self.first_threshold()
        self.floor = max(1e-18 * epsilon, 1e-13 * abs(self.height) / self.n_terms)
        while self.descend(epsilon):
            self.condition(self.messages)
            if run.closed:
                return
            if self.fine(epsilon):
                self.label_from_maximal(epsilon)
                if not run.closed:
                    self.label_from_passes()
                if run.closed:
                    return
                if self.fine(epsilon):
                    run.termination = Termination.stalled
                    return
            if run.step(run.n_iter):
                return
            epsilon *= self.solver.ratio
        self.condition(self.messages)

    def condition(self, messages: Messages) -> None:
        """Labellings by conditioning in both orders."""
        for forward in (True, False):
            decode(self.net, forward, messages.edge, messages.clique, self.labels)
            self.run.offer(polish(self.net, self.labels))

    def first_threshold(self) -> float:
        widths = spreads(self.problem)
        own = np.where(np.isfinite(self.dag.theta), self.dag.node_top[:, None] - self.dag.theta, 0.0)
        return float(max(widths.max(initial=0.0), own.max(initial=0.0))) * self.solver.ratio

    def fine(self, epsilon: float) -> bool:
        """Whether slack of ``epsilon`` in every term is little against the gap."""
        gap = self.run.bound - self.run.score
        least = max(0.25 * self.problem.resolution, self.solver.stall * gap if np.isfinite(gap) else 0.0)
        return epsilon * self.n_terms <= least or epsilon <= self.floor

    def descend(self, epsilon: float) -> bool:
        """Steps at one threshold until arc consistency holds; False if a limit ends the run."""
        run = self.run
        while True:
            budget = min(self.chunk, self.solver.max_iter - run.n_iter)
            if budget <= 0:
                run.termination = Termination.iteration_limit
                return False
            steps, change, status = kernels.descend(self.net, self.messages.edge, epsilon, budget, self.dag)
            run.n_iter += steps
            self.height += change
            if steps:
                run.certify(measure(self.problem, self.messages), MessageCertificate(self.messages))
            if status != kernels.BUDGET:
                self.rounded = status == kernels.ROUNDED
                return True
            if run.step(run.n_iter):
                return False

    def label_from_maximal(self, epsilon: float) -> None:
        """Search for a labelling of maximal nodes and edges, where arc consistency leaves some to every node."""
        problem, run = self.problem, self.run
        if problem.n_edges * problem.n_labels**2 > _TUNING.most_csp_cells or self.rounded:
            return
        nodes = np.zeros((problem.n_nodes, problem.n_labels), dtype=bool)
        pairs = np.zeros((problem.n_edges, problem.n_labels, problem.n_labels), dtype=bool)
        kernels.maximal_pairs(self.net, self.messages.edge, epsilon, self.dag, nodes, pairs)
        left = None if run.time_limit is None else run.seconds_left
        found = BranchAndBound(max_nodes=_TUNING.csp_boxes, time_limit=left).solve(
            maximal_csp(problem, MaximalSet(nodes, pairs))
        )
        if found.labels is not None:
            run.offer(found.labels)
            run.offer(polish(self.net, found.labels))

    def label_from_passes(self) -> None:
        """Labellings by conditioning along TRW-S passes over a copy of the messages: arc consistency leaves many ties."""
        copy = Messages(self.messages.edge.copy(), self.messages.clique)
        for iteration in range(_TUNING.label_passes):
            sweep(self.net, iteration % 2 == 0, copy.edge, copy.clique)
            self.condition(copy)
