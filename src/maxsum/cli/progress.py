"""The live line of ``maxsum solve``, ``maxsum demo`` and ``maxsum fit``."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.cards import percent
from ..core.result import TracePoint

if TYPE_CHECKING:
    from ..learning.result import LearningPoint

_INTERVAL = 0.1  # seconds between two lines of progress: faster than eyes read, slower than terminals draw


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
    starting : str
        What the line says before the first call.
    """

    def __init__(
        self,
        wanted: bool,
        time_limit: float | None,
        force: bool = False,
        describe: Callable[[Any, float | None], str] | None = None,
        starting: str = "starting",
    ):
        self._time_limit, self._describe = time_limit, describe or line
        self._status: Any = None
        self._last = 0.0
        if wanted and (force or sys.stderr.isatty()):
            from rich.console import Console

            self._status = Console(stderr=True, force_terminal=True if force else None).status(starting)

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.__exit__(*error)

    def __call__(self, point: Any) -> bool:
        see = getattr(self._describe, "see", None)
        if see is not None:
            see(point)
        now = time.monotonic()
        if self._status is not None and now - self._last >= _INTERVAL:
            self._last = now
            self._status.update(self._describe(point, self._time_limit))
        return False


def line(point: TracePoint, time_limit: float | None) -> str:
    """One line for one moment of a run."""
    parts = [f"iteration {point.iteration}", f"score {point.score:.8g}", f"bound {point.bound:.8g}", f"gap {point.gap:.3g}"]
    return "   ".join([*parts, _clock(point.seconds, time_limit)])


def check_line(point: tuple[int, int], time_limit: float | None) -> str:
    """One line for one moment of a check: how many parts of how many."""
    done, total = point
    limit = "" if time_limit is None else f", at most {time_limit:.3g} s"
    return f"checking the proof: {done} of {total} parts{limit}; the model is saved, Ctrl-C ends without the check"


def learning_line(point: LearningPoint, time_limit: float | None) -> str:
    """One line for one moment of a training."""
    parts = [f"pass {point.iteration}", f"objective {point.objective:.5g}", f"bound {point.lower_bound:.5g}"]
    parts += [f"gap {percent(point.relative_gap)}", f"{point.n_oracle_calls} calls"]
    return "  ".join([*parts, _clock(point.seconds, time_limit)])


class LearningLine:
    """The line of `maxsum fit`: which training it is, where there are several, and an estimate of the time that is left.

    The gap of most learners falls by about the same factor in the same time, so the logarithms of the last gaps make a line that
    meets the tolerance at the end.

    Parameters
    ----------
    tol : float
        Relative gap at which a training stops.
    n_trainings : int
        How many trainings there are in all.
    """

    def __init__(self, tol: float, n_trainings: int = 1):
        self._tol, self._n = tol, n_trainings
        self._training, self._last = 0, 0
        self._points: deque[tuple[float, float]] = deque(maxlen=60)

    def see(self, point: LearningPoint) -> None:
        """Take note of a pass."""
        if point.iteration <= self._last or not self._training:
            self._training += 1
            self._points.clear()
        self._last = point.iteration
        if 0 < point.relative_gap < math.inf:
            self._points.append((point.seconds, math.log(point.relative_gap)))

    def __call__(self, point: LearningPoint, time_limit: float | None) -> str:
        text = learning_line(point, time_limit)
        if self._n > 1:
            text = f"{self._training}/{self._n}  {text}"
        left = self.seconds_left()
        return text if time_limit is not None or left is None else f"{text}, ~{left:.0f} s left"

    def seconds_left(self) -> float | None:
        """Estimated seconds until the tolerance; None where the gap does not fall."""
        if len(self._points) < 5 or self._tol <= 0:
            return None
        (first, high), (last, low) = self._points[len(self._points) // 2], self._points[-1]
        if last <= first or low >= high:
            return None
        return max(0.0, (low - math.log(self._tol)) * (last - first) / (high - low))


def _clock(seconds: float, time_limit: float | None) -> str:
    return f"{seconds:.1f} s" if time_limit is None else f"{max(0.0, time_limit - seconds):.1f} s left"
