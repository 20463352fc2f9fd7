"""The 0/1 loss of whole labellings against a list of them all: oracle, optimum, certificates, what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from reference.structured_svm import Planes, enumerate_planes, solve_structured_svm

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidParameterError, UnsupportedProblemError
from maxsum.learning import BlockFrankWolfe, CuttingPlane, MarginObjective, Perceptron, ZeroOneObjective
from maxsum.losses import ZeroOne, as_loss
from maxsum.models import GraphModel, GraphSample
from maxsum.models.bound import BoundModel
from maxsum.models.multilabel import MultiLabelModel

GRAPHS = {
    "chain": ms.Graph.chain(4),
    "forest": ms.Graph.from_edges([(1, 0), (1, 2), (1, 3), (4, 5)], n_nodes=7),
    "cycle": ms.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)]),
    "nodes": ms.Graph.from_edges([], n_nodes=3),
    "one node": ms.Graph.from_edges([], n_nodes=1),
}


def bound(name: str, potentials: str = "general", n: int = 4, n_labels: int = 3, noise: float = 0.6) -> BoundModel:
    random, graph = np.random.default_rng(1), GRAPHS[name]
    labels = [random.integers(n_labels, size=graph.n_nodes) for _ in range(n)]
    samples = [GraphSample(np.eye(n_labels)[y] + noise * random.normal(size=(graph.n_nodes, n_labels)), graph) for y in labels]
    return GraphModel(potentials=potentials).bind(samples, labels, np.arange(n_labels))


def written_out(model: BoundModel, n_labels: int = 3) -> list[Planes]:
    def differ(t: np.ndarray, y: np.ndarray) -> float:
        return float((t != y).any())

    return [
        enumerate_planes(model.truth(j), n_labels, lambda y, j=j: model.feature(j, y), differ) for j in range(model.n_examples)
    ]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("potentials", ["general", "associative"])
def test_slacks_are_those_of_all_labellings(name: str, potentials: str) -> None:
    objective = ZeroOneObjective(bound(name, potentials), 2.0)
    planes = written_out(objective.model) if name != "forest" else written_out(objective.model)[:1]
    random = np.random.default_rng(0)
    for scale in (0.0, 0.5, 3.0):
        w = objective.repair(objective.cone.project(scale * random.normal(size=objective.n_weights)).weights)
        answer = objective.ask(w, np.arange(len(planes)))
        slack = [float(np.maximum(own.offset - own.vectors @ w, 0.0).max()) for own in planes]
        np.testing.assert_allclose(answer.value, slack, atol=1e-12)
        for j, key, value in zip(answer.examples.tolist(), answer.keys, answer.value, strict=True):
            plane = objective.plane(j, key)
            assert plane.offset - plane.value @ w[plane.index] == pytest.approx(value, abs=1e-12)
        every = objective.ask(w)
        assert objective.evaluate(w) == pytest.approx(objective.primal(w, every.value), rel=1e-11)


@pytest.mark.parametrize("name", ["chain", "cycle", "nodes"])
@pytest.mark.parametrize("learner", [BlockFrankWolfe(tol=1e-5), CuttingPlane(tol=1e-5)])
def test_the_optimum_is_that_of_all_labellings(name: str, learner: ms.learning.Learner) -> None:
    objective = ZeroOneObjective(bound(name), 8.0)
    optimum = solve_structured_svm(written_out(objective.model), objective.c).value
    result = learner.fit(objective)
    assert result.lower_bound <= optimum * (1 + 1e-9) and optimum * (1 - 1e-9) <= result.objective <= optimum * (1 + 2e-5)
    assert result.certificate.verify(objective, result.weights, claimed=result).relative_gap <= 2e-5
    if name == "cycle":
        with pytest.raises(CertificateError, match="forests alone"):
            result.certificate.verify(objective, result.weights, exact=True)
    else:
        assert result.certificate.verify(objective, result.weights, claimed=result, exact=True).relative_gap <= 2e-5


def test_the_proof_in_rational_arithmetic_is_exact_where_a_difference_is_far_below_the_root() -> None:
    objective = ZeroOneObjective(bound("forest", noise=0.0), 1.0)
    w = np.random.default_rng(4).normal(size=objective.n_weights)
    result = CuttingPlane(max_iter=1).fit(objective)
    found = result.certificate.verify(objective, w, exact=True)
    assert found.objective == pytest.approx(objective.primal(w, objective.ask(w).value), rel=1e-12)


def test_certificates_of_other_losses_prove_nothing_here() -> None:
    model = bound("chain")
    result = BlockFrankWolfe().fit(MarginObjective(model, 8.0))
    other = ZeroOneObjective(model, 8.0)
    assert result.certificate.lower_bound(other) < result.lower_bound  # which is that of the Hamming loss
    with pytest.raises(CertificateError):
        result.certificate.verify(other, result.weights, claimed=result)


def test_one_label_has_no_other_labelling() -> None:
    objective = ZeroOneObjective(bound("chain", n_labels=1), 1.0)
    w = np.ones(objective.n_weights)
    assert objective.ask(w).value.tolist() == [0.0] * 4
    assert objective.evaluate(w) == pytest.approx(0.5 * w @ w)


@pytest.mark.parametrize("edges", ["complete", "forest"])
def test_sets_of_labels(edges: str) -> None:
    random = np.random.default_rng(2)
    x = random.normal(size=(10, 3))
    y = (x @ random.normal(size=(3, 3)) + 0.3 * random.normal(size=(10, 3)) > 0).astype(int)
    graph = ms.Graph.complete(3) if edges == "complete" else ms.Graph.chain(3)
    objective = ZeroOneObjective(MultiLabelModel(graph).bind(x, y), 1.0)
    w = random.normal(size=objective.n_weights)
    for j in range(10):
        truth = objective.model.truth(j)
        slack = 0.0
        for z in itertools.product(range(2), repeat=3):
            index, value = objective.model.difference(j, np.array(z))
            slack = max(slack, float(tuple(truth) != z) - float(value @ w[index]))
        assert objective.ask(w, np.array([j])).value[0] == pytest.approx(slack)
    assert objective.evaluate(w) == pytest.approx(objective.primal(w, objective.ask(w).value))


def test_what_is_refused_is_refused_by_name() -> None:
    random = np.random.default_rng(0)
    wide = ms.Graph.grid(40, 40)
    model = GraphModel().bind([GraphSample(random.normal(size=(1600, 2)), wide)], [random.integers(2, size=1600)], np.arange(2))
    with pytest.raises(UnsupportedProblemError, match="second best labelling"):
        ZeroOneObjective(model)
    with pytest.raises(InvalidParameterError, match="ZeroOneObjective"):
        MarginObjective(bound("chain"), loss="zero_one")
    with pytest.raises(UnsupportedProblemError):
        Perceptron().fit(ZeroOneObjective(bound("chain")))
    heavy = GraphModel().bind([GraphSample(np.eye(2), ms.Graph.chain(2), node_weights=[1.0, 2.0])], [[0, 1]], np.arange(2))
    with pytest.raises(InvalidParameterError, match="node_weights"):
        ZeroOneObjective(heavy)
    X, y = [np.eye(2)], [[0, 1]]
    for wrong in ({"surrogate": "lp"}, {"surrogate": "likelihood"}, {"order": 2}, {"oracle": "TRWS"}, {"unknown": "infer"}):
        with pytest.raises(InvalidParameterError, match="second best"):
            ms.SequenceLabeler(loss="zero_one", **wrong).fit(X, y)


def test_estimators_take_it_and_save_it(tmp_path) -> None:
    random = np.random.default_rng(3)
    y = [random.integers(2, size=4) for _ in range(12)]
    X = [np.eye(2)[own] + 0.4 * random.normal(size=(4, 2)) for own in y]
    tagger = ms.SequenceLabeler(loss="zero_one", C=10.0).fit(X, y)
    assert isinstance(tagger.objective_, ZeroOneObjective) and "0 or 1" in tagger.result_.message
    assert tagger.result_.relative_gap <= 1e-3
    slack = tagger.objective_.ask(tagger.result_.weights).value
    wrong = sum(not np.array_equal(a, b) for a, b in zip(tagger.predict(X), y, strict=True))
    assert wrong <= slack.sum() + 1e-9
    ms.save_model(tagger, tmp_path / "model.npz")
    again = ms.load_model(tmp_path / "model.npz")
    assert again.loss == "zero_one"
    tagged = ms.SequenceLabeler(loss=ZeroOne(), surrogate="trivial").fit(X, y)
    assert tagged.objective_.surrogate == "trivial"


def test_values() -> None:
    loss = as_loss("zero_one")
    assert loss.value([0, -1, 2], [0, 5, 2], 3) == 0.0
    assert loss.value([0, -1, 2], [0, 5, 1], 3) == 1.0
    with pytest.raises(InvalidParameterError, match="no sum over nodes"):
        loss.augment(ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), tables=np.eye(2)), [0, 1])
