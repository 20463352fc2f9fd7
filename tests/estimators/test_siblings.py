"""What all estimators share: one set of parameters with one meaning, one registry of learners, one rule for limits and solvers."""

from __future__ import annotations

import ast
import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factories.samples import label_table

import maxsum as ms
from maxsum import estimators
from maxsum.core.errors import InvalidParameterError
from maxsum.estimators.settings import Settings
from maxsum.inference import TRWS, BranchAndBound
from maxsum.learning import BlockFrankWolfe, CuttingPlane

PLAIN = [ms.GraphLabeler, ms.GridLabeler, ms.SequenceLabeler, ms.MultiLabelClassifier]
OPEN = ("surrogate", "learner", "oracle", "solver")
"""Choices that may be left to the library."""


def data(kind: type) -> tuple[Any, Any]:
    if kind is ms.MultiLabelClassifier:
        return label_table(30, 3, noise=0.4)
    rng = np.random.default_rng(3)
    y = [rng.integers(0, 2, size=(3, 4)) for _ in range(5)]
    if kind is ms.GridLabeler:
        return [own[:, :, None] + rng.normal(size=(3, 4, 1)) for own in y], y
    y = [own[0] for own in y]
    rows = [own[:, None] + rng.normal(size=(4, 1)) for own in y]
    return rows if kind is ms.SequenceLabeler else [ms.GraphSample(x, ms.Graph.chain(4)) for x in rows], y


@pytest.mark.parametrize("kind", PLAIN)
def test_parameters_agree(kind):
    ours, theirs = inspect.signature(ms.GraphLabeler).parameters, inspect.signature(kind).parameters
    assert next(iter(theirs)) == "potentials"
    shared = [name for name in theirs if name in ours]
    assert [name for name in ours if name in theirs] == shared and len(shared) >= 19
    for name in set(shared) - {"bias"}:
        assert theirs[name].default == ours[name].default, name
    written = {node.attr for node in ast.walk(ast.parse(inspect.getsource(kind))) if isinstance(node, ast.Attribute)}
    assert set(theirs) <= written  # by assignments that a reader sees
    text = inspect.getdoc(kind).partition("Parameters\n")[2].partition("Attributes\n")[0]
    told = [line.split(" : ")[0] for line in text.splitlines() if line[:1].isalpha()]
    assert told == list(theirs)


def test_nothing_below_sees_the_estimator():
    for file in Path(estimators.__file__).parent.glob("*.py"):
        named = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.arg)]
        found = {node.arg for node in named if node.annotation is not None and ast.unparse(node.annotation) == "Any"}
        assert "estimator" not in found or file.stem in (
            "checks",
            "settings",
            "streaming",
        )  # checks are for foreign ones, cards for fitted ones, streams set what fit sets


@pytest.mark.parametrize("kind", PLAIN)
def test_none_and_auto_are_the_same(kind):
    X, y = data(kind)
    names = [*OPEN, "potentials"] + (["features"] if "features" in inspect.signature(kind).parameters else [])
    fits = [kind(C=2.0, **dict.fromkeys(names, given)).fit(X, y) for given in (None, "auto")]
    assert fits[0].weights_.tobytes() == fits[1].weights_.tobytes() and fits[0].result_.message == fits[1].result_.message
    one, two = (Settings.of(net) for net in fits)
    assert all(getattr(one, name) is None and getattr(two, name) is None for name in names)


@pytest.mark.parametrize("kind", PLAIN)
def test_one_thread_is_none(kind):
    X, y = data(kind)
    fits = [kind(n_jobs=n).fit(X, y) for n in (None, 1, 2)]
    assert len({net.weights_.tobytes() for net in fits}) == 1
    assert [Settings.of(net).n_jobs for net in fits] == [1, 1, 2]


@pytest.mark.parametrize("kind", PLAIN)
def test_random_state_is_what_scikit_learn_takes(kind):
    X, y = data(kind)

    def weights(seed):
        return kind(learner="BlockFrankWolfe", C=3.0, tol=0.3, random_state=seed).fit(X, y).weights_.tobytes()

    assert weights(np.random.RandomState(7)) == weights(np.random.RandomState(7))
    np.random.seed(5)  # noqa: NPY002 (None is the global state, as in scikit-learn)
    first = [Settings.of(kind(random_state=None)).random_state for _ in range(3)]
    np.random.seed(5)  # noqa: NPY002
    assert first == [Settings.of(kind(random_state=None)).random_state for _ in range(3)] and len(set(first)) == 3
    assert Settings.of(kind(random_state=np.int64(4))).random_state == 4
    with pytest.raises(InvalidParameterError, match="random_state is -1, wanted a whole number >= 0"):
        weights(-1)


def test_prediction_draws_nothing():
    X, y = data(ms.SequenceLabeler)
    state = np.random.RandomState(0)
    net = ms.SequenceLabeler(random_state=state).fit(X, y)
    before = state.get_state()[2]
    net.predict(X)
    net.predict_result(X)
    assert state.get_state()[2] == before


@pytest.mark.parametrize("kind", PLAIN)
def test_a_learner_that_is_given_keeps_its_limits_and_says_so(kind):
    X, y = data(kind)
    with pytest.warns(
        UserWarning, match=r"has tol=0\.01, max_iter=50, but its learner BlockFrankWolfe.* tol=0\.2, max_iter=1000, which"
    ) as all_:
        net = kind(learner=BlockFrankWolfe(tol=0.2), tol=0.01, max_iter=50).fit(X, y)
    assert "with its own limits" in net.result_.message and all_[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(learner=BlockFrankWolfe(tol=0.2)).fit(X, y)
        kind(learner=BlockFrankWolfe(tol=0.2), tol=0.2).fit(X, y)
        named = kind(learner="BlockFrankWolfe", tol=0.2).fit(X, y)
    assert "limits" not in named.result_.message


def test_every_estimator_knows_every_learner():
    X, Y = label_table(30, 3, noise=0.4)
    options = dict(potentials="associative", surrogate="lp", tol=0.05)
    named = ms.MultiLabelClassifier(learner="RegionBundle", **options).fit(X, Y)
    assert named.result_.learner == "RegionBundle" and named.result_.relative_gap <= 0.05
    with pytest.raises(ms.UnsupportedProblemError, match=r"SubsetAscent .*Learners that minimise it: .*BlockFrankWolfe"):
        ms.SequenceLabeler(learner="SubsetAscent").fit(*data(ms.SequenceLabeler))


@pytest.mark.parametrize("kind", PLAIN)
def test_who_solves(kind):
    X, y = data(kind)
    net = kind(potentials="general", C=3.0).fit(X, y)
    exact = net.predict_result(X)[0].solver
    assert net.predict_result(X, solver="BranchAndBound")[0].solver == "BranchAndBound" != exact
    assert net.set_params(solver=TRWS(max_iter=7)).predict_result(X)[0].solver == "TRWS"
    assert net.predict_result(X, solver="BranchAndBound")[0].solver == "BranchAndBound"
    assert net.set_params(solver="auto", oracle="BranchAndBound").predict_result(X)[0].solver == "BranchAndBound"
    assert net.set_params(oracle=None).predict_result(X)[0].solver == exact
    for own, other in zip(net.predict(X), net.predict(X, solver=BranchAndBound()), strict=True):
        np.testing.assert_array_equal(own, other)
    problems = net.problems(X)
    for problem, result in zip(problems, net.predict_result(X), strict=True):
        result.certificate.verify(problem, result.labels)


def test_a_solver_of_the_call_is_asked():
    X, Y = label_table(12, 4, noise=0.4)
    net = ms.MultiLabelClassifier(C=5.0).fit(X, Y)
    with pytest.raises(ms.UnsupportedProblemError):
        net.predict(X, solver="TreeDP")  # the complete graph is no tree
    assert net.predict(X, solver="Exhaustive").tolist() == net.predict(X).tolist()


def test_a_warm_start_keeps_planes_and_others_do_not():
    X, Y = label_table(30, 3, noise=0.4)
    for kind, given in ((ms.MultiLabelClassifier, (X, Y)), (ms.SequenceLabeler, data(ms.SequenceLabeler))):
        assert "planes" not in kind().fit(*given).result_.extra
        warm = kind(warm_start=True, learner=CuttingPlane(tol=1e-4)).fit(*given)
        assert "planes" in warm.result_.extra and warm.fit(*given).result_.n_iter <= 2
