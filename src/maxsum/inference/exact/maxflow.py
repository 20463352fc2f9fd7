"""MaxFlow: supermodular problems, solved to optimality by a minimum cut."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...core.structure import supermodularity_witness
from ...kernels import maxflow, maxflow_build
from ...kernels.records import Flow, Net, new_flow
from ..base import Run, Solver, Support
from ..prepare import measure, prepare

_MAX_ARCS = 2**31 - 1  # arcs that int32 can number
# Table entries that are looked at for the quick yes to supermodularity, in milliseconds; larger ones take the long way.
_QUICK = 1 << 20
_VISITS = 1 << 18  # nodes that a flow visits between two looks at the clock, some hundredths of a second


@dataclass(frozen=True)
class MaxFlow(Solver):
    """Exact maximisation of supermodular problems: a minimum cut, and the maximum flow as the messages that prove it.

    Takes two labels, or ``K`` ordered labels with nodes of different label counts, hard constraints, and, where no node
    has more than two labels, associative cliques of any size. The network has a variable per node and label but one, and
    an arc per edge and pair of labels at which its table bends; capacities are float64. Among the optimal labellings
    it returns the one with the lowest labels.

    Between two steps the time limit, the callback and ``Ctrl-C`` are looked at. A run that is stopped early returns the
    bound of the flow so far and the labelling of the tree so far. A warm start is not used, except that a result's
    labelling and certificate are kept until better ones come.

    Parameters
    ----------
    time_limit : float, optional
        Seconds.
    """

    time_limit: float | None = None

    does = "supermodular tables (two or more ordered labels; cliques with two): optimal by minimum cut"

    def supports(self, problem: Problem) -> Support:
        if len(problem.cliques) and problem.n_labels > 2:
            v = int(np.argmax(problem.n_states > 2))
            return Support(False, f"takes cliques only with two labels; node {v} has {problem.n_states[v]}", v)
        if not _plainly_supermodular(problem):
            witness = supermodularity_witness(problem)
            if witness is not None:
                return Support(False, f"needs supermodular tables; {witness}", witness)
        arcs = _arcs_at_most(problem)
        if arcs > _MAX_ARCS:
            return Support(False, f"can number {_MAX_ARCS} arcs; the layered network may have {arcs}", arcs)
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        prepared = prepare(problem)
        if not prepared.feasible:
            run.certify(-np.inf, MessageCertificate(problem.zero_messages()))
            return
        two = problem.n_labels == 2 and not problem.has_hard_constraints and not len(problem.cliques)
        network = _Binary(prepared.net) if two and (problem.n_states == 2).all() else _Layers(prepared.net)
        steps = itertools.count(1)
        done = False
        try:
            done = _push(network.flow, lambda: run.step(next(steps)))
        finally:
            messages, labels = network.read(problem)
            others = [] if done else [network.lowest()]
            del network  # its arrays are as large as the messages
            for found in (labels, *others):
                run.offer(found)
            run.certify(run.score if done else measure(problem, messages), MessageCertificate(messages))
        if done:
            run.step(next(steps))
            run.termination = Termination.converged


def cut(problem: Problem, stop: Callable[[], bool]) -> tuple[bool, Messages, np.ndarray]:
    """A minimum cut of a supermodular problem with two labels and finite scores: whether it was not stopped, messages and labelling of the flow."""
    network = _Binary(prepare(problem).net)
    done = _push(network.flow, stop)
    return done, *network.read(problem)


def _push(flow: Flow, stop: Callable[[], bool]) -> bool:
    """Make the flow maximal, asking ``stop`` now and then; False if it was stopped."""
    for backward in (False, True, False, True):
        maxflow.sweep(flow, backward)
    maxflow.start(flow)
    while not maxflow.advance(flow, _VISITS):
        if stop():
            return False
    return True


class _Network(ABC):
    """A flow network made from a problem, and the way back."""

    flow: Flow

    def __init__(self, net: Net):
        self.net = net

    def read(self, problem: Problem) -> tuple[Messages, np.ndarray]:
        """Messages of the flow so far, and the labelling of the source tree."""
        messages, labels = problem.zero_messages(), np.zeros(problem.n_nodes, dtype=np.int32)
        self._read(messages, labels)
        return messages, labels

    @abstractmethod
    def _read(self, messages: Messages, labels: np.ndarray) -> None:
        """Fill in messages and labels."""

    def lowest(self) -> np.ndarray:
        """The lowest alive label of each node: never forbidden in an arc consistent supermodular problem."""
        alive = self.net.unary > -np.inf
        return alive.argmax(axis=1) if alive.size else np.zeros(len(alive), dtype=np.int64)


class _Binary(_Network):
    """Every node has two labels and is one variable; the arcs are the adjacency of the problem."""

    def __init__(self, net: Net):
        super().__init__(net)
        self.flow = new_flow(net.ptr, len(net.unary), len(net.adj_edge))
        maxflow_build.fill_binary(net, self.flow, np.empty(len(net.edges), dtype=np.int32))

    def _read(self, messages: Messages, labels: np.ndarray) -> None:
        maxflow_build.read_binary(self.net, self.flow, messages.edge, labels)


class _Layers(_Network):
    """A variable for each node and alive label but the lowest, and two for each clique."""

    def __init__(self, net: Net):
        super().__init__(net)
        n_nodes = len(net.unary)
        self.alive = np.zeros(net.unary.shape, dtype=np.int32)
        self.count = np.zeros(n_nodes, dtype=np.int32)
        self.base = np.zeros(n_nodes + 1, dtype=np.int64)
        n_variables = maxflow_build.alive_labels(net, self.alive, self.count, self.base) + 2 * (len(net.clique_ptr) - 1)
        nodes = (net, self.alive, self.count, self.base)
        none, no_cap = np.zeros(0, dtype=np.int32), np.zeros(0)
        n_arcs = maxflow_build.list_arcs(*nodes, False, none, none, no_cap, no_cap)
        ptr = np.zeros(n_variables + 1, dtype=np.int64)
        self.flow = new_flow(ptr, n_variables, 2 * n_arcs)
        tail, head, self.back = (np.empty(n_arcs, dtype=np.int32) for _ in range(3))
        cap = np.empty(n_arcs)
        maxflow_build.list_arcs(*nodes, True, tail, head, cap, self.flow.excess)
        maxflow_build.link_arcs(tail, head, cap, ptr, self.flow, self.back)

    def _read(self, messages: Messages, labels: np.ndarray) -> None:
        nodes = (self.net, self.alive, self.count, self.base)
        maxflow_build.read_layers(*nodes, self.flow, self.back, messages.edge, messages.clique, labels)


def _plainly_supermodular(problem: Problem) -> bool:
    """A quick test that settles the usual case: a few finite tables, weights of one sign."""
    if not problem.n_edges or problem.n_labels < 2:
        return True
    table, weight = problem.tables, problem.edge_weight
    if table.size > _QUICK or not np.isfinite(table).all() or weight.min() < 0:
        return False
    return bool((table[:, :-1, :-1] + table[:, 1:, 1:] >= table[:, :-1, 1:] + table[:, 1:, :-1]).all())


def _arcs_at_most(problem: Problem) -> int:
    """Number of arcs of the layered network, from above; counted with care (where do the tables bend?) only if there are many."""
    step = max(problem.n_labels - 1, 0)
    rough = 2 * (problem.n_nodes * step + problem.n_edges * (step * step + 2 * step) + 2 * problem.cliques.n_members)
    if rough <= _MAX_ARCS:
        return rough
    steps = problem.n_states.astype(np.int64) - 1
    ends = problem.graph.edges
    fixed = int(steps.sum()) + 2 * problem.cliques.n_members
    if problem.has_hard_constraints:
        fixed += int(steps[ends].sum())
    bends = int((steps[ends[:, 0]] * steps[ends[:, 1]]).sum())
    table = problem.tables
    flat = table[:, :-1, :-1] + table[:, 1:, 1:] == table[:, :-1, 1:] + table[:, 1:, :-1]
    return 2 * (fixed + min(bends, int((~flat).sum(axis=(1, 2))[problem.edge_table].sum())))
