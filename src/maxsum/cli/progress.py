"""The live line of ``maxsum solve`` and ``maxsum demo``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.result import TracePoint

if TYPE_CHECKING:
    from ..learning.result import LearningPoint

_INTERVAL = 0.1


class Progress:
    """A callback of a solver or learner that keeps one line on stderr up to date; silent unless wanted and stderr is a terminal.

    Parameters
    ----------
    wanted : bool
    time_limit : float or None
        For the time that is left.
    force : bool
        Write even if stderr is not a terminal.
    describe : callable, optional
        Makes the line; `line` by default.
    """

    def __init__(
        self,
        wanted: bool,
        time_limit: float | None,
        force: bool = False,
        describe: Callable[[Any, float | None], str] | None = None,
    ):
        self._time_limit, self._describe = time_limit, describe or line
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

    def __call__(self, point: Any) -> bool:
        now = time.monotonic()
        if self._status is not None and now - self._last >= _INTERVAL:
            self._last = now
            self._status.update(self._describe(point, self._time_limit))
        return False


def line(point: TracePoint, time_limit: float | None) -> str:
    """One line for one moment of a run."""
    parts = [f"iteration {point.iteration}", f"score {point.score:.8g}", f"bound {point.bound:.8g}", f"gap {point.gap:.3g}"]
    return "   ".join([*parts, _clock(point.seconds, time_limit)])


def learning_line(point: LearningPoint, time_limit: float | None) -> str:
    """One line for one moment of a training."""
    parts = [f"pass {point.iteration}", f"objective {point.objective:.6g}", f"lower bound {point.lower_bound:.6g}"]
    return "   ".join([*parts, f"relative gap {point.relative_gap:.2g}", _clock(point.seconds, time_limit)])


def _clock(seconds: float, time_limit: float | None) -> str:
    return f"{seconds:.1f} s" if time_limit is None else f"{max(0.0, time_limit - seconds):.1f} s left"
