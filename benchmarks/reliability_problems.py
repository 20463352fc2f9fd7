"""Random problems through all solvers: violated bounds, disagreement of exact solvers, NaN; judged by enumeration."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.inference.registry import SOLVERS
from tests.reference.families import FAMILIES, Case, make

EXACT = ("TreeDP", "JunctionTree", "MaxFlow", "BranchAndBound", "solve")
EVERY = 2  # solvers a problem, besides enumeration: those that were called least


class Tally:
    """What was counted: calls and faults of each solver, and CPU seconds."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.examples: list[str] = []

    def fault(self, kind: str, case: Case, name: str, words: str = "") -> None:
        self.faults[kind] += 1
        if len(self.examples) < 20:
            self.examples.append(f"{kind}: {name} on {case!r} {words}")


SELDOM = 100  # Toulbar2 starts a process for each call


def run(count: int, seed: int = 0) -> Tally:
    """``count`` problems, family by family, each through enumeration and the applicable solvers that were called least."""
    tally = Tally()
    solvers = {name: solver() for name, solver in SOLVERS.items() if name not in ("Toulbar2", "Exhaustive")}
    if find_spec("pytoulbar2") is not None:
        solvers["Toulbar2"] = SOLVERS["Toulbar2"]()
    names = [*solvers, "solve"]
    tally.calls.update(dict.fromkeys(names, 0))
    for i, case in enumerate(_cases(count, seed)):
        problem, raw = case.problem, case.raw
        able = [name for name in names if name == "solve" or solvers[name].supports(problem)]
        if i % SELDOM and "Toulbar2" in able:
            able.remove("Toulbar2")
        chosen = sorted(able, key=lambda name: tally.calls[name])[:EVERY]
        scores: dict[str, float] = {}
        for name in chosen:
            start = time.process_time()
            try:
                result = ms.solve(problem) if name == "solve" else solvers[name].solve(problem)
            except Exception as error:
                tally.fault("crash", case, name, repr(error)[:200])
                continue
            finally:
                tally.calls[name] += 1
                tally.seconds[name] += time.process_time() - start
            _judge(tally, case, name, result)
            if name in EXACT:
                scores[name] = result.score
        best = raw.best if raw.feasible else -np.inf
        for name, score in scores.items():
            if not (score == best or abs(score - best) <= _room(case) + raw.noise):
                tally.fault("disagreement", case, name, f"{score!r}, enumeration {best!r}")
    return tally


def _cases(count: int, seed: int) -> Iterator[Case]:
    names = list(FAMILIES)
    for i in range(count):
        yield make.__wrapped__(names[i % len(names)], 10**6 * (1 + seed) + i)


def _room(case: Case) -> float:
    return float(1.001 * case.raw.resolution + case.raw.fuzz)


def _judge(tally: Tally, case: Case, name: str, result: ms.Result) -> None:
    """Every claim of a result against enumeration, and its certificate against the problem."""
    raw, slip = case.raw, _room(case)
    if any(math.isnan(value) for value in (result.score, result.bound, result.gap)):
        tally.fault("NaN", case, name)
        return
    best = raw.best if raw.feasible else -np.inf
    if result.bound < best - slip - raw.noise:
        tally.fault("violated bound", case, name, f"{result.bound!r} < {best!r}")
    if result.labels is not None and not np.isneginf(result.score):
        truth = raw.score(result.labels.tolist())
        if not (result.score == truth or abs(result.score - truth) <= raw.noise):
            tally.fault("wrong score", case, name, f"{result.score!r}, really {truth!r}")
        if result.guarantee == "optimal" and raw.regret(result.labels.tolist()) > slip:
            tally.fault("violated bound", case, name, "claims the optimum")
    if (result.guarantee == "infeasible") and raw.feasible:
        tally.fault("violated bound", case, name, "claims infeasibility")
    if result.certificate is not None:
        claims: dict[str, Any] = {"bound": result.bound} | ({} if result.labels is None else {"score": result.score})
        try:
            result.certificate.verify(case.problem, result.labels, **claims)
        except ms.MaxsumError as error:
            tally.fault("certificate that does not hold", case, name, str(error)[:200])
