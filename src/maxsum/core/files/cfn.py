r"""toulbar2's ``.cfn``: JSON with a problem, variables and functions.

``"mustbe": "<ub"`` minimises costs (``score = -cost``), ``">lb"`` maximises scores. An entry at or past the bound is
forbidden (``-inf``) where it can be part of no solution within the bound, that is, where it stays past it with the best
entry of every other function added: the rest of the bound is *not* part of the problem read. (With costs of one sign this
is every entry at or past ``ub``; with both signs toulbar2 admits such an entry if the total is within the bound, and so
does this reader.) ``"costs"`` is the whole table, or, with ``"defaultcost"``, a flat list of tuples and costs, or the name
of the function whose costs it shares.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, NoReturn

import numpy as np

from ..errors import ParseError
from ..problem import Problem
from ..validation import EXACT, LARGEST
from .build import Builder, named
from .text import Limits, Stream, shown


class _DuplicateKey(Exception):
    pass


def read(stream: Stream, limits: Limits) -> Problem:
    """Read a ``.cfn`` file; see `maxsum.read_problem`."""
    document = _Document(stream, limits)
    reader = _Reader(document)
    reader.builder = Builder(reader.n_states, limits, document.fail)
    reader.functions()
    return reader.builder.problem(stream.path)


class _Document:
    """The parsed JSON, with enough of the text to say on which line a name stands."""

    def __init__(self, stream: Stream, limits: Limits):
        self.path = stream.path
        self.name: str | None = None
        data = stream.read_all(limits.bytes // 4)
        try:
            self._text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ParseError(f"byte {data[error.start]:#x} is not UTF-8.", self.path, line) from None
        try:
            self.root = json.loads(self._text, object_pairs_hook=_unique, parse_constant=str)
        except json.JSONDecodeError as error:
            raise ParseError(f"not JSON: {error.msg} (column {error.colno}).", self.path, error.lineno) from None
        except RecursionError:
            raise ParseError("the JSON is nested too deeply.", self.path) from None
        except _DuplicateKey as error:
            self._fail_at(str(error), 2, f"the key {shown(str(error))} stands twice in one object.")
        except ValueError as error:
            raise ParseError(f"not JSON that can be read: {error}.", self.path) from None

    def _fail_at(self, name: str, times: int, message: str) -> NoReturn:
        """Raise, with the line of the last occurrence of a key if it occurs exactly ``times`` times."""
        found = [match.start() for match in re.finditer(re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:", self._text)]
        line = self._text.count("\n", 0, found[-1]) + 1 if len(found) == times else None
        raise ParseError(message, self.path, line)

    def fail(self, message: str) -> NoReturn:
        """Raise for the function or variable that is being read."""
        if self.name is None:
            raise ParseError(message, self.path)
        self._fail_at(self.name, 1, message)


class _Reader:
    builder: Builder

    def __init__(self, document: _Document):
        self._document = document
        self._fail: Callable[[str], NoReturn] = document.fail
        root = self._object(document.root, "the file", ("problem", "variables", "functions"))
        problem = self._object(root["problem"], "problem", ("name", "mustbe"), optional=("name",))
        must = problem["mustbe"]
        if not isinstance(must, str) or must[:1] not in ("<", ">"):
            self._fail(f'"mustbe" is {_brief(must)}, wanted "<upper bound" or ">lower bound".')
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
                self._fail(f"{title} names the variable {_brief(item)}, which does not exist.")
            if not 0 <= index < len(self.n_states):
                self._fail(f"{title} names variable {shown(str(index))}, but there are {len(self.n_states)} variables, from 0.")
            scope.append(index)
        if len(set(scope)) < len(scope):
            self._fail(f"{title} names a variable twice (scope {named(given)}).")
        if len(scope) > 2:
            self._fail(f"{title} has arity {len(scope)} (scope {named(given)}); wanted at most 2 variables.")
        return tuple(scope)

    # ---- functions ---------------------------------------------------------------------------------------------

    def functions(self) -> None:
        arrays: list[np.ndarray] = []
        known: dict[tuple[tuple[int, ...], bytes], int] = {}
        scopes: list[tuple[int, ...]] = []
        number: list[int | str] = []
        names: dict[str, int] = {}
        items = self._items(self._functions, "functions")
        for i, (name, given) in enumerate(items):
            self._document.name = name
            title = _title(i, name)
            if isinstance(given, dict) and ("type" in given or "params" in given):
                kind = _brief(given.get("type", "?"))
                self._fail(f"{title} is the global function {kind}; wanted a function in extension of at most 2 variables.")
            entry = self._object(given, title, ("scope", "costs", "defaultcost"), optional=("defaultcost",))
            scopes.append(self._scope(title, entry["scope"]))
            if name is not None:
                names[name] = i
            if isinstance(entry["costs"], str):
                number.append(entry["costs"])
                continue
            scores = self._scores(title, scopes[-1], entry)
            key = (scores.shape, blake2b(scores.tobytes()).digest())
            if key not in known:
                self.builder.spend(scores.size)
                known[key] = len(arrays)
                arrays.append(scores)
            number.append(known[key])
        self._resolve(items, scopes, number, names, arrays)
        self._add(items, scopes, number, arrays)

    def _resolve(
        self, items: list[Any], scopes: list[Any], number: list[int | str], names: dict[str, int], arrays: list[np.ndarray]
    ) -> None:
        """Replace the names of shared functions by the numbers of their arrays."""
        for i, (name, _) in enumerate(items):
            self._document.name = name
            chain: set[int] = set()
            at = i
            while isinstance(other := number[at], str):
                chain.add(at)
                if other not in names or names[other] in chain:
                    how = "does not exist" if other not in names else "shares its costs in a circle"
                    self._fail(f"{_title(i, name)} shares the costs of {shown(other)}, which {how}.")
                at = names[other]
            for link in chain:
                number[link] = number[at]
            shape = self.builder.shape(scopes[i])
            if arrays[int(number[i])].shape != shape:
                found = arrays[int(number[i])].shape
                self._fail(f"{_title(i, name)} has domains {shape}, but the costs that it shares have {found}.")

    def _add(self, items: list[Any], scopes: list[Any], number: list[Any], arrays: list[np.ndarray]) -> None:
        """Forbid what no solution within the bound can use, and hand the functions over."""
        tops = [float(a.max()) for a in arrays]
        try:
            best = math.fsum(tops[n] for n in number)
        except OverflowError:
            best = np.inf
        for n, array in enumerate(arrays):
            if -np.inf < best < np.inf:
                rest = best - tops[n]
                array[(array <= self._bound) & (array <= self._bound - rest)] = -np.inf
        tables = [self.builder.table(array, spent=True) if array.ndim == 2 else -1 for array in arrays]
        for (name, _), scope, n in zip(items, scopes, number, strict=True):
            self._document.name = name
            if len(scope) == 2:
                self.builder.edge(scope, tables[n])
            else:
                self.builder.add(scope, arrays[n])
        self._document.name = None

    def _scores(self, title: str, scope: tuple[int, ...], entry: dict[str, Any]) -> np.ndarray:
        shape, costs = self.builder.shape(scope), entry["costs"]
        if not isinstance(costs, list):
            self._fail(f"{title} has costs of type {type(costs).__name__}, wanted a list or the name of a function.")
        if "defaultcost" not in entry:
            if len(costs) != math.prod(shape):
                self._fail(f"{title} has {len(costs)} costs, but its domains {shape} give {math.prod(shape)}.")
            return self._score(self._numbers(costs, title), title).reshape(shape)
        default = self._score(self._numbers([entry["defaultcost"]], title), title)
        width = len(scope) + 1
        if len(costs) % width:
            self._fail(f"{title} has {len(costs)} items in its costs, wanted a multiple of {width} (a tuple and its cost).")
        columns = tuple([self._value(title, v, item) for item in costs[c::width]] for c, v in enumerate(scope))
        scores = self._score(self._numbers(costs[width - 1 :: width], title), title)
        self.builder.spend(math.prod(shape))
        table = np.full(shape, default[0])
        if scope:
            flat = np.ravel_multi_index(columns, shape) if len(scores) else np.zeros(0, dtype=np.int64)
            if len(np.unique(flat)) < len(flat):
                self._fail(f"{title} gives a tuple twice.")
            table.reshape(-1)[flat] = scores
        elif len(scores):
            self._fail(f"{title} has no variables, but tuples.")
        return table

    def _value(self, title: str, v: int, item: Any) -> int:
        names, size = self._values[v], int(self.n_states[v])
        index = item
        if isinstance(item, str):
            index = names.get(item, int(item) if item.isascii() and item.isdigit() and len(item) < 19 else item)
        elif names.get(str(item), item) != item:
            self._fail(f"{title}: {item} may be the value with this name or with this number; write it as a string.")
        if type(index) is not int or not 0 <= index < size:
            self._fail(f"{title} names the value {_brief(item)} of variable {v}, which has {size} values.")
        return index

    def _numbers(self, items: list[Any], title: str) -> np.ndarray:
        if not set(map(type, items)) <= {int, float, str}:
            bad = next(item for item in items if type(item) not in (int, float, str))
            self._fail(f"{title} has the cost {_brief(bad)}, wanted a number.")
        try:
            numbers = np.array(list(map(float, items)), dtype=np.float64)
        except (ValueError, OverflowError):
            self._bad(title, items)
        wrong = ~(np.abs(numbers) <= LARGEST)
        infinite = np.flatnonzero(np.isinf(numbers))
        wrong[infinite] = [not _is_written_inf(items[i]) for i in infinite]
        if wrong.any() or any(isinstance(item, str) and "_" in item for item in items):
            self._bad(title, items)
        for i in np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) >= EXACT)):
            text = str(items[i])
            if text.lstrip("+-").isdigit() and int(text) != int(numbers[i]):
                self._fail(f"{title} has the cost {shown(text)}, a whole number beyond 2**53 that a float64 would round.")
        return numbers

    def _score(self, costs: np.ndarray, title: str) -> np.ndarray:
        scores = self._sign * costs + 0.0
        if np.isposinf(scores).any():
            self._fail(f"{title} has an infinitely good entry, wanted a finite number or a forbidding infinity.")
        return scores

    def _bad(self, title: str, items: list[Any]) -> NoReturn:
        for item in items:
            try:
                value = float(item)
                if "_" not in str(item) and (abs(value) <= LARGEST or (math.isinf(value) and _is_written_inf(item))):
                    continue
            except (ValueError, OverflowError):
                pass
            text = str(item) if isinstance(item, str) else repr(item)
            hint = " A decimal comma? Write a point." if re.fullmatch(r"[+-]?\d+,\d+", text) else ""
            self._fail(f"{title} has the number {shown(text)}, wanted a number of at most {LARGEST} in size.{hint}")
        self._fail(f"{title} has a cost that is not a number.")


def _is_written_inf(item: Any) -> bool:
    """Whether infinity is meant, not a number that is too large (JSON's ``Infinity`` arrives as a string)."""
    return isinstance(item, str) and "inf" in item.lower()


def _brief(item: Any) -> str:
    """A JSON value as it may stand in a message."""
    return shown(str(item)) if isinstance(item, (str, int, float)) else f"a {type(item).__name__}"


def _title(i: int, name: str | None) -> str:
    return f"function {i}" if name is None else f"function {shown(name)}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return result
