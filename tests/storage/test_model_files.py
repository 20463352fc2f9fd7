"""Models on disk: what is loaded predicts bit for bit what was saved, for every surrogate, feature and estimator."""

from __future__ import annotations

import os
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from storage.model_cases import CASES, GRID, SEQUENCE, TABLE, rbf

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, ModelFileError, NotFittedError
from maxsum.models import Convex, Kernel, Trees
from maxsum.storage import read_header, verify_model


@cache
def fitted(name):
    estimator, (X, y, new) = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(X, y), X, y, new


def same(a, b):
    """Equal in type, dtype and every bit; numbers of numpy may be plain ones."""
    a, b = (own.item() if isinstance(own, np.float64) else own for own in (a, b))
    assert type(a) is type(b)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape
        same(a.tolist(), b.tolist()) if a.dtype.kind == "O" else np.testing.assert_array_equal(a, b)
    else:
        assert a == b or (a != a and b != b)


def answers(net, X):
    found = net.predict_result(X)
    return [(r.labels, r.score, r.bound, str(r.guarantee), r.solver) for r in found]


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_is_the_saved_one(name, tmp_path):
    net, X, y, new = fitted(name)
    ms.save_model(net, tmp_path / "m.maxsum", certificate=True)
    other = ms.load_model(tmp_path / "m.maxsum")
    assert type(other) is type(net) and os.listdir(tmp_path) == ["m.maxsum"]
    for data in (X, new):
        same(net.predict(data), other.predict(data))
    if "matting" not in name:
        same(answers(net, new), answers(other, new))
    if "likelihood" in name:
        same(net.predict_marginals(new, edge_marginals=True), other.predict_marginals(new, edge_marginals=True))
    if isinstance(net, ms.MultiLabelClassifier):
        same(net.decision_function(new), other.decision_function(new))
        assert (net.graph_ is None) == (other.graph_ is None) and net.n_iter_ == other.n_iter_
    else:
        assert net.weight_names_ == other.weight_names_
    same(net.score(X, y), other.score(X, y))
    same(net.coef_blocks_, other.coef_blocks_)
    same(net.classes_, other.classes_)
    same(net.weights_, other.weights_)
    for key in ("n_features_in_", "C_", "Cs_", "scores_", "gamma_"):
        same(getattr(net, key, None), getattr(other, key, None))
    mine, theirs = net.result_, other.result_
    for key in (
        "weights",
        "objective",
        "lower_bound",
        "gap",
        "guarantee",
        "termination",
        "message",
        "trace",
        "n_oracle_calls",
        "finished",
    ):
        same(getattr(mine, key), getattr(theirs, key))
    assert mine._repr_html_() == theirs._repr_html_()
    assert (
        net._repr_mimebundle_()["text/html"].split("<dt>problem")[1:]
        == other._repr_mimebundle_()["text/html"].split("<dt>problem")[1:]
    )
    assert repr(net) == repr(other) or "learner" in name or "weights" in name
    assert pickle.loads(pickle.dumps(other)).predict(new)[0].tolist() == net.predict(new)[0].tolist()


@pytest.mark.parametrize("name", [name for name in CASES if "cv" not in name])
def test_the_proof_holds_on_the_training_data(name, tmp_path):
    net, X, y, _ = fitted(name)
    ms.save_model(net, tmp_path / "m", certificate=True)
    if net.result_.certificate is None:
        with pytest.raises(ModelFileError, match="no certificate"):
            verify_model(tmp_path / "m", X, y)
        return
    found = verify_model(tmp_path / "m", X, y)
    expected = net.result_.certificate.verify(net.objective_, net.result_.weights)
    assert found.objective == pytest.approx(expected.objective, rel=1e-6)
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-9)


def test_a_proof_needs_the_data_of_the_training(tmp_path):
    net, X, y, _ = fitted("sequence")
    ms.save_model(net, tmp_path / "m", certificate=True)
    with pytest.raises(ModelFileError, match=r"fingerprint .* trained on others"):
        verify_model(tmp_path / "m", [2 * x for x in X], y)
    with pytest.raises(ModelFileError, match="fingerprint"):
        verify_model(tmp_path / "m", X, [1 - np.minimum(own, 1) for own in y])
    ms.save_model(net, tmp_path / "m")
    with pytest.raises(ModelFileError, match="certificate=True"):
        verify_model(ms.load_model(tmp_path / "m"), X, y)


def test_the_file_names_what_it_holds(tmp_path):
    net, *_ = fitted("grid contrast")
    ms.save_model(net, tmp_path / "m")
    header = read_header(tmp_path / "m")
    assert header["estimator"] == "GridLabeler" and header["library"] == ms.__version__
    assert header["parameters"]["edge_features"] == "contrast" and header["objective"]["C"] == 5.0
    assert header["result"]["objective"] == net.result_.objective and header["result"]["guarantee"] == net.result_.guarantee
    assert header["certificate"] == {"kind": "DualCertificate", "n_planes": len(net.result_.certificate.alpha)}
    assert header["proof"] is None and len(header["objective"]["fingerprint"]) == 64
    assert ["weights", "<f8", [len(net.weights_)]] in header["arrays"]


def test_what_needs_the_data_is_refused(tmp_path):
    net, X, y, _ = fitted("sequence")
    ms.save_model(clone(net).set_params(warm_start=True).fit(X, y), tmp_path / "m", certificate=True)
    other = ms.load_model(tmp_path / "m")
    with pytest.raises(NotFittedError, match=r"holds no training data.*verify_model"):
        other.result_.certificate.verify(other.objective_, other.result_.weights)
    with pytest.raises(NotFittedError, match="no planes to go on from"):
        other.fit(X, y)
    again = other.set_params(warm_start=False).fit(X, y)
    assert again.result_.weights.tobytes() == net.result_.weights.tobytes()


def test_a_model_is_saved_and_loaded_again_and_again(tmp_path):
    net, _, _, new = fitted("sequence dicts")
    for name in "abc":
        ms.save_model(net, tmp_path / name)
        net = ms.load_model(tmp_path / name)
    assert read_header(tmp_path / "a")["model"] == read_header(tmp_path / "c")["model"]
    assert str(tmp_path) not in (tmp_path / "c").read_bytes().decode("latin1")
    same(net.predict(new), fitted("sequence dicts")[0].predict(new))


def test_parameters_of_the_training_that_are_code_are_left_out(tmp_path):
    X, y, new = SEQUENCE
    seen = []
    net = ms.SequenceLabeler(
        oracle=lambda problem: ms.solve(problem), callback=seen.append, checkpoint=tmp_path / "c", max_iter=3, tol=0.5
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.fit(X, y)
    ms.save_model(net, tmp_path / "m")
    other = ms.load_model(tmp_path / "m")
    assert read_header(tmp_path / "m")["left_out"] == {"oracle": "function <lambda>"}
    assert other.callback is None and other.checkpoint is None and "left out of the model file" in repr(other.oracle)
    same(net.predict(new), other.predict(new))
    with pytest.raises(Exception, match="left out of the model file"):
        other.fit(X, y)


class Odd:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        return isinstance(other, Odd)


@pytest.mark.parametrize(
    "label", [Odd(), b"bytes", frozenset([1]), 1j, ("a", b"b")], ids=["object", "bytes", "frozenset", "complex", "tuple"]
)
def test_other_classes_are_refused(label, tmp_path):
    pool = np.empty(3, dtype=object)
    pool[:] = [label, "b", "c"]
    X, y, _ = SEQUENCE
    net = ms.SequenceLabeler(tol=0.5).fit(X, [pool[own] for own in y])
    with pytest.raises(ModelFileError, match=r"classes\.0.* wanted numbers, text, tuples"):
        ms.save_model(net, tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_functions_that_predict_are_refused(tmp_path):
    X, y, _ = SEQUENCE
    net = ms.SequenceLabeler(features=Kernel(rbf), tol=0.5).fit(X, y)
    with pytest.raises(ModelFileError, match=r"features\.kernel is the function 'rbf'.* must not bring code"):
        ms.save_model(net, tmp_path / "m")

    class Own(ms.inference.TRWS):
        pass

    net = ms.SequenceLabeler(tol=0.5).fit(X, y).set_params(solver=Own())
    with pytest.raises(ModelFileError, match=r"parameter\.solver is Own"):
        ms.save_model(net, tmp_path / "m")


def test_only_fitted_estimators_of_ours_are_saved(tmp_path):
    with pytest.raises(ModelFileError, match=r"not fitted.* Call fit"):
        ms.save_model(ms.GridLabeler(), tmp_path / "m")
    pipeline = make_pipeline(StandardScaler(), ms.MultiLabelClassifier(tol=0.1)).fit(*TABLE[:2])
    with pytest.raises(ModelFileError, match=r"Pipeline, wanted one of.* save the last step"):
        ms.save_model(pipeline, tmp_path / "m")

    class GridLabeler(ms.GridLabeler):
        pass

    with pytest.raises(ModelFileError, match="wanted one of"):
        ms.save_model(GridLabeler(), tmp_path / "m")


def test_a_failed_write_leaves_the_old_model(tmp_path, monkeypatch):
    net, *_ = fitted("sequence")
    ms.save_model(net, tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        ms.save_model(net, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before and os.listdir(tmp_path) == ["m"]


def test_trees_with_tests_of_ones_own_are_refused(tmp_path):
    class Mine:
        n_node_tests = n_edge_tests = 1

        def node(self, sample, tests):
            return np.repeat(sample.X[:, :1] > 0.2, len(tests), axis=1)

        def edge(self, sample, tests):
            return np.zeros((sample.graph.n_edges, len(tests)), dtype=bool)

    spec = Convex(trees=Trees(1, 0, tests=Mine(), n_candidates=1, min_items=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = ms.GridLabeler(surrogate="logistic", potentials=spec, tol=0.1, max_iter=5).fit(*GRID[:2])
    with pytest.raises(ModelFileError, match="tests is Mine"):
        ms.save_model(net, tmp_path / "m")


def test_a_loaded_model_still_checks_its_input(tmp_path):
    net, *_ = fitted("sequence")
    ms.save_model(net, tmp_path / "m")
    other = ms.load_model(tmp_path / "m")
    with pytest.raises(InvalidSampleError, match="4 features a node, but the model has 3"):
        other.predict([np.zeros((2, 4))])
    with pytest.raises(InvalidParameterError, match="surrogate='likelihood'"):
        other.predict_marginals([np.zeros((2, 3))])
