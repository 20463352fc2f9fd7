"""TightenedTRWS: message passing with cycles of edges as clusters, whose bound is below that of the local polytope."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.cycles import CycleCertificate
from ...core.certificates.dual import arc_consistent, slack
from ...core.certificates.scale import tolerance
from ...core.parameters import Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels import cycle_search, cycles
from ...kernels.distance import GENERAL
from ...kernels.records import Forms, Net
from ...kernels.trws import decode, sweep
from ..base import Factored, Run, Solver, Support, without_cliques
from ..moves.icm import polish
from ..prepare import Prepared, net_score, start
from .table_forms import table_forms
from .trws import ascend, is_uniform, uniform_passes

_Cycles = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Where each cycle begins, its edges in turn, and whether they are gone through backwards."""


@dataclass(frozen=True)
class Tuning:
    """How many cycles are taken, and when more of them are looked for; tried on grids, tori and complete graphs."""

    most_entries: int = 2**25  # numbers that cycles may hold, 256 MB; beyond it those of the least decided nodes are taken
    most_cycles: int = 10**6  # short cycles that are listed
    most_work: float = 2e9  # max-plus operations of a round over all cycles, 2 s
    passes: int = (
        2  # over nodes and edges after a round over the cycles; with 1, and with 4, the same bounds took a fifth longer
    )
    decode_every: int = 8  # rounds between two labellings
    first_rounds: int = 16  # before it is asked whether rounds gain
    window: int = 16  # rounds over which a gain is measured
    longest: int = 60  # edges of a frustrated cycle
    # Share of the mean size of the signs from which on a sign counts: smaller ones are noise of rounds that have not ended
    least_sign: float = 1e-3
    least_gain: float = 1e-6  # of the gap: what a new cycle must gain by itself
    decided_share: float = 1e-2  # of the mean loss of a term: those that lose less are decided
    near_steps: int = 4  # edges from undecided terms to the cycles that are taken first
    near_share: float = 0.5  # of the nodes at most; with more of them all cycles are taken at once
    share: float = 0.2  # new cycles at a time, as a share of the nodes


_TUNING = Tuning()


@dataclass(frozen=True)
class TightenedTRWS(Solver):
    r"""`TRWS`, then cycles of edges as clusters.

    Every cycle takes a part of the tables of its edges (`core.certificates.cycles.CycleCertificate`): the bound is

    .. math:: \sum_v \max \theta_v + \sum_e \max \theta_e + \sum_c \max_y \sum_{e=uv \in c} h_{c,e}(y_u, y_v),

    with :math:`\theta` what messages and cycles leave. A round visits all cycles: each takes what its edges have and gives each of them its max-marginal, the
    :math:`i`-th of :math:`n` a share of :math:`1 / (n - i + 1)` of what is left, which never raises the bound; passes of `TRWS` follow. Triangles and squares
    come first; when rounds gain little, frustrated cycles of any length are added (Sontag, Choe & Li 2012). On many grids and sparse graphs the bound is tight
    then.

    Parameters
    ----------
    max_iter : int
        Largest number of rounds after the passes of `TRWS`.
    tol : float
        Relative gap at which to stop; with 0, when the labelling is optimal.
    stall : float
        When 16 rounds gain less than ``stall`` times the gap that is left, more cycles are looked for; without any, stop as `stalled`.
    time_limit : float, optional
        Seconds.
    """

    max_iter: int = 2000
    tol: float = 0.0
    stall: float = 5e-3
    time_limit: float | None = None

    takes_factors = Factored.lifted
    does = "nodes and edges: a tighter bound than TRWS, by cycles as clusters; optimal on many grids and sparse graphs"
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
        Tightening(problem, prepared, messages, run).ascend(self.max_iter, self.stall)


class Tightening:
    """The tables, messages and cycles of one run."""

    def __init__(self, problem: Problem, prepared: Prepared, messages: Messages, run: Run):
        self.problem, self.prepared, self.run = problem, prepared, run
        self.messages = Messages(messages.edge.copy(), messages.clique.copy())
        k = problem.n_labels
        self.cycles: _Cycles = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int8)
        self.held = np.zeros((0, k, k))
        self.place = np.full(problem.n_edges, -1, dtype=np.int32)
        self.own, self.net = np.zeros((0, k, k)), prepared.net
        self.known: set[tuple[int, ...]] = set()
        self.labels = np.zeros(problem.n_nodes, dtype=np.int32)
        self.forms = table_forms(prepared.net.tables) if is_uniform(problem) else None

    @property
    def certificate(self) -> CycleCertificate:
        """What the arrays prove; they are the live ones, since no round or pass raises the bound."""
        return CycleCertificate(self.messages, *self.cycles, self.held)

    @property
    def least_gap(self) -> float:
        """Gap of the present labelling that counts as none."""
        problem, labels = self.problem, self.run.labels
        if labels is None:
            return 0.0
        resolution = problem.resolution
        return problem.step - 2 * resolution if problem.step else 0.5 * min(resolution, tolerance(problem, labels))

    # ---- cycles ---------------------------------------------------------------------------------------------------------

    def add(self, new: _Cycles, chosen: np.ndarray) -> int:
        """Take some of the cycles, by their numbers, that are not there yet; how many these were."""
        ptr, edge, turned = new
        k, room = self.problem.n_labels, _TUNING.most_entries - self.held.size
        picked: list[int] = []
        for c in chosen.tolist():
            key = tuple(sorted(edge[ptr[c] : ptr[c + 1]].tolist()))
            size = len(key) * k * k
            if key in self.known or size > room:
                continue
            self.known.add(key)
            picked.append(c)
            room -= size
        if not picked:
            return 0
        where = np.concatenate([np.arange(ptr[c], ptr[c + 1]) for c in picked])
        length = np.diff(ptr)[picked]
        old_ptr, old_edge, old_turned = self.cycles
        self.cycles = (
            np.concatenate([old_ptr, old_ptr[-1] + np.cumsum(length)]),
            np.concatenate([old_edge, edge[where]]),
            np.concatenate([old_turned, turned[where]]),
        )
        self.held = np.concatenate([self.held, np.zeros((len(where), k, k))])
        self._make_tables()
        return len(picked)

    def _make_tables(self) -> None:
        """Tables of their own for all edges of cycles: what cycles leave of the given ones, summed up anew."""
        given, (_, edge, _) = self.prepared.net, self.cycles
        used = np.unique(edge)
        self.place[used] = np.arange(len(used))
        own = given.tables[given.edge_table[used]] * given.edge_weight[used, None, None]
        np.subtract.at(own, self.place[edge], self.held)
        tables = np.concatenate([given.tables, own])
        self.own = tables[len(given.tables) :]
        edge_table, weight = given.edge_table.copy(), given.edge_weight.copy()
        edge_table[used], weight[used] = len(given.tables) + np.arange(len(used)), 1.0
        # no turned copies: they would not follow the tables
        self.net = given._replace(tables=tables, edge_table=edge_table, edge_weight=weight, turned=np.zeros((0, 0, 0)))
        if self.forms is None:
            self.one_pass = lambda messages, forward: sweep(self.net, forward, messages.edge, messages.clique)
        else:
            n = len(used)
            forms = Forms(
                np.concatenate([self.forms.kind, np.full(n, GENERAL, dtype=np.int8)]),
                np.concatenate([self.forms.width, np.ones(n, dtype=np.int64)]),
                np.concatenate([self.forms.slope, np.zeros(n)]),
            )
            self.one_pass = uniform_passes(self.net, forms)

    def short(self, near: np.ndarray | None = None) -> int:
        """Add triangles and squares (of the nodes ``near``); where they are too many, those whose nodes are the least decided under the messages."""
        net, k = self.net, self.problem.n_labels
        wanted = np.ones(self.problem.n_nodes, dtype=np.uint8) if near is None else near.astype(np.uint8)
        new = cycle_search.short_cycles(net, wanted, _TUNING.most_cycles)
        length = np.diff(new[0])
        if not len(length):
            return 0
        cost = np.cumsum(length * k * k)
        if cost[-1] <= _TUNING.most_entries and 3.0 * k * cost[-1] <= _TUNING.most_work:
            return self.add(new, np.arange(len(length)))
        return self.add(new, self._least_decided(new))

    def _least_decided(self, new: _Cycles) -> np.ndarray:
        """Cycles by what their nodes lose with their second-best labels, from the least on, as many as there is room for."""
        ptr, edge, _ = new
        net, k = self.net, self.problem.n_labels
        theta = net.unary.copy()
        np.subtract.at(theta, net.edges[:, 0], self.messages.edge[0])
        np.subtract.at(theta, net.edges[:, 1], self.messages.edge[1])
        best = np.partition(theta, -2, axis=1)[:, -2:] if k > 1 else np.zeros((len(theta), 2))
        loss = np.minimum(best[:, 1] - best[:, 0], 1e300)
        by_edge = loss[net.edges].sum(axis=1)[edge]
        order = np.argsort(np.add.reduceat(by_edge, ptr[:-1]), kind="stable")
        cost = np.cumsum(np.diff(ptr)[order] * k * k)
        most = min(_TUNING.most_entries, _TUNING.most_work / (3.0 * k))
        return order[: int(np.searchsorted(cost, most, side="right"))]

    def frustrated(self, gap: float) -> int:
        """Add cycles whose edges contradict each other, those first that gain most by themselves."""
        net, edges = self.net, self.messages.edge
        labels = self.labels if self.run.labels is None else np.array(self.run.labels, dtype=np.int32)
        signs = np.abs(cycle_search.edge_signs(net, edges, labels))
        finite = signs[np.isfinite(signs)]
        least = _TUNING.least_sign * float(finite.mean()) if len(finite) else 0.0
        new = cycle_search.frustrated_cycles(net, edges, labels, least, _TUNING.longest)
        if len(new[0]) < 2:
            return 0
        gains = cycles.gains(net, edges, *new)
        order = np.argsort(-gains, kind="stable")
        order = order[gains[order] > _TUNING.least_gain * gap]
        return self.add(new, order[: max(16, int(_TUNING.share * self.problem.n_nodes))])

    # ---- rounds ---------------------------------------------------------------------------------------------------------

    def undecided(self) -> np.ndarray | None:
        """The nodes about the terms that a labelling does not reach; None where these are many."""
        problem, labels, edges = self.problem, self.run.labels, self.problem.graph.edges
        assert labels is not None
        terms = slack(problem, self.messages, labels, arc_consistent(problem))
        least = _TUNING.decided_share * max(terms.gap, 0.0) / max(1, len(terms.node) + len(terms.edge))
        near = terms.node > least
        near[edges[terms.edge > least]] = True
        for _ in range(_TUNING.near_steps):
            near[edges[near[edges].any(axis=1)]] = True
        return near if near.mean() <= _TUNING.near_share else None

    def ascend(self, max_iter: int, stall: float, near: np.ndarray | None = None) -> bool:
        """Rounds until the gap is closed (True), nothing gains any more, or a limit is met; with the short cycles of the nodes ``near`` alone."""
        run = self.run
        if not self.short(near) and (near is not None or not self.frustrated(run.bound - run.score)):
            return False
        run.termination = Termination.iteration_limit
        bounds: list[float] = []
        first, since = run.n_iter, 0
        for iteration in range(1, max_iter + 1):
            bound = self.round(iteration % 2 == 0)
            bounds.append(bound)
            run.certify(self.prepared.constant + bound, self.certificate)
            if iteration % _TUNING.decode_every == 1 or iteration == max_iter:
                self.read_off()
            if run.step(first + iteration):
                return run.closed
            gap = bound - net_score(self.prepared.net, run.labels)
            if gap <= self.least_gap:
                run.termination = Termination.converged
                return True
            since += 1
            if since > _TUNING.first_rounds and bounds[-1 - _TUNING.window] - bound <= stall * gap:
                self._make_tables()
                self.read_off()
                if near is not None or not self.frustrated(gap):
                    run.termination = Termination.stalled
                    return False
                since = 0
        return False

    def round(self, forward: bool) -> float:
        """All cycles, then passes over nodes and edges; returns the bound, in the scores of the net."""
        cycles.round(self.net, self.messages.edge, *self.cycles, self.held, self.own, self.place, forward)
        bound = 0.0
        for i in range(_TUNING.passes):
            bound = self.one_pass(self.messages, i % 2 == 0)
        return bound + cycles.tops(self.net, *self.cycles, self.held)

    def read_off(self) -> None:
        """Labellings by conditioning, forwards and backwards."""
        net: Net = self.net
        for forward in (True, False):
            decode(net, forward, self.messages.edge, self.messages.clique, self.labels)
            self.run.offer(polish(self.prepared.net, self.labels, 10))
