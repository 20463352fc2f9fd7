"""The adversary of ``tests/adversary`` and ``tests/check`` at length: how many lies are accepted."""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from .measure import verdict

TITLE = "Reliability: the adversary"
DESCRIPTION = """
Lies that are accepted, judged by enumeration in rational numbers. *Hostile problems*: scales from 1e-300 to 1e99 mixed, huge offsets, large terms out of
reach, soft constraints of 1e9 to 1e16, ties, denormals, whole numbers near 2**53, large numbers that cancel, a third of them with factors of every kind, through every solver that takes them; every
answer is judged, and checked by its own proof in floating point and exactly. *Tampered certificates*: any field of any form changed, by one number, many, length or
type, or a false claim beside it. *Files*: answers and models with any member or header field changed, sealed again with the right checksum, before `verify`
and before the checker of one file. `MAXSUM_RELIABILITY=0.02` runs that share of the cases.
"""
SIZES = {"certificates": 100_000, "problems": 10_000, "answers": 10_000, "models": 10_000}
QUICK = {"certificates": 100, "problems": 8, "answers": 20, "models": 20}
TESTS = str(Path(__file__).parents[1] / "tests")
_PIECE = 100
"""Cases of one task: a seed of its own for each, so that the tally is the same whatever the number of processes."""

Tally = Counter[str]


def rows(quick: bool = False) -> list[dict[str, Any]]:
    share = float(os.environ.get("MAXSUM_RELIABILITY", "1"))
    counts = QUICK if quick else {kind: max(1, round(share * count)) for kind, count in SIZES.items()}
    tally, words = _run(counts)
    for fault in words:
        sys.stderr.write(f"  {fault}\n")
    table = (
        ("tampered certificates", tally["certificates"], "certificates"),
        ("tampered answer files", tally["answers"], "answers"),
        ("forged model files", tally["models"], "models"),
        (f"answers to {tally['problems']} hostile problems", tally["answers to problems"], "problems"),
    )
    return [
        {
            "what": what,
            "cases": cases,
            "accepted lies": tally[f"{kind}: faults"],
            "target": f"none: {verdict(tally[f'{kind}: faults'] == 0)}",
        }
        for what, cases, kind in table
    ]


def _run(counts: dict[str, int]) -> tuple[Tally, list[str]]:
    """Cases and faults by kind (``"kind"`` and ``"kind: faults"``), and the words of some faults."""
    tasks = [(kind, seed, min(_PIECE, count - start)) for kind, count in counts.items()
             for seed, start in enumerate(range(0, count, _PIECE))]  # fmt: skip
    tally: Tally = Counter()
    words: list[str] = []
    with ProcessPoolExecutor(min(len(tasks), os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        for found, faults in pool.map(_task, tasks):
            tally.update(found)
            words += faults
    return tally, words[:20]


def _task(item: tuple[str, int, int]) -> tuple[Tally, list[str]]:
    kind, seed, count = item
    if TESTS not in sys.path:  # the modules below import each other as pytest lets them
        sys.path.insert(0, TESTS)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    return {"certificates": _certificates, "problems": _problems, "models": _models, "answers": _answers}[kind](rng, count)


def _certificates(rng: np.random.Generator, count: int) -> tuple[Tally, list[str]]:
    """Proofs with a field changed, judged in floating point, exactly, or beside a false claim."""
    from adversary.forging import accepted_claim, accepted_lie, forged_certificates

    tally: Tally = Counter()
    words: list[str] = []
    for what, problem, scores, labels, certificate in itertools.islice(forged_certificates(rng), count):
        how = int(rng.integers(3))
        if how == 2:
            lie = accepted_claim(rng, problem, scores, labels, certificate)
        else:
            lie = accepted_lie(problem, scores, labels, certificate, how == 1)
        tally["certificates"] += 1
        if lie:
            tally["certificates: faults"] += 1
            words.append(f"{what}: {lie}")
    return tally, words


def _problems(rng: np.random.Generator, count: int) -> tuple[Tally, list[str]]:
    """Hostile problems through every solver that takes them."""
    from adversary.hostile import hostile_problem, with_factors
    from adversary.judging import faults_of_solvers

    tally: Tally = Counter()
    words: list[str] = []
    for i in range(count):
        kind, problem = hostile_problem(rng)
        if i % 3 == 2:  # from a stream of their own: the others stay what they were
            kind, problem = f"{kind}, factors", with_factors(np.random.default_rng([i, problem.n_nodes]), problem)
        faults, called = faults_of_solvers(problem)
        tally["problems"] += 1
        tally["answers to problems"] += len(called)
        tally["problems: faults"] += len(faults)
        words += [f"{kind}: {fault}" for fault in faults]
    return tally, words


def _answers(rng: np.random.Generator, count: int) -> tuple[Tally, list[str]]:
    """Answer files with a member changed, before `verify` and before the checker of one file."""
    from check.judging import answer_faults
    from check.tampering import tampered_answers

    return _files("answers", itertools.islice(tampered_answers(rng), count), answer_faults)


def _models(rng: np.random.Generator, count: int) -> tuple[Tally, list[str]]:
    """Model files with a field of header, proof or weights changed, likewise."""
    from check.judging import model_faults
    from check.tampering import tampered_models

    return _files("models", itertools.islice(tampered_models(rng), count), model_faults)


def _files(kind: str, cases: Any, judge: Any) -> tuple[Tally, list[str]]:
    tally: Tally = Counter()
    words: list[str] = []
    for case in cases:
        faults = judge(case)
        tally[kind] += 1
        tally[f"{kind}: faults"] += len(faults)
        words += faults
    return tally, words
