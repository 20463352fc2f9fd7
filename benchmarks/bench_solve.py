"""`solve` without a solver, a gap or a limit: what it costs, in time and memory, and what it proves."""

from __future__ import annotations

from typing import Any

from .measure import fresh

TITLE = "What solve does by itself"
DESCRIPTION = """
`solve(problem)` and nothing else, each in a process of its own, kernels compiled before. *Potts*: node scores N(0, 1), equal
labels of neighbours gain the coupling. *Random tables*: tables N(0, 1). *Spin glass*: two labels, couplings of -1 and 1. The peak
of memory is that of the whole process, of which imports and compiled code take about 170 MB.
"""

CODE = """
import json, resource, time
import numpy as np, maxsum as ms
def made(kind, side, n_labels, coupling, seed):
    rng, graph = np.random.default_rng(seed), ms.Graph.grid(side, side)
    unary = rng.normal(size=(side * side, n_labels))
    if kind == "Potts":
        return ms.Problem(graph, unary, tables=coupling * np.eye(n_labels))
    if kind == "random tables":
        return ms.Problem(graph, unary, tables=rng.normal(size=(graph.n_edges, n_labels, n_labels)))
    sign = rng.choice([-1.0, 1.0], size=graph.n_edges)
    return ms.Problem(graph, 0.01 * unary, tables=sign[:, None, None] * np.eye(2))
given = {given!r}
ms.solve(made(given[0], 16 if given[0] == "spin glass" else 19, *given[2:]))
problem = made(*given)
start = time.process_time()
result = ms.solve(problem)
seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([seconds, peak, result.relative_gap, result.solver, result.termination, result.guarantee]))
"""


def rows(quick: bool = False, seed: int = 0) -> list[dict[str, Any]]:
    """One row per problem."""
    cases = [
        ("Potts", 200, 5, 0.3),
        ("Potts", 200, 5, 0.5),
        ("Potts", 200, 6, 0.7),
        ("random tables", 60, 3, 0.0),
        ("spin glass", 18, 2, 0.0),
        ("spin glass", 20, 2, 0.0),
    ]
    if quick:
        cases = [("Potts", 20, 3, 0.5)]
    table = []
    for kind, side, n_labels, coupling in cases:
        found = fresh(CODE.format(given=(kind, side, n_labels, coupling, seed)))[1]
        cpu, memory, gap, solver, termination, guarantee = found
        table.append(
            {
                "problem": f"{kind}, {side}x{side}, {n_labels} labels" + (f", coupling {coupling}" if coupling else ""),
                "answered by": solver,
                "CPU s": cpu,
                "peak MB": memory,
                "relative gap": gap,
                "termination": termination,
                "guarantee": guarantee,
            }
        )
    return table
