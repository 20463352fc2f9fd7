"""How the source is written: numbers have reasons, rooms are small, everything public is told, papers have authors.

Read from the source without running it, as `test_layers` does; the last tests show that each check can fail.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "maxsum"
FILES = sorted(SOURCE.rglob("*.py"))
TEXTS = sorted(
    path
    for folder in ("src", "docs", "tests", "benchmarks", "examples", "tools")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".rst", ".cpp") and "_build" not in path.parts
) + sorted(ROOT.glob("*.md"))
CITATION = re.compile(r"(?<![\w.,\-/\\])(?<!\d )\[?00[0-4]\b\]?(?![-\d]|[.,]\d)")
"""A paper by its number in a list. Not meant: 0.001, 18 000, `reut2-000.sgm`."""

MOST_FILES = 15
"""Modules of a room, `__init__` not counted: as many as can be read at a glance."""
LARGER_ROOMS = {"core": 16, "kernels": 50, "datasets": 21, "experiments": 16, "cli": 17}
"""Rooms that are larger today, with what they hold: they may shrink only."""


def relative(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix() if file.is_relative_to(SOURCE) else file.as_posix()


def is_number(node: ast.expr) -> bool:
    """Whether an expression is made of numbers alone, as ``-1``, ``2**20``, ``np.uint64(7)`` and ``(1, 2)`` are."""
    if isinstance(node, ast.Tuple | ast.List | ast.Dict):
        parts = [*node.values] if isinstance(node, ast.Dict) else node.elts
        return bool(parts) and all(map(is_number, parts))
    if isinstance(node, ast.Attribute):
        return ast.unparse(node).startswith("np.finfo(")
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.Call) and re.search(r"\b(u?int|float)\d*$", ast.unparse(node.func)):
        return bool(node.args) and all(map(is_number, node.args))
    return False


def explained(lines: list[str], body: list[ast.stmt], place: int) -> bool:
    """Whether a statement has a comment beside or above it, or a string below it."""
    statement, below = body[place], body[place + 1 : place + 2]
    beside = any(re.search(r"#\s*\S", line) for line in lines[statement.lineno - 1 : statement.end_lineno])
    above = lines[statement.lineno - 2].lstrip().startswith("#") if statement.lineno > 1 else False
    told = bool(below) and isinstance(below[0], ast.Expr) and isinstance(below[0].value, ast.Constant)
    return beside or above or (told and isinstance(below[0].value.value, str))


def number_faults(source: str, name: str) -> list[str]:
    """Tuples of unnamed numbers, private numbers without a reason, and fields of a `Tuning` without one."""
    lines, body = source.split("\n"), ast.parse(source).body
    wrong = []
    for place, statement in enumerate(body):
        if isinstance(statement, ast.ClassDef) and statement.name.endswith("Tuning"):
            listed = set(re.findall(r"^([\w, ]+) : ", ast.get_docstring(statement) or "", flags=re.MULTILINE))
            told = {own for names in listed for own in names.split(", ")}  # the section "Attributes" of the docstring
            wrong += [
                f"{name}:{field.lineno} {statement.name}.{ast.unparse(field.target)} has no reason"
                for inner, field in enumerate(statement.body)
                if isinstance(field, ast.AnnAssign)
                and ast.unparse(field.target) not in told
                and not explained(lines, statement.body, inner)
            ]
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        where = f"{name}:{statement.lineno} {ast.unparse(target)}"
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            if any(map(is_number, statement.value.elts)):
                wrong.append(f"{where}: several numbers in one line, wanted one a line, each with its reason")
            continue
        private = isinstance(target, ast.Name) and target.id.startswith("_") and is_number(statement.value)
        if private and not explained(lines, body, place):
            wrong.append(f"{where} = {ast.unparse(statement.value)} has no reason, wanted a comment or a field of a Tuning")
    return wrong


class Told(NamedTuple):
    """What is known of a class: its bases, and the methods that it documents."""

    bases: set[str]
    methods: set[str]


def told_methods(sources: Iterable[str]) -> dict[str, Told]:
    """Documented methods of all classes, by the names of the classes."""
    found: dict[str, Told] = {}
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                inside = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
                own = found.setdefault(node.name, Told(set(), set()))
                own.bases.update(re.split(r"[.\[]", ast.unparse(base))[-1] for base in node.bases)
                own.methods.update(inner.name for inner in inside if ast.get_docstring(inner))
    return found


def inherits(method: str, bases: Iterable[str], told: dict[str, Told]) -> bool:
    """Whether a base documents the method, so that `help` shows that docstring."""
    known = [told[base] for base in bases if base in told]
    return any(method in base.methods or inherits(method, base.bases, told) for base in known)


def untold(source: str, name: str, told: dict[str, Told]) -> list[str]:
    """Public functions, classes and methods without a docstring, be it an inherited one.

    A property may be told as an attribute of its class.
    """

    def walk(body: list[ast.stmt], prefix: str, above: ast.ClassDef | None) -> Iterator[str]:
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            marks = {ast.unparse(mark).split("(")[0].split(".")[-1] for mark in node.decorator_list}
            fine = bool(ast.get_docstring(node)) or bool(marks & {"setter", "overload"})
            if above is not None:
                is_property = bool(marks & {"property", "cached_property"})
                fine |= is_property and bool(re.search(rf"\b{node.name}\b", ast.get_docstring(above) or ""))
                fine |= inherits(node.name, [ast.unparse(base).split(".")[-1] for base in above.bases], told)
            if not fine:
                yield f"{name}:{node.lineno} {prefix}{node.name} has no docstring"
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}.", node)

    return list(walk(ast.parse(source).body, "", None))


def citation_faults(text: str, name: str) -> list[str]:
    return [
        f"{name}:{number} cites a paper by its number: {line.strip()[:100]}"
        for number, line in enumerate(text.split("\n"), 1)
        if CITATION.search(line)
    ]


def crowded(sizes: dict[str, int]) -> list[str]:
    """Rooms with more modules than they may have, and limits that have become too wide."""
    wrong = []
    for room, size in sizes.items():
        most = LARGER_ROOMS.get(room, MOST_FILES)
        if size > most:
            wrong.append(f"{room}/ has {size} modules, wanted at most {most}: sort them into rooms")
    return wrong


def sizes_of_rooms() -> dict[str, int]:
    rooms: dict[str, int] = {}
    for file in FILES:
        if file.name != "__init__.py":
            room = file.parent.relative_to(SOURCE).as_posix()
            rooms[room] = rooms.get(room, 0) + 1
    return rooms


def test_numbers_have_reasons() -> None:
    faults = [fault for file in FILES for fault in number_faults(file.read_text(encoding="utf-8"), relative(file))]
    assert not faults, "\n".join(faults)


def test_everything_public_is_told() -> None:
    public = [file for file in FILES if not file.name.startswith("_") or file.name == "__init__.py"]
    told = told_methods(file.read_text(encoding="utf-8") for file in FILES)
    wrong = [fault for file in public for fault in untold(file.read_text(encoding="utf-8"), relative(file), told)]
    assert len(public) > 200
    assert wrong == [], "\n".join(wrong)


def test_papers_are_cited_by_author_and_year() -> None:
    wrong = [
        fault
        for file in TEXTS
        if file.resolve() != Path(__file__).resolve()
        for fault in citation_faults(file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix())
    ]
    assert wrong == [], "\n".join(wrong)


def test_rooms_are_small() -> None:
    sizes = sizes_of_rooms()
    assert crowded(sizes) == []
    assert set(LARGER_ROOMS) <= set(sizes)


@pytest.mark.parametrize(
    ("source", "n_faults"),
    [
        ("_NEAR, _FAR = 2.5, 1.0", 1),
        ("A, B = 1, 2  # words do not help: which is which?", 1),
        ("_NEAR = 2.5", 1),
        ("_NEAR: int = -(2**20)", 1),
        ("import numpy as np\n_SEED = np.uint64(7)", 1),
        ("_NEAR = 2.5  # trades calls for steps: half and twice as much took a tenth longer", 0),
        ("# Trades calls for steps.\n_NEAR = 2.5", 0),
        ('_NEAR = 2.5\n"""Trades calls for steps."""', 0),
        ("NEAR = 2.5\n_NAMES = ('a', 'b')\n_A, _B = range(2)", 0),
        ("_NEAR = (2.5, 1.0)", 1),
        ("_NEAR = {'a': 2.5, 'b': 1.0}", 1),
        ("_NEAR = 8 * np.finfo(float).eps", 1),
        ("NEAR, FAR = (2.5, 1.0), (3, 4)", 1),
        ("class Tuning:\n    near: float = 2.5\n    far: int = 3  # why", 1),
        ("class Tuning:\n    # Why.\n    near: float = 2.5", 0),
    ],
)
def test_the_check_of_numbers_sees_a_fault(source: str, n_faults: int) -> None:
    assert len(number_faults(source, "x.py")) == n_faults


BASE = 'class A:\n    """Told."""\n    def f(self):\n        """Told."""\n'


@pytest.mark.parametrize(
    ("source", "n_faults"),
    [
        ("def f():\n    return 1", 1),
        ("class A:\n    def f(self):\n        return 1", 2),
        ('class A:\n    """Told."""\n    @property\n    def f(self):\n        return 1', 1),
        ('class A:\n    """Attributes: f is one."""\n    @property\n    def f(self):\n        return 1', 0),
        ("def _f():\n    return 1\nclass _A:\n    def f(self):\n        return 1", 0),
        ('def f():\n    """Told."""', 0),
        (BASE + 'class B(A):\n    """Told."""\n    def f(self):\n        return 1', 0),
        (BASE + 'class B(A):\n    """Told."""\n    def g(self):\n        return 1', 1),
    ],
)
def test_the_check_of_docstrings_sees_a_fault(source: str, n_faults: int) -> None:
    assert len(untold(source, "x.py", told_methods([source]))) == n_faults


@pytest.mark.parametrize(
    ("text", "n_faults"),
    [
        ("Algorithm 3 of 003: sweeps", 1),
        ("as in 004.", 1),
        ("([003] Theorem 3)", 1),
        ("001 §5.3, Tables 5 and 6", 1),
        ("Franc & Savchynskyy 2008, Algorithm 3", 0),
        ("0.001, 1.000, 18 000 calls, 5,000, reut2-000.sgm, part-00001, 000102", 0),
    ],
)
def test_the_check_of_citations_sees_a_fault(text: str, n_faults: int) -> None:
    assert len(citation_faults(text, "x.md")) == n_faults


def test_the_check_of_rooms_sees_a_fault() -> None:
    assert len(crowded({"new": MOST_FILES + 1, "kernels": LARGER_ROOMS["kernels"] + 1, "losses": MOST_FILES})) == 2
