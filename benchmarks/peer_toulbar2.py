"""toulbar2 by itself, without our adapter: ``python -m benchmarks.peer_toulbar2 ANSWERS LIMIT REPEATS PROBLEM.npz ...``.

A process of its own, since toulbar2 holds Python's lock and looks at its time limit only now and then. After each problem the
file of answers holds [path, seconds, score, finished] of every run so far.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np

import maxsum as ms

DIGITS = 6


def run(problem: ms.Problem, limit: float) -> tuple[float, float, bool]:
    """CPU seconds (building of the model included), score, and whether toulbar2 claims the optimum.

    Costs are ``top - score`` term by term, whole numbers where `Problem.step` says so and 6 decimals elsewhere.
    """
    import pytoulbar2

    digits = 0 if problem.step else DIGITS
    start = time.process_time()
    model = pytoulbar2.CFN(resolution=digits, vac=1)
    states = problem.n_states.tolist()
    for v, n in enumerate(states):
        model.AddVariable(f"x{v}", range(n))
    most = 1.0  # more than any labelling costs: without it toulbar2 (pytoulbar2 1.4.0) ended by a segmentation fault on 10 of 31 Promedas networks

    def add(nodes: list[int], scores: np.ndarray) -> None:
        nonlocal most
        costs = scores.max() - scores.ravel()
        most += float(costs[np.isfinite(costs)].max(initial=0.0))
        model.AddFunction(nodes, costs.tolist())

    for v, n in enumerate(states):
        add([v], problem.unary[v, :n])
    for e, (u, v) in enumerate(problem.graph.edges.tolist()):
        table = problem.tables[problem.edge_table[e], : states[u], : states[v]] * problem.edge_weight[e]
        add([u, v], table)
    for nodes, function in problem.factors.items():
        add(nodes.tolist(), function.dense(tuple(problem.n_states[nodes].tolist())))
    model.SetUB(most)
    answer = model.Solve(timeLimit=math.ceil(limit))
    seconds = time.process_time() - start
    if answer is None:
        return seconds, -math.inf, False
    finished = float(model.GetDDualBound()) >= answer[1] - 0.5 * 10.0**-digits
    return seconds, problem.score(np.array(answer[0], dtype=np.int32)), finished


def main() -> None:
    out, limit, repeats, *paths = sys.argv[1:]
    run(ms.Problem(ms.Graph.complete(4), np.zeros((4, 2)), tables=1.0 - np.eye(2)), 5)
    answers = []
    for path in paths:
        for _ in range(int(repeats)):
            answers.append((path, *run(ms.read_problem(path), float(limit))))
            if answers[-1][1] > 1:
                break
        Path(out).write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main()
