"""Learning with labels that are unknown in part: convex trainings between which the unknown labels are completed (concave-convex procedure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core.errors import InfeasibleError
from ..core.problem import Problem
from ..core.result import Result
from ..executors.clock import Clock
from ..executors.threads import thread_map
from ..models.bound import BoundModel
from .objectives.margin import MarginObjective
from .objectives.partial import PartialObjective
from .result import LearningResult


@dataclass(frozen=True)
class Tuning:
    """When the rounds end."""

    rounds: int = 20  # the objective falls little after five to ten on letters and pages; more only cost time
    least: float = (
        1e-3  # relative fall of the objective below which a round is the last: the tolerance that trainings have by default
    )


class Partial(NamedTuple):
    """What is known of the labels of whole samples: the model without labels, which (n_nodes, K) each node may have, and what this
    is called in messages."""

    model: BoundModel
    allowed: np.ndarray
    weight: np.ndarray
    what: str = "Unknown labels"


def complete(
    partial: Partial, w: np.ndarray, solver: Callable[[Problem], Result], before: np.ndarray | None = None, n_jobs: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """The best labels among those that are possible, and by how much each example scores more than with those of ``before``, which are kept where
    nothing better is found."""
    model, ptr = partial.model, partial.model.data.node_ptr.tolist()
    problems = model.problems(w)

    def one(j: int) -> tuple[np.ndarray, float]:
        own, problem = slice(ptr[j], ptr[j + 1]), problems[j]
        try:
            found = solver(problem.restrict(allowed=partial.allowed[own])).labels
        except InfeasibleError as error:
            raise InfeasibleError(f"sample {j}: {error}") from error
        if found is None or not np.isfinite(problem.score(found)):
            if before is None:
                raise InfeasibleError(
                    f"sample {j}: no labelling was found that agrees with what is known and keeps all constraints."
                )
            return before[own], 0.0
        if before is None:
            return found, 0.0
        gain = problem.score(found) - problem.score(before[own])
        return (found, gain) if gain > 0 else (before[own], 0.0)

    answers = thread_map(one, range(model.n_examples), n_jobs)
    labels = np.concatenate([np.zeros(0, dtype=np.int32), *(labels for labels, _ in answers)]).astype(np.int32)
    return labels, np.array([gain for _, gain in answers])


def concave_convex(
    partial: Partial,
    start: LearningResult,
    objective: Callable[[BoundModel, np.ndarray], PartialObjective],
    minimise: Callable[[PartialObjective, float], LearningResult],
    solver: Callable[[Problem], Result],
    tuning: Tuning = Tuning(),  # noqa: B008
    time_limit: float | None = None,
) -> tuple[LearningResult, PartialObjective]:
    r"""Minimise the latent hinge :math:`\tfrac12\|w\|^2 + \sum_j c_j (\max_y [L + F_w(y)] - \max_{h \in S} F_w(h))` from given weights.

    In each round the best completion :math:`h` under the present weights makes the last term linear; the convex problem that is left is minimised
    with its certificate. The latent objective never rises. It is not convex, so that the outcome is a local one.

    Parameters
    ----------
    partial : Partial
    start : LearningResult
        Where the rounds begin.
    objective : callable
        The convex objective of a model with completed labels.
    minimise : callable
        Trains on one, in so many seconds at most.
    solver : callable
        Completes labels.

    Returns
    -------
    LearningResult
        Of the last convex problem; ``extra["latent"]`` has the latent objective before the first and after each round.
    PartialObjective
        That convex problem, for ``verify``.
    """
    clock, w = Clock(time_limit), start.weights[: partial.model.n_weights]
    labels, _ = complete(partial, w, solver)
    best: tuple[LearningResult, PartialObjective] | None = None
    values: list[float] = []
    for _ in range(tuning.rounds):
        convex = objective(replace(partial.model, labels=labels), partial.allowed)
        if not values:
            values.append(convex.primal(w, convex.ask(w).upper))
        result = minimise(convex, clock.left)
        if result.objective >= values[-1]:  # the training ended, within its tolerance, before it was below its start
            best = best or (replace(result, weights=w, objective=values[-1]), convex)
            break
        best, w = (result, convex), result.weights
        labels, gain = complete(partial, w, solver, labels)
        value = result.objective - float(convex.c @ gain)
        values.append(min(value, result.objective))
        if not gain.any() or values[-2] - values[-1] <= tuning.least * abs(values[-2]) or clock.left <= 0:
            break
    assert best is not None
    result, convex = best
    words = (
        f"{partial.what} were inferred in {len(values) - 1} rounds, the latent objective went from {values[0]:.6g} to {values[-1]:.6g}: a local "
        "optimum, the proof is about the convex problem of the last round"
    )
    result.extra["latent"] = values
    return replace(result, message=f"{result.message.rstrip('.')}. {words}."), convex


def train_completed(
    partial: Partial,
    before: LearningResult,
    objective: Callable[[BoundModel], MarginObjective],
    minimise: Callable[[MarginObjective], LearningResult],
    solver: Callable[[Problem], Result],
) -> tuple[LearningResult, MarginObjective]:
    r"""Minimise the hinge whose truth are the best completions :math:`\hat h_j` under weights that were learned before, as if they had been given:

    .. math:: \tfrac12\|w\|^2 + \sum_j c_j \max_y \big[L(\hat h_j, y) + F_w(x_j, y) - F_w(x_j, \hat h_j)\big].

    Other than in `concave_convex` a wrong label costs something at unknown nodes too, so that weights keep a margin there (self-training; Scudder 1965).
    One convex problem with its certificate, about these completions.

    Parameters
    ----------
    partial : Partial
    before : LearningResult
        Of `concave_convex`.
    objective : callable
        The hinge of a model with labels.
    minimise : callable
    solver : callable
        Completes labels.
    """
    labels, _ = complete(partial, before.weights[: partial.model.n_weights], solver)
    convex = objective(replace(partial.model, labels=labels))
    result, known = minimise(convex), before.weights[: partial.model.n_weights]
    value = convex.primal(known, convex.ask(known).upper)
    if value < result.objective:  # the training ended, by a limit, before it was below where the last one had come
        result = replace(result, weights=known, objective=value)
    words = "Then these completions were trained on as if they were given, and the proof is about that training"
    told = before.message.replace(", the proof is about the convex problem of the last round", "")
    result.extra["latent"] = before.extra["latent"]
    return replace(result, message=f"{result.message.rstrip('.')}. {told.rstrip('.')}. {words}."), convex


def informed(allowed: Sequence[np.ndarray], states: Sequence[np.ndarray]) -> np.ndarray:
    """Which samples say anything: those with a node that may not have all of its labels."""
    return np.array([bool((mask.sum(axis=1) < own).any()) for mask, own in zip(allowed, states, strict=True)], dtype=bool)
