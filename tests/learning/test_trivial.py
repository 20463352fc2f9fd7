"""The trivial surrogate: every inequality of (25b) against a dense list of them, planes, optimum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from reference.structured_svm import solve_structured_svm
from reference.trivial_svm import all_inequalities, margins

from maxsum import Graph, InvalidProblemError, MaxsumError
from maxsum.core.consistency import is_strictly_trivial
from maxsum.inference import solve
from maxsum.learning import CuttingPlane, Perceptron, TrivialObjective
from maxsum.models import GraphModel, GraphSample
from maxsum.models.bound import BoundModel
from maxsum.models.joint_model import JointModel

GRAPHS = (Graph.from_edges([(0, 1), (2, 1), (0, 2)], n_nodes=4), Graph.chain(3), Graph.chain(1))


def data(potentials: str = "general", n_labels: int = 3, seed: int = 0, **options: object) -> BoundModel:
    random = np.random.default_rng(seed)
    samples = [GraphSample(random.standard_normal((graph.n_nodes, 2)), graph) for graph in GRAPHS]
    labels = [random.integers(0, n_labels, graph.n_nodes) for graph in GRAPHS]
    return GraphModel(potentials=potentials, **options).bind(samples, labels, classes=np.arange(n_labels))  # type: ignore[arg-type]


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("options", [{}, {"bias": True, "symmetric": True}, {"potentials": "potts"}])
def test_the_oracle_finds_the_most_violated_inequality(n_labels: int, options: dict) -> None:
    model = data(n_labels=n_labels, **options)
    objective = TrivialObjective(model, C=2.0, sample_weight=[1, 2, 0])
    random = np.random.default_rng(1)
    for scale in (0.0, 0.3, 3.0):
        w = scale * random.standard_normal(objective.n_weights)
        answer = objective.ask(w)
        slack = np.array([max([0.0] + [1 - m for m in margins(model, j, w)]) for j in range(3)])
        np.testing.assert_allclose(answer.value, slack, atol=1e-12)
        np.testing.assert_array_equal(answer.value, answer.upper)
        for j, key, value in zip(answer.examples, answer.keys, answer.value, strict=True):
            plane = objective.plane(j, key)
            assert plane.offset - plane.value @ w[plane.index] == pytest.approx(value, abs=1e-12)
            assert (np.diff(plane.index) > 0).all()
        assert objective.evaluate(w) == pytest.approx(0.5 * w @ w + 2.0 * (slack @ [1, 2, 0]))
        assert objective.primal(w, answer.upper) == pytest.approx(objective.evaluate(w))
    assert objective.n_calls == 9


def test_some_examples_and_threads_give_the_same() -> None:
    model = data()
    w = np.random.default_rng(2).standard_normal(TrivialObjective(model).n_weights)
    every = TrivialObjective(model, n_jobs=2).ask(w)
    some = TrivialObjective(model).ask(w, np.array([2, 0]))
    assert [k.tolist() for k in some.keys] == [every.keys[2].tolist(), every.keys[0].tolist()]
    np.testing.assert_array_equal(some.value, every.value[[2, 0]])


def test_every_plane_is_the_difference_of_features() -> None:
    model = data()
    objective, reference = TrivialObjective(model), all_inequalities(model)
    for j in range(3):
        truth, graph = model.truth(j), model.data.graphs[j]
        keys = [(t, k, -1) for t in range(graph.n_nodes) for k in range(3) if k != truth[t]]
        pairs = itertools.product(range(graph.n_edges), range(3), range(3))
        keys += [(e, k, m) for e, k, m in pairs if (k, m) != tuple(truth[graph.edges[e]])]
        assert len(keys) == len(reference[j].offset) - 1
        for key, row in zip(keys, reference[j].vectors[1:], strict=True):
            plane = objective.plane(j, np.array(key))
            full = np.zeros(objective.n_weights)
            full[plane.index] = plane.value
            np.testing.assert_allclose(full, row, atol=1e-12)
    nothing = objective.plane(0, np.array([-1, -1, -1]))
    assert nothing.offset == 0 and len(nothing.index) == 0


@pytest.mark.parametrize(("potentials", "n_labels"), [("general", 3), ("supermodular", 3), ("associative", 2)])
def test_cutting_planes_reach_the_optimum(potentials: str, n_labels: int) -> None:
    model = data(potentials, n_labels, seed=3)
    objective = TrivialObjective(model, C=5.0, sample_weight=[1.0, 2.0, 1.0])
    reference = solve_structured_svm(all_inequalities(model), objective.c, objective.cone.matrix.toarray())
    result = CuttingPlane(tol=1e-7, max_iter=500).fit(objective)
    assert result.objective == pytest.approx(reference.value, rel=1e-5)
    assert result.lower_bound <= reference.value * (1 + 1e-9)
    checked = result.verify(objective)
    assert checked.gap <= 1e-5 * checked.objective
    assert objective.cone.contains(result.weights)


def test_slacks_below_one_prove_the_prediction() -> None:
    random = np.random.default_rng(4)
    graph = Graph.complete(4)
    samples = [GraphSample(random.standard_normal((4, 2)), graph) for _ in range(4)]
    teacher = GraphModel().bind(samples, classes=[0, 1, 2])
    labels = [solve(p).labels for p in teacher.problems(random.standard_normal(teacher.n_weights) * 2)]
    model = GraphModel().bind(samples, labels, classes=[0, 1, 2])
    objective = TrivialObjective(model, C=1e4)
    w = CuttingPlane(tol=1e-3).fit(objective).weights
    own, slack = objective.model_weights(w), objective.ask(w).upper
    assert len(own) == model.n_weights and (slack < 1).any()
    for j in np.flatnonzero(slack < 1):
        problem = model.problem(own, j)
        assert is_strictly_trivial(problem, objective.potentials(w, j))
        assert (solve(problem).labels == model.truth(j)).all()


def test_one_label_has_no_inequality() -> None:
    model = GraphModel().bind([GraphSample(np.ones((3, 1)), Graph.chain(3))], [[0, 0, 0]], classes=[0])
    objective = TrivialObjective(model)
    answer = objective.ask(np.zeros(objective.n_weights))
    assert answer.value.tolist() == [0.0] and answer.keys[0].tolist() == [-1, -1, -1]
    assert objective.evaluate(np.zeros(objective.n_weights)) == 0.0


def test_bad_weights_are_refused() -> None:
    objective = TrivialObjective(data())
    with pytest.raises(MaxsumError, match="weights of the model, then the potentials"):
        objective.model_weights(np.zeros(3))
    with pytest.raises((MaxsumError, InvalidProblemError)):
        objective.evaluate(np.full(objective.n_weights, np.nan))


def test_general_joint_features() -> None:
    """The same classifier as a GraphModel and as a JointModel has the same inequalities and the same perceptron."""
    plain = data(n_labels=2)
    size = plain.n_weights

    def rows(sample: GraphSample, edges: bool) -> np.ndarray:
        found = []
        for item in range(sample.graph.n_edges if edges else sample.n_nodes):
            for labels in itertools.product(range(2), repeat=2 if edges else 1):
                row = np.zeros(size)
                weight = plain.edge_index[0][labels] if edges else plain.node_index[:, labels[0]]
                row[weight] = 1.0 if edges else sample.X[item]
                found.append(row)
        return np.array(found).reshape(-1, size)

    random = np.random.default_rng(0)
    samples = [GraphSample(random.standard_normal((graph.n_nodes, 2)), graph) for graph in GRAPHS]
    truth = [plain.truth(j) for j in range(3)]
    joint = JointModel(lambda s: rows(s, False), lambda s: rows(s, True), size).bind(samples, truth, classes=[0, 1])
    first, second = TrivialObjective(plain), TrivialObjective(joint)
    w = np.random.default_rng(1).standard_normal(first.n_weights)
    np.testing.assert_allclose(first.ask(w).value, second.ask(w).value)
    for j, key in enumerate(second.ask(w).keys):
        np.testing.assert_array_equal(first.plane(j, key).index, second.plane(j, key).index)
    some = [Perceptron(max_iter=300).fit(objective) for objective in (first, second)]
    np.testing.assert_allclose(some[0].weights, some[1].weights, atol=1e-9)
