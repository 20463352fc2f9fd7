"""TreeDP: dynamic programming on forests, one chain or thousands of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.parameters import JOBS, settings
from ...core.problem import Messages, Problem
from ...executors.threads import split, thread_map
from ...kernels import tree
from ..base import Run, Solver, Support
from ..prepare import prepare


@dataclass(frozen=True)
class TreeDP(Solver):
    """Exact maximisation on forests by dynamic programming (Viterbi on chains), in ``O(n_edges * K**2)``.

    Parameters
    ----------
    n_jobs : int
        Threads over the components of the forest; -1 for all cores.
    """

    n_jobs: int = 1

    does = "forests: optimal by dynamic programming"
    _copies = 1
    _parameters = settings(n_jobs=JOBS)

    def supports(self, problem: Problem) -> Support:
        if len(problem.cliques):
            return Support(False, f"takes no cliques; the problem has {len(problem.cliques)}")
        if not problem.graph.is_forest:
            extra = problem.n_edges - problem.n_nodes + 1 + int(problem.graph.components.max())
            return Support(False, f"needs a forest; the graph has {extra} edges too many (cycles)")
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        prepared = prepare(problem)
        messages = problem.zero_messages()
        certificate = MessageCertificate(messages)
        if not prepared.feasible:
            run.certify(-np.inf, certificate)
            return
        net = prepared.net
        order, parent_edge, parent_side, starts = tree.forest_order(
            problem.n_nodes, net.edges, net.ptr, net.adj_edge, net.adj_side
        )
        hard = problem.has_hard_constraints or bool((problem.n_states < problem.n_labels).any())
        labels = np.zeros(problem.n_nodes, dtype=np.int32)
        thread_map(
            lambda part: tree.solve_forest(
                net, order, parent_edge, parent_side, starts, part[0], part[1], hard, messages.edge, labels
            ),
            split(starts, self.n_jobs),
            self.n_jobs,
        )
        run.offer(labels)
        run.certify(run.score, certificate)
        run.step(1)
