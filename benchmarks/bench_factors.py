"""Factors with a form of their own: all-different in Sudoku, counts of 100 000 nodes, and chains of the second order beside a program by hand."""

from __future__ import annotations

import ctypes
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.core.certificates.dual import arc_consistent

from .measure import NO_DATA, data_folder, renewed, verdict

TITLE = "Factors of any size"
DESCRIPTION = """
CPU seconds of `ms.solve`, the choice of the solver and the proof included. *Sudoku*: the 95 hard puzzles of `sudoku-top95.txt`, once with 27
`AllDifferent` factors of nine nodes, once with their 810 edges that forbid equal labels; each puzzle in turn by both. *Left after propagation* are
the labels that arc consistency leaves to all cells together, 81 at least: that of all-different factors (Régin 1994) sees more than that of edges.
*Counts*: `ms.factors.exactly(nodes, n / 3)` over all n nodes, scores N(0, 1), two labels, alone, and over a square grid with a pairwise table as well;
in O(n log n) eight times the nodes take at most 8 · log(8n) / log(n) times as long. *Chains of the second order*: tables of three
successive nodes, beside a Viterbi written by hand in C++ (`benchmarks/viterbi_reference.cpp`, `-O3`, compiled when a compiler is present, shipped
nowhere), which proves nothing. Building the `Problem` is not counted.
"""

N_PUZZLES, N_COUNT, N_CHAIN, N_LABELS = 95, 100_000, 100_000, 10
CHAIN_TARGET = 2.0
_SOURCE = Path(__file__).with_name("viterbi_reference.cpp")


def rows(quick: bool = False) -> list[dict[str, Any]]:
    return [*sudoku(4 if quick else N_PUZZLES), *counts(2000 if quick else N_COUNT), *chains(500 if quick else N_CHAIN)]


def _seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def houses() -> list[list[int]]:
    """Cells of the 27 rows, columns and boxes."""
    lines = [[9 * r + c for c in range(9)] for r in range(9)]
    boxes = [[9 * (3 * a + i) + 3 * b + j for i in range(3) for j in range(3)] for a in range(3) for b in range(3)]
    return [*lines, *(list(column) for column in zip(*lines, strict=True)), *boxes]


def puzzle(line: str) -> tuple[ms.Problem, ms.Problem]:
    """A puzzle with factors, and with edges."""
    clues = np.array([int(x) if x.isdigit() else 0 for x in line])
    unary = np.where((clues[:, None] > 0) & (np.arange(1, 10) != clues[:, None]), -np.inf, 0.0)
    factors = [(house, ms.factors.AllDifferent()) for house in houses()]
    pairs = sorted({pair for house in houses() for pair in combinations(sorted(house), 2)})
    different = np.where(np.eye(9) > 0, -np.inf, 0.0)
    return (
        ms.Problem(ms.Graph.from_edges([], 81), unary, factors=factors),
        ms.Problem(ms.Graph.from_edges(pairs, 81), unary, tables=different),
    )


def sudoku(n_puzzles: int) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None:
        return [{"table": "Sudoku", "constraints": NO_DATA}]
    lines = (folder / "sudoku" / "sudoku-top95.txt").read_text().split()[:n_puzzles]
    seconds: dict[str, list[float]] = {"27 all-different factors": [], "810 edges": []}
    left: dict[str, list[int]] = {name: [] for name in seconds}
    solved = dict.fromkeys(seconds, 0)
    for line in lines:
        answers = []
        for name, problem in zip(seconds, puzzle(line), strict=True):
            took, result = _seconds(lambda problem=problem: ms.solve(problem, time_limit=60))
            seconds[name].append(took)
            left[name].append(int(arc_consistent(problem).sum()))
            solved[name] += result.guarantee == "optimal"
            answers.append(result.labels)
        if not np.array_equal(*answers):
            raise RuntimeError(f"two answers to one Sudoku: {line}")
    median = {name: statistics.median(values) for name, values in seconds.items()}
    factors, edges = median
    return [
        {
            "table": "Sudoku",
            "constraints": name,
            "solved": f"{solved[name]} of {len(lines)}",
            "median, s": median[name],
            "mean, s": statistics.mean(seconds[name]),
            "largest, s": max(seconds[name]),
            "left after propagation (median)": int(statistics.median(left[name])),
            "ratio of medians": median[factors] / median[edges] if name == factors else None,
            "target": f"< 1: {verdict(median[factors] < median[edges])}" if name == factors else None,
        }
        for name in seconds
    ]


def counts(n_most: int) -> list[dict[str, Any]]:
    rng, found, before = np.random.default_rng(0), [], None
    for n in (n_most // 8, n_most):
        nodes = np.arange(n)
        problem = ms.Problem(ms.Graph.from_edges([], n), rng.normal(size=(n, 2)), factors=[ms.factors.exactly(nodes, n // 3)])
        seconds, result = _seconds(lambda problem=problem: ms.solve(problem))
        limit = 8 * np.log(n) / np.log(n / 8)
        growth = None if before is None else seconds / before
        found.append(_count_row("a count alone", n, seconds, result, growth, limit))
        before = seconds
    side = int(np.sqrt(n_most / 2))
    n = side * side
    problem = ms.Problem(
        ms.Graph.grid(side, side),
        rng.normal(size=(n, 2)),
        tables=0.5 * np.eye(2),
        factors=[ms.factors.exactly(np.arange(n), n // 3)],
    )
    seconds, result = _seconds(lambda: ms.solve(problem, time_limit=60))
    return [*found, _count_row(f"a count over a grid of {side} by {side}", n, seconds, result, None, 0.0)]


def _count_row(what: str, n: int, seconds: float, result: ms.Result, growth: float | None, limit: float) -> dict[str, Any]:
    return {
        "table": "Counts",
        "what": what,
        "nodes": n,
        "seconds": seconds,
        "microseconds a node": 1e6 * seconds / n,
        "guarantee": str(result.guarantee),
        "relative gap": result.relative_gap,
        "times as long": growth,
        "target": None if growth is None else f"<= {limit:.3g}: {verdict(growth <= limit)}",
    }


def chains(n: int) -> list[dict[str, Any]]:
    rng, k = np.random.default_rng(1), N_LABELS
    unary = rng.normal(size=(n, k))
    shared, own = rng.normal(size=(1, k, k, k)), rng.normal(size=(n // 10 - 2, k, k, k))
    with tempfile.TemporaryDirectory() as folder:
        by_hand = _by_hand(folder)
        return [
            _chain_row("one table", unary, shared, by_hand),
            _chain_row("a table each", unary[: n // 10], own, by_hand),  # 0.8 GB of tables at ten times the length
        ]


def _chain_row(name: str, unary: np.ndarray, tables: np.ndarray, by_hand: Any) -> dict[str, Any]:
    n, k = unary.shape
    factors = [((i, i + 1, i + 2), tables[min(i, len(tables) - 1)]) for i in range(n - 2)]
    ours: list[float] = []
    theirs: list[float] = []
    labels = np.zeros(n, dtype=np.int32)
    known = ms.Problem(ms.Graph.from_edges([], n), unary, factors=factors)
    for _ in range(3):
        seconds, result = _seconds(partial(ms.solve, renewed(known)))
        ours.append(seconds)
        if by_hand is not None:
            theirs.append(_seconds(partial(_call, by_hand, unary, tables, labels))[0])
            if not np.array_equal(labels, result.labels):
                raise RuntimeError("the program by hand found other labels")
    row = {
        "table": "Chains of the second order",
        "tables": name,
        "nodes": n,
        "labels": k,
        "ms.solve, s": statistics.median(ours),
        "guarantee": str(result.guarantee),
    }
    if not theirs:
        return {**row, "target": "skipped: no C++ compiler"}
    ratio = statistics.median(ours) / statistics.median(theirs)
    return {
        **row,
        "by hand, s": statistics.median(theirs),
        "ratio": ratio,
        "target": f"<= {CHAIN_TARGET:.0f}: {verdict(ratio <= CHAIN_TARGET)}",
    }


def _call(by_hand: Any, unary: np.ndarray, tables: np.ndarray, labels: np.ndarray) -> float:
    """One run of the reference, labels into ``labels``."""
    n, k = unary.shape
    first, bank, out = (array.ctypes.data_as(ctypes.c_void_p) for array in (unary, tables, labels))
    step = k**3 if len(tables) > 1 else 0
    return float(by_hand(ctypes.c_int64(n), ctypes.c_int64(k), first, bank, ctypes.c_int64(step), out))


def _by_hand(folder: str) -> Any:
    """The function of the reference, or None without a compiler."""
    compiler = next((found for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), None)
    if compiler is None:
        return None
    path = str(Path(folder) / "viterbi.so")
    done = subprocess.run([compiler, "-O3", "-shared", "-fPIC", str(_SOURCE), "-o", path], capture_output=True, text=True)
    if done.returncode:
        return None
    function = ctypes.CDLL(path).second_order_viterbi
    function.restype = ctypes.c_double
    return function
