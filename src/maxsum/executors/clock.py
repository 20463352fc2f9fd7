"""Clocks with a limit."""

from __future__ import annotations

import time


class Clock:
    """Time since it was made, and what is left of a limit.

    Parameters
    ----------
    limit : float, optional
        Seconds.
    """

    def __init__(self, limit: float | None = None):
        self.limit = None if limit is None else float(limit)
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        """Seconds until the limit (``inf`` without one)."""
        return float("inf") if self.limit is None else max(0.0, self.limit - self.seconds)
