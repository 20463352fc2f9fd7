"""Threads around kernels that release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

_SUMMED = 2  # pieces of a sum, in threads: enough for 8 threads, at the price of 8 vectors of all weights at a time


def n_threads(n_jobs: int) -> int:
    """Number of threads that ``n_jobs`` means; -1 is one per core that the process may use."""
    return (
        max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        if n_jobs < 0
        else max(1, n_jobs)
    )


def split(starts: np.ndarray, n_jobs: int) -> list[tuple[int, int]]:
    """Ranges of consecutive blocks, of about equal size, for the threads; ``starts`` are the block offsets."""
    n_blocks = len(starts) - 1
    pieces = min(n_blocks, n_threads(n_jobs))
    if pieces <= 1:
        return [(0, n_blocks)]
    cuts = np.searchsorted(starts, np.linspace(0, starts[-1], 4 * pieces + 1)[1:-1])
    cuts = np.unique(np.concatenate([[0], cuts, [n_blocks]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


def fixed_split(starts: np.ndarray) -> list[tuple[int, int]]:
    """As `split`, into the same ranges whatever ``n_jobs`` is: for sums, whose last bits depend on where they are cut."""
    return split(starts, _SUMMED)


def thread_map(function: Callable[[Any], Any], items: Sequence[Any], n_jobs: int) -> list[Any]:
    """``[function(item) for item in items]``, in threads."""
    threads = min(n_threads(n_jobs), len(items))
    if threads <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))
