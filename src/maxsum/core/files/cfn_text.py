"""The text of a ``.cfn`` file: JSON, or toulbar2's relaxed form of it, without quotes, commas, colons or even names of fields, and with comments.

In the relaxed form ``{`` and ``[`` are the same, separators are white space, commas and colons, strings need no quotes; ``#`` in the first column and ``//`` start
comments. Fields stand in a fixed order, and their names may be left out altogether (then ``{problem`` is missing at the beginning). What comes out is what
the strict form would have been.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..errors import ParseError
from ..validation import EXACT, LARGEST
from .global_costs import ARITHMETIC
from .text import Limits, Stream, shown

_TOKEN = re.compile(
    r'(?P<comment>^\#[^\n]*|//[^\n]*)|"(?P<quoted>[^"\n]*)"|(?P<brace>[{}\[\]])|(?P<word>[^\s"{}\[\],:]+)|(?P<broken>")', re.M
)
Fail = Callable[[str], NoReturn]
_OPEN, _CLOSE = ("{", "["), ("}", "]")
_DEEPEST = 20  # brackets inside each other; the format has five

PARAMETERS: dict[str, tuple[str, ...]] = {
    "clique": ("rhs", "values"),
    "knapsack": ("capacity", "weights"),
    "knapsackv": ("capacity", "weightedvalues"),
    "salldiff": ("metric", "cost"),
    "salldiffdp": ("metric", "cost"),
    "salldiffkp": ("metric", "cost"),
    "walldiff": ("metric", "cost"),
    "sgcc": ("metric", "cost", "bounds"),
    "sgccdp": ("metric", "cost", "bounds"),
    "wgcc": ("metric", "cost", "bounds"),
    "samong": ("metric", "cost", "min", "max", "values"),
    "samongdp": ("metric", "cost", "min", "max", "values"),
    "wamong": ("metric", "cost", "values", "min", "max"),
    "wvaramong": ("metric", "cost", "values"),
    "wsum": ("metric", "cost", "comparator", "to"),
    "wvarsum": ("metric", "cost", "comparator"),
}
"""Fields of the parameters of a global cost function, in their order."""


class _DuplicateKey(Exception):
    pass


class Document:
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
            self.root = self._relaxed(error)
        except RecursionError:
            raise ParseError("the JSON is nested too deeply.", self.path) from None
        except _DuplicateKey as error:
            self._fail_at(str(error), 2, f"the key {shown(str(error))} stands twice in one object.")
        except ValueError as error:
            raise ParseError(f"not JSON that can be read: {error}.", self.path) from None

    def _relaxed(self, error: json.JSONDecodeError) -> dict[str, Any]:
        """The relaxed form of a text that is not JSON."""
        try:
            return parse(self._text)
        except RelaxedError as other:
            raise ParseError(
                f"not JSON ({error.msg} at line {error.lineno}, column {error.colno}), nor toulbar2's relaxed form: {other}.",
                self.path,
                other.line,
            ) from None

    def _fail_at(self, name: str, times: int, message: str) -> NoReturn:
        """Raise, with the line of the last occurrence of a key if it occurs exactly ``times`` times."""
        key = re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:|(?<![^\s{}\[\],])" + re.escape(name) + r"(?=[\s:]*[\[{])"
        found = [match.start() for match in re.finditer(key, self._text)]
        line = self._text.count("\n", 0, found[-1]) + 1 if len(found) == times else None
        raise ParseError(message, self.path, line)

    def fail(self, message: str) -> NoReturn:
        """Raise for the function or variable that is being read."""
        if self.name is None:
            raise ParseError(message, self.path)
        self._fail_at(self.name, 1, message)


class Pairs(list[tuple[str | None, Any]]):
    """Fields with and without names, in the order of the file."""


class RelaxedError(Exception):
    """A text that is not of this form.

    Parameters
    ----------
    message : str
    line : int
    """

    def __init__(self, message: str, line: int):
        super().__init__(message)
        self.line = line


def parse(text: str) -> dict[str, Any]:
    """The document: ``problem`` an object, ``variables`` and ``functions`` as `Pairs`, costs as strings."""
    return _Parser(text).document()


class _Parser:
    def __init__(self, text: str):
        self._text = text
        self._matches = _TOKEN.finditer(text)
        self._peeked: tuple[str, bool] | None = None
        self._at = 0

    # ---- tokens ------------------------------------------------------------------------------------------------

    def _fail(self, message: str) -> Any:
        raise RelaxedError(message, self._text.count("\n", 0, self._at) + 1)

    def _peek(self) -> tuple[str, bool]:
        """The next token, and whether it is a bracket; an empty one at the end."""
        while self._peeked is None:
            match = next(self._matches, None)
            if match is None:
                self._at = len(self._text.rstrip())
                self._peeked = ("", False)
            elif match.lastgroup == "broken":
                self._at = match.start()
                self._fail("a quote is not closed on its line")
            elif match.lastgroup != "comment":
                self._at = match.start()
                self._peeked = (match[match.lastgroup or 0], match.lastgroup == "brace")
        return self._peeked

    def _next(self, what: str) -> str:
        """The next word."""
        token, brace = self._peek()
        if brace or not token:
            self._fail(f"{token or 'the end'} stands where {what} should be")
        self._peeked = None
        return token

    def _is(self, kinds: tuple[str, ...]) -> bool:
        token, brace = self._peek()
        return brace and token in kinds

    def _bracket(self, kinds: tuple[str, ...], what: str) -> None:
        if not self._is(kinds):
            self._fail(f"{self._peek()[0] or 'the end'} stands where {what} should be, wanted {' or '.join(kinds)}")
        self._peeked = None

    def _tag(self, name: str) -> None:
        if self._named and self._next(f"the field {name}") != name:
            self._fail(f"the field {name} is missing or out of its place")

    # ---- the document ------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        self._bracket(_OPEN, "the problem")
        self._named = self._peek() == ("problem", False)
        self._tag("problem")
        self._bracket(_OPEN, "name and bound")
        self._tag("name")
        name = self._next("the name of the problem")
        self._tag("mustbe")
        problem = {"name": name, "mustbe": self._next("the bound")}
        self._bracket(_CLOSE, "the end of name and bound")
        self._tag("variables")
        variables = self._fields("the variables", self._domain)
        self._tag("functions")
        functions = self._fields("the functions", self._function)
        self._bracket(_CLOSE, "the end of the problem")
        if self._peek()[0]:
            self._fail(f"{self._peek()[0][:40]} follows after the problem")
        return {"problem": problem, "variables": variables, "functions": functions}

    def _fields(self, what: str, value: Any) -> Pairs:
        self._bracket(_OPEN, what)
        found, names = Pairs(), set()
        while not self._is(_CLOSE):
            name = None
            token, brace = self._peek()
            if not brace and not (value == self._domain and token[:1].isdigit()):
                name = self._next(f"a name in {what}")
                if name in names:
                    self._fail(f"the name {name[:40]} stands twice in {what}")
                names.add(name)
            found.append((name, value()))
        self._bracket(_CLOSE, what)
        return found

    def _words(self, what: str) -> list[str]:
        self._bracket(_OPEN, what)
        found = []
        while not self._is(_CLOSE):
            found.append(self._next(f"an entry of {what}"))
        self._bracket(_CLOSE, what)
        return found

    def _domain(self) -> Any:
        return self._words("the values of a variable") if self._is(_OPEN) else number(self._next("a domain"))

    def _function(self) -> dict[str, Any]:
        self._bracket(_OPEN, "a function")
        self._tag("scope")
        entry: dict[str, Any] = {"scope": [number(word) for word in self._words("a scope")]}
        if self._is(_OPEN):
            field = "costs"
        else:
            word = self._next("costs, a default cost or a type")
            if not self._named:
                numeric = word[:1] in "0123456789+-."
                field = "defaultcost" if numeric else "type" if word in PARAMETERS or word in ARITHMETIC else "costs"
            else:
                field, word = word, "" if word == "costs" else self._next(f"the field {word}")
            if field not in ("costs", "defaultcost", "type"):
                self._fail(f"{field[:40]} stands where costs, defaultcost or type should be")
            if word or field != "costs":
                entry[field] = word
        if field == "type":
            self._tag("params")
            entry["params"] = self._parameters(entry["type"])
        elif field == "defaultcost" or (field == "costs" and "costs" not in entry):
            if field == "defaultcost":
                self._tag("costs")
            entry["costs"] = self._words("costs") if self._is(_OPEN) else self._next("costs")
        self._bracket(_CLOSE, "the end of a function")
        return entry

    def _parameters(self, kind: str) -> Any:
        if kind not in PARAMETERS:
            return self._nested(0)
        found: dict[str, Any] = {}
        self._bracket(_OPEN, "parameters")
        for name in PARAMETERS[kind]:
            self._tag(name)
            found[name] = self._nested(0) if self._is(_OPEN) else self._next(name)
        self._bracket(_CLOSE, f"the end of the parameters of {kind}")
        return found

    def _nested(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            self._fail("the brackets are nested too deeply")
        self._bracket(_OPEN, "parameters")
        found: list[Any] = []
        while not self._is(_CLOSE):
            found.append(self._nested(depth + 1) if self._is(_OPEN) else self._next("a parameter"))
        self._bracket(_CLOSE, "parameters")
        return found


def number(word: str) -> Any:
    """A word as a whole number if it is one."""
    return int(word) if re.fullmatch(r"-?[0-9]{1,18}", word) else word


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return result


def numbers(items: list[Any], title: str, fail: Fail) -> np.ndarray:
    """Costs as floats: numbers, or numbers as strings; ``fail`` is told about others, and about whole ones that a float64 would round."""
    if not set(map(type, items)) <= {int, float, str}:
        bad = next(item for item in items if type(item) not in (int, float, str))
        fail(f"{title} has the cost {brief(bad)}, wanted a number.")
    try:
        numbers = np.array(list(map(float, items)), dtype=np.float64)
    except (ValueError, OverflowError):
        _bad(title, items, fail)
    wrong = ~(np.abs(numbers) <= LARGEST)
    infinite = np.flatnonzero(np.isinf(numbers))
    wrong[infinite] = [not _is_written_inf(items[i]) for i in infinite]
    if wrong.any() or any(isinstance(item, str) and "_" in item for item in items):
        _bad(title, items, fail)
    for i in np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) >= EXACT)):
        text = str(items[i])
        if text.lstrip("+-").isdigit() and int(text) != int(numbers[i]):
            fail(f"{title} has the cost {shown(text)}, a whole number beyond 2**53 that a float64 would round.")
    return numbers


def _bad(title: str, items: list[Any], fail: Fail) -> NoReturn:
    for item in items:
        try:
            value = float(item)
            if "_" not in str(item) and (abs(value) <= LARGEST or (math.isinf(value) and _is_written_inf(item))):
                continue
        except (ValueError, OverflowError):
            pass
        text = str(item) if isinstance(item, str) else repr(item)
        hint = " A decimal comma? Write a point." if re.fullmatch(r"[+-]?\d+,\d+", text) else ""
        fail(f"{title} has the number {shown(text)}, wanted a number of at most {LARGEST} in size.{hint}")
    fail(f"{title} has a cost that is not a number.")


def _is_written_inf(item: Any) -> bool:
    """Whether infinity is meant, not a number that is too large (JSON's ``Infinity`` arrives as a string)."""
    return isinstance(item, str) and "inf" in item.lower()


def brief(item: Any) -> str:
    """A JSON value as it may stand in a message."""
    return shown(str(item)) if isinstance(item, (str, int, float)) else f"a {type(item).__name__}"
