"""What `predict` gives: labels in the shape of those it learned from, and a word where they are not proven."""

import warnings

import numpy as np
import pytest

import maxsum as ms
from maxsum.learning import Perceptron
from maxsum.storage import load_model, save_model


def images(n=4, shape=(5, 6), labels=3, noise=0.4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(0, labels, size=(n, *shape)), axis=2)
    return y[..., None] + noise * rng.standard_normal((*y.shape, 1)), y


def test_predictions_have_the_shape_of_the_labels(tmp_path):
    x, y = images()
    for given, shape in ((y, (4, 5, 6)), (y.reshape(4, 30), (4, 30))):
        net = ms.GridLabeler(C=1.0).fit(x, given)
        found = net.predict(x)
        assert isinstance(found, np.ndarray) and found.shape == shape
        save_model(net, tmp_path / "m.model")
        assert np.array_equal(load_model(tmp_path / "m.model").predict(x), found)
    for given, shape in ((list(y), (5, 6)), ([own.ravel() for own in y], (30,)), ([own.tolist() for own in y], (5, 6))):
        found = ms.GridLabeler(C=1.0).fit(list(x), given).predict(list(x))
        assert isinstance(found, list) and {own.shape for own in found} == {shape}


def test_other_sizes_come_as_a_list():
    x, y = images()
    net = ms.GridLabeler(C=1.0).fit(x, y)
    found = net.predict([x[0], x[1][:3]])
    assert [own.shape for own in found] == [(5, 6), (3, 6)]


def test_sequences_and_cross_validation():
    rng = np.random.default_rng(0)
    y = np.repeat(rng.integers(0, 2, size=(12, 4)), 2, axis=1)
    x = y[..., None] + 0.3 * rng.standard_normal((*y.shape, 1))
    assert ms.SequenceLabeler().fit(x, y).predict(x).shape == y.shape
    assert ms.SequenceLabelerCV(Cs=[0.1, 1.0], cv=3).fit(x, y).predict(x).shape == y.shape
    assert isinstance(ms.SequenceLabeler().fit(list(x), list(y)).predict(list(x)), list)


def test_unproven_answers_are_told_once():
    # neighbours that want to differ, on triangles: the relaxation gives every node a half of each label
    rows, columns = np.divmod(np.arange(400), 20)
    ends = [np.flatnonzero((rows < 19) & (columns < 19)) + step for step in (0, 1, 20, 21)]
    links = np.concatenate([np.stack(pair, axis=1) for pair in ((ends[0], ends[1]), (ends[0], ends[2]), (ends[0], ends[3]))])
    rng = np.random.default_rng(1)
    x = [ms.GraphSample(rng.standard_normal((400, 1)), ms.Graph.from_edges(links, 400)) for _ in range(2)]
    net = ms.GraphLabeler(potentials="general", surrogate="lp", tol=0.1).fit(x, [rng.integers(0, 2, size=400) for _ in x])
    net.weights_ = np.array([0.01, -0.01, -1.0, 0.0, 0.0, -1.0])
    worst = max(net.predict_result(x), key=lambda own: own.gap)
    assert worst.relative_gap > 1e-3, "the case is too easy to show anything"
    with pytest.warns(UserWarning, match="not proven to be the best.*BranchAndBound"):
        net.predict(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.predict(x)  # said once
        easy_x, easy_y = images()
        ms.GridLabeler(C=1.0).fit(easy_x, easy_y).predict(easy_x)  # proven: nothing to say


def test_the_perceptron_runs_as_long_as_it_needs():
    # a distance of 0.001 between two classes on a line: Novikoff allows a million updates
    x = np.array([[[0.4995, 1.0]], [[0.5005, 1.0]]])
    y = [[0], [1]]
    net = ms.SequenceLabeler(surrogate="trivial", learner="Perceptron").fit(x, y)
    assert net.result_.termination == "converged" and net.result_.n_iter > 1000, net.result_.n_iter
    with pytest.warns(UserWarning, match="of the learner that was given"):
        short = ms.SequenceLabeler(surrogate="trivial", learner=Perceptron(max_iter=5)).fit(x, y)
    assert short.result_.n_iter == 5
    with pytest.warns(UserWarning, match="Raise max_iter or time_limit, or tol.$"):
        assert ms.SequenceLabeler(surrogate="trivial", learner="Perceptron", max_iter=7).fit(x, y).result_.n_iter == 7


def test_the_perceptron_gives_up_where_examples_contradict_each_other():
    x = np.zeros((2, 3, 1))
    with pytest.warns(UserWarning, match="ended"):
        net = ms.SequenceLabeler(surrogate="trivial", learner="Perceptron").fit(x, [[0, 1, 0], [1, 0, 1]])
    assert net.result_.n_iter <= 2_000_000 and net.result_.extra["conflicts"]
