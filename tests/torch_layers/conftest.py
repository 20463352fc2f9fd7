"""Tests of the layers for PyTorch, skipped with the reason where it is not installed (each file says so itself)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def _one_thread():
    """Small problems are slower in threads, and other tests run beside these."""
    if find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)
