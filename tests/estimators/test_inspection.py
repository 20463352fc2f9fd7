"""What models tell about their weights, with the names that the data have."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError

RNG = np.random.default_rng(1)
WORDS = [[{"word": "the"}, {"word": "dog"}, {"word": "barks"}], [{"word": "a"}, {"word": "dog"}]]
TAGS = [["D", "N", "V"], ["D", "N"]]


def test_top_features_are_the_largest_weights_of_a_class():
    net = ms.SequenceLabeler(C=5.0, bias=True).fit(WORDS, TAGS)
    names = [*net.model_.layout.model.features.names, "bias"]
    weights = np.append(net.coef_blocks_["nodes"][:, 1], net.coef_blocks_["bias"][1])
    for smallest in (False, True):
        sign = -1 if smallest else 1
        wanted = sorted(((n, w) for n, w in zip(names, weights, strict=True) if sign * w > 0), key=lambda own: -sign * own[1])
        assert net.top_features("N", 3, smallest=smallest) == wanted[:3]
    with pytest.raises(InvalidParameterError, match="wanted one of the classes"):
        net.top_features("X")
    with pytest.raises(InvalidParameterError, match="node_type"):
        net.top_features("N", node_type=1)


def test_weights_of_nodes_that_have_their_own_are_named_by_node():
    samples = [ms.GraphSample(RNG.standard_normal((2, 2)), ms.Graph.chain(2)) for _ in range(8)]
    labels = [[int(own.X[0, 0] > 0), int(own.X[1, 1] > 0)] for own in samples]
    net = ms.GraphLabeler(homogeneous=False, C=10.0).fit(samples, labels)
    assert {name for name, _ in net.top_features(1, 2)} == {"node 0: x0", "node 1: x1"}


def test_transitions_are_the_pairwise_block():
    net = ms.SequenceLabeler(C=5.0).fit(WORDS, TAGS)
    np.testing.assert_array_equal(net.transitions(), net.coef_blocks_["edges"])
    with pytest.raises(InvalidParameterError, match="wanted one of the pairwise blocks edges"):
        net.transitions("triples")
    images = [np.array([[0, 1], [0, 1]]), np.array([[1, 1], [0, 0]])]
    seg = ms.GridLabeler(edge_types="directions", C=10.0).fit(images, images)
    assert seg.transitions("edges[vertical]").shape == (2, 2)


def test_names_of_columns_are_kept():
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame(RNG.standard_normal((40, 2)), columns=["height", "width"])
    table = pd.DataFrame({"tall": (rows["height"] > 0) * 1, "wide": (rows["width"] > 0) * 1})
    net = ms.MultiLabelClassifier(C=5.0, bias=False).fit(rows, table)
    assert net.classes_.tolist() == ["tall", "wide"]
    assert net.top_features("wide", 1)[0][0] == "width"
    frame = net.transitions(as_frame=True)
    assert frame.index.tolist() == ["tall-wide"]
    np.testing.assert_array_equal(frame.loc["tall-wide", ["00", "11"]], net.transitions()[0, [0, 1], [0, 1]])
    assert ms.MultiLabelClassifier().fit(rows, table.to_numpy()).classes_.tolist() == [0, 1]
    tag = ms.SequenceLabeler(C=5.0).fit([rows], [(rows["height"] > 0).map({True: "t", False: "s"})])
    assert tag.feature_names_in_.tolist() == ["height", "width"]
    assert tag.top_features("t", as_frame=True)["feature"][0] == "height"
    shown = tag.transitions(as_frame=True)
    assert shown.loc["s", "t"] == tag.transitions()[0, 1]
    assert not hasattr(tag.fit([rows.to_numpy()], [np.arange(40) % 2]), "feature_names_in_")


def test_names_of_columns_are_saved(tmp_path):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame(RNG.standard_normal((40, 2)), columns=["height", "width"])
    table = pd.DataFrame({"tall": (rows["height"] > 0) * 1, "wide": (rows["width"] > 0) * 1})
    net = ms.MultiLabelClassifier().fit(rows, table)
    ms.save_model(net, tmp_path / "net.maxsum")
    again = ms.load_model(tmp_path / "net.maxsum")
    assert again.classes_.tolist() == ["tall", "wide"]
    assert again.top_features("tall") == net.top_features("tall")


def test_without_pandas_frames_are_refused(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    net = ms.SequenceLabeler(C=5.0).fit(WORDS, TAGS)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(InvalidParameterError, match="pandas is not installed"):
        net.transitions(as_frame=True)


def test_two_classes_have_opposite_features():
    rows = RNG.standard_normal((30, 2))
    net = ms.MultiLabelClassifier(C=5.0, bias=False).fit(rows, np.where(rows[:, 0] > 0, "yes", "no"))
    assert net.top_features("yes", 1)[0][0] == "x0"
    best, worst = net.top_features("yes", 1)[0], net.top_features("no", 1, smallest=True)[0]
    assert best[0] == worst[0]
    assert best[1] == -worst[1]


def test_the_forms_of_crfsuite_are_the_same_features():
    forms = [
        [["word=dog", "end=g", "end=og", "next:word=barks"], ["word=barks"]],
        [{"word": "dog", "end": ["g", "og"], "next": {"word": "barks"}}, {"word=barks": 1.0}],
        [{"word": "dog", "end": {"g", "og"}, "next": {"word": ["barks"]}}, {"word=barks"}],
    ]
    tables = []
    for form in forms:
        features = ms.models.Dicts().fit([ms.GraphSample(form, ms.Graph.chain(2))])
        order = np.argsort(features.names)
        tables.append(features.encode([ms.GraphSample(form, ms.Graph.chain(2))]).toarray()[:, order])
        assert sorted(features.names) == ["end=g", "end=og", "next:word=barks", "word=barks", "word=dog"]
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0], tables[2])
    numbers = ms.models.Dicts().fit([ms.GraphSample([{"a": {"b": 2.5, "c": True}}, ["a:c", "a:c"]], ms.Graph.chain(2))])
    assert numbers.encode([ms.GraphSample([{"a": {"b": 2.5}}, ["a:c", "a:c"]], ms.Graph.chain(2))]).toarray().tolist() == [
        [2.5, 0.0],
        [0.0, 2.0],
    ]
    tag = ms.SequenceLabeler(C=10.0).fit([forms[0]], [["N", "V"]])
    assert tag.predict([forms[1], forms[2]])[1].tolist() == ["N", "V"]


@pytest.mark.parametrize("node", [{"a": [1.0]}, {"a": {"b": None}}, [1.5, "a"], {"a": np.nan}, 3])
def test_other_forms_are_refused_with_their_place(node):
    with pytest.raises(InvalidSampleError, match="sample 0, node 1"):
        ms.SequenceLabeler().fit([[{"a": "x"}, node]], [["N", "V"]])


def test_explain_is_top_features_and_transitions_in_one_table():
    net = ms.SequenceLabeler(C=5.0, bias=True, forbidden=[("N", "D")]).fit(WORDS, TAGS)
    rows = net.explain(2, as_frame=False)
    for label in "DNV":
        nodes = [(own["with"], own["weight"]) for own in rows if own["part"] == "nodes" and own["label"] == label]
        assert nodes == net.top_features(label, 2) + net.top_features(label, 2, smallest=True)[::-1]
    table = net.transitions()
    pairs = [(own["label"], own["with"], own["weight"]) for own in rows if own["part"] == "edges"]
    assert all(table["DNV".index(a), "DNV".index(b)] == weight for a, b, weight in pairs)
    assert pairs[0][2] == table.max() and pairs[-1] == ("N", "D", -np.inf) and len(pairs) == 4


def test_explain_names_what_every_estimator_has():
    Y = np.array([[0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1]] * 3)
    net = ms.MultiLabelClassifier(C=5.0).fit(RNG.normal(size=(12, 2)), Y)
    rows = net.explain(as_frame=False)
    assert {own["with"] for own in rows if own["part"] == "nodes"} == {"x0", "x1", "bias"}
    assert {own["label"] for own in rows if own["part"] == "edges"} == {"0-1", "0-2", "1-2"}
    single = ms.MultiLabelClassifier(C=5.0).fit(RNG.normal(size=(12, 2)), Y[:, 0])
    assert {own["label"] for own in single.explain(as_frame=False)} == {0, 1}
    images = [np.array([[0, 1], [0, 1]]), np.array([[1, 1], [0, 0]])]
    seg = ms.GridLabeler(edge_types="directions", C=10.0).fit(images, images)
    assert {own["part"] for own in seg.explain(as_frame=False)} == {"nodes", "edges[horizontal]", "edges[vertical]"}


def test_explain_is_a_frame_where_pandas_is(monkeypatch):
    net = ms.SequenceLabeler(C=5.0).fit(WORDS, TAGS)
    pd = pytest.importorskip("pandas")
    found = net.explain()
    assert isinstance(found, pd.DataFrame) and found.to_dict("records") == net.explain(as_frame=False)
