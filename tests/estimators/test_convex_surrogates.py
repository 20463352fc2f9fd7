"""``surrogate="qp"`` and ``"logistic"`` through every estimator."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from reference.estimator_cases import CASES, IMAGES, graphs, sequences, table
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from maxsum.core.result import Guarantee
from maxsum.estimators import check_structured_estimator
from maxsum.learning import BlockFrankWolfe, LogisticObjective, ProjectedQuasiNewton, QPObjective, path
from maxsum.learning.objectives.qp import predict_convex
from maxsum.models import Convex

OBJECTIVES = {"qp": QPObjective, "logistic": LogisticObjective}


def problems(model, X):
    return model.model_.problems(model.weights_, X) if hasattr(model, "graph_") else model.problems(X)


def same(a, b):
    return all(np.array_equal(p, q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("surrogate", OBJECTIVES)
@pytest.mark.parametrize("name", CASES)
def test_it_trains_predicts_and_says_what_is_proven(name, surrogate):
    kind, data = CASES[name]
    X, y = data()
    model = kind(surrogate=surrogate, C=5.0, bias=False).fit(X, y)
    assert isinstance(model.objective_, OBJECTIVES[surrogate])
    assert model.result_.learner == "ProjectedQuasiNewton"
    assert f"the default of the {surrogate} surrogate" in model.result_.message
    assert len(model.weights_) == model.model_.n_weights == len(model.model_.names)
    if surrogate == "qp":
        assert model.result_.relative_gap <= 1e-3
        model.result_.verify(model.objective_)
    else:
        assert model.result_.lower_bound == -np.inf
        assert model.result_.guarantee == Guarantee.feasible
        assert "not convex" in model.result_.message
        assert "no lower bound" in model.result_.message
    found = model.predict_result(X)
    for result, problem, labels in zip(found, problems(model, X), model.predict(X), strict=True):
        proof = result.certificate.verify(problem, result.labels, result.score, result.bound)
        assert (result.guarantee == Guarantee.optimal) == proof.optimal
        assert np.allclose(result.marginals.sum(axis=1), 1.0)
        assert (result.marginals >= 0).all()
        assert np.array_equal(result.labels, np.ravel(labels))
        assert result.solver in result.message
    exact = model.predict_result(X, solver="BranchAndBound") if name != "grid" else []
    for result, best in zip(found, exact, strict=False):
        assert result.score <= best.score + 1e-9 <= result.bound + 2e-9
    assert model.score(X, y) > 0.3


def test_bounds_are_no_lower_than_any_labelling():
    random = np.random.default_rng(1)
    y = [random.integers(3, size=(2, 3)) for _ in range(3)]
    X = [np.eye(3)[own] + random.standard_normal((2, 3, 3)) for own in y]
    for surrogate in OBJECTIVES:
        model = ms.GridLabeler(surrogate=surrogate, C=5.0, edge_types="directions").fit(X, y)
        for result, problem in zip(model.predict_result(X), model.problems(X), strict=True):
            best = max(problem.score(labels) for labels in itertools.product(range(3), repeat=6))
            assert result.score <= best + 1e-9 <= result.bound + 2e-9
            assert result.guarantee in (Guarantee.optimal, Guarantee.within_gap)
            assert result.guarantee != Guarantee.optimal or result.score >= best - 1e-6


def test_without_edges_and_ridge_it_is_the_margin():
    X, Y = table()
    flat = ms.MultiLabelClassifier(Convex(ridge=1e-7), label_graph="none", surrogate="qp", C=5.0, tol=1e-4).fit(X, Y).result_
    margin = ms.MultiLabelClassifier(label_graph="none", C=5.0, tol=1e-4).fit(X, Y).result_
    assert flat.lower_bound <= margin.objective * (1 + 1e-6)
    assert margin.lower_bound <= flat.objective * (1 + 1e-6)


def few(estimator):
    """The check takes weights of 1000 and 0.0001, so that a relative gap of 1e-3 says nothing of the weights."""
    return {"check_class_weight_classifiers": "loose at this tolerance"} if estimator.surrogate == "qp" else {}


@parametrize_with_checks([ms.MultiLabelClassifier(surrogate=own) for own in OBJECTIVES], expected_failed_checks=few)
def test_it_is_at_home_in_scikit_learn(estimator, check):
    assert check(estimator) is None


@pytest.mark.parametrize(("name", "surrogate"), [("grid", "qp"), ("sequence", "qp"), ("sequence", "logistic")])
def test_labelers_keep_the_conventions(name, surrogate):
    kind, data = CASES[name]
    assert "sample_weight" in check_structured_estimator(kind(surrogate=surrogate, C=0.5, tol=1e-2), *data())


def test_the_bound_is_no_worse_than_that_of_the_relaxation():
    X, y = graphs()
    model = ms.GraphLabeler(surrogate="qp", C=5.0).fit(X, y)
    for result, own in zip(model.predict_result(X), predict_convex(model.model_, model.weights_, X), strict=True):
        assert result.bound <= -own.lower_bound + 1e-9
        assert result.score == pytest.approx(-own.energy)
        assert np.array_equal(result.marginals, own.mu)


def two_chains(n, seed):
    """Sentences with a tag (3 labels) and a chunk (2 labels) at each word; chunks follow from tags."""
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n):
        length = int(random.integers(2, 6))
        tags = random.integers(3, size=length)
        chunks = (tags > 0).astype(int)
        seen = np.eye(3)[tags] + 0.4 * random.standard_normal((length, 3))
        X = np.concatenate([seen, np.zeros((length, 3))])
        word = np.arange(length)
        edges = [*itertools.pairwise(word.tolist())]
        edges += [(length + a, length + b) for a, b in edges] + [(a, length + a) for a in word.tolist()]
        kinds = [0] * (length - 1) + [1] * (length - 1) + [2] * length
        graph = ms.Graph.from_edges(edges, 2 * length, edge_type=kinds)
        samples.append(ms.GraphSample(X, graph, node_types=np.repeat([0, 1], length)))
        labels.append(np.array([*np.array(["D", "N", "V"])[tags], *np.array(["I", "O"])[chunks]]))
    return samples, labels


@pytest.mark.parametrize("surrogate", OBJECTIVES)
def test_two_chains_with_label_sets_of_their_own(surrogate):
    classes = [["D", "N", "V"], ["I", "O"]]
    model = ms.GraphLabeler(surrogate=surrogate, C=50.0, classes=classes, bias=True, tol=1e-2).fit(*two_chains(15, 0))
    shapes = {name: block.shape for name, block in model.coef_blocks_.items()}
    assert shapes["nodes[type 0]"] == (3, 3)
    assert shapes["bias[type 1]"] == (2,)
    assert [shapes[f"matrices[type {p}]"] for p in range(3)] == [(6, 6), (4, 4), (5, 5)]
    assert shapes["linear[type 2]"] == (5,)
    for matrix in (block for name, block in model.coef_blocks_.items() if name.startswith("matrices")):
        assert np.linalg.eigvalsh(matrix)[0] > 0
    X, y = two_chains(10, 1)
    assert model.score(X, y) > 0.8
    for labels, sample in zip(model.predict(X), X, strict=True):
        assert set(labels[sample.node_types == 1]) <= {"I", "O"}
    for result, problem in zip(model.predict_result(X), model.problems(X), strict=True):
        result.certificate.verify(problem, result.labels, result.score, result.bound)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("surrogate", OBJECTIVES)
@pytest.mark.parametrize("name", CASES)
def test_clone_pickle_and_search(name, surrogate):
    kind, data = CASES[name]
    X, y = data()
    model = clone(kind(surrogate=surrogate, potentials=Convex(ridge=0.5), max_iter=5, tol=0.5)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert same(again.predict(X), model.predict(X))
    assert model.model_.spec.ridge == 0.5
    assert clone(model).set_params(potentials__ridge=1.0).fit(X, y).model_.spec.ridge == 1.0
    search = GridSearchCV(kind(surrogate=surrogate, max_iter=5, tol=0.5), {"C": [0.1, 1.0]}, cv=2).fit(X, y)
    assert isinstance(search.best_estimator_.objective_, OBJECTIVES[surrogate])


def test_convex_general_and_auto_are_the_same():
    found = [ms.GridLabeler(surrogate="qp", potentials=p).fit(*IMAGES).weights_ for p in ("general", "convex", "auto")]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("surrogate", OBJECTIVES)
@pytest.mark.parametrize("name", CASES)
def test_a_second_fit_goes_on_from_the_first(name, surrogate):
    kind, data = CASES[name]
    X, y = data()
    model = kind(surrogate=surrogate, C=0.5, tol=1e-2, warm_start=True).fit(X, y)
    first = model.result_
    second = model.fit(X, y).result_
    assert second.objective <= first.objective * (1 + 1e-9)
    assert second.trace[0].objective <= first.objective * (1 + 1e-4)
    assert second.n_iter < first.n_iter
    other, cold = model.fit(X[:-1], y[:-1]).result_, kind(surrogate=surrogate, C=0.5, tol=1e-2).fit(X[:-1], y[:-1]).result_
    assert other.trace[0].objective < cold.trace[0].objective, "on other data the weights are where it starts"
    if surrogate == "qp":
        assert abs(other.objective - cold.objective) <= other.gap + cold.gap


@pytest.mark.parametrize("surrogate", OBJECTIVES)
def test_weights_that_mean_something_else_are_no_start(surrogate):
    X, y = sequences()
    wide = [np.hstack([own, own[:, :1] ** 2]) for own in X]
    model = ms.SequenceLabeler(surrogate=surrogate, C=0.5, tol=1e-2, warm_start=True).fit(X, y)
    cold = ms.SequenceLabeler(surrogate=surrogate, C=0.5, tol=1e-2).fit(wide, y)
    assert np.array_equal(model.fit(wide, y).weights_, cold.weights_)
    model.set_params(classes=sorted(set(np.concatenate(y).tolist()), reverse=True))
    cold.set_params(classes=model.classes)
    assert np.array_equal(model.fit(wide, y).weights_, cold.fit(wide, y).weights_)


@pytest.mark.parametrize("surrogate", OBJECTIVES)
def test_sample_weights_are_repetitions(surrogate):
    X, y = sequences()
    weights = [2, 0, 1, 1, 0]
    rows = [0, 0, 2, 3]
    one = ms.SequenceLabeler(surrogate=surrogate, C=0.5, tol=1e-2).fit(X, y, sample_weight=weights)
    two = ms.SequenceLabeler(surrogate=surrogate, C=0.5, tol=1e-2).fit([X[j] for j in rows], [y[j] for j in rows])
    w = one.weights_
    assert one.objective_.evaluate(w) == pytest.approx(two.objective_.evaluate(w))
    assert one.objective_.evaluate(w) != pytest.approx(
        ms.SequenceLabeler(surrogate=surrogate, C=0.5).fit(X, y).objective_.evaluate(w)
    )
    assert one.n_features_in_ == 3


def test_class_weights_change_the_losses():
    X, y = graphs()
    model = ms.GraphLabeler(surrogate="qp", class_weight={0: 3.0}).fit(X, y)
    losses = model.objective_.loss_table
    assert (losses[np.concatenate(y) == 0].max(axis=1) == 3.0).all()
    assert (losses[np.concatenate(y) == 1].max(axis=1) == 1.0).all()
    X, Y = table()
    several = ms.MultiLabelClassifier(surrogate="qp", class_weight={0: 1.0, 1: 4.0}, C=20.0).fit(X, Y)
    assert several.predict(X).sum() > ms.MultiLabelClassifier(surrogate="qp", C=20.0).fit(X, Y).predict(X).sum()


def test_masked_nodes_are_left_out():
    X, y = sequences()
    hidden = [labels.copy() for labels in y]
    for labels in hidden:
        labels[4:] = -1
    masked = ms.SequenceLabeler(surrogate="qp", tol=1e-5, classes=[0, 1, 2]).fit(X, hidden)
    short = ms.SequenceLabeler(surrogate="qp", tol=1e-5, classes=[0, 1, 2]).fit([x[:4] for x in X], [own[:4] for own in y])
    assert np.allclose(masked.weights_, short.weights_)


@pytest.mark.parametrize("surrogate", OBJECTIVES)
def test_unknown_labels_of_a_table(surrogate):
    X, Y = table()
    hidden = Y.copy()
    hidden[::3, 1] = -1
    model = ms.MultiLabelClassifier(surrogate=surrogate, C=5.0).fit(X, hidden)
    assert model.objective_.n_weights == model.model_.n_weights
    assert model.predict(X).shape == Y.shape
    assert (model.predict(X) == Y).mean() > 0.7
    known = (model.predict_result(X)[0], model.model_.problems(model.weights_, model._new(X))[0])
    known[0].certificate.verify(known[1], known[0].labels, known[0].score, known[0].bound)


@pytest.mark.parametrize("surrogate", OBJECTIVES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_one_label_a_sample(surrogate, n_classes):
    random = np.random.default_rng(2)
    X = random.standard_normal((60, 3))
    y = np.digitize(X[:, 0], np.linspace(-0.7, 0.7, n_classes - 1))
    model = ms.MultiLabelClassifier(surrogate=surrogate, C=100.0).fit(X, y)
    assert model.score(X, y) > 0.6
    decision = model.decision_function(X)
    if n_classes == 2:
        assert np.array_equal(model.predict(X), (decision > 0).astype(int))
    else:
        assert np.array_equal(model.predict(X), decision.argmax(axis=1))
    assert model.coef_blocks_["nodes"].shape == (1 if n_classes == 2 else 4, 3)
    assert len(model.predict_result(X[:2])) == 2


def test_decisions_agree_with_labels():
    X, Y = table()
    for surrogate in OBJECTIVES:
        model = ms.MultiLabelClassifier(surrogate=surrogate, C=5.0).fit(X, Y)
        assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == 1)


@pytest.mark.parametrize("surrogate", OBJECTIVES)
@pytest.mark.parametrize("name", CASES)
def test_a_search_over_C_by_cross_validation(name, surrogate):
    kind, data = CASES[name]
    search = getattr(ms, f"{kind.__name__}CV")(surrogate=surrogate, Cs=[0.1, 1.0, 10.0], cv=2, tol=1e-2).fit(*data())
    assert search.scores_.shape == (3, 2)
    assert isinstance(search.objective_, OBJECTIVES[surrogate])
    assert search.objective_.C == search.C_
    assert search.scores_.mean(axis=1)[list(search.Cs_).index(search.C_)] == search.scores_.mean(axis=1).max()


def test_a_path_starts_from_the_weights_before():
    objective = ms.GridLabeler(surrogate="qp").fit(*IMAGES).objective_
    learner = ProjectedQuasiNewton(tol=1e-4)
    values = [1.0, 1.3, 1.7]
    warm = path(learner, objective, values)
    cold = []
    for C in values:
        objective.set_C(C)
        cold.append(learner.fit(objective))
    for a, b in zip(warm, cold, strict=True):
        assert a.objective == pytest.approx(b.objective, rel=2e-4)
    assert sum(a.n_iter for a in warm) < sum(b.n_iter for b in cold)


def test_a_checkpoint_is_gone_on_from(tmp_path):
    file = tmp_path / "state"
    with pytest.warns(ConvergenceWarning):
        ms.GridLabeler(surrogate="qp", checkpoint=file, max_iter=4, tol=1e-5).fit(*IMAGES)
    resumed = ms.GridLabeler(surrogate="qp", checkpoint=file, tol=1e-5).fit(*IMAGES)
    whole = ms.GridLabeler(surrogate="qp", tol=1e-5).fit(*IMAGES)
    assert resumed.result_.objective == pytest.approx(whole.result_.objective, rel=1e-4)


def test_a_training_without_a_bound_that_is_cut_off_warns():
    with pytest.warns(ConvergenceWarning, match="no lower bound"):
        ms.GridLabeler(surrogate="logistic", max_iter=3).fit(*IMAGES)


def test_nothing_to_predict():
    assert ms.GridLabeler(surrogate="qp").fit(*IMAGES).predict([]) == []
    assert ms.GridLabeler(surrogate="logistic").fit(*IMAGES).predict_result([]) == []


def test_weights_of_every_node_and_edge():
    X, y = graphs()
    model = ms.GraphLabeler(surrogate="qp", homogeneous=False, C=5.0).fit(X, y)
    n_edges = X[0].graph.n_edges
    assert model.coef_blocks_["nodes"].shape == (42, 3, 3)
    assert model.coef_blocks_[f"matrices[edge {n_edges - 1}]"].shape == (6, 6)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("name", ["grid", "multilabel"])
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"potentials": "supermodular"}, "potentials is 'supermodular' beside surrogate='qp'"),
        ({"potentials": "potts", "surrogate": "logistic"}, "beside surrogate='logistic'"),
        ({"potentials": "convex", "surrogate": "margin"}, "wanted surrogate='qp' or 'logistic'"),
        ({"potentials": Convex(), "surrogate": "lp"}, "wanted surrogate='qp' or 'logistic'"),
        ({"potentials": Convex(n_operators=1)}, "n_operators=1"),
        ({"oracle": "TRWS"}, "needs no max-sum solver"),
        ({"learner": "CuttingPlane"}, "wanted None or ProjectedQuasiNewton"),
        ({"learner": BlockFrankWolfe()}, "wanted None or ProjectedQuasiNewton"),
        ({"learner": "SmoothedLP"}, "wanted None or ProjectedQuasiNewton"),
        ({"smoothing": 0.1}, "smoothing"),
        ({"surrogate": "cubic"}, "logistic"),
        ({"C": -1.0}, "C is"),
    ],
)
def test_what_does_not_go_together_is_refused(name, params, words):
    kind, data = CASES[name]
    with pytest.raises(InvalidParameterError, match=words):
        kind(**({"surrogate": "qp"} | params)).fit(*data())


@pytest.mark.parametrize("name", ["grid", "multilabel"])
def test_a_learner_of_smooth_objectives_refuses_hinges(name):
    kind, data = CASES[name]
    with pytest.raises(UnsupportedProblemError, match="lacks HasGradient"):
        kind(surrogate="margin", learner="ProjectedQuasiNewton").fit(*data())


def test_other_refusals():
    with pytest.raises(InvalidParameterError, match="symmetric"):
        ms.GridLabeler(surrogate="qp", symmetric=True).fit(*IMAGES)
    with pytest.raises(InvalidParameterError, match="order is 2"):
        ms.SequenceLabeler(surrogate="qp", order=2).fit(*sequences())
    graph = ms.Graph.chain(3)
    sample = ms.GraphSample(np.eye(3), graph, np.full((2, 1), -1.0))
    with pytest.raises(InvalidSampleError, match="features >= 0"):
        ms.GraphLabeler(surrogate="qp").fit([sample], [[0, 1, 1]])


@pytest.mark.parametrize("surrogate", ["qp", "logistic"])
def test_a_solver_predicts_with_convex_multilabel_models(surrogate):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    Y = (X[:, :3] + 0.3 * rng.normal(size=(60, 3)) > 0).astype(int)
    net = ms.MultiLabelClassifier(surrogate=surrogate, C=10.0, tol=1e-2, solver="Exhaustive").fit(X, Y)
    predicted = net.predict(X)
    assert (predicted == Y).mean() > 0.8
    np.testing.assert_array_equal(predicted, net.set_params(solver="JunctionTree").predict(X))
