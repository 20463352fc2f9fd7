"""`maxsum marginals`, `maxsum sample`, and what `maxsum solve --k` prints."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import InvalidParameterError, UnsupportedProblemError
from ...core.files.uai_answers import MAR, MPE, PR, answer_kind, write_mar, write_mpe, write_pr
from ..common import INFEASIBLE, NO_LABELLING, OK, known_solver
from ..show import print_json, print_rows

if TYPE_CHECKING:
    from ...core.problem import Problem
    from ...inference.base import Solver
    from ...inference.questions import KBest

_SHOWN = 20
"""Rows of nodes, or labels of a sample, that a table shows; JSON has all."""


def chosen_solver(name: str | None, options: list[str]) -> Solver | str | None:
    """A solver by its name, with settings ``NAME=VALUE``."""
    if name is None:
        if options:
            raise InvalidParameterError(
                f"--option {options[0]} is a setting of a solver; name the solver too, as in --solver TRWS."
            )
        return None
    known = known_solver(name)
    if not options:
        return known
    from ...inference.registry import SOLVERS

    kind = SOLVERS[known]
    fields = list(getattr(kind, "__dataclass_fields__", {}))
    settings: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or key not in fields:
            raise InvalidParameterError(
                f"--option {option}: wanted NAME=VALUE with a setting of {known}: {', '.join(fields) or 'none'}."
            )
        try:
            settings[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[key] = text
    return kind(**settings)


def show_k_best(
    problem: Problem,
    k: int,
    gap: float | None,
    limit: float | None,
    file: Path,
    json: bool,
    out: Path | None,
    costs: bool = False,
) -> int:
    """Find the k best labellings and print them, with costs where the file has costs; the exit code."""
    from ...inference.questions import k_best

    if out is not None and answer_kind(out) != MPE:
        raise InvalidParameterError(f"--out {out}: with --k a file .MPE, for the best labelling, can be written, and no proof.")
    found = k_best(problem, k, gap=gap, time_limit=limit)
    if out is not None:
        write_mpe(out, found.labels[0] if len(found) else None)
    if json:
        more = {"costs": 0.0 - found.scores, "cost_bound": 0.0 - float(found.bound)} if costs else {}
        print_json({"file": str(file), **more, **_k_best_facts(found), "labels": found.labels})
    else:
        rows = [
            (f"{i + 1}", f"{0.0 - score if costs else score:.10g}  {_some(labels)}")
            for i, (score, labels) in enumerate(zip(found.scores, found.labels, strict=True))
        ]
        rest = f"cost at least {0.0 - found.bound:.10g}" if costs else f"at most {found.bound:.10g}"
        print_rows(str(file), [*rows, ("all others", rest), ("message", found.message)])
    if len(found):
        return OK
    return INFEASIBLE if found.bound == -np.inf else NO_LABELLING


def _k_best_facts(found: KBest) -> dict[str, Any]:
    return {"scores": found.scores, "bound": float(found.bound), "proven": found.proven, "message": found.message}


def show_marginals(
    problem: Problem, method: str, seed: int | None, limit: float | None, file: Path, json: bool, out: Path | None
) -> None:
    """Print probabilities and the logarithm of their sum, and write them to ``.MAR`` or ``.PR``."""
    from ...inference.questions import log_partition, marginals

    kind = None if out is None else answer_kind(out)
    if out is not None and kind not in (MAR, PR):
        raise InvalidParameterError(f"--out {out}: wanted a file .MAR (probabilities) or .PR (log10 of their sum).")
    found = marginals(problem, method=method, random_state=seed, time_limit=limit)
    log_z = log_partition(problem, time_limit=limit)
    if out is not None and kind == MAR:
        write_mar(out, found.node, problem.n_states)
    elif out is not None:
        if not log_z.exact:
            raise UnsupportedProblemError(
                f"--out {out}: a .PR file holds one number, but log Z is only known to lie between {log_z.lower:.10g} and {log_z.upper:.10g}."
            )
        write_pr(out, log_z.upper)
    rows = [row[:states] for row, states in zip(found.node, problem.n_states.tolist(), strict=True)]
    if json:
        print_json(
            {
                "file": str(file),
                "exact": found.exact,
                "message": found.message,
                "log_partition": {"lower": log_z.lower, "upper": log_z.upper, "exact": log_z.exact},
                "marginals": [row.tolist() for row in rows],
                "standard_error": found.standard_error,
            }
        )
        return
    shown = [(f"node {v}", " ".join(f"{p:.6g}" for p in row)) for v, row in enumerate(rows[:_SHOWN])]
    if len(rows) > _SHOWN:
        shown.append(("...", f"{len(rows) - _SHOWN} more nodes: --json or --out FILE.MAR has all"))
    sums = f"{log_z.upper:.10g}" if log_z.exact else f"between {log_z.lower:.10g} and {log_z.upper:.10g}"
    print_rows(str(file), [*shown, ("log Z", sums), ("message", found.message)])


def show_samples(problem: Problem, n: int, method: str, seed: int | None, file: Path, json: bool) -> None:
    """Print labellings that are drawn with their probabilities."""
    from ...inference.questions import sample

    found = sample(problem, n, method=method, random_state=seed)
    if json:
        print_json({"file": str(file), "exact": found.exact, "message": found.message, "labels": found.labels})
        return
    rows = [(f"{i + 1}", f"{problem.score(y):.10g}  {_some(y)}") for i, y in enumerate(found.labels)]
    print_rows(str(file), [*rows, ("message", found.message)])


def _some(labels: np.ndarray) -> str:
    return " ".join(map(str, labels[:_SHOWN].tolist())) + (" ..." if len(labels) > _SHOWN else "")
