"""Reliability as counts: problems, kills, shared files, mutated files, repeated trainings, too little memory."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import maxsum as ms
from tests.reference.estimator_cases import CASES

from . import reliability_fuzz, reliability_problems
from .measure import verdict
from .reliability_child import train, two_models

TITLE = "Reliability"
DESCRIPTION = """
Counts, not seconds. *Random problems*: small problems of all families of `tests/reference/families.py` (forests, grids, complete graphs, hard
constraints, cliques, unequal label counts, scales of 1e-9 to 1e12), each through enumeration and the two applicable solvers that were called
least so far (toulbar2, which starts a process for each call, for one problem in a hundred); every claim is compared with enumeration and every
certificate is verified. *Kills*: SIGKILL at a random moment of a training that
writes its checkpoint after every pass, from its start to its end; what is left is resumed to the end, and the weights must be those of an
undisturbed training, bit for bit. *Shared*: two processes write and read one model file. *Mutated
files*: bit flips, cuts, insertions, edits of headers and of lengths, most of those of model files and checkpoints with the checksum put right; a file
must be read or refused with an error of ours, within 5 s. *Repeated trainings*: each twice with one thread, and with two threads.
*Memory*: in a process with 256 MB of address space left. `MAXSUM_RELIABILITY=0.02` runs that share of the cases.
Who tries to make the library lie has a section of his own: `python -m benchmarks adversary`.
"""
SIZES = {"problems": 100_000, "kills": 100, "rounds": 300, "files": 10_000, "seeds": 5}
QUICK = {"problems": 80, "kills": 1, "rounds": 3, "files": 40, "seeds": 1}
LEFT = 2**28
ROOT = Path(__file__).parents[1]


def rows(quick: bool = False) -> list[dict[str, Any]]:
    share = float(os.environ.get("MAXSUM_RELIABILITY", "1"))
    size = QUICK if quick else {name: max(1, round(share * count)) for name, count in SIZES.items()}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        kills, shared = folder / "kills", folder / "shared"  # a killed training leaves its unfinished file behind
        kills.mkdir()
        shared.mkdir()
        parts = [
            lambda: _problems(size["problems"]),
            lambda: _kills(kills, size["kills"]),
            lambda: _shared(shared, size["rounds"]),
            lambda: _fuzz(folder, size["files"]),
            lambda: _repeated(size["seeds"], quick),
            _memory,
        ]
        table = []
        for part in parts:
            start = time.process_time() + _children()
            table += part()
            sys.stderr.write(f"  {table[-1]['table']}: {time.process_time() + _children() - start:.1f} CPU s\n")
    return table


def _children() -> float:
    own = os.times()
    return own.children_user + own.children_system


def _row(table: str, what: str, cases: int, faults: int, target: str = "no fault", **more: Any) -> dict[str, Any]:
    return {
        "table": table,
        "check": what,
        "cases": cases,
        "faults": faults,
        **more,
        "target": f"{target}: {verdict(faults == 0)}",
    }


def _problems(count: int) -> list[dict[str, Any]]:
    tally = reliability_problems.run(count)
    for words in tally.examples:
        sys.stderr.write(f"  {words}\n")
    calls = sum(tally.calls.values())
    kinds = ("violated bound", "disagreement", "NaN", "wrong score", "certificate that does not hold", "crash")
    table = [_row("Random problems", kind, calls, tally.faults[kind]) for kind in kinds]
    heading = "Calls of each solver"
    for name, n in sorted(tally.calls.items(), key=lambda item: -item[1]):
        least = count // (2 * reliability_problems.SELDOM if name == "Toulbar2" else 10)
        table.append(
            {
                "table": heading,
                "solver": name,
                "problems": n,
                "CPU ms a call": 1000 * tally.seconds[name] / max(1, n),
                "target": f">= {least}: {verdict(n >= least)}",
            }
        )
    return table


def _command(*words: Any) -> list[str]:
    return [sys.executable, "-m", "benchmarks.reliability_child", *(str(word) for word in words)]


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **more}


def _kills(folder: Path, count: int) -> list[dict[str, Any]]:
    state, expected = folder / "state", train(None)
    start = time.perf_counter()
    subprocess.run(_command("train", state), cwd=ROOT, env=_environment(), check=True)
    whole = time.perf_counter() - start
    faults = finished = inside = 0
    if train(state).tobytes() != expected.tobytes():
        faults += 1
    state.unlink()
    rng, kills = random.Random(0), 0
    while kills < count:
        run = subprocess.Popen(_command("train", state), cwd=ROOT, env=_environment())
        try:
            run.wait(rng.uniform(0.0, 1.1 * whole))
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            run.wait()
            kills += 1
        else:
            finished += 1
            faults += run.returncode != 0
        inside += state.exists()
        copy = folder / "copy"
        if state.exists():
            shutil.copyfile(state, copy)
        try:
            faults += train(copy).tobytes() != expected.tobytes()
        except ms.MaxsumError:
            faults += 1
        copy.unlink(missing_ok=True)
        if run.returncode == 0:
            state.unlink(missing_ok=True)
    return [
        _row(
            "Kills of a training",
            "SIGKILL, then resumed",
            count,
            faults,
            "same weights, bit for bit",
            **{"with a checkpoint": inside, "ended before the kill": finished},
        )
    ]


def _shared(folder: Path, rounds: int) -> list[dict[str, Any]]:
    for i, net in enumerate(two_models()):
        ms.save_model(net, folder / str(i))
    environment = _environment()
    runs = [
        subprocess.Popen(
            _command("share", folder / "shared", folder, rounds, turn),
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for turn in (0, 1)
    ]  # fmt: skip
    faults, scores = 0, set()
    for run in runs:
        out, words = run.communicate()
        if run.returncode:
            faults += 1
            sys.stderr.write(f"  a process ended with {run.returncode}: {words.strip()[-800:]}\n")
            continue
        _, wrong, score = _json(out)
        faults, scores = faults + wrong, scores | {score}
    faults += len(scores) != 1
    again = subprocess.run(
        _command("share", folder / "shared", folder, 1, 0), cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if again.returncode or _json(again.stdout)[1:] != [0, *scores]:
        faults += 1
        sys.stderr.write(f"  the third process: {again.returncode}, {again.stdout!r}, {again.stderr.strip()[-800:]}\n")
    left = [name for name in os.listdir(folder) if name.endswith(".part")]
    return [_row("Two processes", "one model file", 2 * rounds, faults + len(left), "no corruption")]


def _json(text: str) -> Any:
    import json

    return json.loads(text.strip().splitlines()[-1])


def _fuzz(folder: Path, count: int) -> list[dict[str, Any]]:
    found = reliability_fuzz.run(folder, count)
    return [
        {"table": "Mutated files", **row, "target": f"no crash, no hang, memory <= 1: {verdict(row['target'])}"}
        for row in found
    ]


def _repeated(seeds: int, quick: bool) -> list[dict[str, Any]]:
    names = {"grid": ("margin", "lp", "trivial", "qp", "logistic", "likelihood")}
    if not quick:
        names |= {
            "graph": names["grid"],
            "sequence": names["grid"],
            "multilabel": ("margin", "lp", "qp", "logistic", "likelihood"),
        }
    cases = faults = apart = 0
    largest = 0.0
    for kind, surrogates in names.items():
        make, data = CASES[kind]
        X, y = data()
        for surrogate in surrogates[: 2 if quick else None]:
            for seed in range(seeds):
                net = make(C=2.0, surrogate=surrogate, tol=1e-3, max_iter=40, random_state=seed, n_jobs=1)
                one, two = (clone(net).fit(X, y).result_.weights for _ in range(2))
                threads = clone(net).set_params(n_jobs=2).fit(X, y).result_.weights
                difference = float(np.abs(threads - one).max(initial=0.0) / max(1e-300, np.abs(one).max(initial=0.0)))
                cases, faults = cases + 1, faults + (one.tobytes() != two.tobytes())
                apart, largest = apart + (not difference <= 1e-9), max(largest, difference)
    return [
        _row(
            "Repeated trainings", "same seed, one thread", cases, faults, "same bits", **{"largest relative difference": None}
        ),
        _row("Repeated trainings", "two threads", cases, apart, "within 1e-9", **{"largest relative difference": largest}),
    ]


def _memory() -> list[dict[str, Any]]:
    if not sys.platform.startswith("linux"):
        return [_row("Too little memory", "skipped: needs /proc", 0, 0)]
    run = subprocess.run(_command("crowd", LEFT), cwd=ROOT, env=_environment(), capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"the process ended with {run.returncode}: {run.stderr.strip()[-500:]}")
    table = []
    for name, words, grown in _json(run.stdout):
        good = "needs about" in words and "Nothing was allocated" in words and "raise the limit" in words
        table.append(
            _row("Too little memory", name, 1, int(not good), "refused with estimate and way out", **{"grown, MB": grown / 1e6})
        )
        if not good:
            sys.stderr.write(f"  {name}: {words}\n")
    return table
