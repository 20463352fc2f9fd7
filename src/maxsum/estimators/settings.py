"""Parameters of estimators: what users set (also inside learners and losses), what is legal, and the record that a training reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ..core.parameters import (
    FILE_NAME,
    JOBS,
    POSITIVE,
    RELATIVE_GAP,
    SEED,
    TIME_LIMIT,
    VERBOSE,
    Constraint,
    Either,
    Elsewhere,
    Flag,
    Function,
    Instance,
    Maybe,
    OneOf,
    Real,
    WholeNumber,
    check_value,
    settings,
)
from ..learning.driver import Learner
from ..learning.objectives.stored import StoredObjective
from ..learning.penalties.objective import L1_SHARE, L1_SHARES
from ..learning.result import learning_card
from ..models.convex import ConvexBound

SOME_JOBS = Maybe(JOBS, wanted="None for one thread, a number of threads >= 1, or -1 for one a core")
LIMITS = tuple(field.name for field in fields(Learner))
"""Parameters that an estimator passes on to the learner that it makes."""


def is_auto(value: Any) -> bool:
    """Whether a parameter is ``"auto"``; arrays may be given, which do not compare."""
    return isinstance(value, str) and value == "auto"


def chosen(value: Any) -> Any:
    """A choice of the user; None where it is left to the library, by None or by ``"auto"``."""
    return None if is_auto(value) else value


def as_jobs(n_jobs: Any) -> int:
    """A number of threads; 1 for None."""
    check_value("n_jobs", n_jobs, SOME_JOBS)
    return 1 if n_jobs is None else int(n_jobs)


@dataclass(frozen=True, eq=False)
class Settings:
    """Arguments of an estimator as a training reads them: choices that are left to the library are None, and numbers are numbers.

    Attributes
    ----------
    owner : str
        Class of the estimator, for messages.
    rows : bool
        Whether samples are rows of a table, and their graph is that of the labels.
    given : tuple of str
        Limits (see `LIMITS`) that the user set to something else than the default.
    others
        As the arguments of the estimators; the default of one that an estimator does not have.
    """

    owner: str
    rows: bool = False
    given: tuple[str, ...] = ()
    potentials: Any = None
    surrogate: str | None = None
    learner: Learner | str | None = None
    loss: Any = "hamming"
    features: Any = None
    oracle: Any = None
    solver: Any = None
    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None
    random_state: int = 0
    n_jobs: int = 1
    callback: Callable[[Any], Any] | None = None
    verbose: int = 0
    bias: bool = False
    classes: Any = None
    class_weight: Any = None
    warm_start: bool = False
    smoothing: float = 0.0
    tighten: bool = False
    penalty: Any = "l2"
    checkpoint: str | Path | None = None
    checkpoint_seconds: float = 30.0
    symmetric: bool = False
    homogeneous: bool = True
    tie: Any = None
    order: int = 1
    label_graph: Any = "complete"
    forbidden: Any = None
    unknown: str = "drop"
    n_hidden: Any = 1

    @classmethod
    def of(cls, estimator: NestedParameters) -> Settings:
        """The record of an estimator whose parameters are legal. Seeds that are no numbers are drawn now, as scikit-learn does."""
        defaults = _defaults(type(estimator))  # type: ignore[arg-type]
        known = {field.name for field in fields(cls)}
        found = {name: getattr(estimator, name) for name in defaults if name in known}
        for name in ("potentials", "surrogate", "learner", "features", "oracle", "solver"):
            found[name] = chosen(found.get(name))
        seed = found["random_state"]
        if seed is None or isinstance(seed, np.random.RandomState):
            found["random_state"] = int(check_random_state(seed).randint(2**31 - 1))
        found["n_jobs"] = as_jobs(found["n_jobs"])
        given = tuple(name for name in LIMITS if found[name] != defaults[name])
        return cls(owner=type(estimator).__name__, rows=estimator._rows, given=given, **found)

    @property
    def has_states(self) -> bool:
        """Whether classes have hidden states."""
        return isinstance(self.n_hidden, bool) or not isinstance(self.n_hidden, (int, np.integer)) or self.n_hidden != 1

    @property
    def limits(self) -> dict[str, Any]:
        """Limits, seed and checkpoint for a learner."""
        return {name: getattr(self, name) for name in LIMITS}

    def overruled(self, learner: Learner) -> str:
        """What to warn of where the user set limits here and gave a learner that has others; nothing elsewhere."""
        if learner is not self.learner:
            return ""
        names = [name for name in self.given if name != "random_state" and getattr(self, name) != getattr(learner, name)]
        if not names:
            return ""
        here, there = (", ".join(f"{name}={getattr(own, name)!r}" for name in names) for own in (self, learner))
        return (
            f"{self.owner} has {here}, but its learner {type(learner).__name__}(...) was given with {there}, which count. Set them on the "
            f"learner (learner__{names[0]}), or give its name, learner={type(learner).__name__!r}, which has the limits of the estimator."
        )


class NestedParameters(BaseEstimator):
    """Parameters of frozen objects are searched over as ``learner__tol``: setting one puts a new object in the place of the old.

    `fit` refuses what the tables below do not allow, before it looks at the data. A fitted estimator shows a card of its ``result_`` below
    scikit-learn's diagram.
    """

    _rows: ClassVar[bool] = False

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
        random_state=Maybe(
            Either(SEED, Instance(np.random.RandomState)),
            wanted="a whole number >= 0, so that runs repeat, a numpy RandomState, or None",
        ),
        n_jobs=SOME_JOBS,
        callback=Maybe(Function()),
        verbose=VERBOSE,
        bias=Flag(),
        warm_start=Flag(),
        smoothing=Real(0.0, below=np.inf, wanted="a temperature >= 0"),
        penalty=Either(
            OneOf("l2", *L1_SHARES),
            L1_SHARE,
            wanted="'l2', 'l1', 'elasticnet', or a share of absolute values above 0 and up to 1",
        ),
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

    @property
    def _repr_html_(self) -> Any:
        """scikit-learn's HTML, which raises AttributeError where it is turned off, and the card."""
        diagram = super()._repr_html_
        return lambda: diagram() + result_card(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += result_card(self)
        return bundle


@cache
def _defaults(kind: type) -> dict[str, Any]:
    """Parameters of a class with their defaults."""
    return {name: own.default for name, own in inspect.signature(kind).parameters.items()}


def _fields(value: Any) -> list[str]:
    """Names of the parameters of a record; none for anything else."""
    return [field.name for field in fields(value) if field.init] if is_dataclass(value) and not isinstance(value, type) else []


def result_card(estimator: Any) -> str:
    """The card of a fitted estimator: what was solved, what is proven, how long it took; empty before `fit`."""
    if not hasattr(estimator, "result_"):
        return ""
    return learning_card(type(estimator).__name__, estimator.result_, [("problem", problem_words(estimator))])


def problem_words(estimator: Any) -> str:
    """What was minimised, over what, in a line."""
    model, objective = estimator.model_, getattr(estimator, "objective_", None)
    layout = getattr(model.layout, "model", model.layout)  # of label sets it is a model itself; a single node has no tables
    used = getattr(layout, "potentials", estimator.potentials)
    potentials = f"convex ({model.spec.form})" if isinstance(model, ConvexBound) else used
    C = f", C = {objective.C:g}" if objective is not None else ""
    n_samples, n_nodes = model.n_examples, len(model.data.n_states)
    if isinstance(objective, StoredObjective):
        n_samples, n_nodes = objective.n_examples, objective.n_nodes
    return (
        f"surrogate {getattr(objective, 'surrogate', estimator.surrogate)}, potentials {potentials}{C}; {n_samples} samples, "
        f"{n_nodes} nodes, {len(estimator.weights_)} weights"
    )
