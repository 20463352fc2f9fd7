"""What people do wrong in their first ten minutes, and the call that works."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import maxsum as ms
from maxsum.core.errors import InvalidGraphError, InvalidSampleError, ParseError

WORDS = [[{"w": "a"}, {"w": "b"}]]
IMAGE = np.zeros((6, 5, 3))
MASK = np.arange(30).reshape(6, 5) % 2


@pytest.mark.parametrize(
    ("graph", "way"),
    [
        (nx.path_graph(3), "Graph.from_networkx(graph)"),
        ([(0, 1), (1, 2)], "Graph.from_edges(pairs, n_nodes)"),
        (np.array([[0, 1], [1, 2]]), "Graph.from_edges(pairs, n_nodes)"),
        (sparse.eye_array(3, format="csr"), "Graph.from_sparse(matrix)"),
    ],
)
def test_a_graph_of_another_kind_names_the_call_that_makes_one(graph, way):
    with pytest.raises(ms.InvalidSampleError, match=r"wanted maxsum\.Graph") as error:
        ms.GraphSample(np.zeros((3, 1)), graph)
    assert way in str(error.value)


def test_labels_of_an_image_that_are_turned():
    with pytest.raises(ms.InvalidSampleError, match=r"shape \(5, 4\), but it has 4 x 5 pixels; rows and columns are swapped"):
        ms.GridLabeler().fit([np.zeros((4, 5, 2))], [np.zeros((5, 4), int)])
    with pytest.raises(ms.InvalidSampleError, match=r"shape \(3, 3\), but it has 4 x 5 pixels; wanted one label for each"):
        ms.GridLabeler().fit([np.zeros((4, 5, 2))], [np.zeros((3, 3), int)])


def test_text_in_a_table_of_numbers():
    X = np.array([[1.0, "red"], [2.0, "blue"]] * 4, dtype=object)
    with pytest.raises(
        ms.InvalidSampleError, match="sample 0 has the text 'red' at feature 1, wanted numbers; make indicators"
    ):
        ms.MultiLabelClassifier().fit(X, np.tile([[0, 1], [1, 0]], (4, 1)))
    net = ms.MultiLabelClassifier().fit(np.arange(8.0).reshape(4, 2), [[0, 1], [1, 0]] * 2)
    with pytest.raises(ms.InvalidSampleError, match="the text 'red' at feature 1"):
        net.predict(X[:1])


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: ms.SequenceLabeler().fit([["the", "dog"]], [["D", "N"]]), "Words become dicts"),
        (lambda: ms.SequenceLabeler().fit(["the dog"], [["D", "N"]]), "is the string 'the dog'"),
        (lambda: ms.SequenceLabeler().fit(WORDS, ["DN"]), "are 'DN', one string; wanted a list"),
        (lambda: ms.SequenceLabeler().fit(WORDS, [{0: "D", 1: "N"}]), r"wanted a list in the order of the nodes: \[labels.get"),
        (lambda: ms.SequenceLabeler().fit(WORDS, [["D", "N"]]).score(WORDS, [[0, 1]]), "strings, or both numbers"),
        (
            lambda: ms.GridLabeler().fit([IMAGE, IMAGE], [MASK, None]),
            "labels of sample 1 are None, wanted .* leave the sample out",
        ),
        (
            lambda: ms.GridLabeler().fit([np.moveaxis(IMAGE, 2, 0)], [MASK]),
            r"channels .* come first.*np.moveaxis\(image, 0, -1\)",
        ),
        (lambda: ms.GridLabeler().fit(["a.png"], [MASK]), "is the name 'a.png'.* Read files first"),
        (lambda: ms.GridLabeler().fit([IMAGE], [MASK / 255]), "wanted a class .a whole number or a string"),
        (lambda: ms.MultiLabelClassifier().fit(IMAGE[0], [[0.5, 0.1, 0.2]] * 5), "Wanted labels: 0 and 1"),
    ],
)
def test_mistakes_of_samples_and_labels(attempt, words):
    with pytest.raises(InvalidSampleError, match=words):
        attempt()


def test_what_the_error_about_names_says_works():
    pairs = [("b", "a"), ("a", "c")]
    with pytest.raises(InvalidGraphError, match="edges name nodes by strings such as 'b'"):
        ms.Graph.from_edges(pairs)
    names, ends = np.unique(pairs, return_inverse=True)
    graph = ms.Graph.from_edges(ends.reshape(-1, 2), len(names))
    assert [(names[u], names[v]) for u, v in graph.edges] == pairs


def test_one_class_is_said():
    with pytest.warns(UserWarning, match="all labels are 0, and so will be every prediction"):
        net = ms.GridLabeler().fit([IMAGE], [0 * MASK])
    assert (net.predict([IMAGE])[0] == 0).all()


def test_classes_may_be_a_range():
    assert ms.GridLabeler(classes=range(3)).fit([IMAGE], [MASK]).classes_.tolist() == [0, 1, 2]


def test_blanks_in_a_file_with_tabs(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("New York\tB\nthe\tO\n", encoding="utf-8")
    with pytest.raises(ParseError, match=r"2 columns, but 3 .* Blanks separate columns as tabs do"):
        ms.datasets.read_conll(path)


def test_a_graph_without_features_has_one_that_is_constant():
    sample, labels = ms.graphs.from_networkx(nx.path_graph(3))
    assert sample.X.tolist() == [[1.0], [1.0], [1.0]] and sample.graph.n_edges == 2 and labels is None
