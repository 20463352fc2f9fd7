"""Every learner reaches the optimum of the enumerated structured SVM, and its bounds are true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reference.structured_svm import enumerate_planes, solve_structured_svm

import maxsum as ms
from maxsum.learning import BlockFrankWolfe, CuttingPlane, LPObjective, MarginObjective, Subgradient
from maxsum.models import GraphModel, GraphSample

GRAPHS = {
    "chain": ms.Graph.chain(4),
    "cycle": ms.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)]),
    "star": ms.Graph.from_edges([(0, 1), (0, 2), (0, 3)]),
}
LEARNERS = {
    "BlockFrankWolfe": BlockFrankWolfe(tol=1e-6, max_iter=3000),
    "plain steps": BlockFrankWolfe(tol=1e-6, max_iter=3000, cached_passes=0),
    "one plane": BlockFrankWolfe(tol=1e-6, max_iter=3000, max_planes=1),
    "CuttingPlane": CuttingPlane(tol=1e-6, max_iter=3000),
    "not stabilised": CuttingPlane(tol=1e-6, max_iter=3000, stabilise=False),
    "one slack": CuttingPlane(tol=1e-6, max_iter=3000, slacks="one"),
}


def data(graph, n_labels, repulsive, n_examples=5, seed=0):
    """Smooth (or alternating) labels under noise, so that edges matter and the data are inconsistent."""
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n_examples):
        first = random.integers(n_labels)
        y = np.array(
            [(first + (v if repulsive else random.random() < 0.25)) % n_labels for v in range(graph.n_nodes)], dtype=int
        )
        samples.append(GraphSample(np.eye(n_labels)[y] + 0.8 * random.standard_normal((graph.n_nodes, n_labels)), graph))
        labels.append(y)
    return samples, labels


def reference(model, c):
    planes = [
        enumerate_planes(model.truth(j), model.n_labels, lambda y, j=j: model.feature(j, y), lambda t, y: float((t != y).sum()))
        for j in range(model.n_examples)
    ]
    return solve_structured_svm(planes, c, model.cone.matrix.toarray())


CASES = [
    ("general", 2, False), ("general", 3, True), ("general", 4, False), ("supermodular", 2, False), ("supermodular", 3, False),
    ("supermodular", 3, True), ("associative", 2, False), ("associative", 3, True), ("associative", 4, False), ("potts", 3, False),
]  # fmt: skip


@pytest.fixture(scope="module")
def references():
    return {}


@pytest.mark.parametrize(("potentials", "n_labels", "repulsive"), CASES)
@pytest.mark.parametrize(
    ("learner", "graph"),
    [(name, "chain") for name in LEARNERS]
    + [(name, graph) for name in ("BlockFrankWolfe", "CuttingPlane") for graph in ("cycle", "star")],
)
def test_learner_reaches_the_enumerated_optimum(references, learner, potentials, n_labels, repulsive, graph):
    samples, labels = data(GRAPHS[graph], n_labels, repulsive)
    model = GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))
    objective = MarginObjective(model, C=7.0)
    key = (potentials, n_labels, repulsive, graph)
    if key not in references:
        references[key] = reference(model, objective.c)
    expected = references[key].value
    result = LEARNERS[learner].fit(objective)
    assert result.lower_bound <= expected * (1 + 1e-8) <= result.objective * (1 + 2e-8)
    assert result.objective <= expected * (1 + 1e-5)
    assert model.cone.contains(result.weights)
    check = result.verify(objective)
    assert check.objective == pytest.approx(result.objective, rel=1e-7)
    assert check.lower_bound == pytest.approx(result.lower_bound, rel=1e-7)
    np.testing.assert_allclose(result.weights, references[key].weights, atol=3e-2)


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative"])
def test_subgradient_comes_near_and_its_bound_is_true(potentials):
    samples, labels = data(GRAPHS["chain"], 3, False)
    model = GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(3))
    objective = MarginObjective(model, C=7.0 / model.n_examples)
    expected = reference(model, objective.c).value
    result = Subgradient(tol=2e-2, max_iter=200).fit(objective)
    assert result.lower_bound <= expected <= result.objective
    assert result.relative_gap <= 4e-2
    check = result.verify(objective)
    assert check.lower_bound == pytest.approx(result.lower_bound, rel=1e-6)
    assert check.objective == pytest.approx(result.objective, rel=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"averaging": True}, {"gap_sampling": True}, {"averaging": True, "gap_sampling": True}], ids=str
)
def test_plain_frank_wolfe_steps_come_near(options):
    samples, labels = data(GRAPHS["chain"], 3, False)
    model = GraphModel(potentials="associative").bind(samples, labels, classes=np.arange(3))
    objective = MarginObjective(model, C=7.0)
    expected = reference(model, objective.c).value
    result = BlockFrankWolfe(tol=1e-3, max_iter=2000, corrective=False, cached_passes=0, **options).fit(objective)
    assert result.lower_bound <= expected * (1 + 1e-8) <= result.objective * (1 + 2e-8)
    assert result.objective <= expected * (1 + 1e-3)


@pytest.mark.parametrize("learner", [BlockFrankWolfe(), CuttingPlane(), CuttingPlane(slacks="one"), Subgradient()], ids=str)
def test_the_dual_never_falls_and_the_trace_is_a_bracket(learner):
    samples, labels = data(GRAPHS["cycle"], 3, False)
    model = GraphModel(potentials="supermodular").bind(samples, labels)
    result = type(learner)(tol=1e-3, max_iter=60).fit(MarginObjective(model, C=7.0))
    bounds = np.array([point.lower_bound for point in result.trace])
    objectives = np.array([point.objective for point in result.trace])
    assert (np.diff(bounds) >= 0).all()
    assert (np.diff(objectives) <= 0).all()
    assert bounds[-1] <= result.lower_bound <= result.objective == objectives[-1]


def test_one_node_examples_give_the_multi_class_svm_of_crammer_and_singer():
    svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is not installed")
    random = np.random.default_rng(3)
    y = random.integers(3, size=60)
    x = np.eye(3)[y] + 0.7 * random.standard_normal((60, 3))
    model = GraphModel().bind([GraphSample(row[None], ms.Graph.chain(1)) for row in x], y[:, None])
    objective = MarginObjective(model, C=0.5)
    result = BlockFrankWolfe(tol=1e-5).fit(objective)
    other = svm.LinearSVC(multi_class="crammer_singer", C=0.5, fit_intercept=False, tol=1e-8, max_iter=100_000).fit(x, y)
    margin = 1.0 + x @ other.coef_.T - (x @ other.coef_.T)[np.arange(60), y][:, None]
    margin[np.arange(60), y] = 0.0
    theirs = 0.5 * (other.coef_**2).sum() + 0.5 * margin.max(axis=1).sum()
    assert result.objective == pytest.approx(theirs, rel=1e-3)


def test_two_classes_give_the_binary_svm():
    svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is not installed")
    random = np.random.default_rng(4)
    y = random.integers(2, size=50)
    x = (2 * y[:, None] - 1) * 0.5 + random.standard_normal((50, 3))
    model = GraphModel().bind([GraphSample(row[None], ms.Graph.chain(1)) for row in x], y[:, None])
    result = BlockFrankWolfe(tol=1e-6).fit(MarginObjective(model, C=0.4))
    weights = result.weights[:6].reshape(3, 2)
    difference = weights[:, 1] - weights[:, 0]
    np.testing.assert_allclose(weights.sum(axis=1), 0, atol=1e-6)
    theirs = svm.LinearSVC(loss="hinge", C=2 * 0.4, fit_intercept=False, tol=1e-9, max_iter=200_000).fit(x, y).coef_[0]
    np.testing.assert_allclose(difference, theirs, atol=2e-2)


def test_features_as_they_come_do_not_stall_the_default(tmp_path: Path) -> None:
    """Bytes from 0 to 255: block steps alone crawl, the master of all kept planes does not; and a training goes on from it bit for bit."""
    rng = np.random.default_rng(0)
    graph, truth = ms.Graph.grid(8, 8), np.repeat(np.arange(2), 32)
    centre = np.array([[90.0, 120.0, 150.0], [110.0, 125.0, 140.0]])
    samples = [ms.GraphSample(np.clip(centre[truth] + 40 * rng.normal(size=(64, 3)), 0, 255).round(), graph) for _ in range(3)]
    model = GraphModel().bind(samples, [truth] * 3)
    found = {
        master: BlockFrankWolfe(tol=1e-2, max_iter=150, master=master).fit(LPObjective(model, C=3.0))
        for master in (True, False)
    }
    best = CuttingPlane(tol=1e-4, max_iter=1000).fit(LPObjective(model, C=3.0))
    assert found[True].termination == "converged" and found[False].relative_gap > 0.1
    assert best.lower_bound <= found[True].objective <= best.objective * 1.011
    found[True].verify(LPObjective(model, C=3.0))
    file, steps = tmp_path / "state.npz", found[True].n_iter - 2
    BlockFrankWolfe(tol=1e-2, max_iter=steps, checkpoint=file).fit(LPObjective(model, C=3.0))
    again = BlockFrankWolfe(tol=1e-2, max_iter=150, checkpoint=file).fit(LPObjective(model, C=3.0))
    assert again.n_iter == found[True].n_iter and again.weights.tobytes() == found[True].weights.tobytes()
