"""Oracles: slacks against enumeration, brackets that hold, and the planes that come of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from factories.samples import random_model
from reference.structured_svm import enumerate_planes, hinge

import maxsum as ms
from maxsum.core.errors import CertificateError, OracleError
from maxsum.learning import BlockFrankWolfe, CuttingPlane, MarginObjective
from maxsum.learning.dual.planes import PlaneStore
from maxsum.learning.oracles.base import Effort
from maxsum.learning.oracles.bracket import BracketOracle
from maxsum.learning.oracles.enumeration import EnumerationOracle
from maxsum.learning.oracles.exact import ForestOracle
from maxsum.learning.oracles.solver import SolverOracle
from maxsum.losses import Hamming
from maxsum.models import GraphModel, GraphSample
from maxsum.models.joint_model import JointModel

FOREST = ms.Graph.from_edges([(1, 0), (1, 2), (3, 4)], n_nodes=6)
LOOPY = ms.Graph.grid(2, 3)


def every_plane(objective):
    """The planes of all labellings of every example, through features and losses alone."""
    model = objective.model
    return [
        enumerate_planes(
            model.truth(j),
            model.n_labels,
            lambda y, j=j: model.feature(j, y),
            lambda truth, y: objective.loss.value(truth, y, model.n_labels),
        )
        for j in range(objective.n_examples)
    ]


@pytest.mark.parametrize(
    ("graph", "kind", "options"),
    [
        (FOREST, ForestOracle, {}),
        (FOREST, ForestOracle, {"bias": True, "symmetric": True}),
        (FOREST, ForestOracle, {"homogeneous": False}),
        (LOOPY, EnumerationOracle, {}),
        (LOOPY, EnumerationOracle, {"homogeneous": False, "bias": True}),
        (LOOPY, BracketOracle, {"oracle": "bracket"}),
        (LOOPY, SolverOracle, {"oracle": "JunctionTree"}),
        (LOOPY, EnumerationOracle, {"potentials": "supermodular"}),
        (LOOPY, SolverOracle, {"oracle": "TRWS"}),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "loss",
    ["hamming", Hamming(class_weight=[1.0, 3.0, 0.5]), [[0, 1, 4], [2, 0, 1], [1, 5, 0]]],
    ids=["hamming", "class", "table"],
)
def test_answers_bracket_the_slack(graph, kind, options, loss):
    options = dict(options)
    oracle = options.pop("oracle", None)
    objective = MarginObjective(random_model(graph, **options), C=2.0, loss=loss, oracle=oracle)
    assert isinstance(objective.oracle, kind)
    random, planes = np.random.default_rng(1), every_plane(objective)
    for _ in range(3):
        w = objective.cone.repair(random.standard_normal(objective.n_weights))
        answer = objective.ask(w)
        for j in range(objective.n_examples):
            slack = hinge(planes[j], w)
            assert answer.value[j] - 1e-9 <= slack <= answer.upper[j] + 1e-9
            plane = objective.plane(j, answer.keys[j])
            assert plane.offset - w[plane.index] @ plane.value == pytest.approx(answer.value[j], abs=1e-9)
            if objective.exact:
                assert answer.upper[j] == pytest.approx(slack, abs=1e-9)
    assert objective.n_calls == 3 * objective.n_examples


def test_effort_closes_the_bracket():
    objective = MarginObjective(random_model(ms.Graph.complete(6), n_labels=3), C=2.0, oracle="bracket")
    w = np.random.default_rng(5).standard_normal(objective.n_weights)
    answer = objective.ask(w)
    assert (answer.upper - answer.value).sum() > 1e-6
    closed = objective.spend(w, answer, 0.0, (Effort.LONG, Effort.FULL, Effort.SEARCH))
    np.testing.assert_allclose(closed.upper, np.maximum(closed.value, 0.0), atol=1e-8)
    for value, planes in zip(closed.value, every_plane(objective), strict=True):
        assert value == pytest.approx(hinge(planes, w), abs=1e-8)


def test_threads_change_nothing():
    model = random_model(FOREST, n_examples=9)
    w = np.random.default_rng(2).standard_normal(model.n_weights)
    one, two = (MarginObjective(model, n_jobs=n).ask(w) for n in (1, 2))
    assert np.array_equal(one.value, two.value)
    assert all(np.array_equal(a, b) for a, b in zip(one.keys, two.keys, strict=True))


@pytest.mark.parametrize(
    ("oracle", "error", "words"),
    [
        (lambda p: 1 / 0, OracleError, "example 0.*ZeroDivisionError"),
        (lambda p: np.zeros(2, dtype=int), OracleError, "wanted 6 label numbers"),
        (lambda p: np.full(6, 7), OracleError, "label 7 at node 0"),
        (lambda p: (np.zeros(6, dtype=int), float("nan")), OracleError, "bound nan"),
        (lambda p: (np.zeros(6, dtype=int), -1e3), CertificateError, "below"),
    ],
)
def test_a_bad_oracle_is_named_with_its_example(oracle, error, words):
    objective = MarginObjective(random_model(FOREST), oracle=oracle)
    with pytest.raises(error, match=words):
        objective.ask(np.ones(objective.n_weights))


def test_an_oracle_that_does_not_maximise_only_slows_down():
    model = random_model(ms.Graph.chain(4))
    lazy = MarginObjective(model, C=3.0, oracle=lambda p: np.random.default_rng(0).integers(3, size=p.n_nodes))
    best = BlockFrankWolfe(tol=1e-6).fit(MarginObjective(model, C=3.0))
    result = BlockFrankWolfe(tol=1e-6, max_iter=10).fit(lazy)
    assert result.lower_bound <= best.objective <= result.objective * (1 + 1e-9)


def joint(model):
    """The same features as a joint model: a row for each (node, label) and (edge, label, label)."""
    size, n_weights = model.n_labels, model.n_weights

    def node(sample):
        rows = np.zeros((sample.n_nodes, size, n_weights))
        for v, f, k in np.ndindex(sample.n_nodes, sample.X.shape[1], size):
            rows[v, k, model.node_index[f, k]] += sample.X[v, f]
        return rows.reshape(-1, n_weights)

    def edge(sample):
        rows = np.zeros((sample.graph.n_edges, size, size, n_weights))
        for k, m in np.ndindex(size, size):
            rows[:, k, m, model.edge_index[0, k, m]] = 1.0
        return rows.reshape(-1, n_weights)

    return JointModel(node, edge, n_weights)


def test_general_features_learn_the_same():
    random = np.random.default_rng(3)
    samples = [GraphSample(random.standard_normal((5, 2)), ms.Graph.chain(5)) for _ in range(4)]
    labels = [random.integers(3, size=5) for _ in samples]
    model = GraphModel().bind(samples, labels, classes=np.arange(3))
    other = joint(model).bind(samples, labels, classes=np.arange(3))
    w = random.standard_normal(model.n_weights)
    for j in range(4):
        y = random.integers(3, size=5)
        np.testing.assert_allclose(other.feature(j, y), model.feature(j, y))
        assert other.problem(w, j).score(y) == pytest.approx(w @ model.feature(j, y))
    first = BlockFrankWolfe(tol=1e-6).fit(MarginObjective(model, C=5.0))
    second = BlockFrankWolfe(tol=1e-6).fit(MarginObjective(other, C=5.0))
    assert first.objective == pytest.approx(second.objective, rel=1e-5)


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("potentials", ["general", "associative", "supermodular"])
def test_stored_planes_agree_with_their_features(explicit, potentials, monkeypatch):
    monkeypatch.setattr("maxsum.learning.dual.planes.few_weights", lambda objective: explicit)
    objective = MarginObjective(random_model(FOREST, potentials=potentials), C=3.0)
    store = PlaneStore(objective, max_planes=40)
    random = np.random.default_rng(4)
    gaps = np.zeros(objective.n_examples)
    for _ in range(30):
        keys = [random.integers(3, size=6).astype(np.int32) for _ in range(objective.n_examples)]
        before = store.refresh()
        store.add(np.arange(objective.n_examples), keys, 20, gaps)
        assert store.refresh() >= before - 1e-9
    u, value = np.zeros(objective.n_weights), 0.0
    for j in range(objective.n_examples):
        used, first = int(store.planes.used[j]), int(store.planes.slot_ptr[j])
        capacity = int(store.capacity[j])
        labels = store.planes.pool[store.planes.pool_ptr[j] :][: used * 6].reshape(used, 6)
        planes = [objective.plane(j, y) for y in labels]
        dense = np.zeros((used, objective.n_weights))
        for row, plane in zip(dense, planes, strict=True):
            row[plane.index] = plane.value
        gram = store.planes.gram[store.planes.gram_ptr[j] :][: capacity**2].reshape(capacity, capacity)[:used, :used]
        np.testing.assert_allclose(gram, dense @ dense.T, atol=1e-9)
        alpha = store.planes.alpha[first : first + used]
        assert alpha.min() >= 0 and alpha.sum() == pytest.approx(objective.c[j])
        u += alpha @ dense
        value += alpha @ [plane.offset for plane in planes]
    u += store.objective.cone.rows.T @ store.weights.mu
    w = np.where(objective.cone.nonneg, np.maximum(u, 0.0), u)
    np.testing.assert_allclose(store.weights.value, w, atol=1e-9)
    assert store.refresh() == pytest.approx(value - 0.5 * w @ w)
    assert store.certificate().lower_bound(objective) == pytest.approx(store.refresh())


def labels_alone(problem):
    return ms.solve(problem).labels


def rough(problem):
    return ms.solve(problem, "ICM").labels


def unbounded(problem):
    return ms.solve(problem).labels, np.inf


@cache
def with_an_exact_oracle(graph):
    return BlockFrankWolfe(tol=1e-5).fit(MarginObjective(random_model(graph, n_examples=5), C=5.0))


@pytest.mark.parametrize("oracle", [labels_alone, rough, unbounded, "ICM"], ids=lambda own: getattr(own, "__name__", own))
@pytest.mark.parametrize("graph", [FOREST, LOOPY], ids=["forest", "loopy"])
@pytest.mark.parametrize(
    "learner",
    [BlockFrankWolfe(), CuttingPlane(), CuttingPlane(slacks="one", stabilise=False)],
    ids=lambda own: f"{type(own).__name__}-{getattr(own, 'slacks', '')}",
)
def test_labels_without_a_bound_train_as_well_as_an_exact_oracle(learner, graph, oracle):
    """Without a bound of the loss-augmented problems nothing is proven, and training ended far from the best."""
    model = random_model(graph, n_examples=5)
    wanted = with_an_exact_oracle(graph)
    objective = MarginObjective(model, C=5.0, oracle=oracle)
    result = learner.fit(objective)
    assert result.termination == "converged" and result.relative_gap <= 1e-3
    assert result.lower_bound <= wanted.objective * (1 + 1e-9) and result.objective >= wanted.lower_bound * (1 - 1e-9)
    assert result.certificate.verify(objective, result.weights).gap <= 2e-3 * result.objective


def test_bounds_of_labels_alone_hold_and_come_closer_with_effort():
    objective = MarginObjective(random_model(LOOPY), C=2.0, oracle=rough)
    w = np.random.default_rng(3).standard_normal(objective.n_weights)
    true = np.array([hinge(planes, w) for planes in every_plane(objective)])
    gaps = []
    for effort in (Effort.QUICK, Effort.NORMAL, Effort.LONG, Effort.FULL, Effort.SEARCH):
        answer = objective.ask(w, effort=effort)
        assert (answer.value <= true + 1e-9).all() and (answer.upper >= true - 1e-9).all()
        gaps.append((answer.upper - answer.value).sum())
    assert gaps[-1] <= 1e-9 * (1 + np.abs(true).sum()) and gaps[0] >= gaps[-1] - 1e-9


def test_a_training_with_labels_alone_goes_on_from_its_checkpoint(tmp_path):
    model, learner = random_model(LOOPY, n_examples=5), BlockFrankWolfe(tol=1e-6, max_iter=12)
    whole = learner.fit(MarginObjective(model, C=5.0, oracle=labels_alone))
    saved = replace(learner, checkpoint=tmp_path / "state", checkpoint_seconds=0.0)
    saved.fit(MarginObjective(model, C=5.0, oracle=labels_alone), callback=lambda point: point.iteration >= 5)
    again = saved.fit(MarginObjective(model, C=5.0, oracle=labels_alone))
    np.testing.assert_array_equal(again.weights, whole.weights)


class WithoutGaps:
    """An oracle of one's own that proves nothing."""

    exact = False

    def __init__(self, model):
        self.model = model

    def answer(self, w, examples, effort, n_jobs):
        return [ms.solve(p).labels for p in self.model.problems(w)], np.full(len(examples), np.inf)


def test_an_oracle_that_proves_nothing_is_told_so():
    model = random_model(LOOPY)
    with pytest.raises(OracleError, match="gap that is not finite"):
        BlockFrankWolfe().fit(MarginObjective(model, oracle=WithoutGaps(model)))
