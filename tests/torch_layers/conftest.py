"""Tests of the layers for PyTorch, skipped with the reason where it is not installed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")


@pytest.fixture(autouse=True)
def _one_thread():
    """Small problems are slower in threads, and other tests run beside these."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
