"""Known labels at prediction, of sequences, grids, tables and graphs: one label, or a set of those that are possible; against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InfeasibleError, InvalidParameterError, InvalidSampleError

RNG = np.random.default_rng(0)
Y = [RNG.choice(["a", "b", "c"], size=(2, 3)) for _ in range(6)]
X = [
    np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])[np.searchsorted(["a", "b", "c"], y)] + RNG.standard_normal((2, 3, 3))
    for y in Y
]
GIVEN = [None, {"a", "c"}, "b", {"c"}, None, {"a", "b", "c"}]
ALLOWED = [{"a", "b", "c"}, {"a", "c"}, {"b"}, {"c"}, {"a", "b", "c"}, {"a", "b", "c"}]


def best(problem, allowed):
    rows = itertools.product(*([k for k, name in enumerate("abc") if name in own] for own in allowed))
    return max((np.array(row) for row in rows), key=problem.score)


def fitted(kind, **options):
    if kind is ms.GridLabeler:
        return kind(**options).fit(X, Y), X, [np.array(GIVEN, dtype=object).reshape(2, 3)] * 6
    flat, labels = [x.reshape(6, 3) for x in X], [y.ravel() for y in Y]
    if kind is ms.GraphLabeler:
        flat = [ms.GraphSample(x, ms.Graph.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [4, 5]], 6)) for x in flat]
    return kind(**options).fit(flat, labels), flat, [GIVEN] * 6


@pytest.mark.parametrize("kind", [ms.SequenceLabeler, ms.GridLabeler, ms.GraphLabeler])
def test_known_labels_and_sets_of_them_are_kept(kind):
    net, samples, observed = fitted(kind)
    found = net.predict(samples, observed=observed)
    results, free = net.predict_result(samples, observed=observed), net.problems(samples)
    restricted = net.problems(samples, observed)
    for own, result, problem, hard in zip(found, results, free, restricted, strict=True):
        expected = best(problem, ALLOWED)
        assert np.ravel(own).tolist() == net.classes_[expected].tolist() == net.classes_[result.labels].tolist()
        result.certificate.verify(hard, result.labels)
        np.testing.assert_allclose(result.score, problem.score(expected))
    assert any((np.ravel(own) != np.ravel(other)).any() for own, other in zip(found, net.predict(samples), strict=True))


def test_rows_of_a_grid_may_be_lists_with_sets():
    net, images, _ = fitted(ms.GridLabeler)
    rows = [[None, {"a", "c"}, "b"], [{"c"}, None, {"a", "b", "c"}]]
    for own, other in zip(net.predict(images, observed=[rows] * 6), net.predict(images, observed=[GIVEN] * 6), strict=True):
        np.testing.assert_array_equal(own, other)


def test_chains_over_pairs_of_labels():
    net, samples, observed = fitted(ms.SequenceLabeler, order=2)
    for own, problem in zip(net.predict(samples, observed=observed), net.problems(samples), strict=True):
        rows = itertools.product(*([k for k, name in enumerate("abc") if name in one] for one in ALLOWED))
        tags = max(rows, key=lambda row: problem.score(np.array([row[0], *(3 * a + b for a, b in itertools.pairwise(row))])))
        assert own.tolist() == ["abc"[k] for k in tags]


def test_tables_of_labels():
    rng = np.random.default_rng(1)
    table = rng.integers(0, 2, size=(30, 4))
    rows = table @ rng.standard_normal((4, 3)) + 0.5 * rng.standard_normal((30, 3))
    net = ms.MultiLabelClassifier().fit(rows, table)
    observed = np.where(rng.random(table.shape) < 0.5, table, -1)
    found = net.predict(rows, observed=observed)
    assert (found[observed >= 0] == observed[observed >= 0]).all()
    for own, seen, problem in zip(found, observed, net.problems(rows), strict=True):
        every = [np.array(z) for z in itertools.product((0, 1), repeat=4) if ((seen < 0) | (seen == z)).all()]
        np.testing.assert_allclose(problem.score(own), max(problem.score(z) for z in every))
    hidden = observed < 0
    assert (found == table)[hidden].mean() >= (net.predict(rows) == table)[hidden].mean() - 0.1
    missing = np.where(observed < 0, np.nan, observed)
    np.testing.assert_array_equal(net.predict(rows, observed=missing), found)
    with pytest.raises(InvalidSampleError, match=r"wanted 0, 1, or -1 where nothing is known, of shape \(30, 4\)"):
        net.predict(rows, observed=observed[:, :3])
    single = ms.MultiLabelClassifier().fit(rows, table[:, 0])
    with pytest.raises(InvalidParameterError, match="a sample has one class"):
        single.predict(rows, observed=table[:, 0])


def test_what_cannot_be_observed():
    net, samples, _ = fitted(ms.SequenceLabeler)
    with pytest.raises(InvalidSampleError, match="label of sample 1, node 2 may be x, wanted some of the classes"):
        net.predict(samples[:2], observed=[GIVEN, [None, None, {"a", "x"}, None, None, None]])
    with pytest.raises(InvalidSampleError, match="label of sample 0, node 1 is an empty set"):
        net.predict(samples[:1], observed=[[None, set(), None, None, None, None]])
    with pytest.raises(InvalidSampleError, match="there are 6 samples, but 1 labellings"):
        net.predict(samples, observed=[GIVEN])
    rules = ms.SequenceLabeler(classes=["I-X", "O"], forbidden="bio").fit([np.eye(2)], [["O", "O"]])
    with pytest.raises(InfeasibleError, match="sample 0: node 0 has no label left"):
        rules.predict([np.eye(2)], observed=[["I-X", None]])
    assert rules.predict([np.eye(2)], observed=[["O", None]])[0].tolist() == ["O", "O"]


def test_labels_that_are_neither_numbers_nor_text():
    net = ms.SequenceLabeler().fit([np.eye(3)], [[("a", 1), None, ("b", 2)]])
    observed = [[{("a", 1), ("b", 2)}, ("b", 2), None]]
    assert net.predict([np.eye(3)], observed=observed)[0].tolist()[1] == ("b", 2)
