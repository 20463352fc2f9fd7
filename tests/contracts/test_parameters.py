"""Every setting of every solver, learner, model and estimator: declared once, and refused with its name where it is wrong."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxsum
from maxsum import Graph, GraphSample, InvalidParameterError, MaxsumError
from maxsum.core import parameters as own
from maxsum.core.parameters import declared
from maxsum.inference.registry import SOLVERS
from maxsum.learning import Learner, LikelihoodObjective, LPObjective, MaximumLikelihood, SmoothedLP, registry
from maxsum.learning.learners.grow import TreeGrower
from maxsum.models import Convex, Dicts, GraphModel, Trees


def subclasses(base: type) -> list[type]:
    """Classes of maxsum below one, those without abstract methods."""
    found = [kind for sub in base.__subclasses__() for kind in (sub, *subclasses(sub))]
    return sorted(
        {kind for kind in found if kind.__module__.startswith("maxsum.") and not inspect.isabstract(kind)},
        key=lambda kind: kind.__name__,
    )


def load(package: str) -> None:
    """Import all modules of a package, so that their classes are known."""
    for module in pkgutil.walk_packages([f"{os.path.dirname(maxsum.__file__)}/{package}"], f"maxsum.{package}."):
        importlib.import_module(module.name)


for room in ("learning", "shards", "estimators"):
    load(room)

from maxsum.estimators.settings import NestedParameters  # noqa: E402 (after all estimators are known)

LEARNERS, ESTIMATORS = subclasses(Learner), subclasses(NestedParameters)
MODELS = [Convex, Dicts, GraphModel, Trees]


@cache
def objective_for(kind: type) -> Any:
    """What a learner looks at before its settings; nothing, for most of them."""
    model = GraphModel().bind([GraphSample(np.eye(2), Graph.chain(2))], [[0, 1]])
    if issubclass(kind, MaximumLikelihood):
        return LikelihoodObjective(model)
    return LPObjective(model, smoothing=1.0) if issubclass(kind, SmoothedLP) else object()


def fit_learner(kind: type, name: str, value: Any) -> None:
    kind(**{name: value}).fit(objective_for(kind))


def grow(kind: type, name: str, value: Any) -> None:
    kind(**({"tests": None} | {name: value})).grow([], [])


def fit_estimator(kind: type, name: str, value: Any) -> None:
    kind().set_params(**{name: value}).fit([], [])


def construct(kind: type, name: str, value: Any) -> None:
    kind(**{name: value})


OWNERS: list[tuple[type, Callable[[type, str, Any], None]]] = [
    *((kind, construct) for kind in SOLVERS.values()),
    *((kind, fit_learner) for kind in LEARNERS),
    (TreeGrower, grow),
    *((kind, construct) for kind in MODELS),
    *((kind, fit_estimator) for kind in ESTIMATORS),
]
SETTINGS = [(kind, use, name) for kind, use in OWNERS for name in declared(kind) if name in inspect.signature(kind).parameters]

NEVER = (float("nan"), "no such name", [], np.array([1.0, 2.0]), 1j, object())
"""What no setting is: wrong for names, numbers, flags, functions, files and objects alike, but for names where any text is a name."""


def wrong(constraint: own.Constraint) -> Iterator[Any]:
    """Values that the constraint must not take, found without asking it."""
    if isinstance(constraint, own.Maybe):
        yield from (value for value in wrong(constraint.option) if value is not None)
        return
    if isinstance(constraint, own.Elsewhere):
        return
    is_name = isinstance(constraint, own.Instance) and str in constraint.classes
    yield from (value for value in (None, *NEVER) if not (isinstance(value, str) and is_name))
    if isinstance(constraint, own.WholeNumber):
        yield from (True, np.True_, 1.5, 2.0, np.float64(3.0), np.inf, "3")
        if constraint.at_least is not None:
            yield from (constraint.at_least - 1, np.int64(constraint.at_least - 1))
        if constraint.at_most is not None:
            yield constraint.at_most + 1
    elif isinstance(constraint, own.Real):
        yield from (True, np.True_, "1.0", np.float32("nan"))
        if constraint.at_least is not None:
            yield from (np.nextafter(constraint.at_least, -np.inf), -np.inf)
        if constraint.at_most is not None:
            yield np.nextafter(constraint.at_most, np.inf)
        yield from (limit for limit in (constraint.above, constraint.below) if limit is not None)
    elif isinstance(constraint, own.OneOf):
        yield from (True, np.array(constraint.values), list(constraint.values), 2.5)
    elif isinstance(constraint, own.Flag):
        yield from (0, 1, "true", "")
    elif isinstance(constraint, own.Either) and constraint is own.JOBS:
        yield from (0, -2, True, 1.5, "2")
    elif isinstance(constraint, (own.Instance, own.Function)):
        yield 3


@pytest.mark.parametrize(("kind", "use", "name"), SETTINGS, ids=[f"{kind.__name__}-{name}" for kind, _, name in SETTINGS])
def test_every_wrong_value_is_refused_by_name(kind, use, name):
    constraint = declared(kind)[name]
    values = list(wrong(constraint))
    assert len(values) >= 5 or isinstance(constraint, own.Elsewhere)
    for value in values:
        with pytest.raises(InvalidParameterError) as refusal:
            use(kind, name, value)
        text = str(refusal.value)
        assert text.startswith(f"{kind.__name__}: {name} is ") and text.endswith(f", wanted {constraint.words}."), text


@pytest.mark.parametrize("kind", [kind for kind, _ in OWNERS], ids=lambda kind: kind.__name__)
def test_every_setting_is_declared_and_its_default_is_legal(kind):
    given = inspect.signature(kind).parameters
    names = {field.name for field in fields(kind) if field.init} if kind not in ESTIMATORS else set(kind._get_param_names())
    missing = names - set(declared(kind))
    assert not missing if kind is not Dicts else missing == {"vocabulary"}
    for name, constraint in declared(kind).items():
        if name in given and isinstance(default := given[name].default, (int, float, str, type(None))):
            assert constraint.holds(default), (name, default)


def test_the_walk_meets_all_that_users_choose_from():
    assert set(registry.LEARNERS) <= {kind.__name__ for kind in LEARNERS}
    assert {"GraphLabeler", "GridLabeler", "SequenceLabeler", "MultiLabelClassifier"} <= {kind.__name__ for kind in ESTIMATORS}
    assert len([kind for kind in ESTIMATORS if kind.__name__.endswith("CV")]) == 4
    assert len(SETTINGS) > 250


@pytest.mark.parametrize(
    ("constraint", "legal", "words"),
    [
        (own.WholeNumber(1), (1, 7, np.int8(3), np.uint64(9), 10**30), "a whole number >= 1"),
        (own.WholeNumber(1, 8), (1, 8), "a whole number from 1 to 8"),
        (own.WholeNumber(at_most=3), (-5, 3), "a whole number <= 3"),
        (own.WholeNumber(), (-5, 0), "a whole number"),
        (own.Real(0.0), (0, 0.0, -0.0, 1e300, np.inf, np.float32(2), np.int16(4)), "a number >= 0"),
        (own.Real(above=0.0, below=np.inf), (5e-324, 1), "a finite number > 0"),
        (own.Real(above=0.0, at_most=1.0), (1, np.float16(0.5)), "a number > 0 and <= 1"),
        (own.Real(0.0, below=1.0), (0, 0.999), "a number >= 0 and < 1"),
        (own.Real(), (-np.inf, np.inf, -1), "a number"),
        (own.OneOf("n", "one"), ("n", "one", np.str_("n")), "'n' or 'one'"),
        (own.OneOf("a", "b", "c", "d"), ("d",), "one of a, b, c, d"),
        (own.OneOf(4, 8), (4, np.int32(8)), "4 or 8"),
        (own.Flag(), (True, False, np.False_), "True or False"),
        (own.Maybe(own.Flag()), (True, None), "True or False, or None"),
        (own.JOBS, (1, 64, -1, np.int64(-1)), "a number of threads >= 1 or -1 for one a core"),
        (own.FILE_NAME, ("a", None, Path("b")), "the name of a file, or None"),
        (own.Instance(Dicts), (Dicts(),), "a Dicts"),
        (own.Function(), (len, print), "a function"),
    ],
    ids=lambda value: value.words if isinstance(value, own.Constraint) else "",
)  # fmt: skip
def test_what_constraints_take_and_say(constraint, legal, words):
    assert constraint.words == words
    for value in legal:
        own.check_value("x", value, constraint)
    for value in wrong(constraint):
        with pytest.raises(InvalidParameterError, match=r"^x is .*, wanted "):
            own.check_value("x", value, constraint)


def test_tables_add_up_along_the_bases_and_may_take_away():
    class Base:
        _parameters = own.settings(a=own.WholeNumber(1), b=own.Flag())
        a, b, c = 1, True, "n"

    class Sub(Base):
        _parameters = own.settings(a=own.WholeNumber(0), b=None, c=own.OneOf("n", "one"))

    assert list(declared(Base)) == ["a", "b"] and list(declared(Sub)) == ["a", "c"]
    one = Sub()
    one.a, one.b = 0, "whatever"
    own.check(one)
    one.c = "two"
    with pytest.raises(InvalidParameterError, match=r"^Sub: c is 'two', wanted 'n' or 'one'\.$"):
        own.check(one)
    with pytest.raises(TypeError):
        Base._parameters["a"] = own.Flag()


def test_the_error_is_a_value_error_of_ours_and_no_error_of_data():
    assert issubclass(InvalidParameterError, MaxsumError) and issubclass(InvalidParameterError, ValueError)
    assert not issubclass(
        InvalidParameterError, (maxsum.InvalidSampleError, maxsum.InvalidProblemError, maxsum.InvalidGraphError)
    )
