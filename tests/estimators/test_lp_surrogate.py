"""``surrogate="lp"`` through every estimator."""

from __future__ import annotations

import numpy as np
import pytest
from reference.estimator_cases import CASES, IMAGES

import maxsum as ms
from maxsum.core.errors import InvalidParameterError
from maxsum.datasets import make_noisy_blocks
from maxsum.learning import LPObjective


@pytest.mark.parametrize("name", CASES)
def test_it_trains_with_a_proof_and_is_never_below_the_margin(name):
    kind, data = CASES[name]
    lp, margin = (kind(surrogate=s, C=5.0, tol=1e-4).fit(*data()) for s in ("lp", "margin"))
    assert isinstance(lp.objective_, LPObjective)
    assert lp.result_.relative_gap <= 1e-4
    assert lp.result_.objective >= margin.result_.lower_bound
    assert "lp surrogate" in lp.result_.message
    lp.result_.verify(lp.objective_)
    assert lp.score(*data()) > 0.3


@pytest.mark.parametrize("name", CASES)
def test_smoothing_trains_the_smooth_version(name):
    kind, data = CASES[name]
    model = kind(surrogate="lp", smoothing=0.2, C=1.0, tol=1e-2).fit(*data())
    assert model.result_.learner == "SmoothedLP"
    assert model.result_.relative_gap <= 1e-2
    plain = kind(surrogate="lp", C=1.0, tol=1e-3).fit(*data())
    low, high = (model.result_.extra[key] for key in ("lp_lower_bound", "lp_objective"))
    assert low <= plain.result_.objective
    assert plain.result_.lower_bound <= high <= model.result_.objective


@pytest.mark.parametrize("learner", ["CompactQP", "CuttingPlane", "ProximalPoint"])
def test_other_learners_reach_the_same_value(learner):
    X, y = make_noisy_blocks(2, 4, 5, 2, noise=1.0, random_state=3)
    found = ms.GridLabeler(surrogate="lp", learner=learner, C=2.0, tol=1e-2).fit(X, y).result_
    ours = ms.GridLabeler(surrogate="lp", C=2.0, tol=1e-4).fit(X, y).result_
    assert found.relative_gap <= 1e-2
    assert found.objective >= ours.lower_bound
    assert found.lower_bound <= ours.objective


def test_a_search_over_C_by_cross_validation():
    search = ms.GridLabelerCV(surrogate="lp", Cs=[0.1, 1.0, 10.0], cv=2, tol=1e-2).fit(*IMAGES)
    assert search.scores_.shape == (3, 2)
    assert isinstance(search.objective_, LPObjective)


@pytest.mark.parametrize(("surrogate", "smoothing"), [("lp", -0.1), ("lp", "warm"), ("margin", 0.1)])
def test_wrong_smoothing_is_refused(surrogate, smoothing):
    with pytest.raises(InvalidParameterError, match="smoothing"):
        ms.GridLabeler(surrogate=surrogate, smoothing=smoothing).fit(*IMAGES)


@pytest.mark.parametrize("name", CASES)
def test_the_solver_of_the_estimator_predicts(name):
    kind, data = CASES[name]
    X, y = data()
    model = kind(solver="ICM", C=5.0, tol=1e-2).fit(X, y)
    assert {result.solver for result in model.predict_result(X)} == {"ICM"}
    assert {result.solver for result in model.predict_result(X, "TRWS")} == {"TRWS"}
    labels = [result.labels for result in model.predict_result(X)]
    for found, own in zip(model.predict(X), labels, strict=True):
        np.testing.assert_array_equal(np.asarray(found).ravel(), np.asarray(own))
    assert "ICM" not in {result.solver for result in model.set_params(solver="auto").predict_result(X)}
