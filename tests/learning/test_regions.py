"""RegionStore: the dual by regions is that of the linear relaxation, and no labelling that comes changes what is known."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.kernels.records import Regions
from maxsum.kernels.regions import extend
from maxsum.learning import BlockFrankWolfe, CompactQP, LPObjective, path
from maxsum.learning.dual.planes import PlaneStore
from maxsum.learning.dual.regions import RegionStore, fits, no_regions
from maxsum.learning.oracles.relaxed import Relaxed
from maxsum.models import GraphModel, GraphSample


def objective(n_labels=3, side=10, potentials="general", C=2.0, seed=0, n_examples=2, noise=0.5, random_labels=False):
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for i in range(n_examples):
        n = side * (side + i)
        y = np.arange(n) * n_labels // n
        y = np.where(random.random(n) < (1.0 if random_labels else 0.1), random.integers(n_labels, size=n), y)
        x = np.eye(n_labels)[y] + noise * random.standard_normal((n, n_labels))
        samples.append(GraphSample(x, ms.Graph.grid(side, side + i)))
        labels.append(y)
    model = GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))
    return LPObjective(model, C=C)


@pytest.mark.parametrize("potentials", ["general", "associative"])
def test_optimum_is_that_of_the_compact_programme(potentials):
    own = objective(potentials=potentials)
    result = BlockFrankWolfe(tol=1e-3).fit(own)
    assert isinstance(result.extra["planes"], RegionStore)
    best = CompactQP(tol=1e-7).fit(objective(potentials=potentials)).objective
    assert result.relative_gap <= 1e-3
    assert result.lower_bound <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= result.objective <= best * (1 + 1e-3)
    verified = result.verify(own)
    assert verified.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
    assert verified.gap <= 1.1e-3 * verified.objective


def test_pseudo_marginals_go_on_with_whole_planes():
    own = objective(potentials="potts", noise=1.0)
    result = BlockFrankWolfe(tol=1e-4).fit(own)
    assert isinstance(result.extra["planes"], PlaneStore)
    assert any(isinstance(key, Relaxed) and len(key.nodes) for key in result.certificate.keys)
    best = CompactQP(tol=1e-7).fit(objective(potentials="potts", noise=1.0)).objective
    assert result.relative_gap <= 1e-4
    assert result.objective == pytest.approx(best, rel=2e-4)
    assert result.certificate.lower_bound(own) == pytest.approx(result.lower_bound, rel=1e-9)


def test_a_new_labelling_changes_neither_weights_nor_dual():
    own, random = objective(), np.random.default_rng(1)
    store, gaps = RegionStore(own), np.zeros(own.n_examples)
    for _ in range(8):
        w = store.weights.value + 0.3 * random.standard_normal(own.n_weights)
        answer = own.ask(w)
        dual = store.refresh()
        before = store.weights.value.copy()
        for j, key in enumerate(answer.keys):
            example = store.examples[j]
            example.set(Regions(*extend(example.design, example.regions, key.astype(np.int32), 1)), store.scratch)
        assert store.refresh() == pytest.approx(dual, abs=1e-9)
        assert store.weights.value == pytest.approx(before, abs=1e-9)
        gain, _ = store.ascend(np.arange(own.n_examples), 5, 100, 0.0, 0.0, 0.0, 1e-300, gaps)
        kept = store.weights.value.copy()
        assert store.refresh() == pytest.approx(dual + gain, abs=1e-9)
        assert store.weights.value == pytest.approx(kept, abs=1e-9)
        assert (gaps >= 0).all()
    assert store.n_planes > 4


def test_planes_begin_where_regions_end():
    own = objective()
    store = BlockFrankWolfe(tol=1e-2).fit(own).extra["planes"]
    dual, planes = store.refresh(), store.as_planes(10)
    assert planes.refresh() == pytest.approx(dual, rel=1e-9)
    assert planes.weights.value == pytest.approx(store.weights.value, abs=1e-9)
    assert planes.certificate().lower_bound(own) == pytest.approx(dual, rel=1e-9)
    before = store.n_planes
    store.add(np.arange(2), store.keys(), 100, np.zeros(2))
    assert store.n_planes == before


def test_state_restores_every_bit():
    own = objective()
    first = BlockFrankWolfe(tol=1e-2).fit(own).extra["planes"]
    second = RegionStore(own)
    second.restore({name: np.array(value) for name, value in first.state().items()})
    for name, value in first.state().items():
        assert np.array_equal(second.state()[name], value), name
    gaps = [np.zeros(own.n_examples), np.zeros(own.n_examples)]
    keys = own.ask(first.weights.value).keys
    for store, gap in zip((first, second), gaps, strict=True):
        store.add(np.arange(own.n_examples), keys, 100, gap)
    assert first.weights.value.tobytes() == second.weights.value.tobytes()
    assert gaps[0].tobytes() == gaps[1].tobytes()


@pytest.mark.parametrize(("potentials", "stop"), [("general", 5), ("potts", 5), ("potts", 50)])
def test_a_training_resumes_bit_for_bit(potentials, stop, tmp_path):
    whole = BlockFrankWolfe(tol=1e-4, max_iter=60).fit(objective(potentials=potentials, noise=1.0))
    learner = BlockFrankWolfe(tol=1e-4, max_iter=60, checkpoint=tmp_path / "state", checkpoint_seconds=0.0)
    learner.fit(objective(potentials=potentials, noise=1.0), callback=lambda point: point.iteration >= stop)
    resumed = learner.fit(objective(potentials=potentials, noise=1.0))
    assert resumed.weights.tobytes() == whole.weights.tobytes()


def test_a_path_reuses_regions():
    own = objective()
    results = path(BlockFrankWolfe(tol=1e-3), own, [0.5, 2.0])
    assert results[0].extra["planes"] is results[1].extra["planes"]
    for result in results:
        own.set_C(result.extra["C"])
        assert result.verify(own).gap <= 1.1e-3 * result.objective


def test_multipliers_that_sum_to_more_than_one_do_not_hang():
    own = objective(n_examples=1, potentials="potts")
    random, truth = np.random.default_rng(0), own.design.truth
    regions = no_regions(truth)
    for _ in range(4):
        y = np.where(random.random(len(truth)) < 0.2, random.integers(3, size=len(truth)), truth).astype(np.int32)
        regions = Regions(*extend(own.design, regions, y, 3))
        for r in range(len(regions.atom_ptr) - 1):
            regions.alpha[regions.atom_ptr[r] : regions.atom_ptr[r + 1]] = 1.0 + 1e-9
        regions = Regions(*extend(own.design, regions, truth.astype(np.int32), 3))
    assert np.add.reduceat(regions.alpha, regions.atom_ptr[:-1]) == pytest.approx(1.0)


def test_where_regions_are_used():
    assert fits(objective())
    assert not fits(objective(side=5))
    assert isinstance(BlockFrankWolfe(tol=0.1, regions=False).fit(objective()).extra["planes"], PlaneStore)
