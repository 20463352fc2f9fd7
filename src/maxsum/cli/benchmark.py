"""``maxsum bench``: the benchmarks of the repository where it is at hand, else a small one that every installation has."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError
from . import show
from .common import BAD_INPUT, OK


def repository() -> Path | None:
    """The folder that holds ``benchmarks``: the present one, or that of this source tree."""
    for folder in (Path.cwd(), Path(__file__).resolve().parents[3]):
        if (folder / "benchmarks" / "__main__.py").is_file() and (folder / "benchmarks" / "bench_chains.py").is_file():
            return folder
    return None


def run_bench(names: list[str], full: bool, list_them: bool, json: bool) -> int:
    """Run benchmarks; the exit code."""
    from rich.console import Console

    folder = repository()
    if list_them:
        found = _names(folder) if folder is not None else []
        if json:
            show.print_json({"repository": None if folder is None else str(folder), "benchmarks": found})
        else:
            Console().print("Benchmarks: " + (", ".join(found) if found else "the built-in one"), highlight=False)
        return OK
    if names and folder is None:
        raise InvalidParameterError(
            f"the benchmark {names[0]!r} is part of the repository, which is not here: go to its folder, or run `maxsum bench` alone."
        )
    if names and folder is not None:
        if json:
            raise InvalidParameterError("--json is for the built-in benchmark; those of the repository print Markdown.")
        command = [sys.executable, "-m", "benchmarks", *names, *([] if full else ["--quick"])]
        return OK if subprocess.run(command, cwd=folder, check=False).returncode == 0 else BAD_INPUT
    rows = [own() for own in (_chains, _grid, _training)]
    if json:
        show.print_json({"benchmarks": [row._asdict() for row in rows]})
    else:
        _print(rows, folder)
    return OK


def _names(folder: Path) -> list[str]:
    code = "import benchmarks; print(' '.join(benchmarks.MODULES))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=False, capture_output=True, text=True)
    return done.stdout.split()


class Row(NamedTuple):
    """One measurement: what was done, CPU seconds, and what it is compared with."""

    what: str
    seconds: float
    beside: str
    ratio: float | None
    proven: str


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The best of three runs, in CPU seconds, after one to warm up."""
    found, best = work(), np.inf
    for _ in range(3):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return found, best


def _chains() -> Row:
    """Many chains by dynamic programming, beside the same recursion in numpy."""
    import maxsum as ms

    rng = np.random.default_rng(0)
    n_chains, length, size = 200, 50, 10
    unary, table = rng.normal(size=(n_chains, length, size)), rng.normal(size=(size, size))
    graph = ms.Graph.union([ms.Graph.chain(length)] * n_chains)
    problem = ms.Problem(graph, unary.reshape(-1, size), tables=table)
    result, own = _timed(lambda: ms.solve(problem))
    labels, other = _timed(lambda: _viterbi(unary, table))
    gap = abs(problem.score(labels.reshape(-1)) - result.score)
    agree = "same score as numpy" if gap <= 1e-9 * abs(result.score) else f"numpy differs by {gap:.2g}"
    return Row(
        "200 chains of 50 nodes, 10 labels", own, "numpy, all chains at once", other / own, f"{result.guarantee}; {agree}"
    )


def _viterbi(unary: np.ndarray, table: np.ndarray) -> np.ndarray:
    n, length, _ = unary.shape
    score, back = unary[:, 0], []
    for t in range(1, length):
        step = score[:, :, None] + table
        back.append(step.argmax(axis=1))
        score = step.max(axis=1) + unary[:, t]
    labels = np.empty((n, length), dtype=np.int64)
    labels[:, -1] = score.argmax(axis=1)
    for t in range(length - 2, -1, -1):
        labels[:, t] = back[t][np.arange(n), labels[:, t + 1]]
    return labels


def _grid() -> Row:
    """A Potts grid by TRW-S, beside its own bound and beside ICM."""
    import maxsum as ms

    rng = np.random.default_rng(0)
    side, size = 60, 5
    problem = ms.Problem(ms.Graph.grid(side, side), rng.normal(size=(side * side, size)), tables=0.7 * np.eye(size))
    solver = ms.inference.TRWS(max_iter=50)
    result, own = _timed(lambda: ms.solve(problem, solver))
    icm, other = _timed(lambda: ms.solve(problem, "ICM"))
    proven = result.certificate.verify(problem, result.labels) if result.certificate is not None else None
    gap = "nothing" if proven is None else f"gap {proven.gap / abs(proven.score):.2g} of the score, checked"
    better = (result.score - icm.score) / abs(icm.score)
    return Row(
        f"{side} x {side} grid, {size} labels, 50 passes of TRW-S", own, "ICM", other / own, f"{gap}; {better:.1%} above ICM"
    )


def _training() -> Row:
    """Chains learned to a gap, beside the lower bound."""
    import warnings

    import maxsum as ms

    rng = np.random.default_rng(0)
    y = [rng.integers(0, 5, size=20) for _ in range(50)]
    X = [np.eye(5)[own] + 0.8 * rng.normal(size=(20, 5)) for own in y]

    def learn() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ms.SequenceLabeler(C=50.0, tol=1e-3, max_iter=300).fit(X, y)

    net, own = _timed(learn)
    proven = net.result_.verify(net.objective_)
    return Row("training on 50 chains of 20 items", own, "its lower bound", None, str(proven))


def _print(rows: list[Row], folder: Path | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("what", "CPU s", "beside", "times faster", "proven", box=SIMPLE_HEAD)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        table.add_row(escape(row.what), f"{row.seconds:.4f}", escape(row.beside), ratio, escape(row.proven))
    console = Console()
    console.print(table)
    console.print(
        "CPU seconds of the best of three runs after one to warm up; a ratio below 1 means the other is faster.",
        highlight=False,
    )
    if folder is not None:
        console.print("The repository is here: `maxsum bench --list`, then `maxsum bench NAME [--full]`.", highlight=False)
