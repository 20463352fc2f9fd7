"""Settings of ``maxsum fit``: the same names on the command line and in a CONFIG file, checked, unknown ones refused."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import InvalidParameterError, ParseError
from ..core.parameters import Constraint, Elsewhere, Flag, Instance, Maybe, OneOf, Real, WholeNumber, declared
from .forms import ESTIMATORS, TASKS

_LARGEST_CONFIG = 1 << 20  # bytes of a file of settings; more is another kind of file
CONFIGS = (".toml", ".json")


class Key(NamedTuple):
    """A setting: what it may be, what it does, for which tasks, and its name at the estimator (empty: for the reader or the run)."""

    kind: str
    what: str
    parameter: str = ""
    tasks: tuple[str, ...] = TASKS


_OWN = {
    "data": Key("text", "the data to learn from"),
    "out": Key("text", "the file of the model"),
    "task": Key("text", f"one of {', '.join(TASKS)}; guessed from the data by default"),
    "cv": Key("any", "choose C by cross-validation: true, or the number of folds"),
    "classes": Key("names", "all classes, where the training set may lack some", "classes", ("sequence", "image", "graph")),
    "min_count": Key("whole", "how often a feature must occur", "", ("sequence",)),
    "window": Key("whole", "sequence: tokens to each side; image: side of the square of means", "", ("sequence", "image")),
    "affixes": Key("whole", "letters of prefixes and suffixes of the first column", "", ("sequence",)),
    "templates": Key("list", "features, such as 0[-1]|0[0]: column[offset]", "", ("sequence",)),
    "images": Key("text", "folder of the images in that of the data", "", ("image",)),
    "masks": Key("text", "folder of the masks in that of the data", "", ("image",)),
    "mask_suffix": Key("text", "what follows the name of an image in that of its mask", "", ("image",)),
    "mask": Key("text", "pattern of the names of masks, such as mask-*.png, where * is the name of the image", "", ("image",)),
    "unknown": Key("names", "values or colours (#rrggbb) of pixels whose label is unknown", "", ("image",)),
    "pixels": Key("names", "features of pixels: colour, mean, spread, position", "", ("image",)),
    "products": Key("flag", "products of two features of a pixel too", "", ("image",)),
    "labels": Key("any", "columns that are labels: 6 (the last six), first:6, or names", "", ("multilabel",)),
    "zero_based": Key("flag", "features of a LIBSVM file start at 0", "", ("multilabel",)),
    "id": Key("text", "column that names rows", "", ("multilabel", "graph")),
    "ignore": Key("names", "columns to leave out", "", ("multilabel", "graph")),
    "standardise": Key("flag", "numbers to mean 0 and spread 1; on by default", "", ("multilabel", "graph")),
    "edges": Key("text", "the list of edges", "", ("graph",)),
    "ends": Key("names", "the two columns with the ends of an edge", "", ("graph",)),
    "label": Key("text", "column of the labels of nodes", "", ("graph",)),
    "graph": Key("text", "column that tells graphs apart", "", ("graph",)),
    "edge_columns": Key("names", "columns of numbers that scale the tables of edges", "", ("graph",)),
    "edge_type": Key("text", "column with the types of edges; each has a table of its own", "", ("graph",)),
    "self_loops": Key("text", "error, or drop", "", ("graph",)),
}
"""Settings of reading and of the run; those of the estimators are read from them."""

# Parameters that are no words of a file: objects, functions, and what options of the command say.
_LEFT_OUT = {"callback", "verbose", "checkpoint", "checkpoint_seconds", "warm_start", "features", "tie", "homogeneous"}
_LISTED = {"Cs": "numbers"}


@cache
def keys() -> dict[str, Key]:
    """All settings by name: those of reading and of the run, and each parameter of the estimators, as their documentation tells it."""
    from .. import estimators

    found = dict(_OWN)
    for task in TASKS:
        for name in (ESTIMATORS[task], f"{ESTIMATORS[task]}CV"):
            kind = getattr(estimators, name)
            told, rules = described(kind), declared(kind)
            for own, parameter in inspect.signature(kind).parameters.items():
                if own in _LEFT_OUT or own in _OWN:
                    continue
                known = found.get(own)
                tasks = (task,) if known is None else known.tasks if task in known.tasks else (*known.tasks, task)
                what = f"{told[own].rstrip('.')}; by default {_shown(parameter.default)}" if known is None else known.what
                found[own] = Key(_LISTED.get(own) or _kind(rules.get(own)), what, own, tasks)
    return found


def described(kind: type) -> dict[str, str]:
    """The first sentence on each parameter in the documentation of a class."""
    section = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*) : [^\n]*\n?((?:    [^\n]*(?:\n|$))*)", section, flags=re.M):
        words = " ".join(text.split())
        found |= dict.fromkeys(names.split(", "), re.split(r"(?<=[.]) ", words)[0] if words else names)
    return found


def _shown(default: Any) -> str:
    return "none" if default is None else json.dumps(default) if isinstance(default, (bool, int, float, str)) else str(default)


def _kind(rule: Constraint | None) -> str:
    """What a text of a file must be for a constraint of a parameter."""
    rule = rule.option if isinstance(rule, Maybe) else rule
    if isinstance(rule, Flag):
        return "flag"
    if isinstance(rule, Real):
        return "number"
    if isinstance(rule, WholeNumber):
        return "whole"
    return "text" if isinstance(rule, OneOf) and all(isinstance(own, str) for own in rule.values) else "any"


_RUN = {"data", "out", "task", "cv"}
_VALUES = {
    "number": Real(),
    "whole": WholeNumber(),
    "text": Instance(str, wanted="a text"),
    "flag": Flag("true or false"),
    "any": Elsewhere("what the estimator or the reader takes"),
}
_LISTS = {"names": "a list of names", "list": "a list of texts", "numbers": "a list of numbers"}


def read_config(path: Path) -> dict[str, Any]:
    """Settings of a TOML or JSON file."""
    with path.open("rb") as file:
        raw = file.read(_LARGEST_CONFIG + 1)
    if len(raw) > _LARGEST_CONFIG:
        raise ParseError(f"the file holds more than {_LARGEST_CONFIG} bytes; wanted a few settings.", str(path))
    try:
        text = raw.decode("utf-8")
        found = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ParseError(f"not {path.suffix[1:].upper()} that can be read ({error}).", str(path)) from None
    if not isinstance(found, dict):
        raise ParseError(f"the file holds a {type(found).__name__}, wanted settings with names.", str(path))
    return {known(name, str(path)): value for name, value in found.items()}


def read_sets(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings given as ``name=value``; values are JSON where they can be, else text."""
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidParameterError(f"--set is {pair!r}, wanted name=value.")
        own = known(name, "--set")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[own] = text if keys()[own].kind == "text" and not isinstance(value, str) else value
    return found


def known(name: str, where: str) -> str:
    """The name of a setting as it is spelt here; refused if there is none."""
    own = name.strip().replace("-", "_")
    if own in keys():
        return own
    near = difflib.get_close_matches(own.lower(), [key.lower() for key in keys()], 1, 0.5)
    real = {key.lower(): key for key in keys()}
    hint = f"did you mean {real[near[0]]!r}?" if near else f"known are {', '.join(keys())}."
    raise InvalidParameterError(f"{where}: there is no setting {name!r}; {hint}")


def checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with values of the right kinds; those that are None left out."""
    return {name: _value(name, value) for name, value in settings.items() if value is not None}


def _value(name: str, value: Any) -> Any:
    kind = keys()[name].kind
    if kind in _VALUES and _VALUES[kind].holds(value):
        return float(value) if kind == "number" else value
    if kind in _LISTS:
        items = value.split(",") if isinstance(value, str) and kind != "list" else value
        items = [value] if isinstance(items, (str, int, float)) else items
        if isinstance(items, list) and items and all(isinstance(item, (str, int, float)) for item in items):
            own = [item.strip() if isinstance(item, str) else item for item in items]
            try:
                return [float(item) for item in own] if kind == "numbers" else own
            except ValueError:
                pass
    words = _LISTS[kind] if kind in _LISTS else _VALUES[kind].words
    raise InvalidParameterError(f"{name} is {value!r}, wanted {words}: {keys()[name].what}.")


def split_settings(settings: Mapping[str, Any], task: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters of the estimator, and settings of the reader; refuses settings of other tasks."""
    parameters, reader = {}, {}
    for name, value in settings.items():
        key = keys()[name]
        if task not in key.tasks:
            raise InvalidParameterError(f"{name} is a setting for {' and '.join(key.tasks)} data, but these are {task} data.")
        if key.parameter:
            parameters[key.parameter] = value
        elif name == "cv" and not isinstance(value, bool):
            parameters["cv"] = value
        elif name not in _RUN:
            reader[name] = value
    return parameters, reader
