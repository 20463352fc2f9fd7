"""One graph in parts on disk: ten million nodes in little memory, the same beside one piece, and training."""

from __future__ import annotations

from typing import Any

from .measure import fresh, verdict

TITLE = "Graphs in parts"
DESCRIPTION = """
A square grid of noisy blocks with Potts tables, generated row by row straight into parts on disk, strips of rows, and solved in two
threads by TRW-S over the parts. *Gap* is that of the certificate, checked in plain numpy from the files; its time is part of the
seconds. *Peak* is the largest resident set of the process, mapped files included, measured in a process of its own. The second table
solves a grid that fits in memory both ways, to the same relative gap: ratios are CPU seconds of the parts over those of `TRWS` in one
piece, both with their reading of labellings but without the check. The third learns the weights of a Potts model from one grid in
parts by cutting planes, to a certified relative gap.
"""

_COMMON = """
import json, resource, shutil, sys, tempfile, time
import numpy as np, maxsum as ms
from maxsum.parts import PartsObjective, solve_parts, write_grid
side, rows, K, block = {side}, {rows}, {labels}, 40
def strips(features=False):
    rng = np.random.default_rng(0)
    for top in range(0, side, rows):
        shape = (min(rows, side - top), side)
        place = (np.arange(top, top + shape[0]) // block)[:, None] * 7919 + np.arange(side) // block
        truth = (place * 2654435761 % 2**32 >> 16) % K
        if features:
            yield np.eye(K)[truth] + {noise} * rng.standard_normal((*shape, K)), truth
        else:
            x = truth + {noise} * rng.standard_normal(shape)
            yield -((x[:, :, None] - np.arange(K)) ** 2)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
folder = tempfile.mkdtemp()
"""
_SOLVE = """
table = np.eye(K)
try:
    side, full = 3 * rows, side
    solve_parts(write_grid(strips(), folder + "/small", tables=table), folder + "/small-out", max_iter=2)
    side = full
    start = time.perf_counter()
    parts = write_grid(strips(), folder + "/parts", tables=table)
    written = time.perf_counter() - start
    result = solve_parts(folder + "/parts", folder + "/out", tol={tol}, executor="threads")
    print(json.dumps([parts.n_nodes, parts.n_parts, written, result.seconds, time.process_time(), result.n_iter, result.score, result.bound,
        result.relative_gap, peak()]))
finally:
    shutil.rmtree(folder)
"""
_BESIDE = """
table = np.eye(K)
reached = {{}}
def until(point):
    reached["cpu"], reached["bound"], reached["gap"] = time.process_time(), point.bound, point.gap / max(abs(point.score), abs(point.bound))
    reached["n"] = point.iteration
    return reached["gap"] <= {tol}
try:
    parts = write_grid(strips(), folder + "/parts", tables=table)
    problem = ms.Problem(ms.Graph.grid(side, side), np.concatenate(list(strips())), table)
    solve_parts(parts, folder + "/warm", max_iter=1)
    ms.inference.TRWS(max_iter=2).solve(problem)
    answers = []
    for run in (lambda: ms.inference.TRWS().solve(ms.Problem(problem.graph, problem.unary, table), callback=until),
                lambda: solve_parts(parts, folder + "/out", tol=0.0, callback=until)):
        before = time.process_time()
        run()
        answers.append([reached["cpu"] - before, reached["n"], reached["bound"], reached["gap"]])
    print(json.dumps(answers))
finally:
    shutil.rmtree(folder)
"""
_TRAIN = """
from maxsum.learning import CuttingPlane
from maxsum.models import GraphModel
try:
    parts = write_grid(strips(True), folder + "/parts")
    start, cpu = time.perf_counter(), time.process_time()
    objective = PartsObjective(parts, folder + "/work", GraphModel(potentials="potts"), range(K), C={C}, executor="threads")
    result = CuttingPlane(tol={tol}, max_iter=200).fit(objective)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    check = result.verify(objective)
    print(json.dumps([parts.n_nodes, parts.n_parts, seconds, cpu, result.n_oracle_calls, check.objective, check.lower_bound,
        check.gap / check.objective, peak()]))
finally:
    shutil.rmtree(folder)
"""


def rows(quick: bool = False) -> list[dict[str, Any]]:
    table = []
    for side, strip, tol in [(60, 20, 1e-3)] if quick else [(3200, 100, 1e-3), (3200, 100, 1e-4)]:
        nodes, parts, written, seconds, cpu, rounds, score, bound, gap, peak = _run(
            _SOLVE, side=side, rows=strip, labels=4, noise=1.0, tol=tol
        )
        table.append(
            {
                "table": "Prediction",
                "nodes": nodes,
                "labels": 4,
                "parts": parts,
                "written, s": written,
                "solved, s": seconds,
                "CPU, s": cpu,
                "rounds": rounds,
                "score": score,
                "bound": bound,
                "relative gap": gap,
                "peak, GB": peak,
                "target": f"gap <= {tol:g}, < 4 GB: {verdict(gap <= tol and peak < 4)}",
            }
        )
    side, strip = (60, 20) if quick else (1000, 100)
    for tol in (1e-3, 1e-4):
        one, many = _run(_BESIDE, side=side, rows=strip, labels=4, noise=1.0, tol=tol)
        table.append(
            {
                "table": "Beside one piece",
                "nodes": side * side,
                "parts": -(-side // strip),
                "gap wanted": tol,
                "TRWS, CPU s": one[0],
                "parts, CPU s": many[0],
                "ratio": many[0] / max(one[0], 1e-9),
                "TRWS, passes": one[1],
                "parts, passes": 2 * many[1],
                "TRWS, bound": one[2],
                "parts, bound": many[2],
                "TRWS, gap": one[3],
                "parts, gap": many[3],
            }
        )
    side, strip, tol = (40, 20, 0.1) if quick else (1000, 125, 0.01)
    nodes, parts, seconds, cpu, calls, objective, lower, gap, peak = _run(
        _TRAIN, side=side, rows=strip, labels=3, noise=0.9, tol=tol, C=100 / side**2
    )
    table.append(
        {
            "table": "Training on one graph",
            "nodes": nodes,
            "labels": 3,
            "parts": parts,
            "trained, s": seconds,
            "CPU, s": cpu,
            "oracle calls": calls,
            "objective": objective,
            "lower bound": lower,
            "relative gap": gap,
            "peak, GB": peak,
            "target": f"gap <= {tol:g}, < 4 GB: {verdict(gap <= tol and peak < 4)}",
        }
    )
    return table


def _run(code: str, **values: Any) -> Any:
    return fresh((_COMMON + code).format(**values), OPENBLAS_NUM_THREADS="1")[1]
