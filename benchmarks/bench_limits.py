"""Time limits: how far each solver runs past its limit on problems that it cannot finish in time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.executors import clock
from maxsum.executors.clock import Clock
from maxsum.inference.registry import SOLVERS

from .measure import verdict

TITLE = "Time limits"
DESCRIPTION = """
Every solver that takes the problem, and `solve` without a solver, with a limit of time; likewise two estimators. *overrun* is what the call took
beyond its limit (0 where it ended earlier), from the call to the answer with its proof evaluated. The worst of all problems is shown, with the problem on which it was met. Target: at most 0.2 s and 5 % of the limit.
For these runs the clock of the library reads the CPU time of the process, so that other work on the machine changes nothing; on an idle one
that is wall time, or more where threads run side by side.
"""
LIMITS = (0.5, 2.0, 10.0)
LONG, LARGE = 10.0, ("80x80, K=20", "degree 8", "40x40, K=5")  # the longest limit is tried on these alone
SLACK, SHARE = 0.2, 0.05


def _random(n: int, degree: int, rng: np.random.Generator) -> ms.Graph:
    ends = np.sort(rng.integers(0, n, size=(n * degree // 2, 2)), axis=1)
    return ms.Graph.from_edges(np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0), n)


def _problem(graph: ms.Graph, k: int, rng: np.random.Generator, tables: np.ndarray) -> ms.Problem:
    return ms.Problem(graph, rng.normal(size=(graph.n_nodes, k)), tables=tables)


def problems(quick: bool = False) -> Iterator[tuple[str, Callable[[], ms.Problem]]]:
    """Names and makers of problems: grids and random graphs of 1600 to 6400 nodes."""

    def grid(side: int, k: int, kind: str, width: int = 0) -> Callable[[], ms.Problem]:
        def make() -> ms.Problem:
            rng = np.random.default_rng(side * k)
            graph = ms.Graph.grid(side, width or side)
            apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
            tables: np.ndarray = {
                "Potts": lambda: 0.6 * np.eye(k),
                "ordered": lambda: -0.5 * apart,
                "one table": lambda: rng.normal(size=(k, k)),
                "own tables": lambda: rng.normal(size=(graph.n_edges, k, k)),
                "own metrics": lambda: rng.uniform(0.3, 1, size=(graph.n_edges, 1, 1)) * -np.minimum(apart, 4),
                "forbidden pairs": lambda: np.where(np.eye(k) > 0, -np.inf, rng.normal(size=(k, k))),
            }[kind]()
            return _problem(graph, k, rng, tables)

        return make

    def random(n: int, degree: int, k: int) -> Callable[[], ms.Problem]:
        def make() -> ms.Problem:
            rng = np.random.default_rng(n + k)
            graph = _random(n, degree, rng)
            return _problem(graph, k, rng, rng.normal(size=(graph.n_edges, k, k)))

        return make

    if quick:
        yield "grid 10x10, K=3, own tables", grid(10, 3, "own tables")
        return
    yield "grid 40x40, K=5, Potts", grid(40, 5, "Potts")
    yield "grid 40x40, K=20, own tables", grid(40, 20, "own tables")
    yield "grid 13x123, K=2, own tables", grid(13, 2, "own tables", 123)
    yield "grid 80x80, K=2, own tables", grid(80, 2, "own tables")
    yield "grid 80x80, K=20, Potts", grid(80, 20, "Potts")
    yield "grid 80x80, K=20, ordered", grid(80, 20, "ordered")
    yield "grid 80x80, K=20, own metrics", grid(80, 20, "own metrics")
    yield "grid 80x80, K=8, one table", grid(80, 8, "one table")
    yield "grid 80x80, K=5, forbidden pairs", grid(80, 5, "forbidden pairs")
    yield "random, 1600 nodes, degree 8, K=20", random(1600, 8, 20)
    yield "random, 6400 nodes, degree 4, K=10", random(6400, 4, 10)
    yield "random, 6400 nodes, degree 2, K=4", random(6400, 2, 4)
    yield "random, 6400 nodes, degree 8, K=20", random(6400, 8, 20)


def measured(call: Callable[[], Any], limit: float) -> float:
    """Seconds beyond the limit."""
    own = Clock(limit)
    call()
    return max(0.0, own.seconds - limit)


def _overruns(limit: float, quick: bool, names: list[str]) -> dict[str, tuple[float, str]]:
    """The worst overrun of each solver, and its problem; problems are made anew, as they remember what was found for them."""
    worst: dict[str, tuple[float, str]] = {}
    for what, make in problems(quick):
        if limit >= LONG and not any(part in what for part in LARGE):
            continue
        for name in names:
            problem = make()
            if name != "solve" and not SOLVERS[name]().supports(problem):
                continue
            problem = make()
            over = measured(lambda p=problem, s=name: ms.solve(p, None if s == "solve" else s, time_limit=limit), limit)  # type: ignore[misc]
            if name not in worst or over > worst[name][0]:
                worst[name] = over, what
    return worst


def _fits(limit: float, quick: bool) -> dict[str, tuple[float, str]]:
    rng = np.random.default_rng(0)
    side, n = (6, 4) if quick else (40, 60)
    images = [rng.normal(size=(side, side, 5)) for _ in range(n)]
    masks = [rng.integers(0, 4, size=(side, side)) for _ in range(n)]
    texts = [rng.normal(size=(side, 20)) for _ in range(20 * n)]
    tags = [rng.integers(0, 10, size=side) for _ in range(20 * n)]
    found = {}
    for name, labeler, X, y in (
        ("GridLabeler", ms.GridLabeler, images, masks),
        ("SequenceLabeler", ms.SequenceLabeler, texts, tags),
    ):
        with warnings.catch_warnings(action="ignore"):  # it has not converged, of course
            over = measured(lambda a=labeler, b=X, c=y: a(time_limit=limit, tol=1e-9).fit(b, c), limit)  # type: ignore[misc]
        found[f"{name}.fit"] = over, f"{len(X)} samples of {np.size(y[0])} nodes"
    return found


@contextmanager
def cpu_clock() -> Iterator[None]:
    """Let all limits be CPU seconds."""
    real = clock.time
    clock.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    try:
        yield
    finally:
        clock.time = real


def rows(quick: bool = False) -> list[dict[str, Any]]:
    with cpu_clock():
        return _rows(quick)


def _rows(quick: bool) -> list[dict[str, Any]]:
    names = ["solve", *SOLVERS]
    table = []
    for limit in (0.1,) if quick else LIMITS:
        allowed = SLACK + SHARE * limit
        for name, (over, what) in {**_overruns(limit, quick, names), **_fits(limit, quick)}.items():
            table.append(
                {
                    "solver": name,
                    "limit, s": limit,
                    "worst overrun, s": over,
                    "on": what,
                    "target": f"<= {allowed:.2g} s: {verdict(over <= allowed)}",
                }
            )
    return table
