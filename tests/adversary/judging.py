"""What is wrong with what the library says, judged in rational numbers: for the tests here and for ``python -m benchmarks reliability``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import maxsum as ms
from maxsum.core.errors import CertificateError
from maxsum.inference.registry import SOLVERS

try:
    from reference.rational import every_score, lies, sizes
except ImportError:  # outside pytest, which puts the folder of the tests on the path
    from tests.reference.rational import every_score, lies, sizes

__all__ = ["every_score", "faults_of_answer", "faults_of_solvers", "lies", "sizes"]

LIMITED = {"BranchAndBound": dict(max_nodes=200), "Toulbar2": None}
"""Options that keep a solver short on hostile numbers; None leaves it out (a process for each call)."""


def faults_of_solvers(problem: ms.Problem, names: Iterable[str] = SOLVERS) -> tuple[list[str], set[str]]:
    """What is false in the answers of these solvers, and which of them took the problem."""
    scores, faults, called = every_score(problem), [], set()
    for name in names:
        options = LIMITED.get(name, {})
        if options is None:
            continue
        solver = SOLVERS[name](**options)
        if not solver.supports(problem):
            continue
        called.add(name)
        faults += [f"{name}: {fault}" for fault in faults_of_answer(problem, scores, solver.solve(problem))]
    return faults, called


def faults_of_answer(problem: ms.Problem, scores: Any, result: ms.Result) -> list[str]:
    """What is false in an answer, or refuted by its own proof."""
    score = None if result.labels is None else result.score
    lie = lies(problem, scores, result.labels, score, result.bound, result.gap, str(result.guarantee))
    faults = [lie] if lie else []
    if result.certificate is not None:
        for exact in (False, True):
            try:
                found = result.certificate.verify(problem, result.labels, score, result.bound, result.guarantee, exact=exact)
            except CertificateError as error:
                faults.append(f"refuted by its own proof: {error}")
                continue
            lie = lies(problem, scores, result.labels, score, found.bound, found.gap, str(found.guarantee))
            faults += [f"verify(exact={exact}): {lie}"] if lie else []
    return faults
