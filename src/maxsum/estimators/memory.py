"""Is there room for a training? Its bytes are estimated and compared with what is left, before anything large is allocated."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..core.memory import available, check_room
from ..models.bound import BoundModel
from ..models.sample import GraphSample

__all__ = [
    "Size",
    "available",
    "chain_size",
    "check_room",
    "data_bytes",
    "fit_bytes",
    "grid_size",
    "model_bytes",
    "multilabel_bytes",
    "total",
]

PLANES = 12
_EXPLICIT = 2**29  # bytes up to which planes are kept as vectors, as the store of planes decides


class Size(NamedTuple):
    """What the memory of a training grows with: nodes, edges, stored numbers of node features, examples."""

    nodes: int
    edges: int
    values: int
    examples: int = 1


def chain_size(item: Any) -> Size:
    """Size of a `GraphSample`, or of a sequence: an array, a sparse matrix, or a list; 0 where it has none, for others to refuse."""
    if isinstance(item, GraphSample):
        return Size(item.graph.n_nodes, item.graph.n_edges, _values(item.X))
    shape = getattr(item, "shape", None)
    nodes = int(shape[0]) if shape else len(item) if hasattr(item, "__len__") else 0
    return Size(nodes, max(0, nodes - 1), _values(item))


def grid_size(item: Any, n_offsets: int = 2, dimensions: int = 2) -> Size:
    """Size of an image, or of a grid of other dimensions whose nodes have so many neighbours in one half of all directions."""
    try:
        shape = [int(side) for side in np.shape(item)]
    except ValueError:
        shape = []
    nodes = prod(shape[:dimensions]) if len(shape) >= dimensions else 0
    return Size(nodes, nodes * n_offsets, nodes * (shape[dimensions] if len(shape) > dimensions else 1))


def total(sizes: Iterable[Size]) -> Size:
    """The sum of sizes."""
    every = np.array([tuple(size) for size in sizes], dtype=np.float64).reshape(-1, 4).sum(axis=0)
    return Size(*(int(number) for number in every))


def _values(item: Any) -> int:
    if hasattr(item, "nnz"):
        return int(item.nnz)
    if isinstance(item, (list, tuple)):
        return sum(len(row) if hasattr(row, "__len__") else 1 for row in item)
    return int(np.prod([float(side) for side in getattr(item, "shape", ())]))


def data_bytes(size: Size, n_labels: int = 2) -> int:
    """Bytes of samples, graphs and encoded features: dense and compressed rows, edges of each graph and of their union."""
    return 28 * size.values + 48 * size.edges + (48 + 8 * n_labels) * size.nodes + 2000 * size.examples


def fit_bytes(size: Size, n_labels: int, n_weights: int, own_tables: bool = False) -> int:
    """Bytes of objective, oracle and learner: loss, scores, messages, tables, and `PLANES` labellings an example.

    Where there are few weights (see `learning.planes`) planes are kept as vectors, in twice the room while it grows.
    """
    rows = size.nodes * (4 * 8 * n_labels + 4 * PLANES + 64)
    edges = size.edges * (3 * 16 * n_labels + 80 + (40 * n_labels**2 if own_tables else 0))
    labelling = (size.nodes + size.edges + size.values * n_labels / 8) / max(1, size.examples)
    vectors = 8 * size.examples * n_weights
    explicit = n_weights / 4 < labelling and 20 * vectors <= _EXPLICIT
    return rows + edges + 12 * size.values + (32 * vectors if explicit else 0) + 8 * (PLANES**2 * size.examples + 8 * n_weights)


def model_bytes(bound: BoundModel) -> int:
    """`fit_bytes` of a bound model."""
    data = bound.data
    values = int(data.x.nnz) if hasattr(data.x, "nnz") else int(data.x.size)
    size = Size(len(data.n_states), len(data.edges), values, bound.n_examples)
    own = data.joint or int(data.f.nnz) > len(data.edges)
    return fit_bytes(size, bound.n_labels, bound.n_weights, own)


def multilabel_bytes(X: Any, y: Any, design: bool = False) -> int:
    """Bytes of a training of `MultiLabelClassifier`: copies of the features, and for most learners a copy a label."""
    shape, n_labels = getattr(X, "shape", ()), 1
    if len(getattr(y, "shape", ())) == 2:
        n_labels = int(y.shape[1])
    n = int(shape[0]) if shape else 0
    values = _values(X)
    copies = (90 if design else 12) * values * n_labels if design or hasattr(X, "nnz") else 0
    subsets = n * 16 * 2 ** min(n_labels, 8) if not design and n_labels <= 8 else 400 * n * n_labels
    return 24 * values + copies + subsets
