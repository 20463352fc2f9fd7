"""Small random problems of every kind, by family and seed, with the raw inputs that they were made from."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from maxsum import Graph, Problem
from maxsum.factors import AllDifferent

from .enumeration import Raw
from .functions import every_score, random_factors, random_function, written_out

Edges = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, and what it should be."""

    family: str
    seed: int
    problem: Problem
    raw: Raw

    def __repr__(self) -> str:
        return f"{self.family}[{self.seed}]"


def build(
    unary: Sequence[np.ndarray],
    edges: Edges = (),  # type: ignore[assignment]
    tables: Sequence[np.ndarray] = (),
    weights: Sequence[float] | None = None,
    cliques: Sequence[tuple[tuple[int, ...], np.ndarray]] = (),
    offset: float = 0.0,
    how: dict[str, Any] | None = None,
    factors: Sequence[tuple[Sequence[int], Any]] = (),
) -> tuple[Problem, Raw]:
    """Problem and raw inputs; ``how`` replaces the table arguments of `Problem` (a shared table, a bank, ...)."""
    factor = [1.0] * len(edges) if weights is None else [float(w) for w in weights]
    written = [
        (tuple(int(v) for v in nodes), written_out(function, [len(unary[v]) for v in nodes]), every_score(function))
        for nodes, function in factors
    ]
    raw = Raw(list(unary), list(edges), list(tables), factor, list(cliques), offset, written)
    graph = Graph.from_edges(np.array(edges, dtype=int).reshape(-1, 2), len(unary))
    arguments = how if how is not None else dict(tables=list(tables) if len(edges) else None)
    rows: Any = list(unary) if len(unary) else np.zeros((0, 2))
    more = dict(cliques=cliques or None, offset=offset, factors=list(factors) or None)
    return Problem(graph, rows, **arguments, edge_weight=weights, **more), raw


# ---- graphs ----------------------------------------------------------------------------------------------------


def tree_edges(rng: np.random.Generator, n: int) -> Edges:
    return [(int(rng.integers(v)), v) for v in range(1, n)]


def chain_edges(n: int) -> Edges:
    return [(v, v + 1) for v in range(n - 1)]


def grid_edges(height: int, width: int, diagonals: bool = False) -> Edges:
    return [(int(u), int(v)) for u, v in Graph.grid(height, width, 8 if diagonals else 4).edges]


def complete_edges(n: int) -> Edges:
    return [(u, v) for u in range(n) for v in range(u + 1, n)]


def random_edges(rng: np.random.Generator, n: int, density: float) -> Edges:
    return [e for e in complete_edges(n) if rng.random() < density]


def shuffle(rng: np.random.Generator, edges: Edges) -> Edges:
    """Random order and random orientation."""
    turned = [(v, u) if rng.random() < 0.5 else (u, v) for u, v in edges]
    return [turned[i] for i in rng.permutation(len(turned))]


def _normal(rng: np.random.Generator, states: Sequence[int], edges: Edges) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [rng.normal(size=k) for k in states], [rng.normal(size=(states[u], states[v])) for u, v in edges]


def _general(rng: np.random.Generator, edges: Edges, states: Sequence[int]) -> tuple[Problem, Raw]:
    edges = shuffle(rng, edges)
    unary, tables = _normal(rng, states, edges)
    return build(unary, edges, tables)


def _scaled(rng: np.random.Generator, scale: float) -> tuple[Problem, Raw]:
    n = int(rng.integers(2, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    unary, tables = _normal(rng, [3] * n, edges)
    return build([scale * row for row in unary], edges, [scale * t for t in tables])


# ---- families --------------------------------------------------------------------------------------------------

FAMILIES: dict[str, Callable[[np.random.Generator], tuple[Problem, Raw]]] = {}


def family(function: Callable[[np.random.Generator], tuple[Problem, Raw]]) -> Callable:
    FAMILIES[function.__name__] = function
    return function


@family
def chain(rng):
    n = int(rng.integers(2, 6))
    return _general(rng, chain_edges(n), [int(rng.integers(2, 4))] * n)


@family
def tree(rng):
    n = int(rng.integers(3, 7))
    return _general(rng, tree_edges(rng, n), [3 if n < 6 else 2] * n)


@family
def forest_with_isolated_nodes(rng):
    n = int(rng.integers(4, 8))
    edges = [e for e in tree_edges(rng, n) if rng.random() < 0.5]
    return _general(rng, edges, [2] * n)


def _grid(rng, diagonals):
    height, width = (3, 3) if rng.random() < 0.3 else (2, int(rng.integers(2, 4)))
    states = 2 if height == 3 else 3
    return _general(rng, grid_edges(height, width, diagonals), [states] * (height * width))


@family
def grid4(rng):
    return _grid(rng, False)


@family
def grid8(rng):
    return _grid(rng, True)


@family
def complete(rng):
    n = int(rng.integers(3, 6))
    return _general(rng, complete_edges(n), [3 if n < 5 else 2] * n)


@family
def one_node(rng):
    return build([rng.normal(size=int(rng.integers(1, 5)))], offset=float(rng.normal()))


@family
def no_edges(rng):
    return build([rng.normal(size=3) for _ in range(int(rng.integers(2, 6)))])


@family
def no_nodes(rng):
    return build([], offset=float(rng.normal()))


@family
def unequal_label_counts(rng):
    n = int(rng.integers(2, 6))
    states = [int(k) for k in rng.integers(1, 5, size=n)]
    return _general(rng, random_edges(rng, n, 0.6), states)


@family
def ties(rng):
    n = int(rng.integers(2, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    unary = [rng.integers(-1, 2, size=3).astype(float) for _ in range(n)]
    return build(unary, edges, [rng.integers(-1, 2, size=(3, 3)).astype(float) for _ in edges])


@family
def whole_numbers(rng):
    """Dense and frustrated, so that relaxations leave a gap which whole scores close partly."""
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, complete_edges(n))
    unary = [rng.integers(-2, 3, size=2).astype(float) for _ in range(n)]
    return build(unary, edges, [float(rng.integers(1, 6)) * (1 - np.eye(2)) for _ in edges], offset=float(rng.integers(9)))


@family
def zeros(rng):
    n = int(rng.integers(1, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    return build([np.zeros(3)] * n, edges, [np.zeros((3, 3))] * len(edges))


def _forbid(rng, unary, tables, share):
    for row in unary:
        row[rng.random(row.shape) < share] = -np.inf
        if np.isneginf(row).all():
            row[rng.integers(len(row))] = rng.normal()
    for table in tables:
        table[rng.random(table.shape) < share] = -np.inf


@family
def hard_feasible(rng):
    n = int(rng.integers(2, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    unary, tables = _normal(rng, [3] * n, edges)
    _forbid(rng, unary, tables, 0.3)
    hidden = [int(k) for k in rng.integers(3, size=n)]
    for row, k in zip(unary, hidden, strict=True):
        row[k] = rng.normal()
    for (u, v), table in zip(edges, tables, strict=True):
        table[hidden[u], hidden[v]] = rng.normal()
    return build(unary, edges, tables)


@family
def hard_random(rng):
    n = int(rng.integers(2, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.7))
    unary, tables = _normal(rng, [3] * n, edges)
    _forbid(rng, unary, tables, 0.5)
    return build(unary, edges, tables)


@family
def hard_tree(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, tree_edges(rng, n))
    unary, tables = _normal(rng, [3] * n, edges)
    _forbid(rng, unary, tables, 0.4)
    return build(unary, edges, tables)


@family
def infeasible_colouring(rng):
    """Too few colours for an odd cycle or a complete graph: arc consistency alone does not see it."""
    colours = int(rng.integers(2, 4))
    n = colours + 1
    unary, _ = _normal(rng, [colours] * n, [])
    edges = shuffle(rng, complete_edges(n))
    return build(unary, edges, [np.where(np.eye(colours, dtype=bool), -np.inf, 0.0)] * len(edges))


@family
def shared_table(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    table = rng.normal(size=(3, 3))
    return build([rng.normal(size=3) for _ in range(n)], edges, [table] * len(edges), how=dict(tables=table))


@family
def bank_of_tables(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    bank, number = rng.normal(size=(3, 3, 3)), rng.integers(3, size=len(edges))
    how = dict(tables=bank, edge_table=number)
    return build([rng.normal(size=3) for _ in range(n)], edges, [bank[t] for t in number], how=how)


@family
def edge_weights(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.7))
    table = rng.normal(size=(3, 3))
    weights = np.where(rng.random(len(edges)) < 0.2, 0.0, rng.normal(size=len(edges)))
    unary = [rng.normal(size=3) for _ in range(n)]
    return build(unary, edges, [table] * len(edges), weights=list(weights), how=dict(tables=table))


def _supermodular_table(rng, k, m):
    """Minus the sum of a random non-negative "density": every 2 x 2 minor is non-negative."""
    table = np.cumsum(np.cumsum(rng.exponential(size=(k, m)), axis=0), axis=1)
    return table + rng.normal(size=(k, 1)) * 2 + rng.normal(size=(1, m)) * 2


@family
def binary_supermodular(rng):
    n = int(rng.integers(3, 8))
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    return build([2 * rng.normal(size=2) for _ in range(n)], edges, [_supermodular_table(rng, 2, 2) for _ in edges])


@family
def ordered_supermodular(rng):
    n = int(rng.integers(3, 6))
    states = [3] * n if rng.random() < 0.5 else [int(k) for k in rng.integers(1, 5, size=n)]
    edges = shuffle(rng, random_edges(rng, n, 0.7))
    unary = [3 * rng.normal(size=k) for k in states]
    return build(unary, edges, [_supermodular_table(rng, states[u], states[v]) for u, v in edges])


@family
def supermodular_with_hard_bands(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.7))
    distance = np.abs(np.arange(3)[:, None] - np.arange(3))
    table = np.where(distance > 1, -np.inf, -1.0 * distance)
    unary = [2 * rng.normal(size=3) for _ in range(n)]
    return build(unary, edges, [table] * len(edges), how=dict(tables=table))


@family
def potts(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.7))
    weights, table = list(rng.exponential(size=len(edges))), np.eye(3)
    unary = [rng.normal(size=3) for _ in range(n)]
    return build(unary, edges, [table] * len(edges), weights=weights, how=dict(tables=table))


@family
def associative(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.7))
    return build([rng.normal(size=3) for _ in range(n)], edges, [np.diag(rng.exponential(size=3)) for _ in edges])


def _cliques(rng, n, labels):
    found = []
    for _ in range(int(rng.integers(1, 5))):
        nodes = rng.choice(n, size=int(rng.integers(1, min(n, 4) + 1)), replace=False)
        found.append((tuple(int(v) for v in nodes), rng.exponential(size=labels)))
    return found


@family
def cliques_binary(rng):
    n = int(rng.integers(3, 7))
    return build([rng.normal(size=2) for _ in range(n)], cliques=_cliques(rng, n, 2))


@family
def cliques_binary_with_supermodular_edges(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.5))
    unary = [2 * rng.normal(size=2) for _ in range(n)]
    return build(unary, edges, [_supermodular_table(rng, 2, 2) for _ in edges], cliques=_cliques(rng, n, 2))


@family
def cliques_three_labels(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.4))
    unary, tables = _normal(rng, [3] * n, edges)
    return build(unary, edges, tables, cliques=_cliques(rng, n, 3))


@family
def cliques_hard(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.4))
    unary, tables = _normal(rng, [3] * n, edges)
    _forbid(rng, unary, tables, 0.25)
    return build(unary, edges, tables, cliques=_cliques(rng, n, 3))


@family
def cliques_unequal(rng):
    n = int(rng.integers(3, 6))
    states = [int(k) for k in rng.integers(1, 4, size=n)]
    states[0] = 3
    edges = shuffle(rng, random_edges(rng, n, 0.4))
    unary, tables = _normal(rng, states, edges)
    return build(unary, edges, tables, cliques=_cliques(rng, n, 3))


@family
def single_label(rng):
    n = int(rng.integers(1, 6))
    return _general(rng, random_edges(rng, n, 0.6), [1] * n)


@family
def scale_1e_minus_9(rng):
    return _scaled(rng, 1e-9)


@family
def scale_1e9(rng):
    return _scaled(rng, 1e9)


@family
def scale_1e12(rng):
    return _scaled(rng, 1e12)


@family
def constant_1e9_in_unaries(rng):
    n = int(rng.integers(2, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    unary, tables = _normal(rng, [3] * n, edges)
    return build([row + 1e9 for row in unary], edges, tables)


@family
def constant_1e9_in_tables(rng):
    """With unequal label counts: the padding of a table must not count as a score."""
    n = int(rng.integers(2, 6))
    states = [int(k) for k in rng.integers(2, 4, size=n)]
    edges = shuffle(rng, random_edges(rng, n, 0.6))
    unary, tables = _normal(rng, states, edges)
    return build(unary, edges, [table - 1e9 for table in tables])


@family
def one_huge_edge(rng):
    n = int(rng.integers(3, 6))
    edges = shuffle(rng, random_edges(rng, n, 0.8) or [(0, 1)])
    unary, tables = _normal(rng, [3] * n, edges)
    tables[0] = 1e12 * np.eye(3)
    return build(unary, edges, tables)


def _with_factors(
    rng: np.random.Generator, n_labels: int, hard: float, offset: float = 0.0, **options: Any
) -> tuple[Problem, Raw]:
    """Nodes of unequal label counts, some edges, and up to four factors."""
    n = int(rng.integers(3, 6))
    states = [min(int(k), n_labels) for k in rng.integers(1, n_labels + 3, size=n)]
    edges = shuffle(rng, random_edges(rng, n, 0.3))
    unary, tables = _normal(rng, states, edges)
    _forbid(rng, unary, tables, 0.1 if hard else 0.0)
    factors = random_factors(rng, states, int(rng.integers(1, 5)), hard=hard, **options)
    if options.get("whole"):
        unary, tables = [np.round(2 * row) for row in unary], [np.round(2 * table) for table in tables]
    return build(unary, edges, tables, offset=offset, factors=factors)


@family
def factor_tables(rng):
    """Dense and sparse tables of one to four nodes, with forbidden tuples in every second problem."""
    return _with_factors(rng, 3, float(rng.choice([0.0, 0.25])), kind=int(rng.integers(2)))


@family
def factors_mixed(rng):
    """Every kind of function, whole numbers in a third; about every fifth problem is infeasible."""
    whole = bool(rng.random() < 0.3)
    return _with_factors(rng, 4, 0.1, offset=float(rng.integers(9)) if whole else float(rng.normal()), whole=whole)


@family
def factor_counts(rng):
    """Scores of counts, of two labels or more, without edges: one count of all nodes, and one of some."""
    n, k = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    factors = [(range(n), random_function(rng, [k] * n, 3)), *random_factors(rng, [k] * n, 1, kind=3)]
    return build([rng.normal(size=k) for _ in range(n)], factors=factors)


@family
def factors_all_different(rng):
    """An assignment, with a count of one of its labels or an edge beside it."""
    n = int(rng.integers(2, 5))
    k = n + int(rng.integers(0, 2))
    edges = shuffle(rng, random_edges(rng, n, 0.3))
    unary, tables = _normal(rng, [k] * n, edges)
    return build(unary, edges, tables, factors=[(rng.permutation(n), AllDifferent())])


@lru_cache(maxsize=4096)
def make(name: str, seed: int) -> Case:
    """The case of a family with a seed; the same every time."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    return Case(name, seed, *FAMILIES[name](rng))
