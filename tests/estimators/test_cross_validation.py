"""Estimators with C by cross-validation: what they choose, planes shared by all values, folds that lack a class."""

from __future__ import annotations

import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from factories.samples import paired_sequences, striped_images
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

import maxsum as ms
from maxsum.core.errors import InvalidSampleError
from maxsum.estimators import check_structured_estimator
from maxsum.estimators.cross_validation import VALUES
from maxsum.learning import BlockFrankWolfe, MarginObjective, path
from maxsum.models import Codes, GraphModel

PAIRS = [
    (ms.GraphLabelerCV, ms.GraphLabeler),
    (ms.GridLabelerCV, ms.GridLabeler),
    (ms.SequenceLabelerCV, ms.SequenceLabeler),
    (ms.MultiLabelClassifierCV, ms.MultiLabelClassifier),
]


@pytest.mark.parametrize(("searching", "plain"), PAIRS)
def test_parameters_are_those_of_the_plain_estimator(searching: Any, plain: Any) -> None:
    theirs = list(inspect.signature(plain).parameters)
    theirs.remove("C")
    assert list(inspect.signature(searching).parameters) == ["Cs", "cv", "cv_tol", *theirs]
    net = searching([1.0, 2.0], 3, tol=0.1)
    assert (net.Cs, net.cv, net.cv_tol, net.tol) == ([1.0, 2.0], 3, 1e-2, 0.1) and not hasattr(net, "C")
    assert clone(net).get_params() == net.get_params() and "Cs=[1.0, 2.0]" in repr(net)
    assert searching.__name__ in net._repr_html_()
    with pytest.raises(TypeError, match="unexpected keyword argument 'C'"):
        searching(C=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'C'"):
        net.set_params(C=1.0)


def test_it_chooses_by_held_out_scores_and_trains_once_on_all() -> None:
    X, y = paired_sequences(16, longest=7)
    tag = ms.SequenceLabelerCV(Cs=[20.0, 1e-4, 2.0], cv=4, cv_tol=1e-3).fit(X, y)
    assert tag.Cs_.tolist() == [1e-4, 2.0, 20.0] and tag.scores_.shape == (3, 4)
    assert tag.C_ == tag.Cs_[tag.scores_.mean(axis=1).argmax()] > 1e-4
    plain = ms.SequenceLabeler(C=tag.C_).fit(X, y)
    assert tag.weights_.tobytes() == plain.weights_.tobytes() and tag.objective_.C == tag.C_
    assert tag.result_.certificate is not None
    assert tag.result_.verify(tag.objective_).gap <= 1.01e-3 * tag.result_.objective
    assert f"C = {tag.C_:g} by 4-fold cross-validation of 3 values" in tag.result_.message
    for k, (train, test) in enumerate(KFold(4, shuffle=True, random_state=0).split(X)):
        fold = ms.SequenceLabeler(C=20.0, tol=1e-5, classes=[0, 1, 2]).fit([X[j] for j in train], [y[j] for j in train])
        assert abs(fold.score([X[j] for j in test], [y[j] for j in test]) - tag.scores_[2, k]) <= 0.1
    again = pickle.loads(pickle.dumps(tag))
    assert again.C_ == tag.C_ and all((a == b).all() for a, b in zip(again.predict(X), tag.predict(X), strict=True))
    assert tag.score(X, y) == plain.score(X, y) and tag.classes_.tolist() == [0, 1, 2]


def test_checks_of_structured_estimators() -> None:
    done = check_structured_estimator(ms.SequenceLabelerCV(Cs=[2.0], cv=2), *paired_sequences(6, longest=7))
    assert "sample_weight" in done


def test_images_with_contrast_of_each_fold() -> None:
    X, y = striped_images(6)
    seg = ms.GridLabelerCV(Cs=[1e-5, 5.0], cv=3, potentials="supermodular", edge_features="contrast").fit(X, y)
    assert seg.C_ == 5.0 and seg.scores_[1].mean() > seg.scores_[0].mean()
    plain = ms.GridLabeler("supermodular", C=5.0, edge_features="contrast").fit(X, y)
    assert seg.gamma_ == plain.gamma_ and seg.weights_.tobytes() == plain.weights_.tobytes()
    train, test = next(KFold(3, shuffle=True, random_state=0).split(X))
    fold = ms.GridLabeler("supermodular", C=5.0, tol=1e-4, edge_features="contrast").fit(
        [X[j] for j in train], [y[j] for j in train]
    )
    assert fold.gamma_ != seg.gamma_
    assert abs(fold.score([X[j] for j in test], [y[j] for j in test]) - seg.scores_[1, 0]) <= 0.1


def test_folds_that_lack_classes_and_codes() -> None:
    codes = [np.array([0, 1, 1, 0]) for _ in range(9)] + [np.array([3, 2, 1])]
    words = [np.array(["a", "b", "b", "a"])] * 9 + [np.array(["d", "c", "b"])]
    tag = ms.SequenceLabelerCV(Cs=[0.1, 10.0], cv=10).fit(codes, words)
    assert tag.classes_.tolist() == ["a", "b", "c", "d"] and tag.scores_.shape == (2, 10) and np.isfinite(tag.scores_).all()
    assert tag.n_features_in_ == 4 and tag.predict([codes[0]])[0].tolist() == words[0].tolist()
    named = ms.SequenceLabelerCV(Cs=[10.0], cv=10, classes=["d", "c", "b", "a", "e"], features=Codes(6)).fit(codes, words)
    assert named.classes_.tolist() == ["d", "c", "b", "a", "e"] and named.n_features_in_ == 6
    pairs = ms.SequenceLabelerCV(Cs=[10.0], cv=5).fit(codes, [[(label, 1) for label in own] for own in words])
    assert pairs.classes_.tolist() == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


def test_graphs_with_unknown_labels_and_weights() -> None:
    X, y = paired_sequences(8, longest=7)
    samples = [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X]
    y = [*y[:7], np.full(len(y[7]), -1)]
    net = ms.GraphLabelerCV(Cs=[1.0, 5.0], cv=8).fit(samples, y)
    assert np.isnan(net.scores_).sum() == 2 and np.isfinite(net.scores_).any(axis=0).sum() == 7 and net.C_ in (1.0, 5.0)
    weight = np.where(np.arange(8) < 4, 1.0, 0.0)
    some = ms.GraphLabelerCV(Cs=[1.0, 5.0], cv=[(np.arange(2), np.arange(2, 8)), (np.arange(2, 8), np.arange(2))])
    some.fit(samples, y, sample_weight=weight)
    same = ms.GraphLabelerCV(Cs=[1.0, 5.0], cv=[([0, 1], [2, 3]), ([2, 3], [0, 1])]).fit(samples[:4], y[:4])
    np.testing.assert_array_equal(some.scores_, same.scores_)
    assert some.weights_.tobytes() == same.weights_.tobytes()
    with pytest.raises(InvalidSampleError, match="no fold has a known label"):
        ms.GraphLabelerCV(Cs=[1.0], cv=[(np.arange(7), [7])]).fit(samples, y)


def test_limits_checkpoints_and_warnings(tmp_path: Any) -> None:
    X, y = paired_sequences(12, longest=7)
    with pytest.warns(ConvergenceWarning) as caught:
        tag = ms.SequenceLabelerCV(Cs=[5.0, 50.0], cv=2, tol=1e-9, cv_tol=1e-8, max_iter=1).fit(X, y)
    words = [str(warning.message) for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    assert len(words) == 2 and words[0].startswith("4 of 4 trainings in folds ended before the gap that was wanted")
    assert "BlockFrankWolfe ended (iteration limit)" in words[1] and tag.result_.n_iter == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = ms.SequenceLabelerCV(Cs=[1.0, 5.0], cv=2, checkpoint=tmp_path / "state").fit(X, y)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("state", "state.fold0.0", "state.fold0.1", "state.fold1.0", "state.fold1.1")
    ]
    np.testing.assert_array_equal(kept.scores_, ms.SequenceLabelerCV(Cs=[1.0, 5.0], cv=2).fit(X, y).scores_)
    named = ms.SequenceLabelerCV(Cs=[1.0], cv=2, learner=BlockFrankWolfe(tol=0.3))
    search = GridSearchCV(named, {"learner__tol": [0.3, 0.1]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_estimator_.result_.relative_gap <= search.best_params_["learner__tol"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (dict(Cs=[]), "Cs is empty"),
        (dict(Cs=3.0), "Cs is 3.0, wanted a list"),
        (dict(Cs=["a"]), "Cs is .*, wanted a list"),
        (dict(Cs=[1.0, 0.0]), "C is .*0.0.*, wanted a finite number > 0"),
        (dict(Cs=[1.0, np.nan]), "C is .*nan"),
        (dict(cv=1), "n_splits=1"),
        (dict(cv=99), "n_splits=99"),
        (dict(cv_tol=-1.0), "cv_tol is -1.0"),
        (dict(cv_tol=None), "cv_tol is None"),
    ],
)
@pytest.mark.parametrize("searching", [ms.SequenceLabelerCV, ms.MultiLabelClassifierCV])
def test_bad_parameters(searching: Any, parameters: dict[str, Any], words: str) -> None:
    X, y = paired_sequences(5, longest=7)
    given = (X, y) if searching is ms.SequenceLabelerCV else (np.eye(6, 3), np.tile([[0, 1], [1, 0]], (3, 1)))
    net = searching(**parameters)
    with pytest.raises(ValueError, match=words):
        net.fit(*given)
    assert not hasattr(net, "weights_")


def test_sequences_of_second_order() -> None:
    X, y = paired_sequences(10, longest=7)
    tag = ms.SequenceLabelerCV(Cs=[1e-3, 5.0], cv=2, order=2).fit(X, y)
    assert tag.scores_.shape == (2, 2) and tag.classes_.tolist() == [0, 1, 2]
    assert tag.weights_.tobytes() == ms.SequenceLabeler(C=tag.C_, order=2).fit(X, y).weights_.tobytes()


def test_errors_name_the_sample_of_the_whole_list() -> None:
    X, y = paired_sequences(12, longest=7)
    X[10] = X[10].copy()
    X[10][1, 2] = np.nan
    with pytest.raises(InvalidSampleError, match="sample 10: X has nan at node 1, feature 2"):
        ms.SequenceLabelerCV(cv=2).fit(X, y)


def test_14_values_cost_at_most_3_times_the_most_expensive() -> None:
    values = np.array(VALUES)
    X, y = paired_sequences(60, longest=7)
    samples = [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X]
    model, learner = GraphModel().bind(samples, y), BlockFrankWolfe(tol=1e-2)
    whole = sum(result.n_oracle_calls for result in path(learner, MarginObjective(model), values))
    dearest = learner.fit(MarginObjective(model, C=values[-1])).n_oracle_calls
    assert len(values) == 14 and whole <= 3 * dearest
