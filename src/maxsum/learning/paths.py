"""Training for a whole range of regularisations in one call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError
from ..core.result import Termination
from .driver import Learner, LearningCallback
from .objectives.base import check_C
from .objectives.smooth import SmoothObjective
from .result import LearningResult


def path(
    learner: Learner, objective: Any, C_values: Iterable[float], callback: LearningCallback | None = None
) -> list[LearningResult]:
    r"""Minimise :math:`\tfrac12\|w\|^2 + C \sum_j s_j \xi_j` for several :math:`C`.

    A plane :math:`\xi_j \ge b - \langle w, z\rangle` holds whatever :math:`C` is. So each training, in ascending order of
    :math:`C`, starts from the planes of the one before, with its multipliers scaled, and asks the oracle less often than a
    training from nothing. A `SmoothObjective` has no planes: its trainings start from the weights of the one before.

    Parameters
    ----------
    learner : Learner
        With a checkpoint ``file``, the training of the i-th smallest value has the checkpoint ``file.i``.
    objective : Objective
        Its own ``C`` is as before when this returns. To verify a certificate, call ``objective.set_C(result.extra["C"])`` first.
    C_values : iterable of float
    callback : callable, optional
        Called with each `LearningPoint`; a true return value stops the training of the present ``C`` alone.

    Returns
    -------
    list of LearningResult
        One for each of ``C_values``, in their order; ``extra["C"]`` is the value. ``Ctrl-C`` ends the whole path, so it passes through.
    """
    if np.ndim(C_values) != 1:  # type: ignore[arg-type]
        raise InvalidParameterError(f"C_values is {C_values!r}, wanted a list of numbers > 0.")
    values = list(C_values)
    for value in values:
        check_C(value)
    results: dict[float, LearningResult] = {}
    before, start = objective.C, None
    try:
        for i, C in enumerate(sorted(set(values))):
            objective.set_C(C)
            own: Any = learner if learner.checkpoint is None else replace(learner, checkpoint=f"{learner.checkpoint}.{i}")
            result = own.fit(objective, callback, start)
            result.extra["C"] = float(C)
            results[C] = result
            if result.termination == Termination.interrupted:
                raise KeyboardInterrupt
            start = result.weights if isinstance(objective, SmoothObjective) else result.extra.get("planes")
    finally:
        objective.set_C(before)
    return [results[C] for C in values]
