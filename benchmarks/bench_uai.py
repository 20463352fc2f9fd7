"""The MAP problems of the UAI 2014 competition, beside toulbar2 in the same run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import maxsum as ms

from .measure import NO_DATA, cpu_clock, data_folder, renewed, toulbar2, verdict

TITLE = "UAI 2014: MAP problems beside toulbar2"
DESCRIPTION = """
`ms.solve(problem, gap=0, time_limit=20)` on every file of `uai2014/MAP` with its evidence, and toulbar2 (virtual arc consistency on, 20 s, a process of
its own) on the same problem; `--time-limit` takes other seconds than 20, and the last row says which. Both limits, and seconds, are CPU seconds. Scores are natural logarithms of the unnormalised probability. *Reference* is that of the labelling that came with
the file, which is not always the best known. *Proven* is what a certificate of ours shows, or what toulbar2 claims. The last row counts: wanted
are no file refused, at least as many proven as toulbar2, and a labelling that is not worse than toulbar2's on 95 % of the files.

The second table has the files of `uai2014/PR`: the natural logarithm of the partition function given the evidence by `ms.log_partition(problem,
time_limit=5)`, exact or between two bounds, and the reference that came with the file (six digits of a logarithm to base 10). Wanted is that every
reference lies in its bracket, exact ones being the same up to the reference's digits and 1e-6. The reference of relational_3 is not that of its
file: a hundred networks of ten variables, which can be enumerated, sum to ours (`tests/files/test_uai_references.py`).
"""

LIMIT = 20.0
_QUICK = ("Promedas_71", "Segmentation_13")
_QUICK_LIMIT = 2.0
SUMS = "Partition functions"
_SUM_LIMIT = 5.0
_QUICK_SUMS = ("Promedus_15", "ObjectDetection_61")


def rows(quick: bool = False, time_limit: float = LIMIT) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None or not (folder / "uai2014" / "MAP").is_dir():
        return [{"file": "uai2014/MAP", "proven": NO_DATA}]
    paths = sorted((folder / "uai2014" / "MAP").glob("*.uai.xz"), key=_key)
    if quick:
        paths = [path for path in paths if _name(path) in _QUICK]
    limit = _QUICK_LIMIT if quick else time_limit
    found = [row(path, limit) for path in paths]
    sums = sorted((folder / "uai2014" / "PR").glob("*.uai.xz"), key=_key)
    known = [sum_row(path) for path in sums if not quick or _name(path) in _QUICK_SUMS]
    return [*found, total(found, limit), *known, *([total_of_sums(known)] if known else [])]


def _name(path: Path) -> str:
    return path.name.removesuffix(".uai.xz")


def _key(path: Path) -> tuple[str, int]:
    kind, number = _name(path).rsplit("_", 1)
    return kind, int(number)


def row(path: Path, limit: float) -> dict[str, Any]:
    try:
        problem = ms.read_problem(path, evidence="auto")
    except ms.MaxsumError as error:
        return {"file": _name(path), "proven": f"refused: {error}"}
    start = time.process_time()
    with cpu_clock():
        result = ms.solve(problem, gap=0, time_limit=limit)
    seconds = time.process_time() - start
    peer = toulbar2([renewed(problem)], limit, 1)[0]
    ours: dict[str, Any] = {
        "file": _name(path),
        "nodes": problem.n_nodes,
        "factors": problem.n_edges + len(problem.factors),
        "reference": _reference(path, problem),
        "score": f"{result.score:.8g}",
        "bound": f"{result.bound:.8g}",
        "proven": "yes" if result.guarantee == "optimal" else "no",
        "seconds": seconds,
    }
    ours |= {"toulbar2, s": peer.text()}
    if peer.seconds is not None:
        score = float(peer.score) if peer.score is not None else -np.inf
        ours |= {"its score": f"{score:.8g}", "its claim": "yes" if peer.done else "no"}
        room = 1e-5 * max(1.0, abs(score)) if np.isfinite(score) else 0.0  # toulbar2 has six decimals of each term
        ours["labelling"] = "better" if result.score > score + room else "worse" if result.score < score - room else "equal"
    return ours


def _reference(path: Path, problem: ms.Problem) -> str | None:
    from maxsum.core.files.uai_results import read_uai_solution

    known = path.with_name(path.name.replace(".uai.xz", ".uai.MAP.xz"))
    if not known.is_file():
        return None
    labels = np.asarray(read_uai_solution(known).labels)
    return f"{problem.score(labels):.8g}"


def total(found: list[dict[str, Any]], limit: float) -> dict[str, Any]:
    """Counts over all files, and whether what was wanted holds."""
    read = [one for one in found if not str(one["proven"]).startswith("refused")]
    compared = [one for one in read if "labelling" in one]
    ours, theirs = (sum(one[key] == "yes" for one in read if key in one) for key in ("proven", "its claim"))
    not_worse = sum(one["labelling"] != "worse" for one in compared)
    share = not_worse / len(compared) if compared else float("nan")
    met = len(read) == len(found) and ours >= theirs and share >= 0.95
    return {
        "file": f"{len(found)} files, {limit:g} s each",
        "proven": f"{ours} of {len(read)}",
        "its claim": f"{theirs} of {len(compared)}",
        "labelling": f"not worse on {not_worse} of {len(compared)}",
        "verdict": verdict(met) if compared else None,
    }


def sum_row(path: Path) -> dict[str, Any]:
    """The partition function of a file beside its reference."""
    from maxsum.core.files.uai_results import read_uai_solution

    start = time.perf_counter()
    try:
        problem = ms.read_problem(path, evidence="auto")
        found = ms.log_partition(problem, time_limit=_SUM_LIMIT)
    except ms.MaxsumError as error:
        return {"table": SUMS, "file": _name(path), "holds": f"refused: {error}"}
    seconds = time.perf_counter() - start
    ten = read_uai_solution(path.with_name(path.name.replace(".uai.xz", ".uai.PR.xz"))).log10_z
    assert ten is not None
    # six digits are printed: half a unit of the last one is open
    known, off = ten * np.log(10), 0.51 * 10.0 ** (np.floor(np.log10(abs(ten))) - 5) * np.log(10) if ten else 0.0
    room = off + 1e-6 * max(1.0, abs(known))
    return {
        "table": SUMS,
        "file": _name(path),
        "nodes": problem.n_nodes,
        "factors": problem.n_edges + len(problem.factors),
        "lower": f"{found.lower:.8g}",
        "upper": f"{found.upper:.8g}",
        "exact": "yes" if found.exact else "no",
        "reference": f"{known:.7g}",
        "holds": "yes" if found.lower - room <= known <= found.upper + room else "no",
        "seconds": seconds,
    }


def total_of_sums(found: list[dict[str, Any]]) -> dict[str, Any]:
    """How many references lie in their brackets; one is known to be wrong."""
    held, exact = (sum(one.get(key) == "yes" for one in found) for key in ("holds", "exact"))
    missed = {one["file"] for one in found if one["holds"] != "yes"} - {"relational_3"}
    return {
        "table": SUMS,
        "file": f"{len(found)} files",
        "exact": f"{exact} of {len(found)}",
        "holds": f"{held} of {len(found)}",
        "verdict": verdict(not missed) + (", relational_3 apart" if held < len(found) and not missed else ""),
    }
