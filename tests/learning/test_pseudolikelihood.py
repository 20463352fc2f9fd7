"""Pseudo-likelihood: the objective against conditionals by enumeration, its gradient by differences, and through the estimators."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.learning import ProjectedQuasiNewton, PseudoLikelihoodObjective
from maxsum.models import GraphModel


def samples(random: np.random.Generator, n_edge_features: int = 0, n: int = 3):
    graphs = [ms.Graph.grid(2, 3), ms.Graph.complete(4), ms.Graph.chain(1)][:n]
    X = []
    for graph in graphs:
        f = random.random((graph.n_edges, n_edge_features)) if n_edge_features else None
        X.append(ms.GraphSample(random.normal(size=(graph.n_nodes, 2)), graph, edge_features=f))
    return X, [random.integers(0, 3, graph.n_nodes) for graph in graphs]


def enumerated(objective: PseudoLikelihoodObjective, w: np.ndarray) -> float:
    """The objective from scores of whole labellings alone: a label changes, the others stay."""
    value, model = 0.5 * float(w @ w), objective.model
    ptr = model.data.node_ptr
    for j, problem in enumerate(model.problems(w)):
        truth = np.array(model.labels[ptr[j] : ptr[j + 1]])
        for v in range(problem.n_nodes):
            scores = []
            for k in range(problem.n_states[v]):
                other = truth.copy()
                other[v] = k
                scores.append(problem.score(other))
            value += objective.c[j] * (np.logaddexp.reduce(scores) - scores[truth[v]])
    return value


@pytest.mark.parametrize("n_edge_features", [0, 2])
@pytest.mark.parametrize("potentials", ["general", "potts", "associative", "supermodular"])
def test_value_and_gradient(potentials: str, n_edge_features: int) -> None:
    random = np.random.default_rng(3)
    X, y = samples(random, n_edge_features)
    model = GraphModel(potentials=potentials, bias=True).bind(X, y, [0, 1, 2])
    objective = PseudoLikelihoodObjective(model, 0.7, [1.0, 2.0, 0.5])
    w = objective.project(random.normal(size=model.n_weights))
    found = objective.ask(w)
    assert found.value == pytest.approx(enumerated(objective, w), rel=1e-12)
    step = 1e-6
    for i in random.permutation(model.n_weights)[:12]:
        turn = np.zeros(len(w))
        turn[i] = step
        slope = (objective.ask(w + turn).value - objective.ask(w - turn).value) / (2 * step)
        assert found.gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_labels_of_nodes_differ() -> None:
    """Types of nodes with two and three labels."""
    random = np.random.default_rng(0)
    graph = ms.Graph.from_edges([(0, 1), (1, 2), (2, 3)], 4, edge_type=np.array([0, 0, 0]))
    X = [ms.GraphSample(random.normal(size=(4, 2)), graph, node_types=np.array([0, 1, 0, 1])) for _ in range(2)]
    y = [np.array([0, 2, 1, 0]), np.array([1, 1, 0, 2])]
    model = GraphModel().bind(X, y, [[0, 1], [0, 1, 2]])
    objective = PseudoLikelihoodObjective(model, 1.0)
    w = random.normal(size=model.n_weights)
    assert objective.ask(w).value == pytest.approx(enumerated(objective, w), rel=1e-12)


def test_without_edges_it_is_the_likelihood() -> None:
    random = np.random.default_rng(1)
    X = [ms.GraphSample(random.normal(size=(5, 2)), ms.Graph.from_edges([], n_nodes=5))]
    y = [random.integers(0, 3, 5)]
    both = [
        ms.GraphLabeler(surrogate=name, C=3.0, tol=1e-8, classes=[0, 1, 2]).fit(X, y)
        for name in ("likelihood", "pseudolikelihood")
    ]
    np.testing.assert_allclose(both[0].weights_, both[1].weights_, atol=1e-4)


def test_it_finds_the_model_that_made_the_labels() -> None:
    """Labels are drawn from a Potts model on grids by Gibbs sampling: its coupling is found again."""
    random, graph, coupling = np.random.default_rng(0), ms.Graph.grid(12, 12), 0.6
    near = [[] for _ in range(graph.n_nodes)]
    for u, v in graph.edges.tolist():
        near[u].append(v)
        near[v].append(u)
    X, y = [], []
    for _ in range(6):
        x, labels = random.normal(size=graph.n_nodes), random.integers(0, 2, graph.n_nodes)
        for _ in range(60):
            for v in range(graph.n_nodes):
                score = x[v] + coupling * (2 * labels[near[v]].sum() - len(near[v]))
                labels[v] = random.random() < 1.0 / (1.0 + np.exp(-score))
        X.append(ms.GraphSample(x[:, None], graph))
        y.append(labels)
    net = ms.GraphLabeler("potts", "pseudolikelihood", C=10.0).fit(X, y)
    problem = net.problems(X[:1])[0]
    table = problem.tables[problem.edge_table[0]] * problem.edge_weight[0]
    assert table[0, 0] - table[0, 1] == pytest.approx(coupling, abs=0.1)
    assert net.result_.relative_gap <= 1e-3
    check = net.result_.verify(net.objective_)
    assert check.gap <= 1.01e-3 * check.objective
    node = net.predict_marginals([ms.GraphSample(np.zeros((4, 1)), ms.Graph.chain(4))])[0]
    assert node.shape == (4, 2) and np.allclose(node.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", [ms.GridLabeler, ms.SequenceLabeler, ms.MultiLabelClassifier])
def test_every_estimator_has_it(kind: type) -> None:
    random = np.random.default_rng(2)
    if kind is ms.MultiLabelClassifier:
        X, y = random.normal(size=(12, 3)), random.integers(0, 2, (12, 3))
    else:
        shape = (3, 4) if kind is ms.GridLabeler else (5,)
        X = [random.normal(size=(*shape, 3)) for _ in range(4)]
        y = [x.argmax(axis=-1) for x in X]
    net = kind(surrogate="pseudolikelihood", C=1.0).fit(X, y)
    w = net.result_.weights
    if kind is not ms.MultiLabelClassifier:
        assert net.objective_.ask(w).value == pytest.approx(enumerated(net.objective_, w), rel=1e-10)
    turn = 1e-6 * random.normal(size=len(w))
    slope = net.objective_.ask(w + 1.0 + turn).value - net.objective_.ask(w + 1.0 - turn).value
    assert 2 * float(net.objective_.ask(w + 1.0).gradient @ turn) == pytest.approx(slope, rel=1e-4)
    assert net.result_.relative_gap <= 1e-3 and net.score(X, y) > 0.3


def test_what_it_refuses() -> None:
    random = np.random.default_rng(0)
    X, y = samples(random, n=1)
    with pytest.raises(InvalidParameterError, match="a pseudo-likelihood has no loss"):
        ms.GraphLabeler(surrogate="pseudolikelihood", loss="normalised").fit(X, y)
    with pytest.raises(InvalidSampleError, match="bound without labels"):
        PseudoLikelihoodObjective(GraphModel().bind(X, None, [0, 1, 2]))
    weighted = [ms.GraphSample(X[0].X, X[0].graph, node_weights=np.full(6, 0.5))]
    with pytest.raises(InvalidSampleError, match="node_weights"):
        PseudoLikelihoodObjective(GraphModel().bind(weighted, y, [0, 1, 2]))
    assert ProjectedQuasiNewton(max_iter=2).fit(PseudoLikelihoodObjective(GraphModel().bind(X, y, [0, 1, 2]))).objective > 0
