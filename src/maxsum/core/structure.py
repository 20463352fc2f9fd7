"""Facts about a problem that decide which solvers apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .certificates.elimination_order import elimination_order

if TYPE_CHECKING:
    from .problem import Problem

_WIDTH_NODES = 20_000  # nodes up to which the width is looked for: a min-fill order of more takes seconds
_WIDTH_LIMIT = 40  # width at which that is given up: 2^40 cells are beyond any junction tree
# Labels up to which all quadruples of a table with forbidden pairs are looked at, K^4 of them; larger tables count as
# violations.
_LATTICE_LABELS = 32


@dataclass(frozen=True)
class Witness:
    """An edge that breaks supermodularity: ``g(k,l) + g(k2,l2) - g(k,l2) - g(k2,l) = value < 0`` at these labels."""

    edge: int
    nodes: tuple[int, int]
    table: int
    labels: tuple[int, int, int, int]
    value: float

    def __str__(self) -> str:
        k, m, k2, m2 = self.labels
        return (
            f"edge {self.edge} (nodes {self.nodes[0]}-{self.nodes[1]}, table {self.table}) has "
            f"g({k},{m}) + g({k2},{m2}) - g({k},{m2}) - g({k2},{m}) = {self.value:.6g}"
        )


@dataclass(frozen=True)
class Structure:
    """What `Problem.structure` found.

    Attributes
    ----------
    forest : bool
        The graph has no cycle (factors left out of account).
    binary : bool
        No node has more than two labels.
    supermodular : bool
        Every table satisfies ``g(k,l) + g(k+1,l+1) >= g(k,l+1) + g(k+1,l)`` in the given order of labels.
    strictly_supermodular : bool
        The same with ``>``, beyond rounding, for tables without ``-inf``: then the solutions of the linear relaxation are the optimal
        labellings, and one that is unique has a strictly trivial equivalent (Franc & Savchynskyy 2008).
    witness : Witness or None
        Why it is not supermodular.
    associative : bool
        Every table is a constant plus a non-negative diagonal.
    potts : bool
        Associative, and each diagonal is constant.
    hard : bool
        Some label or pair is forbidden.
    width : int or None
        Width of a min-fill elimination order: an upper bound on the treewidth (of edges, cliques and factors together).
        None if it is above 40 or the graph has too many nodes to try.
    """

    n_nodes: int
    n_edges: int
    n_labels: int
    n_cliques: int
    n_components: int
    forest: bool
    binary: bool
    supermodular: bool
    strictly_supermodular: bool
    witness: Witness | None
    associative: bool
    potts: bool
    hard: bool
    width: int | None
    n_factors: int = 0


def analyse(problem: Problem) -> Structure:
    """All structure facts of a problem, computed anew; `Problem.structure` keeps them."""
    graph = problem.graph
    witness = supermodularity_witness(problem)
    associative, potts = _associative(problem)
    order = None
    if problem.n_nodes <= _WIDTH_NODES:
        order = elimination_order(problem, max_width=_WIDTH_LIMIT)
    return Structure(
        n_nodes=problem.n_nodes,
        n_edges=problem.n_edges,
        n_labels=problem.n_labels,
        n_cliques=len(problem.cliques),
        n_components=int(graph.components.max()) + 1 if graph.n_nodes else 0,
        forest=graph.is_forest,
        binary=problem.n_labels <= 2,
        supermodular=witness is None,
        strictly_supermodular=witness is None and _is_strict(problem),
        witness=witness,
        associative=associative,
        potts=potts,
        hard=problem.has_hard_constraints,
        width=None if order is None else order.width,
        n_factors=len(problem.factors),
    )


def supermodularity_witness(problem: Problem) -> Witness | None:
    """The first edge whose table is not supermodular, or None.

    For finite tables neighbouring labels suffice (Theorem 2 of the 2008 paper); rounding of the entries is forgiven.
    """
    if not problem.n_edges or problem.n_labels < 2:
        return None
    u, v = problem.graph.edges.T
    distinct, sign, sides = _distinct_edges(problem)
    hard = np.logical_or.reduce(np.isneginf(problem.tables), axis=(1, 2))[problem.edge_table[distinct]]
    bad = [_first_adjacent(problem, distinct[~hard], sign, sides), _first_lattice(problem, distinct[hard], sides)]
    found = [b for b in bad if b is not None]
    if not found:
        return None
    e, labels, value = min(found)
    nodes = (int(u[e]), int(v[e]))
    return Witness(e, nodes, int(problem.edge_table[e]), labels, value * abs(float(problem.edge_weight[e])))


def _distinct_edges(problem: Problem) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """One edge of each table, sign of weight and numbers of labels; signs of all weights; labels at both ends of all edges."""
    u, v = problem.graph.edges.T
    sign = np.sign(problem.edge_weight).astype(np.int64)
    sides = (problem.n_states[u].astype(np.int64), problem.n_states[v].astype(np.int64))
    n = problem.n_labels + 1
    code = ((problem.edge_table * 3 + sign + 1) * n + sides[0]) * n + sides[1]
    return np.sort(np.unique(code, return_index=True)[1]), sign, sides


def _is_strict(problem: Problem) -> bool:
    """Whether a supermodular problem is strictly so: no table with ``-inf``, and no second difference that rounding could hide."""
    if not problem.n_edges or problem.n_labels < 2:
        return True
    distinct, sign, sides = _distinct_edges(problem)
    if np.isneginf(problem.tables[problem.edge_table[distinct]]).any():
        return False
    return _first_adjacent(problem, distinct, sign, sides, strict=True) is None


Violation = tuple[int, tuple[int, int, int, int], float]


def _first_adjacent(
    problem: Problem, edges: np.ndarray, sign: np.ndarray, sides: tuple[np.ndarray, np.ndarray], strict: bool = False
) -> Violation | None:
    label = np.arange(problem.n_labels - 1)
    noise = 4 * np.finfo(float).eps
    size = max(1, (1 << 20) // problem.n_labels**2)
    for start in range(0, len(edges), size):
        part = edges[start : start + size]
        table = problem.tables[problem.edge_table[part]] * sign[part, None, None]
        corners = (table[:, :-1, :-1], table[:, 1:, 1:], table[:, :-1, 1:], table[:, 1:, :-1])
        excess = corners[0] + corners[1] - corners[2] - corners[3]
        own = (label[:, None] < sides[0][part, None, None] - 1) & (label < sides[1][part, None, None] - 1)
        rounding = noise * sum(np.abs(corner) for corner in corners)
        bad = own & ((excess <= rounding) if strict else (excess < -rounding))
        if bad.any():
            i = int(np.flatnonzero(bad.any(axis=(1, 2)))[0])
            k, m = np.unravel_index(np.argmin(np.where(bad[i], excess[i], 0.0)), excess[i].shape)
            return int(part[i]), (int(k), int(m), int(k) + 1, int(m) + 1), float(excess[i, k, m])
    return None


def _first_lattice(problem: Problem, edges: np.ndarray, sides: tuple[np.ndarray, np.ndarray]) -> Violation | None:
    for e in edges:
        found = _lattice_violation(problem.tables[problem.edge_table[e], : sides[0][e], : sides[1][e]])
        if found is not None:
            return int(e), *found
    return None


def _lattice_violation(table: np.ndarray) -> tuple[tuple[int, int, int, int], float] | None:
    """All label quadruples: with ``-inf`` the neighbours alone do not decide."""
    rows, cols = table.shape
    if max(rows, cols) > _LATTICE_LABELS:
        return (0, 0, rows - 1, cols - 1), -np.inf
    noise = 4 * np.finfo(float).eps
    for k in range(rows):
        for k2 in range(k + 1, rows):
            same = table[k][:, None] + table[k2][None, :]
            cross = table[k2][:, None] + table[k][None, :]
            low, high = np.triu_indices(cols, 1)
            kept, crossed = same[low, high], cross[low, high]
            size = np.abs(table[k2][low]) + np.abs(table[k][high]) + np.abs(table[k][low]) + np.abs(table[k2][high])
            bad = np.flatnonzero(kept < crossed - noise * np.where(np.isfinite(size), size, 0.0))
            if len(bad):
                value = kept[bad[0]] - crossed[bad[0]]
                return (k, int(low[bad[0]]), k2, int(high[bad[0]])), float(value)
    return None


def _associative(problem: Problem) -> tuple[bool, bool]:
    if not problem.n_edges or problem.n_labels < 2:
        return True, True
    if not (problem.n_states == problem.n_labels).all() or not np.isfinite(problem.tables).all():
        return False, False
    used, sign = np.unique(problem.edge_table), np.sign(problem.edge_weight)
    off = ~np.eye(problem.n_labels, dtype=bool)
    associative = potts = True
    for t in used:
        table = problem.tables[t]
        base = table[0, 1]
        if (table[off] != base).any():
            return False, False
        diagonal = np.diag(table) - base
        signs = sign[problem.edge_table == t]
        if ((signs > 0).any() and diagonal.min() < 0) or ((signs < 0).any() and diagonal.max() > 0):
            return False, False
        potts &= bool((diagonal == diagonal[0]).all())
    return associative, potts
