"""One pass of TRW-S against the same loop in C++, and what two threads give."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from maxsum import Graph, Problem, solve
from maxsum.inference import TRWS
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.table_forms import table_forms
from maxsum.inference.relaxations.trws import passes, uniform_passes
from maxsum.kernels.records import Net

from .measure import renewed, verdict

TITLE = "TRW-S"
DESCRIPTION = """
*One pass*: a grid with one table shared by all edges, node scores N(0, 1); the general table has entries N(0, 1), the truncated
ones are minus 0.2 times the distance of the labels (or its square), at most that of a quarter of them. The reference is the
same loop for a general table in C++ with the number of labels as a constant (`benchmarks/trws_reference.cpp`, compiled when a
compiler is present, shipped nowhere), once with `-O3` alone and once for this very processor. The passes alternate in one
process; CPU milliseconds are the least, ratios the medians over the turns, below 1 we are faster. Target: 1.5 for general tables.

*Two threads*: speed-ups in wall time, medians over alternating turns, beside a loop of pure arithmetic without the
interpreter's lock, which shows what the machine has to give at that moment. A batch has a grid a thread (target: 1.5); one
large grid is passed over in strips of columns that follow one another (`TRWS(n_jobs=2)`), with the same messages bit for bit.
"""
FLAGS = {"C++ -O3": ["-O3"], "C++ -O3 -march=native": ["-O3", "-march=native"]}
SOURCE = Path(__file__).with_name("trws_reference.cpp")
TARGET, BATCH = 1.5, "8 grids"

Pass = Callable[[bool], float]


def tables(n_labels: int, seed: int) -> dict[str, np.ndarray]:
    """The tables of the rows: general, truncated linear, truncated quadratic."""
    label, width = np.arange(n_labels), max(n_labels // 4, 2)
    distance = np.abs(label[:, None] - label)
    return {
        "general": np.random.default_rng(seed).normal(size=(n_labels, n_labels)),
        "truncated linear": -0.2 * np.minimum(distance, width),
        "truncated quadratic": -0.2 * np.minimum(distance**2, width**2),
    }


def compiled(folder: str) -> tuple[dict[str, Any], str]:
    """The reference by its flags, and why there is none."""
    compiler = next((found for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), None)
    if compiler is None:
        return {}, "skipped: no C++ compiler"
    libraries = {}
    for number, (name, flags) in enumerate(FLAGS.items()):
        path = str(Path(folder) / f"reference{number}.so")
        done = subprocess.run([compiler, *flags, "-shared", "-fPIC", str(SOURCE), "-o", path], capture_output=True, text=True)
        if done.returncode:
            return {}, "skipped: the compiler refused the reference"
        libraries[name] = ctypes.CDLL(path)
    return libraries, ""


def reference(library: Any, net: Net, messages: np.ndarray) -> Pass:
    """A pass of the reference over ``messages`` in place."""
    function = library[f"pass_{net.unary.shape[1]}"]
    function.restype = ctypes.c_double
    arrays = [net.unary, net.edges, net.edge_table, net.edge_weight, net.tables, net.turned]
    arrays += [net.ptr, net.adj_edge, net.adj_side, messages]
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    sizes = [ctypes.c_int64(len(net.n_states)), ctypes.c_int64(len(net.edges))]
    return lambda forward: float(function(*sizes, *pointers, ctypes.c_int(forward)))


def _turns(functions: dict[str, Pass], repeats: int) -> tuple[dict[str, list[float]], bool]:
    """CPU seconds of alternating passes after two to warm up, and whether all bounds stay the same to rounding."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    same = True
    for turn in range(repeats + 2):
        bounds = []
        for name, function in functions.items():
            start = time.process_time()
            bounds.append(function(turn % 2 == 0))
            if turn > 1:
                seconds[name].append(time.process_time() - start)
        same &= max(bounds) - min(bounds) <= 1e-9 * abs(bounds[0])
    return seconds, same


def _pass_rows(side: int, cases: list[tuple[str, int]], repeats: int, seed: int) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        libraries, why = compiled(folder)
        for kind, n_labels in cases:
            unary = np.random.default_rng(seed).normal(size=(side * side, n_labels))
            problem = Problem(Graph.grid(side, side), unary, tables(n_labels, seed)[kind])
            net = prepare(problem).net
            one_pass, messages = passes(problem, net), problem.zero_messages()
            functions: dict[str, Pass] = {"ours": lambda forward, f=one_pass, m=messages: f(m, forward)}  # type: ignore[misc]
            kept = [problem.zero_messages().edge for _ in libraries]
            for (name, library), array in zip(libraries.items(), kept, strict=True):
                functions[name] = reference(library, net, array)
            seconds, same = _turns(functions, repeats)
            row: dict[str, Any] = {"table": "One pass", "instance": f"{side}x{side}, {n_labels} labels, {kind}"}
            row["ours, ms"] = 1e3 * min(seconds["ours"])
            worst = 0.0
            for name in FLAGS:
                row[f"{name}, ms"] = 1e3 * min(seconds[name]) if name in libraries else why
            for name in FLAGS:
                ratio = None
                if name in libraries:
                    ratio = statistics.median(a / b for a, b in zip(seconds["ours"], seconds[name], strict=True))
                    worst = max(worst, ratio)
                row[f"ours / {name}"] = ratio
            row["same bound"] = same if libraries else None
            row["target"] = verdict(worst <= TARGET) if libraries and kind == "general" else None
            rows.append(row)
    return rows


def _arithmetic(n: int) -> None:
    """Sums of a page, without the GIL and without memory."""
    page = bytes(2**14)
    for _ in range(n // len(page) + 1):
        hashlib.sha256(page).digest()


def _thread_jobs(side: int, n_passes: int, seed: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What is timed, by one thread and by two."""
    rng = np.random.default_rng(seed)
    solver, pool = TRWS(max_iter=n_passes, stall=0.0), ThreadPoolExecutor(2)
    jobs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}

    def add(name: str, job: Callable[[Any], Any], items: list[Any]) -> None:
        jobs[name] = (lambda: [job(item) for item in items], lambda: list(pool.map(job, items)))

    grids = [Problem(Graph.grid(side, side), rng.normal(size=(side * side, 6)), 0.7 * np.eye(6)) for _ in range(8)]
    batch = f"{BATCH} {side}x{side}, 6 labels, Potts 0.7: `TRWS`, {n_passes} passes, from arrays to proven gaps"
    add(batch, lambda problem: solve(renewed(problem), solver), grids)
    for n_labels, table in ((6, 0.7 * np.eye(6)), (16, tables(16, seed)["general"])):
        problem = Problem(Graph.grid(3 * side, 3 * side), rng.normal(size=(9 * side * side, n_labels)), table)
        net, kept = prepare(problem).net, (problem.zero_messages(), problem.zero_messages())
        forms = table_forms(net.tables)
        alone, both = uniform_passes(net, forms), uniform_passes(net, forms, problem.graph.shape, 2)
        jobs[f"one grid {3 * side}x{3 * side}, {n_labels} labels, 4 passes in strips"] = (
            lambda f=alone, m=kept[0]: [f(m, turn % 2 == 0) for turn in range(4)],  # type: ignore[misc]
            lambda f=both, m=kept[1]: [f(m, turn % 2 == 0) for turn in range(4)],  # type: ignore[misc]
        )
    add("pure arithmetic (what the machine gives)", _arithmetic, [40 * side * side * n_passes] * 8)
    return jobs


def _thread_rows(side: int, n_passes: int, repeats: int, seed: int) -> list[dict[str, Any]]:
    jobs = _thread_jobs(side, n_passes, seed)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, (alone, both) in jobs.items():
            start = time.perf_counter()
            alone()
            middle = time.perf_counter()
            both()
            if turn > 0:
                seconds[name].append((middle - start, time.perf_counter() - middle))
    rows = []
    for name, pairs in seconds.items():
        ratio = statistics.median(single / double for single, double in pairs)
        row: dict[str, Any] = {"table": "Two threads", "what": name}
        row["one thread, s"], row["two threads, s"] = (statistics.median(pair[i] for pair in pairs) for i in range(2))
        rows.append(row | {"speed-up": ratio, "target": verdict(ratio >= TARGET) if name.startswith(BATCH) else None})
    return rows


def rows(quick: bool = False, seed: int = 0) -> list[dict[str, Any]]:
    """The rows of both tables."""
    cases = [("general", 4), ("general", 16), ("general", 64)]
    cases += [(kind, n_labels) for kind in ("truncated linear", "truncated quadratic") for n_labels in (16, 64)]
    side, repeats = 300, 20
    if quick:
        cases, side, repeats = [("general", 3)], 6, 2
    return _pass_rows(side, cases, repeats, seed) + (_thread_rows(8, 3, 1, seed) if quick else _thread_rows(100, 50, 9, seed))
