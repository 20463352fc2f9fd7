"""The live line of ``maxsum solve``."""

from __future__ import annotations

import sys
import time
from typing import Any

from ..core.result import TracePoint

_INTERVAL = 0.1


class Progress:
    """A solver's callback that keeps one line on stderr up to date; silent unless wanted and stderr is a terminal.

    Parameters
    ----------
    wanted : bool
    time_limit : float or None
        For the time that is left.
    force : bool
        Write even if stderr is not a terminal.
    """

    def __init__(self, wanted: bool, time_limit: float | None, force: bool = False):
        self._time_limit = time_limit
        self._status: Any = None
        self._last = 0.0
        if wanted and (force or sys.stderr.isatty()):
            from rich.console import Console

            self._status = Console(stderr=True, force_terminal=True if force else None).status(
                "starting; the first run compiles the kernels"
            )

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.__exit__(*error)

    def __call__(self, point: TracePoint) -> bool:
        now = time.monotonic()
        if self._status is not None and now - self._last >= _INTERVAL:
            self._last = now
            self._status.update(line(point, self._time_limit))
        return False


def line(point: TracePoint, time_limit: float | None) -> str:
    """One line for one moment of a run."""
    parts = [f"iteration {point.iteration}", f"score {point.score:.8g}", f"bound {point.bound:.8g}", f"gap {point.gap:.3g}"]
    if time_limit is None:
        parts.append(f"{point.seconds:.1f} s")
    else:
        parts.append(f"{max(0.0, time_limit - point.seconds):.1f} s left")
    return "   ".join(parts)
