"""check_structured_estimator passes the labelers, and finds what is broken."""

from __future__ import annotations

import numpy as np
import pytest
from factories.samples import paired_sequences, striped_images

import maxsum as ms
from maxsum.core.errors import MaxsumError
from maxsum.estimators import check_structured_estimator
from maxsum.learning import CuttingPlane


@pytest.mark.parametrize(
    "estimator",
    [
        ms.SequenceLabeler(C=5.0),
        ms.SequenceLabeler(C=2.0, bias=True, class_weight="balanced", learner=CuttingPlane(), warm_start=True),
        ms.SequenceLabeler(C=1.0, classes=[2, 1, 0, 5], potentials="potts"),
    ],
    ids=["plain", "weighted", "potts"],
)
def test_sequence_labeler(estimator):
    done = check_structured_estimator(estimator, *paired_sequences(6))
    assert len(done) == 10 and "sample_weight" in done


def test_sequences_of_dicts_with_unknown_labels():
    X, y = paired_sequences(6)
    words = [[{"word": "abc"[row.argmax()], "size": float(row.max())} for row in x] for x in X]
    labels = [[None if i == 1 else ("x", int(k)) for i, k in enumerate(own)] for own in y]
    check_structured_estimator(ms.SequenceLabeler(C=5.0), words, labels)


@pytest.mark.parametrize(
    "estimator",
    [
        ms.GridLabeler("supermodular", C=5.0, edge_features="contrast"),
        ms.GridLabeler("potts", C=0.5, connectivity=8, edge_types="directions"),
    ],
    ids=["contrast", "directions"],
)
def test_grid_labeler(estimator):
    check_structured_estimator(estimator, *striped_images(4))


def test_graph_labeler():
    X, y = paired_sequences(6)
    check_structured_estimator(ms.GraphLabeler(C=5.0), [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X], y)


class ForgetsWeights(ms.SequenceLabeler):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


class ChangesParameters(ms.SequenceLabeler):
    def fit(self, X, y, sample_weight=None):
        self.C = float(self.C) + 1
        return super().fit(X, y, sample_weight)


class ChangesData(ms.SequenceLabeler):
    def fit(self, X, y, sample_weight=None):
        X[0] *= 2
        return super().fit(X, y, sample_weight)


class CountsClasses(ms.SequenceLabeler):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.classes_ = np.unique(np.concatenate([np.ravel(own) for own in y]))
        return self


class Random(ms.SequenceLabeler):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.weights_ = self.weights_ + 1e-3 * np.random.default_rng().normal(size=len(self.weights_))
        return self


class Flat(ms.SequenceLabeler):
    def predict(self, X, solver=None):
        return np.concatenate([np.zeros(0, dtype=int), *super().predict(X, solver)])


class Unfitted(ms.SequenceLabeler):
    def predict(self, X, solver=None):
        return super().predict(X, solver) if hasattr(self, "model_") else [np.zeros(len(x)) for x in X]


class NoPickle(ms.SequenceLabeler):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.lambda_ = lambda: None
        return self


class Jobs(ms.SequenceLabeler):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.weights_ = self.weights_ * (self.n_jobs or 1)
        return self


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (ForgetsWeights, "'sample_weight'.* minimises another objective"),
        (ChangesParameters, "'fit'.* fit changed the parameter C"),
        (ChangesData, "'fit'.* changed the data"),
        (CountsClasses, "'missing_class'.* classes_ is"),
        (Random, "'fit'.* a second fit on the same data differs"),
        (Flat, "'predictions'.* wanted a list"),
        (Unfitted, "'not_fitted'.* predict before fit did not raise"),
        (NoPickle, "'pickling'.* it raised"),
        (Jobs, "'n_jobs'.* other weights"),
    ],
)
def test_a_broken_estimator_is_caught(broken, words):
    with pytest.raises(AssertionError, match=words) as caught:
        check_structured_estimator(broken(C=5.0), *paired_sequences(6))
    assert isinstance(caught.value, MaxsumError) and broken.__name__ in str(caught.value)


def test_too_few_samples():
    with pytest.raises(AssertionError, match="got 2 samples and 2 labellings, wanted at least 4"):
        check_structured_estimator(ms.SequenceLabeler(), [[0], [1]], [[0], [1]])
