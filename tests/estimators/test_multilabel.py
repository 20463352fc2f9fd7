"""MultiLabelClassifier: scikit-learn's checks, exact training and prediction, label graphs, weights of samples, cross-validation."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from factories.samples import linked_table
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxsum.core.errors import InvalidGraphError, InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from maxsum.estimators.cross.multilabel import MultiLabelClassifierCV
from maxsum.estimators.multilabel import MultiLabelClassifier
from maxsum.inference import Exhaustive
from maxsum.learning import BlockFrankWolfe, path
from maxsum.learning.learners.subset_ascent import SubsetAscent
from maxsum.learning.objectives.multilabel import MultiLabelObjective, best_labels, label_margins
from maxsum.models.multilabel import MultiLabelModel, label_graph, multiclass


@parametrize_with_checks([MultiLabelClassifier(), MultiLabelClassifierCV(Cs=[1.0, 10.0], cv=3)])
def test_scikit_learn(estimator: Any, check: Any) -> None:
    assert check(estimator) is None


def bound(graph: Any = "complete", potentials: str = "general", csr: bool = False, **sizes: int) -> Any:
    X, Y = linked_table(**sizes)
    given = label_graph(graph, Y, np.ones(len(Y)))
    return MultiLabelModel(given, potentials).bind(sparse.csr_array(X) if csr else X, Y)


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("potentials", ["general", "potts", "supermodular"])
def test_model_contract(potentials: str, csr: bool) -> None:
    """``w @ feature(j, y) == problem(w, j).score(y)``, and the kernels' arrays say the same."""
    model = bound(potentials=potentials, csr=csr)
    random = np.random.default_rng(1)
    w = random.standard_normal(model.n_weights)
    objective = MultiLabelObjective(model)
    assert len(model.names) == model.n_weights == len(set(model.names))
    for j in (0, 7, 39):
        y = random.integers(0, 2, 4)
        assert model.problem(w, j).score(y) == pytest.approx(w @ model.feature(j, y), abs=1e-12)
        plane = objective.plane(j, y)
        by_kernels = super(MultiLabelObjective, objective).values(w, np.array([j]), [y])
        assert objective.values(w, np.array([j]), [y]) == pytest.approx(by_kernels, abs=1e-12)
        assert by_kernels[0] == pytest.approx(plane.offset - w[plane.index] @ plane.value, abs=1e-12)
    every = model.problems(w)
    assert np.allclose([p.unary for p in every][7], model.problem(w, 7).unary)


def test_oracle_and_margins_are_those_of_enumeration() -> None:
    model = bound([[3, 1], [0, 1], [2, 3]])
    w = np.random.default_rng(2).standard_normal(model.n_weights)
    objective = MultiLabelObjective(model)
    answer = objective.ask(w)
    labels, margins = best_labels(model, w, model.data.x), label_margins(model, w, model.data.x)
    subsets = np.array(list(itertools.product([0, 1], repeat=4)))
    for j in range(10):
        problem = objective.loss_problem(w, j)
        best = max(problem.score(s) for s in subsets)
        assert problem.score(answer.keys[j]) == pytest.approx(best)
        assert answer.upper[j] == answer.value[j] == pytest.approx(best - problem.score(model.truth(j)))
        plain = model.problem(w, j)
        value = np.array([plain.score(s) for s in subsets])
        assert plain.score(labels[j]) == pytest.approx(value.max())
        for m in range(4):
            assert margins[j, m] == pytest.approx(value[subsets[:, m] == 1].max() - value[subsets[:, m] == 0].max())


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("graph", ["complete", "none", [[2, 0], [1, 3]]])
def test_subset_ascent_finds_the_optimum(graph: Any, csr: bool) -> None:
    model = bound(graph, csr=csr)
    weight = np.random.default_rng(3).integers(1, 4, model.n_examples)
    objective = MultiLabelObjective(model, C=20.0, sample_weight=weight)
    ours = SubsetAscent(tol=1e-6, max_iter=5000).fit(objective)
    other = BlockFrankWolfe(tol=1e-6, max_iter=5000).fit(objective)
    assert ours.relative_gap <= 1e-6
    assert ours.objective == pytest.approx(other.objective, rel=3e-6)
    assert ours.lower_bound <= other.objective and other.lower_bound <= ours.objective
    assert ours.certificate is not None
    checked = ours.verify(objective)
    assert checked.objective == pytest.approx(ours.objective) and checked.lower_bound == pytest.approx(ours.lower_bound)
    assert np.abs(ours.weights - other.weights).max() < 0.05


def test_a_path_shares_planes_and_proves_each_value() -> None:
    objective = MultiLabelObjective(bound())
    values = [0.02, 0.08, 0.3]
    for result in path(SubsetAscent(tol=1e-4), objective, values):
        objective.set_C(result.extra["C"])
        assert result.relative_gap <= 1e-4 and result.certificate is not None
        assert result.verify(objective).lower_bound == pytest.approx(result.lower_bound)


def test_a_path_of_14_values_costs_about_3_times_its_last() -> None:
    model = bound(n=150, d=10)
    values = 2.0 ** np.arange(14)
    whole = sum(result.n_oracle_calls for result in path(SubsetAscent(tol=1e-2), MultiLabelObjective(model), values))
    alone = SubsetAscent(tol=1e-2).fit(MultiLabelObjective(model, C=values[-1])).n_oracle_calls
    assert whole <= 3.3 * alone  # 2.9 to 3.03 by the last bits of the sums, which differ between processors


def test_features_are_not_repeated_for_each_label() -> None:
    objective = MultiLabelObjective(bound())
    SubsetAscent().fit(objective)
    assert "design" not in vars(objective)
    BlockFrankWolfe(max_iter=1).fit(objective)
    assert "design" in vars(objective)


def test_training_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    objective = MultiLabelObjective(bound(), C=50.0)
    whole = SubsetAscent(tol=0, max_iter=12).fit(objective)
    file = tmp_path / "state.npz"
    SubsetAscent(tol=0, max_iter=5, checkpoint=file).fit(objective)
    again = SubsetAscent(tol=0, max_iter=12, checkpoint=file).fit(objective)
    assert again.n_iter == 12 and np.isfinite(again.relative_gap)
    assert again.lower_bound == pytest.approx(whole.lower_bound, rel=1e-9)


def test_learner_refuses_what_it_cannot_do() -> None:
    for model in (bound(n_labels=9), bound(potentials="potts"), bound(potentials="supermodular")):
        with pytest.raises(UnsupportedProblemError, match="Learners that minimise it: BlockFrankWolfe"):
            SubsetAscent().fit(MultiLabelObjective(model))


@pytest.mark.parametrize(("graph", "n_edges"), [("complete", 6), ("tree", 3), ("none", 0), ([[0, 3]], 1)])
def test_label_graphs(graph: Any, n_edges: int) -> None:
    X, Y = linked_table()
    net = MultiLabelClassifier(label_graph=graph, C=30.0).fit(X, Y)
    assert net.graph_ is not None and net.graph_.n_edges == n_edges and net.result_.relative_gap <= 1e-3
    assert net.predict(X).shape == Y.shape and (net.predict(X) == Y).mean() > 0.8
    assert net.coef_blocks_["edges"].shape == (n_edges, 2, 2) and net.coef_blocks_["nodes"].shape == (4, 5)
    assert ((net.decision_function(X) > 0) == net.predict(X)).all()
    assert "SubsetAscent" in net.result_.message
    results = net.predict_result(X[:6])
    assert (np.array([r.labels for r in results]) == net.predict(X[:6])).all()
    assert all(r.guarantee == "optimal" for r in results)


def test_the_tree_has_the_most_mutual_information() -> None:
    random = np.random.default_rng(0)
    Y = random.integers(0, 2, (400, 4))
    Y[:, 2] = np.where(random.random(400) < 0.9, Y[:, 0], Y[:, 2])
    Y[:, 1] = np.where(random.random(400) < 0.8, 1 - Y[:, 3], Y[:, 1])
    Y[:, 3] = np.where(random.random(400) < 0.5, Y[:, 2], Y[:, 3])
    pairs = {tuple(sorted(edge)) for edge in label_graph("tree", Y, np.ones(400)).edges.tolist()}
    assert len(pairs) == 3 and (0, 2) in pairs

    def information(u: int, v: int) -> float:
        table = np.histogram2d(Y[:, u], Y[:, v], bins=2)[0] / 400
        return float((table * np.log(table / np.outer(table.sum(1), table.sum(0)))).sum())

    def is_tree(edges: Any) -> bool:
        reach = {0}
        for _ in range(3):
            reach |= {v for u, v in edges if u in reach} | {u for u, v in edges if v in reach}
        return len(reach) == 4

    trees = [e for e in itertools.combinations(itertools.combinations(range(4), 2), 3) if is_tree(e)]
    assert sum(information(*e) for e in pairs) == pytest.approx(max(sum(information(*e) for e in t) for t in trees))


def test_without_edges_it_is_a_support_vector_machine() -> None:
    X, Y = linked_table(n=60)
    ours = MultiLabelClassifier(label_graph="none", C=1.0, tol=1e-7, max_iter=20000).fit(X, Y)
    for m in range(4):
        svm = LinearSVC(loss="hinge", C=1.0, tol=1e-8, max_iter=200000, fit_intercept=True).fit(X, Y[:, m])
        assert np.allclose(ours.coef_blocks_["nodes"][m], svm.coef_[0], atol=2e-3)
    one = MultiLabelClassifier(C=1.0, tol=1e-7, max_iter=20000).fit(X, np.array(["no", "yes"])[Y[:, 0]])
    assert np.allclose(one.coef_blocks_["nodes"][0], ours.coef_blocks_["nodes"][0], atol=2e-3)
    assert one.classes_.tolist() == ["no", "yes"] and one.decision_function(X).shape == (60,)


def test_several_classes_are_crammer_singer() -> None:
    X, Y = linked_table(n=60)
    y = Y[:, 0] + Y[:, 1]
    ours = MultiLabelClassifier(C=1.0, tol=1e-6, max_iter=5000, bias=False).fit(X, y)
    svm = LinearSVC(multi_class="crammer_singer", C=1.0, tol=1e-8, max_iter=100000, fit_intercept=False).fit(X, y)
    assert np.allclose(ours.coef_blocks_["nodes"], svm.coef_, atol=5e-3)
    model = multiclass(X, y, np.arange(3))
    assert model.problem(ours.weights_, 3).score([2]) == pytest.approx(ours.weights_ @ model.feature(3, [2]))


def test_more_labels_than_are_enumerated() -> None:
    for graph, n_labels in (("tree", 14), ([[0, 1], [1, 2], [2, 0]], 19), ("complete", 13)):
        X, Y = linked_table(n=25, n_labels=n_labels)
        net = MultiLabelClassifier(label_graph=graph, C=20.0, tol=1e-2).fit(X, Y)
        assert net.result_.relative_gap <= 1e-2 and "BlockFrankWolfe" in net.result_.message
        assert (net.predict(X) == Y).mean() > 0.8
        assert ((net.decision_function(X[:3]) > 0) == net.predict(X[:3])).all()


def test_supermodular_tables() -> None:
    X, Y = linked_table()
    net = MultiLabelClassifier(potentials="supermodular", C=20.0).fit(X, Y)
    assert net.result_.certificate is not None
    checked = net.result_.verify(net.objective_)
    assert checked.gap <= 1.01e-3 * checked.objective and net.result_.learner == "BlockFrankWolfe"
    edge = net.coef_blocks_["edges"]
    assert (edge[:, 0, 0] + edge[:, 1, 1] - edge[:, 0, 1] - edge[:, 1, 0] >= 0).all()
    free = MultiLabelClassifier(C=20.0).fit(X, Y).coef_blocks_["edges"]
    assert (free[:, 0, 0] + free[:, 1, 1] - free[:, 0, 1] - free[:, 1, 0] < 0).any()


def test_weights_order_and_storage_of_samples_change_nothing() -> None:
    X, Y = linked_table()
    weight = np.random.default_rng(5).integers(0, 3, len(X))
    ours = MultiLabelClassifier(C=5.0).fit(X, Y, sample_weight=weight)
    order = np.random.default_rng(6).permutation(np.repeat(np.arange(len(X)), weight))
    again = MultiLabelClassifier(C=5.0).fit(X[order], Y[order])
    assert (ours.weights_ == again.weights_).all()
    stored = MultiLabelClassifier(C=5.0, tol=1e-8, max_iter=9999).fit(
        sparse.csr_matrix(X), sparse.csr_matrix(Y), sample_weight=weight
    )
    tight = MultiLabelClassifier(C=5.0, tol=1e-8, max_iter=9999).fit(X, Y, sample_weight=weight)
    assert np.allclose(stored.weights_, tight.weights_, atol=1e-3)
    assert (stored.predict(sparse.csr_matrix(X)) == tight.predict(X)).all()
    assert not np.allclose(ours.weights_, MultiLabelClassifier(C=5.0).fit(X, Y).weights_, atol=1e-3)


def test_at_home_in_scikit_learn() -> None:
    X, Y = linked_table()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MultiLabelClassifier(tol=1e-2)), {"multilabelclassifier__C": [0.01, 30.0]}, cv=3
    )
    search.fit(X, Y)
    assert search.best_params_ == {"multilabelclassifier__C": 30.0}
    net = MultiLabelClassifier(C=7.0).fit(X, Y)
    again = pickle.loads(pickle.dumps(net))
    assert (again.predict(X) == net.predict(X)).all() and clone(net).C == 7.0
    assert again.result_.verify(again.objective_).gap == pytest.approx(net.result_.gap, abs=1e-6)
    X.flags.writeable = False
    assert (MultiLabelClassifier(C=7.0).fit(X, Y).weights_ == net.weights_).all()


def test_parameters_have_effects() -> None:
    X, Y = linked_table()
    with pytest.warns(ConvergenceWarning, match="relative gap of .*wanted 1e-09"):
        few = MultiLabelClassifier(C=100.0, tol=1e-9, max_iter=3).fit(X, Y)
    assert few.n_iter_ == 3 and few.result_.gap > 0
    with pytest.warns(ConvergenceWarning, match="time limit"):
        MultiLabelClassifier(C=1.0, tol=1e-12, max_iter=10**6, time_limit=1e-4).fit(X, Y)
    points: list[Any] = []

    def stop(point: Any) -> bool:
        points.append(point)
        return len(points) == 2

    with pytest.warns(ConvergenceWarning, match="stopped"):
        MultiLabelClassifier(C=100.0, callback=stop).fit(X, Y)
    assert len(points) == 2
    assert "bias" not in MultiLabelClassifier(bias=False).fit(X, Y).coef_blocks_
    assert MultiLabelClassifier(learner="BlockFrankWolfe").fit(X, Y).result_.learner == "BlockFrankWolfe"
    assert MultiLabelClassifier(learner=SubsetAscent(tol=0.5)).fit(X, Y).result_.relative_gap > 1e-3
    a, b = (MultiLabelClassifier(C=50.0, random_state=seed).fit(X, Y).weights_ for seed in (0, 1))
    assert (a != b).any()


def test_features_far_from_zero() -> None:
    """Coordinate ascent crawls here; the cutting planes that take over do not."""
    random = np.random.default_rng(0)
    X, y = random.normal(loc=100.0, size=(50, 2)), random.integers(0, 2, 50)
    net = MultiLabelClassifier(C=100.0).fit(X, y)
    assert net.result_.learner == "CuttingPlane" and net.result_.relative_gap <= 1e-3
    assert "SubsetAscent was left at" in net.result_.message and net.n_iter_ > 100
    assert net.result_.certificate is not None
    assert net.result_.verify(net.objective_).gap <= 2e-3 * net.result_.objective
    with pytest.warns(ConvergenceWarning, match="SubsetAscent"):
        MultiLabelClassifier(C=100.0, learner="SubsetAscent", max_iter=150).fit(X, y)


def test_bad_input() -> None:
    X, Y = linked_table()
    with pytest.raises(InvalidGraphError, match="9"):
        MultiLabelClassifier(label_graph=[[0, 9]]).fit(X, Y)
    for given, message in (
        (dict(label_graph="star"), "label_graph is 'star', wanted one of complete, tree, none"),
        (dict(learner="Adam"), "learner is 'Adam', wanted"),
        (dict(C=-1.0), "C is -1.0"),
        (dict(n_jobs=0), "n_jobs is 0"),
        (dict(potentials="convex"), "potentials is 'convex'"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            MultiLabelClassifier(**given).fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="multiclass-multioutput"):
        MultiLabelClassifier().fit(X, Y + np.arange(4))
    with pytest.raises(InvalidSampleError, match=r"y of sample .* has 2 for label"):
        MultiLabelClassifier().fit(X, 2 * Y)
    with pytest.raises(ValueError, match=r"not all 0|non-zero"):
        MultiLabelClassifier().fit(X, Y, sample_weight=np.zeros(len(X)))


def test_labels_that_never_change() -> None:
    X, Y = linked_table()
    Y[:, 1], Y[:, 2] = 0, 1
    found = MultiLabelClassifier(C=30.0).fit(X, Y).predict(X)
    assert (found[:, 1] == 0).all() and (found[:, 2] == 1).all()
    assert (MultiLabelClassifier(label_graph="tree").fit(X, np.zeros_like(Y)).predict(X) == 0).all()


def test_cross_validation_chooses_C() -> None:
    X, Y = linked_table(n=80)
    net = MultiLabelClassifierCV(Cs=[100.0, 0.001, 10.0], cv=4, tol=1e-2).fit(X, Y)
    assert net.scores_.shape == (3, 4) and net.C_ in (10.0, 100.0) and net.Cs_.tolist() == [0.001, 10.0, 100.0]
    assert net.Cs_[int(net.scores_.mean(axis=1).argmax())] == net.C_
    same = MultiLabelClassifier(C=net.C_, tol=1e-2).fit(X, Y)
    assert (net.weights_ == same.weights_).all()
    train, test = next(KFold(4, shuffle=True, random_state=0).split(X))
    first = MultiLabelClassifier(C=10.0, tol=1e-6, max_iter=5000).fit(X[train], Y[train])
    assert abs(net.scores_[1, 0] - (first.predict(X[test]) == Y[test]).mean()) <= 0.05
    several = MultiLabelClassifierCV(Cs=[0.01, 10.0], cv=3, tol=1e-2).fit(X, Y[:, 0] + Y[:, 1])
    assert several.classes_.tolist() == [0, 1, 2] and clone(several).get_params()["cv"] == 3
    with pytest.raises(InvalidParameterError, match="Cs is empty"):
        MultiLabelClassifierCV(Cs=[]).fit(X, Y)


def test_exhaustive_solver_agrees() -> None:
    X, Y = linked_table()
    net = MultiLabelClassifier(C=3.0).fit(X, Y)
    assert (np.array([r.labels for r in net.predict_result(X, Exhaustive())]) == net.predict(X)).all()
