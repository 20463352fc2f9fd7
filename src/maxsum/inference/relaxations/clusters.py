"""Clusters: cycles of edges that take parts of the tables of a network, and messages for what they leave; see `CycleCertificate`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.cycles import CycleCertificate
from ...core.problem import Messages
from ...kernels import cycle_search, cycles
from ...kernels.distance import GENERAL
from ...kernels.records import Forms, Net
from ...kernels.trws import sweep
from .trws import uniform_passes

CycleList = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Where each cycle begins, its edges in turn, and whether they are gone through backwards."""


@dataclass(frozen=True)
class Tuning:
    """How many cycles are taken; tried on grids, tori and complete graphs."""

    most_entries: int = 2**25  # numbers that cycles may hold, 256 MB; beyond it those of the least decided nodes are taken
    most_cycles: int = 10**6  # short cycles that are listed
    most_work: float = 2e9  # max-plus operations of a round over all cycles, 2 s
    passes: int = (
        2  # over nodes and edges after a round over the cycles; with 1, and with 4, the same bounds took a fifth longer
    )
    longest: int = 60  # edges of a frustrated cycle
    # Share of the mean size of the signs from which on a sign counts: smaller ones are noise of rounds that have not ended
    least_sign: float = 1e-3
    least_gain: float = 1e-6  # of the gap: what a new cycle must gain by itself
    share: float = 0.2  # new cycles at a time, as a share of the nodes


_TUNING = Tuning()


class Clusters:
    """The tables, messages and cycles of one network. No round and no pass raises the bound.

    Parameters
    ----------
    net : Net
    messages : Messages
        Improved in place.
    forms : Forms, optional
        Those of the tables of a uniform network.
    most_entries : int, optional
        Numbers that cycles may hold.
    """

    def __init__(self, net: Net, messages: Messages, forms: Forms | None, most_entries: int | None = None):
        self.given, self.net, self.messages, self.forms = net, net, messages, forms
        self.most_entries = _TUNING.most_entries if most_entries is None else most_entries
        n_nodes, k = net.unary.shape
        self.cycles: CycleList = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int8)
        self.held = np.zeros((0, k, k))
        self.place = np.full(len(net.edges), -1, dtype=np.int32)
        self.own = np.zeros((0, k, k))
        self.used, self.by_edge = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.known: set[tuple[int, ...]] = set()
        self.labels = np.zeros(n_nodes, dtype=np.int32)

    @property
    def certificate(self) -> CycleCertificate:
        """What the arrays prove; they are the live ones, since no round or pass raises the bound."""
        return CycleCertificate(self.messages, *self.cycles, self.held)

    # ---- cycles ---------------------------------------------------------------------------------------------------------

    def add(self, new: CycleList, chosen: np.ndarray) -> int:
        """Take some of the cycles, by their numbers, that are not there yet; how many these were."""
        ptr, edge, turned = new
        k, room = self.held.shape[1], self.most_entries - self.held.size
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
        self.used = np.unique(self.cycles[1])
        self.place[self.used] = np.arange(len(self.used))
        self.by_edge = np.argsort(self.cycles[1], kind="stable")
        self.make_tables()
        return len(picked)

    def make_tables(self) -> None:
        """Tables of their own for all edges of cycles: what cycles leave of the given ones, summed up anew."""
        given, used = self.given, self.used
        own = given.tables[given.edge_table[used]] * given.edge_weight[used, None, None]
        if len(used):
            first = np.searchsorted(self.cycles[1][self.by_edge], used)
            own -= np.add.reduceat(self.held[self.by_edge], first, axis=0)
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
        net, (n_nodes, k) = self.net, self.net.unary.shape
        wanted = np.ones(n_nodes, dtype=np.uint8) if near is None else near.astype(np.uint8)
        new = cycle_search.short_cycles(net, wanted, _TUNING.most_cycles)
        length = np.diff(new[0])
        if not len(length):
            return 0
        cost = np.cumsum(length * k * k)
        if cost[-1] <= self.most_entries and 3.0 * k * cost[-1] <= _TUNING.most_work:
            return self.add(new, np.arange(len(length)))
        return self.add(new, self._least_decided(new))

    def _least_decided(self, new: CycleList) -> np.ndarray:
        """Cycles by what their nodes lose with their second-best labels, from the least on, as many as there is room for."""
        ptr, edge, _ = new
        net, k = self.net, self.held.shape[1]
        theta = net.unary.copy()
        np.subtract.at(theta, net.edges[:, 0], self.messages.edge[0])
        np.subtract.at(theta, net.edges[:, 1], self.messages.edge[1])
        best = np.partition(theta, -2, axis=1)[:, -2:] if k > 1 else np.zeros((len(theta), 2))
        loss = np.minimum(best[:, 1] - best[:, 0], 1e300)
        by_edge = loss[net.edges].sum(axis=1)[edge]
        order = np.argsort(np.add.reduceat(by_edge, ptr[:-1]), kind="stable")
        cost = np.cumsum(np.diff(ptr)[order] * k * k)
        most = min(self.most_entries, _TUNING.most_work / (3.0 * k))
        return order[: int(np.searchsorted(cost, most, side="right"))]

    def frustrated(self, gap: float, labels: np.ndarray) -> int:
        """Add cycles whose edges contradict each other at a labelling, those first that gain most by themselves."""
        net, edges = self.net, self.messages.edge
        signs = np.abs(cycle_search.edge_signs(net, edges, labels))
        finite = signs[np.isfinite(signs)]
        least = _TUNING.least_sign * float(finite.mean()) if len(finite) else 0.0
        new = cycle_search.frustrated_cycles(net, edges, labels, least, _TUNING.longest)
        if len(new[0]) < 2:
            return 0
        gains = cycles.gains(net, edges, *new)
        order = np.argsort(-gains, kind="stable")
        order = order[gains[order] > _TUNING.least_gain * gap]
        return self.add(new, order[: max(16, int(_TUNING.share * len(labels)))])

    # ---- rounds ---------------------------------------------------------------------------------------------------------

    def round(self, forward: bool) -> float:
        """All cycles, then passes over nodes and edges; returns the bound, in the scores of the net."""
        cycles.round(self.net, self.messages.edge, *self.cycles, self.held, self.own, self.place, forward)
        bound = 0.0
        for i in range(_TUNING.passes):
            bound = self.one_pass(self.messages, i % 2 == 0)
        return bound + cycles.tops(self.net, *self.cycles, self.held)
