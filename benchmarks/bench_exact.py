"""Published instances with known optimum, and Sudoku: what is proven, in which time."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import maxsum as ms
from maxsum.core.certificates.answers import save_answer
from maxsum.inference import TRWS, BranchAndBound

from .measure import NO_DATA, Peer, cpu_clock, data_folder, renewed, toulbar2, verdict

TITLE = "Exact answers on published instances"
DESCRIPTION = """
`ms.solve(problem, gap=0, time_limit=...)` on files read by `ms.read_problem`; scores are shown as costs (a bound is then a lower one),
beside the known optimum. *Gap* is what our certificate leaves open: 0 is a proof of optimality. *Boxes or passes* are those
of the solver that finished. All seconds are CPU seconds, the limits too. *Checked* is the time of `certificate.verify`, which shares no code with the solvers, *exactly* that
of the same in rational arithmetic, tried where the first took at most 20 s; checking should take no longer than solving, and the file of a proven answer should be at most
ten times that of the problem (both deflated `.npz`). The peer is
toulbar2 (virtual arc consistency on, building of its model included, same time limit); it claims,
and gives no certificate. Short runs are medians of three, those of a second and more are single.
"""


class Instance(NamedTuple):
    """``optimum`` is a cost."""

    name: str
    path: str
    optimum: float
    limit: float
    values: str | None = None


_FOLDER = "map_benchmarks/"
INSTANCES = [
    Instance("example", "toulbar2/example.wcsp.xz", 27, 120),
    Instance("GEOM40_6", "toulbar2/GEOM40_6.wcsp.xz", 0, 120),
    Instance("CELAR6-SUB1", "toulbar2/CELAR6-SUB1.wcsp.xz", 2669, 120),
    Instance("cap131", "toulbar2/cap131.wcsp.xz", 7934385, 60),
    Instance("1aho", "toulbar2/1aho.cfn.gz", -33.729920, 60),
    Instance("gm_000", "libmpopt/gm_000.uai.xz", 10719, 60, values="costs"),
    Instance("scen06", "toulbar2/scen06.wcsp.xz", 3389, 60),
]
_LONGEST_CHECK = (
    20.0  # CPU seconds of a check that is done in rational arithmetic too: scen06, 68 s in floats, did not end in four minutes
)
_CHECK_TARGET, _SIZE_TARGET = 1, 10
SUDOKU = ("sudoku-easy50.txt", "sudoku-top95.txt")


def solve_repeatedly(problem: ms.Problem, limit: float) -> tuple[float, ms.Result]:
    """Median CPU seconds, choice of the solver included, and the first result; runs of a second and more are not repeated."""
    warm_up_on(problem)
    seconds: list[float] = []
    first = None
    while len(seconds) < 3 and (not seconds or seconds[-1] < 1):
        new = renewed(problem)
        start = time.process_time()
        with cpu_clock():
            result = ms.solve(new, gap=0.0, time_limit=limit)
        seconds.append(time.process_time() - start)
        first = first or result
    assert first is not None
    return statistics.median(seconds), first


def warm_up() -> None:
    """Compile what `ms.solve` may need: junction tree, TRW-S, search with scores and with hard constraints alone."""
    rng = np.random.default_rng(0)
    for n_nodes, n_labels in ((4, 3), (12, 4)):
        graph = ms.Graph.complete(n_nodes)
        unary, tables = rng.normal(size=(n_nodes, n_labels)), rng.normal(size=(graph.n_edges, n_labels, n_labels))
        ms.solve(ms.Problem(graph, unary, tables=tables), time_limit=5)
        ms.solve(ms.Problem(graph, unary, tables=tables[0]), time_limit=5)
    ms.solve(sudoku("." * 81), time_limit=5)
    warm_up_on(sudoku("." * 81))


def warm_up_on(problem: ms.Problem) -> None:
    """Compile what depends on the number of labels: kernels may be specialised to it."""
    TRWS(max_iter=2).solve(renewed(problem))
    search = BranchAndBound(max_nodes=3, root_iter=2)
    if search.supports(problem):  # not factors whose tables would be too large
        search.solve(renewed(problem))


def sudoku(puzzle: str) -> ms.Problem:
    """81 nodes, 9 labels; equal digits in a row, column or block are forbidden."""
    cell = np.arange(81).reshape(9, 9)
    blocks = [cell[r : r + 3, c : c + 3].ravel() for r in (0, 3, 6) for c in (0, 3, 6)]
    units = [unit.tolist() for unit in (*cell, *cell.T, *blocks)]
    edges = sorted({(u, v) for unit in units for u in unit for v in unit if u < v})
    unary = np.zeros((81, 9))
    for v, digit in enumerate(puzzle):
        if digit in "123456789":
            unary[v] = -np.inf
            unary[v, int(digit) - 1] = 0.0
    different = np.where(np.eye(9, dtype=bool), -np.inf, 0.0)
    return ms.Problem(ms.Graph.from_edges(edges, n_nodes=81), unary, tables=different)


def rows(quick: bool = False) -> list[dict[str, Any]]:
    warm_up()
    folder = data_folder()
    heading = "Files"
    if folder is None:
        table: list[dict[str, Any]] = [{"table": heading, "instance": i.name, "ours": NO_DATA} for i in INSTANCES]
        return table + [{"table": "Sudoku", "set": name, "solved": NO_DATA} for name in SUDOKU]
    table = [_file(folder, instance) for instance in (INSTANCES[:2] if quick else INSTANCES)]
    for row in table:
        row["table"] = heading
    table += [_sudokus(folder / "sudoku" / name, 2 if quick else None) for name in SUDOKU]
    return table + [_messages(20 if quick else 224, own) for own in (False, True)]


def _messages(side: int, own: bool) -> dict[str, Any]:
    """A large proof by messages, checked in floating point and in rational arithmetic."""
    rng, graph = np.random.default_rng(0), ms.Graph.grid(side, side)
    tables = rng.normal(size=(graph.n_edges, 16, 16)) if own else 0.4 * np.eye(16)
    problem = ms.Problem(graph, rng.normal(size=(graph.n_nodes, 16)), tables)
    result = TRWS(max_iter=20).solve(problem)
    assert result.certificate is not None
    seconds = []
    for exact in (False, True):
        start = time.process_time()
        result.certificate.verify(problem, result.labels, result.score, result.bound, result.guarantee, exact=exact)
        seconds.append(time.process_time() - start)
    return {
        "table": "Large proofs by messages",
        "problem": f"grid {side} x {side}, {problem.n_edges} edges, 16 labels, {'a table an edge' if own else 'one table'}",
        "check, CPU s": seconds[0],
        "exact check, CPU s": seconds[1],
        "target": f"<= 30 s: {verdict(seconds[1] <= 30)}",
    }


def _file(folder: Path, instance: Instance) -> dict[str, Any]:
    path = folder / _FOLDER / instance.path
    if not path.is_file():
        return {"instance": instance.name, "ours": "skipped: the file is not in the data folder"}
    problem = ms.read_problem(path, values=instance.values)
    seconds, result = solve_repeatedly(problem, instance.limit)
    proof = check(problem, result, seconds)
    peer = toulbar2([problem], instance.limit)[0]
    if peer.score is not None and peer.score > result.bound + problem.resolution + 1e-9 * abs(result.bound):
        raise RuntimeError(f"{instance.name}: toulbar2 found {peer.score}, above our bound {result.bound}")
    return {
        "instance": f"{instance.name}, {problem.n_nodes} nodes, {problem.n_edges} edges, {problem.n_labels} labels",
        "known optimum": f"{instance.optimum:.10g}",
        "cost": f"{-result.score + 0.0:.10g}",
        "bound": f"{-result.bound + 0.0:.10g}",
        "gap": 0.0 if result.guarantee == "optimal" else result.gap,
        "guarantee": str(result.guarantee),
        "solver": result.solver,
        "boxes or passes": result.n_iter,
        "limit, s": instance.limit,
        "seconds": seconds,
        **proof,
        "toulbar2, s": peer.text(),
        "toulbar2 cost": None if peer.score is None else f"{-peer.score + 0.0:.10g}",
        "ours / toulbar2": peer.ratio(seconds, result.guarantee == "optimal"),
    }


def check(problem: ms.Problem, result: ms.Result, seconds: float) -> dict[str, Any]:
    """Seconds of checking beside those of solving, and the sizes of the files; targets are for proven answers."""
    certificate = result.certificate
    if certificate is None:
        return {}
    start = time.process_time()
    found = result.verify(problem)
    checked = time.process_time() - start
    exactly = None
    if checked <= _LONGEST_CHECK:
        start = time.process_time()
        if result.verify(problem, exact=True).guarantee != found.guarantee:
            raise RuntimeError("exact and floating point verdicts differ")
        exactly = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "problem.npz", Path(folder) / "answer.npz"
        problem.save(paths[0])
        save_answer(paths[1], result)
        sizes = [path.stat().st_size for path in paths]
    ratios = checked / seconds, sizes[1] / sizes[0]
    targets = [f"{ratio:.3g}" for ratio in ratios]
    if result.guarantee == "optimal":
        limits = (_CHECK_TARGET, _SIZE_TARGET)
        targets = [f"{r:.3g}, <= {most}: {verdict(r <= most)}" for r, most in zip(ratios, limits, strict=True)]
    return {
        "checked, s": checked,
        "checked / solved": targets[0],
        "exactly, s": exactly,
        "problem, bytes": sizes[0],
        "answer, bytes": sizes[1],
        "answer / problem": targets[1],
    }


def _sudokus(path: Path, n_puzzles: int | None) -> dict[str, Any]:
    if not path.is_file():
        return {"table": "Sudoku", "set": path.stem, "solved": "skipped: the file is not in the data folder"}
    puzzles = [line.strip() for line in path.read_text().splitlines() if len(line.strip()) == 81][:n_puzzles]
    problems = [sudoku(puzzle) for puzzle in puzzles]
    seconds, boxes, solved, verified = [], [], 0, 0.0
    for problem in problems:
        start = time.process_time()
        with cpu_clock():
            result = ms.solve(problem, gap=0.0, time_limit=60)
        seconds.append(time.process_time() - start)
        boxes.append(result.n_iter if result.solver == "BranchAndBound" else 0)
        solved += result.guarantee == "optimal"
        if result.certificate is not None:
            start = time.process_time()
            result.certificate.verify(problem, result.labels, score=result.score, bound=result.bound)
            verified += time.process_time() - start
    peers: list[Peer] = toulbar2(problems, 20, repeats=1)
    done = [peer.seconds for peer in peers if peer.done and peer.seconds is not None]
    ours, theirs = statistics.median(seconds), statistics.median(done) if done else None
    return {
        "table": "Sudoku",
        "set": path.stem,
        "solved": f"{solved} of {len(puzzles)}",
        "median s": ours,
        "largest s": max(seconds),
        "median boxes": statistics.median(boxes),
        "largest boxes": max(boxes),
        "verified, mean s": verified / len(puzzles),
        "toulbar2 solved": f"{len(done)} of {len(puzzles)}" if done else peers[0].text(),
        "toulbar2 median s": theirs,
        "toulbar2 largest s": max(done) if done else None,
        "median ours / toulbar2": None if theirs is None else ours / theirs,
    }
