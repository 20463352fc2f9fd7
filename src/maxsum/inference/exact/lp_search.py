"""LPSearch: branch and bound with the linear relaxation at every box, for problems whose relaxation is nearly tight."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.dual import arc_consistent
from ...core.certificates.search.certificate import SearchCertificate, target_gap
from ...core.parameters import Maybe, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ..base import Factored, Run, Solver, Support
from ..moves.icm import polish, start_labels
from ..prepare import Prepared, measure, net_score, start
from ..relaxations.linear_program import LinearProgram, LPModel, highs_solver, lp_model, run_interruptibly

_OTHER = 0  # relation of a box to the label it is split at: all others
_SAME = 1  # or that one alone
_WHOLE = 1e-6  # a marginal that is so near to 0 or 1 is whole


@dataclass(frozen=True)
class Tuning:
    """What a search by linear programs keeps."""

    # Bytes of the messages of all closed boxes: beyond it the search ends, with what it has proven so far.
    proof_bytes: int = 2**29
    # Share of the time that is left for checking the proof, which takes about as long as the programs of all boxes on networks of 2000 nodes;
    # with 0.15 a search that had ended with the optimum was left without its proof. More would cost labellings where it does not end.
    check_share: float = 0.3


_TUNING = Tuning()


@dataclass(frozen=True)
class LPSearch(Solver):
    r"""Best-first branch and bound: at each box the linear program over the local polytope, restricted to the labels of the box.

    The dual simplex method of HiGHS goes on from the last box, so a box costs little where it changes little. A node whose marginals are not whole is split
    into its best label and the others. The multipliers of every box that is closed are its messages in the certificate, so nothing that HiGHS
    says has to be believed.

    Parameters
    ----------
    max_nodes : int, optional
        Boxes.
    time_limit : float, optional
        Seconds.
    """

    max_nodes: int | None = None
    time_limit: float | None = None

    takes_factors = Factored.lifted
    does = "problems of moderate size with a nearly tight relaxation: optimal by branching on its fractional nodes"
    _parameters = settings(max_nodes=Maybe(WholeNumber(1)))

    def supports(self, problem: Problem) -> Support:
        if len(problem.cliques):
            return Support(False, "takes nodes, edges and factors; this problem has clique terms", problem.cliques.members(0))
        return LinearProgram().supports(problem)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        run.certify(measure(problem, messages), MessageCertificate(messages))
        run.offer(polish(prepared.net, start_labels(prepared.net)) if run.labels is None else run.labels)
        if not problem.n_nodes or run.step(0):
            return
        search = _Search(problem, prepared, run, self.max_nodes)
        try:
            search.explore()
        finally:
            search.conclude()


@dataclass(eq=False)
class _Box:
    """A box: its place in the tree, and the labels that its branchings took away from the nodes."""

    number: int
    removed: list[int] = field(default_factory=list)  # columns of the program


class _Search:
    """One run: the tree, the program, and the boxes that wait."""

    def __init__(self, problem: Problem, prepared: Prepared, run: Run, max_nodes: int | None):
        self.problem, self.prepared, self.run, self.max_nodes = problem, prepared, run, max_nodes
        self.model: LPModel = lp_model(prepared.net)
        self.column = np.full(self.model.alive.shape, -1, dtype=np.int64)
        self.column[self.model.alive] = np.arange(int(self.model.alive.sum()))
        self.solver = highs_solver(self.model)
        self.parent, self.node, self.label, self.relation = [-1], [0], [-1], [_OTHER]
        self.height = [np.inf]  # bound of each box, in the scores of the net
        self.sets: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.bytes = 0
        self.closed_off: list[int] = []  # columns that are fixed at 0 now
        self.heap: list[tuple[float, int, _Box]] = [(-np.inf, 0, _Box(0))]
        self.ticket = count(1)
        self.n_boxes = 0
        self.scored: tuple[np.ndarray | None, float] = (None, -np.inf)

    @property
    def target(self) -> float:
        """A box is closed at this bound, in the scores of the net, where no constant hides a difference."""
        run = self.run
        if run.labels is None or not np.isfinite(run.score):
            return -np.inf
        if run.labels is not self.scored[0]:
            self.scored = (run.labels, net_score(self.prepared.net, run.labels))
        room = 0.5 * target_gap(self.problem, run.labels) if not self.problem.step else 1 - 1e-4
        return self.scored[1] + max(room, run.gap * abs(run.score))

    def explore(self) -> None:
        """Best box first; ties to the newest, so that a dive goes on."""
        run = self.run
        reserve = 0.0 if run.time_limit is None else _TUNING.check_share * run.time_limit
        while self.heap:
            bound, _, box = self.heap[0]
            if -bound <= self.target and self.n_boxes:
                return
            if self.max_nodes is not None and self.n_boxes >= self.max_nodes:
                run.termination = Termination.iteration_limit
                return
            if self.bytes > _TUNING.proof_bytes:
                run.termination = Termination.stalled
                run.message = f"LPSearch: after {self.n_boxes} boxes the messages of its proof fill {_TUNING.proof_bytes} bytes (stalled)."
                return
            if (
                run.step(self.n_boxes, max(min(self.prepared.constant - bound, run.bound), run.score))
                or run.seconds_left <= reserve
            ):
                run.termination = Termination.time_limit if run.seconds_left <= reserve else run.termination
                return
            if not self.visit(box, run.seconds_left - reserve):
                return
            # the box was looked at: what is left of it waits now
            for i, entry in enumerate(self.heap):
                if entry[2] is box:
                    self.heap.pop(i)
                    heapq.heapify(self.heap)
                    break

    def visit(self, box: _Box, seconds: float) -> bool:
        """Solve the program of a box, and put its halves on the heap if it stays open. False if there was no time."""
        number = box.number
        found = self.relax(box, seconds)
        if found is None:
            return False
        self.n_boxes += 1
        messages, marginals = found
        domain = self.domain(box)
        bound = self.restricted_bound(messages, domain) if messages is not None else np.inf
        bound = self.height[number] = min(self.height[number], bound)
        if messages is not None:
            self.keep(number, messages)
        if number == 0 and messages is not None:
            self.run.certify(measure(self.problem, messages), MessageCertificate(messages))
        if marginals is None:  # HiGHS says infeasible: propagation or its ray prove it, or the parts of the box do
            domain = arc_consistent(self.problem, domain)
            if not domain.any(axis=1).all():
                self.height[number] = -np.inf
                return True
            if bound <= self.target:
                return True
            if (domain.sum(axis=1) == 1).all():
                self.run.termination = Termination.stalled
                return False
            marginals = domain / domain.sum(axis=1, keepdims=True)
        labels = _best_labels(marginals, domain)
        self.run.offer(labels)
        self.run.offer(polish(self.prepared.net, labels))
        # where the marginals are a labelling, no other one of the box is better, whatever rounding says
        if bound <= self.target or np.where(domain, marginals, 0.0).max(axis=1).min() > 1 - _WHOLE:
            return True
        node, label = self.split(marginals, domain)
        for relation in (_OTHER, _SAME):
            child = self.add(number, node, label, relation, bound)
            gone = [label] if relation == _OTHER else [k for k in np.flatnonzero(self.column[node] >= 0).tolist() if k != label]
            removed = sorted({*box.removed, *(int(self.column[node, k]) for k in gone)})
            heapq.heappush(self.heap, (-bound, -next(self.ticket), _Box(child, removed)))
        return True

    def relax(self, box: _Box, seconds: float) -> tuple[Messages | None, np.ndarray | None] | None:
        """Messages and marginals of a box; the first from a ray where the program has no solution; None where time ran out."""
        import highspy

        solver = self.solver
        fresh = [c for c in self.closed_off if c not in set(box.removed)]
        for columns, upper in ((fresh, np.inf), (box.removed, 0.0)):
            if columns:
                n = len(columns)
                order = np.array(sorted(columns), dtype=np.int32)
                solver.changeColsBounds(n, order, np.zeros(n), np.full(n, upper))
        self.closed_off = list(box.removed)
        if np.isfinite(seconds):
            solver.setOptionValue("time_limit", float(solver.getRunTime() + max(seconds, 0.0)))
        interrupted, ended = run_interruptibly(solver, seconds)
        if interrupted:
            raise KeyboardInterrupt
        if not ended:
            self.run.termination = Termination.time_limit
            return None
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return self.ray(box), None
        if status != highspy.HighsModelStatus.kOptimal:
            late = status == highspy.HighsModelStatus.kTimeLimit
            self.run.termination = Termination.time_limit if late else Termination.stalled
            return None
        solution = solver.getSolution()
        dual, primal = np.asarray(solution.row_dual), np.asarray(solution.col_value)
        return self.model.messages(dual, self.problem), self.model.marginals(primal)

    def ray(self, box: _Box) -> Messages | None:
        """Messages along a ray of the dual that proves the box empty, as long as they have to be."""
        known, values = _dual_ray(self.solver, len(self.model.lower))
        if not known:
            return None
        ray = self.model.messages(values, self.problem)
        base = self.base_messages(box)
        size = max(float(np.abs(ray.edge).max(initial=0.0)), 1e-300)
        domain = self.domain(box)
        for power in range(0, 40, 2):  # any multiple is valid; the least that suffices keeps digits
            for sign in (1.0, -1.0):
                step = sign * 2.0**power / size
                moved = Messages(base.edge + step * ray.edge, base.clique)
                if self.restricted_bound(moved, domain) <= self.target:
                    return moved
        return base

    def nearest(self, number: int) -> int:
        """The box itself, or the nearest above it that has messages; -1 if there is none."""
        while number >= 0 and number not in self.sets:
            number = self.parent[number]
        return number

    def base_messages(self, box: _Box) -> Messages:
        """Messages of the nearest box above that has some."""
        number = self.nearest(box.number)
        edge = np.zeros(2 * self.problem.n_edges * self.problem.n_labels)
        if number >= 0:
            index, value = self.sets[number]
            edge[index] = value
        return Messages(edge.reshape(2, self.problem.n_edges, -1), self.problem.zero_messages().clique)

    def domain(self, box: _Box) -> np.ndarray:
        """Labels of a box (N, K)."""
        inside = self.model.alive.copy()
        flat = np.flatnonzero(inside.ravel())
        inside.ravel()[flat[box.removed]] = False
        return inside

    def restricted_bound(self, messages: Messages, domain: np.ndarray) -> float:
        """Bound of messages over the labels of a box, in numpy: to compare, not to claim."""
        problem, net = self.problem, self.prepared.net
        theta = np.where(domain, net.unary, -np.inf)
        np.subtract.at(theta, net.edges[:, 0], messages.edge[0])
        np.subtract.at(theta, net.edges[:, 1], messages.edge[1])
        u, v = net.edges.T
        total = float(theta.max(axis=1).sum()) if domain.any(axis=1).all() else -np.inf
        size = max(1, 2**21 // max(1, problem.n_labels**2))
        for first in range(0, len(net.edges), size):
            part = slice(first, first + size)
            table = net.tables[net.edge_table[part]] * net.edge_weight[part, None, None]
            table = table + np.where(domain[u[part]], messages.edge[0, part], -np.inf)[:, :, None]
            table = table + np.where(domain[v[part]], messages.edge[1, part], -np.inf)[:, None, :]
            total += float(table.reshape(len(table), -1).max(axis=1).sum())
        return total

    def split(self, marginals: np.ndarray, domain: np.ndarray) -> tuple[int, int]:
        """The node whose best marginal is nearest to a half, of those that have labels to choose from, and that label."""
        best = np.where(domain, marginals, -1.0).max(axis=1)
        choice = np.where(domain.sum(axis=1) > 1, np.abs(best - 0.5), np.inf)
        node = int(choice.argmin())
        return node, int(np.where(domain[node], marginals[node], -1.0).argmax())

    def add(self, parent: int, node: int, label: int, relation: int, height: float) -> int:
        self.parent.append(parent)
        self.node.append(node)
        self.label.append(label)
        self.relation.append(relation)
        self.height.append(height)
        return len(self.parent) - 1

    def keep(self, number: int, messages: Messages) -> None:
        flat = messages.edge.ravel()
        index = np.flatnonzero(flat)
        self.sets[number] = (index, flat[index])
        self.bytes += 16 * len(index)

    def conclude(self) -> None:
        """The proof of what was searched, if it is better than the messages of the root."""
        run = self.run
        run.n_iter = self.n_boxes
        certificate = self.certificate()
        if certificate is None:
            return
        left = run.seconds_left + 0.02 * (run.time_limit or 0.0) + 0.05
        bound, gap, _ = certificate.assess(self.problem, run.labels, left)
        is_proven = run.labels is not None and gap <= target_gap(self.problem, run.labels)
        if bound < run.bound or is_proven:
            run.bound, run.certificate = bound, certificate
        if run.termination == Termination.converged and not is_proven and not run.closed:
            run.termination = Termination.stalled if run.seconds_left > 0 else Termination.time_limit
            why = f"all of its {self.n_boxes} boxes are closed, but not all of the proof could be checked"
            run.message = f"LPSearch: {why} ({run.termination.replace('_', ' ')})."

    def certificate(self) -> SearchCertificate | None:
        """The tree so far with the messages of its boxes; None while it is the root alone."""
        if len(self.parent) == 1:
            return None
        closed = max([-entry[0] for entry in self.heap], default=-np.inf)
        level = closed - self.scored[1] if closed > self.target > -np.inf and np.isfinite(closed) else 0.0
        inner = set(self.parent[1:])
        # a box that was not looked at has the messages of the one it is a part of; inner boxes are closed by their parts
        source = [-1 if i in inner and i else self.nearest(i) for i in range(len(self.parent))]
        used = sorted(set(source) - {-1})
        place = {number: s for s, number in enumerate(used)}
        parts = [self.sets[i] for i in used]
        return SearchCertificate(
            parent=np.array(self.parent, dtype=np.int32),
            node=np.array(self.node, dtype=np.int32),
            label=np.array(self.label, dtype=np.int32),
            relation=np.array(self.relation, dtype=np.int8),
            message_set=np.array([place.get(i, -1) for i in source], dtype=np.int32),
            ptr=np.cumsum([0] + [len(index) for index, _ in parts]),
            index=np.concatenate([np.zeros(0, dtype=np.int64), *(index for index, _ in parts)]),
            value=np.concatenate([np.zeros(0), *(value for _, value in parts)]),
            level=max(level, 0.0),
        )


def _best_labels(marginals: np.ndarray, domain: np.ndarray) -> np.ndarray:
    return np.where(domain, marginals, -1.0).argmax(axis=1).astype(np.int32)


def _dual_ray(solver: Any, n_rows: int) -> tuple[bool, np.ndarray]:
    """The ray of the dual that HiGHS has, if it has one."""
    try:
        _, known, values = solver.getDualRay()
    except (TypeError, ValueError):
        return False, np.zeros(n_rows)
    array = np.asarray(values, dtype=float)
    sound = bool(known) and array.shape == (n_rows,) and bool(np.isfinite(array).all())
    return sound, array
