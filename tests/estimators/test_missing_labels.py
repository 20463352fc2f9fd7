"""Labels that are not given, in every form that data have them in: all estimators learn and score the same."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from factories.labels import NA
from factories.samples import linked_table, paired_sequences, striped_images

import maxsum as ms
from maxsum.core.errors import InvalidSampleError
from maxsum.models import GraphModel

WORDS = np.array(["cat", "dog", "hen"])


def graphs() -> tuple[list[Any], list[np.ndarray]]:
    X, y = paired_sequences(6, longest=7)
    return [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X], y


CASES = {
    "graph": (ms.GraphLabeler(C=0.5), graphs),
    "sequence": (ms.SequenceLabeler(C=0.5), lambda: paired_sequences(6, longest=7)),
    "grid": (ms.GridLabeler(C=0.05), lambda: striped_images(4)),
}


def hide(y: list[np.ndarray], unknown: Any, names: np.ndarray | None, as_lists: bool) -> list[Any]:
    """Every fourth label as ``unknown``, and all of the first sample."""
    found = []
    for j, own in enumerate(y):
        new = np.empty(own.shape, dtype=object)
        new[...] = own if names is None else names[own]
        new.flat[::4] = unknown
        if j == 0:
            new[...] = unknown
        found.append(new.tolist() if as_lists else new)
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("words", [False, True])
def test_all_ways_to_say_unknown(name: str, words: bool) -> None:
    net, make = CASES[name]
    X, y = make()
    names = WORDS if words else None
    wanted = net.fit(X, hide(y, None, names, False))
    weights, score, classes = wanted.weights_.tobytes(), wanted.score(X, hide(y, None, names, False)), wanted.classes_.tolist()
    for unknown in (-1, float("nan"), np.float64("nan"), NA, *([""] if words else [])):
        for as_lists in (False, True):
            given = hide(y, unknown, names, as_lists)
            net.fit(X, given)
            assert net.weights_.tobytes() == weights and net.classes_.tolist() == classes, unknown
            assert net.score(X, given) == score
            with pytest.raises(InvalidSampleError, match="no node has a known label"):
                net.score(X[:1], given[:1])
    masked = [np.ma.MaskedArray(own if names is None else names[own], np.zeros(own.shape, bool)) for own in y]
    for j, own in enumerate(masked):
        own.mask.flat[::4] = True
        own.mask[...] |= j == 0
    assert net.fit(X, masked).weights_.tobytes() == weights
    plain = net.fit(X, y if names is None else [names[own] for own in y])
    assert plain.weights_.tobytes() != weights


def test_arrays_of_floats_and_of_strings() -> None:
    X, y = paired_sequences(6, longest=7)
    none = ms.SequenceLabeler().fit(X, hide(y, None, None, False)).weights_
    floats = [np.array(own, dtype=float) for own in hide(y, np.nan, None, False)]
    assert ms.SequenceLabeler().fit(X, floats).weights_.tobytes() == none.tobytes()
    strings = [np.array(own, dtype=str) for own in hide(y, "", WORDS, False)]
    assert ms.SequenceLabeler().fit(X, strings).weights_.tobytes() == none.tobytes()
    mixed = [floats[0], *strings[1:]]
    assert np.isnan(mixed[0]).all() and ms.SequenceLabeler().fit(X, mixed).weights_.tobytes() == none.tobytes()


def test_what_is_declared_is_a_class() -> None:
    X, y = paired_sequences(6, longest=7)
    net = ms.SequenceLabeler(classes=[-1, 0, 1]).fit(X, [own - 1 for own in y])
    assert net.classes_.tolist() == [-1, 0, 1]
    assert net.weights_.tobytes() == ms.SequenceLabeler().fit(X, y).weights_.tobytes()
    names = np.array(["", "dog", "hen"])
    net = ms.SequenceLabeler(classes=["", "dog", "hen"]).fit(X, [names[own] for own in y])
    assert net.classes_.tolist() == ["", "dog", "hen"]
    assert net.weights_.tobytes() == ms.SequenceLabeler().fit(X, y).weights_.tobytes()
    mixed = ms.SequenceLabeler().fit(X, [[{0: ("a", 1), 1: NA, 2: -1}[int(k)] if k else 7 for k in own] for own in y])
    assert set(mixed.classes_.tolist()) == {7}
    only = ms.SequenceLabeler().fit(X, [np.full(len(own), "") for own in y])
    assert only.classes_.tolist() == [""]


def test_models_read_them_too() -> None:
    sample = ms.GraphSample(np.arange(8.0).reshape(4, 2), ms.Graph.chain(4))
    for given in (["a", -1, "b", "a"], ["a", float("nan"), "b", "a"], ["a", "", "b", "a"], ["a", NA, "b", "a"]):
        bound = GraphModel().bind([sample], [given])
        assert bound.classes[0].tolist() == ["a", "b"] and len(bound.labels) == 3 and len(bound.data.edges) == 1
    observed = ms.GraphLabeler().fit([sample], [["a", "b", "b", "a"]]).predict([sample], observed=[["", "b", NA, np.nan]])
    assert observed[0][1] == "b"


def test_tables_of_labels() -> None:
    X, Y = linked_table(n=12)
    hidden = np.random.default_rng(0).random(Y.shape) < 0.25
    wanted = ms.MultiLabelClassifier(C=1.0).fit(X, np.where(hidden, -1, Y)).weights_.tobytes()
    for unknown in (None, float("nan"), NA, ""):
        given = Y.astype(object)
        given[hidden] = unknown
        assert ms.MultiLabelClassifier(C=1.0).fit(X, given).weights_.tobytes() == wanted
        assert ms.MultiLabelClassifier(C=1.0).fit(X, given.tolist()).weights_.tobytes() == wanted
    assert ms.MultiLabelClassifier(C=1.0).fit(X, np.where(hidden, np.nan, Y)).weights_.tobytes() == wanted
    positive = np.where(Y == 1, 1.0, np.nan)
    assert ms.MultiLabelClassifier(C=1.0).fit(X, positive).predict(X).shape == Y.shape


def test_one_class_a_sample() -> None:
    X, Y = linked_table(n=20)
    y = WORDS[Y[:, 0] + Y[:, 1]]
    wanted = ms.MultiLabelClassifier().fit(X[5:], y[5:])
    for unknown in (None, float("nan"), NA, ""):
        given = y.astype(object)
        given[:5] = unknown
        for own in (given, given.tolist(), given.reshape(-1, 1)):
            net = ms.MultiLabelClassifier().fit(X, own)
            assert net.weights_.tobytes() == wanted.weights_.tobytes() and net.classes_.tolist() == wanted.classes_.tolist()
    floats = np.where(np.arange(20) < 5, np.nan, Y[:, 0] * 2.0)
    assert ms.MultiLabelClassifier().fit(X, floats).classes_.tolist() == [0, 2]
    with pytest.raises(InvalidSampleError, match="none is known"):
        ms.MultiLabelClassifier().fit(X, np.full(20, np.nan))


@pytest.mark.parametrize("graph", ["complete", "tree"])
def test_a_few_unknown_labels_cost_little(graph: str) -> None:
    """It was a hundred times: a solver was called for each sample."""
    random = np.random.default_rng(0)
    X = random.standard_normal((1000, 30))
    Y = (X @ random.standard_normal((30, 6)) + 2 * random.standard_normal((1000, 6)) > 0).astype(int)
    some = np.where(random.random(Y.shape) < 0.05, -1, Y)
    net = ms.MultiLabelClassifier(label_graph=graph, C=0.1)
    times = []
    for given in (Y, some):
        net.fit(X[:30], given[:30])  # compiles
        started = time.process_time()
        net.fit(X, given)
        times.append(time.process_time() - started)
    assert net.result_.relative_gap <= 1e-3 and times[1] <= 20 * times[0] + 0.5
