"""Proofs that someone has changed, in memory: every field of every form, and every claim beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from factories.cores import proof_by_cores

import maxsum as ms
from maxsum.core.certificates.base import Certificate
from maxsum.core.errors import MaxsumError
from maxsum.core.problem import Messages

from .hostile import hostile_problem, with_factors
from .judging import every_score, lies, sizes

SOURCES = ("TRWS", "JunctionTree", "BranchAndBound", "QPRelaxation", "MaxFlow", "LinearProgram")
NUMBERS = (0.0, 1.0, -1.0, 1e-300, 1e6, -1e6, 1e15, -1e15, 1e99, -1e99, np.inf, -np.inf, np.nan)


def forged_certificates(rng: np.random.Generator) -> Iterator[tuple[str, ms.Problem, Any, np.ndarray, Certificate]]:
    """What was done, the problem, its scores, a labelling, and a proof that was changed; for ever."""
    while True:
        kind, problem = hostile_problem(rng)
        if rng.random() < 0.5:
            problem = ms.Problem(
                problem.graph,
                rng.normal(size=problem.unary.shape),
                rng.normal(size=(problem.n_edges, *problem.tables.shape[1:])),
            )
        if rng.random() < 0.4:
            kind, problem = f"{kind}, factors", with_factors(rng, problem)
        scores = every_score(problem)
        finite = [y for y in scores if scores[y] > float("-inf")]
        if not finite:
            continue
        for name in SOURCES:
            solver = ms.inference.registry.SOLVERS[name](**({"max_nodes": 40} if name == "BranchAndBound" else {}))
            if not solver.supports(problem):
                continue
            result = solver.solve(problem)
            if result.certificate is None:
                continue
            proofs = [result.certificate] * 6
            if name == "BranchAndBound" and not len(problem.cliques) and not len(problem.factors):
                proofs += [proof for _ in range(2) if (proof := proof_by_cores(rng, problem, 40)) is not None] * 3
            for proof in proofs:
                labels = (
                    result.labels if rng.random() < 0.5 and result.labels is not None else finite[rng.integers(len(finite))]
                )
                yield f"{kind}, {name}", problem, scores, np.array(labels, dtype=np.int32), forge(rng, proof)


def forge(rng: np.random.Generator, certificate: Certificate) -> Certificate:
    """The certificate with one field changed."""
    fields = [field.name for field in dataclasses.fields(certificate)]
    name = str(rng.choice(fields))
    if isinstance(getattr(certificate, name), Certificate):  # the proof of a lifted problem
        return dataclasses.replace(certificate, **{name: forge(rng, getattr(certificate, name))})
    return dataclasses.replace(certificate, **{name: _changed(rng, getattr(certificate, name))})


def _changed(rng: np.random.Generator, value: Any) -> Any:
    if isinstance(value, Messages):
        return Messages(*(_numbers(rng, part) for part in value))
    if isinstance(value, np.ndarray):
        return _numbers(rng, value)
    if isinstance(value, tuple) and value:
        items = list(value)
        at = int(rng.integers(len(items)))
        if rng.random() < 0.2 and not hasattr(value, "_fields"):
            return tuple(items[::-1])
        items[at] = forge(rng, items[at]) if isinstance(items[at], Certificate) else _changed(rng, items[at])
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, int):
        return int(rng.choice([-2, -1, 0, 1, value + 1, value - 1, 10**6]))
    if isinstance(value, float):
        return float(rng.choice(NUMBERS))
    return value


def _numbers(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The array with a number, many, its length, its shape or its kind of numbers changed."""
    changed, how = np.array(array), int(rng.integers(8))
    if not changed.size:
        return np.zeros(1) if how == 0 else changed
    at = int(rng.integers(changed.size))
    flat = changed.reshape(-1)
    if how == 0:
        return flat[:-1].copy()
    if how == 1:
        return changed.astype(object) if changed.dtype.kind == "f" else changed.astype(float) + 0.5
    if changed.dtype.kind == "f":
        if how < 4:
            flat[at] = rng.choice(NUMBERS)
        elif how < 6:
            flat[:] = flat * 10.0 ** rng.integers(-3, 20)
        else:
            flat[:] = flat + rng.normal(size=flat.shape) * 10.0 ** rng.integers(-12, 12)
    elif how < 5:
        flat[at] = rng.choice([-2, -1, 0, 1, 2, int(flat[at]) + 1])
    else:
        flat[:] = rng.permutation(flat)
    return changed


def accepted_lie(problem: ms.Problem, scores: Any, labels: np.ndarray, certificate: Certificate, exact: bool) -> str:
    """What is false in what `verify` says about a proof; empty if it is true, or the proof is refused with an error of ours."""
    try:
        found = certificate.verify(problem, labels, exact=exact)
    except MaxsumError:
        return ""
    return lies(problem, scores, labels, None, found.bound, found.gap, str(found.guarantee))


def accepted_claim(
    rng: np.random.Generator, problem: ms.Problem, scores: Any, labels: np.ndarray, certificate: Certificate
) -> str:
    """A false claim beside a proof that `verify` accepts; empty if it refuses it (or the claim is true after all)."""
    best, true = max(scores.values()), scores[tuple(labels.tolist())]
    room = sizes(problem, labels) * Fraction(2) ** -44
    step = Fraction(float(rng.choice([1e-9, 1e-3, 1.0, 900.0]))) * abs(
        best - min(s for s in scores.values() if s > float("-inf"))
    )
    step = max(step, room)
    false = [
        dict(score=float(true + 2 * step)),
        dict(score=float(true - 2 * step)),
        dict(bound=float(best - 2 * step)),
        dict(bound=-np.inf),
        dict(guarantee="infeasible"),
    ]
    if best - true > Fraction(1e-8) * (best - min(s for s in scores.values() if s > float("-inf"))) * 100:
        false.append(dict(guarantee="optimal"))
    claim = false[rng.integers(len(false))]
    try:
        certificate.verify(problem, labels, **claim)  # type: ignore[arg-type]
    except MaxsumError:
        return ""
    if claim.get("score", np.inf) == float(true) or claim.get("bound", np.inf) == float(best):
        return ""  # rounded to the truth: there is no float64 number so near to it, or nothing varies
    return f"{claim} was accepted, the optimum being {float(best)} and the labelling {float(true)}"
