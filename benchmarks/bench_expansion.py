"""Expansion moves on a Potts grid: AlphaExpansion, PyMaxflow and gco side by side on the same draw."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from maxsum import Graph, Problem, solve
from maxsum.inference.moves.expansion import AlphaExpansion

TITLE = "Expansion moves"
DESCRIPTION = """
Potts grid, node scores N(0, 1), equal labels of neighbours gain 0.7. CPU seconds from the array of scores to the labelling,
medians of alternating runs on one draw. *Without bound* starts, as PyMaxflow does, from the best label of each node;
*with bound* runs 20 passes of TRW-S first, starts from their labelling and proves the gap; *solve to a gap* is
`solve(problem, gap=...)` with the relative gap given in the table: passes with moves in between, until that is proven. PyMaxflow (GPL) and gco are peers only;
gco works on whole numbers (its wrapper scales and truncates the scores).
"""
COUPLING = 0.7
GAPS = {6: 5.5e-4, 16: 3e-4}  # relative gaps that are asked for, by labels

Answer = tuple[float, float, float | None]


def _ours(unary: np.ndarray, bound: bool) -> Answer:
    start = time.process_time()
    n_labels = unary.shape[2]
    problem = Problem(Graph.grid(*unary.shape[:2]), unary, tables=COUPLING * np.eye(n_labels))
    result = AlphaExpansion(bound=bound).solve(problem)
    return time.process_time() - start, result.score, result.bound if bound else None


def _to_gap(unary: np.ndarray) -> Answer:
    start = time.process_time()
    n_labels = unary.shape[2]
    problem = Problem(Graph.grid(*unary.shape[:2]), unary, tables=COUPLING * np.eye(n_labels))
    result = solve(problem, gap=GAPS.get(n_labels, 1e-2))
    return time.process_time() - start, result.score, result.bound


def _score(unary: np.ndarray, labels: np.ndarray) -> float:
    problem = Problem(Graph.grid(*unary.shape[:2]), unary, tables=COUPLING * np.eye(unary.shape[2]))
    return problem.score(np.asarray(labels, dtype=np.int64).ravel())


def _pymaxflow(unary: np.ndarray) -> Answer:
    from maxflow import fastmin

    start = time.process_time()
    labels = fastmin.aexpansion_grid(-unary, COUPLING * (1 - np.eye(unary.shape[2])))
    return time.process_time() - start, _score(unary, labels), None


def _gco(unary: np.ndarray) -> Answer:
    import gco

    start = time.process_time()
    labels = gco.cut_grid_graph_simple(-unary, COUPLING * (1 - np.eye(unary.shape[2])), n_iter=-1, connect=4)
    return time.process_time() - start, _score(unary, labels), None


METHODS: dict[str, Callable[[np.ndarray], Answer]] = {
    "AlphaExpansion without bound": lambda unary: _ours(unary, False),
    "AlphaExpansion with bound": lambda unary: _ours(unary, True),
    "solve to a gap": _to_gap,
    "PyMaxflow aexpansion_grid": _pymaxflow,
    "gco-wrapper": _gco,
}


def rows(quick: bool = False, seed: int = 0) -> list[dict[str, Any]]:
    """One row per grid and method: medians of alternating runs."""
    repeats, grids = (1, [(12, 3)]) if quick else (5, [(200, 6), (100, 16)])
    warm = np.random.default_rng(seed).normal(size=(8, 8, 3))
    table = []
    for side, n_labels in grids:
        unary = np.random.default_rng(seed).normal(size=(side, side, n_labels))
        answers: dict[str, list[Answer]] = {}
        skipped: dict[str, str] = {}
        for turn in range(repeats + 1):
            for name, method in METHODS.items():
                if name in skipped:
                    continue
                try:
                    answer = method(warm if turn == 0 else unary)
                except ImportError as error:
                    skipped[name] = f"skipped: {error}"
                    continue
                if turn > 0:
                    answers.setdefault(name, []).append(answer)
        for name, method in METHODS.items():
            runs = answers.get(name)
            table.append(
                {
                    "instance": f"{side}x{side}, {n_labels} labels",
                    "method": name,
                    "CPU s": statistics.median(run[0] for run in runs) if runs else skipped[name],
                    "score": runs[0][1] if runs else None,
                    "bound": runs[0][2] if runs else None,
                    "gap asked for": GAPS.get(n_labels, 1e-2) if method is _to_gap else None,
                    "gap proven": 1 - runs[0][1] / runs[0][2] if runs and runs[0][2] else None,
                }
            )
    return table
