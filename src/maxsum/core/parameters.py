"""What settings may be, declared once: constraints, and the one place that refuses a value with words.

A class lists its settings in a table, ``_parameters``; tables of subclasses add to those of their bases. `check` compares an object with all of
them, `check_value` a single value, such as an argument of a function.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from .errors import InvalidParameterError


class Constraint(ABC):
    """A set of legal values, and the words for it.

    Parameters
    ----------
    wanted : str, optional
        Words in the place of those that follow from the set, where they say more: "seconds >= 0" for "a number >= 0".
    """

    def __init__(self, wanted: str = ""):
        self.wanted = wanted

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Whether the value is legal; must take anything at all."""

    @abstractmethod
    def _words(self) -> str: ...

    @property
    def words(self) -> str:
        """What is wanted, as in "wanted a whole number >= 1"."""
        return self.wanted or self._words()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.words}>"


class WholeNumber(Constraint):
    """A whole number of Python or numpy, within limits; booleans and floats are none."""

    def __init__(self, at_least: int | None = None, at_most: int | None = None, wanted: str = ""):
        super().__init__(wanted)
        self.at_least, self.at_most = at_least, at_most

    def holds(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            return False
        return (self.at_least is None or bool(value >= self.at_least)) and (self.at_most is None or bool(value <= self.at_most))

    def _words(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"a whole number from {self.at_least} to {self.at_most}"
        limits = [f" >= {self.at_least}"] * (self.at_least is not None) + [f" <= {self.at_most}"] * (self.at_most is not None)
        return f"a whole number{''.join(limits)}"


class Real(Constraint):
    """A number of Python or numpy, within limits; no boolean, and never NaN. ``below=np.inf`` leaves finite numbers."""

    def __init__(
        self,
        at_least: float | None = None,
        above: float | None = None,
        at_most: float | None = None,
        below: float | None = None,
        wanted: str = "",
    ):
        super().__init__(wanted)
        self.at_least, self.above, self.at_most, self.below = at_least, above, at_most, below

    def holds(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or value != value:
            return False
        return (
            (self.at_least is None or bool(value >= self.at_least))
            and (self.above is None or bool(value > self.above))
            and (self.at_most is None or bool(value <= self.at_most))
            and (self.below is None or bool(value < self.below))
        )

    def _words(self) -> str:
        finite = self.below == np.inf
        signs = ((">=", self.at_least), (">", self.above), ("<=", self.at_most), ("<", None if finite else self.below))
        limits = " and ".join(f"{sign} {limit:g}" for sign, limit in signs if limit is not None)
        return f"a {'finite ' if finite else ''}number{' ' if limits else ''}{limits}"


class OneOf(Constraint):
    """One of a few values: names, or numbers. A boolean is not the number 1."""

    def __init__(self, *values: str | int, wanted: str = ""):
        super().__init__(wanted)
        self.values = values

    def holds(self, value: Any) -> bool:
        if isinstance(value, str) or (isinstance(value, (int, np.integer)) and not isinstance(value, bool)):
            return value in self.values
        return False

    def _words(self) -> str:
        if len(self.values) > 3:
            return f"one of {', '.join(map(str, self.values))}"
        *first, last = (repr(value) for value in self.values)
        return f"{', '.join(first)} or {last}" if first else last


class Flag(Constraint):
    """True or False, of Python or numpy."""

    def holds(self, value: Any) -> bool:
        return isinstance(value, (bool, np.bool_))

    def _words(self) -> str:
        return "True or False"


class Instance(Constraint):
    """An object of one of some classes."""

    def __init__(self, *classes: type, wanted: str = ""):
        super().__init__(wanted)
        self.classes = classes

    def holds(self, value: Any) -> bool:
        return isinstance(value, self.classes)

    def _words(self) -> str:
        return f"a {' or a '.join(own.__name__ for own in self.classes)}"


class Function(Constraint):
    """Anything that can be called."""

    def holds(self, value: Any) -> bool:
        return callable(value)

    def _words(self) -> str:
        return "a function"


class Elsewhere(Constraint):
    """A value that another check reads, since it depends on other settings or on the data; ``wanted`` names that check."""

    def __init__(self, wanted: str):
        super().__init__(wanted)

    def holds(self, value: Any) -> bool:
        return True

    def _words(self) -> str:
        return self.wanted


class Either(Constraint):
    """What one of several constraints takes."""

    def __init__(self, *options: Constraint, wanted: str = ""):
        super().__init__(wanted)
        self.options = options

    def holds(self, value: Any) -> bool:
        return any(option.holds(value) for option in self.options)

    def _words(self) -> str:
        return " or ".join(option.words for option in self.options)


class Maybe(Constraint):
    """What a constraint takes, or None."""

    def __init__(self, option: Constraint, wanted: str = ""):
        super().__init__(wanted)
        self.option = option

    def holds(self, value: Any) -> bool:
        return value is None or self.option.holds(value)

    def _words(self) -> str:
        return f"{self.option.words}, or None"


POSITIVE = Real(above=0.0, below=np.inf)
RELATIVE_GAP = Real(at_least=0.0, wanted="a relative gap >= 0")
TIME_LIMIT = Maybe(Real(at_least=0.0, wanted="seconds >= 0"))
VERBOSE = Either(Flag(), WholeNumber(0), wanted="0 for silence, or 1")
SEED = WholeNumber(0, wanted="a whole number >= 0, so that runs repeat")
JOBS = Either(WholeNumber(1), OneOf(-1), wanted="a number of threads >= 1 or -1 for one a core")
FILE_NAME = Maybe(Instance(str, os.PathLike, wanted="the name of a file"))
"""Settings that many methods have."""


def settings(**constraints: Constraint | None) -> Mapping[str, Constraint | None]:
    """A table of settings for a class, by name; None takes away one that a base has."""
    return MappingProxyType(constraints)


def check_value(name: str, value: Any, constraint: Constraint, of: str = "") -> None:
    """Refuse a value that its constraint does not take.

    Parameters
    ----------
    name : str
        Of the setting, to stand in the message.
    value : object
    constraint : Constraint
    of : str, optional
        Whose setting it is, to stand before its name.

    Raises
    ------
    InvalidParameterError
    """
    if not constraint.holds(value):
        raise InvalidParameterError(f"{of}{': ' if of else ''}{name} is {value!r}, wanted {constraint.words}.")


@cache
def declared(owner: type) -> Mapping[str, Constraint]:
    """All settings of a class: its own table ``_parameters`` and those of its bases, where it does not say otherwise."""
    found: dict[str, Constraint | None] = {}
    for base in reversed(owner.__mro__):
        found |= vars(base).get("_parameters", {})
    return {name: constraint for name, constraint in found.items() if constraint is not None}


def check(owner: Any) -> None:
    """Refuse an object with a setting that its class does not allow (see `declared`).

    Raises
    ------
    InvalidParameterError
        Names the class and the setting, what it is, and what is wanted.
    """
    kind = type(owner)
    for name, constraint in declared(kind).items():  # type: ignore[arg-type]
        check_value(name, getattr(owner, name), constraint, kind.__name__)
