"""Clocks that leave out what numba spends compiling: those seconds are not the user's.

Each thread has its own count of the seconds inside numba's compiler, by the events of its lock (`maxsum.kernels.jit` listens to them): compiling,
loading compiled code from the disk, and waiting while another thread does so. A thread that compiles nothing gains nothing from
others that do. Nothing here imports numba.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class CompileTime:
    """Seconds that one thread has spent in the compiler so far, nested compilations counted once."""

    def __init__(self) -> None:
        self._done, self._depth, self._start = 0.0, 0, 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far, those of a compilation under way included."""
        return self._done + (time.perf_counter() - self._start if self._depth else 0.0)

    def enter(self) -> None:
        """A compilation begins."""
        if self._depth == 0:
            self._start = time.perf_counter()
        self._depth += 1

    def leave(self) -> None:
        """A compilation ends."""
        if self._depth == 0:  # it began before anybody listened
            return
        self._depth -= 1
        if self._depth == 0:
            self._done += time.perf_counter() - self._start

    def add(self, seconds: float) -> None:
        """Count seconds that passed in the compiler elsewhere while this thread waited."""
        self._done += seconds


_local = threading.local()


def compile_time() -> CompileTime:
    """The count of the calling thread."""
    if not hasattr(_local, "time"):
        _local.time = CompileTime()
    found: CompileTime = _local.time
    return found


@contextmanager
def workers() -> Iterator[Callable[[F], F]]:
    """A block in which this thread waits for others, and a wrapper for what they do in it.

    What they compile counts as this thread's own: that of the one who compiled longest, which is never more than the wait.
    """
    spent: dict[int, float] = defaultdict(float)

    def counted(function: F) -> F:
        def call(*arguments: Any) -> Any:
            own = compile_time()
            before = own.seconds
            try:
                return function(*arguments)
            finally:
                spent[threading.get_ident()] += own.seconds - before

        return call  # type: ignore[return-value]

    try:
        yield counted
    finally:
        compile_time().add(max(spent.values(), default=0.0))


class Clock:
    """Time since it was made, and what is left of a limit. It belongs to the thread that made it, whoever reads it.

    Parameters
    ----------
    limit : float, optional
        Seconds; compiling does not count against them.
    """

    def __init__(self, limit: float | None = None):
        self.limit = None if limit is None else float(limit)
        self._started = time.perf_counter()
        self._thread = compile_time()
        self._before = self._thread.seconds

    @property
    def seconds(self) -> float:
        """Wall time, compiling included."""
        return time.perf_counter() - self._started

    @property
    def compile_seconds(self) -> float:
        """Seconds of compiling since the clock was started."""
        return self._thread.seconds - self._before

    @property
    def used(self) -> float:
        """Seconds without those of compiling."""
        return max(0.0, self.seconds - self.compile_seconds)

    @property
    def left(self) -> float:
        """Seconds until the limit (``inf`` without one)."""
        return float("inf") if self.limit is None else max(0.0, self.limit - self.used)
