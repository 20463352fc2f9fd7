"""Robustness in use: the quick form of the experiment, and its parts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

import maxsum as ms
from maxsum import experiments
from maxsum.core.errors import InvalidSampleError
from maxsum.estimators import RowTransformer
from maxsum.experiments import robustness


def test_the_experiment() -> None:
    lines: list[str] = []
    report = experiments.run("robustness", quick=True, progress=lines.append)
    assert len(lines) == len(report.rows) == 2 and not report.failed, report.claims
    assert all(int(row[1]) >= 2 for row in report.rows)


def test_folds_are_counted() -> None:
    task = robustness.Task("", None, None, [np.array([0, 1])] * 19 + [np.array([5, 1])])
    assert robustness.lacking(task) == 1
    assert robustness.lacking(task._replace(y=[np.array([0, 1, 3])] * 20)) == 0


def test_rows_are_transformed_whatever_holds_them() -> None:
    random = np.random.default_rng(0)
    X = [random.normal(size=(n, 3)) * [1.0, 50.0, 9.0] + 7 for n in (4, 2, 5)]
    expected = StandardScaler().fit(np.concatenate(X))
    scaler = RowTransformer(StandardScaler()).fit(X)
    for given, found in zip(X, scaler.transform(X), strict=True):
        np.testing.assert_allclose(found, expected.transform(given))
    images = [x.reshape(-1, 1, 3) for x in X]
    assert [own.shape for own in RowTransformer(StandardScaler()).fit_transform(images)] == [own.shape for own in images]
    graphs = [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X]
    np.testing.assert_allclose(RowTransformer(StandardScaler()).fit_transform(graphs)[1].X, expected.transform(X[1]))
    rows = RowTransformer(StandardScaler(with_mean=False)).fit_transform([sparse.csr_matrix(x) for x in X])
    np.testing.assert_allclose(rows[2].toarray(), X[2] / expected.scale_)
    assert scaler.transform([np.zeros((0, 3))])[0].shape == (0, 3)
    assert clone(scaler).set_params(transformer__with_mean=False).get_params()["transformer__with_mean"] is False


def test_rows_that_do_not_fit() -> None:
    scaler = RowTransformer(StandardScaler())
    with pytest.raises(NotFittedError):
        scaler.transform([np.zeros((2, 3))])
    with pytest.raises(InvalidSampleError, match="sample 1 has 2 features a node, but sample 0 has 3"):
        scaler.fit([np.zeros((2, 3)), np.zeros((2, 2))])
    with pytest.raises(InvalidSampleError, match=r"sample 0 has shape \(4,\)"):
        scaler.fit([np.arange(4)])
    with pytest.raises(InvalidSampleError, match="no samples"):
        scaler.fit([])
    with pytest.raises(InvalidSampleError, match="sample 0 is no array of numbers"):
        scaler.fit([[{"a": 1}]])
    with pytest.raises(InvalidSampleError, match="sample 0 has 2 features a node, but training had 3"):
        scaler.fit([np.eye(3)]).transform([np.zeros((2, 2))])
