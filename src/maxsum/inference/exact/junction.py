"""JunctionTree: exact maximisation on graphs of small width, node by node (bucket elimination)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.certificates.base import EliminationCertificate, MessageCertificate
from ...core.certificates.elimination_order import FlatTables
from ...core.errors import InfeasibleError
from ...core.factors.lifting import lift, lifted_size, unliftable
from ...core.memory import available
from ...core.parameters import Maybe, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Result, Termination
from ...kernels import elimination
from ..base import Callback, Factored, Run, Solver, Support, solve_lifted
from ..moves.icm import polish, start_labels
from ..prepare import measure, prepare
from .elimination import FlatOrder, along, least_fill, term_arrays

MAX_AXES = 60 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 30
"""Largest number of nodes in a bag: the proof is checked by numpy, whose arrays have at most 64 axes (32 before numpy 2)."""


@dataclass(frozen=True)
class Tuning:
    """When `JunctionTree` looks at clocks and widths."""

    # Nodes up to which a refused graph's width is computed to be told: a min-fill order takes milliseconds there.
    named_nodes: int = 300
    named_edges: int = 1000  # the same in edges
    # Rounds of peeling low degrees off for a lower bound on the width; graphs that need more are left to the min-fill order.
    peels: int = 100
    work_a_look: int = 1 << 26  # cells and terms added to them between two looks at the clock, some 20 milliseconds
    bag_cells: int = 1 << 10  # what a bag costs beside its cells, in cells: some 0.3 microseconds
    # Time to evaluate the proof, in times of the elimination: measured on bags of 1e3 to 1e7 cells, 0.9 to 1.6.
    evaluate_share: float = 1.5
    # Measured for a cell and each term added to it, 0.2 to 1 nanosecond; bags that need more than is left are not begun.
    cell_seconds: float = 1e-9
    # The same where the terms of each bag are not known, but only how many there are on average: large bags have more of them.
    average_seconds: float = 2e-9
    # The form with nodes and edges alone is taken if it has less than so many times the cells: its proof is checked twice.
    lifted_share: float = 0.5
    # Cells of tables up to which nobody asks for that form: eliminating them takes less time than writing it.
    table_cells: int = 1 << 24
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
            try:
                return self.supports(lift(problem).problem)
            except InfeasibleError:  # which `solve` says
                return Support(True)
        which = f"{_human(room)}, half of the memory that is left" if self.max_cells is None else "max_cells"
        limits = f"at most {_count(most)} table cells ({which}) and width {MAX_AXES - 1} are taken"
        small = problem.n_nodes <= _TUNING.named_nodes and problem.n_edges <= _TUNING.named_edges
        if not small and (least := _too_wide(problem, most)):
            return Support(False, f"needs low width; the graph has at least width {least}, {limits}", least)
        order = _order(problem, most)
        if order is not None and elimination_bytes(problem, order) <= room:
            return Support(True)
        order = least_fill(problem, problem.n_nodes) if order is None and small else order
        if order is None:
            return Support(False, f"needs low width; the min-fill order goes beyond that: {limits}")
        found = f"width {order.width} and {_count(order.cells)} table cells"
        return Support(False, f"needs low width; the best order found has {found}, {limits}", order)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        order = _order(problem, _most_cells(problem, np.inf) if self.max_cells is None else self.max_cells)
        assert order is not None
        done = False
        try:
            done = Elimination(problem, order).solve(run)
        finally:
            if not done:
                zero = problem.zero_messages() if init is None else init
                run.certify(measure(problem, zero), MessageCertificate(zero))
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


def has_small_width(problem: Problem, max_cells: float, lifted_cells: float | None = None) -> bool:
    """Whether an order has at most ``max_cells`` whose tables fit in a quarter of the memory that is left, or (``lifted_cells``) the form with
    nodes and edges alone has such an order."""
    order = narrow_order(problem, max_cells)
    if order is not None and elimination_bytes(problem, order) <= _room(_TUNING.quiet_share):
        return True
    return bool(len(problem.factors)) and _is_narrower_lifted(problem, max_cells if lifted_cells is None else lifted_cells)


def is_surely_wide(problem: Problem, max_cells: float) -> bool:
    """Whether every order has a bag of more cells than these, by a quick look (a grid, or a dense core)."""
    return bool(_too_wide(problem, max_cells))


def _is_narrower_lifted(problem: Problem, max_cells: float) -> bool:
    """Whether the form with nodes and edges alone can be eliminated within the limits, with far fewer cells than the problem as it is: a count
    over n nodes has a bag of all of them in the one, and partial counts in the other."""
    own = _order(problem, max_cells)
    tables = problem.factors.are_tables
    # an extra node has as many labels as its factor has tuples: where all are possible, its bags are not smaller
    if own is not None and tables and (own.cells <= _TUNING.table_cells or not problem.factors.is_hard):
        return False
    if unliftable(problem) or lifted_size(problem) > max_cells:
        return False
    try:
        order = _order(lift(problem).problem, max_cells)
    except InfeasibleError:  # arc consistency alone proves it
        return True
    return order is not None and (own is None or order.cells < _TUNING.lifted_share * own.cells)


def keep_order(known: Problem, problem: Problem) -> None:
    """Take over the elimination orders of a problem that has the same graph, factors and numbers of labels, and other scores."""
    problem.__dict__["_elimination"] = known.__dict__.setdefault("_elimination", {"order": None, "refused": 0.0})
    lifted = known.__dict__.get("_lifted")
    if lifted is not None:
        own = problem.__dict__["_lifted"] = lifted.with_scores(problem)
        keep_order(lifted.problem, own.problem)


def narrow_order(problem: Problem, max_cells: float) -> FlatOrder | None:
    """An order with at most so many table entries of all bags together; None if none is found. Kept with the problem."""
    return None if _too_wide(problem, max_cells) else _order(problem, max_cells)


def affordable_order(problem: Problem, seconds: float) -> FlatOrder | None:
    """An order whose tables fit in a quarter of the memory that is left, and whose elimination and proof take at most ``seconds``."""
    room = _room(_TUNING.quiet_share)
    most = min(_most_cells(problem, room), seconds / _TUNING.average_seconds)
    order = None if _too_wide(problem, most) else _order(problem, most)
    if order is None or elimination_bytes(problem, order) > room or elimination_seconds(problem, order) > seconds:
        return None
    return order


def elimination_bytes(problem: Problem, order: FlatOrder) -> float:
    """Memory that eliminating along an order takes: all separator tables, and copies of the largest bag."""
    bags = problem.n_states[order.arrays.nodes] * order.table_cells
    return 8 * float(order.table_cells.sum() + _TUNING.bag_copies * bags.max(initial=0.0))


def elimination_seconds(problem: Problem, order: FlatOrder) -> float:
    """Time that eliminating along an order takes, with its proof: a few operations a cell, and some more a bag."""
    terms = 3 + (problem.n_edges + len(problem.factors)) / max(problem.n_nodes, 1)
    cells = order.cells + _TUNING.bag_cells * problem.n_nodes
    return (1 + _TUNING.evaluate_share) * terms * cells * _TUNING.average_seconds


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
    image = problem.graph.image_shape
    if image is not None and min(image) >= least:
        return min(image)
    edges = problem.graph.edges
    for _ in range(_TUNING.peels):
        degree = np.bincount(edges.ravel(), minlength=problem.n_nodes)
        kept = degree >= least
        if kept[edges].all():
            return least if len(edges) else 0
        edges = edges[kept[edges].all(axis=1)]
    return 0


def _order(problem: Problem, max_cells: float) -> FlatOrder | None:
    """The better of two orders within the limits, None if there is none.

    Kept with the problem, as finding it takes a while: the order, or the number of cells that were not enough.
    """
    memo = problem.__dict__.setdefault("_elimination", {"order": None, "refused": 0.0})
    if memo["order"] is None and max_cells > memo["refused"]:
        memo["order"] = _find_order(problem, max_cells)
        memo["refused"] = max_cells
    order: FlatOrder | None = memo["order"]
    return order if order is not None and order.cells <= max_cells else None


def _find_order(problem: Problem, max_cells: float) -> FlatOrder | None:
    """Min-fill, or the banded order where that has fewer cells."""
    narrow = least_fill(problem, MAX_AXES - 1, max_cells)
    scopes = (problem.cliques.ptr, problem.factors.ptr)
    widest = max(1, *(int(np.diff(ptr).max(initial=0)) - 1 for ptr in scopes))  # no order is narrower than a term
    if narrow is not None and (narrow.cells <= _TUNING.many_cells or narrow.width <= widest):
        return narrow
    most = max_cells if narrow is None else narrow.cells
    return along(problem, _band(problem), MAX_AXES - 1, most) or narrow


def _band(problem: Problem) -> np.ndarray:
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
    found: np.ndarray = reverse_cuthill_mckee(pattern, symmetric_mode=True)
    return found


class Elimination:
    """One run of the kernels: all separator tables in one array, bag after bag."""

    def __init__(self, problem: Problem, order: FlatOrder):
        self.problem, self.order = problem, order
        self.terms, self.record = term_arrays(problem), order.record
        self.holdings = elimination.holdings(self.terms, self.record)
        self.messages = np.empty(int(self.record.table_ptr[-1]))
        held = 2 + np.diff(self.holdings[0]) + np.diff(self.holdings[2])
        cells = problem.n_states[self.record.nodes] * order.table_cells
        self.work = np.concatenate([[0.0], np.cumsum(cells * held + _TUNING.bag_cells)])

    def solve(self, run: Run) -> bool:
        """Eliminate, trace back, offer and certify. False if the run was stopped first."""
        n, begun, first = len(self.order.nodes), run.clock.seconds, 0
        arguments = (self.terms, self.record, *self.holdings, self.messages)
        while first < n:
            # what the elimination took so far, its proof takes again to evaluate, and a few operations more for the rounding
            run.reserve = max(run.reserve, _TUNING.evaluate_share * (run.clock.seconds - begun))
            last = int(np.searchsorted(self.work, self.work[first] + _TUNING.work_a_look, side="right")) - 1
            last = max(last, first + 1)
            if (self.work[last] - self.work[first]) * _TUNING.cell_seconds > run.seconds_left:
                run.termination = Termination.time_limit
                return False
            impossible = elimination.eliminate(*arguments, first, last)
            if impossible >= 0:
                self.messages[self.record.table_ptr[impossible] :] = 0.0
                run.certify(-np.inf, self.certificate())
                return True
            first = last
            if first < n and run.step(first):
                return False
        labels = np.zeros(n, dtype=np.int32)
        elimination.trace_back(*arguments, labels)
        run.offer(labels)
        run.certify(run.score, self.certificate())
        run.step(n)
        return True

    def best(self) -> np.ndarray | None:
        """A best labelling, without looking at the clock; None if there is none."""
        arguments, n = (self.terms, self.record, *self.holdings, self.messages), len(self.order.nodes)
        if elimination.eliminate(*arguments, 0, n) >= 0:
            return None
        labels = np.zeros(n, dtype=np.int32)
        elimination.trace_back(*arguments, labels)
        return labels

    def certificate(self) -> EliminationCertificate:
        """The separator tables as a proof."""
        self.messages.flags.writeable = False
        tables = FlatTables(self.messages, self.record.table_ptr, self.order.arrays, self.problem.n_states)
        return EliminationCertificate(self.order.nodes, self.order.arrays, tables)
