"""Docstrings of the public API say what is there: numpydoc's validation, with the rules that find faults and not matters of taste.

Left out, with reasons: see-also, example and extended-summary sections (SA, EX, ES: the gallery and the guide have them); the
form of a summary (SS: ours may end in a formula, and "Chunks of ..." is no verb); quotes and blank lines (GL01-GL03, the
formatter's affair); descriptions of parameters whose name and type say enough (PR06-PR09, RT03-RT05).
"""

from __future__ import annotations

import importlib
import inspect
import pydoc
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import pytest

pytest.importorskip("numpydoc", reason="numpydoc is in the extra `test`")

WRONG = {
    "GL05": "tabs",
    "GL06": "unknown section",
    "GL07": "sections in the wrong order",
    "GL09": "deprecation out of place",
    "PR02": "unknown parameter",
    "PR03": "parameters in another order",
    "PR05": "parameter type ends with a period",
    "PR10": "no space before the colon",
    "RT02": "a single return value with a name",
    "YD01": "a generator without Yields",
}
"""Faults of any docstring."""
MISSING = {
    "GL08": "no docstring",
    "PR01": "undocumented parameter",
    "PR04": "parameter without type",
    "RT01": "no Returns section",
}
"""Faults of functions and classes that users call by name; a method must have a docstring, of any form."""
MODULES = ("maxsum", "maxsum.datasets", "maxsum.inference", "maxsum.losses", "maxsum.metrics", "maxsum.parts")
LAYERS = ("core", "inference", "datasets", "losses", "metrics", "parts")


def public() -> Iterator[tuple[str, bool]]:
    """Full names of public functions, classes and methods of the layers that are checked, and whether they are methods."""
    found: dict[str, bool] = {}
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in names:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            home = thing.__module__.split(".")
            if (
                home[0] != "maxsum"
                or home[1] not in LAYERS
                or (not hasattr(module, "__all__") and thing.__module__ != module.__name__)
            ):
                continue
            full = f"{thing.__module__}.{thing.__qualname__}"
            found[full] = False
            if inspect.isclass(thing):
                found |= {f"{full}.{method}": True for method in methods(thing)}
    yield from found.items()


def methods(thing: type) -> Iterator[str]:
    for name, value in vars(thing).items():
        inner: Any = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if not name.startswith("_") and inspect.isfunction(inner):
            yield name


def faults(name: str, is_method: bool) -> list[str]:
    """What numpydoc finds; fields of tuples and data classes may stand under Attributes, docstrings may be inherited."""
    from numpydoc.docscrape_sphinx import get_doc_object
    from numpydoc.validate import validate

    found = validate(name)
    demanded = WRONG.keys() | ({"GL08"} if is_method else MISSING.keys())
    thing = pydoc.locate(name)
    wrong = []
    if inspect.isclass(thing) and (fields_of(thing) or issubclass(thing, (Enum, list))):
        demanded -= {"PR01"}
        document = get_doc_object(thing)
        told = {part.strip() for one in document["Parameters"] + document["Attributes"] for part in one.name.split(",")}
        wrong = [f"{name}: the field {field} is not documented" for field in fields_of(thing) if field not in told]
    if inspect.getdoc(thing):
        demanded -= {"GL08"}
    return wrong + [f"{name}: {code} {message}" for code, message in found["errors"] if code in demanded]


def fields_of(thing: type) -> list[str]:
    """Public fields of a named tuple or a data class."""
    names = getattr(thing, "_fields", None) or getattr(thing, "__dataclass_fields__", ())
    return [name for name in names if not name.startswith("_")]


def test_docstrings_are_true_and_whole() -> None:
    checked = dict(public())
    assert len(checked) > 130
    wrong = [fault for name, is_method in checked.items() for fault in faults(name, is_method)]
    assert wrong == [], "\n".join(wrong)


def wrongly_told(a: int, b: int) -> int:
    """Add two numbers.

    Parameters
    ----------
    b : int
    c : int
    """
    return a + b


class HalfTold(NamedTuple):
    """Two numbers.

    Attributes
    ----------
    first : int
    """

    first: int
    second: int

    def total(self) -> int:
        return self.first + self.second


def test_the_check_sees_faults() -> None:
    here = __name__
    assert sorted(fault.split()[1] for fault in faults(f"{here}.wrongly_told", False)) == ["PR01", "PR02", "RT01"]
    assert faults(f"{here}.HalfTold", False) == [f"{here}.HalfTold: the field second is not documented"]
    assert [fault.split()[1] for fault in faults(f"{here}.HalfTold.total", True)] == ["GL08"]
