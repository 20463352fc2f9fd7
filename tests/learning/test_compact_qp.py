"""CompactQP is the optimum of LP-M3N: of the dense reference, and of the exact M3N where the relaxation is tight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference.lp_m3n import local_examples, lp_objective, solve_lp_m3n
from reference.structured_svm import solve_margin_model
from sklearn.exceptions import ConvergenceWarning

import maxsum as ms
from maxsum.core.errors import InvalidSampleError, UnsupportedProblemError
from maxsum.core.result import Termination
from maxsum.learning import LPObjective, MarginObjective
from maxsum.learning.dual.compact_program import Program, n_nonzeros
from maxsum.learning.learners import compact_qp
from maxsum.learning.learners.compact_qp import CompactQP
from maxsum.learning.proofs.message_slacks import message_slacks
from maxsum.models import GraphModel, GraphSample
from maxsum.models.bound import FORBIDDEN
from maxsum.models.joint_model import JointModel
from maxsum.models.multilabel import MultiLabelModel

LOOPY = {
    "complete": ms.Graph.from_edges([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
    "bow tie": ms.Graph.from_edges([(1, 0), (1, 2), (2, 0), (2, 3), (4, 3), (4, 2)]),
}
TREE = ms.Graph.from_edges([(1, 0), (1, 2), (3, 1), (3, 4)])


def data(graph, n_labels, repulsive, n_examples=3, seed=0):
    """Labels that like or dislike their neighbours, under noise; repulsive ones make frustrated cycles."""
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n_examples):
        y = random.integers(n_labels, size=graph.n_nodes)
        for v in range(graph.n_nodes):
            near = [int(y[a if b == v else b]) for a, b in graph.edges.tolist() if v in (a, b)]
            count = np.bincount(near, minlength=n_labels) + 0.5 * random.random(n_labels)
            y[v] = np.argmin(count) if repulsive else np.argmax(count)
        samples.append(GraphSample(0.5 * np.eye(n_labels)[y] + random.standard_normal((graph.n_nodes, n_labels)), graph))
        labels.append(y)
    return samples, labels


def reference(objective, loss=None):
    return solve_lp_m3n(local_examples(objective.model, loss), objective.c, objective.cone.matrix.toarray())


def check(objective, result, expected):
    assert result.objective == pytest.approx(expected, rel=1e-5)
    assert result.lower_bound <= expected * (1 + 1e-7)
    assert result.relative_gap <= 1e-6
    assert result.termination == Termination.converged
    assert objective.cone.contains(result.weights)
    assert result.certificate.lower_bound(objective) == pytest.approx(result.lower_bound, rel=1e-9)
    verified = result.verify(objective)
    assert verified.objective == pytest.approx(expected, rel=1e-5)
    slack = message_slacks(objective, result.weights, result.extra["messages"])
    assert objective.primal(result.weights, slack) == pytest.approx(result.objective, rel=1e-12)


CASES = [
    ("general", 2, True), ("general", 3, False), ("general", 4, True), ("general", 5, True), ("supermodular", 2, True),
    ("supermodular", 3, False), ("supermodular", 4, True), ("associative", 2, False), ("associative", 3, False),
    ("associative", 5, True), ("potts", 3, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("solver", "potentials", "n_labels", "repulsive"),
    [("piqp", *case) for case in CASES] + [("clarabel", *case) for case in CASES[1::4]],
)
def test_loopy_graphs_reach_the_dense_reference_and_stay_above_the_exact_problem(solver, potentials, n_labels, repulsive):
    pytest.importorskip(solver)
    graph = LOOPY["bow tie" if n_labels < 4 else "complete"]
    samples, labels = data(graph, n_labels, repulsive)
    model = GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))
    objective = LPObjective(model, C=7.0)
    result = CompactQP(solver=solver).fit(objective)
    check(objective, result, reference(objective).value)
    if n_labels < 4:
        assert result.objective >= solve_margin_model(model, objective.c, 1e-7).value * (1 - 1e-7)


def test_the_relaxation_is_not_tight_somewhere():
    samples, labels = data(LOOPY["bow tie"], 3, True, n_examples=6)
    objective = LPObjective(GraphModel().bind(samples, labels, classes=np.arange(3)), C=100.0)
    assert CompactQP().fit(objective).lower_bound > 1.01 * solve_margin_model(objective.model, objective.c, 1e-7).value


@pytest.mark.parametrize(("potentials", "n_labels"), [("general", 2), ("general", 3), ("supermodular", 3), ("associative", 3)])
def test_trees_give_the_exact_problem(potentials, n_labels):
    samples, labels = data(TREE, n_labels, True)
    model = GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))
    objective = LPObjective(model, C=7.0)
    found, expected = CompactQP().fit(objective), solve_margin_model(model, objective.c, 1e-7).value
    assert found.lower_bound <= expected * (1 + 1e-7)
    check(objective, found, expected)


def test_one_variable_an_edge_and_label_says_as_much_as_all_messages():
    samples, labels = data(LOOPY["complete"], 4, False)
    small = LPObjective(GraphModel(potentials="associative").bind(samples, labels, classes=np.arange(4)), C=7.0)
    node, edge = 16, 4

    def joint_node(sample):
        return np.einsum("vf,kp->vkfp", sample.X, np.eye(4)).reshape(sample.n_nodes * 4, node) @ np.eye(node, node + edge)

    def joint_edge(sample):
        rows = np.zeros((sample.graph.n_edges, 4, 4, node + edge))
        rows[:, np.arange(4), np.arange(4), node + np.arange(4)] = 1.0
        return rows

    cone = ms.models.Cone.nonnegative(node + edge, node + np.arange(edge))
    full = LPObjective(JointModel(joint_node, joint_edge, node + edge, cone=cone).bind(samples, labels, np.arange(4)), C=7.0)
    one, two = CompactQP().fit(small), CompactQP().fit(full)
    assert (one.extra["relaxation"], two.extra["relaxation"]) == ("associative", "general")
    assert one.extra["n_rows"] < two.extra["n_rows"] and one.extra["n_variables"] < two.extra["n_variables"]
    check(small, one, two.objective)
    check(full, two, one.objective)


def test_edge_features_types_node_types_losses_and_sample_weights():
    random = np.random.default_rng(5)
    samples, labels = [], []
    for n in (4, 1, 5, 3):
        edges = [(a, b) for a in range(n) for b in range(a) if random.random() < 0.7]
        graph = ms.Graph.from_edges(edges, n_nodes=n)
        kinds = random.integers(2, size=n)
        samples.append(
            GraphSample(
                random.standard_normal((n, 2)), graph, random.standard_normal((len(edges), 2)), kinds, 1.0 + random.random(n)
            )
        )
        labels.append(np.array([random.integers(3 if kind else 2) for kind in kinds]))
    model = GraphModel(bias=True).bind(samples, labels, classes=[np.arange(2), np.arange(3)])
    objective = LPObjective(model, C=5.0, sample_weight=[1.0, 2.0, 0.0, 0.5])
    ptr = model.data.node_ptr
    loss = [objective.loss_table[ptr[j] : ptr[j + 1]] for j in range(4)]
    result = CompactQP().fit(objective)
    check(objective, result, reference(objective, loss).value)
    assert lp_objective(local_examples(model, loss), objective.c, result.weights) == pytest.approx(result.objective, rel=1e-6)


def test_graphs_without_edges_and_isolated_nodes():
    random = np.random.default_rng(2)
    graphs = [ms.Graph.from_edges([], n_nodes=3), ms.Graph.from_edges([(0, 2)], n_nodes=4)]
    for chosen in (graphs[:1], graphs):
        samples = [GraphSample(random.standard_normal((g.n_nodes, 2)), g) for g in chosen]
        labels = [random.integers(3, size=g.n_nodes) for g in chosen]
        objective = LPObjective(GraphModel().bind(samples, labels, classes=np.arange(3)), C=3.0)
        found = CompactQP().fit(objective)
        assert found.extra["messages"].shape == (2, len(objective.design.edges), 3)
        check(objective, found, reference(objective).value)


@pytest.mark.parametrize("potentials", ["general", "associative"])
def test_multi_label_problems(potentials):
    random = np.random.default_rng(1)
    x, y = random.standard_normal((8, 3)), (random.random((8, 4)) < 0.4).astype(int)
    model = MultiLabelModel(LOOPY["complete"], potentials).bind(x, y)
    objective = LPObjective(model, C=5.0)
    result = CompactQP().fit(objective)
    assert result.objective == pytest.approx(reference(objective).value, rel=1e-5)
    assert result.relative_gap <= 1e-6


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative"])
@pytest.mark.parametrize(("C", "scale"), [(1e-4, 1e3), (1e6, 1e-3), (1e6, 1e3)])
def test_any_scale_of_features_and_of_C(potentials, C, scale):
    samples, labels = data(LOOPY["bow tie"], 3, potentials == "general")
    samples = [GraphSample(scale * sample.X, sample.graph) for sample in samples]
    objective = LPObjective(GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(3)), C=C)
    result = CompactQP().fit(objective)
    assert result.relative_gap <= 1e-5


def test_a_time_limit_returns_what_is_known():
    samples, labels = data(ms.Graph.grid(6, 6), 3, False, n_examples=4)
    objective = LPObjective(GraphModel().bind(samples, labels, classes=np.arange(3)), C=20.0)
    best = CompactQP().fit(objective).objective
    for seconds in (0.0, 0.01):
        result = CompactQP(time_limit=seconds).fit(objective)
        assert result.lower_bound <= best * (1 + 1e-9) <= result.objective * (1 + 2e-9)
        assert result.termination == Termination.time_limit
        assert np.isfinite(result.objective) and result.extra["messages"].shape == (2, len(objective.design.edges), 3)
    few = CompactQP(max_iter=4).fit(objective)
    assert few.lower_bound <= best * (1 + 1e-9) and few.objective > best * (1 + 1e-6)
    assert few.termination != Termination.converged


def test_an_interrupt_leaves_the_trivial_bracket(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    samples, labels = data(TREE, 3, False)
    objective = LPObjective(GraphModel().bind(samples, labels, classes=np.arange(3)), C=2.0)
    monkeypatch.setitem(compact_qp._SOLVE, "piqp", interrupted)
    result = CompactQP().fit(objective)
    assert result.termination == Termination.interrupted
    assert result.lower_bound == 0.0
    assert result.objective == pytest.approx(objective.c @ message_slacks(objective, result.weights, result.extra["messages"]))


def test_size_is_counted_before_anything_is_built():
    samples, labels = data(ms.Graph.grid(4, 4), 3, False)
    for potentials in ("general", "associative", "supermodular"):
        objective = LPObjective(GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(3)), C=1.0)
        program, size = Program.of(objective), n_nonzeros(objective)
        assert size >= program.matrix.nnz - objective.cone.rows.nnz >= 0.8 * size
        with pytest.raises(UnsupportedProblemError, match="nonzeros"):
            CompactQP(max_nonzeros=100).fit(objective)


@pytest.mark.parametrize(
    "options", [{"solver": "simplex"}, {"tol": -1.0}, {"max_iter": 0}, {"max_nonzeros": 0}, {"time_limit": -1.0}], ids=str
)
def test_bad_parameters_are_refused(options):
    samples, labels = data(TREE, 2, False)
    objective = LPObjective(GraphModel().bind(samples, labels, classes=np.arange(2)), C=1.0)
    with pytest.raises(ValueError, match="wanted"):
        CompactQP(**options).fit(objective)


def test_other_surrogates_are_refused():
    samples, labels = data(TREE, 2, False)
    model = GraphModel().bind(samples, labels, classes=np.arange(2))
    for objective in (ms.learning.TrivialObjective(model), MarginObjective(model)):
        with pytest.raises(UnsupportedProblemError, match="HasRelaxation"):
            CompactQP().fit(objective)
    with pytest.raises(UnsupportedProblemError, match="SmoothedLP"):
        CompactQP().fit(LPObjective(model, smoothing=0.1))


def test_forbidden_pairs_are_refused():
    samples, labels = data(TREE, 2, False)
    model = GraphModel().bind(samples, labels, classes=np.arange(2))
    index = model.edge_index.copy()
    index[0, 0, 1] = FORBIDDEN
    objective = LPObjective(model, C=1.0)
    objective.model = replace(model, edge_index=index)
    with pytest.raises(InvalidSampleError, match="forbids"):
        CompactQP().fit(objective)


def test_multipliers_that_are_no_numbers_bound_nothing(monkeypatch):
    """A solver stopped after one iteration was seen to leave such: the weights count, with the bound that there was."""
    solve = compact_qp._SOLVE["piqp"]

    def broken(*arguments):
        found = solve(*arguments)
        return found._replace(z=np.full_like(found.z, np.nan))

    monkeypatch.setitem(compact_qp._SOLVE, "piqp", broken)
    rng = np.random.default_rng(0)
    X = [ms.GraphSample(rng.normal(size=(4, 2)), ms.Graph.grid(2, 2)) for _ in range(2)]
    y = [rng.integers(0, 2, size=4) for _ in range(2)]
    with pytest.warns(ConvergenceWarning):
        net = ms.GraphLabeler("potts", "lp", learner="CompactQP", max_iter=1, tol=1e-6).fit(X, y)
    assert np.isfinite(net.weights_).all() and net.result_.lower_bound <= net.result_.objective
