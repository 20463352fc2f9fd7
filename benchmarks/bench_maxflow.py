"""Minimum cuts on Ising grids: MaxFlow and PyMaxflow (GPL, a peer only) side by side, in CPU seconds.

Both start from the same array of node scores, build their graph, and end with a labelling. Ours is timed twice: the whole
way from `Graph.grid` to a verified `Result`, and the kernels alone (network, flow, labelling and messages).
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np

from maxsum import Graph, Problem
from maxsum.inference.maxflow import MaxFlow, _Binary, _push
from maxsum.inference.prepare import prepare

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


def rows(repeats: int = 5, seed: int = 0) -> list[dict[str, Any]]:
    """One row per instance: medians of alternating runs; ``peer_seconds`` is None where PyMaxflow is missing."""
    try:
        import maxflow
    except ImportError:
        maxflow = None
    warm = np.random.default_rng(seed).normal(size=(8, 8, 2))
    _kernels(_ours(warm, 1.0)[2])
    table = []
    for name, side, coupling in INSTANCES:
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
        median = statistics.median(peer) if peer else None
        table.append(
            dict(
                instance=name,
                ours_seconds=statistics.median(ours),
                kernel_seconds=statistics.median(kernels),
                peer="PyMaxflow",
                peer_seconds=median,
                ratio=None if median is None else statistics.median(ours) / median,
                kernel_ratio=None if median is None else statistics.median(kernels) / median,
                same_value=same,
                skipped="" if maxflow is not None else "PyMaxflow is not installed (pip install PyMaxflow)",
            )
        )
    return table


def main() -> None:
    out = sys.stdout.write
    out(f"{'instance':<32}{'ours s':>9}{'kernel s':>10}{'PyMaxflow s':>13}{'ratio':>8}{'kernel':>8}  same value\n")
    for row in rows():
        out(f"{row['instance']:<32}{row['ours_seconds']:>9.3f}{row['kernel_seconds']:>10.3f}")
        if row["skipped"]:
            out(f"  skipped: {row['skipped']}\n")
        else:
            out(f"{row['peer_seconds']:>13.3f}{row['ratio']:>8.2f}{row['kernel_ratio']:>8.2f}  {row['same_value']}\n")


if __name__ == "__main__":
    main()
