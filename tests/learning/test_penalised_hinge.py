"""The hinge with penalties of absolute values against cvxpy over all labellings; bounds that hold; zeros that are zero."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from factories.labelled import LOOP, labelled_model
from factories.samples import paired_sequences

import maxsum as ms
import maxsum.storage
from maxsum.core.errors import CertificateError, InvalidParameterError, UnsupportedProblemError
from maxsum.learning import BlockFrankWolfe, CuttingPlane, LPObjective, MarginObjective, PenalisedCuttingPlane, PenalisedHinge
from maxsum.learning.penalties.programs import nearest
from maxsum.models import GraphModel

model = partial(labelled_model, n=8, d=5)


def planes(bound: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Vectors and losses of all labellings of each example."""
    found = []
    for j in range(bound.n_examples):
        n, k = bound.data.graphs[j].n_nodes, bound.n_labels
        labellings = [np.array(y) for y in product(range(k), repeat=n)]
        rows = np.array([bound.feature(j, bound.truth(j)) - bound.feature(j, y) for y in labellings])
        found.append((rows, np.array([float((y != bound.truth(j)).sum()) for y in labellings])))
    return found


def slow(known: Any, w: np.ndarray, c: np.ndarray, l1: float) -> float:
    value = l1 * np.abs(w).sum() + 0.5 * (1 - l1) * (w @ w)
    return float(value + sum(own * (loss - rows @ w).max() for own, (rows, loss) in zip(c, known, strict=True)))


@pytest.mark.parametrize("graph", [ms.Graph.chain(3), LOOP], ids=["chain", "loop"])
@pytest.mark.parametrize("l1", [1.0, 0.5, 0.95])
def test_the_minimum_is_that_of_an_independent_solver(graph, l1):
    bound = model(graph, n=6)
    weight = np.array([1.0, 2.0, 1.0, 0.0, 1.0, 0.5])
    objective = PenalisedHinge(MarginObjective(bound, C=0.7, sample_weight=weight), l1)
    result = PenalisedCuttingPlane(tol=1e-6, max_iter=500).fit(objective)
    assert result.relative_gap <= 1e-6
    known = planes(bound)
    assert result.objective == pytest.approx(slow(known, result.weights, objective.c, l1), rel=1e-9)
    found = result.verify(objective)
    assert found.lower_bound <= found.objective * (1 + 1e-12)
    cp = pytest.importorskip("cvxpy")
    w = cp.Variable(bound.n_weights)
    slacks = [own * cp.max(loss - rows @ w) for own, (rows, loss) in zip(objective.c, known, strict=True)]
    program = cp.Problem(cp.Minimize(l1 * cp.norm1(w) + 0.5 * (1 - l1) * cp.sum_squares(w) + sum(slacks)))
    program.solve(solver=cp.CLARABEL)
    assert result.objective == pytest.approx(program.value, rel=1e-5)
    assert found.lower_bound <= program.value * (1 + 1e-6)
    if l1 < 1:  # the minimiser is one point
        assert (result.weights[np.abs(w.value) < 1e-7] == 0).mean() > 0.9
    assert 0 < np.count_nonzero(result.weights) < bound.n_weights


def test_bounds_hold_at_every_step_and_false_claims_are_refused():
    bound = model(ms.Graph.chain(3), seed=3)
    for l1 in (1.0, 0.3):
        objective = PenalisedHinge(MarginObjective(bound, C=1.0), l1)
        best = PenalisedCuttingPlane(tol=1e-7, max_iter=500).fit(objective)
        for steps in (1, 2, 4):
            early = PenalisedCuttingPlane(tol=0.0, max_iter=steps).fit(objective)
            assert early.lower_bound <= best.objective <= early.objective + 1e-12
            early.verify(objective)
            with pytest.raises(CertificateError, match="lower bound"):
                replace(early, lower_bound=0.5 * (early.lower_bound + early.objective)).verify(objective)
        with pytest.raises(CertificateError, match="rational"):
            best.verify(objective, exact=True)
        heavy = replace(best.certificate, alpha=1.5 * best.certificate.alpha + 1.0)
        with pytest.raises(CertificateError, match="more than"):
            heavy.verify(objective, best.weights, claimed=best)


def test_what_does_not_fit_is_refused():
    bound = model(LOOP, n=3)
    objective = PenalisedHinge(MarginObjective(bound))
    for learner in (BlockFrankWolfe(), CuttingPlane()):
        with pytest.raises(UnsupportedProblemError, match="lacks"):
            learner.fit(objective)
    with pytest.raises(UnsupportedProblemError, match="HasPenalisedPlanes"):
        PenalisedCuttingPlane().fit(MarginObjective(bound))
    with pytest.raises(UnsupportedProblemError, match="MarginObjective"):
        PenalisedHinge(LPObjective(bound))
    data = [ms.GraphSample(np.ones((2, 1)), ms.Graph.chain(2))]
    signed = GraphModel(potentials="associative").bind(data, [np.array([0, 1])])
    with pytest.raises(UnsupportedProblemError, match="constraints"):
        PenalisedHinge(MarginObjective(signed))


@pytest.mark.parametrize("l1", [0.5, 1.0])
def test_a_resumed_training_ends_where_the_whole_one_does(tmp_path, l1):
    bound, path = model(ms.Graph.chain(3), seed=5), tmp_path / "state"
    whole = PenalisedCuttingPlane(tol=1e-5).fit(PenalisedHinge(MarginObjective(bound), l1))
    PenalisedCuttingPlane(tol=1e-5, max_iter=3, checkpoint=path).fit(PenalisedHinge(MarginObjective(bound), l1))
    again = PenalisedCuttingPlane(tol=1e-5, checkpoint=path).fit(PenalisedHinge(MarginObjective(bound), l1))
    assert again.objective == pytest.approx(whole.objective, rel=2e-5)
    assert again.lower_bound == pytest.approx(whole.lower_bound, rel=2e-5)


def test_the_projection_is_the_nearest_point():
    rng = np.random.default_rng(2)
    block, limit = rng.integers(0, 4, 20), np.array([0.5, 1.0, 3.0, 100.0])
    point = rng.standard_normal(20)
    out = nearest(point, block, limit)
    assert (out >= 0).all() and (np.bincount(block, out, 4) <= limit + 1e-12).all()
    for _ in range(200):  # no feasible point makes an angle of less than 90 degrees with what is left
        other = rng.random(20) * (rng.random(20) < 0.5)
        total = np.bincount(block, other, 4)
        other *= np.minimum(1.0, limit / np.maximum(total, 1e-300))[block]
        assert (point - out) @ (other - out) <= 1e-12


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_estimators_take_penalties_with_the_margin_and_keep_zeros_out_of_files(tmp_path, penalty):
    X, y = paired_sequences(12)
    rng = np.random.default_rng(1)
    X = [np.hstack([own, rng.standard_normal((len(own), 100))]) for own in X]
    plain = ms.SequenceLabeler(C=0.3, tol=1e-3).fit(X, y)
    net = ms.SequenceLabeler(C=0.3, tol=1e-3, penalty=penalty, max_iter=300).fit(X, y)
    assert net.result_.learner == "PenalisedCuttingPlane"
    assert net.result_.verify(net.objective_).relative_gap <= 1e-3 * (1 + 1e-6)
    assert np.count_nonzero(net.weights_) < 0.5 * np.count_nonzero(plain.weights_)
    ms.save_model(net, tmp_path / "sparse")
    ms.save_model(plain, tmp_path / "full")
    ms.save_model(net, tmp_path / "proven", certificate=True)
    again = ms.load_model(tmp_path / "sparse")
    np.testing.assert_array_equal(again.weights_, net.weights_)
    assert (tmp_path / "sparse").stat().st_size < (tmp_path / "full").stat().st_size
    assert ms.storage.verify_model(tmp_path / "proven", X, y).relative_gap <= 1e-3 * (1 + 1e-6)
    with pytest.raises(InvalidParameterError, match="penalty"):
        ms.SequenceLabeler(penalty=penalty, order=2).fit(X, y)
