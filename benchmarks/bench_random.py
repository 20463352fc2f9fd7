"""Small random problems on which `solve` ought to prove optimality."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from maxsum import Graph, Problem

from .bench_exact import solve_repeatedly, warm_up
from .measure import toulbar2

TITLE = "Exact answers on random problems"
DESCRIPTION = """
`ms.solve(problem, gap=0, time_limit=20)`; node scores N(0, 1); random tables are N(0, 1) for each edge; sparse graphs have random edges
with the given mean degree; Potts edges pay a weight when both ends have the same label, mixed weights are N(0, 1). Three
problems a row (seeds 0, 1, 2): medians of the CPU seconds of both sides, of the boxes (search), passes (TRW-S) or bags (junction tree) of the
solver that finished, and of the ratios where both finished. *Proven* counts guarantees `optimal`; *largest gap* is zero where all are. The
target is three of three. The peer is toulbar2, as in the section before; a ratio below 1 says that we are faster.
"""
LIMIT = 20.0


def _random_tables(graph: Graph, n_labels: int, rng: np.random.Generator) -> Problem:
    shape = (graph.n_edges, n_labels, n_labels)
    return Problem(graph, rng.normal(size=(graph.n_nodes, n_labels)), tables=rng.normal(size=shape))


def _sparse(n_nodes: int, degree: int, rng: np.random.Generator) -> Graph:
    pairs = np.argwhere(np.triu(np.ones((n_nodes, n_nodes)), 1))
    chosen = np.sort(rng.choice(len(pairs), n_nodes * degree // 2, replace=False))
    return Graph.from_edges(pairs[chosen], n_nodes=n_nodes)


def _potts(graph: Graph, rng: np.random.Generator, mixed: bool) -> Problem:
    weight = rng.normal(size=graph.n_edges) if mixed else np.full(graph.n_edges, 0.5)
    return Problem(graph, rng.normal(size=(graph.n_nodes, 4)), tables=np.eye(4), edge_weight=weight)


def problem(name: str, seed: int) -> Problem:
    """The problem of a row: its kind and numbers, as in ``complete 15 K=4``."""
    rng = np.random.default_rng(seed)
    kind, *numbers = name.replace("K=", "").replace("degree ", "").replace(",", "").split()
    if kind == "complete":
        return _random_tables(Graph.complete(int(numbers[0])), int(numbers[1]), rng)
    if kind == "sparse":
        return _random_tables(_sparse(int(numbers[0]), int(numbers[1]), rng), int(numbers[2]), rng)
    if kind == "grid":
        height, width = numbers[0].split("x")
        return _random_tables(Graph.grid(int(height), int(width)), int(numbers[1]), rng)
    return _potts(_sparse(int(numbers[1]), int(numbers[2]), rng), rng, mixed=numbers[0] == "mixed")


NAMES = [
    *(f"complete {n} K={k}" for n in (10, 15, 20) for k in (3, 4, 5)),
    *(f"sparse {n}, degree {degree}, K=4" for n in (30, 40) for degree in (3, 4)),
    "grid 8x8 K=4",
    "grid 12x12 K=4",
    "grid 16x16 K=4",
    "Potts equal 40, degree 8, K=4",
    "Potts mixed 40, degree 8, K=4",
]


def rows(quick: bool = False) -> list[dict[str, Any]]:
    warm_up()
    return [_row(name, 1 if quick else 3) for name in (["complete 5 K=3", "sparse 8, degree 3, K=4"] if quick else NAMES)]


def _row(name: str, n_seeds: int) -> dict[str, Any]:
    problems = [problem(name, seed) for seed in range(n_seeds)]
    results = [solve_repeatedly(p, LIMIT) for p in problems]
    peers = toulbar2(problems, LIMIT)
    proven, gaps, ratios = 0, [], []
    for p, (seconds, result), peer in zip(problems, results, peers, strict=True):
        optimal = result.guarantee == "optimal"
        proven += optimal
        gaps.append(0.0 if optimal else result.gap)
        ratios.append(peer.ratio(seconds, optimal))
        if peer.score is not None and peer.score > result.bound + max(p.resolution, 1e-6):
            raise RuntimeError(f"{name}: toulbar2 found {peer.score}, above our bound {result.bound}")
    better = sum(peer.score is not None and peer.score > r.score + 1e-6 for peer, (_, r) in zip(peers, results, strict=True))
    theirs = [peer.seconds for peer in peers if peer.seconds is not None]
    known = [ratio for ratio in ratios if ratio is not None]
    return {
        "problem": name,
        "proven": f"{proven} of {n_seeds}",
        "largest gap": max(gaps),
        "solver": ", ".join(dict.fromkeys(result.solver for _, result in results)),
        "boxes, passes or bags": statistics.median(result.n_iter for _, result in results),
        "median s": statistics.median(seconds for seconds, _ in results),
        "largest s": max(seconds for seconds, _ in results),
        "toulbar2 finished": f"{sum(peer.done for peer in peers)} of {n_seeds}" if theirs else peers[0].text(),
        "toulbar2 median s": statistics.median(theirs) if theirs else None,
        "ours / toulbar2": statistics.median(known) if known else None,
        "toulbar2's labelling is better": better if theirs else None,
    }
