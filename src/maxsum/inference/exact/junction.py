"""JunctionTree: exact maximisation on graphs of small width, node by node (bucket elimination)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.certificates.base import EliminationCertificate, MessageCertificate
from ...core.certificates.elimination_order import EliminationOrder, elimination_order, order_along
from ...core.certificates.scale import table_centres
from ...core.factors.lifting import lift, lifted_size, unliftable
from ...core.memory import available
from ...core.parameters import Maybe, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Result, Termination
from ..base import Callback, Factored, Run, Solver, Support, solve_lifted
from ..moves.icm import polish, start_labels
from ..prepare import measure, prepare

MAX_AXES = 60 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 30
"""Largest number of nodes in a bag; numpy arrays have at most 64 axes (32 before numpy 2)."""


@dataclass(frozen=True)
class Tuning:
    """When `JunctionTree` looks at clocks and widths."""

    # Nodes up to which a refused graph's width is computed to be told: a min-fill order takes milliseconds there.
    named_nodes: int = 300
    named_edges: int = 1000  # the same in edges
    # Rounds of peeling low degrees off for a lower bound on the width; graphs that need more are left to the min-fill order.
    peels: int = 100
    cells_a_look: int = 1 << 20  # cells between two looks at the clock, some milliseconds
    bag_cells: int = 1 << 14  # what a bag costs beside its cells, in cells: numpy calls of some 50 microseconds
    # Time to evaluate the proof, in times of the elimination: measured on bags of 1e3 to 1e7 cells, 0.9 to 1.6.
    evaluate_share: float = 1.5
    # Measured for a cell and each term added to it; a bag that needs more than is left is not begun.
    cell_seconds: float = 4e-9
    # Cells of a min-fill order from which the banded order is tried too: below, an elimination takes milliseconds either way.
    many_cells: int = 1 << 18
    memory_share: float = 0.5  # of the memory that is left, that tables may take: what a machine needs for others is not known
    # The same where nobody asked for an elimination, by `solve`: two threads or processes may come to that at a time.
    quiet_share: float = 0.25
    bag_copies: int = 6  # of the largest bag, while it is summed, maximised or evaluated, in memory beside all separator tables


_TUNING = Tuning()


@dataclass(frozen=True)
class JunctionTree(Solver):
    r"""Exact maximisation by eliminating nodes one by one, in time and memory of the order's table cells.

    The order is greedy (min-fill), or goes along the bandwidth (reverse Cuthill-McKee) where that has fewer cells, as on large
    grids: a grid of 20 by 20 nodes with two labels takes 0.7 GB along its diagonals, and 12 GB in the order of least fill.

    With :math:`B_v` the sum of all terms and messages whose first eliminated node is ``v``, the message to the separator is

    .. math:: M_v(y_S) = \max_{y_v} B_v(y_v, y_S) - \max_{y_v, y_S} B_v.

    Scores are centred first, so a constant in all of them does no harm.

    Parameters
    ----------
    max_cells : int, optional
        Largest number of table entries of all bags together; larger problems are refused. By default, what half of the memory
        that is left has room for.
    time_limit : float, optional
        Seconds, looked at between bags. A run that is cut short returns a labelling by `ICM` and the bound of zero messages.
    """

    max_cells: int | None = None
    time_limit: float | None = None

    takes_factors = Factored.native
    does = "graphs of small width: optimal by elimination"
    _parameters = settings(max_cells=Maybe(WholeNumber(1)))

    def supports(self, problem: Problem) -> Support:
        room = _room() if self.max_cells is None else np.inf
        most = _most_cells(problem, room) if self.max_cells is None else self.max_cells
        if len(problem.factors) and _is_narrower_lifted(problem, most):
            return self.supports(lift(problem).problem)
        which = f"{_human(room)}, half of the memory that is left" if self.max_cells is None else "max_cells"
        limits = f"at most {_count(most)} table cells ({which}) and width {MAX_AXES - 1} are taken"
        small = problem.n_nodes <= _TUNING.named_nodes and problem.n_edges <= _TUNING.named_edges
        if not small and (least := _too_wide(problem, most)):
            return Support(False, f"needs low width; the graph has at least width {least}, {limits}", least)
        order = _order(problem, most)
        if order is not None and elimination_bytes(problem, order) <= room:
            return Support(True)
        order = elimination_order(problem) if order is None and small else order
        if order is None:
            return Support(False, f"needs low width; the min-fill order goes beyond that: {limits}")
        found = f"width {order.width} and {_count(order.cells)} table cells"
        return Support(False, f"needs low width; the best order found has {found}, {limits}", order)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        order = _order(problem, _most_cells(problem, np.inf) if self.max_cells is None else self.max_cells)
        assert order is not None
        zero = problem.zero_messages() if init is None else init
        run.certify(measure(problem, zero), MessageCertificate(zero))
        done = False
        try:
            done = Elimination(problem, order).solve(run)
        finally:
            if not done:
                net = prepare(problem).net
                run.offer(polish(net, start_labels(net)))

    def solve(
        self, problem: Problem, init: Any = None, callback: Callback | None = None, *, gap: float | None = None
    ) -> Result:
        """As `Solver.solve`; factors over many nodes are eliminated in the form with nodes and edges alone, where that is narrower."""
        most = _most_cells(problem, _room()) if self.max_cells is None else self.max_cells
        if len(problem.factors) and _is_narrower_lifted(problem, most):
            return solve_lifted(self, problem, init, callback, gap)
        return super().solve(problem, init, callback, gap=gap)


def has_small_width(problem: Problem, max_cells: float) -> bool:
    """What `JunctionTree.supports` says, without the width of what it refuses."""
    if narrow_order(problem, max_cells) is not None:
        return True
    return bool(len(problem.factors)) and _is_narrower_lifted(problem, max_cells)


def is_surely_wide(problem: Problem, max_cells: float) -> bool:
    """Whether every order has a bag of more cells than these, by a quick look (a grid, or a dense core)."""
    return bool(_too_wide(problem, max_cells))


def _is_narrower_lifted(problem: Problem, max_cells: float) -> bool:
    """Whether the form with nodes and edges alone can be eliminated within the limits, with fewer cells than the problem as it is: a count
    over n nodes has a bag of all of them in the one, and partial counts in the other."""
    if unliftable(problem) or lifted_size(problem) > max_cells:
        return False
    order = _order(lift(problem).problem, max_cells)
    if order is None:
        return False
    own = _order(problem, max_cells)
    return own is None or order.cells < own.cells


def keep_order(known: Problem, problem: Problem) -> None:
    """Take over the elimination orders of a problem that has the same graph, factors and numbers of labels, and other scores."""
    problem.__dict__["_elimination"] = known.__dict__.setdefault("_elimination", {"order": None, "refused": 0.0})
    lifted = known.__dict__.get("_lifted")
    if lifted is not None:
        own = problem.__dict__["_lifted"] = lifted.with_scores(problem)
        keep_order(lifted.problem, own.problem)


def narrow_order(problem: Problem, max_cells: float) -> EliminationOrder | None:
    """An order with at most so many table entries of all bags together; None if none is found. Kept with the problem."""
    return None if _too_wide(problem, max_cells) else _order(problem, max_cells)


def affordable_order(problem: Problem, seconds: float) -> EliminationOrder | None:
    """An order whose tables fit in a quarter of the memory that is left, and whose elimination and proof take at most ``seconds``."""
    room = _room(_TUNING.quiet_share)
    most = min(_most_cells(problem, room), seconds / _TUNING.cell_seconds)
    order = None if _too_wide(problem, most) else _order(problem, most)
    if order is None or elimination_bytes(problem, order) > room or elimination_seconds(problem, order) > seconds:
        return None
    return order


def elimination_bytes(problem: Problem, order: EliminationOrder) -> float:
    """Memory that eliminating along an order takes: all separator tables, and copies of the largest bag."""
    states = problem.n_states.tolist()
    tables = [math.prod(float(states[w]) for w in separator) for separator in order.separators]
    bags = (states[v] * cells for v, cells in zip(order.nodes, tables, strict=True))
    return 8 * (sum(tables) + _TUNING.bag_copies * max(bags, default=0.0))


def elimination_seconds(problem: Problem, order: EliminationOrder) -> float:
    """Time that eliminating along an order takes, with its proof: a few operations a cell, and some calls of numpy a bag."""
    terms = 3 + problem.n_edges / max(problem.n_nodes, 1)
    cells = order.cells + _TUNING.bag_cells * problem.n_nodes
    return (1 + _TUNING.evaluate_share) * terms * cells * _TUNING.cell_seconds


def _room(share: float = _TUNING.memory_share) -> float:
    return share * available()[0]


def _most_cells(problem: Problem, room: float) -> float:
    """More cells than these do not fit: a bag has at most as many times the cells of its separator as there are labels."""
    return room / 8 * max(problem.n_labels, 1)


def _human(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.2g} GB"


def _count(number: float) -> str:
    return f"{number:.0f}" if number < 1e5 else f"{number:.2g}"


def _too_wide(problem: Problem, max_cells: float) -> int:
    """A lower bound on the width if it is over the limits and quickly found (a grid, or a dense core), else 0."""
    if not problem.n_edges:
        return 0
    fewest = int(problem.n_states.min())
    least = MAX_AXES
    while fewest > 1 and least > 1 and fewest**least > max_cells:
        least -= 1
    if problem.graph.shape is not None and min(problem.graph.shape) >= least:
        return min(problem.graph.shape)
    edges = problem.graph.edges
    for _ in range(_TUNING.peels):
        degree = np.bincount(edges.ravel(), minlength=problem.n_nodes)
        kept = degree >= least
        if kept[edges].all():
            return least if len(edges) else 0
        edges = edges[kept[edges].all(axis=1)]
    return 0


def _order(problem: Problem, max_cells: float) -> EliminationOrder | None:
    """The better of two orders within the limits, None if there is none.

    Kept with the problem, as finding it takes a while: the order, or the number of cells that were not enough.
    """
    memo = problem.__dict__.setdefault("_elimination", {"order": None, "refused": 0.0})
    if memo["order"] is None and max_cells > memo["refused"]:
        memo["order"] = _find_order(problem, max_cells)
        memo["refused"] = max_cells
    order: EliminationOrder | None = memo["order"]
    return order if order is not None and order.cells <= max_cells else None


def _find_order(problem: Problem, max_cells: float) -> EliminationOrder | None:
    """Min-fill, or the banded order where that has fewer cells."""
    narrow = elimination_order(problem, MAX_AXES - 1, max_cells)
    if narrow is not None and narrow.cells <= _TUNING.many_cells:
        return narrow
    most = max_cells if narrow is None else narrow.cells
    return order_along(problem, _band(problem), MAX_AXES - 1, most) or narrow


def _band(problem: Problem) -> list[int]:
    """Nodes along the bandwidth: from one end of the graph to the other, so that what was removed touches few of the rest."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    ends, n_nodes = problem.graph.edges, problem.n_nodes
    if len(problem.factors):
        inside = np.ones(problem.factors.n_members, dtype=bool)
        inside[problem.factors.ptr[1:] - 1] = False  # each member and the next one of the same factor
        at = np.flatnonzero(inside)
        ends = np.concatenate([ends, np.stack([problem.factors.nodes[at], problem.factors.nodes[at + 1]], axis=1)])
    both = np.concatenate([ends, ends[:, ::-1]])
    pattern = coo_array((np.ones(len(both), dtype=np.int8), (both[:, 0], both[:, 1])), shape=(n_nodes, n_nodes)).tocsr()
    found: list[int] = reverse_cuthill_mckee(pattern, symmetric_mode=True).tolist()
    return found


class Elimination:
    """One run: for each node the terms whose first eliminated node it is, then the messages that reach it."""

    def __init__(self, problem: Problem, order: EliminationOrder):
        self.problem, self.order = problem, order
        self.rank = np.empty(problem.n_nodes, dtype=np.int64)
        self.rank[list(order.nodes)] = np.arange(problem.n_nodes)
        self.labels = np.zeros(problem.n_nodes, dtype=np.int32)
        self.tables: list[np.ndarray] = []
        top = problem.unary.max(axis=1, initial=-np.inf)
        self.unary = problem.unary - top[:, None]
        self.edges = self._edges()
        self.inbox: list[list[tuple[tuple[int, ...], np.ndarray]]] = [[] for _ in order.nodes]
        self.cliques: list[list[int]] = [[] for _ in order.nodes] if len(problem.cliques) else []
        for c in range(len(problem.cliques)):
            self.cliques[int(self.rank[problem.cliques.members(c)].min())].append(c)
        for nodes, function in problem.factors.items():  # as if another bag had sent it
            scope = tuple(nodes.tolist())
            table = function.dense(tuple(problem.n_states[nodes].tolist())) - function.centre
            order_of = sorted(range(len(scope)), key=scope.__getitem__)  # messages have their nodes in rising order
            self.inbox[int(self.rank[nodes].min())].append((tuple(sorted(scope)), table.transpose(order_of)))

    def _edges(self) -> list[list[tuple[int, int, bool]]]:
        """For each position of the order: edge, its other node, and whether the eliminated node is the second one."""
        edges = self.problem.graph.edges
        first, second = self.rank[edges[:, 0]], self.rank[edges[:, 1]]
        flip = second < first
        at, other = np.where(flip, second, first), np.where(flip, edges[:, 0], edges[:, 1])
        lists: list[list[tuple[int, int, bool]]] = [[] for _ in self.order.nodes]
        for e, (i, w, turned) in enumerate(zip(at.tolist(), other.tolist(), flip.tolist(), strict=True)):
            lists[i].append((e, w, turned))
        return lists

    def solve(self, run: Run) -> bool:
        """Eliminate, trace back, offer and certify. False if the run was stopped first."""
        nodes, separators = self.order.nodes, self.order.separators
        states = self.problem.n_states.tolist()
        centre = table_centres(self.problem).tolist()
        work, begun = 0, run.clock.seconds
        rank = self.rank.tolist()
        with np.errstate(invalid="ignore"):
            for i, separator in enumerate(separators):
                # what the elimination took so far, its proof takes again to evaluate, and a few operations more for the rounding
                run.reserve = max(run.reserve, _TUNING.evaluate_share * (run.clock.seconds - begun))
                cells = states[nodes[i]] * math.prod(states[w] for w in separator)
                if cells * (2 + len(self.edges[i]) + len(self.inbox[i])) * _TUNING.cell_seconds > run.seconds_left:
                    run.termination = Termination.time_limit
                    return False
                values = self._bag(i, states, centre)
                best = np.maximum.reduce(values, axis=0)
                top = best.max()
                if top == -np.inf:
                    rest = [np.broadcast_to(0.0, [states[w] for w in s]) for s in separators[i:]]
                    run.certify(-np.inf, EliminationCertificate(nodes, separators, (*self.tables, *rest)))
                    return True
                message = np.asarray(best - top)
                self.tables.append(message)
                if separator:
                    self.inbox[min(rank[w] for w in separator)].append((separator, message))
                work += values.size + _TUNING.bag_cells
                if work > _TUNING.cells_a_look:
                    work = 0
                    if run.step(i + 1):
                        return False
        self._trace_back(states, centre)
        run.offer(self.labels)
        run.certify(run.score, EliminationCertificate(nodes, separators, tuple(self.tables)))
        run.step(len(nodes))
        return True

    def _bag(self, i: int, states: list[int], centre: list[float]) -> np.ndarray:
        """Sum of all that the ``i``-th bag holds, with the eliminated node's axis first; small terms first."""
        problem, v, separator = self.problem, self.order.nodes[i], self.order.separators[i]
        n, width = states[v], len(separator)
        ones = [1] * width
        values = self.unary[v, :n].reshape([n, *ones])
        for e, w, turned in self.edges[i]:
            shape = [n, *ones]
            shape[1 + separator.index(w)] = states[w]
            values = values + self._edge_table(e, turned, n, states[w], centre[e]).reshape(shape)
        for scope, message in self.inbox[i]:
            axis = scope.index(v)
            if axis:
                message = message.transpose([axis, *range(axis), *range(axis + 1, len(scope))])
            if len(scope) <= width:
                held = set(scope)
                message = message.reshape([n, *[states[w] if w in held else 1 for w in separator]])
            values = values + message
        if self.cliques and self.cliques[i]:
            values = np.array(np.broadcast_to(values, [n, *[states[w] for w in separator]]))
            for c in self.cliques[i]:
                members = set(problem.cliques.members(c).tolist())
                for k in range(min(states[w] for w in members)):
                    agree = tuple(k if w in members else slice(None) for w in separator)
                    values[(k, *agree)] += problem.cliques.weights[c, k]
        return values

    def _edge_table(self, e: int, turned: bool, n: int, n_other: int, centre: float) -> np.ndarray:
        problem = self.problem
        table = problem.tables[problem.edge_table[e]]
        table = table[:n_other, :n].T if turned else table[:n, :n_other]
        return (table - centre) * problem.edge_weight[e]

    def _trace_back(self, states: list[int], centre: list[float]) -> None:
        """Labels from the last eliminated node to the first.

        At each node the bag is summed again, in the same order, for the labels of its separator.
        """
        problem, labels = self.problem, [0] * self.problem.n_nodes
        for i in range(len(states) - 1, -1, -1):
            v = self.order.nodes[i]
            n = states[v]
            values = self.unary[v, :n]
            for e, w, turned in self.edges[i]:
                values = values + self._edge_table(e, turned, n, states[w], centre[e])[:, labels[w]]
            for scope, message in self.inbox[i]:
                values = values + message[tuple(slice(None) if w == v else labels[w] for w in scope)]
            if self.cliques and self.cliques[i]:
                values = values.copy()
                for c in self.cliques[i]:
                    common = {labels[w] for w in problem.cliques.members(c).tolist() if w != v}
                    if not common:
                        values += problem.cliques.weights[c, :n]
                    elif len(common) == 1 and (k := common.pop()) < n:
                        values[k] += problem.cliques.weights[c, k]
            labels[v] = int(values.argmax())
        self.labels[:] = labels
