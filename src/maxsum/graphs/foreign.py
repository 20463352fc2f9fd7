"""Samples from objects of other libraries, which are not imported: what an object has is what counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import InvalidGraphError, InvalidSampleError
from ..core.graph import Graph
from ..models.sample import GraphSample
from .edges import joined

_UNKNOWN = -1  # a label that was not given


def from_networkx(
    graph: Any,
    features: str | Sequence[str] | None = None,
    label: str | None = None,
    edge_features: str | Sequence[str] | None = None,
    nodes: Sequence[Any] | None = None,
) -> tuple[GraphSample, np.ndarray | None]:
    """A sample from a networkx graph.

    Parameters
    ----------
    graph : networkx.Graph, or one with directed or parallel edges
        A pair that stands there twice must have the same features both times; edges of nodes to themselves are left out.
    features : str or sequence of str, optional
        Node attribute that holds a vector, or several that hold numbers; by default one feature that is 1.
    label : str, optional
        Node attribute of the label; nodes without it have the label None, unknown.
    edge_features : str or sequence of str, optional
        Edge attributes, as ``features``.
    nodes : sequence, optional
        Order of the nodes; ``list(graph.nodes)`` by default.

    Returns
    -------
    sample : GraphSample
    labels : ndarray of object, shape (n_nodes,), or None
        For `GraphLabeler.fit`; None if there is no ``label``.
    """
    order = list(graph.nodes) if nodes is None else list(nodes)
    number = {node: i for i, node in enumerate(order)}
    if len(number) != len(order):
        raise InvalidGraphError("nodes lists a node twice.")
    x = np.ones((len(order), 1))
    if features is not None:
        x = _table([_attributes(graph.nodes[node], features, f"node {node!r}") for node in order], "node")
    pairs, rows = [], []
    for u, v, data in graph.edges(data=True):
        if u not in number or v not in number:
            raise InvalidGraphError(f"edge {u!r}-{v!r} has an end that is not in nodes.")
        if u != v:
            pairs.append((number[u], number[v]))
            rows.append([] if edge_features is None else _attributes(data, edge_features, f"edge {u!r}-{v!r}"))
    values = _table(rows, "edge")
    own, found = joined(np.array(pairs, dtype=np.int64).reshape(-1, 2), len(order), values)
    sample = GraphSample(x, own, edge_features=None if edge_features is None else found)
    if label is None:
        return sample, None
    labels = np.empty(len(order), dtype=object)
    labels[:] = [graph.nodes[node].get(label) for node in order]
    return sample, labels


def from_pyg(data: Any, mask: Any = "train_mask") -> tuple[GraphSample, np.ndarray | None]:
    """A sample from a ``Data`` object of PyTorch Geometric, or anything with the same attributes.

    Parameters
    ----------
    data : object
        ``x`` (n_nodes, d), ``edge_index`` (2, n_edges), in which an edge may stand in both directions, and, where it has them,
        ``edge_attr`` or ``edge_weight``, and ``y`` (n_nodes,) of whole numbers. Edges of nodes to themselves are left out.
    mask : str, array-like of bool, shape (n_nodes,), or None
        Nodes whose label is known: the name of an attribute, which counts if the object has it, or the nodes. None for all.

    Returns
    -------
    sample : GraphSample
    labels : ndarray of int64, shape (n_nodes,), or None
        -1, unknown, outside the mask; None if the object has no ``y``.
    """
    index, x = _array(data, "edge_index"), _array(data, "x")
    if index is None or x is None or x.ndim != 2:
        raise InvalidSampleError(
            f"{type(data).__name__} has {'no' if index is None else 'an'} edge_index and "
            f"{'no x' if x is None else f'x of shape {x.shape}'}; wanted both, x of shape (n_nodes, d)."
        )
    Graph.from_edge_index(index[:, :0] if index.ndim == 2 else index, len(x))
    attributes = _array(data, "edge_attr")
    attributes = _array(data, "edge_weight") if attributes is None else attributes
    values = np.zeros((index.shape[1], 0)) if attributes is None else attributes.reshape(len(attributes), -1)
    if len(values) != index.shape[1]:
        raise InvalidSampleError(
            f"there are {len(values)} rows of edge features, but {index.shape[1]} edges; wanted one for each."
        )
    kept = index[0] != index[1]
    bad = (index < 0) | (index >= len(x))
    if bad.any():
        raise InvalidGraphError(f"edge_index names node {index[bad][0]}, but x has {len(x)} rows (0..{len(x) - 1}).")
    graph, found = joined(index.T[kept].astype(np.int64), len(x), values[kept])
    sample = GraphSample(x, graph, edge_features=None if attributes is None else found)
    return sample, _masked(data, mask, len(x))


def _masked(data: Any, mask: Any, n_nodes: int) -> np.ndarray | None:
    y = _array(data, "y")
    if y is None:
        return None
    y = y.reshape(-1) if y.shape == (n_nodes, 1) else y
    if y.shape != (n_nodes,) or y.dtype.kind not in "biu":
        raise InvalidSampleError(
            f"y has shape {y.shape} and dtype {y.dtype}, wanted a whole number for each of {n_nodes} nodes."
        )
    known = _array(data, mask) if isinstance(mask, str) else mask
    if known is None:
        return y.astype(np.int64)
    known = np.asarray(known)
    if known.shape != (n_nodes,) or known.dtype.kind != "b":
        raise InvalidSampleError(
            f"the mask has shape {known.shape} and dtype {known.dtype}, wanted a truth value for each of {n_nodes} nodes. Of several "
            "splits in columns pass one: mask=data.train_mask[:, 0]."
        )
    if not known.any():
        raise InvalidSampleError("the mask leaves no node with a label; wanted at least one.")
    return np.where(known, y, _UNKNOWN).astype(np.int64)


def _array(data: Any, name: str) -> np.ndarray | None:
    """An attribute as an array, from a tensor on any device too; None where there is none."""
    value = getattr(data, name, None)
    if value is None:
        return None
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _attributes(data: Any, names: str | Sequence[str], where: str) -> Any:
    wanted = [names] if isinstance(names, str) else list(names)
    missing = [name for name in wanted if name not in data]
    if missing:
        raise InvalidSampleError(f"{where} has no attribute {missing[0]!r}; it has {', '.join(map(repr, data)) or 'none'}.")
    return data[names] if isinstance(names, str) else [data[name] for name in wanted]


def _table(rows: list[Any], what: str) -> np.ndarray:
    try:
        table = np.array([np.ravel(row) for row in rows], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidSampleError(f"{what} features differ in length or are not numbers ({error}).") from error
    return table.reshape(len(rows), -1) if table.size else np.zeros((len(rows), 0))
