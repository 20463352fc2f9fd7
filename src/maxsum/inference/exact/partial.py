"""PartialSearch: message passing and cycles where they decide, elimination of the few nodes that they leave open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.cycles import CycleCertificate
from ...core.certificates.dual import arc_consistent, edge_values, node_intervals, term_tops
from ...core.certificates.partial import PartialCertificate, split
from ...core.certificates.scale import tolerance
from ...core.graph import Graph
from ...core.parameters import Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...core.rows import row_max
from ..base import Factored, Run, Solver, Support, without_cliques
from ..prepare import start
from ..relaxations.tightened import Tightening
from ..relaxations.trws import ascend
from .junction import Elimination, affordable_order


@dataclass(frozen=True)
class Tuning:
    """When a part is eliminated, and how it grows."""

    loose_share: float = 0.25  # of the gap that counts as none: what terms outside the part may lose together
    most_rounds: int = 60  # growths of the part; 2 to 20 were enough wherever it ended
    time_share: float = 0.5  # of the time that is left, which one elimination may be estimated to take
    most_seconds: float = 30.0  # that it may be estimated to take in any case
    most_share: float = 0.3  # of the nodes in the part: with more, nothing was decided outside
    spare_loss: float = (
        1e-9  # of the sizes of losses: labels are left out of the part only if they lose more than this beyond its loss
    )


_TUNING = Tuning()


@dataclass(frozen=True)
class PartialSearch(Solver):
    """`TightenedTRWS`, then an elimination of what it leaves open.

    Where the bound is tight nearly everywhere, the terms that a labelling does not reach lie in a few places. The nodes of these are the part: it is solved
    exactly by elimination, given the messages at its border; where the open places are few, cycles are taken near them alone at first. If the outside agrees with the answer, all is optimal; where an edge at the border disagrees, its
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
        # where messages decide nearly everything, first the cycles about the rest
        near = tight.undecided()
        if near is not None:
            if tight.ascend(self.max_iter, self.stall, near) or run.halted:
                return
            if _Parts(problem, run, tight.certificate).close() or run.halted:
                return
        if tight.ascend(self.max_iter, self.stall) or run.halted:
            return
        _Parts(problem, run, tight.certificate).close()


class _Parts:
    """The part of one run, which grows, and what the terms outside lose at the labelling that the part wants."""

    def __init__(self, problem: Problem, run: Run, outer: CycleCertificate):
        self.problem, self.run, self.outer = problem, run, outer
        self.inside = np.zeros(problem.n_nodes, dtype=bool)
        self.left, _ = outer.problem_left(problem)
        self.messages, self.domain = problem.as_messages(outer.left_messages), arc_consistent(problem)
        self.tops = outer.tops(problem, self.domain)
        assert run.labels is not None
        self.labels = np.array(run.labels)  # the outside's, with what the part wants: not always the best labelling
        theta, error = node_intervals(self.left, self.messages, self.domain)
        self.node_loss = row_max(theta + error)[:, None] - (theta - error)  # (N, K), of every label
        self.edge_top = term_tops(self.left, self.messages, self.domain)[1]
        self.edge_loss = np.zeros(problem.n_edges)
        self._look_at(np.arange(problem.n_edges))

    def _look_at(self, edges: np.ndarray) -> None:
        """Losses of some edges at the labelling, anew."""
        value, error = edge_values(self.left, self.messages, self.labels, edges)
        self.edge_loss[edges] = self.edge_top[edges] - (value - error)

    def close(self) -> bool:
        """Solve the part, and let it grow, until the outside agrees with it (True), or the part is too large."""
        run, agrees = self.run, False
        for _ in range(_TUNING.most_rounds):
            if not self.grow():
                agrees = True
                break
            if self.inside.mean() > _TUNING.most_share or run.step(run.n_iter + 1) or not self.solve_part():
                break
        if not run.closed and agrees and self.inside.any():
            self.prove()
        if run.closed:
            run.termination = Termination.converged
        return run.closed

    def grow(self) -> bool:
        """Add the nodes of all terms outside that lose something, but for the smallest losses, which together count as nothing; False if there
        are none."""
        problem, labels, outer = self.problem, self.labels, self.outer
        value, _ = outer.at(problem, labels)
        apart, inner = _apart(problem, outer, self.inside), self.inside[problem.graph.edges].all(axis=1)
        outside = np.concatenate(
            [
                np.where(self.inside, 0.0, self.node_loss[np.arange(problem.n_nodes), labels]),
                np.where(inner, 0.0, self.edge_loss),
                np.where(apart, self.tops - value, 0.0),
            ]
        )
        some = np.flatnonzero(outside)
        order = some[np.argsort(outside[some], kind="stable")]
        room = _TUNING.loose_share * max(tolerance(problem, labels), 0.5 * problem.step)
        kept = int(np.searchsorted(np.cumsum(outside[order]), room, side="right"))
        n, e, edges = problem.n_nodes, problem.n_edges, problem.graph.edges
        new = np.zeros(n, dtype=bool)
        terms = order[kept:]
        new[terms[terms < n]] = True
        new[edges[terms[(terms >= n) & (terms < n + e)] - n]] = True
        for c in (terms[terms >= n + e] - n - e).tolist():
            new[edges[outer.edge[outer.ptr[c] : outer.ptr[c + 1]]]] = True
        if not new.any():
            return False
        self.inside |= new
        return True

    def solve_part(self) -> bool:
        """The best labelling of the part with the messages at its border, by elimination; False if that is not affordable.

        With these messages a part's score is a constant less all losses inside. So a label that loses more at its node than the present labelling
        in its connected piece is left out.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        problem, part = self.problem, np.flatnonzero(self.inside)
        inner = np.flatnonzero(self.inside[problem.graph.edges].all(axis=1))
        number = np.full(problem.n_nodes, -1)
        number[part] = np.arange(len(part))
        ends = number[problem.graph.edges[inner]]
        tables = self.left.tables[self.left.edge_table[inner]] * self.left.edge_weight[inner, None, None]
        cycle = np.repeat(~_apart(problem, self.outer, self.inside), np.diff(self.outer.ptr))  # places of cycles inside
        place = np.full(problem.n_edges, -1)
        place[inner] = np.arange(len(inner))
        np.add.at(tables, place[self.outer.edge[cycle]], self.outer.held[cycle])
        # losses of the present labelling in each connected piece
        shape = (len(part), len(part))
        piece = connected_components(coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=shape), directed=False)[1]
        loss = np.bincount(piece, self.node_loss[part, self.labels[part]])
        np.add.at(loss, piece[ends[:, 0]], self.edge_loss[inner])
        value, _ = self.outer.at(problem, self.labels)
        first = place[self.outer.edge[self.outer.ptr[:-1]]]
        own = ~_apart(problem, self.outer, self.inside)
        np.add.at(loss, piece[ends[first[own], 0]], (self.tops - value)[own])
        # the labels that are left, in the order of their numbers
        room = loss[piece] + _TUNING.spare_loss * (1 + np.abs(loss[piece]))
        kept = self.domain[part] & (self.node_loss[part] <= room[:, None])
        kept[np.arange(len(part)), self.labels[part]] = True
        states = kept.sum(axis=1)
        label = np.argsort(~kept, axis=1, kind="stable")[:, : int(states.max())]
        messages = np.zeros((len(part), problem.n_labels))
        for side in (0, 1):
            border = np.flatnonzero(self.inside[problem.graph.edges[:, side]] & (place < 0))
            np.add.at(messages, number[problem.graph.edges[border, side]], self.messages.edge[side, border])
        unary = np.take_along_axis(np.where(self.domain[part], problem.unary[part] - messages, -np.inf), label, axis=1)
        at = np.arange(len(inner))[:, None, None]
        few = tables[at, label[ends[:, 0]][:, :, None], label[ends[:, 1]][:, None, :]]
        small = Problem(Graph.from_edges(ends, n_nodes=len(part)), unary, few if len(few) else None, n_states=states)
        order = affordable_order(small, self.seconds)
        best = None if order is None else Elimination(small, order).best()
        if best is None:
            return False
        before = self.labels.copy()
        self.labels[part] = label[np.arange(len(part)), best]
        self._look_at(np.flatnonzero((before != self.labels)[problem.graph.edges].any(axis=1)))
        self.run.offer(self.labels)
        return True

    @property
    def seconds(self) -> float:
        """Time that one elimination may be estimated to take."""
        return min(_TUNING.time_share * self.run.seconds_left, _TUNING.most_seconds)

    def prove(self) -> None:
        """Certify that the part's labelling is the best, by the separator tables of its elimination with all labels."""
        run, part = self.run, np.flatnonzero(self.inside)
        outer = _without(self.outer, _apart(self.problem, self.outer, self.inside))
        whole = split(self.problem, outer, part).part
        order = affordable_order(whole, self.seconds)
        if order is None:
            return
        elimination = Elimination(whole, order)
        if elimination.best() is None or run.labels is None:
            return
        proof = PartialCertificate(outer, part, elimination.certificate())
        run.certify(proof.evaluate(self.problem, run.labels).bound, proof)


def _apart(problem: Problem, outer: CycleCertificate, inside: np.ndarray) -> np.ndarray:
    """Which cycles are not wholly inside the part."""
    own, length = inside[problem.graph.edges].all(axis=1)[outer.edge], np.diff(outer.ptr)
    return np.add.reduceat(~own, outer.ptr[:-1]) > 0 if len(length) else np.zeros(0, dtype=bool)


def _without(outer: CycleCertificate, apart: np.ndarray) -> CycleCertificate:
    """The cycles that are not wholly inside the part: what the others hold goes back to their edges, which are eliminated anyway."""
    length = np.diff(outer.ptr)
    places = np.repeat(apart, length)
    ptr = np.concatenate([[0], np.cumsum(length[apart])]).astype(np.int64)
    return CycleCertificate(outer.left_messages, ptr, outer.edge[places], outer.turned[places], outer.held[places])
