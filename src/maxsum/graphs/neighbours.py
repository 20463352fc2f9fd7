"""Nearest neighbours by cosine, and the weighting of words that texts are compared by."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidGraphError, InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import OneOf, Real, WholeNumber, check_value
from .edges import WeightedEdges

_CELLS = 1 << 22  # similarities in memory at a time: 32 MB
_DIGITS = 12  # decimals to which similarities are rounded, so that ties do not depend on the order of sums


def tf_idf(counts: Any) -> Any:
    r"""Words of documents, weighted by :math:`(1 + \log tf)\,\log(N / df)` as in Taskar, Chatalbashev & Koller 2004.

    Parameters
    ----------
    counts : array-like or scipy sparse matrix, shape (n_documents, n_words)
        How often (:math:`tf`) each document has each word; whole numbers.

    Returns
    -------
    csr_array, shape (n_documents, n_words)
        :math:`N` is the number of documents, :math:`df` of those that have the word. Words of all documents weigh nothing.
    """
    matrix = sparse.csr_array(counts, dtype=np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    bad = np.flatnonzero(~(np.isfinite(matrix.data) & (matrix.data >= 1)))
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise InvalidSampleError(
            f"counts has {matrix.data[bad[0]]} at document {row}, word {matrix.indices[bad[0]]}; wanted 0, 1, 2, ..."
        )
    n_documents, n_words = matrix.shape
    frequency = np.bincount(matrix.indices, minlength=n_words)
    rarity = np.log(n_documents / np.maximum(frequency, 1))
    values = (1.0 + np.log(matrix.data)) * rarity[matrix.indices]
    return sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def nearest_neighbours(
    X: Any, k: int = 2, groups: Any = None, min_similarity: float = 0.0, empty: str = "error"
) -> WeightedEdges:
    """Each row joined to the ``k`` others of largest cosine.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (n_nodes, n_features)
    k : int
        Neighbours that each row looks for; it may be found by more. Of equal ones those that come first.
    groups : array-like, shape (n_nodes,), optional
        Rows are joined to rows of their group only; so training and test stay apart.
    min_similarity : float
        Only a cosine larger than this, which is 0 or more, makes an edge: a row may find fewer than ``k``, or none.
    empty : {"error", "isolate"}
        What to do with a row of zeros, which is similar to nothing.

    Returns
    -------
    WeightedEdges
        Edges from the lower to the higher row, sorted; weights are cosines. Memory beside it is bounded: similarities are computed
        for a block of rows at a time.

    Raises
    ------
    InvalidSampleError
        A row is empty or not finite.
    InvalidGraphError
        No row has a neighbour.
    """
    check_value("k", k, WholeNumber(1))
    check_value("min_similarity", min_similarity, Real(0.0, below=1.0, wanted="a number from 0 to below 1"))
    check_value("empty", empty, OneOf("error", "isolate"))
    rows = _unit_rows(X, empty)
    n = rows.shape[0]
    group = None if groups is None else _groups(groups, n)
    height = max(1, _CELLS // max(n, 1))
    firsts, seconds, found = [], [], []
    for start in range(0, n, height):
        own = np.arange(start, min(start + height, n))
        product = rows[own] @ rows.T
        similar = np.round(product.toarray() if sparse.issparse(product) else product, _DIGITS)
        similar[np.arange(len(own)), own] = -np.inf
        if group is not None:
            similar[group[own][:, None] != group[None, :]] = -np.inf
        i, j = _largest(similar, k, min_similarity)
        firsts.append(own[i])
        seconds.append(j)
        found.append(similar[i, j])
    u, v = np.concatenate([*firsts, []]).astype(np.int64), np.concatenate([*seconds, []]).astype(np.int64)
    if n > 1 and not len(u):
        raise InvalidGraphError(
            f"no row of X has a neighbour: no cosine is above {min_similarity:g}. Lower min_similarity, or use other features."
        )
    key, place = np.unique(np.minimum(u, v) * n + np.maximum(u, v), return_index=True)
    edges = np.stack([key // max(n, 1), key % max(n, 1)], axis=1)
    weights = np.minimum(np.concatenate([*found, []])[place], 1.0)
    return WeightedEdges(Graph.from_edges(edges, n), weights)


def _largest(similar: np.ndarray, k: int, above: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the ``k`` largest entries of each row that are above a limit; of equal ones those that come first."""
    n = similar.shape[1]
    least = np.full(len(similar), -np.inf)
    if k < n:
        least = np.partition(similar, n - k, axis=1)[:, n - k]
    i, j = np.nonzero((similar >= least[:, None]) & (similar > above))
    order = np.lexsort((j, -similar[i, j], i))
    i, j = i[order], j[order]
    rank = np.arange(len(i)) - np.searchsorted(i, i)
    return i[rank < k], j[rank < k]


def _unit_rows(given: Any, empty: str) -> Any:
    if hasattr(given, "tocsr"):
        rows = sparse.csr_array(given, dtype=np.float64)
        values, squares = rows.data, rows.power(2).sum(axis=1)
    else:
        rows = np.array(given, dtype=np.float64)
        if rows.ndim != 2:
            raise InvalidSampleError(f"X has shape {rows.shape}, wanted (n_nodes, n_features).")
        values, squares = rows, (rows**2).sum(axis=1)
    if not np.isfinite(values).all():
        raise InvalidSampleError("X has a value that is not finite; wanted finite numbers. Impute or drop it first.")
    norms = np.sqrt(np.asarray(squares, dtype=np.float64).ravel())
    zero = np.flatnonzero(norms == 0)
    if len(zero) and empty == "error":
        raise InvalidSampleError(
            f"row {zero[0]} of X is empty ({len(zero)} such rows in all), so it is similar to nothing. Drop it, or pass "
            'empty="isolate" to leave it without edges.'
        )
    scale = 1.0 / np.where(norms > 0, norms, 1.0)
    return sparse.csr_array(sparse.diags_array(scale) @ rows) if sparse.issparse(rows) else rows * scale[:, None]


def _groups(given: Any, n: int) -> np.ndarray:
    array = np.asarray(given)
    if array.shape != (n,):
        raise InvalidSampleError(f"groups has shape {array.shape}, but X has {n} rows; wanted one group a row.")
    return np.unique(array, return_inverse=True)[1]
