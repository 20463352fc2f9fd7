"""BracketOracle: labellings and dual bounds of graphs with cycles, with messages that are kept from one call to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...core.certificates.dual import largest_rounding
from ...core.errors import OracleError
from ...core.problem import Messages, Problem
from ...core.result import Result
from ...core.rows import row_max
from ...executors.threads import thread_map
from ...inference.dispatch import solve
from ...inference.moves.expansion import Expander, expansion_witness
from ...inference.moves.icm import polish
from ...inference.prepare import net_score, prepare
from ...inference.relaxations.trws import passes
from ...kernels.design import augmented_scores
from ...kernels.height import clique_terms, edge_terms, node_terms
from ...kernels.records import Design, Net
from ...kernels.trws import decode
from ...models.bound import BoundModel
from .base import Effort, Key, augmented


@dataclass(frozen=True)
class Tuning:
    """How much of each way to a bracket a call of the oracle buys."""

    sweeps: int = 8  # passes of TRW-S: messages go on from the last call, so that few are enough while weights change little
    long_factor: int = 10  # times as many for `Effort.LONG`, which is asked for where brackets alone keep a gap open
    expansion_cycles: int = 2  # over all labels: moves of later cycles are rare, and the next call makes them as well
    polish_sweeps: int = 10  # of local search on a labelling that is read off; it ends by itself after two or three mostly

    def passes(self, effort: Effort) -> int:
        """Passes of TRW-S for an effort below `Effort.FULL`."""
        if effort <= Effort.GLANCE:
            return self.sweeps // 2
        return self.sweeps * (self.long_factor if effort == Effort.LONG else 1)


Tables = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Bank, table numbers and weights of the edges of one example."""


class BracketOracle:
    """TRW-S that goes on from its own last messages: labellings from below, dual bounds from above; see `Effort`."""

    exact = False

    def __init__(self, model: BoundModel, design: Design, tuning: Tuning = Tuning(), time_limit: float = 10.0):  # noqa: B008
        self.model, self.design, self.tuning, self.time_limit = model, design, tuning, time_limit
        self.unary = np.zeros((len(model.data.n_states), model.n_labels))
        self.missing = np.arange(model.n_labels) >= model.data.n_states[:, None]
        self.templates = model.problems(np.zeros(model.n_weights))
        self.nets = [prepare(problem).net for problem in self.templates]
        self.messages = [problem.zero_messages() for problem in self.templates]
        some = model.problems(model.cone.nonneg.astype(np.float64))[:1]
        self.expands = model.cone.nonneg.any() and all(expansion_witness(problem) is None for problem in some)

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Labellings and gaps from message passing, by the solvers of `solve` where the effort is high."""
        if effort >= Effort.FULL:
            problems = augmented(self.model, self.design.loss, w, examples)
            items = list(zip(examples.tolist(), problems, strict=True))
            found = thread_map(lambda item: self._solve(item[0], item[1], effort), items, n_jobs)
        else:
            rewards, tables = self.model.clique_weights(w), self.model.example_tables(w, examples)
            asked = list(zip(examples.tolist(), tables, strict=True))
            found = thread_map(
                lambda item: self._sweep(item[0], self._net(item[0], item[1], w, rewards), effort), asked, n_jobs
            )
        return [labels for labels, _ in found], np.array([gap for _, gap in found])

    def _net(self, j: int, tables: Tables, w: np.ndarray, rewards: np.ndarray) -> Net:
        """The loss-augmented network of one example; best label of each node at 0."""
        data = self.model.data
        rows = slice(int(data.node_ptr[j]), int(data.node_ptr[j + 1]))
        augmented_scores(self.design, np.array([j]), w, self.unary)
        unary = np.where(self.missing[rows], -np.inf, self.unary[rows])
        unary -= row_max(unary)[:, None]
        bank, edge_table, edge_weight = tables
        return self.nets[j]._replace(
            unary=unary,
            tables=np.ascontiguousarray(bank),
            turned=np.ascontiguousarray(bank.transpose(0, 2, 1)),
            edge_table=edge_table,
            edge_weight=np.ascontiguousarray(edge_weight),
            clique_weights=self.model._cliques(data, j, rewards).weights,
        )

    def _sweep(self, j: int, net: Net, effort: Effort) -> tuple[np.ndarray, float]:
        """Passes over one example; its messages are improved in place."""
        messages = self.messages[j]
        one_pass, bound = passes(self.templates[j], net), np.inf
        for i in range(self.tuning.passes(effort)):
            bound = one_pass(messages, i % 2 == 0)
        labels = np.zeros(len(net.unary), dtype=np.int32)
        if not effort.is_proof:
            decode(net, True, messages.edge, messages.clique, labels)
            if effort == Effort.EXPAND and self.expands:
                Expander(net, messages).cycle(labels, self.tuning.expansion_cycles)
            return labels, max(0.0, bound - net_score(net, labels))
        best, least = labels, np.inf
        for forward in (True, False):
            decode(net, forward, messages.edge, messages.clique, labels)
            better = polish(net, labels, self.tuning.polish_sweeps)
            gap = node_terms(net, messages.edge, messages.clique, better)[1]
            gap += edge_terms(net, messages.edge, better, 0, len(net.edges))[1] + clique_terms(net, messages.clique, better)[1]
            if gap < least:
                best, least = better, gap
        return best, least + _hidden(net, messages)

    def _solve(self, j: int, problem: Problem, effort: Effort) -> tuple[Key, float]:
        if effort >= Effort.SEARCH:
            return self._search(j, problem)
        return self._labelled(j, solve(problem, "TRWS", init=self.messages[j]))

    def _search(self, j: int, problem: Problem) -> tuple[Key, float]:
        return self._labelled(j, solve(problem, init=self.messages[j], gap=0.0, time_limit=self.time_limit))

    def _labelled(self, j: int, result: Result) -> tuple[np.ndarray, float]:
        if result.messages is not None:
            self.messages[j] = Messages(*(part.copy() for part in result.messages))
        if result.labels is None:
            raise OracleError(f"example {j}: no labelling was found ({result.message})")
        return result.labels, result.gap

    def state(self) -> dict[str, np.ndarray]:
        """Messages of all examples, for a checkpoint."""
        none = np.zeros((2, 0, self.model.n_labels))
        return {
            "oracle_messages": np.concatenate([none] + [messages.edge for messages in self.messages], axis=1),
            "oracle_clique_messages": np.concatenate([none[0]] + [messages.clique for messages in self.messages]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The state that `state` gave."""
        for own, kept in zip(
            self.messages, np.split(state["oracle_messages"], self.model.data.edge_ptr[1:-1], axis=1), strict=True
        ):
            own.edge[:] = kept
        sizes = np.cumsum([len(own.clique) for own in self.messages])[:-1]
        for own, kept in zip(self.messages, np.split(state["oracle_clique_messages"], sizes), strict=True):
            own.clique[:] = kept


def _hidden(net: Net, messages: Messages) -> float:
    """What rounding can hide in a gap that kernels summed up."""
    if not len(net.edges) and not len(net.clique_nodes):
        return 0.0
    degree = int((np.diff(net.ptr) + np.diff(net.member_ptr)).max()) + int(np.diff(net.clique_ptr).max(initial=0))
    message = max(float(np.abs(messages.edge).max(initial=0.0)), float(np.abs(messages.clique).max(initial=0.0)))
    score = float(np.abs(np.where(np.isneginf(net.unary), 0.0, net.unary)).max())
    score += float(np.abs(net.tables).max(initial=0.0) * np.abs(net.edge_weight).max(initial=0.0))
    score += float(np.abs(net.clique_weights).max(initial=0.0))
    return largest_rounding(len(net.edges) + len(net.unary) + len(net.clique_nodes), degree, score, message)
