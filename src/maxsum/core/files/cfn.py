r"""toulbar2's ``.cfn``: JSON with a problem, variables and functions.

``"mustbe": "<ub"`` minimises costs (``score = -cost``), ``">lb"`` maximises scores. An entry at or past the bound is
forbidden (``-inf``) where it can be part of no solution within the bound, that is, where it stays past it with the best
entry of every other function added: the rest of the bound is *not* part of the problem read. (With costs of one sign this
is every entry at or past ``ub``; with both signs toulbar2 admits such an entry if the total is within the bound, and so
does this reader.) ``"costs"`` is the whole table, or, with ``"defaultcost"``, a flat list of tuples and costs, or the name
of the function whose costs it shares. Functions of three or more variables are factors. ``"type"`` and ``"params"`` stand for a global cost
function; `maxsum.core.files.global_costs` says which are read. The relaxed form (no quotes, no commas, comments) is read too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, NoReturn

import numpy as np

from ..factors import SparseTable
from ..factors.tables import MAX_ARITY
from ..problem import Problem
from .build import DENSE_CELLS, Builder, counted, named, product
from .cfn_text import PARAMETERS, Document, Pairs, brief, number, numbers
from .global_costs import ALL_DIFFERENT, AMONG, ARITHMETIC, COUNTS, Bounds, Globals
from .text import Limits, Stream, shown

_SUMS = ("wsum", "wvarsum", "wvaramong")


def read(stream: Stream, limits: Limits) -> Problem:
    """Read a ``.cfn`` file; see `maxsum.read_problem`."""
    document = Document(stream, limits)
    reader = _Reader(document)
    reader.builder = Builder(reader.n_states, limits, document.fail)
    reader.functions()
    return reader.builder.problem(stream.path)


class _Reader:
    builder: Builder

    def __init__(self, document: Document):
        self._document = document
        self._fail: Callable[[str], NoReturn] = document.fail
        root = self._object(document.root, "the file", ("problem", "variables", "functions"))
        problem = self._object(root["problem"], "problem", ("name", "mustbe"), optional=("name",))
        must = problem["mustbe"]
        if not isinstance(must, str) or must[:1] not in ("<", ">"):
            self._fail(f'"mustbe" is {brief(must)}, wanted "<upper bound" or ">lower bound".')
        self._sign = -1.0 if must[0] == "<" else 1.0
        self._bound = self._sign * float(self._numbers([must[1:].strip()], '"mustbe"')[0])
        self._functions = root["functions"]
        self._variables(root["variables"])

    def _object(self, value: Any, what: str, keys: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._fail(f"{what} is a {type(value).__name__}, wanted an object with {named(keys)}.")
        for key in keys:
            if key not in value and key not in optional:
                self._fail(f"{what} has no {shown(key)}.")
        for key in value:
            if key not in keys:
                self._fail(f"{what} has the key {shown(key)}, which is not known; wanted {named(keys)}.")
        return value

    def _items(self, value: Any, what: str) -> list[tuple[str | None, Any]]:
        if isinstance(value, Pairs):
            return value
        if isinstance(value, dict):
            return list(value.items())
        if isinstance(value, list):
            return [(None, item) for item in value]
        self._fail(f"{shown(what)} is a {type(value).__name__}, wanted an object or a list.")

    # ---- variables ---------------------------------------------------------------------------------------------

    def _variables(self, value: Any) -> None:
        self._index: dict[str, int] = {}
        self._values: list[dict[str, int]] = []
        sizes: list[int] = []
        for name, domain in self._items(value, "variables"):
            self._document.name = name
            title = f"variable {len(sizes)}" + (f" ({shown(name)})" if name is not None else "")
            names: dict[str, int] = {}
            if isinstance(domain, list):
                if not all(isinstance(item, str) for item in domain):
                    self._fail(f"{title} has values that are not strings.")
                names = {item: i for i, item in enumerate(domain)}
                if len(names) < len(domain):
                    self._fail(f"{title} lists a value twice.")
                domain = len(domain)
            if type(domain) is not int:
                self._fail(f"{title} has a domain of type {type(domain).__name__}, wanted a number or a list of names.")
            if domain < 0:
                self._fail(f"{title} has the domain {domain}: interval domains are not supported; wanted 1 or more values.")
            if domain == 0 or domain > 2**62:
                self._fail(f"{title} has a domain of {shown(str(domain))} values, wanted 1 or more.")
            if name is not None:
                self._index[name] = len(sizes)
            self._values.append(names)
            sizes.append(domain)
        self._document.name = None
        self.n_states = np.array(sizes, dtype=np.int64)

    def _scope(self, title: str, given: Any) -> tuple[int, ...]:
        if not isinstance(given, list):
            self._fail(f"{title} has a scope of type {type(given).__name__}, wanted a list of variables.")
        scope = []
        for item in given:
            index = self._index.get(item, item) if isinstance(item, str) else item
            if type(index) is not int:
                self._fail(f"{title} names the variable {brief(item)}, which does not exist.")
            if not 0 <= index < len(self.n_states):
                self._fail(f"{title} names variable {shown(str(index))}, but there are {len(self.n_states)} variables, from 0.")
            scope.append(index)
        if len(set(scope)) < len(scope):
            self._fail(f"{title} names a variable twice (scope {named(given)}).")
        return tuple(scope)

    # ---- functions ---------------------------------------------------------------------------------------------

    def functions(self) -> None:
        arrays: list[np.ndarray | SparseTable] = []
        known: dict[tuple[tuple[int, ...], bytes], int] = {}
        scopes: list[tuple[int, ...]] = []
        shares: list[int | str] = []
        names: dict[str, int] = {}
        tables: list[tuple[str | None, str]] = []
        globals_: list[tuple[str | None, str, tuple[int, ...], dict[str, Any]]] = []
        for i, (name, given) in enumerate(self._items(self._functions, "functions")):
            self._document.name = name
            title = _title(i, name)
            if isinstance(given, dict) and ("type" in given or "params" in given):
                entry = self._object(given, title, ("scope", "type", "params"))
                globals_.append((name, title, self._scope(title, entry["scope"]), entry))
                continue
            entry = self._object(given, title, ("scope", "costs", "defaultcost"), optional=("defaultcost",))
            scopes.append(self._scope(title, entry["scope"]))
            if name is not None:
                names[name] = len(tables)
            tables.append((name, title))
            if isinstance(entry["costs"], str):
                shares.append(entry["costs"])
                continue
            scores = self._scores(title, scopes[-1], entry)
            if isinstance(scores, SparseTable):
                shares.append(len(arrays))
                arrays.append(scores)
                continue
            key = (scores.shape, blake2b(scores.tobytes()).digest())
            if key not in known:
                self.builder.spend(scores.size)
                known[key] = len(arrays)
                arrays.append(scores)
            shares.append(known[key])
        self._resolve(tables, scopes, shares, names, arrays)
        self._add(tables, scopes, shares, arrays, globals_)

    def _resolve(
        self,
        items: list[Any],
        scopes: list[Any],
        shares: list[int | str],
        names: dict[str, int],
        arrays: list[np.ndarray | SparseTable],
    ) -> None:
        """Replace the names of shared functions by the numbers of their arrays."""
        for i, (name, title) in enumerate(items):
            self._document.name = name
            chain: set[int] = set()
            at = i
            while isinstance(other := shares[at], str):
                chain.add(at)
                if other not in names or names[other] in chain:
                    how = "does not exist" if other not in names else "shares its costs in a circle"
                    self._fail(f"{title} shares the costs of {shown(other)}, which {how}.")
                at = names[other]
            for link in chain:
                shares[link] = shares[at]
            shape, found = self.builder.shape(scopes[i]), arrays[int(shares[i])].shape
            if found != shape:
                self._fail(f"{title} has domains {shape}, but the costs that it shares have {found}.")

    def _add(
        self,
        items: list[Any],
        scopes: list[Any],
        shares: list[Any],
        arrays: list[np.ndarray | SparseTable],
        globals_: list[Any],
    ) -> None:
        """Forbid what no solution within the bound can use, and hand the functions over."""
        tops = [_top(array) for array in arrays]
        try:
            best = math.fsum(tops[n] for n in shares)
        except OverflowError:
            best = np.inf
        bounded = -np.inf < best < np.inf
        for n, array in enumerate(arrays):
            limit = min(self._bound, self._bound - (best - tops[n])) if bounded else -np.inf
            if isinstance(array, SparseTable):
                scores = np.where(array.scores <= limit, -np.inf, array.scores)
                arrays[n] = SparseTable(array.shape, array.tuples, scores, -np.inf if array.default <= limit else array.default)
            else:
                array[array <= limit] = -np.inf
        tables = [self.builder.table(a, spent=True) if isinstance(a, np.ndarray) and a.ndim == 2 else -1 for a in arrays]
        for (name, _), scope, n in zip(items, scopes, shares, strict=True):
            self._document.name = name
            one = arrays[n]
            if isinstance(one, SparseTable):
                self.builder.factor(scope, one)
            elif len(scope) == 2:
                self.builder.edge(scope, tables[n])
            else:
                self.builder.add(scope, one)
        limit = min(self._bound, self._bound - best) if bounded else -np.inf  # global functions cost 0 or more
        post = Globals(self.builder, lambda cost: -cost <= limit or cost == np.inf, self._fail)
        for name, title, scope, entry in globals_:
            self._document.name = name
            self._global(post, title, scope, entry)
        self._document.name = None

    def _scores(self, title: str, scope: tuple[int, ...], entry: dict[str, Any]) -> np.ndarray | SparseTable:
        shape, costs = self.builder.shape(scope), entry["costs"]
        if not isinstance(costs, list):
            self._fail(f"{title} has costs of type {type(costs).__name__}, wanted a list or the name of a function.")
        if "defaultcost" not in entry:
            if len(costs) != product(shape):
                self._fail(f"{title} has {len(costs)} costs, but its domains {shape} give {counted(product(shape))}.")
            return self._score(self._numbers(costs, title), title).reshape(self._axes(title, shape))
        default = float(self._score(self._numbers([entry["defaultcost"]], title), title)[0])
        width = len(scope) + 1
        if len(costs) % width:
            self._fail(f"{title} has {len(costs)} items in its costs, wanted a multiple of {width} (a tuple and its cost).")
        columns = [[self._value(title, v, item) for item in costs[c::width]] for c, v in enumerate(scope)]
        tuples = np.array(columns, dtype=np.int64).reshape(len(scope), len(costs) // width).T
        scores = self._score(self._numbers(costs[width - 1 :: width], title), title)
        if not scope and len(scores):
            self._fail(f"{title} has no variables, but tuples.")
        cells = product(shape)
        if scope and len(np.unique(tuples, axis=0)) < len(tuples):
            self._fail(f"{title} gives a tuple twice.")
        if len(scope) > 2 and cells > max(DENSE_CELLS, len(costs)):
            return self.builder.sparse(scope, tuples, scores, default)
        self.builder.spend(cells)
        table = np.full(cells, default)
        index = np.zeros(len(tuples), dtype=np.int64)
        for column, size in zip(tuples.T, shape, strict=True):
            index = index * size + column
        table[index] = scores
        return table.reshape(self._axes(title, shape))

    def _axes(self, title: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(shape) > MAX_ARITY:
            self._fail(
                f"{title} is a table over {len(shape)} variables, wanted at most {MAX_ARITY}; leave out those with one value."
            )
        return shape

    # ---- global functions --------------------------------------------------------------------------------------

    def _global(self, post: Globals, title: str, scope: tuple[int, ...], entry: dict[str, Any]) -> None:
        kind, given = entry["type"], entry["params"]
        if kind in ARITHMETIC:
            found = self._numbers(self._list(title, given, ARITHMETIC[kind]), title).tolist()
            self._minimising(title, kind)
            return post.arithmetic(title, scope, kind, found)
        if not isinstance(kind, str) or kind not in PARAMETERS:
            self._fail(
                f"{title} is the global function {brief(kind)} (scope {named(scope)}), which is not read; write it with tables, or with one "
                f"of {', '.join(PARAMETERS)}."
            )
        if not scope:
            self._fail(f"{title} is {shown(kind)} of no variables.")
        if isinstance(given, list):
            given = dict(zip(PARAMETERS[kind], self._list(title, given, len(PARAMETERS[kind])), strict=True))
        found = self._object(given, f"params of {title}", PARAMETERS[kind])
        if "metric" not in found:
            return self._hard(post, title, scope, kind, found)
        self._minimising(title, kind)
        metric, cost = str(found["metric"]), float(self._numbers([found["cost"]], title)[0])
        if not cost >= 0:
            self._fail(f"{title} has the cost {cost:g} of a violation, wanted 0 or more.")
        if kind in _SUMS:
            return self._sum(post, title, scope, kind, metric, cost, found)
        if "bounds" in found:
            measure = post.measure(COUNTS, kind, metric, title)
            width = 5 if measure == "weights" else 3
            rows = [self._list(title, row, width) for row in self._list(title, found["bounds"])]
            bounds = [
                Bounds(
                    self._index_of(title, r[0]),
                    self._whole(title, r[1]),
                    self._whole(title, r[2]),
                    *self._numbers(r[3:], title).tolist(),
                )
                for r in rows
            ]
            return post.cardinalities(title, scope, bounds, measure, cost)
        if "values" in found:
            values = [self._index_of(title, item) for item in self._list(title, found["values"])]
            measure = post.measure(AMONG, kind, metric, title)
            return post.among(
                title, scope, values, self._whole(title, found["min"]), self._whole(title, found["max"]), measure, cost
            )
        post.all_different(title, scope, post.measure(ALL_DIFFERENT, kind, metric, title), cost)

    def _hard(self, post: Globals, title: str, scope: tuple[int, ...], kind: str, found: dict[str, Any]) -> None:
        if kind == "clique":
            if self._whole(title, found["rhs"]) != 1:
                self._fail(f"{title} has the right-hand side {brief(found['rhs'])}, wanted 1.")
            lists = self._list(title, found["values"], len(scope))
            chosen = [
                (i, [self._value(title, scope[i], item) for item in self._list(title, own)]) for i, own in enumerate(lists)
            ]
            return post.at_most_one(title, scope, chosen)
        capacity = self._whole(title, found["capacity"])
        if kind == "knapsack":
            weights = self._list(title, found["weights"], len(scope))
            listed = [(i, 1, self._whole(title, w)) for i, w in enumerate(weights)]
        else:
            place = {v: i for i, v in enumerate(scope)}
            listed = []
            for row in self._list(title, found["weightedvalues"]):
                own, value, weight = self._list(title, row, 3)
                v = self._scope(title, [number(own) if isinstance(own, str) and own not in self._index else own])[0]
                if v not in place:
                    self._fail(f"{title} weighs a value of {brief(own)}, which is not in its scope.")
                listed.append((place[v], self._value(title, v, value), self._whole(title, weight)))
        post.weighted(title, scope, listed, capacity)

    def _sum(
        self, post: Globals, title: str, scope: tuple[int, ...], kind: str, metric: str, cost: float, found: dict[str, Any]
    ) -> None:
        if metric not in (("hard", "lin", "quad") if kind == "wsum" else ("hard",)):
            self._fail(f"{title} has the measure {shown(metric)}, wanted {'hard, lin or quad' if kind == 'wsum' else 'hard'}.")
        weights = post.values_as_weights(scope)
        if kind != "wsum":
            weights[-1] = -weights[-1]
        if kind == "wvaramong":
            values = [self._index_of(title, item) for item in self._list(title, found["values"])]
            weights[:-1] = [np.isin(row, values).astype(np.int64) for row in weights[:-1]]
        to = self._whole(title, found["to"]) if kind == "wsum" else 0
        post.compared(title, scope, weights, str(found.get("comparator", "==")), to, metric, cost)

    def _minimising(self, title: str, kind: str) -> None:
        if self._sign > 0:
            self._fail(f'{title} is {shown(kind)} with a cost in a file that is maximised ("mustbe": ">"); wanted "<".')

    def _list(self, title: str, value: Any, length: int | None = None) -> list[Any]:
        if not isinstance(value, list) or (length is not None and len(value) != length):
            found = f"{len(value)} items" if isinstance(value, list) else brief(value)
            self._fail(f"{title} has {found} in its params where a list{'' if length is None else f' of {length}'} is wanted.")
        return value

    def _whole(self, title: str, item: Any) -> int:
        found = number(item) if isinstance(item, str) else item
        if type(found) is not int or abs(found) >= 2**62:
            self._fail(f"{title} has {brief(item)} in its params where a whole number is wanted.")
        return found

    def _index_of(self, title: str, item: Any) -> int:
        """A value by its number: global functions are about values of several variables, which may have different names."""
        found = self._whole(title, item[1:] if isinstance(item, str) and re.fullmatch(r"v\d+", item) else item)
        if found < 0:
            self._fail(f"{title} names the value {found}, wanted 0 or more.")
        return found

    def _value(self, title: str, v: int, item: Any) -> int:
        names, size = self._values[v], int(self.n_states[v])
        index = item
        if isinstance(item, str):
            unnamed = (
                item[1:] if not names and item.startswith("v") else item
            )  # toulbar2's own names of values without one: v0, v1, ..
            index = names.get(item, int(unnamed) if unnamed.isascii() and unnamed.isdigit() and len(unnamed) < 19 else item)
        elif names.get(str(item), item) != item:
            self._fail(f"{title}: {item} may be the value with this name or with this number; write it as a string.")
        if type(index) is not int or not 0 <= index < size:
            self._fail(f"{title} names the value {brief(item)} of variable {v}, which has {size} values.")
        return index

    def _numbers(self, items: list[Any], title: str) -> np.ndarray:
        return numbers(items, title, self._fail)

    def _score(self, costs: np.ndarray, title: str) -> np.ndarray:
        scores = self._sign * costs + 0.0
        if np.isposinf(scores).any():
            self._fail(f"{title} has an infinitely good entry, wanted a finite number or a forbidding infinity.")
        return scores


def _title(i: int, name: str | None) -> str:
    return f"function {i}" if name is None else f"function {shown(name)}"


def _top(array: np.ndarray | SparseTable) -> float:
    """The best score."""
    if isinstance(array, np.ndarray):
        return float(array.max())
    full = len(array.scores) >= product(array.shape)
    return max(float(array.scores.max(initial=-np.inf)), -np.inf if full else array.default)


def minimises(head: bytes) -> bool:
    """Whether a file minimises costs, by the sign of its bound, which stands near its beginning."""
    found = re.search(rb'[\s":,{\[]([<>])\s*[-+.\d]', head)
    return found is None or found[1] == b"<"
