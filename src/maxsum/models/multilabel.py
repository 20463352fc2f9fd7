"""Models of one feature vector with one label (multi-class) or several that see each other (multi-label)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidParameterError
from ..core.graph import Graph
from ..kernels.records import Design
from .bound import BoundModel, Encoded
from .cone import Cone
from .graph_model import GraphModel, Layout

LABEL_GRAPHS = ("complete", "tree", "none")


@dataclass(frozen=True, eq=False)
class MultiLabelModel:
    r"""Binary labels on a fixed graph, all seeing the same features:

    .. math:: F(x, y; w) = \sum_l y_l \langle w_l, x\rangle + \sum_{lm} g_{lm}(y_l, y_m),\qquad y \in \{0, 1\}^L.

    Label 0 has no node weights, so that without edges this is a linear support vector machine for each label.

    Parameters
    ----------
    graph : Graph
        A node a label.
    potentials : {"general", "supermodular", "associative", "potts"}
        Allowed tables, as in `GraphModel`.
    """

    graph: Graph
    potentials: str = "general"

    def bind(self, x: Any, labels: np.ndarray) -> MultiLabelBound:
        """Bind to features ``x`` (n, d), dense or CSR, and labels (n, L) of 0 and 1."""
        n_labels, width = self.graph.n_nodes, x.shape[1]
        layout = Layout(GraphModel(potentials=self.potentials, homogeneous=False), 1, (2,), 1, 1, self._size)
        node = np.full((n_labels * width, 2), -1, dtype=np.int32)
        node[:, 1] = np.arange(n_labels * width)
        edge, n_weights = layout.edge_index(2, n_labels * width)
        if self.potentials == "supermodular":
            cone = Cone.supermodular(n_weights, edge)
        elif self.potentials == "general":
            cone = Cone.free(n_weights)
        else:
            cone = Cone.nonnegative(n_weights, np.arange(n_labels * width, n_weights))
        names = partial(_names, self.graph.edges, width, edge, n_weights)
        coded = np.ascontiguousarray(labels, dtype=np.int32).reshape(-1)
        return MultiLabelBound(self, self.encode(x), node, edge, cone, (np.arange(2),), 2, names, coded, self.graph)

    @property
    def _size(self) -> tuple[int, int]:
        return self.graph.n_nodes, self.graph.n_edges

    def encode(self, x: Any) -> Encoded:
        """A graph for each row of ``x``; the features are kept once an example, not once a node."""
        n, (n_labels, n_edges) = x.shape[0], self._size
        edges = (self.graph.edges[None] + n_labels * np.arange(n)[:, None, None]).reshape(n * n_edges, 2).astype(np.int32)
        columns = np.tile(np.arange(n_edges), n)
        return Encoded(
            (self.graph,) * n,
            np.arange(n + 1, dtype=np.int64) * n_labels,
            np.arange(n + 1, dtype=np.int64) * n_edges,
            edges,
            x,
            sparse.csr_array((np.ones(len(columns)), columns, np.arange(len(columns) + 1)), shape=(len(columns), n_edges)),
            np.full(n * n_labels, 2, dtype=np.int32),
            np.zeros(n * n_labels, dtype=np.int64),
            np.ones(n * n_labels),
        )


@dataclass(frozen=True, eq=False)
class MultiLabelBound(BoundModel):
    """`MultiLabelModel` with its training data; ``data.x`` has a row an example."""

    graph: Graph = field(default_factory=partial(Graph.complete, 0))

    def blocks(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Node weights (L, d) of label 1, and tables (n_edges, 2, 2)."""
        node = w[: len(self.node_index)].reshape(self.graph.n_nodes, -1)
        return node, np.where(self.edge_index >= 0, w[np.maximum(self.edge_index, 0)], 0.0)

    def unary(self, w: np.ndarray, data: Encoded | None = None, rows: Any = slice(None)) -> np.ndarray:
        data = self.data if data is None else data
        n_labels = self.graph.n_nodes
        table = w[: len(self.node_index)].reshape(n_labels, -1)
        if isinstance(rows, slice) and rows == slice(None):
            score = np.asarray(data.x @ table.T).reshape(-1)
        else:
            rows = np.arange(len(data.n_states))[rows]
            some, place = np.unique(rows // n_labels, return_inverse=True)
            score = np.asarray(data.x[some] @ table.T)[place, rows % n_labels]
        return np.ascontiguousarray(np.stack([np.zeros(len(score)), score], axis=1))

    def feature_marginals(self, j: int, node: np.ndarray, edge: np.ndarray) -> np.ndarray:
        x = self.data.x[[j]]
        result = np.zeros(self.n_weights)
        row = np.asarray(x.todense() if sparse.issparse(x) else x).reshape(-1)
        result[: len(self.node_index)] = np.outer(node[:, 1], row).reshape(-1)
        used = self.edge_index >= 0
        np.add.at(result, self.edge_index[used], edge[used])
        return result

    def node_rows(self, nodes: np.ndarray) -> Any:
        n_labels = self.graph.n_nodes
        x = sparse.csr_array(self.data.x)[nodes // n_labels]
        columns = x.indices + np.repeat((nodes % n_labels) * x.shape[1], np.diff(x.indptr))
        return sparse.csr_array((x.data, columns, x.indptr), shape=(len(nodes), len(self.node_index)))

    def design(self, loss: np.ndarray) -> Design:
        """Arrays for the kernels: here the rows of ``x`` are repeated, each in the columns of its label."""
        data, n_labels = self.data, self.graph.n_nodes
        x = sparse.csr_array(data.x)
        size = np.diff(x.indptr)
        ptr = np.concatenate([[0], np.cumsum(np.repeat(size, n_labels))]).astype(np.int64)
        inner = np.arange(int(ptr[-1]))
        example = np.repeat(np.arange(len(size)), size * n_labels)
        label, place = np.divmod(inner - n_labels * x.indptr[example], np.maximum(size, 1)[example])
        take = x.indptr[example] + place
        columns = (x.indices[take] + label * x.shape[1]).astype(np.int32)
        f, none = data.f, np.full(len(self.node_index), -1, dtype=np.int32)
        steps = np.array([1, 0], dtype=np.int64)
        return Design(
            data.node_ptr, data.edge_ptr, data.edges, ptr, columns, x.data[take].astype(np.float64), self.node_index, none, steps,
            f.indptr.astype(np.int64), f.indices.astype(np.int32), f.data.astype(np.float64), np.ascontiguousarray(self.edge_index),
            steps, np.asarray(self.labels), loss,
        )  # fmt: skip


def multiclass(x: Any, labels: np.ndarray, classes: np.ndarray) -> BoundModel:
    r"""One node with several classes: :math:`F(x, k) = \langle w_k, x\rangle`, as Crammer and Singer (2001)."""
    width, size = x.shape[1], len(classes)
    node = np.arange(width * size, dtype=np.int32).reshape(width, size)
    edge = np.zeros((0, size, size), dtype=np.int32)
    names = partial(_class_names, width)
    layout = SingleNodes(size)
    coded = labels.astype(np.int32)
    return BoundModel(layout, layout.encode(x), node, edge, Cone.free(width * size), (classes,), size, names, coded)


@dataclass(frozen=True)
class SingleNodes:
    """The layout of graphs of one node with ``n_classes`` labels: a row of features each."""

    n_classes: int

    def encode(self, x: Any) -> Encoded:
        """A graph of one node for each row of ``x``."""
        n, none = x.shape[0], sparse.csr_array((0, 0))
        return Encoded(
            (Graph.complete(1),) * n,
            np.arange(n + 1, dtype=np.int64),
            np.zeros(n + 1, dtype=np.int64),
            np.zeros((0, 2), dtype=np.int32),
            x,
            none,
            np.full(n, self.n_classes, dtype=np.int32),
            np.zeros(n, dtype=np.int64),
            np.ones(n),
        )


def label_graph(given: Any, labels: np.ndarray, weight: np.ndarray) -> Graph:
    """The graph of labels: a name of `LABEL_GRAPHS`, or pairs of label numbers."""
    n_labels = labels.shape[1]
    if not isinstance(given, str):
        return Graph.from_edges(given, n_labels)
    if given not in LABEL_GRAPHS:
        raise InvalidParameterError(f"label_graph is {given!r}, wanted one of {', '.join(LABEL_GRAPHS)}, or pairs of labels.")
    if given == "complete":
        return Graph.complete(n_labels)
    return Graph.from_edges(_mutual_information_tree(labels, weight) if given == "tree" else [], n_labels)


def _mutual_information_tree(labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Edges of a maximum spanning tree of the mutual information of pairs of labels (Chow and Liu, 1968)."""
    n_labels, share = labels.shape[1], weight / weight.sum()
    on = labels.astype(np.float64)
    both = (on * share[:, None]).T @ on
    p = np.diagonal(both)
    information = np.zeros((n_labels, n_labels))
    for joint, product in (
        (both, np.outer(p, p)),
        (p[:, None] - both, np.outer(p, 1 - p)),
        (p[None] - both, np.outer(1 - p, p)),
        (1 - p[:, None] - p[None] + both, np.outer(1 - p, 1 - p)),
    ):
        some = (joint > 1e-15) & (product > 1e-15)
        information[some] += joint[some] * np.log(joint[some] / product[some])
    inside, best, link = np.zeros(n_labels, dtype=bool), np.full(n_labels, -np.inf), np.zeros(n_labels, dtype=np.int64)
    edges, new = [], 0
    for _ in range(n_labels - 1):
        inside[new] = True
        closer = information[new] > best
        best[closer], link[closer] = information[new][closer], new
        new = int(np.argmax(np.where(inside, -np.inf, best)))
        edges.append((int(link[new]), new))
    return np.array(edges, dtype=np.int32).reshape(-1, 2)


def _names(edges: np.ndarray, width: int, edge_index: np.ndarray, n_weights: int, classes: tuple[np.ndarray, ...]) -> list[str]:
    first = int(edge_index[edge_index >= 0].min(initial=n_weights))
    names = [f"q[label {p // width}](feature {p % width})" for p in range(first)] + [""] * (n_weights - first)
    for table, (u, v) in zip(edge_index, edges, strict=True):
        for k, m in np.argwhere(table >= 0):
            names[table[k, m]] = names[table[k, m]] or f"g[labels {u}, {v}]({k}, {m})"
    return names


def _class_names(width: int, classes: tuple[np.ndarray, ...]) -> list[str]:
    return [f"q(feature {f}, {label})" for f in range(width) for label in classes[0]]


def reduced_tables(tables: np.ndarray, edges: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Tables as what each label 1 gains, and each pair of them, (L,) and (L, L), up to a constant."""
    own, pair = np.zeros(n_labels), np.zeros((n_labels, n_labels))
    if len(edges):
        np.add.at(own, edges[:, 0], tables[:, 1, 0] - tables[:, 0, 0])
        np.add.at(own, edges[:, 1], tables[:, 0, 1] - tables[:, 0, 0])
        pair[edges.min(axis=1), edges.max(axis=1)] = tables[:, 0, 0] + tables[:, 1, 1] - tables[:, 0, 1] - tables[:, 1, 0]
    return own, pair
