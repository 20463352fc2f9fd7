"""A problem with factors as a problem of nodes and edges alone, with the same scores.

Each factor is replaced by extra nodes, which come after the others, and edges (`Function.lift`): a table by a node whose labels are its tuples, a count
or a sum by a chain of partial counts, all-different by edges between its nodes. Labels that generalised arc consistency excludes
(`core.certificates.dual.arc_consistent`) are forbidden to their nodes. Every labelling keeps its score, exactly, with the best labels of the extra nodes, so what is proven of the lifted problem is proven of the given one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..certificates.dual import arc_consistent
from ..errors import InfeasibleError, UnsupportedProblemError
from ..graph import Graph
from ..memory import check_room

if TYPE_CHECKING:
    from ..problem import Messages, Problem

MAX_LABELS = 4096
"""Labels of an extra node: tables between such nodes have 128 MB."""

MAX_BANK = 2**26
"""Entries of all tables of the lifted problem, which are as large as the largest: half a gigabyte, written in a second."""


@dataclass(frozen=True, eq=False)
class Lifted:
    """A lifted problem, and the way to it and back.

    Attributes
    ----------
    problem : Problem
        Nodes and edges alone; the first ``n_nodes`` are those of the given problem.
    links : ndarray of int64, shape (n_links, 3)
        Edge, slot of the factor member (entry of ``factors.nodes``) and label table, for edges between members and extra nodes.
    """

    given: Problem
    problem: Problem
    link_edge: np.ndarray
    link_slot: np.ndarray
    link_label: list[np.ndarray]
    completions: list[tuple[np.ndarray, int, Callable[[np.ndarray], list[int]]]]
    private: bool

    def labels(self, labels: np.ndarray) -> np.ndarray:
        """The labelling with the best labels of the extra nodes."""
        full = np.zeros(self.problem.n_nodes, dtype=np.int32)
        full[: len(labels)] = labels
        for nodes, first, complete in self.completions:
            found = complete(labels[nodes])
            full[first : first + len(found)] = found
        return full

    def with_scores(self, problem: Problem) -> Lifted:
        """The lifted form of a problem with the same graph, factors and numbers of labels, and other scores of nodes and edges."""
        from ..problem import Problem

        if not self.private:  # tables of its own edges hold what factors forbid
            return _lift(problem)
        old, n_given, size = self.problem, len(self.given.tables), self.problem.n_labels
        unary = old.unary.copy()
        unary[: problem.n_nodes, : problem.n_labels] = problem.unary
        bank = np.zeros((len(problem.tables) + len(old.tables) - n_given, size, size))
        bank[: len(problem.tables), : problem.n_labels, : problem.n_labels] = problem.tables
        bank[len(problem.tables) :] = old.tables[n_given:]
        links = old.edge_table[problem.n_edges :] + np.int32(len(problem.tables) - n_given)
        lifted = Problem._trusted(
            graph=old.graph,
            unary=unary,
            tables=bank,
            edge_table=np.concatenate([problem.edge_table, links]).astype(np.int32),
            edge_weight=np.concatenate([problem.edge_weight, old.edge_weight[problem.n_edges :]]),
            n_states=old.n_states,
            cliques=old.cliques,
            offset=problem.offset,
        )
        lifted.__dict__["_given"] = problem
        return replace(self, given=problem, problem=lifted)

    def messages_up(self, messages: Messages) -> Messages:
        """Messages of the given problem as those of the lifted one: with the same bound where every factor is one extra node."""
        from ..problem import Messages

        n_given, k = self.given.n_edges, self.given.n_labels
        edge = np.zeros((2, self.problem.n_edges, self.problem.n_labels))
        edge[:, :n_given, :k] = messages.edge
        for e, slot, label in zip(self.link_edge.tolist(), self.link_slot.tolist(), self.link_label, strict=True):
            edge[0, e, :k] = messages.factor[slot]
            edge[1, e, : len(label)] = -messages.factor[slot][label]
        return Messages(edge, self.problem.zero_messages().clique)

    def messages_down(self, messages: Messages) -> Messages | None:
        """Messages of the lifted problem as those of the given one, whose bound is not larger; None where edges of factors lie
        between given nodes.

        The terms of a factor together are at least its best score under the messages that reach its members.
        """
        from ..problem import Messages

        if not self.private:
            return None
        k = self.given.n_labels
        factor = np.zeros((self.given.factors.n_members, k))
        factor[self.link_slot] = messages.edge[0, self.link_edge, :k]
        return Messages(messages.edge[:, : self.given.n_edges, :k].copy(), np.zeros((0, k)), factor)


def unliftable(problem: Problem) -> str:
    """Why the problem is not lifted; empty if it can be."""
    if len(problem.cliques):
        return "takes nodes and edges only, and factors written with these; this problem has clique terms as well"
    shapes = problem.n_states
    for f, (nodes, function) in enumerate(problem.factors.items()):
        cells = function.lift_cells(tuple(shapes[nodes].tolist()))
        if cells > MAX_LABELS:
            return (
                f"writes factors with extra nodes of at most {MAX_LABELS} labels; factor {f} ({function!r}, {len(nodes)} nodes) "
                f"needs {cells:.4g}"
            )
    if (entries := _bank_entries(problem)) > MAX_BANK:
        return (
            f"writes factors with tables of at most {MAX_BANK} entries together; those of this problem would have {entries:.2g}"
        )
    return ""


def _bank_entries(problem: Problem) -> float:
    """Entries of the tables that the extra edges would have, at most about: each has the size of the largest, and equal ones are there once."""
    from .all_different import AllDifferent
    from .counts import Cardinality
    from .tables import Table

    seen: set[tuple[int, tuple[int, ...]]] = set()
    count, largest = len(problem.tables) if problem.n_edges else 0, float(problem.n_labels)
    shapes = problem.n_states
    for number, (nodes, function) in zip(problem.factors.number.tolist(), problem.factors.items(), strict=True):
        shape = tuple(shapes[nodes].tolist())
        is_plain = isinstance(function, Table) and not function.is_hard  # the tuples of all of one shape are the same
        key = (-1 if is_plain else number, shape)
        if key in seen or isinstance(function, AllDifferent):
            continue
        seen.add(key)
        cells = function.lift_cells(shape)
        largest = max(largest, cells)
        # layers of a count differ where it begins and ends; those between are the same
        count += min(len(nodes), 2 * int(cells) + 2) * 2 if isinstance(function, Cardinality) else 2 * len(nodes)
    return count * largest**2


def lift(problem: Problem) -> Lifted:
    """The lifted problem; kept with the given one."""
    memo = problem.__dict__.get("_lifted")
    if memo is None:
        memo = problem.__dict__["_lifted"] = _lift(problem)
    found: Lifted = memo
    return found


def _lift(problem: Problem) -> Lifted:
    if reason := unliftable(problem):
        raise UnsupportedProblemError(f"the lifted form {reason}.")
    domain = arc_consistent(problem)
    if not domain.any(axis=1).all():
        raise InfeasibleError("arc consistency leaves a node of this problem without labels; it has no lifted form.")
    builder = _Builder(problem, domain)
    for f, (nodes, function) in enumerate(problem.factors.items()):
        builder.add(f, nodes, function)
    return builder.build()


class _Builder:
    """Collects extra nodes and edges; equal tables are stored once."""

    def __init__(self, problem: Problem, domain: np.ndarray):
        self.problem, self.domain = problem, domain
        self.states = problem.n_states.tolist()
        self.unary: list[np.ndarray] = []
        self.edges: list[tuple[int, int]] = []
        self.number: list[int] = []
        self.tables: list[np.ndarray] = []
        self.known: dict[tuple[tuple[int, ...], bytes], int] = {}
        self.link_edge: list[int] = []
        self.link_slot: list[int] = []
        self.link_label: list[np.ndarray] = []
        self.completions: list[tuple[np.ndarray, int, Callable[[np.ndarray], list[int]]]] = []
        self.forbidden: dict[tuple[int, int], np.ndarray] = {}
        self.lifts: dict[tuple[int, tuple[int, ...]], object] = {}

    def table(self, table: np.ndarray) -> int:
        key = (table.shape, np.isneginf(table).tobytes())  # tables here are 0 or -inf
        if key not in self.known:
            self.known[key] = len(self.tables)
            self.tables.append(table)
        return self.known[key]

    def add(self, f: int, nodes: np.ndarray, function: object) -> None:
        from .function import Function, Lift

        assert isinstance(function, Function)
        shape = tuple(self.states[v] for v in nodes.tolist())
        key = (int(self.problem.factors.number[f]), shape)
        if key not in self.lifts:
            self.lifts[key] = function.lift(shape)
        form = self.lifts[key]
        assert isinstance(form, Lift)
        first, ptr = self.problem.n_nodes + len(self.unary), int(self.problem.factors.ptr[f])
        for i, j, table in form.to_member:
            self.link_edge.append(self.problem.n_edges + len(self.edges))
            self.link_slot.append(ptr + i)
            self.link_label.append(table.argmax(axis=0))  # the label that each label of the extra node says
            self.edges.append((int(nodes[i]), first + j))
            self.number.append(self.table(table))
        for i, j, table in form.between:
            self.edges.append((first + i, first + j))
            self.number.append(self.table(table))
        for i, j, table in form.among:
            u, v = int(nodes[i]), int(nodes[j])
            flip = u > v
            pair = (v, u) if flip else (u, v)
            mask = np.isneginf(table.T if flip else table)
            self.forbidden[pair] = self.forbidden[pair] | mask if pair in self.forbidden else mask
        self.unary += form.unary
        if form.unary:
            self.completions.append((nodes, first, form.complete))

    def build(self) -> Lifted:
        from ..problem import Problem

        problem = self.problem
        n_labels = max([problem.n_labels, *(len(row) for row in self.unary)])
        n_nodes = problem.n_nodes + len(self.unary)
        given = problem.graph.edges
        known = {(min(u, v), max(u, v)): e for e, (u, v) in enumerate(given.tolist())} if self.forbidden else {}
        new_pairs = [pair for pair in self.forbidden if pair not in known]
        bank_size = len(problem.tables) + len(self.tables) + len(self.forbidden)
        check_room(
            8 * (bank_size * n_labels**2 + 4 * n_nodes * n_labels + 6 * len(self.edges) * n_labels),
            "writing the factors of this problem with nodes and edges",
            "Take a solver that works on factors as they are (TRWS, JunctionTree)",
        )
        bank = [_padded(table, n_labels) for table in problem.tables]
        edge_table, weight = problem.edge_table.tolist(), problem.edge_weight.tolist()
        for pair, mask in self.forbidden.items():
            if pair in known:
                e = known[pair]
                own_mask = mask if given[e, 0] < given[e, 1] else mask.T
                table = problem.tables[edge_table[e]].copy()
                # a weight that is not positive cannot forbid: its sign goes into the table, which changes no product
                if weight[e] < 0:
                    table, weight[e] = -table, -weight[e]
                elif weight[e] == 0:
                    table, weight[e] = np.zeros_like(table), 1.0
                table[: own_mask.shape[0], : own_mask.shape[1]][own_mask] = -np.inf
                edge_table[e] = len(bank)
                bank.append(_padded(table, n_labels))
        first_table = len(bank)
        bank += [_padded(table, n_labels) for table in self.tables]
        edge_table += [first_table + t for t in self.number]
        edges = [*given.tolist(), *self.edges]
        for pair in new_pairs:
            mask = self.forbidden[pair]
            key = ((*mask.shape, 1), mask.tobytes())
            if key not in self.known:
                self.known[key] = len(bank)
                bank.append(_padded(np.where(mask, -np.inf, 0.0), n_labels))
            edges.append(pair)
            edge_table.append(self.known[key])
        weight += [1.0] * (len(edges) - len(given))
        unary = np.full((n_nodes, n_labels), -np.inf)
        # what generalised arc consistency excludes has no finite score anyway: edges alone could not see that
        unary[: problem.n_nodes, : problem.n_labels] = np.where(self.domain, problem.unary, -np.inf)
        for v, row in enumerate(self.unary, start=problem.n_nodes):
            unary[v, : len(row)] = row
        states = np.array(self.states + [len(row) for row in self.unary], dtype=np.int32)
        lifted = Problem(
            Graph.from_edges(np.array(edges, dtype=np.int64).reshape(-1, 2), n_nodes),
            unary,
            np.stack(bank) if edges else None,
            edge_table=np.array(edge_table, dtype=np.int32) if edges else None,
            edge_weight=np.array(weight) if edges else None,
            n_states=states,
            offset=problem.offset,
        )
        lifted.__dict__["_given"] = problem  # whose tolerance counts (core.certificates.scale)
        link_edge, link_slot = (np.array(part, dtype=np.int64) for part in (self.link_edge, self.link_slot))
        private = not self.forbidden
        return Lifted(problem, lifted, link_edge, link_slot, self.link_label, self.completions, private)


def _padded(table: np.ndarray, n_labels: int) -> np.ndarray:
    full = np.zeros((n_labels, n_labels))
    full[: table.shape[0], : table.shape[1]] = table
    return full


def lifted_size(problem: Problem) -> float:
    """Entries of the tables of all edges that a lifted problem would have, about."""
    total = 0.0
    for nodes, function in problem.factors.items():
        shape = tuple(problem.n_states[nodes].tolist())
        total += len(nodes) * function.lift_cells(shape) * max(shape)
    return total if math.isfinite(total) else math.inf
