"""What is wrong with the verdicts of the checker, and of `verify`, on a file that was tampered with or not."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import maxsum as ms
from check.tampering import Case, best_score
from maxsum import check
from maxsum.core.certificates.answers import read_answer
from maxsum.storage import verify_model


def verdict(case: Case) -> tuple[int, str]:
    """Exit code of the checker, in this process, and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as told:
        code = check.main([str(path) for path in case.paths])
    return code, told.getvalue()


def answer_faults(case: Case) -> list[str]:
    """Faults of checker and `verify` on an answer file, in words; they must agree.

    But about a true claim beside cores whose messages were changed: `verify` subtracts them in floats, with their rounding, where the checker is exact.
    """
    code, told = verdict(case)
    try:
        problem = ms.read_problem(case.paths[0])
    except ms.MaxsumError as error:
        return [] if code == 2 else [f"{case.what}: the checker says {code} about a problem that is refused: {error}"]
    accepted = _accepted(lambda: read_answer(case.paths[1], problem).verify(problem))
    faults = _faults(case, code, accepted, told)
    rounded = case.what.startswith("cores") and case.lie is None and code == 0
    if (code == 0) != accepted and not rounded:
        faults.append(f"{case.what}: the checker says {code}, verify {'yes' if accepted else 'no'}: {told[-300:]}")
    if code < 2:
        proven, best = float(check.check_answer(*map(str, case.paths))[1].found), float(best_score(problem))
        if proven < best - 1e-15 * abs(best):
            faults.append(f"{case.what}: {proven} is called a bound, but {best} is reached")
    return faults


def model_faults(case: Case) -> list[str]:
    """Faults of checker and `verify_model` on a model file, in words. They may disagree where no claim is false: the checker scales
    multipliers that sum to too much, reads no classes, and leaves some slacks of graphs with cycles undecided."""
    code, told = verdict(case)
    return _faults(case, code, _accepted(lambda: verify_model(case.paths[0], case.trained.X, case.trained.y)), told)


def _faults(case: Case, code: int, accepted: bool, told: str) -> list[str]:
    faults = []
    if case.lie is False and not (code == 0 and accepted):
        faults.append(f"{case.what}: refused (checker {code}, verify {accepted}): {told[-300:]}")
    if case.lie and code == 0:
        faults.append(f"{case.what}: the checker accepts a lie: {told[-300:]}")
    if case.lie and accepted and "training is" not in case.what:  # the checker's fingerprint; verify has one of its own
        faults.append(f"{case.what}: verify accepts a lie")
    if "did not expect" in told:
        faults.append(f"{case.what}: {told[-300:]}")
    return faults


def _accepted(call: Any) -> bool:
    """Whether a check ends without an error. One that is not ours counts as a refusal too: other tests are about its kind."""
    try:
        call()
    except Exception:
        return False
    return True
