r"""toulbar2's ``.wcsp``: minimise a sum of integer cost functions; read as ``score = -cost``.

Layout: ``name n_variables max_domain n_functions top``, the domain sizes, then per function
``arity v1 .. vk default n_tuples`` and per tuple ``a1 .. ak cost``. A cost of ``top`` or more forbids its tuple (score
``-inf``); that a solution must cost less than ``top`` in all is *not* part of the problem read. A negative arity defines
a shared function, a negative number of tuples ``-i`` reuses the ``i``-th one. Functions of three or more variables are factors: dense tables
where they have few entries, lists of tuples otherwise. A default cost of -1 and a keyword stand for a global or arithmetic cost function;
`maxsum.core.files.global_costs` says which, others are refused by name.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from ..factors import SparseTable
from ..problem import Problem
from ..validation import EXACT
from .build import DENSE_CELLS, Builder, named, product
from .global_costs import ALL_DIFFERENT, AMONG, ARITHMETIC, COUNTS, Bounds, Globals
from .text import Limits, Stream, Tokens, shown

_INT64 = 2**63 - 1  # the largest whole number that the reader of tokens takes


class _Costs(NamedTuple):
    """Scores of a function in extension; ``number`` is its table in the bank if it has two variables, ``sparse`` holds one of many more."""

    shape: tuple[int, ...]
    default: int
    scores: np.ndarray
    number: int
    sparse: SparseTable | None = None


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
        self._globals = _Globals(tokens, builder, top, n_nodes)

    def function(self, i: int) -> None:
        tokens = self._tokens
        arity = tokens.integer(f"the arity of function {i}", low=-self._n_nodes, high=self._n_nodes)
        share, arity = arity < 0, abs(arity)
        scope = tuple(tokens.integer(f"a variable of function {i}", low=0, high=self._n_nodes - 1) for _ in range(arity))
        if len(set(scope)) < arity:
            tokens.fail(f"function {i} names a variable twice (variables {named(scope)}).")
        default = tokens.integer(f"the default cost of function {i}", low=-EXACT)
        if default == -1:
            return self._globals.read(i, scope)
        n_tuples = tokens.integer(f"the number of tuples of function {i}", low=-len(self._shared))
        costs = self._reuse(i, scope, default, n_tuples) if n_tuples < 0 else self._tuples(i, scope, default, n_tuples)
        if share:
            self._shared.append(costs)
        if costs.sparse is not None:
            self.builder.factor(scope, costs.sparse)
        elif arity == 2:
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
            [size - 1 for size in shape] + [_INT64],
        ).reshape(n_tuples, arity + 1)
        key = (shape, default, blake2b(rows.tobytes()).digest())
        if key in self._known:
            return self._known[key]
        cost = rows[:, arity]
        forbidden = cost >= self._top if self._top < 2**63 else np.zeros(n_tuples, dtype=bool)
        large = cost[~forbidden & (cost > EXACT)]
        if len(large):
            self._inexact(i, int(large[0]))
        scores = np.where(forbidden, -np.inf, 0.0 - cost)
        cells = product(shape)
        if arity > 2 and cells > max(DENSE_CELLS, rows.size):
            costs = self._sparse(i, scope, default, rows, scores)
        else:
            costs = self._dense(i, scope, default, rows, scores, cells)
        self._known[key] = costs
        return costs

    def _dense(self, i: int, scope: tuple[int, ...], default: int, rows: np.ndarray, scores: np.ndarray, cells: int) -> _Costs:
        shape, arity = self.builder.shape(scope), len(scope)
        self.builder.spend(cells)
        table = np.full(cells, self._score(i, default))
        index = np.zeros(len(rows), dtype=np.int64)
        for column, size in enumerate(shape):  # numpy's own function takes 32 axes at most
            index = index * size + rows[:, column]
        table[index] = scores
        if not np.array_equal(table[index], scores):
            self._two_costs(i, scope, rows[int(np.flatnonzero(table[index] != scores)[0])])
        number = self.builder.table(table.reshape(shape), spent=True) if arity == 2 else -1
        return _Costs(shape, default, table, number)

    def _sparse(self, i: int, scope: tuple[int, ...], default: int, rows: np.ndarray, scores: np.ndarray) -> _Costs:
        tuples, first, where = np.unique(rows[:, :-1], axis=0, return_index=True, return_inverse=True)
        different = scores != scores[first][where.reshape(-1)]
        if different.any():
            self._two_costs(i, scope, rows[int(np.argmax(different))])
        table = self.builder.sparse(scope, tuples, scores[first], self._score(i, default))
        return _Costs(self.builder.shape(scope), default, np.zeros(0), -1, table)

    def _two_costs(self, i: int, scope: tuple[int, ...], row: np.ndarray) -> None:
        self._tokens.fail(
            f"function {i} (variables {named(scope)}) gives the tuple ({named(row[:-1].tolist())}) two different costs."
        )

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


class _Globals:
    """Reads what follows the keyword of a global or arithmetic cost function."""

    def __init__(self, tokens: Tokens, builder: Builder, top: int, n_nodes: int):
        self._tokens = tokens
        self._n_nodes = n_nodes
        self._top = top
        self._post = Globals(builder, lambda cost: cost >= top, tokens.fail)

    def read(self, i: int, scope: tuple[int, ...]) -> None:
        keyword = self._tokens.next(f"the keyword of function {i}").decode("utf-8", "replace")
        title = f"function {i} ({keyword})" if keyword.isalnum() and len(keyword) < 20 else f"function {i}"
        known = {name for name, _ in (*ALL_DIFFERENT, *COUNTS, *AMONG)}
        if keyword in ARITHMETIC:
            if len(scope) != 2:
                self._tokens.fail(f"{title} is {shown(keyword)} of {len(scope)} variables, wanted 2.")
            self._post.arithmetic(title, scope, keyword, [self._number(title) for _ in range(ARITHMETIC[keyword])])
        elif not scope:
            self._tokens.fail(f"{title} is {shown(keyword)} of no variables.")
        elif keyword in known:
            self._counting(title, keyword, scope)
        elif keyword in ("wsum", "wvarsum", "wvaramong"):
            self._sum(title, keyword, scope)
        elif keyword in ("knapsack", "knapsackc", "knapsackp", "knapsackv"):
            self._knapsack(title, keyword, scope)
        elif keyword == "clique":
            self._tokens.integer(f"the right-hand side of {title}", low=1, high=1)
            self._post.at_most_one(title, scope, [(place, self._list(title)) for place in range(len(scope))])
        else:
            self._tokens.fail(
                f"function {i} (variables {named(scope)}) is the global cost function {shown(keyword)} of arity {len(scope)}, which is not "
                "read; write it with tables, or with one of " + ", ".join([*sorted(known), "wsum, knapsackp, clique."])
            )

    def _number(self, title: str, low: int = -EXACT) -> int:
        return self._tokens.integer(f"a number of {title}", low=low, high=_INT64)

    def _cost(self, title: str) -> float:
        cost = self._number(title, low=0)
        if EXACT < cost < self._top:
            self._tokens.fail(f"{title} has the cost {cost}, which a float64 cannot hold exactly (largest: 2**53).")
        return float(cost)

    def _word(self, what: str) -> str:
        return self._tokens.next(what).decode("utf-8", "replace")

    def _list(self, title: str) -> list[int]:
        n = self._tokens.integer(f"the number of values of {title}", low=0)
        return self._tokens.integers(n, (f"a value of {title}",), (0,), (_INT64,)).tolist()

    def _counting(self, title: str, keyword: str, scope: tuple[int, ...]) -> None:
        metric = self._word(f"the measure of {title}")
        if any(keyword == name for name, _ in ALL_DIFFERENT):
            measure = self._post.measure(ALL_DIFFERENT, keyword, metric, title)
            return self._post.all_different(title, scope, measure, self._cost(title))
        if any(keyword == name for name, _ in COUNTS):
            measure = self._post.measure(COUNTS, keyword, metric, title)
            cost = self._cost(title)
            n, width = self._tokens.integer(f"the number of values of {title}", low=0), 5 if measure == "weights" else 3
            names = ("a value", "a lower bound", "an upper bound", "a weight of shortage", "a weight of excess")[:width]
            rows = self._tokens.integers(
                n * width, [f"{name} of {title}" for name in names], (0, *[-EXACT] * 2, 0, 0)[:width], [_INT64] * width
            )
            bounds = [Bounds(*row[:3], *map(float, row[3:])) for row in rows.reshape(n, width).tolist()]
            return self._post.cardinalities(title, scope, bounds, measure, cost)
        measure = self._post.measure(AMONG, keyword, metric, title)
        cost = self._cost(title)
        if keyword == "wamong":
            values, low, high = self._list(title), self._number(title), self._number(title)
        else:
            low, high, values = self._number(title), self._number(title), self._list(title)
        self._post.among(title, scope, values, low, high, measure, cost)

    def _sum(self, title: str, keyword: str, scope: tuple[int, ...]) -> None:
        metric = self._word(f"the measure of {title}")
        if metric not in (("hard", "lin", "quad") if keyword == "wsum" else ("hard",)):
            self._tokens.fail(
                f"{title} has the measure {shown(metric)}, wanted {'hard, lin or quad' if keyword == 'wsum' else 'hard'}."
            )
        cost = self._cost(title)
        weights = self._post.values_as_weights(scope)
        if keyword == "wvaramong":
            values = self._list(title)
            weights[:-1] = [np.isin(row, values).astype(np.int64) for row in weights[:-1]]
            comparator, to = "==", 0
        else:
            comparator = self._word(f"the comparator of {title}")
            to = self._number(title) if keyword == "wsum" else 0
        if keyword != "wsum":
            weights[-1] = -weights[-1]
        self._post.compared(title, scope, weights, comparator, to, metric, cost)

    def _knapsack(self, title: str, keyword: str, scope: tuple[int, ...]) -> None:
        capacity = self._number(title)
        n = len(scope)
        listed = []
        if keyword == "knapsack":
            listed = [(i, 1, self._number(title)) for i in range(n)]
        elif keyword == "knapsackv":
            place = {v: i for i, v in enumerate(scope)}
            for _ in range(self._tokens.integer(f"the number of triplets of {title}", low=0)):
                listed.append((self._place(title, place), self._number(title), self._number(title)))
        else:
            for i in range(n):
                for _ in range(self._tokens.integer(f"the number of values of {title}", low=0)):
                    listed.append((i, self._number(title), self._number(title)))
        self._post.weighted(title, scope, listed, capacity)
        for _ in range(self._tokens.integer(f"the number of lists of {title}", low=0) if keyword == "knapsackc" else 0):
            self._post.at_most_one(title, scope, self._pairs(title, scope))

    def _pairs(self, title: str, scope: tuple[int, ...]) -> list[tuple[int, list[int]]]:
        place = {v: i for i, v in enumerate(scope)}
        chosen: dict[int, list[int]] = {}
        for _ in range(self._tokens.integer(f"the number of variables of a list of {title}", low=0)):
            chosen.setdefault(self._place(title, place), []).append(self._number(title))
        return list(chosen.items())

    def _place(self, title: str, place: dict[int, int]) -> int:
        v = self._tokens.integer(f"a variable of {title}", low=0, high=self._n_nodes - 1)
        if v not in place:
            self._tokens.fail(f"{title} names variable {v}, which is not in its scope.")
        return place[v]
