r"""Writes problems for toulbar2: ``.wcsp`` (whole, non-negative costs) and ``.cfn`` (decimals, any sign).

``cost = -score``. The upper bound is one more than the sum of the largest costs of all functions, so that it cuts nothing off, and what is
forbidden costs so much that the cheapest entries of all other functions cannot bring it below the bound. All-different is ``salldiff``, a linear inequality
``knapsackp`` (``.wcsp``) or ``knapsackv`` (``.cfn``), a count with bounds ``wamong``; other counts are tables if they have few entries.
Associative cliques are lists of tuples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..errors import InvalidParameterError, UnsupportedProblemError
from ..factors import AllDifferent, Cardinality, Function, Linear, SparseTable, Table
from ..problem import Problem
from ..validation import EXACT
from .build import counted, product
from .uai import MAX_TABLE, clique_tables

_MOST_DIGITS = 17  # of a cost of toulbar2, before and after the point: it refuses bounds of 6e17 (version 1.4), and cuts off further digits
_LARGEST_TOP = 10**_MOST_DIGITS
_SHARED_ARITY = 3  # variables of the functions that toulbar2 can share
_PRECISION = 15  # decimals that precision= may ask for


class _Tuples(NamedTuple):
    """A function by listed tuples (m, arity) with costs (m,), and the cost of the others; ``shared`` tells functions that are one."""

    scope: list[int]
    tuples: np.ndarray
    costs: np.ndarray
    default: float
    shared: Any = None

    @property
    def all_costs(self) -> np.ndarray:
        return np.append(self.costs, self.default)


class _Words(NamedTuple):
    """A global cost function: its keyword, its parameters, and its largest finite cost."""

    scope: list[int]
    keyword: str
    parameters: dict[str, Any]
    largest: float = 0.0


def _listed(scope: list[int], costs: np.ndarray, shared: Any = None) -> _Tuples:
    """A table as tuples that differ from its most frequent cost."""
    levels, count = np.unique(costs, return_counts=True)
    default = float(levels[np.argmax(count)])
    tuples = np.argwhere(costs != default)
    return _Tuples(scope, tuples, costs[tuple(tuples.T)], default, shared)


class _Problem:
    """The functions of a problem as costs."""

    def __init__(self, problem: Problem):
        self._problem = problem
        self.states: list[int] = problem.n_states.tolist()
        forms = [_among(0.0 - f.scores) for _, f in problem.factors.items() if isinstance(f, Cardinality)]
        self.constant = math.fsum([0.0 - problem.offset, *(form[-1] for form in forms if form is not None)])
        self._dense: dict[tuple[int, float, int, int], _Tuples] = {}

    def functions(self) -> Iterator[_Tuples | _Words]:
        """All functions, in the order in which they are written."""
        p = self._problem
        for v, size in enumerate(self.states):
            if p.unary[v, :size].any():
                yield _listed([v], 0.0 - p.unary[v, :size])
        for t, w, (u, v) in zip(p.edge_table.tolist(), p.edge_weight.tolist(), p.graph.edges.tolist(), strict=True):
            key = (t, w, self.states[u], self.states[v])
            if key not in self._dense:
                self._dense[key] = _listed([u, v], 0.0 - p.tables[t, : key[2], : key[3]] * w, key)
            yield self._dense[key]._replace(scope=[u, v])
        for f, (nodes, function) in enumerate(p.factors.items()):
            yield from self._factor(f"factor {f}", nodes.tolist(), function)
        for members, table in clique_tables(p):
            yield _sparse(members, table)

    def _factor(self, name: str, scope: list[int], function: Function) -> Iterator[_Tuples | _Words]:
        if isinstance(function, SparseTable):
            yield _sparse(scope, function)
        elif isinstance(function, AllDifferent):
            yield _Words(scope, "salldiff", {"metric": "var", "cost": math.inf})
        elif isinstance(function, Linear):
            rows = [row.tolist() for row in function.weights]
            if function.low > sum(map(min, rows)):
                yield _Words(scope, "knapsack", {"capacity": function.low, "weights": rows})
            if function.high < sum(map(max, rows)):
                yield _Words(scope, "knapsack", {"capacity": -function.high, "weights": [[-w for w in row] for row in rows]})
        elif isinstance(function, Cardinality) and (form := _among(0.0 - function.scores)) is not None:
            metric, cost, low, high, best = form
            values = [k for k in function.labels if k < max(self.states[v] for v in scope)]
            largest = float(np.max(0.0 - function.scores, where=np.isfinite(function.scores), initial=best)) - best
            yield _Words(scope, "wamong", {"metric": metric, "cost": cost, "values": values, "min": low, "max": high}, largest)
        else:
            shape = tuple(self.states[v] for v in scope)
            if product(shape) > MAX_TABLE and not isinstance(function, Table):
                raise UnsupportedProblemError(
                    f"{name} ({function!r}) scores in a way that toulbar2 has no word for, and as a table it has {counted(product(shape))} "
                    f"entries; wanted at most {MAX_TABLE}. Save it as .npz."
                )
            yield _listed(scope, 0.0 - function.dense(shape), ("factor", id(function)) if len(scope) <= _SHARED_ARITY else None)


def _sparse(scope: list[int], table: SparseTable) -> _Tuples:
    return _Tuples(scope, np.asarray(table.tuples), 0.0 - table.scores, 0.0 - table.default)


def _among(costs: np.ndarray) -> tuple[str, float, int, int, float] | None:
    """Measure, cost of a violation, bounds and constant of costs of counts that ``wamong`` can say; None if it cannot."""
    best = float(costs.min())
    if best == np.inf:
        return None
    free = np.flatnonzero(costs == best)
    low, high = int(free[0]), int(free[-1])
    if len(free) != high - low + 1:
        return None
    count = np.arange(len(costs))
    gap = np.maximum(np.maximum(low - count, count - high), 0)
    out = gap == 1
    cost = float((costs - best)[out][0]) if out.any() else 0.0
    for metric, size in (("hard", np.minimum(gap, 1)), ("lin", gap), ("quad", gap**2)):
        if metric != "hard" and cost == np.inf:
            break
        if np.array_equal(np.where(gap > 0, cost * np.maximum(size, 1), 0.0) + best, costs):
            return metric, cost, low, high, best
    return None


class WcspWriter:
    """Checks at once that a problem can be written as ``.wcsp``; `write` then writes it.

    Parameters
    ----------
    problem : Problem
    precision : int, optional
        Decimals that are kept: costs are multiplied by 10 to this power and rounded. Without it all costs must be whole numbers.
    """

    def __init__(self, problem: Problem, precision: int | None):
        if precision is not None and (type(precision) is not int or not 0 <= precision <= _PRECISION):
            raise InvalidParameterError(f"precision is {precision!r}, wanted a whole number from 0 to {_PRECISION}, or None.")
        self._form = _Problem(problem)
        self._precision = precision
        self._scale = 10 ** (precision or 0)
        least, self._top, n = self._survey()
        constant = self._whole(self._form.constant, "the constant")
        self._shift = constant + least < 0  # then all functions are lowered to 0, the others give what some need
        self._constant = constant + (self._low_sum if self._shift else least)
        if self._constant < 0:
            raise UnsupportedProblemError(
                f"the cheapest entries of all functions add up to {self._constant}, and .wcsp has no negative costs; save it as .cfn, which has, "
                f"or raise the cost of every labelling with offset={problem.offset - -self._constant / self._scale!r}."
            )
        self._top += self._constant + 1
        self._count = n + (self._constant > 0)
        if self._top > _LARGEST_TOP:
            raise UnsupportedProblemError(
                f"the largest costs add up to {self._top}, past the whole numbers of toulbar2 ({_LARGEST_TOP}); use fewer decimals (precision=)."
            )

    def _whole(self, cost: float, name: str) -> int:
        number = Decimal(cost) * self._scale
        whole = int(number.to_integral_value())
        if self._precision is None and whole != number:
            raise UnsupportedProblemError(
                f"{name} has the cost {cost!r}, and .wcsp has whole numbers only; say how many decimals to keep with precision=, or save it as .cfn."
            )
        if abs(whole) > EXACT:
            raise UnsupportedProblemError(
                f"{name} has the cost {cost!r}, beyond 2**53 as a whole number; use fewer decimals, or save it as .npz."
            )
        return whole

    def _wholes(self, costs: np.ndarray, name: str) -> list[int]:
        return [-1 if cost == np.inf else self._whole(cost, name) for cost in costs.tolist()]

    def _survey(self) -> tuple[int, int, int]:
        """Sum of negative minima, sum of the largest costs above the minima, and number of functions; all minima in ``_low_sum``."""
        least = top = n = 0
        self._low_sum = 0
        self._lows: list[int] = []
        known: dict[Any, tuple[int, int]] = {}
        for i, one in enumerate(self._form.functions()):
            n += 1
            if isinstance(one, _Words):
                self._whole(
                    one.parameters.get("cost", 0.0) if math.isfinite(one.parameters.get("cost", 0.0)) else 0.0, f"function {i}"
                )
                top += self._whole(one.largest, f"function {i}")
                self._lows.append(0)
                continue
            if one.shared is None or one.shared not in known:
                finite = one.all_costs[np.isfinite(one.all_costs)]
                numbers = self._wholes(finite, f"function {i} (nodes {', '.join(map(str, one.scope[:8]))})")
                known[one.shared] = (min(numbers, default=0), max(numbers, default=0))
            low, high = known[one.shared]
            least += min(low, 0)
            self._low_sum += low
            self._lows.append(low)
            top += high - min(low, 0)
        return least, top, n

    def write(self, file: BinaryIO) -> None:
        """Write the problem in toulbar2's format."""

        def line(*words: object) -> None:
            file.write((" ".join(map(str, words)) + "\n").encode("ascii"))

        states = self._form.states
        line("maxsum", len(states), max(states, default=0), self._count, self._top)
        line(*states)
        shared: dict[Any, int] = {}
        if self._constant:
            line(0, self._constant, 0)
        for one, low in zip(self._form.functions(), self._lows, strict=True):
            head = (len(one.scope), *one.scope)
            if isinstance(one, _Words):
                line(*head, -1, *self._words(one))
                continue
            down = low if self._shift else min(low, 0)
            default = self._text(one.default, down)
            if one.shared in shared:
                line(*head, default, -shared[one.shared])
                continue
            if one.shared is not None:
                shared[one.shared] = len(shared) + 1
                head = (-len(one.scope), *one.scope)
            line(*head, default, len(one.tuples))
            for row, cost in zip(one.tuples.tolist(), one.costs.tolist(), strict=True):
                line(*row, self._text(cost, down))

    def _text(self, cost: float, down: int) -> int:
        return self._top if cost == np.inf else int((Decimal(cost) * self._scale).to_integral_value()) - down

    def _words(self, one: _Words) -> list[Any]:
        p = one.parameters
        if one.keyword == "knapsack":
            rows = [[(k, w) for k, w in enumerate(row) if w] for row in p["weights"]]
            return [
                "knapsackp",
                p["capacity"],
                *(word for row in rows for word in (len(row), *(x for pair in row for x in pair))),
            ]
        words = [one.keyword, p["metric"], self._text(p["cost"], 0)]
        return words if one.keyword == "salldiff" else [*words, len(p["values"]), *p["values"], p["min"], p["max"]]


class CfnWriter:
    """Checks at once that a problem can be written as ``.cfn``; `write` then writes it, every cost with all its digits.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem):
        self._form = _Problem(problem)
        low, high, digits = Decimal(0), Decimal(0), 0
        known: dict[Any, tuple[Decimal, Decimal, int]] = {}
        for one in self._form.functions():
            if isinstance(one, _Words):
                costs = np.array([one.largest, one.parameters.get("cost", 0.0)])
            else:
                costs = one.all_costs
            key = None if isinstance(one, _Words) else one.shared
            if key is None or key not in known:
                numbers = [Decimal(repr(cost)) for cost in {*costs[np.isfinite(costs)].tolist(), 0.0}]
                least, most = Decimal(min(numbers)), Decimal(max(numbers))
                known[key] = (least, most, max(_decimals(number) for number in numbers))
            low, high, digits = low + known[key][0], high + known[key][1], max(digits, known[key][2])
        constant = Decimal(repr(self._form.constant))
        low, high, digits = low + min(constant, Decimal(0)), high + max(constant, Decimal(0)), max(digits, _decimals(constant))
        bound = (high + 1).to_integral_value("ROUND_CEILING")
        if bound - low >= _LARGEST_TOP:
            raise UnsupportedProblemError(
                f"the costs of all functions add up to {float(bound - low):.6g}, past what toulbar2 can hold ({_LARGEST_TOP}); save it as .npz."
            )
        self._digits = max(0, min(digits, _MOST_DIGITS - len(str(int(bound - low)))))
        self._bound = bound.quantize(Decimal(1).scaleb(-self._digits))
        self._forbidden = _plain((bound - low).to_integral_value("ROUND_CEILING") + 1)

    def write(self, file: BinaryIO) -> None:
        """Write the problem in toulbar2's format."""

        def text(words: str) -> None:
            file.write(words.encode("ascii"))

        text(f'{{"problem": {{"name": "maxsum", "mustbe": "<{_plain(self._bound)}"}},\n"variables": {{')
        text(", ".join(f'"x{v}": {size}' for v, size in enumerate(self._form.states)))
        text('},\n"functions": {')
        shared: dict[Any, str] = {}
        comma = ""
        # toulbar2 wants the function that others share after them, so the last one has the costs
        last = {
            one.shared: i for i, one in enumerate(self._form.functions()) if isinstance(one, _Tuples) and one.shared is not None
        }
        for key, i in last.items():
            shared[key] = f"f{i}"
        for i, one in enumerate(self._form.functions()):
            scope = ", ".join(f'"x{v}"' for v in one.scope)
            text(f'{comma}\n"f{i}": {{"scope": [{scope}], ')
            if isinstance(one, _Words):
                text(self._words(one))
            elif one.shared is not None and shared[one.shared] != f"f{i}":
                text(f'"costs": "{shared[one.shared]}"}}')
            else:
                text(f'"defaultcost": {self._number(one.default)}, "costs": [')
                rows = zip(one.tuples.tolist(), one.costs.tolist(), strict=True)
                text(", ".join(f"{', '.join(map(str, row))}, {self._number(cost)}" for row, cost in rows) + "]}")
            comma = ","
        if self._form.constant:
            text(f'{comma}\n"constant": {{"scope": [], "costs": [{self._number(self._form.constant)}]}}')
        text("\n}}\n")

    def _number(self, cost: float) -> str:
        return self._forbidden if cost == np.inf else _plain(Decimal(repr(cost)))

    def _words(self, one: _Words) -> str:
        p = one.parameters
        if one.keyword == "knapsack":
            triplets = [
                f'["x{v}", {k}, {w}]' for v, row in zip(one.scope, p["weights"], strict=True) for k, w in enumerate(row) if w
            ]
            return (
                f'"type": "knapsackv", "params": {{"capacity": {p["capacity"]}, "weightedvalues": [{", ".join(triplets)}]}}}}'
            )
        rest = "" if one.keyword == "salldiff" else f', "values": {p["values"]}, "min": {p["min"]}, "max": {p["max"]}'
        return f'"type": "{one.keyword}", "params": {{"metric": "{p["metric"]}", "cost": {self._number(p["cost"])}{rest}}}}}'


def _decimals(number: Decimal) -> int:
    exponent = number.normalize().as_tuple().exponent
    return max(0, -int(exponent))


def _plain(number: Decimal) -> str:
    return format(number, "f")
