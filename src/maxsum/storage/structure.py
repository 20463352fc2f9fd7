"""Bound models as descriptions without their training data, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from ..core.errors import ModelFileError
from ..core.graph import Graph
from ..core.memory import check_room
from ..core.transitions import Neighbours
from ..core.validation import LARGEST
from ..models.convex import Convex, ConvexBound
from ..models.features import NodeFeatures
from ..models.graph_model import GraphModel, Layout
from ..models.images.tests import PixelTests
from ..models.matrices import Definite, Dictionary, NoMatrices
from ..models.multilabel import MultiLabelBound, MultiLabelModel, SingleNodes, multiclass
from ..models.second_order import PairLayout, second_order
from ..models.trees import FeatureTests, TreeFeatures, TreeLayout
from .values import Reader, Writer

_SIZES = ("n_node_types", "n_edge_types", "n_edge_features", "n_clique_types", "n_clique_features")
_SMALL = 2**20  # cells of maps that any file may ask for: 16 MB; more must be in proportion to its weights


def describe(model: Any, writer: Writer) -> dict[str, Any]:
    """A model without its data."""
    if isinstance(model, ConvexBound):
        return {
            "kind": "convex",
            "base": describe(model.base, writer),
            "spec": writer.value(model.spec, "model.spec"),
            "shapes": writer.value(np.asarray(model.family.shapes), "model.shapes"),
        }
    if isinstance(model, MultiLabelBound):
        return {
            "kind": "multilabel",
            "n_labels": model.graph.n_nodes,
            "edges": writer.value(model.graph.edges, "model.edges"),
            "potentials": str(model.layout.potentials),
            "width": len(model.node_index) // max(1, model.graph.n_nodes),
        }
    layout = model.layout
    if isinstance(layout, PairLayout):
        return {"kind": "pairs", "base": describe(layout.base, writer)}
    if isinstance(layout, SingleNodes):
        return {"kind": "multiclass", "width": len(model.node_index)}
    if not isinstance(layout, Layout):
        raise ModelFileError(f"model_ is one of {type(layout).__name__}, which a model file does not hold.")
    own = {field.name: getattr(layout.model, field.name) for field in fields(layout.model)}
    return {
        "kind": "graph",
        "model": {name: writer.value(value, f"model.{name}") for name, value in own.items()},
        **{name: int(getattr(layout, name)) for name in _SIZES},
        "graph_size": [int(n) for n in layout.graph_size],
        "trees": writer.value(layout.trees, "model.trees") if isinstance(layout, TreeLayout) else None,
    }


def rebuild(given: Any, classes: tuple[np.ndarray, ...], weights: np.ndarray, reader: Reader) -> Any:
    """The model that a description stands for, without data; ValueError and others where it is none."""
    model = _rebuild(given, classes, len(weights), reader)
    if weights.shape != (model.n_weights,):
        raise ValueError(f"the model has {model.n_weights} weights, and {weights.size} are given")
    if not (np.abs(weights) <= LARGEST).all():
        raise ValueError("a weight is not finite, or absurdly large")
    if isinstance(model, ConvexBound):
        if not np.allclose(model.project(weights), weights, rtol=1e-9, atol=1e-12):
            raise ValueError("the weights are no convex energy")
    elif not model.cone.contains(weights):
        raise ValueError("the weights are outside the cone of the potentials")
    return model


def _rebuild(given: Any, classes: tuple[np.ndarray, ...], n_weights: int, reader: Reader) -> Any:
    kind = given["kind"]
    if kind == "convex":
        shapes, spec = reader.value(given["shapes"]), reader.value(given["spec"])
        if not isinstance(spec, Convex) or shapes.ndim != 2 or shapes.shape[1] != 2 or shapes.dtype.kind != "i":
            raise ValueError("the energies have no sound description")
        size = max(len(own) for own in classes)
        if len(shapes) and not (shapes.min() >= 0 and shapes.max() <= size):
            raise ValueError(f"matrices for up to {shapes.max()} labels, of {size}")
        _check_cells(len(shapes) * 4 * size**2, size, len(classes), n_weights + len(shapes))
        base = _rebuild(given["base"], classes, n_weights + len(shapes), reader)
        return ConvexBound(base, spec, _family(spec, shapes, base.n_labels))
    if kind == "multilabel":
        n_labels, width, edges = _whole(given["n_labels"]), _whole(given["width"]), reader.value(given["edges"])
        _check_cells(2 * n_labels * (width + 1) + 4 * len(edges), 2, 1, n_weights + len(edges))
        if edges.shape != (len(edges), 2) or edges.dtype.kind != "i":
            raise ValueError(f"edges of shape {edges.shape}")
        graph = Graph.from_edges(edges, n_labels)
        return MultiLabelModel(graph, str(given["potentials"])).bind(
            np.zeros((0, width)), np.zeros((0, n_labels), dtype=np.int32)
        )
    if kind == "multiclass":
        width = _whole(given["width"])
        _check_cells(width * len(classes[0]), len(classes[0]), 1, n_weights)
        return multiclass(np.zeros((0, width)), np.zeros(0, dtype=np.int32), classes[0])
    if kind == "pairs":
        return second_order(_rebuild(given["base"], classes, n_weights, reader))
    if kind != "graph":
        raise ValueError(f"a model of the unknown kind {kind!r}")
    layout = _layout(given, classes, n_weights, reader)
    return layout.bound(classes, labels=np.zeros(0, dtype=np.int32))


def _layout(given: Any, classes: tuple[np.ndarray, ...], n_weights: int, reader: Reader) -> Layout:
    sizes = {name: _whole(given[name]) for name in _SIZES}
    n_nodes, n_edges = (_whole(n) for n in given["graph_size"])
    model = GraphModel(**{str(name): reader.value(value) for name, value in given["model"].items()})
    if not isinstance(model.features, NodeFeatures) or not all(
        isinstance(flag, bool) for flag in (model.bias, model.homogeneous, model.symmetric)
    ):
        raise ValueError("the features have no sound description")
    _check_rules(model.forbidden, sizes["n_edge_types"], max(len(own) for own in classes))
    n_classes = tuple(len(own) for own in classes)
    if sizes["n_node_types"] != len(classes):
        raise ValueError(f"{sizes['n_node_types']} node types, and classes for {len(classes)}")
    size, width = max(n_classes), _whole(model.features.n_features) + model.bias
    blocks = (sizes["n_edge_types"] if model.homogeneous else n_edges) * sizes["n_edge_features"]
    copies = len(classes) * (1 if model.homogeneous else n_nodes)
    cells = copies * width * size + blocks * size**2 + sizes["n_clique_types"] * sizes["n_clique_features"] * size
    _check_cells(cells, size, len(classes), n_weights)
    layout = Layout(model, n_classes=n_classes, graph_size=(n_nodes, n_edges), **sizes)
    trees = reader.value(given["trees"])
    if trees is None:
        return layout
    _check_trees(trees, sizes["n_edge_types"])
    return TreeLayout(**vars(layout), trees=trees)


def _check_rules(rules: Any, n_edge_types: int, size: int) -> None:
    """Rules of neighbours must be tables of the sizes that the model has."""
    if rules is None:
        return
    shapes = [(n_edge_types, size, size), (n_edge_types, size), (n_edge_types, size)]
    tables = [rules.pairs, rules.starts, rules.ends] if isinstance(rules, Neighbours) else []
    if [(getattr(own, "shape", None), getattr(own, "dtype", None)) for own in tables] != [
        (own, np.dtype(bool)) for own in shapes
    ]:
        raise ValueError("the forbidden pairs have no sound description")


def _check_trees(trees: Any, n_edge_types: int) -> None:
    """Tests that trees ask for must exist, and their leaves be the edge types."""
    tests = trees.tests if isinstance(trees, TreeFeatures) else None
    if not isinstance(tests, (FeatureTests, PixelTests)) or (
        isinstance(tests, PixelTests) and (tests.thresholds is None or tests.spreads is None)
    ):
        raise ValueError("trees without tests")
    pairs = () if isinstance(tests, PixelTests) else ((tests.feature, tests.threshold), (tests.spread_feature, tests.spread))
    for places, values in pairs:
        if places.shape != values.shape or places.ndim != 1 or places.dtype.kind != "i" or places.min(initial=0) < 0:
            raise ValueError("tests of trees without features or thresholds")
    for tree, count in ((trees.node, tests.n_node_tests), *((own, tests.n_edge_tests) for own in trees.edges)):
        if tree.test.max() >= count:
            raise ValueError(f"a tree asks for test {tree.test.max()} of {count}")
    if trees.starts[-1] != n_edge_types:
        raise ValueError(f"trees with {trees.starts[-1]} leaves for {n_edge_types} edge types")


def _family(spec: Convex, shapes: np.ndarray, n_labels: int) -> Any:
    if spec.form == "dictionary":
        return Dictionary(shapes, n_labels, spec.floor, spec.rows)
    return (Definite if spec.form == "definite" else NoMatrices)(shapes, n_labels, spec.floor)


def _whole(given: Any) -> int:
    if type(given) is not int and not isinstance(given, np.integer):
        raise TypeError(f"{given!r:.40} where a whole number belongs")
    if given < 0:
        raise ValueError(f"the size {given}")
    return int(given)


def _check_cells(cells: int, n_labels: int, n_types: int, n_weights: int) -> None:
    """Maps from features and labels to weights must be in proportion to the weights that the file holds, and have room."""
    if cells > _SMALL + 4 * max(n_labels**2, n_types * n_labels) * (n_weights + 1):
        raise ValueError(f"maps of {cells} cells to {n_weights} weights")
    check_room(16 * cells, "this model")
