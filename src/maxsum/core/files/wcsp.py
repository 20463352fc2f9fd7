r"""toulbar2's ``.wcsp``: minimise a sum of integer cost functions; read as ``score = -cost``.

Layout: ``name n_variables max_domain n_functions top``, the domain sizes, then per function
``arity v1 .. vk default n_tuples`` and per tuple ``a1 .. ak cost``. A cost of ``top`` or more forbids its tuple (score
``-inf``); that a solution must cost less than ``top`` in all is *not* part of the problem read. A negative arity defines
a shared function, a negative number of tuples ``-i`` reuses the ``i``-th one. Global and arithmetic constraints (default
cost -1 and a keyword) are refused by name.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from ..problem import Problem
from ..validation import EXACT
from .build import Builder, named
from .text import Limits, Stream, Tokens, shown


class _Costs(NamedTuple):
    """Scores of a function in extension; ``number`` is its table in the bank if it has two variables."""

    shape: tuple[int, ...]
    default: int
    scores: np.ndarray
    number: int


def read(stream: Stream, limits: Limits) -> Problem:
    """Read a ``.wcsp`` file; see `maxsum.read_problem`."""
    tokens = Tokens(stream)
    tokens.next("the name of the problem")
    n_nodes = tokens.integer("the number of variables", low=0)
    tokens.integer("the largest domain size", low=0)
    n_functions = tokens.integer("the number of cost functions", low=0)
    top = tokens.integer("the upper bound", low=1)
    n_states = tokens.integers(n_nodes, ("a domain size",), (1,), (2**62,))
    reader = _Reader(tokens, Builder(n_states, limits, tokens.fail), n_nodes, top)
    for i in range(n_functions):
        reader.function(i)
    tokens.end("the last cost function")
    return reader.builder.problem(stream.path)


class _Reader:
    def __init__(self, tokens: Tokens, builder: Builder, n_nodes: int, top: int):
        self.builder = builder
        self._tokens = tokens
        self._n_nodes = n_nodes
        self._top = top
        self._shared: list[_Costs] = []
        self._known: dict[tuple[tuple[int, ...], int, bytes], _Costs] = {}

    def function(self, i: int) -> None:
        tokens = self._tokens
        arity = tokens.integer(f"the arity of function {i}", low=-self._n_nodes, high=self._n_nodes)
        share, arity = arity < 0, abs(arity)
        scope = tuple(tokens.integer(f"a variable of function {i}", low=0, high=self._n_nodes - 1) for _ in range(arity))
        if len(set(scope)) < arity:
            tokens.fail(f"function {i} names a variable twice (variables {named(scope)}).")
        default = tokens.integer(f"the default cost of function {i}", low=-EXACT)
        if default == -1:
            keyword = tokens.next(f"the keyword of function {i}")
            tokens.fail(
                f"function {i} (variables {named(scope)}) is the global or arithmetic constraint {shown(keyword)} of arity "
                f"{arity}; wanted functions in extension of at most 2 variables."
            )
        if arity > 2:
            tokens.fail(f"function {i} has arity {arity} (variables {named(scope)}); wanted at most 2 variables.")
        n_tuples = tokens.integer(f"the number of tuples of function {i}", low=-len(self._shared))
        costs = self._reuse(i, scope, default, n_tuples) if n_tuples < 0 else self._tuples(i, scope, default, n_tuples)
        if share:
            self._shared.append(costs)
        if arity == 2:
            self.builder.edge(scope, costs.number)
        else:
            self.builder.add(scope, costs.scores)

    def _reuse(self, i: int, scope: tuple[int, ...], default: int, n_tuples: int) -> _Costs:
        costs = self._shared[-n_tuples - 1]
        shape = self.builder.shape(scope)
        if costs.shape != shape or costs.default != default:
            self._tokens.fail(
                f"function {i} (domains {shape}, default cost {default}) reuses the shared function {-n_tuples}, "
                f"which has domains {costs.shape} and default cost {costs.default}."
            )
        return costs

    def _tuples(self, i: int, scope: tuple[int, ...], default: int, n_tuples: int) -> _Costs:
        shape, arity = self.builder.shape(scope), len(scope)
        rows = self._tokens.integers(
            n_tuples * (arity + 1),
            [f"the value of variable {v} in a tuple of function {i}" for v in scope] + [f"a cost of function {i}"],
            [0] * arity + [-EXACT],
            [size - 1 for size in shape] + [2**63 - 1],
        ).reshape(n_tuples, arity + 1)
        key = (shape, default, blake2b(rows.tobytes()).digest())
        if key in self._known:
            return self._known[key]
        cells = math.prod(shape)
        self.builder.spend(cells)
        table = np.full(cells, self._score(i, default))
        index = np.ravel_multi_index(tuple(rows[:, :arity].T), shape) if arity else np.zeros(n_tuples, dtype=np.int64)
        cost = rows[:, arity]
        forbidden = cost >= self._top if self._top < 2**63 else np.zeros(n_tuples, dtype=bool)
        large = cost[~forbidden & (cost > EXACT)]
        if len(large):
            self._inexact(i, int(large[0]))
        scores = np.where(forbidden, -np.inf, 0.0 - cost)
        table[index] = scores
        if not np.array_equal(table[index], scores):
            t = int(np.flatnonzero(table[index] != scores)[0])
            where = named(rows[t, :arity].tolist())
            self._tokens.fail(f"function {i} (variables {named(scope)}) gives the tuple ({where}) two different costs.")
        number = self.builder.table(table.reshape(shape), spent=True) if arity == 2 else -1
        costs = _Costs(shape, default, table, number)
        self._known[key] = costs
        return costs

    def _score(self, i: int, cost: int) -> float:
        if cost >= self._top:
            return -np.inf
        if cost > EXACT:
            self._inexact(i, cost)
        return 0.0 - cost

    def _inexact(self, i: int, cost: int) -> None:
        self._tokens.fail(
            f"function {i} has the cost {cost}, which a float64 cannot hold exactly (largest: 2**53) and which is below "
            f"the upper bound {self._top}."
        )
