"""Clocks, fresh processes, data and the peer toulbar2."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from maxsum import Graph, Problem


def alternating(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median wall seconds of each function, called in turn; a function that returns a float reports its own seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            own = function()
            seconds[name].append(own if isinstance(own, float) else time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def cpu_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Median CPU seconds of a function: what it costs on a machine that others use too."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


@contextmanager
def cpu_clock() -> Iterator[None]:
    """Inside, time limits of solvers count CPU seconds of this process, as toulbar2's do: on a machine that others use wall seconds would tell nothing.

    The linear programs of HiGHS keep to wall seconds.
    """
    from maxsum.executors import clock

    known = clock.time
    clock.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    try:
        yield
    finally:
        clock.time = known


def verdict(met: bool) -> str:
    return "met" if met else "missed"


def fresh(code: str, *, timeout: float | None = None, **environment: str) -> tuple[float, Any]:
    """Wall seconds of a new Python process that runs ``code``, and the JSON on the last line that it writes (or None)."""
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment}
    )
    seconds = time.perf_counter() - start
    if run.returncode:
        raise RuntimeError(f"the process ended with {run.returncode}: {run.stderr.strip()[-500:]}")
    lines = run.stdout.strip().splitlines()
    return seconds, json.loads(lines[-1]) if lines else None


def renewed(problem: Problem) -> Problem:
    """The same problem without anything that an earlier solve has memoised (cliques apart, which no benchmark has)."""
    old = problem.graph
    graph = Graph(old.n_nodes, old.edges, old.edge_type, old.n_edge_types, old.shape, old.parts)
    arrays = (problem.unary, problem.tables, problem.edge_table, problem.edge_weight, problem.n_states)
    return Problem(graph, *arrays, offset=problem.offset, factors=problem.factors)


def data_folder() -> Path | None:
    """The folder that ``MAXSUM_DATA`` names, or ``../shared/data`` beside the repository; None where it is absent."""
    named = os.environ.get("MAXSUM_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


NO_DATA = "skipped: no data folder (set MAXSUM_DATA)"


class Peer:
    """What toulbar2 said: the median of its seconds, its score, and whether it claims the optimum; or why nothing."""

    def __init__(self, seconds: float | None = None, score: float | None = None, done: bool = False, skipped: str = ""):
        self.seconds, self.score, self.done, self.skipped = seconds, score, done, skipped

    def ratio(self, ours: float, proven: bool) -> float | None:
        """Our seconds over the peer's, where both finished."""
        return ours / self.seconds if proven and self.done and self.seconds else None

    def text(self) -> str:
        if self.seconds is None:
            return f"skipped: {self.skipped}"
        return f"{self.seconds:.3g}" + ("" if self.done else " (not finished)")


def toulbar2(problems: Iterable[Problem], limit: float, repeats: int = 3) -> list[Peer]:
    """Run toulbar2 (VAC on) on the problems, in one process of its own that is ended when it overstays.

    Runs of less than a second are repeated, and the median counts. Its CPU seconds hold the building of its model, as ours hold
    the preparation of the problem, but not the start of its process.
    """
    try:
        import pytoulbar2  # noqa: F401
    except ImportError:
        return [Peer(skipped="pytoulbar2 is not installed") for _ in problems]
    with tempfile.TemporaryDirectory() as folder:
        paths: list[str] = []
        for problem in problems:
            paths.append(os.path.join(folder, f"{len(paths)}.npz"))
            problem.save(paths[-1])
        out = os.path.join(folder, "answers.json")
        why = "no answer"
        command = [sys.executable, "-m", "benchmarks.peer_toulbar2", out, str(limit), str(repeats), *paths]
        allowed = (6 * limit + 5) * len(paths) + 30  # its limit is in CPU seconds, which take longer on a busy machine
        try:
            done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=allowed)
            if done.returncode:
                why = f"toulbar2 ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            why = f"toulbar2 did not end within {allowed:.0f} s"
        answers = json.loads(Path(out).read_text()) if os.path.exists(out) else []
    peers = []
    for path in paths:
        mine = [answer for answer in answers if answer[0] == path]
        peers.append(Peer(statistics.median(a[1] for a in mine), mine[0][2], mine[0][3]) if mine else Peer(skipped=why))
    return peers
