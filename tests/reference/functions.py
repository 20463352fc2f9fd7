"""Functions of several nodes by their definitions, one labelling at a time, and random ones: no formula of the library is used."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxsum.core.factors import Table
from maxsum.factors import AllDifferent, Cardinality, Linear, SparseTable, at_least, at_most, exactly

KINDS = ("table", "sparse table", "all different", "cardinality", "linear")


def value(function: Any, labels: Sequence[int]) -> float:
    """The score of one labelling of its nodes, by the definition of the function."""
    if isinstance(function, SparseTable):
        listed = {tuple(row): score for row, score in zip(function.tuples.tolist(), function.scores.tolist(), strict=True)}
        return float(listed.get(tuple(labels), function.default))
    if isinstance(function, AllDifferent):
        return 0.0 if len(set(labels)) == len(labels) else -np.inf
    if isinstance(function, Cardinality):
        return float(function.scores[sum(k in function.labels for k in labels)])
    if isinstance(function, Linear):
        total = sum(int(row[k]) for row, k in zip(function.weights, labels, strict=True))
        return 0.0 if function.low <= total <= function.high else -np.inf
    return float((function.scores if isinstance(function, Table) else np.asarray(function, dtype=float))[tuple(labels)])


def every_score(function: Any) -> np.ndarray:
    """The finite scores that the function may take, at whatever nodes."""
    if isinstance(function, AllDifferent | Linear):
        return np.zeros(1)
    if isinstance(function, SparseTable):
        some = len(function.tuples) < np.prod(np.array(function.shape, dtype=float))
        scores = np.append(function.scores, [function.default] * bool(some))
    else:
        scores = (
            function.scores.ravel() if isinstance(function, Table | Cardinality) else np.asarray(function, dtype=float).ravel()
        )
    return scores[np.isfinite(scores)]


def written_out(function: Any, shape: Sequence[int]) -> np.ndarray:
    """The table of all scores, one axis a node."""
    rows = itertools.product(*map(range, shape))
    return np.array([value(function, [int(k) for k in row]) for row in rows]).reshape(tuple(shape))


def random_function(
    rng: np.random.Generator,
    shape: Sequence[int],
    kind: int | None = None,
    *,
    hard: float = 0.2,
    whole: bool = False,
) -> Any:
    """A function of nodes with these numbers of labels, of one of `KINDS` by number (any, if None).

    Parameters
    ----------
    hard
        Share of forbidden scores; the kinds that only forbid do so as they must.
    whole
        Whether scores are whole numbers.
    """
    kind, n = int(rng.integers(len(KINDS))) if kind is None else kind, len(shape)

    def scores(*size: int) -> np.ndarray:
        drawn = rng.normal(size=size)
        return np.where(rng.random(size) < hard, -np.inf, np.round(2 * drawn) if whole else drawn)

    if kind == 0:
        return Table(scores(*shape))
    if kind == 1:
        grid = np.indices(shape).reshape(n, -1).T
        rows = rng.permutation(grid)[: int(rng.integers(len(grid) + 1))]
        return SparseTable(shape, rows, scores(len(rows)), -np.inf if rng.random() < 2 * hard else float(scores(1)[0]))
    if kind == 2:
        return AllDifferent()
    if kind == 3:
        counted = rng.choice(max(shape) + 1, size=int(rng.integers(1, max(shape) + 1)), replace=False)
        if rng.random() < 0.4:
            limit = (at_most, at_least, exactly)[rng.integers(3)]
            return limit(range(n), int(rng.integers(n + 1)), counted)[1]
        return Cardinality(scores(n + 1), counted)
    weights = [rng.integers(-3, 4, size=size) for size in shape]
    middle = int(sum(rng.choice(row) for row in weights))
    low, high = middle - int(rng.integers(4)), middle + int(rng.integers(4))
    return Linear(weights, None if rng.random() < 0.2 else low, None if rng.random() < 0.2 else high)


def random_factors(
    rng: np.random.Generator, states: Sequence[int], n_factors: int, *, arity: int = 4, **options: Any
) -> list[tuple[np.ndarray, Any]]:
    """Factors of 1 to ``arity`` nodes, each node once in any order; some of them share a function."""
    found: list[tuple[np.ndarray, Any]] = []
    for _ in range(n_factors):
        nodes = rng.choice(len(states), size=int(rng.integers(1, min(arity, len(states)) + 1)), replace=False)
        shape = [int(states[v]) for v in nodes]
        alike = [own for some, own in found if [int(states[v]) for v in some] == shape]
        found.append((nodes, alike[-1] if alike and rng.random() < 0.3 else random_function(rng, shape, **options)))
    return found
