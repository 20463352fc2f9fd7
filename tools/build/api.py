"""Write docs/api.txt: every public name with its parameters and their defaults. A test compares it with the library, so that nobody breaks the API unawares.

Run after a change that is meant: ``python tools/build/api.py``. The difference of the file then shows reviewers what users will notice.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "api.txt"
HEADER = "# Public names, parameters and defaults. Written by tools/build/api.py, compared with the library by tests/test_public_api.py.\n"


def signature(thing: Any) -> str:
    """Parameters with their defaults, without annotations; what has none says what it is."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(plain)))


def members(name: str, thing: type) -> list[str]:
    """Public methods and properties of a class, inherited ones of ours included."""
    found = []
    for member in sorted(set(dir(thing))):
        value = inspect.getattr_static(thing, member)
        home = next((base for base in thing.__mro__ if member in vars(base)), thing)
        if member.startswith("_") or member.endswith("_request") or not home.__module__.startswith("maxsum"):
            continue
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        found.append(f"{name}.{member}{signature(value) if inspect.isfunction(value) else ''}")
    return found


def lines(module: ModuleType, prefix: str) -> list[str]:
    found = []
    for name in sorted(module.__all__):
        thing, full = getattr(module, name), f"{prefix}.{name}"
        if isinstance(thing, ModuleType):
            found += lines(thing, full) if hasattr(thing, "__all__") else [full, *module_lines(thing, full)]
        elif inspect.isclass(thing):
            found += [f"{full}{signature(thing)}", *members(full, thing)]
        elif callable(thing):
            found.append(f"{full}{signature(thing)}")
        else:
            found.append(full)
    return found


def module_lines(module: ModuleType, prefix: str) -> list[str]:
    """Functions and classes of a module that lists no names, as far as they are its own."""
    own = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__
    ]
    return [f"{prefix}.{name}{signature(getattr(module, name))}" for name in sorted(own)]


def text() -> str:
    import maxsum

    return HEADER + "\n".join(lines(maxsum, "maxsum")) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
