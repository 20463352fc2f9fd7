"""Shared by all tests: the reference code on the path, deterministic property tests, the data folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "contracts")]

os.environ["MAXSUM_DATA_CACHE"] = str(
    Path(__file__).parent / "no-cache"
)  # what was fetched on this machine must not decide a test

hypothesis.settings.register_profile(
    "maxsum",
    derandomize=True,
    deadline=None,
    max_examples=40,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("maxsum")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder that ``MAXSUM_DATA`` names, or ``../shared/data`` beside the repository; skips where it is absent."""
    named = os.environ.get("MAXSUM_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no data folder: set MAXSUM_DATA")
    return folder
