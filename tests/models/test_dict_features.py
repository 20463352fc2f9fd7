"""Features from dicts: names, counts, the order of columns."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.models import Dicts, GraphSample, Hashed

WORDS = [["the", "dog", "sees", "the", "cat"], ["a", "dog", "sees"]]


def samples(words=WORDS):
    return [GraphSample([{"word": w, "length": len(w)} for w in own], ms.Graph.chain(len(own))) for own in words]


def test_columns_come_in_the_order_of_first_occurrence():
    fitted = Dicts().fit(samples())
    assert fitted.names == ["word=the", "length", "word=dog", "word=sees", "word=cat", "word=a"]
    matrix = fitted.encode(samples()).toarray()
    assert matrix.shape == (8, 6) and matrix[:, 1].tolist() == [3, 3, 4, 3, 3, 1, 3, 4]
    for row, word in zip(matrix, [w for own in WORDS for w in own], strict=True):
        assert row[fitted.names.index(f"word={word}")] == 1 and np.count_nonzero(row) == 2


def test_min_count_leaves_out_the_rare():
    counts = {"word=the": 2, "word=dog": 2, "word=sees": 2, "length": 8, "word=cat": 1, "word=a": 1}
    for least in (1, 2, 3):
        fitted = Dicts(min_count=least).fit(samples())
        assert set(fitted.names) == {name for name, count in counts.items() if count >= least}
        assert fitted.encode(samples()).shape == (8, fitted.n_features)
    twice = [GraphSample([{"w": "a", "w=a": 1.0}, {"b": 1.0}], ms.Graph.chain(2))]
    assert Dicts(min_count=2).fit(twice).names == [] and Dicts().fit(twice).encode(twice).toarray().tolist() == [[2, 0], [0, 1]]
    assert Dicts(("x",), min_count=9).fit(samples()).names == ["x"]
    for bad in (0, 1.5, True, "2"):
        with pytest.raises(InvalidParameterError, match="min_count is"):
            Dicts(min_count=bad)


def test_min_count_in_a_labeler():
    X = [[{"word": w} for w in own] for own in WORDS]
    y = [["D", "N", "V", "D", "N"], ["D", "N", "V"]]
    every, frequent = (ms.SequenceLabeler(C=10.0, features=Dicts(min_count=m)).fit(X, y) for m in (1, 2))
    assert (every.n_features_in_, frequent.n_features_in_) == (5, 3)
    assert len(every.weights_) - len(frequent.weights_) == 2 * 3
    assert frequent.set_params(features__min_count=1).fit(X, y).weights_.tobytes() == every.weights_.tobytes()


def test_names_that_are_no_strings_keep_apart():
    given = [GraphSample([{1: "a"}, {"1": "a"}, {1: 2.0}, {True: "a"}], ms.Graph.chain(4))]
    assert set(Dicts().fit(given).names) >= {"1=a", "True=a", "1"}


def test_hashed_features_have_signs():
    given = samples()
    matrix = Hashed(1 << 12).encode(given).toarray()
    assert matrix.shape == (8, 1 << 12) and set(np.abs(matrix[matrix != 0]).tolist()) <= {1.0, 3.0, 4.0}
    np.testing.assert_array_equal(matrix[1], matrix[6])
    for bad in ({"a": None}, {"a": np.inf}, 7):
        with pytest.raises(InvalidSampleError, match="sample 0, node 1"):
            Hashed().encode([GraphSample([{"b": 1.0}, bad], ms.Graph.chain(2))])
