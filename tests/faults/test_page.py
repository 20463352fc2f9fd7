"""docs/faults.md and the tests that have the number of a fault in their name say the same."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "faults.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| ([\w/, ]+) \|$", flags=re.MULTILINE)
NAME = re.compile(r"^def test_fault((?:_\d+)+)_[a-z]", flags=re.MULTILINE)


def listed() -> list[tuple[int, set[str]]]:
    return [(int(row[0]), set(row[3].split(", "))) for row in ROW.findall(PAGE.read_text(encoding="utf-8"))]


def shown() -> dict[int, set[str]]:
    """The files whose tests name a fault."""
    found = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for numbers in NAME.findall(path.read_text(encoding="utf-8")):
            for number in numbers.strip("_").split("_"):
                found[int(number)].add(path.relative_to(TESTS).with_suffix("").as_posix())
    return dict(found)


def test_the_page_has_every_fault_once_in_order():
    numbers = [number for number, _ in listed()]
    rows = re.findall(r"^\| \d", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert numbers == list(range(1, len(rows) + 1)) and len(numbers) >= 63


def test_every_fault_of_the_page_has_the_tests_that_it_names_and_no_test_is_without_a_fault():
    assert dict(listed()) == shown()
