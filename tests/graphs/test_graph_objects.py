"""Samples from objects of other libraries, and parts of a sample."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import maxsum as ms


class Tensor:
    """As much of a tensor as is asked for."""

    def __init__(self, values: Any):
        self.values = np.asarray(values)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> np.ndarray:
        return self.values


def data(**changed: Any) -> SimpleNamespace:
    """A triangle in both directions, and a loop."""
    own = {
        "x": Tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]),
        "edge_index": Tensor([[0, 1, 1, 2, 0, 2, 1], [1, 0, 2, 1, 2, 0, 1]]),
        "edge_attr": Tensor([[2.0], [2.0], [3.0], [3.0], [4.0], [4.0], [9.0]]),
        "y": Tensor([0, 1, 1]),
        "train_mask": Tensor([True, False, True]),
    }
    return SimpleNamespace(**{**own, **changed})


def test_pyg() -> None:
    sample, labels = ms.graphs.from_pyg(data())
    assert sample.graph.edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert sample.edge_features.tolist() == [[2.0], [4.0], [3.0]]
    assert sample.X.tolist() == [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    assert labels.tolist() == [0, -1, 1]
    assert ms.graphs.from_pyg(data(), mask=None)[1].tolist() == [0, 1, 1]
    assert ms.graphs.from_pyg(data(), mask=np.array([False, True, False]))[1].tolist() == [-1, 1, -1]
    assert ms.graphs.from_pyg(data(y=None))[1] is None
    assert ms.graphs.from_pyg(data(edge_attr=None))[0].edge_features is None
    assert ms.graphs.from_pyg(data(edge_attr=None, edge_weight=Tensor(np.ones(7))))[0].edge_features.tolist() == [[1.0]] * 3


def test_pyg_is_trained_on() -> None:
    sample, labels = ms.graphs.from_pyg(data())
    net = ms.GraphLabeler("associative", C=10.0).fit([sample], [labels])
    assert net.predict([sample])[0][[0, 2]].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": None}, "no x"),
        ({"edge_index": Tensor([[0], [3]]), "edge_attr": None}, "names node 3, but x has 3 rows"),
        ({"edge_attr": Tensor([[1.0]])}, "1 rows of edge features, but 7 edges"),
        ({"edge_attr": Tensor([[float(i)] for i in range(7)])}, "twice with different values"),
        ({"y": Tensor([[0, 1], [1, 0], [1, 1]])}, r"y has shape \(3, 2\)"),
        ({"train_mask": Tensor([[True, False]] * 3)}, r"mask=data.train_mask\[:, 0\]"),
        ({"train_mask": Tensor([False] * 3)}, "leaves no node with a label"),
    ],
)
def test_pyg_refuses(changed: dict, message: str) -> None:
    with pytest.raises(ms.MaxsumError, match=message):
        ms.graphs.from_pyg(data(**changed))


class Nodes(dict):
    """Names of nodes to their attributes, as networkx has them."""


def graph(edges: list[tuple[Any, Any, dict]]) -> SimpleNamespace:
    nodes = Nodes(
        a={"v": [1.0, 0.0], "w": 1.0, "kind": "x"}, b={"v": [0.0, 1.0], "w": 2.0}, c={"v": [1.0, 1.0], "w": 3.0, "kind": "y"}
    )
    return SimpleNamespace(nodes=nodes, edges=lambda data: edges)


EDGES = [("a", "b", {"s": 2.0}), ("b", "a", {"s": 2.0}), ("c", "b", {"s": 3.0}), ("c", "c", {"s": 9.0})]


def test_networkx() -> None:
    sample, labels = ms.graphs.from_networkx(graph(EDGES), "v", "kind", "s")
    assert sample.graph.edges.tolist() == [[0, 1], [1, 2]]
    assert sample.edge_features.tolist() == [[2.0], [3.0]]
    assert labels.tolist() == ["x", None, "y"]
    turned, none = ms.graphs.from_networkx(graph(EDGES), ["w"], nodes=["c", "b", "a"])
    assert turned.X.tolist() == [[3.0], [2.0], [1.0]] and none is None and turned.edge_features is None


def test_networkx_itself() -> None:
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    own = networkx.Graph()
    own.add_node("a", v=1.0, kind=0)
    own.add_node("b", v=2.0)
    own.add_edge("a", "b", s=0.5)
    sample, labels = ms.graphs.from_networkx(own, "v", "kind", "s")
    assert sample.X.tolist() == [[1.0], [2.0]] and sample.edge_features.tolist() == [[0.5]] and labels.tolist() == [0, None]


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (EDGES, {"features": "u"}, "node 'a' has no attribute 'u'; it has 'v', 'w', 'kind'"),
        (EDGES, {"features": "kind"}, "node 'b' has no attribute 'kind'"),
        ([("a", "b", {})], {"edge_features": "s"}, "edge 'a'-'b' has no attribute 's'; it has none"),
        (EDGES, {"nodes": ["a", "b"]}, "edge 'c'-'b' has an end"),
        (EDGES, {"nodes": ["a", "a"]}, "lists a node twice"),
    ],
)
def test_networkx_refuses(edges: list, options: dict, message: str) -> None:
    with pytest.raises(ms.MaxsumError, match=message):
        ms.graphs.from_networkx(graph(edges), **{"features": "v", **options})


def test_parts_and_the_edges_between_them() -> None:
    sample = ms.GraphSample(np.arange(8.0).reshape(4, 2), ms.Graph.chain(4), edge_features=[1.0, 2.0, 3.0])
    part = np.array(["train", "train", "test", "test"])
    with pytest.warns(
        UserWarning, match=r"1 of 3 edges join different parts, the first is edge 1 \(1-2, parts train and test\)"
    ):
        found = ms.graphs.split(sample, part)
    assert found["test"].X.tolist() == [[4.0, 5.0], [6.0, 7.0]]
    assert found["test"].graph.edges.tolist() == [[0, 1]]
    assert found["train"].edge_features.tolist() == [[1.0]] and found["test"].edge_features.tolist() == [[3.0]]
    with pytest.raises(ms.InvalidGraphError, match="join different parts"):
        ms.graphs.split(sample, part, crossing="error")


def test_parts_without_edges_between_them_are_silent(recwarn: pytest.WarningsRecorder) -> None:
    sample = ms.GraphSample(np.zeros((4, 1)), ms.Graph.from_edges([[0, 1], [2, 3]]))
    assert set(ms.graphs.split(sample, [True, True, False, False])) == {True, False}
    ms.graphs.split(ms.GraphSample(np.zeros((2, 1)), ms.Graph.chain(2)), [0, 1], crossing="drop")
    assert not recwarn.list


def test_parts_refuse() -> None:
    sample = ms.GraphSample(np.zeros((2, 1)), ms.Graph.chain(2))
    with pytest.raises(ms.InvalidSampleError, match="part has shape"):
        ms.graphs.split(sample, [0])
    with pytest.raises(ms.InvalidParameterError, match="crossing is 'keep'"):
        ms.graphs.split(sample, [0, 1], crossing="keep")


def test_negative_weights_are_refused_by_associative_potentials() -> None:
    sample = ms.GraphSample(np.eye(2), ms.Graph.chain(2), edge_features=[-0.5])
    with pytest.raises(ms.InvalidSampleError, match=r"edge feature -0\.5 at edge 0"):
        ms.GraphLabeler("associative").fit([sample], [[0, 1]])
