"""`path`: one call for several C, with shared planes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError
from maxsum.learning import BlockFrankWolfe, CuttingPlane, MarginObjective, path
from maxsum.models import GraphModel, GraphSample


def objective_of(potentials, n=30):
    random = np.random.default_rng(0)
    samples, labels = [], []
    for i in range(n):
        y = random.integers(3, size=3 + i % 4)
        samples.append(GraphSample(np.eye(3)[y] + random.normal(size=(len(y), 3)), ms.Graph.chain(len(y))))
        labels.append(y)
    return MarginObjective(GraphModel(potentials=potentials).bind(samples, labels, [0, 1, 2]), C=5.0)


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative"])
def test_path_gives_what_separate_fits_give_with_fewer_calls(potentials):
    values, learner = [10.0, 1.0, 30.0, 3.0, 100.0, 60.0], BlockFrankWolfe(tol=1e-3)
    objective = objective_of(potentials)
    shared = path(learner, objective, values)
    assert objective.C == 5.0 and [result.extra["C"] for result in shared] == values
    alone_calls = 0
    for C, result in zip(values, shared, strict=True):
        objective.set_C(C)
        alone = learner.fit(objective)
        alone_calls += alone.n_oracle_calls
        assert result.termination == "converged" and result.relative_gap <= 1e-3
        assert max(result.lower_bound, alone.lower_bound) <= min(result.objective, alone.objective) * (1 + 1e-12)
        assert result.objective == pytest.approx(alone.objective, rel=2e-3)
        checked = result.verify(objective)
        assert checked.objective == pytest.approx(result.objective, rel=1e-9)
        assert checked.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
    assert sum(result.n_oracle_calls for result in shared) < 0.8 * alone_calls


def test_cutting_planes_are_shared_too():
    values, learner, objective = [1.0, 10.0, 30.0], CuttingPlane(tol=1e-3), objective_of("supermodular")
    shared = path(learner, objective, values)
    alone = []
    for C, result in zip(values, shared, strict=True):
        objective.set_C(C)
        alone.append(learner.fit(objective))
        assert result.objective == pytest.approx(alone[-1].objective, rel=2e-3)
        assert result.verify(objective).lower_bound <= alone[-1].objective * (1 + 1e-12)
    assert sum(result.n_oracle_calls for result in shared) < 0.8 * sum(result.n_oracle_calls for result in alone)


def test_objectives_rise_with_C_and_weights_grow():
    shared = path(BlockFrankWolfe(tol=1e-4), objective_of("general"), np.array([0.1, 1.0, 10.0]))
    assert all(a.objective < b.objective for a, b in itertools.pairwise(shared))
    assert all(np.linalg.norm(a.weights) < np.linalg.norm(b.weights) for a, b in itertools.pairwise(shared))


def test_checkpoints_of_a_path_have_names_of_their_own(tmp_path):
    learner = BlockFrankWolfe(tol=1e-3, checkpoint=tmp_path / "state")
    first = path(learner, objective_of("general"), [1.0, 10.0])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state.0", "state.1"]
    again = path(learner, objective_of("general"), [1.0, 10.0])
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.weights, b.weights)


def test_equal_values_and_none_at_all():
    objective = objective_of("general", n=5)
    one, two = path(BlockFrankWolfe(), objective, [2.0, 2.0])
    assert one is two
    assert path(BlockFrankWolfe(), objective, []) == []


@pytest.mark.parametrize("values", [[1.0, 0.0], [-1.0], [np.nan], 3.0, [[1.0]], ["a"]])
def test_bad_values(values):
    objective = objective_of("general", n=3)
    with pytest.raises(InvalidParameterError, match="wanted"):
        path(BlockFrankWolfe(), objective, values)
    assert objective.C == 5.0
