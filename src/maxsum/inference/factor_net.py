"""From a `Problem` with factors to the arrays of the kernels that pass messages over terms of any size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.certificates.dual import arc_consistent
from ..core.certificates.scale import edge_centres
from ..core.factors import AllDifferent, Cardinality, Function, Linear, SparseTable
from ..core.factors.diagram import Diagram
from ..core.problem import Messages, Problem
from ..kernels.net import memberships
from ..kernels.records import FactorNet

TABLE = 0
AGREEMENT = 1
CARDINALITY = 2
AUTOMATON = 3
ALL_DIFFERENT = 4


@dataclass(frozen=True)
class Tuning:
    """How functions are handed to the kernels."""

    # Entries up to which a list of tuples or an inequality becomes a table: a pass over so many takes microseconds, and layers cost as much.
    table_cells: int = 4096


_TUNING = Tuning()


class FactorProblem(NamedTuple):
    """``F(y) == constant + value of y in net``; edges are factors 0 .. E - 1, then cliques, then the factors of the problem."""

    net: FactorNet
    constant: float
    feasible: bool

    def flat(self, problem: Problem, messages: Messages) -> np.ndarray:
        """Messages as the kernels have them, one row a slot; a copy."""
        edge = messages.edge.transpose(1, 0, 2).reshape(2 * problem.n_edges, problem.n_labels)
        parts = [edge, messages.clique, messages.factor.reshape(-1, problem.n_labels)]
        return np.ascontiguousarray(np.concatenate(parts))

    def messages(self, problem: Problem, flat: np.ndarray) -> Messages:
        """The same back; a copy."""
        n, k = 2 * problem.n_edges, problem.n_labels
        edge = flat[:n].reshape(problem.n_edges, 2, k).transpose(1, 0, 2).copy()
        rest = flat[n:].copy()
        return Messages(edge, rest[: problem.cliques.n_members], rest[problem.cliques.n_members :])


def factor_problem(problem: Problem) -> FactorProblem:
    """The arrays of a problem; kept with it."""
    memo = problem.__dict__.get("_factor_problem")
    if memo is None:
        memo = problem.__dict__["_factor_problem"] = _Builder(problem).build()
    found: FactorProblem = memo
    return found


class _Builder:
    """Collects terms; those with the same scores share their place in the bank."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.kind: list[int] = []
        self.start: list[int] = []
        self.scores: list[np.ndarray] = []
        self.size = 0
        self.known: dict[object, tuple[int, int, Diagram | None]] = {}
        self.steps: list[np.ndarray] = []
        self.n_steps = 0
        self.levels: dict[int, tuple[list[int], list[int], int]] = {}  # by the start of an automaton's scores

    def bank(self, scores: np.ndarray) -> int:
        self.scores.append(scores.ravel())
        self.size += scores.size
        return self.size - scores.size

    def build(self) -> FactorProblem:
        problem = self.problem
        domain = arc_consistent(problem)
        feasible = bool(domain.any(axis=1).all()) if problem.n_nodes else True
        unary = np.where(domain, problem.unary, -np.inf) if feasible else problem.unary
        top = unary.max(axis=1, initial=-np.inf)
        self.add_edges()
        self.add_cliques()
        self.add_factors()
        nodes = np.concatenate([problem.graph.edges.reshape(-1), problem.cliques.nodes, problem.factors.nodes]).astype(np.int32)
        ends = 2 * problem.n_edges
        ptr = np.concatenate(
            [
                2 * np.arange(problem.n_edges, dtype=np.int64),
                ends + problem.cliques.ptr[:-1],
                ends + problem.cliques.n_members + problem.factors.ptr,
            ]
        )
        member_ptr, member = memberships(problem.n_nodes, nodes)
        has_counts, has_layers = CARDINALITY in self.kind, AUTOMATON in self.kind
        counted, level, width, final = self.slots(nodes, ptr, has_counts, has_layers)
        net = FactorNet(
            n_states=problem.n_states,
            unary=np.ascontiguousarray(unary - np.where(np.isfinite(top), top, 0.0)[:, None]),
            ptr=ptr,
            nodes=nodes,
            kind=np.array(self.kind, dtype=np.int32),
            start=np.array(self.start, dtype=np.int64),
            scores=np.concatenate([*self.scores, np.zeros(0)]),
            counted=counted,
            level=level,
            width=width,
            final_width=final,
            step=np.concatenate([*self.steps, np.zeros(0, dtype=np.int32)]).astype(np.int32),
            member_ptr=member_ptr,
            member=member,
        )
        total = np.longdouble(problem.offset) + top.sum(dtype=np.longdouble)
        total += edge_centres(problem).sum(dtype=np.longdouble) + problem.factors.centres.sum(dtype=np.longdouble)
        return FactorProblem(net, float(total), feasible)

    def add_edges(self) -> None:
        problem = self.problem
        states = problem.n_states.tolist()
        centre = edge_centres(problem).tolist()
        weights, tables = problem.edge_weight.tolist(), problem.edge_table.tolist()
        for e, (u, v) in enumerate(problem.graph.edges.tolist()):
            key = ("edge", tables[e], weights[e], states[u], states[v])
            if key not in self.known:
                table = problem.tables[tables[e], : states[u], : states[v]] * weights[e] - centre[e]
                self.known[key] = (TABLE, self.bank(table), None)
            self.kind.append(TABLE)
            self.start.append(self.known[key][1])

    def add_cliques(self) -> None:
        for weights in self.problem.cliques.weights:
            self.kind.append(AGREEMENT)
            self.start.append(self.bank(weights))

    def add_factors(self) -> None:
        problem = self.problem
        for f, (nodes, function) in enumerate(problem.factors.items()):
            shape = tuple(problem.n_states[nodes].tolist())
            key = (int(problem.factors.number[f]), shape)
            if key not in self.known:
                self.known[key] = self.add_function(function, shape)
            kind, start, _ = self.known[key]
            self.kind.append(kind)
            self.start.append(start)

    def add_function(self, function: Function, shape: tuple[int, ...]) -> tuple[int, int, Diagram | None]:
        if isinstance(function, AllDifferent):
            return ALL_DIFFERENT, 0, None
        if isinstance(function, Cardinality):
            return CARDINALITY, self.bank(function.scores - function.centre), None
        if isinstance(function, SparseTable | Linear) and math.prod(shape) > _TUNING.table_cells:
            diagram = function.diagram
            start = self.bank(diagram.scores - function.centre)
            self.levels[start] = self.add_layers(diagram)
            return AUTOMATON, start, diagram
        return TABLE, self.bank(function.dense(shape) - function.centre), None

    def add_layers(self, diagram: Diagram) -> tuple[list[int], list[int], int]:
        """Where the steps of each layer begin, how many states it has, and how many there are after the last."""
        n_labels, first, widths = self.problem.n_labels, [], []
        for step in diagram.steps:
            padded = np.full((step.shape[0], n_labels), -1, dtype=np.int32)
            padded[:, : step.shape[1]] = step
            first.append(self.n_steps)
            widths.append(step.shape[0])
            self.steps.append(padded.ravel())
            self.n_steps += padded.size
        return first, widths, len(diagram.scores)

    def slots(
        self, nodes: np.ndarray, ptr: np.ndarray, has_counts: bool, has_layers: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Labels that count and layers, for every slot; empty where no factor has such."""
        problem, n_labels = self.problem, self.problem.n_labels
        counted = np.zeros((len(nodes) if has_counts else 0, n_labels), dtype=np.uint8)
        level = np.zeros(len(nodes) if has_layers else 0, dtype=np.int64)
        width = np.ones(len(level), dtype=np.int32)
        final = np.ones(len(self.kind) if has_layers else 0, dtype=np.int32)
        first = len(self.kind) - len(problem.factors)
        for f, (_, function) in enumerate(problem.factors.items(), start=first):
            part = slice(ptr[f], ptr[f + 1])
            if isinstance(function, Cardinality):
                counted[part] = function.counted(n_labels)
            elif self.kind[f] == AUTOMATON:
                level[part], width[part], final[f] = self.levels[self.start[f]]
        return counted, level, width, final
