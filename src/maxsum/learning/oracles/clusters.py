"""ClusterOracle: brackets with cycles of edges as clusters, which are shared by examples on the same graph; messages and parts are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.certificates.cycles import CycleCertificate
from ...core.problem import Problem
from ...executors.threads import thread_map
from ...inference.dispatch import solve
from ...inference.moves.icm import polish
from ...inference.prepare import net_score
from ...inference.relaxations.clusters import Clusters, CycleList
from ...inference.relaxations.trws import is_uniform
from ...kernels.distance import GENERAL
from ...kernels.records import Design, Forms, Net
from ...kernels.trws import decode
from ...models.bound import BoundModel
from .base import Effort, Key
from .bracket import BracketOracle

_NO_CYCLES: CycleList = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int8)


@dataclass(frozen=True)
class Tuning:
    """How much of each way to a bracket a call of the oracle buys."""

    rounds: int = (
        3  # over the cycles, for planes: messages go on from the last call. 2 and 6 took 1.1 and 1.2 times as long on snakes
    )
    proof_rounds: int = 6  # the same where a gap is claimed
    long_rounds: int = 30  # for `Effort.LONG`
    most_rounds: int = 400  # until the bound stalls, for `Effort.FULL`
    window: int = 10  # rounds over which a gain is measured
    stall: float = 5e-3  # of the gap, a gain of a window below which more cycles are looked for
    closed: float = 1e-12  # of the size of scores, a gap that is none
    most_entries: int = 2**27  # numbers that cycles of all examples may hold, 1 GB
    polish_sweeps: int = 10  # of local search on a labelling that is read off


TUNING = Tuning()


@dataclass(eq=False)
class Shape:
    """A graph that examples share, with its cycles; ``n_taken`` of them are known to each example."""

    cycles: CycleList | None = None
    known: set[tuple[int, ...]] = field(default_factory=set)

    def extend(self, new: CycleList) -> None:
        """Take in cycles that are not there yet."""
        ptr, edge, turned = new
        for first, last in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True):
            key = tuple(sorted(edge[first:last].tolist()))
            if key not in self.known:
                self.known.add(key)
                self.cycles = _joined(self.cycles or _NO_CYCLES, edge[first:last], turned[first:last])


class ClusterOracle(BracketOracle):
    r"""`BracketOracle` whose bounds are those of `TightenedTRWS`: labellings from below, certificates with cycles from above.

    Triangles and squares come first; where rounds gain little, frustrated cycles of one example are taken for all examples on the same graph
    (Sontag, Choe & Li 2012). Answers are labellings, so that the dual of the learner is that of the exact hinge, and where the clusters are
    tight, so is the bracket.

    Parameters
    ----------
    model : BoundModel
    design : Design
    time_limit : float
        Seconds for the exact search of one example, the last resort.
    """

    def __init__(self, model: BoundModel, design: Design, time_limit: float = 10.0):
        super().__init__(model, design, time_limit=time_limit)
        self.shapes: dict[tuple[int, bytes], Shape] = {}
        self.shape_of: list[Shape] = []
        for graph in model.data.graphs:
            self.shape_of.append(self.shapes.setdefault((graph.n_nodes, np.asarray(graph.edges).tobytes()), Shape()))
        self.clusters: list[Clusters | None] = [None] * model.n_examples
        self.uniform = [is_uniform(problem) for problem in self.templates]

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        rewards, tables = self.model.clique_weights(w), self.model.example_tables(w, examples)
        asked = [(j, self._net(j, own, w, rewards)) for j, own in zip(examples.tolist(), tables, strict=True)]
        for j, net in asked:
            self._place(j, net)
        found = thread_map(lambda item: self._ascend(item[0], item[1], effort), asked, n_jobs)
        for j, _ in asked:  # in the order of the examples, so that the threads make no difference
            self.shape_of[j].extend(self._own(j).cycles)
        return [labels for labels, _ in found], np.array([gap for _, gap in found])

    def _place(self, j: int, net: Net) -> None:
        """The clusters of an example on its network now, with all cycles that its shape has."""
        own, shape = self.clusters[j], self.shape_of[j]
        forms = _general(len(net.tables)) if self.uniform[j] else None
        net = net._replace(turned=np.zeros((0, 0, 0)))
        if own is None:
            most = TUNING.most_entries // self.model.n_examples
            own = self.clusters[j] = Clusters(net, self.messages[j], forms, most)
        else:
            own.given, own.forms = net, forms
        if shape.cycles is None:
            own.net = net
            own.short()
            shape.cycles = _NO_CYCLES
            shape.extend(own.cycles)
        if len(own.known) == len(shape.known) or not own.add(shape.cycles, np.arange(len(shape.cycles[0]) - 1)):
            own.make_tables()

    def _own(self, j: int) -> Clusters:
        own = self.clusters[j]
        assert own is not None
        return own

    def _ascend(self, j: int, net: Net, effort: Effort) -> tuple[np.ndarray, float]:
        """Rounds over one example; messages and parts are improved in place."""
        own, labels = self._own(j), np.zeros(len(net.unary), dtype=np.int32)
        bound = np.inf
        if not effort.is_proof:
            for i in range(TUNING.rounds):
                bound = own.round(i % 2 == 0)
            decode(own.net, True, own.messages.edge, own.messages.clique, labels)
            labels = polish(net, labels, TUNING.polish_sweeps)
            return labels, max(0.0, bound - net_score(net, labels))
        if effort < Effort.FULL:
            for i in range(TUNING.long_rounds if effort == Effort.LONG else TUNING.proof_rounds):
                bound = own.round(i % 2 == 0)
            labels = self._read_off(net, own, labels)[0]
        else:
            labels = self._close(net, own, labels)
        problem = self._problem(j, net)
        own.make_tables()
        gap = float(CycleCertificate(own.messages, *own.cycles, own.held).evaluate(problem, labels)[1])
        if effort >= Effort.SEARCH and gap > problem.resolution:
            found = solve(problem, init=own.messages, gap=0.0, time_limit=self.time_limit)
            if found.labels is not None and found.gap < gap:
                return found.labels, found.gap
        return labels, gap

    def _close(self, net: Net, own: Clusters, labels: np.ndarray) -> np.ndarray:
        """Rounds until the bound meets a labelling, or neither rounds nor new cycles gain; returns the best labelling."""
        bounds: list[float] = []
        best, score, since = labels, -np.inf, 0
        for i in range(TUNING.most_rounds):
            bounds.append(own.round(i % 2 == 0))
            if i % TUNING.window:
                continue
            found, value = self._read_off(net, own, labels)
            if value > score:
                best, score = found, value
            gap, since = bounds[-1] - score, since + TUNING.window
            if gap <= TUNING.closed * (1.0 + abs(score)):
                break
            if since > TUNING.window and bounds[-1 - TUNING.window] - bounds[-1] <= TUNING.stall * gap:
                own.make_tables()
                if not own.frustrated(gap, best):
                    break
                since = 0
        return best

    def _read_off(self, net: Net, own: Clusters, labels: np.ndarray) -> tuple[np.ndarray, float]:
        """The better of two labellings by conditioning, and its score."""
        best, score = labels, -np.inf
        for forward in (True, False):
            decode(own.net, forward, own.messages.edge, own.messages.clique, labels)
            found = polish(net, labels, TUNING.polish_sweeps)
            value = net_score(net, found)
            if value > score:
                best, score = found.copy(), value
        return best, score

    def _problem(self, j: int, net: Net) -> Problem:
        """The loss-augmented problem that `_net` has made, without its shift of scores."""
        rows = slice(int(self.model.data.node_ptr[j]), int(self.model.data.node_ptr[j + 1]))
        template = self.templates[j]
        return Problem._trusted(
            graph=template.graph,
            unary=np.where(self.missing[rows], -np.inf, self.unary[rows]),
            tables=net.tables,
            edge_table=net.edge_table,
            edge_weight=net.edge_weight,
            n_states=template.n_states,
            cliques=template.cliques,
            offset=0.0,
            factors=template.factors,
        )

    # ---- checkpoints ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Messages, cycles and their parts, for a checkpoint."""
        found = super().state()
        for j, own in enumerate(self.clusters):
            if own is not None:
                ptr, edge, turned = own.cycles
                found |= {
                    f"cycle_ptr_{j}": ptr,
                    f"cycle_edge_{j}": edge,
                    f"cycle_turned_{j}": turned,
                    f"cycle_held_{j}": own.held,
                }
        return found

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The state that `state` gave."""
        super().restore(state)
        rewards = self.model.clique_weights(np.zeros(self.model.n_weights))
        for j, shape in enumerate(self.shape_of):
            if f"cycle_ptr_{j}" not in state:
                continue
            cycles: Any = tuple(state[f"cycle_{name}_{j}"] for name in ("ptr", "edge", "turned"))
            w = np.zeros(self.model.n_weights)
            net = self._net(j, next(iter(self.model.example_tables(w, [j]))), w, rewards)
            most = TUNING.most_entries // self.model.n_examples
            own = self.clusters[j] = Clusters(net, self.messages[j], None, most)
            own.add(cycles, np.arange(len(cycles[0]) - 1))
            own.held[:] = state[f"cycle_held_{j}"]
            shape.extend(cycles)


def _joined(cycles: CycleList, edge: np.ndarray, turned: np.ndarray) -> CycleList:
    """A list of cycles with one more."""
    return (
        np.append(cycles[0], cycles[0][-1] + len(edge)),
        np.concatenate([cycles[1], edge]),
        np.concatenate([cycles[2], turned]),
    )


def _general(n_tables: int) -> Forms:
    """Tables without a special form."""
    return Forms(np.full(n_tables, GENERAL, dtype=np.int8), np.ones(n_tables, dtype=np.int64), np.zeros(n_tables))
