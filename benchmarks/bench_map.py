"""Every published instance of the data folder: labelling, proven bound, time, beside the known optimum."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import maxsum as ms

from .bench_exact import check, warm_up, warm_up_on
from .measure import NO_DATA, data_folder, renewed

TITLE = "MAP instances: labelling and bound"
DESCRIPTION = """
`ms.solve(problem, gap=0, time_limit=...)` once on each file of `map_benchmarks` and on the stereo pair *tsukuba* of the Middlebury
benchmark. Score and bound are shown as costs, so the bound is a lower one; *gap* 0 is a proof of optimality. *Found* are the
seconds until the labelling was found, *seconds* those of the whole run, choice of the solver included; checking and the sizes of
the files are those of `benchmarks exact`. Known optima are those
that came with the files, or that toulbar2 proved (for scen06 and tsukuba: the values of the literature). For *alarm* toulbar2 says 3.157695 of the
very same labelling: its reader adds the least cost of each of the three functions of more than three variables (0.030459, 0.01005 and 0.030459)
a second time; given the same tables by its Python interface it says 3.086727, as we do.
"""


class Instance(NamedTuple):
    """``optimum`` is a cost, ``target`` what the labelling must not exceed."""

    name: str
    path: str
    optimum: float | None
    limit: float = 60.0
    target: float | None = None
    values: str | None = None


_FOLDER = "map_benchmarks/"
INSTANCES = [
    Instance("example", _FOLDER + "toulbar2/example.wcsp.xz", 27),
    Instance("GEOM40_6", _FOLDER + "toulbar2/GEOM40_6.wcsp.xz", 0),
    Instance("CELAR6-SUB1", _FOLDER + "toulbar2/CELAR6-SUB1.wcsp.xz", 2669),
    Instance("scen06", _FOLDER + "toulbar2/scen06.wcsp.xz", 3389, target=3500),
    Instance("cap131", _FOLDER + "toulbar2/cap131.wcsp.xz", 7934385),
    Instance("1aho", _FOLDER + "toulbar2/1aho.cfn.gz", -33.729920),
    Instance("gm_000", _FOLDER + "libmpopt/gm_000.uai.xz", 10719, values="costs"),
    Instance("alarm", _FOLDER + "toulbar2/alarm.cfn.gz", 3.086727),
    Instance("404", _FOLDER + "toulbar2/404.wcsp.xz", 114),
    Instance("sudoku", _FOLDER + "toulbar2/sudoku.wcsp.xz", 0),
    Instance("network", _FOLDER + "toulbar2/network.uai.xz", None),
    Instance("water", _FOLDER + "toulbar2/water.uai.xz", None),
    Instance("tsukuba", "middlebury_mrf/tsukuba_mrf.npz", 369218, limit=20, target=369218 * 1.0005),
]
_QUICK = ("example", "GEOM40_6")  # the exact check of the elimination that proves 404 takes minutes


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    chosen = [instance for instance in INSTANCES if not quick or instance.name in _QUICK]
    if folder is None:
        return [{"instance": instance.name, "guarantee": NO_DATA} for instance in chosen]
    warm_up()
    return [row(folder, instance) for instance in chosen]


def read(path: Path, values: str | None) -> ms.Problem:
    """A file in one of the formats of `ms.read_problem`, or the arrays of a stereo problem."""
    return stereo(path) if path.suffix == ".npz" else ms.read_problem(path, values=values)


def stereo(path: Path) -> ms.Problem:
    """Unary costs per pixel, one table, and a weight per edge: those within rows before those within columns."""
    with np.load(path) as arrays:
        unary, table = arrays["unary"].astype(float), arrays["pairwise"].astype(float)
        across, down = arrays["h_weight"].astype(float), arrays["v_weight"].astype(float)
    height, width, n_labels = unary.shape
    graph = ms.Graph.grid(height, width)
    step = graph.edges[:, 1] - graph.edges[:, 0]
    row, column = np.divmod(graph.edges[:, 0], width)
    weight = np.empty(graph.n_edges)
    inside_row = step == 1
    weight[inside_row] = across[row[inside_row], column[inside_row]]
    weight[~inside_row] = down[row[~inside_row], column[~inside_row]]
    return ms.Problem.from_costs(graph, unary.reshape(-1, n_labels), table, edge_weight=weight)


def row(folder: Path, instance: Instance) -> dict[str, Any]:
    path = folder / instance.path
    known = None if instance.optimum is None else f"{instance.optimum:.10g}"
    if not path.is_file():
        return {"instance": instance.name, "guarantee": "skipped: the file is not in the data folder"}
    try:
        problem = read(path, instance.values)
    except ms.ParseError as error:
        reason = str(error).split(": ", 1)[1]
        return {"instance": instance.name, "known optimum": known, "guarantee": f"refused: {reason}"}
    warm_up_on(problem)
    new = renewed(problem)
    start = time.perf_counter()
    result = ms.solve(new, gap=0.0, time_limit=instance.limit)
    seconds = time.perf_counter() - start
    cost, bound = -result.score + 0.0, -result.bound + 0.0
    if instance.optimum is not None:
        room = problem.resolution + 1e-6 * abs(instance.optimum)
        if bound > instance.optimum + room:
            raise RuntimeError(f"{instance.name}: our bound {bound} is above the known optimum {instance.optimum}")
    verdict = None if instance.target is None else ("met" if cost <= instance.target else "missed")
    return {
        "instance": instance.name,
        "nodes": problem.n_nodes,
        "edges": problem.n_edges,
        "labels": problem.n_labels,
        "known optimum": known,
        "cost": f"{cost:.10g}",
        "bound": f"{bound:.10g}",
        "gap": 0.0 if result.guarantee == "optimal" else result.gap,
        "guarantee": str(result.guarantee),
        "solver": result.solver,
        "limit, s": instance.limit,
        "found, s": next((p.seconds for p in result.trace if p.score >= result.score), seconds),
        "seconds": seconds,
        **check(problem, result, seconds),
        "target": None if instance.target is None else f"cost <= {instance.target:.0f}: {verdict}",
    }
