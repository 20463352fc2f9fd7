"""From a `Problem` to the arrays of the elimination kernels; orders of elimination, and what separator tables prove, by these kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.certificates.base import EliminationCertificate, Evaluation
from ...core.certificates.dual import centred_score, raised_score, up
from ...core.certificates.elimination_order import EliminationOrder, FlatSeparators, FlatTables
from ...core.certificates.scale import UNIT, score_rounding, table_centres
from ...core.factors import Table
from ...core.problem import Problem
from ...core.rows import row_max
from ...core.validation import LARGEST
from ...kernels import elimination_order, elimination_proof
from ...kernels.records import Separators, TermArrays


@dataclass(frozen=True)
class FlatOrder(EliminationOrder):
    """An order of elimination with the arrays that kernels read; ``table_cells`` are the numbers of entries of the separator tables."""

    arrays: FlatSeparators
    table_cells: np.ndarray

    @cached_property
    def record(self) -> Separators:
        """The order for kernels; its tables fit in memory, so that their cells can be counted in whole numbers."""
        flat = self.arrays
        table_ptr = np.zeros(len(flat) + 1, dtype=np.int64)
        np.cumsum(self.table_cells.astype(np.int64), out=table_ptr[1:])
        return Separators(flat.nodes, flat.ptr, flat.members, table_ptr)


def least_fill(problem: Problem, max_width: int, max_cells: float = math.inf) -> FlatOrder | None:
    """The greedy order of least fill (or the nodes as they are numbered, if that has no fill); None if a limit is passed."""
    scopes = _scopes(problem, max_width)
    if scopes is None:
        return None
    found = elimination_order.least_fill(problem.n_states, problem.graph.edges, *scopes, max_width, float(max_cells))
    return _order(found)


def along(problem: Problem, nodes: np.ndarray, max_width: int, max_cells: float = math.inf) -> FlatOrder | None:
    """The order that removes the nodes as they are listed; None if a limit is passed."""
    scopes = _scopes(problem, max_width)
    if scopes is None:
        return None
    listed = np.ascontiguousarray(nodes, dtype=np.int32)
    found = elimination_order.along(problem.n_states, problem.graph.edges, *scopes, listed, max_width, float(max_cells))
    return _order(found)


def _scopes(problem: Problem, max_width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Nodes of cliques and factors, one after another; None where one of these alone is too wide."""
    cliques, factors = problem.cliques, problem.factors
    if not len(cliques):
        ptr, nodes = factors.ptr, factors.nodes
    else:
        ptr = np.concatenate([cliques.ptr, cliques.ptr[-1] + factors.ptr[1:]])
        nodes = np.concatenate([cliques.nodes, factors.nodes])
    return None if int(np.diff(ptr).max(initial=0)) > max_width + 1 else (ptr, nodes)


def _order(found: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, float]) -> FlatOrder | None:
    nodes, ptr, members, table_cells, width, cells = found
    if width < 0:
        return None
    flat = FlatSeparators(nodes, ptr, members)
    return FlatOrder(tuple(nodes.tolist()), flat, width, cells, flat, table_cells)


def term_arrays(problem: Problem) -> TermArrays:
    """The terms of a problem for elimination kernels; kept with it."""
    memo = problem.__dict__.get("_term_arrays")
    if memo is None:
        memo = problem.__dict__["_term_arrays"] = _term_arrays(problem)
    found: TermArrays = memo
    return found


def _term_arrays(problem: Problem) -> TermArrays:
    top = row_max(problem.unary)
    cliques, factors = problem.cliques, problem.factors
    start, bank = _bank(problem)
    return TermArrays(
        n_states=problem.n_states,
        unary=problem.unary,
        unary_top=np.where(np.isfinite(top), top, 0.0),
        edges=problem.graph.edges,
        edge_table=problem.edge_table,
        edge_weight=problem.edge_weight,
        edge_centre=np.ascontiguousarray(table_centres(problem)),
        tables=problem.tables,
        clique_ptr=cliques.ptr,
        clique_nodes=cliques.nodes,
        clique_weights=cliques.weights,
        factor_ptr=factors.ptr,
        factor_nodes=factors.nodes,
        factor_start=start,
        factor_centre=factors.centres,
        bank=bank,
    )


def _bank(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Where the dense table of each factor begins, and all these tables one after another; equal ones are there once."""
    factors = problem.factors
    parts, size = [], 0
    of_function = np.full(len(factors.functions), -1, dtype=np.int64)
    for scores, numbers in factors.stacks:
        of_function[numbers] = size + np.arange(len(numbers)) * (scores.size // len(numbers))
        parts.append(scores.reshape(-1))
        size += scores.size
    for number in np.flatnonzero(of_function < 0).tolist():
        function = factors.functions[number]
        if isinstance(function, Table):
            of_function[number] = size
            parts.append(function.scores.reshape(-1))
            size += function.scores.size
    start = of_function[factors.number] if len(factors) else np.zeros(0, dtype=np.int64)
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    for f in np.flatnonzero(start < 0).tolist():
        number, shape = int(factors.number[f]), tuple(problem.n_states[factors.members(f)].tolist())
        if (number, shape) not in known:
            known[number, shape] = size
            parts.append(factors.functions[number].dense(shape).reshape(-1))
            size += math.prod(shape)
        start[f] = known[number, shape]
    return start, np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts]))


def evaluate(problem: Problem, certificate: EliminationCertificate, labels: np.ndarray) -> Evaluation | None:
    """What separator tables prove about a labelling, by a kernel, with all that rounding could hide; None where numpy has to look.

    The kernel finds by itself what each bag holds. That its bags have all terms is seen at the labelling as well: their values there add up
    to the score, which numpy computes from the problem.
    """
    flat, tables = certificate.separators, certificate.tables
    if not isinstance(flat, FlatSeparators) or not isinstance(tables, FlatTables):
        return None
    proof = Separators(flat.nodes, flat.ptr, flat.members, tables.ptr)
    gap, error, value, status = elimination_proof.evaluate(term_arrays(problem), proof, tables.values, labels, UNIT, LARGEST)
    if status or not math.isfinite(gap):
        return None
    room = error + score_rounding(problem, labels) + problem.n_nodes * UNIT * abs(value)
    if not abs(centred_score(problem, labels) - value) <= room:
        return None
    above = up(gap * (1 + 4 * UNIT * (problem.n_nodes + 2))) if gap > 0 else 0.0
    return Evaluation(raised_score(problem, labels, above), above, error)
