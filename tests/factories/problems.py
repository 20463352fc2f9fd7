"""Random problems for tests. Equal seeds give equal problems; a generator in place of a seed goes on from where it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from reference.enumeration import Raw
from reference.families import Edges, build, random_edges, shuffle
from reference.functions import random_factors

import maxsum as ms

Seed = int | np.random.Generator
Table = Callable[[np.random.Generator, int, int], np.ndarray]


def normal(rng: np.random.Generator, rows: int, cols: int) -> np.ndarray:
    return rng.normal(size=(rows, cols))


def associative(rng: np.random.Generator, rows: int, cols: int) -> np.ndarray:
    """Equal labels gain, each as much as it likes."""
    return np.diag(rng.exponential(size=min(rows, cols)))


def supermodular(rng: np.random.Generator, rows: int, cols: int, sparse: float = 0.4) -> np.ndarray:
    """Ordered labels; the share ``sparse`` of the 2 x 2 minors is zero."""
    bend = rng.random((rows, cols)) * (rng.random((rows, cols)) > sparse)
    bend[0], bend[:, 0] = 0.0, 0.0
    return bend.cumsum(axis=0).cumsum(axis=1) + rng.normal(size=(rows, 1)) + rng.normal(size=(1, cols))


def random_case(
    seed: Seed,
    n_nodes: int | tuple[int, int] = 6,
    n_labels: int | tuple[int, int] = 3,
    *,
    density: float = 0.5,
    edges: Edges | None = None,
    unequal: bool = False,
    table: Table = normal,
    shared: bool = False,
    hard: float = 0.0,
    forbidden: float = 0.0,
    weights: tuple[float, float] | None = None,
    cliques: int | Sequence[int] = (),
    whole: bool = False,
    scale: float = 1.0,
    constant: float = 0.0,
    offset: float = 0.0,
    factors: int = 0,
    kind: int | None = None,
) -> tuple[ms.Problem, Raw]:
    """A problem, and the raw numbers that it was made from.

    Parameters
    ----------
    n_nodes, n_labels
        A number, or the range (without its end) to draw it from.
    density, edges
        Share of all pairs that are edges; or the edges themselves. Their order and directions are random.
    unequal
        Nodes have from one to ``n_labels`` labels, the first node all of them.
    table, shared
        What draws a table; whether all edges have one and the same.
    hard, forbidden
        Share of forbidden entries of tables, and of forbidden labels (each node keeps one).
    weights
        Range of random weights of edges.
    cliques
        Sizes of cliques, or how many of random size.
    whole, scale, constant, offset
        Round all scores; multiply them; add a constant to each unary score; a constant of the problem.
    factors, kind
        How many factors, of which kind of function (`reference.functions.KINDS`, by number; any, if None). ``hard`` is theirs too; ``scale``
        is not.
    """
    rng = np.random.default_rng(seed)
    n, k = (own if isinstance(own, int | np.integer) else int(rng.integers(*own)) for own in (n_nodes, n_labels))
    pairs = shuffle(rng, random_edges(rng, n, density) if edges is None else edges)
    states = [int(own) for own in rng.integers(1, k + 1, size=n)] if unequal else [k] * n
    states[:1] = [k] * min(n, 1)

    unary = [rng.normal(size=own) for own in states]
    tables = [table(rng, states[u], states[v]) for u, v in (pairs[:1] if shared else pairs)]
    for own in tables:
        own[rng.random(own.shape) < hard] = -np.inf
    for row in unary:
        row[(rng.random(len(row)) < forbidden) & (np.arange(len(row)) != rng.integers(len(row)))] = -np.inf
    if whole:
        unary, tables = [np.round(row) for row in unary], [np.round(own) for own in tables]
    unary, tables = [scale * row + constant for row in unary], [scale * own for own in tables]

    sizes = rng.integers(1, n + 1, size=cliques) if isinstance(cliques, int) else cliques
    members = [(tuple(rng.choice(n, int(size), replace=False).tolist()), 2 * scale * rng.exponential(size=k)) for size in sizes]
    how = dict(tables=tables[0]) if shared and pairs else None
    tables = tables * len(pairs) if shared else tables
    drawn = None if weights is None else list(rng.uniform(*weights, size=len(pairs)))
    more = random_factors(rng, states, factors, hard=hard, kind=kind, whole=whole)
    return build(unary, pairs, tables, drawn, members, offset, how, more)


def random_problem(seed: Seed, *arguments: object, **options: object) -> ms.Problem:
    """The problem of `random_case`."""
    return random_case(seed, *arguments, **options)[0]  # type: ignore[arg-type]


def dense(n_nodes: int, n_labels: int, seed: Seed = 0, density: float = 1.0) -> ms.Problem:
    """Normal scores on a complete graph, or on a share of its edges: far from what relaxations can prove."""
    rng = np.random.default_rng(seed)
    pairs = np.stack(np.triu_indices(n_nodes, 1), axis=1)
    if density < 1:
        pairs = pairs[rng.random(len(pairs)) < density]
    return on_graph(ms.Graph.from_edges(pairs, n_nodes), n_labels, rng)


def on_graph(graph: ms.Graph, n_labels: int, seed: Seed = 0) -> ms.Problem:
    """Normal scores on a graph, a table for each edge."""
    rng = np.random.default_rng(seed)
    unary = rng.normal(size=(graph.n_nodes, n_labels))
    return ms.Problem(graph, unary, rng.normal(size=(graph.n_edges, n_labels, n_labels)) if graph.n_edges else None)


def random_messages(problem: ms.Problem, rng: np.random.Generator, scale: float = 1.0) -> ms.Messages:
    zero = problem.zero_messages()
    return ms.Messages(*(scale * rng.normal(size=part.shape) for part in zero))


def dense_problem(seed, hard=False, whole=False):
    """A dense random graph of 4 to 7 nodes with uneven numbers of labels and weights."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 8)), int(rng.integers(2, 4))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.85 or j == i + 1]
    states = rng.integers(1, k + 1, size=n)
    states[0] = k
    unary = np.where(np.arange(k) < states[:, None], rng.normal(size=(n, k)), -np.inf)
    tables = rng.normal(size=(len(pairs), k, k)) * rng.choice([1.0, 100.0])
    if hard:
        tables[rng.random(tables.shape) < 0.15] = -np.inf
    if whole:
        unary, tables = np.round(unary), np.round(tables)
    weight = np.ones(len(pairs)) if whole else rng.choice([0.5, 1.0, 2.0], size=len(pairs))
    return ms.Problem(ms.Graph.from_edges(pairs, n), unary, tables, edge_weight=weight, n_states=states)


def spin_glass(side, seed):
    rng = np.random.default_rng(seed)
    graph = ms.Graph.grid(side, side)
    return ms.Problem(
        graph, rng.normal(size=(side * side, 2)) * 0.1, np.eye(2), edge_weight=rng.choice([-1.0, 1.0], graph.n_edges)
    )
