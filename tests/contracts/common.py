"""What every `Result` must satisfy, judged by enumeration."""

from __future__ import annotations

import dataclasses
import math
from importlib.util import find_spec
from typing import Any

import numpy as np
from reference.families import Case

import maxsum as ms
from maxsum.core.certificates.base import Certificate
from maxsum.core.result import TracePoint
from maxsum.inference.registry import SOLVERS

MISSING = {"Toulbar2"} if find_spec("pytoulbar2") is None else set()
ALL = [*(name for name in SOLVERS if name not in MISSING), "solve"]
EXACT = frozenset({"TreeDP", "JunctionTree", "MaxFlow", "BranchAndBound", "Exhaustive", "solve"})


class Auto:
    """`maxsum.solve` in the shape of a solver."""

    name = "solve"

    def __init__(self, time_limit: float | None = None):
        self.time_limit = time_limit

    def supports(self, problem: ms.Problem) -> Any:
        from maxsum.inference.base import Support

        return Support(True)

    def solve(self, problem: ms.Problem, init: Any = None, callback: Any = None) -> ms.Result:
        return ms.solve(problem, time_limit=self.time_limit, init=init, callback=callback)


def solver_of(name: str, **options: Any) -> Any:
    return Auto(**options) if name == "solve" else SOLVERS[name](**options)


def takes(name: str, option: str) -> bool:
    """Whether the constructor of a solver has a parameter."""
    if name == "solve":
        return option == "time_limit"
    solver = SOLVERS[name]
    return dataclasses.is_dataclass(solver) and option in {f.name for f in dataclasses.fields(solver)}


def room(case: Case) -> float:
    """What counts as no gap: the documented resolution, and the rounding that float64 cannot avoid."""
    return 1.001 * case.raw.resolution + case.raw.fuzz


def check_fields(result: ms.Result, problem: ms.Problem) -> None:
    assert isinstance(result, ms.Result)
    assert isinstance(result.termination, ms.Termination) and isinstance(result.guarantee, ms.Guarantee)
    assert isinstance(result.message, str) and result.message.strip()
    assert isinstance(result.solver, str) and result.solver
    for name in ("score", "bound", "gap", "seconds", "relative_gap"):
        assert isinstance(getattr(result, name), float), f"{name} is a {type(getattr(result, name))}"
        assert not math.isnan(getattr(result, name)), name
    assert isinstance(result.n_iter, int) and result.n_iter >= 0
    assert result.seconds >= 0
    assert isinstance(result.trace, tuple) and all(isinstance(point, TracePoint) for point in result.trace)
    assert result.certificate is None or isinstance(result.certificate, Certificate)
    if result.labels is not None:
        assert result.labels.dtype == np.int32 and result.labels.shape == (problem.n_nodes,)
        assert not result.labels.flags.writeable
    if result.marginals is not None:
        assert result.marginals.shape == (problem.n_nodes, problem.n_labels)
        assert (result.marginals > -1e-6).all()
        np.testing.assert_allclose(result.marginals.sum(axis=1), 1.0, atol=1e-5)
    if result.fixed is not None:
        assert result.fixed.dtype == bool and result.fixed.shape == (problem.n_nodes,)


def check_result(case: Case, result: ms.Result) -> None:
    """Every claim of a result against enumeration."""
    problem, raw, slip = case.problem, case.raw, room(case)
    check_fields(result, problem)
    if result.labels is None:
        assert result.score == -np.inf and result.gap == np.inf
        assert result.guarantee in ("upper_bound", "infeasible", "none")
    else:
        assert result.score == problem.score(result.labels)
        truth = raw.score(result.labels.tolist())
        assert result.score == truth or abs(result.score - truth) <= raw.noise
    assert result.bound >= raw.best - slip - raw.noise
    assert result.gap >= 0
    if np.isfinite(result.gap):
        assert abs(result.gap - (result.bound - result.score)) <= raw.noise + 1e-12 * abs(result.bound)
        assert result.gap >= raw.regret(result.labels.tolist()) - slip
    if result.guarantee == "optimal":
        assert result.labels is not None and np.isfinite(result.score)
        assert raw.regret(result.labels.tolist()) <= slip
        assert result.gap <= 2 * slip  # the tolerance is taken at the labelling, and may be larger than the resolution
    if result.guarantee == "within_gap":
        assert np.isfinite(result.gap) and result.labels is not None
    if result.guarantee == "infeasible":
        assert not raw.feasible and result.labels is None and result.bound == -np.inf
    if result.guarantee == "feasible":
        assert np.isfinite(result.score)
    if result.fixed is not None and raw.feasible and result.fixed.any():
        assert (raw.optima[:, result.fixed] == result.labels[result.fixed]).all()
    check_certificate(case, result)


def check_certificate(case: Case, result: ms.Result) -> None:
    if result.certificate is None:
        assert result.guarantee in ("feasible", "none") and result.bound == np.inf
        return
    claims = dict(score=result.score, bound=result.bound)
    if result.labels is None:
        del claims["score"]
    found = result.certificate.verify(case.problem, result.labels, **claims)
    assert found.infeasible == (result.guarantee == "infeasible")
    if result.guarantee == "optimal":
        assert found.gap <= 2 * room(case)
        assert found.optimal or case.raw.fuzz > case.raw.resolution
    if found.optimal:
        assert case.raw.regret(result.labels.tolist()) <= room(case)


def check_exact(case: Case, result: ms.Result) -> None:
    """An exact solver leaves no gap, except where rounding of the inputs is larger than the resolution."""
    if not case.raw.feasible:
        assert result.guarantee == "infeasible"
    elif case.raw.fuzz <= case.raw.resolution:
        assert result.guarantee == "optimal", result
    else:
        assert result.guarantee in ("optimal", "within_gap") and result.gap <= 64 * case.raw.fuzz, result


def same(a: ms.Result, b: ms.Result) -> bool:
    """Bit-equal answers."""
    if (a.labels is None) != (b.labels is None):
        return False
    labels = a.labels is None or np.array_equal(a.labels, b.labels)
    facts = (a.score, a.bound, a.gap, a.guarantee, a.termination, a.n_iter)
    return labels and facts == (b.score, b.bound, b.gap, b.guarantee, b.termination, b.n_iter)
