"""How far a run is: one live line on a terminal, plain lines elsewhere. For ``verbose=1`` of estimators and `solve`, and the command line."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .core.cards import percent
from .core.result import TracePoint

_INTERVAL = 0.1  # seconds between two states of the live line: faster than eyes read, slower than terminals draw
_LINES = 1.0  # seconds between two plain lines at least: a log of an hour stays readable


class Progress:
    """A callback of a solver or learner that keeps one line on stderr up to date; silent unless wanted and stderr is a terminal, or ``plain``.

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
    plain : bool
        Where stderr is no terminal, write lines that stay: the first call, then at most one a second.
    """

    def __init__(
        self,
        wanted: bool,
        time_limit: float | None,
        force: bool = False,
        describe: Callable[[Any, float | None], str] | None = None,
        starting: str = "starting",
        plain: bool = False,
    ):
        self._time_limit, self._describe = time_limit, describe or line
        self._status: Any = None
        self._last = -math.inf
        live = wanted and (force or sys.stderr.isatty())
        self._plain = wanted and plain and not live
        if live:
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
        if self._plain and now - self._last >= _LINES:
            self._last = now
            write(self._describe(point, self._time_limit))
        return False


def write(text: str) -> None:
    """One line on stderr, at once."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def watched(
    verbose: int | bool,
    callback: Callable[[Any], Any] | None = None,
    *,
    time_limit: float | None = None,
    describe: Callable[[Any, float | None], str] | None = None,
    starting: str = "starting",
) -> Iterator[Callable[[Any], Any] | None]:
    """The callback of a run that is shown where ``verbose`` says so, and of whoever else wants to be called; true from that one stops the run."""
    if not verbose:
        yield callback
        return
    with Progress(True, time_limit, describe=describe, starting=starting, plain=True) as live:
        yield live if callback is None else lambda point: live(point) or callback(point)


def line(point: TracePoint, time_limit: float | None) -> str:
    """One line for one moment of a run."""
    parts = [f"iteration {point.iteration}", f"score {point.score:.8g}", f"bound {point.bound:.8g}", f"gap {point.gap:.3g}"]
    return "   ".join([*parts, _clock(point.seconds, time_limit)])


def check_line(point: tuple[int, int], time_limit: float | None) -> str:
    """One line for one moment of a check: how many parts of how many."""
    done, total = point
    limit = "" if time_limit is None else f", at most {time_limit:.3g} s"
    return f"checking the proof: {done} of {total} parts{limit}; the model is saved, Ctrl-C ends without the check"


def learning_line(point: Any, time_limit: float | None) -> str:
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
        self._end: float | None = None

    def see(self, point: Any) -> None:
        """Take note of a pass."""
        if point.iteration <= self._last or not self._training:
            self._training += 1
            self._points.clear()
            self._end = None
        self._last = point.iteration
        if 0 < point.relative_gap < math.inf:
            self._points.append((point.seconds, math.log(point.relative_gap)))

    def __call__(self, point: Any, time_limit: float | None) -> str:
        text = learning_line(point, time_limit)
        if self._n > 1:
            text = f"{self._training}/{self._n}  {text}"
        left = self.seconds_left()
        return text if time_limit is not None or left is None else f"{text}, ~{left:.0f} s left"

    def seconds_left(self) -> float | None:
        """Estimated seconds until the tolerance; None where the gap does not fall."""
        if len(self._points) < 5 or self._tol <= 0:
            return None
        # The line of least squares through the last gaps: single passes, which jump, hardly turn it.
        n = len(self._points)
        middle, height = (sum(point[axis] for point in self._points) / n for axis in (0, 1))
        spread = sum((t - middle) ** 2 for t, _ in self._points)
        fall = -sum((t - middle) * (gap - height) for t, gap in self._points)
        if spread <= 0.0 or fall <= 0.0:
            return None
        end = middle + (height - math.log(self._tol)) * spread / fall
        # What is shown moves slowly towards it, by ratios, so that it does not leap.
        self._end = end if self._end is None else math.exp(0.7 * math.log(self._end) + 0.3 * math.log(max(end, 1e-3)))
        return max(0.0, self._end - self._points[-1][0])


def _clock(seconds: float, time_limit: float | None) -> str:
    return f"{seconds:.1f} s" if time_limit is None else f"{max(0.0, time_limit - seconds):.1f} s left"
