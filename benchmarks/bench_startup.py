"""Import, first solve, first fit and demo in new processes; the build, and what it leaves on the disk."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .measure import verdict

TITLE = "Start-up"
DESCRIPTION = """
New processes, medians of CPU seconds (user and system, of all threads); *process* is everything from the start of the interpreter to its end, *inside* the import, the
solve or the fit alone. The kernels are compiled when maxsum is installed, so that there is no first time: nothing is compiled or cached here. The build is that of
`pip wheel --no-deps` from a clean copy of the sources, the command that of the README in a new virtual environment, both by the clock, with two cores and a near package index.
"""

_CODE = """
import json, time
{before}
start = time.process_time()
{code}
print(json.dumps(time.process_time() - start))
"""
_CHAIN = "ms.Problem(ms.Graph.chain(100), rng.normal(size=(100, 5)), tables=rng.normal(size=(5, 5)))"
_GRID = "ms.Problem(ms.Graph.grid(20, 20), rng.normal(size=(20, 20, {k})), tables={weight} * np.eye({k}))"
_MAKE = "import numpy as np, maxsum as ms\nrng = np.random.default_rng(0)\nproblem = "
_WORDS = (
    "import numpy as np\nrng = np.random.default_rng(0)\n"
    "y = [rng.integers(0, 4, size=8) for _ in range(50)]\nX = [np.eye(4)[own] + 0.5 * rng.normal(size=(8, 4)) for own in y]"
)
RUNS: tuple[tuple[str, str, str, float | None, float | None], ...] = (
    ("an empty script", "", "pass", None, None),
    ("`import numpy`", "", "import numpy", None, None),
    ("`import maxsum`", "", "import maxsum", 0.2, None),
    ("first solve: chain of 100 nodes, 5 labels", _MAKE + _CHAIN, "ms.solve(problem)", 0.3, 0.6),
    ("first solve: grid 20x20, 2 labels, Ising", _MAKE + _GRID.format(k=2, weight=0.8), "ms.solve(problem)", 0.3, 0.6),
    ("first solve: grid 20x20, 4 labels, Potts", _MAKE + _GRID.format(k=4, weight=0.4), "ms.solve(problem)", 0.3, 0.6),
    (
        "first `SequenceLabeler().fit` on 50 sequences of 8, with scikit-learn's import",
        _WORDS,
        "import maxsum as ms\nms.SequenceLabeler().fit(X, y)",
        1.5,
        None,
    ),
)


def rows(quick: bool = False) -> list[dict[str, Any]]:
    return _starts(1, 0) + _demo(1) if quick else _starts(7, 1) + _demo(3) + _build()


def _cpu(command: list[str], folder: str | None = None) -> tuple[float, str]:
    """CPU seconds of a command and all its children, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def _judged(value: float, target: float | None) -> str | None:
    return None if target is None else f"<= {target:g} s: {verdict(value <= target)}"


def _starts(repeats: int, first: int) -> list[dict[str, Any]]:
    """Medians of so many rounds, after some ``first`` ones, which fill the caches of the file system."""
    found: dict[str, list[tuple[float, float]]] = {}
    for repeat in range(first + repeats):
        for what, before, code, *_ in RUNS:
            process, printed = _cpu([sys.executable, "-c", _CODE.format(before=before, code=code)])
            if repeat >= first:
                found.setdefault(what, []).append((process, float(json.loads(printed))))
    table = []
    for what, _, _, inside_target, process_target in RUNS:
        process, inside = (statistics.median(values) for values in zip(*found[what], strict=True))
        words = [
            f"{kind} {own}"
            for kind, own in (("inside", _judged(inside, inside_target)), ("process", _judged(process, process_target)))
            if own
        ]
        table.append(
            {
                "table": "New processes",
                "what": what,
                "process, CPU s": process,
                "inside, CPU s": inside,
                "target": "; ".join(words),
            }
        )
    return table


def _demo(repeats: int) -> list[dict[str, Any]]:
    seconds = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            seconds.append(_cpu([str(Path(sys.executable).parent / "maxsum"), "demo"], folder)[0])
    process = statistics.median(seconds)
    return [
        {
            "table": "New processes",
            "what": "`maxsum demo`",
            "process, CPU s": process,
            "target": f"process {_judged(process, 3.0)}",
        }
    ]


def _build() -> list[dict[str, Any]]:
    """The wheel and the README's first command, from a copy of what is committed."""
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "maxsum")
        subprocess.run(["git", "clone", "-q", str(root), str(copy)], check=True)
        start = time.perf_counter()
        cpu, _ = _cpu([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, str(copy)])
        wall = time.perf_counter() - start
        size = next(Path(place).glob("*.whl")).stat().st_size / 1e6
        block = (copy / "README.md").read_text().split("```")[1].strip()
        start = time.perf_counter()
        subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=copy, check=True, capture_output=True)
        whole = time.perf_counter() - start
        environment = (
            sum(file.stat().st_size for file in (copy / ".venv").rglob("*") if file.is_file() and not file.is_symlink()) / 1e6
        )
    table = "Build and install"
    return [
        {"table": table, "what": "`pip wheel .`, s", "found": wall, "target": f"<= 180: {verdict(wall <= 180)}"},
        {"table": table, "what": "`pip wheel .`, CPU s", "found": cpu},
        {"table": table, "what": "wheel, MB", "found": size, "target": f"<= 5: {verdict(size <= 5)}"},
        {
            "table": table,
            "what": "README's first command in a new environment: environment, packages, build, demo, s",
            "found": whole,
        },
        {"table": table, "what": f"that environment, MB ({os.cpu_count()} cores were there)", "found": environment},
    ]
