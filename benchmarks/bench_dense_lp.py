"""The LP relaxation of dense random graphs, where message passing stalls: certified to 1e-4 and to 1e-6."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from maxsum import Graph, Problem
from maxsum.inference import TRWS, LinearProgram
from maxsum.inference.relaxations.decomposition import DualDecomposition
from maxsum.inference.relaxations.finisher import LPFinisher

from .measure import renewed, verdict

TITLE = "LP values of dense random graphs"
DESCRIPTION = """
Node scores and tables N(0, 1), five labels, three seeds a row; medians. `TRWS` stalls above the LP value by the share given.
`LPFinisher` and `DualDecomposition` stop when pseudo-marginals and messages prove the LP value to the relative tolerance; HiGHS
(`LinearProgram`) solves the same LP in the same run. *Difference* is the largest relative distance of the two bounds at tolerance
1e-6. The target is 2 s for the finisher at 1e-4.
"""
LIMIT, TARGET = 60.0, 2.0
SIZES = (("complete, 20 nodes", 20, 1.0), ("30 % of the edges, 60 nodes", 60, 0.3))


def problem(n_nodes: int, density: float, seed: int, n_labels: int = 5) -> Problem:
    """A random graph with the share ``density`` of all edges."""
    rng = np.random.default_rng(seed)
    pairs = np.stack(np.triu_indices(n_nodes, 1), axis=1)
    graph = Graph.from_edges(pairs[rng.random(len(pairs)) < density], n_nodes=n_nodes)
    tables = rng.normal(size=(graph.n_edges, n_labels, n_labels))
    return Problem(graph, rng.normal(size=(n_nodes, n_labels)), tables=tables)


def rows(quick: bool = False) -> list[dict[str, Any]]:
    for solver in (TRWS(), LPFinisher(), DualDecomposition(max_iter=20), LinearProgram()):
        solver.solve(problem(6, 1.0, 0))
    sizes = (("complete, 8 nodes", 8, 1.0),) if quick else SIZES
    return [_row(name, n_nodes, density, 1 if quick else 3) for name, n_nodes, density in sizes]


def _row(name: str, n_nodes: int, density: float, n_seeds: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {}
    stalls, differences, proven = [], [], 0
    for seed in range(n_seeds):
        given = problem(n_nodes, density, seed)
        answers = {}
        for label, solver in (
            ("finisher 1e-4", LPFinisher(tol=1e-4, time_limit=LIMIT)),
            ("finisher 1e-6", LPFinisher(tol=1e-6, time_limit=LIMIT)),
            ("decomposition 1e-4", DualDecomposition(tol=1e-4, time_limit=LIMIT)),
            ("decomposition 1e-6", DualDecomposition(tol=1e-6, time_limit=LIMIT)),
            ("HiGHS", LinearProgram(time_limit=LIMIT)),
            ("TRWS", TRWS()),
        ):
            fresh = renewed(given)
            answers[label] = solver.solve(fresh)
            seconds.setdefault(label, []).append(answers[label].seconds)
        value = answers["HiGHS"].bound
        stalls.append((answers["TRWS"].bound - value) / abs(value))
        differences += [abs(answers[f"{who} 1e-6"].bound - value) / abs(value) for who in ("finisher", "decomposition")]
        proven += answers["finisher 1e-4"].termination == "converged"
    median = {label: statistics.median(values) for label, values in seconds.items()}
    return {
        "problem": name,
        "TRWS above the LP": statistics.median(stalls),
        **{f"{label} s": median[label] for label in median},
        "finisher / HiGHS": median["finisher 1e-6"] / median["HiGHS"],
        "difference": max(differences),
        "proven to 1e-4": f"{proven} of {n_seeds}",
        "target": verdict(proven == n_seeds and max(seconds["finisher 1e-4"]) <= TARGET),
    }
