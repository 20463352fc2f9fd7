"""PartialSearch: message passing and cycles where they decide, elimination of the few nodes that they leave open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import EliminationCertificate
from ...core.certificates.cycles import CycleCertificate
from ...core.certificates.dual import arc_consistent, slack
from ...core.certificates.partial import PartialCertificate, Split, split
from ...core.certificates.scale import tolerance
from ...core.parameters import Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Result, Termination
from ..base import Factored, Run, Solver, Support, without_cliques
from ..prepare import start
from ..relaxations.tightened import Tightening
from ..relaxations.trws import ascend
from .junction import JunctionTree, affordable_order


@dataclass(frozen=True)
class Tuning:
    """When a part is eliminated, and how it grows."""

    loose_share: float = 0.25  # of the gap that counts as none: what terms outside the part may lose together
    most_rounds: int = 30  # growths of the part; 2 to 5 were enough wherever it ended
    time_share: float = 0.5  # of the time that is left, which one elimination may be estimated to take
    most_share: float = 0.3  # of the nodes in the part: with more, nothing was decided outside


_TUNING = Tuning()


@dataclass(frozen=True)
class PartialSearch(Solver):
    """`TightenedTRWS`, then an elimination of what it leaves open.

    Where the bound is tight nearly everywhere, the terms that a labelling does not reach lie in a few places. The nodes of these are the part: it is solved
    exactly by elimination, given the messages at its border. If the outside agrees with the answer, all is optimal; where an edge at the border disagrees, its
    outer node joins the part (after Savchynskyy, Kappes, Swoboda & Schnörr 2013). The certificate is a `core.certificates.partial.PartialCertificate`.

    Parameters
    ----------
    max_iter : int
        Largest number of rounds over cycles.
    tol : float
        Relative gap at which to stop; with 0, when the labelling is optimal.
    stall : float
        As in `TightenedTRWS`.
    time_limit : float, optional
        Seconds.
    """

    max_iter: int = 2000
    tol: float = 0.0
    stall: float = 5e-3
    time_limit: float | None = None

    takes_factors = Factored.lifted
    does = "nodes and edges: optimal where cycles decide all but a few places"
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
        tight = Tightening(problem, prepared, messages, run)
        if tight.ascend(self.max_iter, self.stall) or run.halted:
            return
        _Parts(problem, run, tight.certificate).close()


class _Parts:
    """The part of one run, which grows."""

    def __init__(self, problem: Problem, run: Run, outer: CycleCertificate):
        self.problem, self.run, self.outer = problem, run, outer
        self.inside = np.zeros(problem.n_nodes, dtype=bool)
        self.left, _ = outer.problem_left(problem)
        self.messages, self.domain = problem.as_messages(outer.left_messages), arc_consistent(problem)
        self.tops = outer.tops(problem, self.domain)
        assert run.labels is not None
        self.labels = run.labels  # the outside's, with what the part wants: not always the best labelling

    def close(self) -> bool:
        """Eliminate the part, and let it grow, until the outside agrees with it (True), or the part is too large."""
        run, proof = self.run, None
        for _ in range(_TUNING.most_rounds):
            if not self.grow():
                break
            if self.inside.mean() > _TUNING.most_share or run.step(run.n_iter + 1):
                break
            found = self.eliminate()
            if found is None:
                break
            proof = found
        if proof is None or run.labels is None:
            return False
        value = proof.evaluate(self.problem, run.labels)
        run.certify(value.bound, proof)
        if run.closed:
            run.termination = Termination.converged
        return run.closed

    def grow(self) -> bool:
        """Add the nodes of all terms outside that lose something, but for the smallest losses, which together count as nothing; False if there
        are none."""
        problem, labels, outer = self.problem, self.labels, self.outer
        terms = slack(self.left, self.messages, labels, self.domain)
        value, _ = outer.at(problem, labels)
        apart, inner = _without(problem, outer, self.inside)[1], self.inside[problem.graph.edges].all(axis=1)
        outside = np.concatenate(
            [
                np.where(self.inside, 0.0, terms.node),
                np.where(inner, 0.0, terms.edge),
                np.where(apart, self.tops - value, 0.0),
            ]
        )
        order = np.argsort(outside, kind="stable")
        room = _TUNING.loose_share * max(tolerance(problem, labels), 0.5 * problem.step)
        kept = int(np.searchsorted(np.cumsum(outside[order]), room, side="right"))
        n, e, edges = problem.n_nodes, problem.n_edges, problem.graph.edges
        new = np.zeros(n, dtype=bool)
        for term in order[kept:].tolist():
            if term < n:
                new[term] = True
            elif term < n + e:
                new[edges[term - n]] = True
            else:
                c = term - n - e
                new[edges[outer.edge[outer.ptr[c] : outer.ptr[c + 1]]]] = True
        if not new.any():
            return False
        self.inside |= new
        return True

    def eliminate(self) -> PartialCertificate | None:
        """Solve the part with the messages at its border; None if that is not affordable."""
        part = np.flatnonzero(self.inside)
        outer, _ = _without(self.problem, self.outer, self.inside)
        result = self.solve_part(split(self.problem, outer, part))
        if result is None or result.labels is None or not isinstance(result.certificate, EliminationCertificate):
            return None
        self.labels = np.array(self.labels)
        self.labels[part] = result.labels
        self.run.offer(self.labels)
        return PartialCertificate(outer, part, result.certificate)

    def solve_part(self, cut: Split) -> Result | None:
        """The part by elimination, if its tables fit and it ends in time."""
        seconds = _TUNING.time_share * min(self.run.seconds_left, 60.0)
        if affordable_order(cut.part, seconds) is None:
            return None
        return JunctionTree(time_limit=None if self.run.time_limit is None else self.run.seconds_left).solve(cut.part)


def _without(problem: Problem, outer: CycleCertificate, inside: np.ndarray) -> tuple[CycleCertificate, np.ndarray]:
    """The cycles that are not wholly inside the part, and which these are: what the others hold goes back to their edges, which are eliminated anyway."""
    inner = inside[problem.graph.edges].all(axis=1)
    own = inner[outer.edge]
    length = np.diff(outer.ptr)
    gone = np.add.reduceat(own.astype(np.int64), outer.ptr[:-1]) == length if len(length) else np.zeros(0, dtype=bool)
    places = np.repeat(~gone, length)
    ptr = np.concatenate([[0], np.cumsum(length[~gone])]).astype(np.int64)
    return CycleCertificate(outer.left_messages, ptr, outer.edge[places], outer.turned[places], outer.held[places]), ~gone
