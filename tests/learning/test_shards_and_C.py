"""C has one home: whatever objective on shards it is set at, results are those of the same objective in memory with that C."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from learning.shard_data import MemorySource, chains, grids

import maxsum as ms
from maxsum.core.errors import CertificateError, CheckpointError
from maxsum.datasets import write_shards
from maxsum.estimators.sharded import LabelerSource
from maxsum.executors.base import Processes
from maxsum.learning import BlockFrankWolfe, CuttingPlane, ProjectedQuasiNewton, ShardAscent, path
from maxsum.shards.ascent import ShardedObjective
from maxsum.shards.objectives import AggregatedObjective, ShardedSmooth

UP_AND_DOWN = [0.05, 1.0, 0.015, 0.2]
TOL = 1e-2  # of what is compared; values of C are apart by factors of 4, optima by far more than this
SHARP = 1e-3  # of what it is compared with
SOURCES = {
    "chains": lambda: MemorySource(*chains(24, 3, 4), 3, bias=True),
    "rows": lambda: MemorySource(*chains(20, 3, 4), 4, potentials="supermodular"),
    "lp": lambda: MemorySource(*grids(6, 3), 3, surrogate="lp"),
}
KINDS = {
    "ascent": (ShardedObjective, ShardAscent(tol=TOL, max_iter=2000, communication=0.0)),
    "planes": (AggregatedObjective, CuttingPlane(tol=TOL)),
    "one slack": (AggregatedObjective, CuttingPlane(tol=TOL, slacks="one")),
}


@cache
def in_memory(name, C):
    """The result of the whole source with that C, for all kinds of sharded objectives alike."""
    whole = SOURCES[name]().whole()
    whole.set_C(C)
    return BlockFrankWolfe(tol=2e-2 if name == "lp" else SHARP).fit(whole)


def agree(found, whole, want, tol=TOL):
    """Both are proven to be within their gaps of the same optimum."""
    assert found.relative_gap <= tol
    assert found.lower_bound <= want.objective * (1 + 1e-9) and want.lower_bound <= found.objective * (1 + 1e-9)
    assert whole.evaluate(found.weights) == pytest.approx(found.objective, rel=2 * tol)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOURCES)
def test_set_C_reaches_every_shard(name, kind):
    source, (make, learner) = SOURCES[name](), KINDS[kind]
    objective, whole = make(source, 0.3), source.whole()
    tol = 2e-2 if name == "lp" else TOL
    learner = replace(learner, tol=tol)
    for C in UP_AND_DOWN:
        objective.set_C(C)
        whole.set_C(C)
        found = learner.fit(objective)
        agree(found, whole, in_memory(name, C), tol)
        checked = found.certificate.verify(objective, found.weights)
        assert checked.objective == pytest.approx(whole.evaluate(found.weights), rel=1e-6)
        assert checked.lower_bound == pytest.approx(found.lower_bound, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_over_shards_is_that_in_memory(kind):
    source, (make, learner) = SOURCES["chains"](), KINDS[kind]
    objective, whole = make(source, 0.05), source.whole()
    for C, found in zip([0.2, 0.05, 1.0], path(learner, objective, [0.2, 0.05, 1.0]), strict=True):
        whole.set_C(C)
        objective.set_C(C)
        assert found.extra["C"] == C
        agree(found, whole, in_memory("chains", C))
        assert found.certificate.verify(objective, found.weights).objective == pytest.approx(found.objective, rel=1e-6)
    objective.set_C(1.0)


def test_the_planes_of_a_path_are_shared_between_C():
    source = SOURCES["chains"]()
    values, learner = [1.0, 3.0, 10.0], CuttingPlane(tol=TOL)
    shared = path(learner, AggregatedObjective(source, 1.0), values)
    alone = [learner.fit(AggregatedObjective(source, C)) for C in values]
    assert sum(own.n_oracle_calls for own in shared) < sum(own.n_oracle_calls for own in alone)


@pytest.mark.parametrize("kind", KINDS)
def test_bits_of_another_C_do_not_depend_on_workers(kind):
    source, (make, learner) = SOURCES["chains"](), KINDS[kind]
    learner = replace(learner, max_iter=6)  # a sum in another order shows in the first pass
    values = [0.2, 1.0]
    want = path(learner, make(source, 0.2), values)
    with Processes(2) as executor:
        found = path(learner, make(source, 3.0, executor), values)
    assert [own.weights.tobytes() for own in found] == [own.weights.tobytes() for own in want]
    assert [own.lower_bound for own in found] == [own.lower_bound for own in want]


def test_a_proof_of_another_C_does_not_pass_for_more_than_it_shows():
    source = SOURCES["chains"]()
    objective, whole = ShardedObjective(source, 1.0), source.whole()
    found = KINDS["ascent"][1].fit(objective)
    objective.set_C(0.2)
    with pytest.raises(CertificateError, match="sum to"):
        found.certificate.verify(objective, found.weights)
    objective.set_C(4.0)
    whole.set_C(4.0)
    assert found.certificate.lower_bound(objective) <= BlockFrankWolfe(tol=SHARP).fit(whole).objective


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_another_C_is_refused_and_of_the_same_C_gone_on_from(kind, tmp_path):
    source, (make, learner) = SOURCES["chains"](), KINDS[kind]
    options = {"checkpoint": tmp_path / "state", "checkpoint_seconds": 0.0}
    short, more = replace(learner, **options, max_iter=3, tol=0.0), replace(learner, **options | {"checkpoint_seconds": 60.0})
    short.fit(make(source, 1.0))
    with pytest.raises(CheckpointError, match="C"):
        more.fit(make(source, 5.0))
    objective = make(source, 5.0)
    objective.set_C(1.0)
    found = more.fit(objective)
    assert found.n_iter > 3
    agree(found, source.whole(), in_memory("chains", 1.0))
    found.certificate.verify(objective, found.weights)


def smooth(tmp_path):
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 3, 5) for _ in range(12)]
    data = [(np.eye(3)[y] + 0.5 * rng.normal(size=(5, 3)), y) for y in labels]
    dataset = write_shards(data, tmp_path / "shards", samples=4)
    labeler = ms.SequenceLabeler(surrogate="qp", C=2.0, tol=TOL)
    return LabelerSource(labeler, dataset, {}), labeler, data


@pytest.mark.parametrize("n_workers", [0, 2])
def test_set_C_reaches_smooth_shards(n_workers, tmp_path):
    source, labeler, data = smooth(tmp_path)
    plain = labeler.fit([x for x, _ in data], [y for _, y in data]).objective_
    learner = ProjectedQuasiNewton(tol=1e-6)
    executor = Processes(n_workers) if n_workers else None
    try:
        objective = ShardedSmooth(source, 7.0, executor)
        for C in UP_AND_DOWN:
            objective.set_C(C)
            plain.set_C(C)
            found, want = learner.fit(objective), learner.fit(plain)
            assert found.objective == pytest.approx(want.objective, rel=1e-5)
            assert objective.evaluate(found.weights) == pytest.approx(plain.evaluate(found.weights), rel=1e-9)
            assert ShardedSmooth(source, C, executor).value_and_gradient(want.weights).value == pytest.approx(
                plain.value_and_gradient(want.weights).value, rel=1e-2
            )
        values = path(learner, objective, [0.5, 4.0])
        assert UP_AND_DOWN[-1] == objective.C and values[0].objective < values[1].objective
    finally:
        if executor is not None:
            executor.close()


def test_the_source_has_no_C(tmp_path):
    source, _, _ = smooth(tmp_path)
    other = LabelerSource(ms.SequenceLabeler(surrogate="qp", C=9.0, tol=TOL, checkpoint_seconds=1.0), source.dataset, {})
    assert source.digest() == other.digest()
