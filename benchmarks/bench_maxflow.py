"""Minimum cuts on Ising grids: MaxFlow and PyMaxflow (GPL, a peer only) side by side, in CPU seconds.

Both start from the same array of node scores, build their graph, and end with a labelling. Ours is timed twice: the whole
way from `Graph.grid` to a verified `Result`, and the kernels alone (network, flow, labelling and messages).
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from maxsum import Graph, Problem
from maxsum.inference.exact.maxflow import MaxFlow, _Binary, _push
from maxsum.inference.prepare import prepare

TITLE = "Minimum cuts"
DESCRIPTION = """
Ising grids, node scores N(0, 1), equal labels of neighbours gain the coupling; CPU seconds, medians of five alternating runs.
*Ours* is the whole way from the array of scores to a `Result` whose optimality is proven: `Graph.grid`, `Problem`, `MaxFlow`,
gap evaluated anew. *Our kernels* is network, flow, labelling and messages. PyMaxflow (GPL, so a peer only) builds its graph
from the same array, in float64, and ends with the labelling; it proves nothing. Ratios below 1: we are faster.
"""
SKIPPED = "skipped: PyMaxflow is not installed"

# name, side of the grid, score that a pair of equal labels gains; node scores are N(0, 1)
INSTANCES = [
    (f"{kind} {side}x{side}, coupling {coupling}", side, coupling)
    for side in (256, 512)
    for kind, coupling in (("easy", 0.5), ("hard", 1.0), ("hard", 1.5), ("hard", 2.0))
]


def _ours(unary: np.ndarray, coupling: float) -> tuple[float, float, Problem]:
    start = time.process_time()
    problem = Problem(Graph.grid(*unary.shape[:2]), unary, tables=coupling * np.eye(2))
    result = MaxFlow().solve(problem)
    seconds = time.process_time() - start
    if result.guarantee != "optimal":
        raise RuntimeError(f"MaxFlow proved only {result!r}")
    return seconds, result.score, problem


def _kernels(problem: Problem) -> float:
    net = prepare(problem).net
    start = time.process_time()
    network = _Binary(net)
    _push(network.flow, lambda: False)
    network.read(problem)
    return time.process_time() - start


def _peer(maxflow: Any, unary: np.ndarray, coupling: float) -> tuple[float, np.ndarray]:
    start = time.process_time()
    shape = unary.shape[:2]
    graph = maxflow.GraphFloat(shape[0] * shape[1], 2 * shape[0] * shape[1])
    nodes = graph.add_grid_nodes(shape)
    graph.add_grid_edges(nodes, coupling, symmetric=True)
    graph.add_grid_tedges(nodes, unary[..., 1], unary[..., 0])
    graph.maxflow()
    labels = ~graph.get_grid_segments(nodes)
    return time.process_time() - start, labels.ravel().astype(np.int32)


def rows(quick: bool = False, seed: int = 0) -> list[dict[str, Any]]:
    """One row per instance: medians of alternating runs."""
    try:
        import maxflow
    except ImportError:
        maxflow = None
    repeats, instances = (1, [("easy 12x12, coupling 0.5", 12, 0.5)]) if quick else (5, INSTANCES)
    warm = np.random.default_rng(seed).normal(size=(8, 8, 2))
    _kernels(_ours(warm, 1.0)[2])
    table = []
    for name, side, coupling in instances:
        unary = np.random.default_rng(seed).normal(size=(side, side, 2))
        ours, kernels, peer, same = [], [], [], None
        for _ in range(repeats):
            seconds, score, problem = _ours(unary, coupling)
            ours.append(seconds)
            kernels.append(_kernels(problem))
            if maxflow is not None:
                seconds, labels = _peer(maxflow, unary, coupling)
                peer.append(seconds)
                same = abs(problem.score(labels) - score) <= problem.resolution
        whole, kernel = statistics.median(ours), statistics.median(kernels)
        theirs = statistics.median(peer) if peer else None
        table.append(
            {
                "instance": name,
                "ours, s": whole,
                "our kernels, s": kernel,
                "PyMaxflow, s": SKIPPED if theirs is None else theirs,
                "ours / PyMaxflow": None if theirs is None else whole / theirs,
                "our kernels / PyMaxflow": None if theirs is None else kernel / theirs,
                "same value": same,
            }
        )
    return table
