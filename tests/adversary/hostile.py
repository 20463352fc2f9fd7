"""Problems that are meant to break proofs, small enough to be enumerated in rational numbers."""

from __future__ import annotations

import numpy as np
from reference.functions import random_factors

import maxsum as ms

KINDS = (
    "mixed scales",
    "one scale",
    "huge offset",
    "constraints",
    "out of reach",
    "ties",
    "denormals",
    "near 2**53",
    "cancelling",
    "weights",
    "hard",
)


def hostile_problem(rng: np.random.Generator, kind: str | None = None) -> tuple[str, ms.Problem]:
    """A problem and the kind of trouble in it."""
    kind = str(rng.choice(KINDS)) if kind is None else kind
    graph = (
        ms.Graph.chain(int(rng.integers(2, 6))),
        ms.Graph.grid(2, int(rng.integers(2, 4))),
        ms.Graph.complete(int(rng.integers(2, 5))),
    )[rng.integers(3)]
    size = int(rng.integers(1, 4)) if graph.n_nodes < 6 else 2
    n, e = graph.n_nodes, graph.n_edges
    unary, tables = rng.normal(size=(n, size)), rng.normal(size=(e, size, size))
    weight, offset, cliques = np.ones(e), 0.0, []
    if rng.random() < 0.3:
        cliques = [(rng.choice(n, size=min(n, 3), replace=False), rng.random(size)) for _ in range(2)]
    if kind == "mixed scales":
        unary *= 10.0 ** rng.integers(-300, 99, size=unary.shape)
        tables *= 10.0 ** rng.integers(-300, 99, size=(e, 1, 1))
    elif kind == "one scale":
        scale = 10.0 ** float(rng.integers(-300, 98))
        unary, tables, cliques = unary * scale, tables * scale, [(nodes, w * scale) for nodes, w in cliques]
    elif kind == "huge offset":
        offset = float(rng.normal() * 10.0 ** rng.integers(3, 99))
    elif kind == "constraints":
        tables = np.broadcast_to(-(10.0 ** rng.integers(9, 17)) * np.eye(size), (e, size, size)).copy()
    elif kind == "out of reach":
        unary[0, 0] = -np.inf if size > 1 else 0.0
        cliques = [(np.arange(min(n, 3)), np.array([10.0 ** rng.integers(6, 99), *rng.random(size - 1)]))]
        if rng.random() < 0.5:
            tables[0, 0] = -(10.0 ** rng.integers(6, 99))
    elif kind == "ties":
        scale = 10.0 ** float(rng.integers(-12, 12))
        unary, tables = rng.integers(0, 2, size=unary.shape) * scale, rng.integers(0, 2, size=tables.shape) * scale
    elif kind == "denormals":
        unary, tables = unary * 1e-310, tables * 10.0 ** rng.integers(-320, -300)
        cliques = []
    elif kind == "near 2**53":
        unary = 2.0**53 - rng.integers(0, 9, size=unary.shape)
        tables = np.where(rng.random(tables.shape) < 0.5, 2.0**52, -(2.0**52)) + rng.integers(-3, 4, size=tables.shape)
        cliques = [(nodes, np.round(9 * w)) for nodes, w in cliques]
    elif kind == "cancelling":
        large = rng.normal(size=(2, e, size)) * 10.0 ** rng.integers(3, 14)
        for side in range(2):
            np.subtract.at(unary, graph.edges[:, side], large[side])
        tables = tables + large[0][:, :, None] + large[1][:, None, :]
    elif kind == "weights":
        weight = rng.normal(size=e) * 10.0 ** rng.integers(-150, 40, size=e)
    elif kind == "hard":
        tables[rng.random(tables.shape) < 0.3] = -np.inf
    return kind, ms.Problem(graph, unary, tables, edge_weight=weight, cliques=cliques or None, offset=offset)


def with_factors(rng: np.random.Generator, problem: ms.Problem) -> ms.Problem:
    """The problem with some factors: tables, counts and constraints of any kind, with scores of the size of its own, or of any size."""
    found = []
    numbers = np.abs(problem.unary[np.isfinite(problem.unary) & (problem.unary != 0)])
    own = float(np.median(numbers)) if numbers.size else 1.0
    for nodes, function in random_factors(
        rng, problem.n_states.tolist(), int(rng.integers(1, 4)), hard=float(rng.choice([0, 0.2]))
    ):
        scale = min(own, 1e98) if rng.random() < 0.7 else 10.0 ** float(rng.integers(-300, 98))
        whole, scores = function.encode()
        with np.errstate(under="ignore"):
            found.append((nodes, type(function).decode(whole, scores * scale)))
    cliques = problem.cliques if rng.random() < 0.3 and len(problem.cliques) else None
    return ms.Problem(
        problem.graph, problem.unary, problem.tables, problem.edge_table, problem.edge_weight, problem.n_states, cliques,
        problem.offset, found,
    )  # fmt: skip
