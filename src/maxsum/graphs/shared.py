"""Nodes joined by what they share: pages that are linked from, or link to, the same page."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidGraphError
from ..core.graph import Graph
from .edges import WeightedEdges

_PAIRS = 50_000_000  # pairs of nodes that are built: 800 MB; one page that all share would make a complete graph
_SIDES = ("source", "target")


def shared_neighbours(links: Any, n_nodes: int | None = None, by: str = "source", max_size: int | None = None) -> WeightedEdges:
    """Edges between nodes that are linked from the same node (co-citation), or link to the same node (coupling).

    Parameters
    ----------
    links : array-like of int, shape (n_links, 2), or scipy sparse matrix, shape (n_nodes, n_nodes)
        From, to; an entry that is not 0 in the row of the first and the column of the second. Repetitions count once, links
        of a node to itself not at all.
    n_nodes : int, optional
        Largest number plus one by default.
    by : {"source", "target"}
        What is shared: the page that links, or the page that is linked to.
    max_size : int, optional
        A page shared by more nodes than this joins none of them: lists of everything say little, and cost much.

    Returns
    -------
    WeightedEdges
        Edges from the lower to the higher node, sorted; weights are numbers of shared pages.
    """
    if by not in _SIDES:
        raise InvalidGraphError(f"by is {by!r}, wanted one of {', '.join(_SIDES)}.")
    matrix = _link_matrix(links, n_nodes)
    shared = matrix if by == "source" else sparse.csr_array(matrix.T)
    size = np.diff(shared.indptr)
    if max_size is not None:
        shared = sparse.csr_array(sparse.diags_array((size <= max_size).astype(np.float64)) @ shared)
        shared.eliminate_zeros()
        size = np.diff(shared.indptr)
    n_pairs = int((size.astype(np.int64) * (size - 1) // 2).sum())
    if n_pairs > _PAIRS:
        raise InvalidGraphError(
            f"shared pages join {n_pairs} pairs of nodes; at most {_PAIRS} are built. The page {int(size.argmax())} is shared by "
            f"{int(size.max())} nodes: pass a max_size below that."
        )
    together = sparse.triu(shared.T @ shared, 1).tocsr().tocoo()
    edges = np.stack([together.row, together.col], axis=1).astype(np.int64)
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    return WeightedEdges(Graph.from_edges(edges[order], matrix.shape[0]), together.data[order])


def _link_matrix(links: Any, n_nodes: int | None) -> Any:
    """Ones where a node links to another one."""
    if hasattr(links, "tocoo"):
        entries = links.tocoo()
        if entries.shape[0] != entries.shape[1] or n_nodes not in (None, entries.shape[0]):
            wanted = "a square one" if n_nodes is None else f"({n_nodes}, {n_nodes})"
            raise InvalidGraphError(f"the matrix of links has shape {entries.shape}, wanted {wanted}.")
        kept = np.asarray(entries.data) != 0
        pairs = np.stack([entries.row[kept], entries.col[kept]], axis=1).astype(np.int64)
        n_nodes = entries.shape[0]
    else:
        pairs = np.asarray(links)
        if pairs.size == 0:
            pairs = pairs.reshape(0, 2).astype(np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise InvalidGraphError(
                f"links have shape {pairs.shape} and dtype {pairs.dtype}, wanted whole numbers (n_links, 2)."
            )
    different = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    size = n_nodes if n_nodes is not None else int(pairs.max(initial=-1)) + 1
    if len(pairs) and not (pairs.min() >= 0 and pairs.max() < size):
        link = int(np.flatnonzero(((pairs < 0) | (pairs >= size)).any(axis=1))[0])
        raise InvalidGraphError(f"link {link} names nodes {pairs[link].tolist()}, but there are {size} nodes (0..{size - 1}).")
    ones = np.ones(len(different))
    return sparse.csr_array((ones, (different[:, 0], different[:, 1])), shape=(size, size))
