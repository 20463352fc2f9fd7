"""Shared by all tests: who starts with which, deterministic property tests, the data folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import pytest
from reference.seeds import THOROUGH

TESTS = Path(__file__).parent
SOLVERS = (
    *("contracts/test_solvers", "contracts/test_adversarial", "contracts/test_metamorphic", "core", "inference"),
    *("adversary", "check", "parts", "graphs", "files", "test_layers"),
)
LEARNERS = (
    *("learning", "contracts/test_learners", "test_benchmarks", "experiments", "estimators", "faults", "storage", "cli"),
    "test_docs",
)

os.environ["MAXSUM_DATA_CACHE"] = str(
    Path(__file__).parent / "no-cache"
)  # what was fetched on this machine must not decide a test

hypothesis.settings.register_profile(
    "maxsum",
    derandomize=True,
    deadline=None,
    max_examples=40 if THOROUGH else 15,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("maxsum")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Half of the tests are of solvers, half of learners.

    ``--dist worksteal`` gives each of two workers one half, file by file: what a file computes once for all its tests is computed
    by one worker.
    """
    order = SOLVERS + LEARNERS

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(TESTS).as_posix()
        return next((i for i, start in enumerate(order) if path.startswith(start)), len(order))

    items.sort(key=place)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder that ``MAXSUM_DATA`` names, or ``../shared/data`` beside the repository; skips where it is absent."""
    named = os.environ.get("MAXSUM_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no data folder: set MAXSUM_DATA")
    return folder


@pytest.fixture
def interrupts():
    """Ctrl-C works, even where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
