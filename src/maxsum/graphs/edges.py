"""Edges with weights, from sparse matrices and from lists in which a pair may stand twice."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidGraphError
from ..core.graph import Graph


class WeightedEdges(NamedTuple):
    """A graph, and a number for each of its edges.

    Attributes
    ----------
    graph : Graph
    weights : ndarray, shape (n_edges,)
        In the order of ``graph.edges``.
    """

    graph: Graph
    weights: np.ndarray


def from_adjacency(matrix: Any) -> WeightedEdges:
    """Edges of a sparse matrix, with its values as weights.

    Parameters
    ----------
    matrix : scipy sparse matrix, shape (n_nodes, n_nodes)
        An edge for each entry that is not 0. A pair may stand in one triangle or, with one value, in both; the diagonal is left out.

    Returns
    -------
    WeightedEdges

    Raises
    ------
    InvalidGraphError
        The matrix is not square, has a value that is not finite, or two values for a pair.
    """
    if not hasattr(matrix, "tocsr"):
        raise InvalidGraphError(
            f"adjacency is a {type(matrix).__name__}, wanted a scipy sparse matrix: scipy.sparse.csr_array(...)."
        )
    entries = matrix.tocsr().tocoo()
    if entries.shape[0] != entries.shape[1]:
        raise InvalidGraphError(f"the adjacency matrix has shape {entries.shape}, wanted a square one.")
    row, col, values = np.asarray(entries.row), np.asarray(entries.col), np.asarray(entries.data, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        place = f"({row[bad[0]]}, {col[bad[0]]})"
        raise InvalidGraphError(f"the adjacency matrix has {values[bad[0]]} at {place}; wanted finite numbers.")
    kept = (values != 0) & (row != col)
    pairs = np.stack([row[kept], col[kept]], axis=1).astype(np.int64)
    graph, weights = joined(pairs, entries.shape[0], values[kept][:, None])
    return WeightedEdges(graph, weights[:, 0])


def joined(pairs: np.ndarray, n_nodes: int, features: np.ndarray) -> tuple[Graph, np.ndarray]:
    """Graph of pairs, each of which may stand twice with the same features, sorted and from the lower to the higher node.

    Raises
    ------
    InvalidGraphError
        A pair stands there twice with different features.
    """
    low, high = pairs.min(axis=1, initial=n_nodes), pairs.max(axis=1, initial=-1)
    order = np.lexsort((high, low))
    low, high, features = low[order], high[order], features[order]
    first = np.ones(len(low), dtype=bool)
    first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    source = np.flatnonzero(first)[np.cumsum(first) - 1]
    differ = np.flatnonzero((features != features[source]).any(axis=1))
    if len(differ):
        one, other = differ[0], source[differ[0]]
        raise InvalidGraphError(
            f"the pair {low[one]}-{high[one]} stands there twice with different values, {features[other]} and {features[one]} "
            f"({len(differ)} such pairs in all); wanted one value a pair. Make them symmetric first, as A + A.T does."
        )
    return Graph.from_edges(np.stack([low[first], high[first]], axis=1), n_nodes), features[first]
