"""Random functions and problems with factors for tests. Equal seeds give equal ones; a generator in place of a seed goes on from where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.core.factors import KINDS, Function

from .problems import Seed, random_problem


def random_function(
    seed: Seed, shape: Sequence[int], kind: int | None = None, *, hard: float = 0.2, whole: bool = False
) -> Function:
    """A function of nodes with these numbers of labels, of one of the kinds of `KINDS` (any, if None).

    Parameters
    ----------
    hard
        Share of forbidden scores; the kinds that only forbid do so as they must.
    whole
        Whether scores are whole numbers.
    """
    rng = np.random.default_rng(seed)
    kind = int(rng.integers(len(KINDS))) if kind is None else kind
    n = len(shape)

    def scores(*size: int) -> np.ndarray:
        own = rng.normal(size=size)
        return np.where(rng.random(size) < hard, -np.inf, np.round(2 * own) if whole else own)

    if kind == 0:
        return ms.factors.Table(scores(*shape))
    if kind == 1:
        grid = np.indices(shape).reshape(n, -1).T
        rows = rng.permutation(grid)[: int(rng.integers(len(grid) + 1))]
        return ms.factors.SparseTable(shape, rows, scores(len(rows)), -np.inf if rng.random() < 0.4 else float(scores(1)[0]))
    if kind == 2:
        return ms.factors.AllDifferent()
    if kind == 3:
        counted = rng.choice(max(shape) + 1, size=int(rng.integers(1, max(shape) + 1)), replace=False)
        return ms.factors.Cardinality(scores(n + 1), counted)
    weights = [rng.integers(-3, 4, size=size) for size in shape]
    middle = int(sum(rng.choice(row) for row in weights))
    low, high = middle - int(rng.integers(4)), middle + int(rng.integers(4))
    return ms.factors.Linear(weights, None if rng.random() < 0.2 else low, None if rng.random() < 0.2 else high)


def random_factors(
    seed: Seed, states: Sequence[int], n_factors: int, *, arity: int = 4, **options: Any
) -> list[tuple[np.ndarray, Function]]:
    """Factors of 1 to ``arity`` nodes, each node once in any order; some of them share a function."""
    rng = np.random.default_rng(seed)
    found: list[tuple[np.ndarray, Function]] = []
    for _ in range(n_factors):
        nodes = rng.choice(len(states), size=int(rng.integers(1, min(arity, len(states)) + 1)), replace=False)
        shape = [int(states[v]) for v in nodes]
        alike = [own for some, own in found if [int(states[v]) for v in some] == shape]
        found.append((nodes, alike[-1] if alike and rng.random() < 0.3 else random_function(rng, shape, **options)))
    return found


def factor_problem(
    seed: Seed, n_factors: int = 3, *, kind: int | None = None, hard: float = 0.15, **options: Any
) -> ms.Problem:
    """A small problem with nodes, edges and factors; ``options`` are those of `random_problem`.

    Unequal numbers of labels, offsets, weights of any sign and whole numbers occur, and about one in ten is infeasible.
    """
    rng = np.random.default_rng(seed)
    whole = bool(rng.random() < 0.3) if "whole" not in options else options.pop("whole")
    how: dict[str, Any] = dict(
        n_nodes=(2, 6), n_labels=(1, 4), density=float(rng.choice([0.0, 0.3, 0.6])), unequal=bool(rng.random() < 0.5), whole=whole,
        offset=float(rng.choice([0.0, 2.0, -1e6])), weights=None if whole or rng.random() < 0.5 else (-1.0, 1.0),
    )  # fmt: skip
    plain = random_problem(rng, **(how | options))
    factors = random_factors(rng, plain.n_states.tolist(), n_factors, hard=hard, kind=kind, whole=whole)
    return ms.Problem(
        plain.graph, plain.unary, plain.tables, plain.edge_table, plain.edge_weight, plain.n_states, None, plain.offset, factors
    )
