"""SequenceLabeler: all kinds of sequences, any labels, class weights, warm starts, pipelines."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from factories.samples import smooth_sequences
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import maxsum as ms
from maxsum.core.errors import InvalidSampleError
from maxsum.learning import BlockFrankWolfe, CuttingPlane
from maxsum.losses import Hamming
from maxsum.models import Codes


def test_it_is_the_graph_labeler_on_chains():
    X, y = smooth_sequences(12)
    net = ms.GraphLabeler(C=0.4).fit([ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X], y)
    tag = ms.SequenceLabeler(C=0.4).fit(X, y)
    assert tag.weights_.tobytes() == net.weights_.tobytes() and tag.score(*smooth_sequences(12, seed=1)) > 0.6
    assert tag.n_features_in_ == 3 and tag.coef_blocks_["edges"].shape == (3, 3)
    assert "oracle dynamic programming, as no training graph has a cycle" in tag.result_.message


def test_prediction_of_many_is_that_of_each_with_ties_too():
    random = np.random.default_rng(3)
    tag = ms.SequenceLabeler(C=5.0).fit(*smooth_sequences(12))
    for levels in (tag.weights_, np.round(tag.weights_), np.zeros(18)):
        tag.weights_ = levels
        X = [random.integers(-1, 2, size=(int(random.integers(0, 7)), 3)) for _ in range(40)]
        together = tag.predict(X)
        for x, found, result in zip(X, together, tag.predict_result(X), strict=True):
            assert found.shape == (len(x),) and (tag.classes_[result.labels] == found).all()
            assert (tag.predict([x])[0] == found).all()


def test_all_kinds_of_sequences():
    X, y = smooth_sequences(12)
    dense = ms.SequenceLabeler(C=5.0, tol=1e-5).fit(X, y)
    kinds = {
        "csr": [sparse.csr_matrix(x) for x in X],
        "lists": [x.tolist() for x in X],
        "dicts": [[{f"x{i}": v for i, v in enumerate(row)} for row in x] for x in X],
    }
    for name, given in kinds.items():
        tag = ms.SequenceLabeler(C=5.0, tol=1e-5).fit(given, y)
        np.testing.assert_allclose(tag.weights_, dense.weights_, atol=0.02, err_msg=name)
        assert tag.n_features_in_ == 3, name
    codes = [x.argmax(axis=1) for x in X]
    tag = ms.SequenceLabeler(C=5.0).fit(codes, y)
    assert tag.score(codes, y) > 0.5 and tag.n_features_in_ == 3
    assert ms.SequenceLabeler(C=5.0, features=Codes(7)).fit(codes, y).n_features_in_ == 7


def test_any_hashable_labels():
    X, y = smooth_sequences(12)
    names = [("B", 1), "O", 7]
    given = [[names[k] for k in own] for own in y]
    tag = ms.SequenceLabeler(C=5.0, classes=names).fit(X, given)
    number = ms.SequenceLabeler(C=5.0).fit(X, y)
    assert tag.classes_.tolist() == names and tag.weights_.tobytes() == number.weights_.tobytes()
    predicted = tag.predict(X)
    assert [[names[k] for k in own] for own in number.predict(X)] == [own.tolist() for own in predicted]
    assert tag.score(X, given) == number.score(X, y)
    assert "q(x0, ('B', 1))" in tag.weight_names_
    some = [[None if i == 0 else label for i, label in enumerate(own)] for own in given]
    hidden = ms.SequenceLabeler(C=5.0).fit(X, [np.where(np.arange(len(own)) == 0, -1, own) for own in y])
    partly = ms.SequenceLabeler(C=5.0, classes=names).fit(X, some)
    assert partly.weights_.tobytes() == hidden.weights_.tobytes()
    assert tag.score(X, [[("new", 0)] * len(own) for own in y]) == 0.0
    with pytest.raises(InvalidSampleError, match=r"label of sample 0, node 0 is .*wanted one of the classes \[\('B', 1\)"):
        ms.SequenceLabeler(classes=names[:1]).fit(X[:1], [[("C", 2)] * len(y[0])])
    fold = ms.SequenceLabeler(C=5.0, classes=names).fit(X, [["O"] * len(own) for own in y])
    assert fold.classes_.tolist() == names and all(set(own.tolist()) == {"O"} for own in fold.predict(X))
    tuples = ms.SequenceLabeler(C=5.0).fit(X, [[("b", int(k)) for k in own] for own in y])
    assert tuples.classes_.tolist() == [("b", 0), ("b", 1), ("b", 2)]


def test_class_weight():
    X, y = smooth_sequences(12)
    plain = ms.SequenceLabeler(C=1.0).fit(X, y)
    by_dict = ms.SequenceLabeler(C=1.0, class_weight={2: 9.0}).fit(X, y)
    by_array = ms.SequenceLabeler(C=1.0, class_weight=[1.0, 1.0, 9.0]).fit(X, y)
    by_loss = ms.SequenceLabeler(C=1.0, loss=Hamming(class_weight=[1.0, 1.0, 9.0])).fit(X, y)
    assert by_dict.weights_.tobytes() == by_array.weights_.tobytes() == by_loss.weights_.tobytes()
    share = [np.mean(np.concatenate(net.predict(X)) == 2) for net in (plain, by_dict)]
    assert share[1] > share[0]
    count = np.bincount(np.concatenate(y))
    balanced = ms.SequenceLabeler(C=1.0, class_weight="balanced").fit(X, y)
    given = ms.SequenceLabeler(C=1.0, class_weight=count.sum() / (3 * count)).fit(X, y)
    assert balanced.weights_.tobytes() == given.weights_.tobytes()
    names = np.array(["a", "b", "c"])
    named = ms.SequenceLabeler(C=1.0, class_weight={"c": 9.0}).fit(X, [names[own] for own in y])
    assert named.weights_.tobytes() == by_dict.weights_.tobytes()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (dict(class_weight={5: 1.0}), r"class_weight names 5, wanted some of the classes \[0, 1, 2\]"),
        (dict(class_weight=[1.0, 2.0]), "class_weight is .*, wanted 3 finite numbers"),
        (dict(class_weight=[1.0, 2.0, -1.0]), "class_weight is .*, wanted 3 finite numbers"),
        (dict(class_weight="even"), "class_weight is 'even', wanted 'balanced'"),
        (dict(class_weight="balanced", loss=1 - np.eye(3)), "class_weight is given beside loss="),
        (dict(class_weight="balanced", surrogate="trivial"), "class_weight is given beside surrogate='trivial'"),
        (dict(order=3), "order is 3, wanted 1 or 2"),
        (dict(learner="LBFGS"), "learner is 'LBFGS', wanted .* names .*BlockFrankWolfe, CuttingPlane"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(ValueError, match=words):
        ms.SequenceLabeler(**parameters).fit(*smooth_sequences(4))


def test_learners_by_name():
    X, y = smooth_sequences(12)
    for name in ("auto", "BlockFrankWolfe", "CuttingPlane"):
        tag = ms.SequenceLabeler(C=5.0, learner=name, tol=0.01).fit(X, y)
        assert tag.result_.relative_gap <= 0.01
        assert ("as given" in tag.result_.message) == (name != "auto")
    assert tag.result_.learner == "CuttingPlane"
    given = ms.SequenceLabeler(C=5.0, oracle="TreeDP").fit(X, y)
    assert "oracle TreeDP, as given" in given.result_.message


def test_nested_parameters():
    tag = ms.SequenceLabeler(learner=BlockFrankWolfe(tol=0.1), loss=Hamming(normalised=True))
    assert tag.get_params()["learner__tol"] == 0.1 and tag.get_params()["loss__normalised"] is True
    assert "learner__tol" not in tag.get_params(deep=False)
    other = clone(tag).set_params(learner__tol=0.3, loss__normalised=False)
    assert (other.learner.tol, other.loss.normalised, tag.learner.tol, tag.loss.normalised) == (0.3, False, 0.1, True)
    assert other.set_params(learner=CuttingPlane(), learner__tol=0.2).learner == CuttingPlane(tol=0.2)
    with pytest.raises(ValueError, match=r"Invalid parameter 'speed' of learner=.*wanted one of tol, max_iter"):
        other.set_params(learner__speed=1)
    with pytest.raises(ValueError, match="give an object as learner first"):
        ms.SequenceLabeler().set_params(learner__tol=1.0)
    assert "SequenceLabeler" in tag._repr_html_() and "learner" in repr(tag)


@pytest.mark.parametrize("learner", ["BlockFrankWolfe", "CuttingPlane"])
def test_warm_start_goes_on_from_the_planes(learner):
    X, y = smooth_sequences(12)
    tag = ms.SequenceLabeler(C=5.0, tol=1e-2, learner=learner, warm_start=True).fit(X, y)
    cold = ms.SequenceLabeler(C=6.0, tol=1e-3, learner=learner).fit(X, y)
    tag.set_params(C=6.0, tol=1e-3).fit(X, y)
    assert tag.result_.relative_gap <= 1e-3 and tag.result_.n_oracle_calls < cold.result_.n_oracle_calls
    assert max(tag.result_.lower_bound, cold.result_.lower_bound) <= min(tag.result_.objective, cold.result_.objective)
    checked = tag.result_.verify(tag.objective_)
    assert checked.lower_bound == pytest.approx(tag.result_.lower_bound, rel=1e-9)
    weight = np.arange(1.0, len(X) + 1)
    tag.fit(X, y, sample_weight=weight)
    cold.fit(X, y, sample_weight=weight)
    assert max(tag.result_.lower_bound, cold.result_.lower_bound) <= min(tag.result_.objective, cold.result_.objective)
    assert tag.result_.relative_gap <= 1e-3
    other = smooth_sequences(12, seed=4)
    assert tag.fit(*other).weights_.tobytes() == cold.fit(*other).weights_.tobytes()


def test_warm_start_of_a_training_that_was_cut_short():
    X, y = smooth_sequences(12)
    tag = ms.SequenceLabeler(C=20.0, tol=1e-6, max_iter=2, warm_start=True)
    gaps = []
    for _ in range(4):
        with pytest.warns(ConvergenceWarning, match="iteration limit"):
            gaps.append(tag.fit(X, y).result_.relative_gap)
    assert gaps[-1] < 0.5 * gaps[0]


def test_warm_start_of_the_trivial_surrogate():
    X, y = smooth_sequences(5, noise=0.1)
    tag = ms.SequenceLabeler(C=100.0, tol=0.05, surrogate="trivial", warm_start=True).fit(X, y)
    cold = ms.SequenceLabeler(C=120.0, tol=0.05, surrogate="trivial").fit(X, y)
    tag.set_params(C=120.0).fit(X, y)
    assert tag.result_.relative_gap <= 0.05 and tag.objective_.C == 120.0
    assert max(tag.result_.lower_bound, cold.result_.lower_bound) <= min(tag.result_.objective, cold.result_.objective)
    checked = tag.result_.verify(tag.objective_)
    assert checked.objective == pytest.approx(tag.result_.objective, rel=1e-9)


def test_weight_zero_is_as_good_as_without():
    X, y = smooth_sequences(12)
    y[0] = np.full(len(y[0]), 8)
    weight = np.r_[0.0, np.ones(len(X) - 1)]
    tag = ms.SequenceLabeler(C=5.0).fit(X, y, sample_weight=weight)
    assert tag.classes_.tolist() == [0, 1, 2]
    assert tag.weights_.tobytes() == ms.SequenceLabeler(C=5.0).fit(X[1:], y[1:]).weights_.tobytes()
    with pytest.raises(InvalidSampleError, match="labels of sample 3 have shape"):
        ms.SequenceLabeler().fit(X, [*y[:3], y[3][1:], *y[4:]], sample_weight=weight)
    for bad in (np.zeros(len(X)), -weight, weight[1:], weight * np.nan):
        with pytest.raises(InvalidSampleError, match="sample_weight is"):
            ms.SequenceLabeler().fit(X, y, sample_weight=bad)


class Scaler(TransformerMixin, BaseEstimator):
    """Scales the features of each sequence by what it saw in training."""

    def fit(self, X, y=None):
        self.scale_ = np.concatenate(X).std(axis=0)
        return self

    def transform(self, X):
        return [x / self.scale_ for x in X]


def test_pipeline_and_search_in_two_processes():
    X, y = smooth_sequences(12)
    words = [np.array(["a", "b", "c"])[own].tolist() for own in y]
    pipe = make_pipeline(Scaler(), ms.SequenceLabeler(classes=["a", "b", "c"], tol=0.01))
    one, two = (
        GridSearchCV(pipe, {"sequencelabeler__C": [0.1, 5.0]}, cv=2, n_jobs=n, error_score="raise").fit(X, words)
        for n in (None, 2)
    )
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert two.score(X, words) > 0.6 and set(two.predict(X)[0]) <= {"a", "b", "c"}
    scale = np.concatenate(X).std(axis=0)
    inner = two.best_estimator_[-1]
    alone = clone(inner).fit([x / scale for x in X], words)
    assert inner.weights_.tobytes() == alone.weights_.tobytes()


def test_folds_without_a_class():
    X, y = smooth_sequences(10)
    rare = [["a"] * len(own) if j else ["b", *["a"] * (len(own) - 1)] for j, own in enumerate(y)]
    scores = cross_val_score(ms.SequenceLabeler(classes=["a", "b", "c"]), X, rare, cv=10, error_score="raise")
    assert scores.shape == (10,) and scores.mean() > 0.8


def test_partial_fit_warns_with_the_gap():
    X, y = smooth_sequences(12)
    with pytest.warns(ConvergenceWarning, match=r"relative gap of .*, wanted 1e-09"):
        tag = ms.SequenceLabeler(C=5.0, tol=1e-9, max_iter=1).fit(X, y)
    assert tag.result_.gap > 0 and len(tag.predict(X)) == len(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.SequenceLabeler(C=5.0).fit(X, y)


def test_bad_sequences():
    X, y = smooth_sequences(4)
    tag = ms.SequenceLabeler()
    with pytest.raises(InvalidSampleError, match=r"X is one matrix of shape .* give \[X\]"):
        tag.fit(X[0], y[0])
    with pytest.raises(InvalidSampleError, match=r"X is one matrix of shape .* give \[X\]"):
        tag.fit(sparse.csr_matrix(X[0]), y[0])
    with pytest.raises(InvalidSampleError, match="X is one list of feature dicts"):
        tag.fit([{"a": 1}, {"b": 1}], ["x", "y"])
    bad = [x.copy() for x in X]
    bad[3][1, 2] = np.inf
    with pytest.raises(InvalidSampleError, match="sample 3: X has inf at node 1, feature 2"):
        tag.fit(bad, y)
    with pytest.raises(InvalidSampleError, match=r"sample 1 has shape .* dtype <U3"):
        tag.fit([X[0], ["the", "dog"]], [y[0], [0, 1]])
    with pytest.raises(InvalidSampleError, match="sample 1 is no array"):
        tag.fit([X[0], [[1.0], [1.0, 2.0]]], [y[0], [0, 1]])
    with pytest.raises(InvalidSampleError, match="there are 4 samples, but 3 labellings"):
        tag.fit(X, y[:3])
    with pytest.raises(InvalidSampleError, match="y is None"):
        tag.fit(X, None)
    assert ms.SequenceLabeler().fit(X, y).predict([np.zeros((0, 3)), X[0]])[0].shape == (0,)


def test_fault_21_sparse_rows_in_any_form():
    X, y = smooth_sequences(12)
    X = [np.where(np.abs(x) < 0.5, 0.0, x) for x in X]
    X[0][1] = 0.0
    expected = ms.SequenceLabeler(C=5.0).fit([sparse.csr_matrix(x) for x in X], y)
    untidy = []
    for x in X:
        columns = np.tile([2, 0, 1], len(x))
        data = x[:, [2, 0, 1]].ravel()
        untidy.append(sparse.csr_matrix((data, columns, np.arange(0, 3 * len(x) + 1, 3)), shape=x.shape))
    kept = [(m.data.copy(), m.indices.copy()) for m in untidy]
    found = ms.SequenceLabeler(C=5.0).fit(untidy, y)
    assert found.weights_.tobytes() == expected.weights_.tobytes()
    assert all((m.data == d).all() and (m.indices == i).all() for m, (d, i) in zip(untidy, kept, strict=True))
    with pytest.raises(InvalidSampleError, match="sample 0 has 4 features a node, but the model has 3"):
        found.predict([sparse.csr_matrix((2, 4))])


@pytest.mark.parametrize("C", [1.0, 1.2, 1.4])
def test_the_trivial_surrogate_leaves_the_origin(C):
    """At C = 1.2 the proximal point of the origin shows nothing new, so the stabilisation has to give way."""
    net = ms.SequenceLabeler(C=C, tol=0.02, surrogate="trivial", max_iter=100).fit(*smooth_sequences(5, noise=0.2)[:2])
    assert net.result_.relative_gap <= 0.02 and net.result_.objective < 5 * C
