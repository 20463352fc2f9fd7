"""The state of a training as arrays: any dataclass, written and read by its fields.

A state holds arrays, numbers, words, enums, random generators, sparse matrices, lists and dictionaries of such, named tuples, other
dataclasses, and objects that give such values by `state` and take them by `restore` (of the classes in their attribute ``holds``). Fields with the metadata `REBUILT` (the objective, work space) are not written. Reading fills a state that `Learner.init` has made
afresh; what classes may be in a file follows from the types of its fields, so a file cannot name others.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["REBUILT", "pack", "unpack"]
_LAYOUT = "layout"
REBUILT = {"rebuilt": True}
"""Metadata of a field that is made again, not written."""


def pack(state: Any) -> dict[str, np.ndarray]:
    """A state as named arrays, one of which says how the others make it up."""
    writer = _Writer()
    layout = writer.write(state, "")
    return {_LAYOUT: np.frombuffer(json.dumps(layout).encode(), dtype=np.uint8), **writer.arrays}


def unpack(arrays: Mapping[str, np.ndarray], into: Any) -> Any:
    """What `pack` wrote, filled into a fresh state of the same kind, which is returned.

    A dataclass with a method ``make(name, kind)`` is asked for an object where its field ``name`` holds one of another class than the
    fresh state has. One with a method ``restored()`` is told when its fields are read.

    Raises
    ------
    ValueError
        If the arrays do not make up such a state.
    """
    try:
        layout = json.loads(bytes(np.asarray(arrays[_LAYOUT], dtype=np.uint8)))
        return _Reader(arrays, into).read(layout, into, _nobody)
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"the arrays do not make up a {type(into).__name__} ({type(error).__name__}: {error})") from error


def _written(kind: Any) -> list[str]:
    """Names of the fields of a dataclass that are written."""
    return [own.name for own in fields(kind) if not own.metadata.get("rebuilt")]


def _keeps_itself(value: Any) -> bool:
    return callable(getattr(value, "state", None)) and callable(getattr(value, "restore", None))


class _Writer:
    """Arrays by name; an array that is met twice is written once, and is one array again when it is read."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._seen: dict[int, tuple[str, np.ndarray]] = {}

    def array(self, value: np.ndarray, name: str) -> str:
        known = self._seen.get(id(value))
        if known is None:
            self._seen[id(value)] = name, value
            self.arrays[name] = value
            return name
        return known[0]

    def write(self, value: Any, name: str) -> Any:
        """What stands for a value in the layout; its arrays are called ``name`` and what is below it."""
        if isinstance(value, Enum):
            return {"enum": type(value).__name__, "value": value.value}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"value": value}
        if isinstance(value, np.generic):
            return {"value": value.item()}
        if isinstance(value, np.ndarray):
            return {"array": self.array(value, name)}
        if isinstance(value, np.random.Generator):
            return {"random": value.bit_generator.state}
        if sparse.issparse(value):
            parts = {part: self.array(getattr(value, part), f"{name}/{part}") for part in ("data", "indices", "indptr")}
            return {"sparse": parts, "shape": list(value.shape)}
        if is_dataclass(value) and not isinstance(value, type):
            return {"record": type(value).__name__, "fields": self._fields(value, _written(value), name)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"tuple": type(value).__name__, "fields": self._fields(value, value._fields, name)}
        if isinstance(value, dict):
            return {"dict": [[key, self.write(own, f"{name}/{key}")] for key, own in value.items()]}
        if isinstance(value, (list, tuple)):
            return {"tuples" if isinstance(value, tuple) else "list": self._list(value, name)}
        if _keeps_itself(value):
            own = {key: self.write(part, f"{name}/{key}") for key, part in value.state().items()}
            return {"kept": type(value).__name__, "parts": own}
        raise TypeError(f"{name or 'the state'} is a {type(value).__name__}, which a state cannot hold; mark it as rebuilt.")

    def _fields(self, value: Any, names: Any, name: str) -> dict[str, Any]:
        return {own: self.write(getattr(value, own), f"{name}/{own}".lstrip("/")) for own in names}

    def _list(self, value: Any, name: str) -> Any:
        """Rows of the same type, and numbers, take one array, however many they are."""
        if len(kinds := {type(own) for own in value}) == 1 and kinds <= {int, float}:
            self.arrays[name] = np.array(value)
            return {"numbers": name}
        rows = [own for own in value if isinstance(own, np.ndarray) and own.ndim == 1]
        if len(rows) == len(value) and len({row.dtype for row in rows}) == 1:
            self.arrays[name] = np.concatenate(rows)
            self.arrays[f"{name}/sizes"] = np.array([len(row) for row in rows], dtype=np.int64)
            return {"rows": name}
        return [self.write(own, f"{name}/{i}") for i, own in enumerate(value)]


def _nobody(kind: str) -> Any:
    raise KeyError(f"nobody makes a {kind}")


class _Reader:
    """Values from their layout; ``into`` says what classes may be met."""

    def __init__(self, arrays: Mapping[str, np.ndarray], into: Any):
        self.arrays = arrays
        self.known = {kind.__name__: kind for kind in _met(into, set())}
        self._read: dict[str, np.ndarray] = {}

    def array(self, name: str) -> np.ndarray:
        if name not in self._read:
            self._read[name] = np.array(self.arrays[name])
        return self._read[name]

    def read(self, node: Any, into: Any, make: Any) -> Any:
        """The value of a node of the layout; ``into`` is what stands in its place, ``make`` gives an object of another class."""
        match node:
            case {"enum": kind, "value": value}:
                return self.known[kind](value)
            case {"value": value}:
                return value
            case {"array": name}:
                return self.array(name)
            case {"random": state}:
                random = into if isinstance(into, np.random.Generator) else np.random.default_rng()
                random.bit_generator.state = state
                return random
            case {"sparse": parts, "shape": shape}:
                return sparse.csr_array(tuple(self.array(parts[part]) for part in ("data", "indices", "indptr")), shape=shape)
            case {"tuple": kind, "fields": own}:
                given = into if type(into).__name__ == kind else None
                return self.known[kind](**{name: self.read(one, getattr(given, name, None), make) for name, one in own.items()})
            case {"record": kind, "fields": own}:
                return self._record(kind, own, into, make)
            case {"dict": items}:
                before = into if isinstance(into, dict) else {}
                return {key: self.read(one, before.get(key), make) for key, one in items}
            case {"list": own}:
                return self._list(own, make)
            case {"tuples": own}:
                return tuple(self._list(own, make))
            case {"kept": kind, "parts": parts}:
                target = into if type(into).__name__ == kind else make(kind)
                target.restore({key: self.read(one, None, make) for key, one in parts.items()})
                return target
        raise KeyError(f"the layout has the entry {str(node)[:80]}")

    def _record(self, kind: str, own: dict[str, Any], into: Any, make: Any) -> Any:
        known = self.known.get(kind)
        if known is not None and known.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return known(**{name: self.read(one, None, make) for name, one in own.items()})
        target: Any = into
        if type(into).__name__ != kind:
            whole = known is not None and len(_written(known)) == len(fields(known))  # type: ignore[arg-type]
            target = object.__new__(known) if known is not None and whole else make(kind)
        if set(own) != set(_written(target)):
            raise KeyError(f"{kind} has the fields {sorted(own)}, wanted {sorted(_written(target))}")
        for name, one in own.items():

            def maker(kind: str, name: str = name) -> Any:
                return target.make(name, kind)

            setattr(target, name, self.read(one, getattr(target, name, None), maker))
        if hasattr(target, "restored"):
            target.restored()
        return target

    def _list(self, own: Any, make: Any) -> list[Any]:
        match own:
            case {"numbers": name}:
                return list(self.arrays[name].tolist())
            case {"rows": name}:
                ends = np.cumsum(self.arrays[f"{name}/sizes"])[:-1]
                return [np.array(row) for row in np.split(self.arrays[name], ends)]
        return [self.read(one, None, make) for one in own]


def _met(value: Any, seen: set[Any]) -> Iterator[type]:
    """Classes that a state can hold, by the types of its fields and of what is in them."""
    yield from _classes(type(value), seen)
    if is_dataclass(value):
        for name in _written(value):
            yield from _met(getattr(value, name, None), seen)


def _classes(kind: Any, seen: set[Any]) -> Iterator[type]:
    """Dataclasses, named tuples and enums that a type can hold."""
    if kind in seen:
        return
    seen.add(kind)
    for part in (*typing.get_args(kind), *getattr(kind, "holds", ())):
        yield from _classes(part, seen)
    if not isinstance(kind, type):
        return
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        yield kind
        hints = typing.get_type_hints(kind)
        for name in _written(kind) if is_dataclass(kind) else kind._fields:  # type: ignore[attr-defined]
            yield from _classes(hints.get(name), seen)
    elif issubclass(kind, Enum):
        yield kind
    if kind.__module__.startswith(__name__.split(".")[0]):
        below: type
        for below in kind.__subclasses__():
            yield from _classes(below, seen)
