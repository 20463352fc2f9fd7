"""Import and first solve in new processes."""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from .measure import fresh, verdict

TITLE = "Start-up"
DESCRIPTION = """
New processes, medians; *process* is everything from the start of the interpreter to its end, *inside* the import or the solve
alone. The first solve is that of a script which imports numpy and maxsum, builds a small problem and calls `ms.solve` once;
with a warm cache the compiled kernels are read from the folder that `NUMBA_CACHE_DIR` names, with an empty one they are
compiled. Targets: import in less than 0.35 s (whole process), first solve with a warm cache in less than 1 s.
"""
IMPORT_TARGET, SOLVE_TARGET = 0.35, 1.0

_IMPORT = """
import time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""
_SOLVE = """
import json, time
import numpy as np, maxsum as ms
rng = np.random.default_rng(0)
problem = {problem}
start = time.perf_counter()
result = ms.solve(problem)
print(json.dumps([time.perf_counter() - start, result.compile_seconds, result.solver, str(result.guarantee)]))
"""
PROBLEMS = {
    "chain of 100 nodes, 5 labels": "ms.Problem(ms.Graph.chain(100), rng.normal(size=(100, 5)), tables=rng.normal(size=(5, 5)))",
    "grid 20x20, 2 labels, Ising": "ms.Problem(ms.Graph.grid(20, 20), rng.normal(size=(20, 20, 2)), tables=0.8 * np.eye(2))",
    "grid 20x20, 4 labels, Potts": "ms.Problem(ms.Graph.grid(20, 20), rng.normal(size=(20, 20, 4)), tables=0.4 * np.eye(4))",
}


def rows(quick: bool = False) -> list[dict[str, Any]]:
    return _imports(1 if quick else 9) + _solves(1 if quick else 5, 0 if quick else 2)


def _imports(repeats: int) -> list[dict[str, Any]]:
    statements = ("pass", "import numpy", "import maxsum")
    times: dict[str, list[tuple[float, float]]] = {statement: [] for statement in statements}
    for repeat in range(repeats + 1):
        for statement in statements:
            taken = fresh(_IMPORT.format(statement=statement))
            if repeat:  # the first round fills the caches of the file system
                times[statement].append(taken)
    table = []
    for statement in statements:
        process, inside = (statistics.median(values) for values in zip(*times[statement], strict=True))
        ours = statement == "import maxsum"
        table.append(
            {
                "table": "Import",
                "what": "an empty script" if statement == "pass" else f"`{statement}`",
                "process, s": process,
                "inside, s": None if statement == "pass" else inside,
                "target": f"< {IMPORT_TARGET} s: {verdict(process < IMPORT_TARGET)}" if ours else None,
            }
        )
    numpy = table[1]["process, s"]
    for row in table:
        row["process / that of numpy"] = row["process, s"] / numpy
    return table


def _solves(repeats: int, cold_repeats: int) -> list[dict[str, Any]]:
    """First solves; without ``cold_repeats`` one problem only, and the usual cache in place of a new one."""
    table = []
    for name, problem in list(PROBLEMS.items())[: None if cold_repeats else 1]:
        code = _SOLVE.format(problem=problem)
        cold, hot = [], []
        for repeat in range(cold_repeats):
            with tempfile.TemporaryDirectory() as folder:
                cold.append(fresh(code, NUMBA_CACHE_DIR=folder))
                if repeat == 0:
                    hot += [fresh(code, NUMBA_CACHE_DIR=folder) for _ in range(repeats)]
        hot = hot or [fresh(code) for _ in range(repeats)]
        for cache, runs in (("warm", hot), ("empty", cold)) if cold else (("warm", hot),):
            process = statistics.median(run[0] for run in runs)
            inside = statistics.median(run[1][0] for run in runs)
            judged = (
                f"< {SOLVE_TARGET:.0f} s: solve {verdict(inside < SOLVE_TARGET)}, process {verdict(process < SOLVE_TARGET)}"
            )
            table.append(
                {
                    "table": "First solve",
                    "problem": name,
                    "solver": runs[0][1][2],
                    "guarantee": runs[0][1][3],
                    "cache": cache,
                    "runs": len(runs),
                    "process, s": process,
                    "inside, s": inside,
                    "of it compiling, s": statistics.median(run[1][1] for run in runs),
                    "target": judged if cache == "warm" else None,
                }
            )
    return table
