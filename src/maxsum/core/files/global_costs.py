r"""toulbar2's global cost functions as factors: what each keyword of a ``.wcsp`` or ``.cfn`` file means.

With :math:`c_k` the number of variables that have the value k, and ``cost`` per violation:

========================================== ========================================================================================
``salldiff var``, ``salldiffdp``,          :math:`\sum_k \text{cost} \max(c_k - 1, 0)`
``walldiff lin``
``salldiff dec`` and ``decbi``             cost for every two variables with the same value: tables of edges
``walldiff quad``, ``hard``                the squares of these; cost for every value with :math:`c_k > 1`
``sgcc dec``, ``sgccdp``, ``wgcc lin``     :math:`\sum_k \text{cost} \cdot v_k`, with :math:`v_k` by how much :math:`c_k` misses its bounds
``sgcc wdec``                              the same with weights of shortage and excess for every value in place of the cost
``wgcc quad``, ``hard``                    the squares; cost for every value that misses its bounds
``sgcc var``                               cost times the larger one of all shortage and all excess (a sum only if one of them cannot be)
``samong``, ``samongdp``, ``wamong``       the same as ``wgcc`` for one set of values
``wsum``                                   the same for the sum of the values (their numbers), compared with a constant
``wvarsum``, ``wvaramong``                 hard; compared with the last variable
``knapsack``, ``knapsackp``,               hard: the sum of weights of the values that variables have is at least the capacity
``knapsackv``
``knapsackc``                              ``knapsackp``, and of each list of ``variable value`` at most one holds (as toulbar2 1.4 reads it)
``clique``                                 hard: at most one variable has one of its values
``>=`` ``>`` ``<=`` ``<`` ``=`` ``disj``   functions of two variables
``sdisj``
========================================== ========================================================================================

A violation that costs what the file forbids is forbidden. What these functions cannot be made of (a soft sum over large domains, say) is a table
if it has few entries, and refused by name otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from ..errors import InvalidProblemError
from ..factors import AllDifferent, Cardinality, Linear
from ..validation import EXACT, LARGEST
from .build import DENSE_CELLS, EDGE_CELLS, FACTOR_CELLS, Builder, counted, named, product
from .text import shown

Scope = tuple[int, ...]

ALL_DIFFERENT = {
    ("salldiff", "var"): "lin",
    ("salldiff", "dec"): "pairs",
    ("salldiff", "decbi"): "pairs",
    ("salldiffdp", "var"): "lin",
    ("salldiffkp", "hard"): "hard",
    ("walldiff", "lin"): "lin",
    ("walldiff", "quad"): "quad",
    ("walldiff", "hard"): "hard",
}
COUNTS = {
    ("sgcc", "var"): "var",
    ("sgcc", "dec"): "lin",
    ("sgcc", "wdec"): "weights",
    ("sgccdp", "var"): "lin",
    ("sgcckp", "hard"): "hard",
    ("wgcc", "lin"): "lin",
    ("wgcc", "quad"): "quad",
    ("wgcc", "hard"): "hard",
}
AMONG = {
    ("samong", "var"): "lin",
    ("samongdp", "var"): "lin",
    ("wamong", "lin"): "lin",
    ("wamong", "quad"): "quad",
    ("wamong", "hard"): "hard",
}
ARITHMETIC = {">=": 2, ">": 2, "<=": 2, "<": 2, "=": 2, "disj": 3, "sdisj": 6}
"""Functions of two variables, with their numbers of parameters."""
COMPARATORS = ("==", "<=", "<", "!=", ">", ">=")
_LARGEST_WEIGHT = 1 << 40  # what `Linear` takes


class Bounds(NamedTuple):
    """How often a value may occur, and what a shortage or an excess by one costs (``wdec``)."""

    value: int
    low: int
    high: int
    shortage: float = 0.0
    excess: float = 0.0


class Globals:
    """Adds global cost functions to a problem.

    Parameters
    ----------
    builder : Builder
    forbidden : callable
        Whether a cost is one that the file forbids.
    fail : callable
        Raises `ParseError` for a message, with the place where the file is being read.
    """

    def __init__(self, builder: Builder, forbidden: Callable[[float], bool], fail: Callable[[str], NoReturn]):
        self._builder = builder
        self._forbidden = forbidden
        self._fail = fail
        self._different = AllDifferent()

    def measure(self, known: dict[tuple[str, str], str], keyword: str, metric: str, title: str) -> str:
        """How violations of a function are measured; refused if the keyword has no such measure."""
        if (keyword, metric) not in known:
            wanted = ", ".join(m for k, m in known if k == keyword)
            self._fail(f"{title} is {shown(keyword)} with the measure {shown(metric)}, wanted one of {wanted}.")
        return known[keyword, metric]

    def refuse(self, title: str, scope: Scope, why: str) -> NoReturn:
        """Raise for a function that a problem cannot hold."""
        cells = counted(product(self._builder.shape(scope)))
        self._fail(
            f"{title} (variables {named(scope)}) {why}, and as a table it has {cells} entries, more than the {DENSE_CELLS} that are made of it."
        )

    def _scores(self, title: str, costs: np.ndarray) -> np.ndarray:
        """Scores of costs; those that the file forbids are ``-inf``."""
        large = np.isfinite(costs) & (np.abs(costs) > LARGEST)
        if large.any() or np.isnan(costs).any():
            self._fail(f"{title} has a violation that costs {costs[large | np.isnan(costs)][0]:g}, wanted at most {LARGEST:g}.")
        levels, where = np.unique(costs, return_inverse=True)
        for level in levels[np.isfinite(levels) & (np.abs(levels) > EXACT)].tolist():
            if not self._forbidden(level):
                self._fail(
                    f"{title} has a violation that costs {level:.17g}, beyond 2**53, where a float64 rounds whole numbers."
                )
        scores = np.array([-np.inf if self._forbidden(level) else 0.0 - level for level in levels.tolist()])
        return np.asarray(scores[where.reshape(costs.shape)])

    def _table(self, title: str, scope: Scope, costs: Callable[[np.ndarray], np.ndarray], why: str) -> None:
        """Add a function by its costs of rows of labels, if it has few."""
        shape = self._builder.shape(scope)
        if product(shape) > DENSE_CELLS:
            self.refuse(title, scope, why)
        rows = np.indices(shape).reshape(len(shape), -1).T
        self._builder.add(scope, self._scores(title, costs(rows)))

    # ---- counts ------------------------------------------------------------------------------------------------

    def all_different(self, title: str, scope: Scope, measure: str, cost: float) -> None:
        """Values that occur more than once, measured by ``lin``, ``quad``, ``hard`` or ``pairs``."""
        n = len(scope)
        if self._forbidden(cost):
            self._builder.factor(scope, self._different)
        elif measure == "pairs":
            self._builder.spend(EDGE_CELLS * (n * (n - 1) // 2))
            tables: dict[tuple[int, int], int] = {}
            for i, u in enumerate(scope):
                for v in scope[i + 1 :]:
                    a, b = self._builder.shape((u, v))
                    if (a, b) not in tables:
                        self._builder.spend(a * b)
                        tables[a, b] = self._builder.table(
                            np.where(np.arange(a)[:, None] == np.arange(b), 0.0 - cost, 0.0), spent=True
                        )
                    self._builder.edge((u, v), tables[a, b])
        else:
            sizes = sorted(self._builder.shape(scope), reverse=True)
            n_values = sizes[1] if n > 1 else 0  # a value that one variable alone has is never taken twice
            self._builder.spend(n_values * (FACTOR_CELLS + 2 * n))
            for value in range(n_values):
                self._count(title, scope, [value], 0, 1, measure, cost)

    def _count(self, title: str, scope: Scope, values: list[int], low: int, high: int, measure: str, *costs: float) -> None:
        """How many variables have one of some values, against bounds. One cost, or two: of a shortage and of an excess."""
        count = np.arange(len(scope) + 1)
        short, over = np.maximum(low - count, 0), np.maximum(count - high, 0)
        if measure == "hard":
            short, over = np.minimum(short, 1), np.minimum(over, 1)
        elif measure == "quad":
            short, over = short.astype(np.float64) ** 2, over.astype(np.float64) ** 2
        with np.errstate(invalid="ignore"):
            paid = np.where(short > 0, short * costs[0], 0.0) + np.where(over > 0, over * costs[-1], 0.0)
        if values and paid.any():
            self._builder.factor(scope, Cardinality(self._scores(title, paid), values))
        elif paid[0]:  # no value counts, so the count is 0
            self._builder.constant(float(self._scores(title, paid[:1])[0]))

    def cardinalities(self, title: str, scope: Scope, bounds: Sequence[Bounds], measure: str, cost: float) -> None:
        """Bounds on how often each value occurs, measured by ``lin``, ``quad``, ``hard``, ``weights`` or ``var``."""
        n = len(scope)
        if len({bound.value for bound in bounds}) < len(bounds):
            self._fail(f"{title} (variables {named(scope)}) has bounds for a value twice.")
        self._builder.spend(len(bounds) * (FACTOR_CELLS + 2 * n))
        if measure == "var" and not self._forbidden(cost):
            if any(b.low > 0 for b in bounds) and any(b.high < n for b in bounds):
                return self._variable_based(title, scope, bounds, cost)
            if sum(max(b.low, 0) for b in bounds) > n:
                self._fail(f"{title} (variables {named(scope)}) asks for more values than it has variables.")
        for bound in bounds:
            costs = (bound.shortage, bound.excess) if measure == "weights" else (cost,)
            self._count(
                title, scope, [bound.value], bound.low, bound.high, "lin" if measure in ("var", "weights") else measure, *costs
            )

    def _variable_based(self, title: str, scope: Scope, bounds: Sequence[Bounds], cost: float) -> None:
        """Variables that have to change: the larger one of all shortage and all excess (van Hoeve, Pesant & Rousseau 2006)."""
        limits = {b.value: b for b in bounds}
        most = sum(limits[k].high if k in limits else len(scope) for k in range(max(self._builder.shape(scope))))
        if sum(max(b.low, 0) for b in bounds) > len(scope) or most < len(scope):
            self._fail(
                f"{title} (variables {named(scope)}) has bounds that no values can keep, so its variable-based cost is not defined."
            )

        def costs(rows: np.ndarray) -> np.ndarray:
            short, over = np.zeros(len(rows)), np.zeros(len(rows))
            for b in bounds:
                count = (rows == b.value).sum(axis=1)
                short += np.maximum(b.low - count, 0)
                over += np.maximum(count - b.high, 0)
            return np.asarray(cost * np.maximum(short, over))

        self._table(title, scope, costs, "has a variable-based cost with lower and upper bounds, which is no sum over values")

    def among(self, title: str, scope: Scope, values: Sequence[int], low: int, high: int, measure: str, cost: float) -> None:
        """Bounds on how many variables have one of some values."""
        self._builder.spend(len(values) + 2 * len(scope))
        self._count(title, scope, sorted(set(values)), low, high, measure, cost)

    # ---- sums --------------------------------------------------------------------------------------------------

    def linear(self, title: str, scope: Scope, weights: list[np.ndarray], low: int | None, high: int | None = None) -> None:
        """The hard constraint :math:`low <= sum_i w_i(y_i) <= high`."""
        if not scope:
            self._fail(f"{title} has no variables.")
        try:
            function = Linear(weights, low, high)
        except InvalidProblemError as error:
            self._fail(f"{title} (variables {named(scope)}): {error}")
        self._builder.spend(sum(step.size for step in function.diagram.steps))
        self._builder.factor(scope, function)

    def weighted(self, title: str, scope: Scope, listed: Sequence[tuple[int, int, int]], capacity: int) -> None:
        """``knapsack`` in all its forms: triplets of place in the scope, value and weight; other values weigh nothing."""
        shape = self._builder.shape(scope)
        self._builder.spend(sum(shape))
        weights = [np.zeros(size, dtype=np.int64) for size in shape]
        seen = set()
        for place, value, weight in listed:
            if not 0 <= value < shape[place]:
                self._fail(f"{title} names the value {value} of variable {scope[place]}, which has {shape[place]} values.")
            if (place, value) in seen:
                self._fail(f"{title} weighs the value {value} of variable {scope[place]} twice.")
            if abs(weight) > _LARGEST_WEIGHT:
                self._fail(f"{title} has the weight {weight}, wanted at most 2**40 in size.")
            seen.add((place, value))
            weights[place][value] = weight
        self.linear(title, scope, weights, capacity)

    def at_most_one(self, title: str, scope: Scope, chosen: Sequence[tuple[int, Sequence[int]]]) -> None:
        """At most one of some variables (places in the scope) has one of its values."""
        shape = self._builder.shape(scope)
        members = tuple(scope[place] for place, _ in chosen)
        self._builder.spend(sum(shape[place] for place, _ in chosen))
        weights = []
        for place, values in chosen:
            row = np.zeros(shape[place], dtype=np.int64)
            row[[self.checked(title, v, shape[place], scope[place]) for v in values]] = 1
            weights.append(row)
        if members:
            self.linear(title, members, weights, None, 1)

    def checked(self, title: str, value: int, size: int, variable: int) -> int:
        """A value of a variable that has it."""
        if not 0 <= value < size:
            self._fail(f"{title} names the value {value} of variable {variable}, which has {size} values.")
        return value

    def compared(
        self, title: str, scope: Scope, weights: list[np.ndarray], comparator: str, to: int, measure: str, cost: float
    ) -> None:
        """A sum of weights compared with a constant, measured by ``lin``, ``quad`` or ``hard``."""
        if comparator not in COMPARATORS:
            self._fail(f"{title} has the comparator {shown(comparator)}, wanted one of {', '.join(COMPARATORS)}.")
        low = {"==": to, ">=": to, ">": to + 1}.get(comparator)
        high = {"==": to, "<=": to, "<": to - 1}.get(comparator)
        if self._forbidden(cost) and comparator != "!=":
            return self.linear(title, scope, weights, low, high)

        def costs(total: np.ndarray) -> np.ndarray:
            gap = np.maximum(total - high if high is not None else 0, low - total if low is not None else 0)
            gap = (total == to) * 1 if comparator == "!=" else np.maximum(gap, 0)
            gap = np.minimum(gap, 1) if measure == "hard" else gap.astype(np.float64) ** (2 if measure == "quad" else 1)
            with np.errstate(invalid="ignore"):
                return np.asarray(np.where(gap > 0, cost * gap, 0.0))

        if len(scope) > 2 and all(row.tolist() in ([0], [0, 1]) for row in weights):
            self._builder.spend(FACTOR_CELLS + 2 * len(scope))
            self._builder.factor(scope, Cardinality(self._scores(title, costs(np.arange(len(scope) + 1))), 1))
        else:
            why = 'is a sum that must not be a number ("!=")' if comparator == "!=" else "has a soft sum of values"
            self._table(title, scope, lambda rows: costs(sum(row[rows[:, i]] for i, row in enumerate(weights))), why)

    def values_as_weights(self, scope: Scope) -> list[np.ndarray]:
        """Weights of a sum of values: a value weighs its number."""
        self._builder.spend(sum(self._builder.shape(scope)))
        return [np.arange(size, dtype=np.int64) for size in self._builder.shape(scope)]

    # ---- two variables -----------------------------------------------------------------------------------------

    def arithmetic(self, title: str, scope: Scope, keyword: str, numbers: Sequence[float]) -> None:
        """Functions of two variables x and y: (in)equalities with a tolerance, and disjunctions."""
        if len(scope) != 2:
            self._fail(f"{title} is {shown(keyword)} of {len(scope)} variables, wanted 2.")
        shape = self._builder.shape(scope)
        self._builder.spend(product(shape))
        x, y = np.arange(shape[0], dtype=np.float64)[:, None], np.arange(shape[1], dtype=np.float64)
        if keyword in ("disj", "sdisj"):
            kept = (x >= y + numbers[1]) | (y >= x + numbers[0])
            if keyword == "disj":
                cost = np.where(kept, 0.0, numbers[2])
            else:
                at_x, at_y = x == numbers[2], y == numbers[3]
                cost = np.where(at_x, numbers[4], 0.0) + np.where(at_y, numbers[5], 0.0)
                wrong = (x > numbers[2]) | (y > numbers[3]) | ((x < numbers[2]) & (y < numbers[3]) & ~kept)
                cost = np.where(wrong, np.inf, cost)
        else:
            constant, tolerance = numbers
            gap = {
                ">=": y + constant - x,
                ">": y + constant + 1 - x,
                "<=": x - constant - y,
                "<": x - constant + 1 - y,
                "=": np.abs(y + constant - x),
            }[keyword]
            cost = np.where(gap > tolerance, np.inf, np.maximum(gap, 0.0))
        self._builder.add(scope, self._scores(title, np.broadcast_to(cost, shape)))
