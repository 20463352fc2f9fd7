"""Parameters of estimators, those of learners, losses and solvers inside them included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..core.parameters import (
    FILE_NAME,
    JOBS,
    POSITIVE,
    RELATIVE_GAP,
    SEED,
    TIME_LIMIT,
    Constraint,
    Elsewhere,
    Flag,
    Function,
    Maybe,
    Real,
    WholeNumber,
    settings,
)
from .cards import ResultCard


class NestedParameters(ResultCard, BaseEstimator):
    """Parameters of frozen objects are searched over as ``learner__tol``: setting one puts a new object in the place of the old.

    `fit` refuses what the tables below do not allow, before it looks at the data.
    """

    _parameters: ClassVar[Mapping[str, Constraint | None]] = settings(
        potentials=Elsewhere("the name of a kind of tables, or a Convex, which goes with some surrogates alone"),
        learner=Elsewhere("None, a learner, or the name of one that fits the surrogate"),
        loss=Elsewhere("what `as_loss` reads"),
        oracle=Elsewhere("None, a solver, its name, or a function, where the surrogate asks one"),
        solver=Elsewhere("None, a solver or its name, which `solve` reads"),
        class_weight=Elsewhere("'balanced' or numbers for the classes that the data have"),
        C=POSITIVE,
        tol=RELATIVE_GAP,
        max_iter=WholeNumber(1),
        time_limit=TIME_LIMIT,
        random_state=SEED,
        n_jobs=JOBS,
        callback=Maybe(Function()),
        bias=Flag(),
        warm_start=Flag(),
        smoothing=Real(0.0, below=np.inf, wanted="a temperature >= 0"),
        checkpoint=FILE_NAME,
        checkpoint_seconds=Real(0.0, wanted="seconds >= 0"),
    )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with ``deep`` also those of learner, loss, features and oracle, as ``learner__tol``."""
        found = {name: getattr(self, name) for name in self._get_param_names()}
        if deep:
            for name, value in list(found.items()):
                found |= {f"{name}__{own}": getattr(value, own) for own in _fields(value)}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``learner__tol=1e-4`` replaces the learner by one with that tolerance."""
        inner: dict[str, dict[str, Any]] = {}
        for name in list(params):
            outer, _, own = name.partition("__")
            if own and outer in self._get_param_names():
                inner.setdefault(outer, {})[own] = params.pop(name)
        super().set_params(**params)
        for outer, own_params in inner.items():
            value = getattr(self, outer)
            known = _fields(value)
            for own in own_params:
                if own not in known:
                    raise ValueError(
                        f"Invalid parameter {own!r} of {outer}={value!r}; "
                        + (f"wanted one of {', '.join(known)}." if known else f"give an object as {outer} first.")
                    )
            setattr(self, outer, replace(value, **own_params))
        return self


def _fields(value: Any) -> list[str]:
    """Names of the parameters of a record; none for anything else."""
    return [field.name for field in fields(value) if field.init] if is_dataclass(value) and not isinstance(value, type) else []
