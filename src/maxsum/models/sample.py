"""GraphSample: the observations on a graph, and the graph itself, in one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.cliques import check_members
from ..core.errors import InvalidProblemError, InvalidSampleError
from ..core.factors import Factors, Function, Table
from ..core.graph import Graph
from ..core.ownership import own
from .images.pixels import Pixels


@dataclass(frozen=True, eq=False)
class GraphSample:
    """One example: observations on the nodes (and edges) of a graph.

    Parameters
    ----------
    X : array-like or list of dicts
        Integer codes (n_nodes,), dense features (n_nodes, d), a scipy sparse matrix of that shape, or one dict (or list of
        strings) of features a node. For a grid graph arrays of its shape are accepted too, (height, width) and (height, width, d) for images.
    graph : Graph
        Its ``edge_type`` says which edges share weights.
    edge_features : array-like, shape (n_edges,) or (n_edges, d), optional
        A constant 1 by default, so that each edge type has one table.
    node_types : array-like of int, shape (n_nodes,), optional
        Types of nodes; each has weights, and may have labels, of its own.
    node_weights : array-like, shape (n_nodes,), optional
        How much a wrong label at each node counts in the loss; 1 by default.
    cliques : iterable of array-like of int, optional
        Sets of nodes, of any size, that tend to have one label: a reward for each label that all of a set share. For associative
        and potts potentials.
    clique_features : array-like, shape (n_cliques,) or (n_cliques, d), optional
        A constant 1 by default; not negative.
    clique_types : array-like of int, shape (n_cliques,), optional
        Cliques of one type share weights; by default all do.
    factors : iterable of (nodes, function), optional
        Fixed terms :math:`h_f(y_f)` that are added to the score of a labelling, as in `Problem`: a table with one axis a node, or a function of
        `maxsum.factors`. ``-inf`` forbids, so that predictions, and labellings that training compares with the truth, keep the constraint. They
        have no weights. Labels are numbers here: label k is the k-th of ``classes_``, which are the sorted labels of the training set unless
        the estimator was given ``classes=[...]``; with types of nodes, those of the node's type. For the margin surrogate.
    pixels : (image, places), optional
        An image (height, width) or (height, width, d) that the nodes stand in, and the row and column of each, for decision trees with `PixelTests`.
        Not needed where nodes are all pixels of a grid.
    """

    X: Any
    graph: Graph
    edge_features: Any = None
    node_types: Any = None
    node_weights: Any = None
    cliques: Any = None
    clique_features: Any = None
    clique_types: Any = None
    factors: Any = None
    pixels: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph):
            raise InvalidSampleError(
                f"graph of a GraphSample is a {type(self.graph).__name__}, wanted maxsum.Graph{_way(self.graph)}."
            )
        object.__setattr__(self, "X", _observations(self.X, self.graph))
        object.__setattr__(self, "edge_features", _edge_features(self.edge_features, self.graph.n_edges))
        object.__setattr__(self, "node_types", _types(self.node_types, self.graph.n_nodes))
        object.__setattr__(self, "node_weights", _node_weights(self.node_weights, self.graph.n_nodes))
        object.__setattr__(self, "cliques", _cliques(self.cliques, self.graph.n_nodes))
        object.__setattr__(self, "clique_features", _clique_features(self.clique_features, len(self.cliques)))
        object.__setattr__(self, "clique_types", _clique_types(self.clique_types, len(self.cliques)))
        object.__setattr__(self, "pixels", Pixels.read(self.pixels, self.graph.n_nodes))
        object.__setattr__(self, "factors", _factors(self.factors, self.graph.n_nodes))

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def kind(self) -> str:
        """``codes``, ``dense``, ``sparse`` or ``dicts``."""
        if isinstance(self.X, list):
            return "dicts"
        if not isinstance(self.X, np.ndarray):
            return "sparse"
        return "codes" if self.X.ndim == 1 else "dense"

    def __repr__(self) -> str:
        width = "" if self.kind in ("codes", "dicts") else f" of {self.X.shape[1]} features"
        more = f", {len(self.factors)} factors" if self.factors else ""
        return f"GraphSample({self.kind}{width}, {self.graph!r}{more})"


def names_features(given: Any) -> bool:
    """Whether observations are features by name: a list in which some node has a dict, or a list or set of strings."""
    return isinstance(given, (list, tuple)) and any(
        isinstance(row, Mapping)
        or (isinstance(row, (list, tuple, set, frozenset)) and len(row) > 0 and all(isinstance(own, str) for own in row))
        for row in given
    )


def _way(graph: Any) -> str:
    """The call that makes a `Graph` of what was given in its place, for the words of an error."""
    if type(graph).__module__.startswith("networkx"):
        return ": Graph.from_networkx(graph)"
    if hasattr(graph, "tocoo"):
        return ": Graph.from_sparse(matrix)"
    if isinstance(graph, (list, tuple, np.ndarray)):
        return ": Graph.from_edges(pairs, n_nodes)"
    if hasattr(graph, "edge_index"):
        return ": Graph.from_edge_index(data.edge_index, n_nodes)"
    return ""


def _observations(given: Any, graph: Graph) -> Any:
    if hasattr(given, "tocsr"):
        matrix = given.tocsr().astype(np.float64)
        matrix.sum_duplicates()
        _check_rows(matrix.shape, graph, 2)
        bad = np.flatnonzero(~np.isfinite(matrix.data))
        if len(bad):
            node = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
            raise InvalidSampleError(_not_finite(matrix.data[bad[0]], node, int(matrix.indices[bad[0]])))
        return matrix
    if names_features(given):
        if len(given) != graph.n_nodes:
            raise InvalidSampleError(f"X has {len(given)} dicts, but the graph has {graph.n_nodes} nodes; wanted one for each.")
        return list(given)
    array = np.asarray(given)
    if array.size == 0 and graph.n_nodes == 0:
        return np.zeros((0, *array.shape[1:]), dtype=array.dtype if array.dtype.kind in "iu" else np.float64)
    if array.dtype.kind not in "biuf":
        raise InvalidSampleError(
            f"X has dtype {array.dtype}, wanted numbers: codes (n,), features (n, d), a sparse matrix, or a list of dicts."
        )
    sides = () if graph.shape is None else graph.shape
    if len(sides) > 1 and array.shape[: len(sides)] == sides and array.ndim <= len(sides) + 1:
        array = array.reshape(graph.n_nodes, *array.shape[len(sides) :])
    if array.ndim == 1:
        if array.dtype.kind not in "iu":
            raise InvalidSampleError(
                f"X has one dimension and dtype {array.dtype}, wanted integer codes; give real features the shape (n_nodes, 1)."
            )
        _check_rows(array.shape, graph, 1)
        if array.size and array.min() < 0:
            node = int(array.argmin())
            raise InvalidSampleError(f"X has code {array[node]} at node {node}, wanted codes >= 0.")
        return array.astype(np.int64)
    _check_rows(array.shape, graph, 2)
    dense = np.array(array, dtype=np.float64, order="C")
    wrong = np.argwhere(~np.isfinite(dense))
    if len(wrong):
        raise InvalidSampleError(_not_finite(dense[tuple(wrong[0])], int(wrong[0, 0]), int(wrong[0, 1])))
    return own(dense)


def _not_finite(value: float, node: int, feature: int) -> str:
    return f"X has {value} at node {node}, feature {feature}; wanted finite numbers. Impute or drop it first."


def _check_rows(shape: tuple[int, ...], graph: Graph, n_dims: int) -> None:
    if len(shape) != n_dims:
        raise InvalidSampleError(f"X has shape {shape}, wanted (n_nodes,) codes or (n_nodes, d) features.")
    if shape[0] != graph.n_nodes:
        raise InvalidSampleError(f"X has {shape[0]} rows, but the graph has {graph.n_nodes} nodes; wanted one row a node.")


def _edge_features(given: Any, n_edges: int) -> np.ndarray | None:
    if given is None:
        return None
    array = np.asarray(given)
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or len(array) != n_edges:
        raise InvalidSampleError(
            f"edge_features has shape {array.shape} and dtype {array.dtype}; the graph has {n_edges} edges, wanted (n_edges, d)."
        )
    array = np.array(array, dtype=np.float64, order="C").reshape(n_edges, array.shape[1] if array.ndim == 2 else 1)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        edge, feature = bad[0]
        raise InvalidSampleError(
            f"edge_features has {array[edge, feature]} at edge {edge}, feature {feature}; wanted finite numbers."
        )
    return own(array)


def _types(given: Any, n_nodes: int) -> np.ndarray | None:
    if given is None:
        return None
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.shape != (n_nodes,) or (array.size and array.min() < 0):
        raise InvalidSampleError(
            f"node_types has shape {array.shape} and dtype {array.dtype}, wanted one whole number >= 0 for each of {n_nodes} nodes."
        )
    return array.astype(np.int64)


def _node_weights(given: Any, n_nodes: int) -> np.ndarray | None:
    if given is None:
        return None
    array = np.asarray(given, dtype=np.float64)
    if array.shape != (n_nodes,) or not (np.isfinite(array) & (array >= 0)).all():
        raise InvalidSampleError(
            f"node_weights has shape {array.shape}, wanted a finite number >= 0 for each of {n_nodes} nodes."
        )
    return array.copy()


def _cliques(given: Any, n_nodes: int) -> tuple[np.ndarray, ...]:
    return () if given is None else tuple(check_members(c, nodes, n_nodes) for c, nodes in enumerate(given))


def _factors(given: Any, n_nodes: int) -> tuple[tuple[np.ndarray, Function], ...]:
    """Nodes and function of each factor; numbers of labels are compared with the classes when these are known (`factors_of`)."""
    if given is None:
        return ()
    found, known = [], {}
    for f, pair in enumerate(given):
        try:
            nodes, function = pair
        except (TypeError, ValueError):
            raise InvalidSampleError(f"factor {f} is {pair!r}, wanted a pair (nodes, table or function).") from None
        try:
            if not isinstance(function, Function):  # one array that many factors share is read once
                if id(function) not in known:
                    known[id(function)] = Table(function), function
                function = known[id(function)][0]
            found.append((check_members(f, nodes, n_nodes, "factor"), function))
        except InvalidProblemError as error:
            raise InvalidSampleError(f"factor {f} of a GraphSample: {error}") from error
    return tuple(found)


def factors_of(samples: Sequence[GraphSample], n_states: np.ndarray) -> tuple[Factors, ...] | None:
    """Factors of each sample for nodes (of all samples, one after the other) with these numbers of labels; None if no sample has any."""
    if not any(sample.factors for sample in samples):
        return None
    found, start = [], 0
    for j, sample in enumerate(samples):
        try:
            found.append(Factors.build(sample.factors, n_states[start : start + sample.n_nodes]))
        except InvalidProblemError as error:
            raise InvalidSampleError(
                f"sample {j}: {error} Labels of factors are numbers of classes, in their order."
            ) from error
        start += sample.n_nodes
    return tuple(found)


def _clique_features(given: Any, n_cliques: int) -> np.ndarray | None:
    if given is None:
        return None
    array = np.asarray(given)
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or len(array) != n_cliques:
        raise InvalidSampleError(
            f"clique_features has shape {array.shape} and dtype {array.dtype}; there are {n_cliques} cliques, wanted (n_cliques, d)."
        )
    array = np.array(array, dtype=np.float64, order="C").reshape(n_cliques, array.shape[1] if array.ndim == 2 else 1)
    bad = np.argwhere(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        clique, feature = bad[0]
        raise InvalidSampleError(
            f"clique_features has {array[clique, feature]} at clique {clique}, feature {feature}; rewards of cliques need finite "
            "numbers >= 0. Shift them."
        )
    return own(array)


def _clique_types(given: Any, n_cliques: int) -> np.ndarray:
    if given is None:
        return np.zeros(n_cliques, dtype=np.int64)
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.shape != (n_cliques,) or (array.size and array.min() < 0):
        raise InvalidSampleError(
            f"clique_types has shape {array.shape} and dtype {array.dtype}, wanted one whole number >= 0 for each of {n_cliques} cliques."
        )
    return array.astype(np.int64)
