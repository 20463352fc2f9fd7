"""Chunks with one plane of the past: the bound is below the optimum of all data seen, and each chunk is solved as a programme says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference.structured_svm import Planes, enumerate_planes, solve_structured_svm

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidParameterError
from maxsum.learning import BlockFrankWolfe
from maxsum.learning.streams import Past, StreamObjective, StreamStore
from maxsum.models import GraphModel, GraphSample

C = 2.0


def chunk(seed: int, potentials: str = "general", n: int = 3):
    random = np.random.default_rng(seed)
    labels = [random.integers(3, size=3) for _ in range(n)]
    samples = [GraphSample(np.eye(3)[y] + 0.8 * random.normal(size=(3, 3)), ms.Graph.chain(3)) for y in labels]
    return GraphModel(potentials=potentials).bind(samples, labels, np.arange(3))


def planes_of(model):
    return [
        enumerate_planes(model.truth(j), 3, lambda y, j=j: model.feature(j, y), lambda t, y: float((t != y).sum()))
        for j in range(model.n_examples)
    ]


@pytest.mark.parametrize("potentials", ["general", "associative", "supermodular"])
@pytest.mark.parametrize("settings", [{}, {"master": False}])
def test_bounds_hold_for_all_data_seen(potentials: str, settings: dict) -> None:
    past, seen = None, []
    for seed in range(4):
        model = chunk(seed, potentials)
        rows = model.cone.matrix.toarray()
        past = Past.nothing(model.n_weights) if past is None else past
        objective = StreamObjective(model, past, C)
        result = BlockFrankWolfe(tol=1e-4, **settings).fit(objective, init=StreamStore(objective))
        # the plane of the past as an example of its own: two planes, (0, 0) and (beta, v)
        old = Planes(np.array([0.0, past.offset]), np.stack([np.zeros(model.n_weights), past.vector]))
        optimum = solve_structured_svm([*planes_of(model), old], [*objective.c, 1.0], rows).value
        assert result.lower_bound <= optimum * (1 + 1e-8) <= result.objective * (1 + 2e-8)
        assert result.relative_gap <= 1e-4
        assert result.certificate.verify(objective, result.weights, claimed=result).relative_gap <= 2e-4
        before, past = past, result.extra["planes"].merged()
        seen += planes_of(model)
        every = solve_structured_svm(seen, [C] * len(seen), rows)
        assert before.lower_bound <= past.lower_bound <= every.value * (1 + 1e-9)
        assert past.n_examples == len(seen)
        random = np.random.default_rng(seed)
        for w in [every.weights, *(objective.repair(random.normal(size=model.n_weights)) for _ in range(20))]:
            slacks = C * sum(float((own.offset - own.vectors @ w).max()) for own in seen)
            assert past.offset - past.vector @ w <= slacks + 1e-9 * (1 + slacks)  # the plane is one of all data seen
    assert past.lower_bound > 0.5 * every.value  # and worth something


def test_shares_outside_their_interval_prove_nothing() -> None:
    model = chunk(0)
    objective = StreamObjective(model, Past(1.0, np.zeros(model.n_weights), 1), C)
    result = BlockFrankWolfe().fit(objective, init=StreamStore(objective))
    for share in (1.5, -0.5, np.nan):
        with pytest.raises(CertificateError):
            replace(result.certificate, share=share).verify(objective, result.weights)
    with pytest.raises(CertificateError, match="rational"):
        result.certificate.verify(objective, result.weights, exact=True)


def words(seed: int, n: int = 8):
    random = np.random.default_rng(seed)
    y = [random.choice(["a", "b", "c"], size=4) for _ in range(n)]
    X = [np.eye(3)[np.searchsorted(["a", "b", "c"], own)] + 0.6 * random.normal(size=(4, 3)) for own in y]
    return X, y


def test_partial_fit_of_labelers(tmp_path) -> None:
    tagger = ms.SequenceLabeler(C=0.5)
    with pytest.raises(InvalidParameterError, match="first call"):
        tagger.partial_fit(*words(0))
    seen_X, seen_y = [], []
    for seed in range(4):
        X, y = words(seed)
        tagger.partial_fit(X, y, classes=["a", "b", "c"] if not seed else None)
        seen_X, seen_y = seen_X + X, seen_y + y
        assert tagger.model_.n_examples == len(X)  # old data are gone
        assert tagger.stream_.vector.shape == tagger.weights_.shape
    whole = ms.SequenceLabeler(C=0.5, tol=1e-3).fit(seen_X, seen_y)
    assert tagger.stream_.lower_bound <= whole.result_.objective
    assert "examples seen" in tagger.result_.message
    assert whole.objective_.evaluate(tagger.weights_) <= 1.3 * whole.result_.objective
    ms.save_model(tagger, tmp_path / "m.npz")
    again = ms.load_model(tmp_path / "m.npz")
    assert [own.tolist() for own in again.predict(X)] == [own.tolist() for own in tagger.predict(X)]
    tagger.fit(*words(0))
    assert not hasattr(tagger, "stream_")


def test_half_a_weight_in_two_passes_is_the_problem_of_all_data() -> None:
    parts = [words(seed) for seed in range(3)]
    whole = ms.SequenceLabeler(C=0.5, tol=1e-3).fit([x for X, _ in parts for x in X], [t for _, y in parts for t in y])
    tagger = ms.SequenceLabeler(C=0.5, tol=1e-4)
    for X, y in parts * 2:
        tagger.partial_fit(X, y, classes=["a", "b", "c"], sample_weight=np.full(len(X), 0.5))
    assert tagger.stream_.lower_bound <= whole.result_.objective * (1 + 1e-9)
    assert tagger.stream_.lower_bound >= 0.7 * whole.result_.objective


def test_other_estimators_and_what_is_refused() -> None:
    random = np.random.default_rng(0)
    y = [random.integers(2, size=(3, 3)) for _ in range(4)]
    X = [np.eye(2)[own] + 0.5 * random.normal(size=(3, 3, 2)) for own in y]
    grid = ms.GridLabeler(C=0.5)
    grid.partial_fit(X[:2], y[:2], classes=[0, 1]).partial_fit(X[2:], y[2:])
    assert grid.stream_.n_examples == 4 and len(grid.predict(X)) == 4
    X, y = words(0)
    for wrong in (
        {"surrogate": "lp"},
        {"surrogate": "likelihood"},
        {"order": 2},
        {"unknown": "infer"},
        {"class_weight": "balanced"},
        {"loss": "zero_one"},
        {"learner": "CuttingPlane"},
        {"scale": "standard"},
    ):
        with pytest.raises(InvalidParameterError, match="partial_fit"):
            ms.SequenceLabeler(**wrong).partial_fit(X, y, classes=["a", "b", "c"])
    tagger = ms.SequenceLabeler().partial_fit(X, y, classes=["a", "b", "c"])
    with pytest.raises(InvalidParameterError, match="wanted the same"):
        tagger.partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(InvalidParameterError, match="other weights"):
        tagger.partial_fit([own[:, :2] for own in X], y)
