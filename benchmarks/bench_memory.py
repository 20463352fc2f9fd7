"""Peak memory of a solve beside the size of what it is about."""

from __future__ import annotations

from typing import Any

from .measure import fresh, verdict

TITLE = "Memory"
DESCRIPTION = """
Peak of one solve on a new problem, kernels compiled before. *Traced* is the peak of `tracemalloc`, which sees the arrays of
numpy but not those that kernels allocate; *resident* is the growth of the resident set of the process during the solve (Linux
only), which sees everything, and pages that earlier work left free not at all. Messages are 2 x edges x labels x 8 bytes; the
input is every array of the problem and its graph. Target: the larger of the two peaks is at most 3 x messages + input.
"""

_CODE = """
import json, tracemalloc
import numpy as np, maxsum as ms
from maxsum.inference import {solver}
rng = np.random.default_rng(0)
def resident(field):
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))
    except OSError:
        return None
def reset():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return True
    except OSError:
        return False
def solve(problem):
    return {call}.solve(problem)
def build({parameters}):
    return {problem}
solve(build({small}))
problem = build({large})
known = reset()
before = resident("VmRSS:")
solve(problem)
growth = resident("VmHWM:") - before if known and before is not None else None
problem = build({large})
tracemalloc.start()
result = solve(problem)
peak = tracemalloc.get_traced_memory()[1]
given = (problem.unary, problem.tables, problem.edge_table, problem.edge_weight, problem.n_states, problem.graph.edges, problem.graph.edge_type)
print(json.dumps([peak, growth, 2 * problem.n_edges * problem.n_labels * 8, sum(a.nbytes for a in given), str(result.guarantee)]))
"""
_GRID = "ms.Problem(ms.Graph.grid(n, n), rng.normal(size=(n, n, k)), tables=0.6 * np.eye(k))"
# name, solver, call, problem, parameters of a small and of the measured one, those of the quick run
CASES = [
    (
        "chain",
        "TreeDP",
        "TreeDP()",
        "ms.Problem(ms.Graph.chain(n), rng.normal(size=(n, k)), tables=rng.normal(size=(k, k)))",
        (100_000, 10),
    ),
    ("binary grid", "MaxFlow", "MaxFlow()", _GRID, (512, 2)),
    ("Potts grid, 50 iterations", "TRWS", "TRWS(max_iter=50)", _GRID, (300, 8)),
]


def rows(quick: bool = False) -> list[dict[str, Any]]:
    table = []
    for name, solver, call, problem, large in CASES:
        size = (12, large[1]) if quick else large
        code = _CODE.format(
            solver=solver, call=call, problem=problem, parameters="n, k", small=f"8, {large[1]}", large=f"{size[0]}, {size[1]}"
        )
        _, (traced, growth, messages, given, guarantee) = fresh(code)
        limit, peak = 3 * messages + given, max(traced, growth or 0)
        table.append(
            {
                "problem": f"{name}, {'' if name == 'chain' else f'{size[0]} x '}{size[0]} nodes, {size[1]} labels",
                "solver": solver,
                "guarantee": guarantee,
                "messages, MB": messages / 1e6,
                "input, MB": given / 1e6,
                "traced, MB": traced / 1e6,
                "resident, MB": None if growth is None else growth / 1e6,
                "peak / (messages + input)": peak / (messages + given),
                "peak / (3 messages + input)": peak / limit,
                "target": f"<= 1: {verdict(peak <= limit)}",
            }
        )
    return table
