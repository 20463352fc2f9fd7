"""What people do wrong in their first ten minutes, and the call that works."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import maxsum as ms


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
