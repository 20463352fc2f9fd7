"""Tables whose columns have classes of their own, and values of columns that exclude each other: against enumeration of all rows of classes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.storage import verify_model

WEATHER, WAY = np.array(["rain", "snow", "sun"]), np.array(["bus", "walk"])


def table(n=30, seed=0):
    """Weather, the way to work that goes with it, and a number that depends on both; as rows of a list."""
    rng = np.random.default_rng(seed)
    weather = rng.integers(3, size=n)
    way = np.where(weather == 2, 1, rng.integers(2, size=n))
    number = weather + 2 * way
    centres = np.random.default_rng(99).standard_normal((3, 4))
    X = centres[weather] + 0.4 * rng.standard_normal((n, 4))
    return X, [[str(WEATHER[a]), str(WAY[b]), int(c)] for a, b, c in zip(weather, way, number, strict=True)]


def blocks_score(net, x, labels):
    """Score of one row of classes from the blocks of weights."""
    blocks = net.coef_blocks_
    score = sum(blocks[f"nodes[{m}]"][k] @ x + blocks[f"bias[{m}]"][k] for m, k in enumerate(labels))
    return score + sum(blocks[f"edges[{u}-{v}]"][labels[u], labels[v]] for u, v in net.graph_.edges.tolist())


def hinge(net, X, coded, cost):
    """The objective by enumeration; nodes of unknown labels are no part of it."""
    sizes = [len(own) for own in net.classes_]
    blocks, value = net.coef_blocks_, 0.0
    for x, truth in zip(X, coded, strict=True):
        known = np.flatnonzero(truth >= 0)

        def score(z, x=x, known=known):
            own = sum(blocks[f"nodes[{m}]"][z[m]] @ x + blocks[f"bias[{m}]"][z[m]] for m in known)
            edges = [(u, v) for u, v in net.graph_.edges.tolist() if u in known and v in known]
            return own + sum(blocks[f"edges[{u}-{v}]"][z[u], z[v]] for u, v in edges)

        every = itertools.product(*(range(size) for size in sizes))
        value += max(score(z) + sum(cost(m, truth[m], z[m]) for m in known) for z in every) - score(np.maximum(truth, 0))
    return 0.5 * net.weights_ @ net.weights_ + net.C * value


@pytest.mark.parametrize(
    "options", [{}, {"class_weight": "balanced"}, {"class_weight": {1: {"walk": 3.0}}}, {"label_graph": "tree"}]
)
@pytest.mark.parametrize("surrogate", ["margin", "lp"])
def test_the_objective_is_what_enumeration_says(surrogate, options):
    X, Y = table(12)
    if surrogate == "lp":
        options = {"label_graph": "tree", **options}  # where the relaxation is exact
    Y[0][1] = None
    net = ms.MultiLabelClassifier(surrogate=surrogate, tol=1e-4, **options).fit(X, Y)
    coded = net.columns_.encode([list(own) for own in zip(*Y, strict=True)])
    weights = np.ones((3, 5))
    if options.get("class_weight") == "balanced":
        for m, own in enumerate(net.classes_):
            count = np.bincount(coded[coded[:, m] >= 0, m], minlength=len(own))
            weights[m, : len(own)] = count.sum() / (len(own) * count)
    elif "class_weight" in options:
        weights[1, 1] = 3.0
    value = hinge(net, X, coded, lambda m, t, z: weights[m, t] * (t != z))
    np.testing.assert_allclose(net.result_.objective, value, rtol=1e-6)
    net.result_.verify(net.objective_)
    assert net.graph_.n_edges == (2 if "label_graph" in options else 3)


def test_predictions_are_the_best_rows_in_the_form_that_was_given():
    X, Y = table()
    net = ms.MultiLabelClassifier(C=10.0).fit(X, Y)
    found = net.predict(X)
    assert found.shape == (30, 3) and found.dtype == object and found[0, 0] in WEATHER.tolist() and isinstance(found[0, 2], int)
    assert [own.tolist() for own in net.classes_] == [WEATHER.tolist(), WAY.tolist(), sorted({row[2] for row in Y})]
    every = list(itertools.product(*(range(len(own)) for own in net.classes_)))
    for x, row, losses, result in zip(X[:8], found, net.predict_max_marginals(X[:8]), net.predict_result(X[:8]), strict=False):
        scores = np.array([blocks_score(net, x, z) for z in every])
        best = every[int(scores.argmax())]
        assert row.tolist() == [own.tolist()[k] for own, k in zip(net.classes_, best, strict=True)]
        np.testing.assert_allclose(result.score, scores.max())
        for m, k in itertools.product(range(3), range(2)):
            own = max(s for s, z in zip(scores, every, strict=True) if z[m] == k)
            np.testing.assert_allclose(losses.lower[m, k], scores.max() - own, atol=1e-9)
    assert net.score(X, Y) == np.mean([own.tolist() == row for own, row in zip(found, Y, strict=True)]) > 0.4
    first = [[own[0], None, None] if j else [None] * 3 for j, own in enumerate(Y)]
    assert net.score(X, first) == np.mean([own[0] == row[0] for own, row in zip(found[1:], Y[1:], strict=True)])
    assert net.predict_k_best(X[:1], 2)[0].labels[0].tolist() == found[0].tolist()
    text = [[a, b] for a, b, _ in Y]
    assert ms.MultiLabelClassifier().fit(X, text).predict(X).dtype.kind == "U"
    assert ms.MultiLabelClassifier().fit(X, np.array([[c, c] for _, _, c in Y])).predict(X).dtype == np.int64
    names = [name for name, _ in net.top_features((0, "rain"), 9)]
    found = {(row["part"], row["label"]) for row in net.explain(2, as_frame=False)}
    assert ("nodes", ("0", "rain")) in found and ("edges[0-1]", "rain") in found
    assert set(names) <= {"x0", "x1", "x2", "x3", "bias"} and net.transitions("edges[0-1]").shape == (3, 2)


def test_probabilities_and_what_is_known():
    X, Y = table()
    net = ms.MultiLabelClassifier(surrogate="likelihood").fit(X, Y)
    every = list(itertools.product(*(range(len(own)) for own in net.classes_)))
    found = net.predict_proba(X[:3])
    for j in range(3):
        mass = np.exp([blocks_score(net, X[j], z) for z in every])
        for m, own in enumerate(net.classes_):
            wanted = [mass[[z[m] == k for z in every]].sum() / mass.sum() for k in range(len(own))]
            np.testing.assert_allclose(found[m][j], wanted, atol=1e-9)
    seen = net.predict(X, observed=[["snow", None, None]] * len(X))
    assert (seen[:, 0] == "snow").all()
    low, high = net.predict_labelling_proba(X[:3])
    assert (low > 0).all() and (high < 1).all()


@pytest.mark.parametrize("surrogate", ["margin", "likelihood"])
def test_values_that_exclude_each_other(surrogate):
    X, Y = table()
    rule = [((0, "sun"), (1, "bus"))]
    net = ms.MultiLabelClassifier(surrogate=surrogate, forbidden=rule).fit(X, Y)
    assert np.isneginf(net.coef_blocks_["edges[0-1]"]).sum() == 1
    new = 3 * np.random.default_rng(5).standard_normal((30, 4))
    assert not any(row[0] == "sun" and row[1] == "bus" for row in net.predict(new).tolist())
    every = [z for z in itertools.product(*(range(len(own)) for own in net.classes_)) if not (z[0] == 2 and z[1] == 0)]
    for x, result in zip(new[:5], net.predict_result(new[:5]), strict=True):
        np.testing.assert_allclose(result.score, max(blocks_score(net, x, z) for z in every))
    net.result_.verify(net.objective_)
    # A table of 0 and 1: never both, against a training without the rule, which says both somewhere.
    pairs = np.array([[row[0] == "rain", row[1] == "bus"] for row in Y]).astype(int)
    pairs[pairs.all(axis=1), 1] = 0
    strict = ms.MultiLabelClassifier(surrogate=surrogate, forbidden=[((0, 1), (1, 1))]).fit(X, pairs)
    assert (
        strict.predict(new).max() == 1 and not strict.predict(new).all(axis=1).any() and strict.predict(new).dtype == np.int64
    )
    with pytest.raises(InvalidSampleError, match="a pair that forbidden excludes"):
        ms.MultiLabelClassifier(forbidden=[((0, Y[0][0]), (1, Y[0][1]))]).fit(X, Y)


def test_files_clones_folds_and_sparse_features(tmp_path):
    from scipy import sparse

    X, Y = table()
    Y[3][2], Y[4][0] = -1, None
    net = ms.MultiLabelClassifier(forbidden=[((0, "sun"), (1, "bus"))], label_graph=[(1, 0), (1, 2)]).fit(X, Y)
    again = clone(net).fit(sparse.csr_matrix(X), Y)
    np.testing.assert_allclose(again.weights_, net.weights_, atol=1e-9)
    ms.save_model(net, tmp_path / "m.maxsum", certificate=True)
    other = ms.load_model(tmp_path / "m.maxsum")
    assert other.predict(X).tolist() == net.predict(X).tolist() and list(other.coef_blocks_) == list(net.coef_blocks_)
    assert verify_model(tmp_path / "m.maxsum", X, Y).objective <= net.result_.objective * (1 + 1e-6)
    many = ms.MultiLabelClassifierCV(Cs=[0.1, 1.0], cv=2, scoring="macro_f1").fit(X, Y)
    assert many.predict(X).shape == (30, 3) and np.isfinite(many.scores_).all()


class Frame:
    """What of a DataFrame is looked at."""

    def __init__(self, rows, names):
        self.columns, self.shape, self._rows = names, (len(rows), len(names)), rows

    @property
    def iloc(self):
        return self

    def __getitem__(self, which):
        return np.array([row[which[1]] for row in self._rows], dtype=object)

    def __len__(self):
        return len(self._rows)


def test_names_of_columns():
    X, Y = table()
    net = ms.MultiLabelClassifier(forbidden=[(("weather", "sun"), ("way", "bus"))]).fit(
        X, Frame(Y, ["weather", "way", "number"])
    )
    assert net.columns_.names == ("weather", "way", "number")
    assert "edges[weather-way]" in net.coef_blocks_ and len(net.top_features(("way", "bus"))) > 0
    assert net.score(X, Y) > 0.3
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert isinstance(net.predict(X), pandas.DataFrame) and list(net.predict(X).columns) == ["weather", "way", "number"]


@pytest.mark.parametrize(
    ("options", "change", "error", "words"),
    [
        ({"surrogate": "qp"}, None, InvalidParameterError, "wanted general potentials and the surrogate margin, lp"),
        ({"potentials": "potts"}, None, InvalidParameterError, "wanted general potentials"),
        ({"loss": [[0, 1], [1, 0]]}, None, InvalidParameterError, "the columns have different classes"),
        ({"class_weight": [1.0, 2.0]}, None, InvalidParameterError, "wanted 'balanced', a list of dicts"),
        ({"class_weight": {7: {"a": 2.0}}}, None, InvalidParameterError, "there is no column 7"),
        ({"forbidden": [((0, "hail"), (1, "bus"))]}, None, InvalidParameterError, "value 'hail' of column 0, wanted one of"),
        ({"forbidden": [((0, "sun"), (0, "rain"))]}, None, InvalidParameterError, "wanted two different ones"),
        ({"forbidden": ["sun"]}, None, InvalidParameterError, "wanted pairs"),
        ({"forbidden": [((0, "sun"), (1, "bus"))], "label_graph": [(1, 2)]}, None, InvalidParameterError, "has no edge between"),
        ({"forbidden": [((0, "sun"), (1, "bus"))], "surrogate": "lp"}, None, InvalidParameterError, "forbidden is given beside surrogate='lp'"),
        ({}, "half", ValueError, "continuous"),
        ({}, "nothing", InvalidSampleError, "column 1 of y has no known label"),
        ({}, "mixed", InvalidSampleError, "wanted text or numbers alone"),
    ],
)  # fmt: skip
def test_what_is_refused(options, change, error, words):
    X, Y = table()
    if change == "half":
        Y = [[0.5 * c, 1.5 * c] for _, _, c in Y]
    elif change == "nothing":
        Y = [[a, None, c] for a, _, c in Y]
    elif change == "mixed":
        Y[0][0] = 3
    with pytest.raises(error, match=words):
        ms.MultiLabelClassifier(**options).fit(X, Y)


def test_other_forms_are_refused_at_prediction():
    X, Y = table()
    net = ms.MultiLabelClassifier().fit(X, Y)
    with pytest.raises(InvalidParameterError, match="wanted predict_max_marginals"):
        net.decision_function(X)
    with pytest.raises(InvalidSampleError, match="wanted a table of 3"):
        net.score(X, [row[:2] for row in Y])
    with pytest.raises(InvalidSampleError, match="wanted 30 with classes"):
        net.predict(X, observed=[["hail", None, None]] * 30)
    with pytest.raises(InvalidParameterError, match=r"wanted \(column, class\)"):
        net.top_features("rain")
