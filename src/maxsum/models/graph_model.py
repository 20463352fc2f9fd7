"""GraphModel: linear scores of node and edge features, with the potentials that are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import Either, Elsewhere, Flag, Instance, OneOf, check, settings
from ..core.transitions import Neighbours
from .batch import Batch
from .bound import FORBIDDEN, BoundModel, CliqueSet, Encoded, node_weights
from .cone import Cone
from .features import NodeFeatures, auto
from .labels import as_classes, encode_labels, induced, read_labels
from .sample import GraphSample, factors_of

POTENTIALS = ("general", "supermodular", "associative", "potts")


@dataclass(frozen=True, eq=False)
class GraphModel:
    r"""Max-sum classifier with scores linear in node and edge features.

    .. math:: F(x, y; w) = \sum_v \langle w_{y_v}, x_v\rangle + \sum_{uv}\sum_f e_{uv,f}\, g_f(y_u, y_v)
              + \sum_c \sum_f h_{cf} \sum_k r_{fk} \prod_{v \in c} [y_v = k]

    with the last sum over cliques, where samples have them and potentials are associative (or potts: :math:`r_{fk} = r_f`).

    Parameters
    ----------
    features : "auto" or NodeFeatures
        What the observations are; by default read off the samples.
    potentials : {"general", "supermodular", "associative", "potts"}
        Allowed tables :math:`g_f`: any; supermodular for ordered labels, (8) of Franc & Savchynskyy 2008; a reward :math:`\ge 0` for each label
        that both ends share; one reward for all labels. All but the first need edge features >= 0.
    bias : bool
        Add a constant feature to every node; regularised like every weight.
    homogeneous : bool
        If False every node and every edge has weights of its own; all samples then need graphs of one size.
    symmetric : bool
        Whether :math:`g(k, l) = g(l, k)`.
    tie : array-like of int, shape (n_features, K), optional
        Number of the weight that each feature and label share, or -1 for none; as for Sudoku in Franc & Savchynskyy 2008, §7.2.
    forbidden : {"bio", "bioes"}, list of pairs of labels, or dict, optional
        Labels of the first and second end of an edge that exclude each other, for all edges or by the number of the edge type; a score of
        :math:`-\infty`. With general potentials.
    """

    features: Any = "auto"
    potentials: str = "general"
    bias: bool = False
    homogeneous: bool = True
    symmetric: bool = False
    tie: Any = None
    forbidden: Any = None

    _parameters = settings(
        features=Either(
            OneOf("auto"), Instance(NodeFeatures), wanted="'auto' or NodeFeatures such as Codes() or Kernel('rbf')"
        ),
        potentials=OneOf(*POTENTIALS),
        bias=Flag(),
        homogeneous=Flag(),
        symmetric=Flag(),
        tie=Elsewhere("None, or whole numbers >= -1 of shape (n_features, K); `bind` knows the shape"),
        forbidden=Elsewhere("None, 'bio', 'bioes', pairs of classes, or a dictionary of these; `bind` knows the classes"),
    )

    def __post_init__(self) -> None:
        check(self)
        if self.forbidden is not None and self.potentials != "general":
            raise InvalidParameterError(
                f"forbidden is given with potentials={self.potentials!r}, wanted 'general': a score of -inf fits no smaller class of tables."
            )

    def bind(self, samples: Sequence[GraphSample], labels: Any = None, classes: Any = None) -> BoundModel:
        """Bind the model to training data.

        Parameters
        ----------
        samples : sequence of GraphSample
        labels : sequence of array-like, optional
            A label for each node of each sample; -1 (or None) for unknown. Nodes of unknown label, and their edges, are
            left out of training.
        classes : array-like, or one for each node type, optional
            The labels that exist, in order; by default those seen.
        """
        samples = _checked(samples)
        cliques, whole, given = _clique_layout(self, samples), samples, labels
        if labels is not None:
            samples, labels = induced(samples, labels, classes)
        known = as_classes(classes, samples, labels)
        coded = None if labels is None else encode_labels(labels, samples, known)
        features = (auto(samples) if self.features == "auto" else self.features).fit(samples)
        edges = _edge_layout(self, whole)
        rules = neighbours(self, known, edges[0])
        model = replace(self, features=features, forbidden=rules)
        layout = Layout(model, len(known), tuple(len(c) for c in known), *edges, *cliques)
        data = layout.encode(samples)
        if rules is not None and given is not None:
            data = replace(data, excluded=_settled(rules, whole, read_labels(whole, given, classes), known))
        return layout.bound(known, data, coded)


@dataclass(frozen=True, eq=False)
class Layout:
    """Sizes that fix the weights: of node types, labels, edge types, clique types and features."""

    model: GraphModel
    n_node_types: int
    n_classes: tuple[int, ...]
    n_edge_types: int
    n_edge_features: int
    graph_size: tuple[int, int]
    n_clique_types: int = 0
    n_clique_features: int = 0

    @property
    def width(self) -> int:
        """Node features of one type."""
        return int(self.model.features.n_features) + self.model.bias

    def bound(
        self, classes: tuple[np.ndarray, ...], data: Encoded | None = None, labels: np.ndarray | None = None
    ) -> BoundModel:
        """The model with these sizes on encoded data (none by default), with labels as numbers."""
        n_labels = max((len(c) for c in classes), default=0)
        node_index, n_node = self.node_index(n_labels)
        edge_index, n_weights = self.edge_index(n_labels, n_node)
        clique_index, n_weights = self.clique_index(n_labels, n_weights)
        if self.model.potentials == "supermodular":
            cone = Cone.supermodular(n_weights, edge_index)
        elif self.model.potentials == "general":
            cone = Cone.free(n_weights)
        else:
            cone = Cone.nonnegative(n_weights, np.arange(n_node, n_weights))
        names = partial(_names, self, node_index, edge_index, clique_index, n_weights)
        own = self.encode([]) if data is None else data
        return BoundModel(self, own, node_index, edge_index, cone, classes, n_labels, names, labels, clique_index=clique_index)

    def encode(self, samples: Sequence[GraphSample]) -> Encoded:
        """Features of samples as the union that this layout describes."""
        samples = _checked(samples, allow_empty=True)
        graphs = tuple(sample.graph for sample in samples)
        node_ptr = np.cumsum([0] + [g.n_nodes for g in graphs], dtype=np.int64)
        edge_ptr = np.cumsum([0] + [g.n_edges for g in graphs], dtype=np.int64)
        edges = Graph.union(graphs).edges
        types = _node_types(samples, self.n_classes)
        x = self.model.features.encode(samples)
        if self.model.bias:
            ones = np.ones((x.shape[0], 1))
            x = np.hstack([x, ones]) if isinstance(x, np.ndarray) else sparse.csr_array(sparse.hstack([x, ones], format="csr"))
        place = types
        if not self.model.homogeneous:
            self._check_size(graphs)
            place = types * self.graph_size[0] + np.concatenate([np.arange(g.n_nodes) for g in graphs] or [types])
        blocks = self.n_node_types * (1 if self.model.homogeneous else self.graph_size[0])
        if blocks > 1:
            x = _blocked(sparse.csr_array(x), place, blocks)
        states = np.array(self.n_classes, dtype=np.int32)[types] if len(types) else np.zeros(0, dtype=np.int32)
        return Encoded(
            graphs, node_ptr, edge_ptr, edges, x, self._edges(samples), states, types, node_weights(samples),
            cliques=self._cliques(samples, node_ptr), factors=factors_of(samples, states), excluded=self._excluded(graphs),
        )  # fmt: skip

    def _excluded(self, graphs: Sequence[Graph]) -> np.ndarray | None:
        """Labels that first and last nodes may not have."""
        rules = self.neighbours
        if rules is None or not rules.has_ends:
            return None
        return np.concatenate([np.zeros((0, rules.pairs.shape[1]), dtype=bool), *(rules.excluded(graph) for graph in graphs)])

    @property
    def neighbours(self) -> Neighbours | None:
        """What may not stand at the ends of an edge: rules of the model, which are known since it was bound."""
        return self.model.forbidden if isinstance(self.model.forbidden, Neighbours) else None

    @property
    def forbids_in_place(self) -> bool:
        """Whether forbidden pairs are entries of the tables that have weights, not tables of their own."""
        return self.neighbours is not None and self.model.homogeneous and self.n_edge_features == 1

    def _cliques(self, samples: Sequence[GraphSample], node_ptr: np.ndarray) -> CliqueSet | None:
        if not any(sample.cliques for sample in samples):
            return None
        rows, types, members = [], [], []
        for j, sample in enumerate(samples):
            given = sample.clique_features
            if given is None or not len(sample.cliques):
                given = np.ones((len(sample.cliques), 1 if len(sample.cliques) else self.n_clique_features))
            strange = len(sample.cliques) and int(sample.clique_types.max()) >= self.n_clique_types
            if given.shape[1] != self.n_clique_features or strange:
                raise InvalidSampleError(
                    f"sample {j} has {given.shape[1]} features a clique and types up to {sample.clique_types.max(initial=0)}, but the "
                    f"model has {self.n_clique_features} features and {self.n_clique_types} types of cliques from training."
                )
            rows.append(given)
            types.append(sample.clique_types)
            members += [nodes + np.int32(node_ptr[j]) for nodes in sample.cliques]
        ptr = np.cumsum([0] + [len(sample.cliques) for sample in samples], dtype=np.int64)
        sizes = np.cumsum([0] + [len(nodes) for nodes in members], dtype=np.int64)
        h = _blocked(sparse.csr_array(np.concatenate(rows)), np.concatenate(types), self.n_clique_types)
        return CliqueSet(ptr, sizes, np.concatenate(members).astype(np.int32), h)

    def _edges(self, samples: Sequence[GraphSample]) -> Any:
        rows = []
        plain = self.n_edge_features == 1 and all(sample.edge_features is None for sample in samples)
        for j, sample in enumerate(() if plain else samples):
            given = sample.edge_features
            if given is None or not sample.graph.n_edges:
                given = np.ones((sample.graph.n_edges, 1 if sample.graph.n_edges else self.n_edge_features))
            if given.shape[1] != self.n_edge_features:
                raise InvalidSampleError(
                    f"sample {j} has {given.shape[1]} features an edge, but the model has {self.n_edge_features}."
                )
            if self.model.potentials != "general" and given.size and given.min() < 0:
                edge, feature = np.argwhere(given < 0)[0]
                raise InvalidSampleError(
                    f"sample {j} has edge feature {given[edge, feature]} at edge {edge}, feature {feature}; {self.model.potentials} "
                    "potentials need features >= 0. Shift them, or use potentials='general'."
                )
            rows.append(given)
        types = np.concatenate([np.zeros(0, dtype=np.int32)] + [s.graph.edge_type for s in samples]).astype(np.int64)
        features = np.ones((len(types), 1)) if plain else np.concatenate([np.zeros((0, self.n_edge_features))] + rows)
        if len(types) and types.max() >= self.n_edge_types:
            raise InvalidSampleError(f"edge type {types.max()} was not seen in training; known are 0..{self.n_edge_types - 1}.")
        if self.forbids_in_place and not plain and features.size and not features.min() > 0:
            edge = int(features[:, 0].argmin())
            raise InvalidSampleError(
                f"edge {edge} of all samples has the feature {features[edge, 0]}, wanted numbers > 0 beside forbidden: the feature scales the table that "
                "forbids. Give edges two features, a constant and this one."
            )
        own_tables = None
        if self.neighbours is not None and not self.forbids_in_place:  # a column a type, whose table forbids and has no weights
            own_tables = sparse.csr_array(
                (np.ones(len(types)), types, np.arange(len(types) + 1)), shape=(len(types), self.n_edge_types)
            )
        if not self.model.homogeneous:
            types = np.concatenate([np.zeros(0, dtype=np.int64)] + [np.arange(s.graph.n_edges) for s in samples])
        blocks = self.n_edge_types if self.model.homogeneous else self.graph_size[1]
        if self.n_edge_features == 1:
            matrix = sparse.csr_array((features[:, 0], types, np.arange(len(types) + 1)), shape=(len(types), blocks))
        else:
            matrix = _blocked(sparse.csr_array(features), types, blocks)
        return matrix if own_tables is None else sparse.csr_array(sparse.hstack([matrix, own_tables], format="csr"))

    def _check_size(self, graphs: Sequence[Graph]) -> None:
        for j, graph in enumerate(graphs):
            if (graph.n_nodes, graph.n_edges) != self.graph_size:
                raise InvalidSampleError(
                    f"sample {j} has {graph.n_nodes} nodes and {graph.n_edges} edges, but homogeneous=False gives weights to "
                    f"{self.graph_size[0]} nodes and {self.graph_size[1]} edges; wanted graphs of one size."
                )

    def node_index(self, n_labels: int) -> tuple[np.ndarray, int]:
        """Weight of each node feature and label, and how many there are."""
        copies = 1 if self.model.homogeneous else self.graph_size[0]
        if self.model.tie is not None:
            tie = np.asarray(self.model.tie)
            if tie.dtype.kind not in "iu" or tie.shape != (self.width, n_labels) or tie.min(initial=0) < -1:
                raise InvalidParameterError(
                    f"tie has shape {tie.shape} and dtype {tie.dtype}, wanted whole numbers >= -1 of shape {(self.width, n_labels)}."
                )
            size = int(tie.max(initial=-1)) + 1
            blocks = np.arange(self.n_node_types * copies)[:, None, None]
            index = np.where(tie >= 0, tie + blocks * size, -1).reshape(-1, n_labels)
            return index.astype(np.int32), size * self.n_node_types * copies
        exists = np.arange(n_labels) < np.array(self.n_classes).repeat(copies)[:, None]
        exists = np.repeat(exists, self.width, axis=0)
        index = np.where(exists, np.cumsum(exists.ravel()).reshape(exists.shape) - 1, -1)
        return index.astype(np.int32).reshape(-1, n_labels), int(exists.sum())

    def edge_index(self, n_labels: int, first: int) -> tuple[np.ndarray, int]:
        """Weight of each edge feature and pair of labels, from ``first`` on, and how many weights there are in all."""
        blocks = (self.n_edge_types if self.model.homogeneous else self.graph_size[1]) * self.n_edge_features
        k = np.arange(n_labels)
        if self.model.potentials in ("associative", "potts"):
            one = np.full((n_labels, n_labels), -1)
            one[k, k] = k if self.model.potentials == "associative" else 0
            size = n_labels if self.model.potentials == "associative" else min(1, n_labels)
        elif self.model.symmetric:
            low, high = np.minimum(k[:, None], k), np.maximum(k[:, None], k)
            one = low * n_labels - low * (low - 1) // 2 + (high - low)
            size = n_labels * (n_labels + 1) // 2
        else:
            one, size = np.arange(n_labels**2).reshape(n_labels, n_labels), n_labels**2
        index = np.where(one >= 0, one + first + size * np.arange(blocks)[:, None, None], -1)
        if self.neighbours is not None:
            pairs = self.neighbours.pairs
            if self.forbids_in_place:
                index[pairs] = FORBIDDEN
            else:
                index = np.concatenate([index, np.where(pairs, FORBIDDEN, -1)])
        return index.astype(np.int32), first + size * blocks

    def clique_index(self, n_labels: int, first: int) -> tuple[np.ndarray, int]:
        """Weight of each clique feature and label, from ``first`` on, and how many weights there are in all."""
        blocks = self.n_clique_types * self.n_clique_features
        size = n_labels if self.model.potentials == "associative" else min(1, n_labels)
        one = np.arange(n_labels) if self.model.potentials == "associative" else np.zeros(n_labels, dtype=np.int64)
        index = first + one + size * np.arange(blocks)[:, None]
        return index.astype(np.int32), first + size * blocks


def neighbours(model: GraphModel, classes: tuple[np.ndarray, ...], n_edge_types: int) -> Neighbours | None:
    """The rules of a model for pairs of these classes."""
    if model.forbidden is None:
        return None
    if any(len(own) != len(classes[0]) or not (own == classes[0]).all() for own in classes):
        raise InvalidParameterError(
            "forbidden is given, and types of nodes have classes of their own; wanted the same classes for all nodes."
        )
    return Neighbours.of(model.forbidden, classes[0].tolist(), n_edge_types, model.symmetric)


def _settled(
    rules: Neighbours, samples: Sequence[GraphSample], read: Any, classes: tuple[np.ndarray, ...]
) -> np.ndarray | None:
    """Labels that known nodes may not have, by their places in whole samples; training labellings that break a rule are refused."""
    found = [np.zeros((0, len(classes[0])), dtype=bool)]
    for j, (sample, (labels, known)) in enumerate(zip(samples, read, strict=True)):
        own = np.zeros(sample.n_nodes, dtype=np.int64)
        if known.any():
            order = np.argsort(classes[0], kind="stable")
            own[known] = order[np.searchsorted(classes[0][order], labels[known])]
        rules.check(sample.graph, own, known, classes[0].tolist(), j)
        found.append(rules.excluded(sample.graph)[known])
    return np.concatenate(found) if rules.has_ends else None


def _clique_layout(model: GraphModel, samples: Sequence[GraphSample]) -> tuple[int, int]:
    own = [s for s in samples if s.cliques]
    if not own:
        return 0, 0
    if model.potentials not in ("associative", "potts"):
        raise InvalidSampleError(
            f"samples have cliques, but potentials are {model.potentials!r}; rewards of cliques need 'associative' or 'potts'."
        )
    width = next((s.clique_features.shape[1] for s in own if s.clique_features is not None), 1)
    return 1 + max(int(s.clique_types.max()) for s in own), width


def _edge_layout(model: GraphModel, samples: Sequence[GraphSample]) -> tuple[int, int, tuple[int, int]]:
    n_types = max((s.graph.n_edge_types for s in samples), default=1)
    width = next((s.edge_features.shape[1] for s in samples if s.edge_features is not None), 1)
    size = (samples[0].graph.n_nodes, samples[0].graph.n_edges)
    return n_types, width, size


def _checked(samples: Any, allow_empty: bool = False) -> list[GraphSample]:
    if isinstance(samples, GraphSample):
        raise InvalidSampleError("samples is one GraphSample, wanted a list of them.")
    if isinstance(samples, Batch):
        return samples
    samples = list(samples)
    if not samples and not allow_empty:
        raise InvalidSampleError("there are no samples; wanted at least one.")
    for j, sample in enumerate(samples):
        if not isinstance(sample, GraphSample):
            raise InvalidSampleError(f"sample {j} is a {type(sample).__name__}, wanted maxsum.GraphSample(X, graph).")
    return samples


def _node_types(samples: Sequence[GraphSample], n_classes: tuple[int, ...]) -> np.ndarray:
    if n_classes and n_classes[0] and all(s.node_types is None for s in samples):
        return np.zeros(sum(s.n_nodes for s in samples), dtype=np.int64)
    types = [np.zeros(s.n_nodes, dtype=np.int64) if s.node_types is None else s.node_types for s in samples]
    every = np.concatenate([np.zeros(0, dtype=np.int64)] + types)
    known = [t for t, count in enumerate(n_classes) if count]
    strange = ~np.isin(every, known)
    if strange.any():
        place = int(strange.argmax())
        j = int(np.searchsorted(np.cumsum([len(own) for own in types]), place, side="right"))
        raise InvalidSampleError(f"sample {j} has node type {every[place]}, which has no labels; types that have are {known}.")
    return every


def _blocked(matrix: Any, place: np.ndarray, blocks: int) -> Any:
    """Row ``i`` moved to the columns of block ``place[i]``."""
    width = matrix.shape[1]
    columns = matrix.indices + np.repeat(place * width, np.diff(matrix.indptr))
    return sparse.csr_array((matrix.data, columns, matrix.indptr), shape=(matrix.shape[0], width * blocks))


def _names(
    layout: Layout,
    node_index: np.ndarray,
    edge_index: np.ndarray,
    clique_index: np.ndarray,
    n_weights: int,
    classes: tuple[np.ndarray, ...],
) -> list[str]:
    columns = layout.model.features.names + (["bias"] if layout.model.bias else [])
    n_nodes, n_edges = (1, 1) if layout.model.homogeneous else layout.graph_size
    names = [""] * n_weights

    def put(p: int, name: str) -> None:
        names[p] = name if not names[p] else names[p] if names[p].endswith("...") else names[p] + " ..."

    for f, row in enumerate(node_index):
        block, column = divmod(f, len(columns))
        kind, node = divmod(block, n_nodes)
        where = _where(("type", kind, len(classes)), ("node", node, n_nodes))
        for k in np.flatnonzero(row >= 0):
            put(row[k], f"q{where}({columns[column]}, {classes[kind][k] if k < len(classes[kind]) else k})")
    same = all(np.array_equal(own, classes[0]) for own in classes)
    for f, table in enumerate(edge_index):
        block, feature = divmod(f, layout.n_edge_features)
        own = ("type", block, layout.n_edge_types) if layout.model.homogeneous else ("edge", block, n_edges)
        where = _where(own, ("feature", feature, layout.n_edge_features))
        for k, m in np.argwhere(table >= 0):
            put(table[k, m], f"g{where}({classes[0][k]}, {classes[0][m]})" if same else f"g{where}({k}, {m})")
    for f, row in enumerate(clique_index):
        block, feature = divmod(f, layout.n_clique_features)
        where = _where(("type", block, layout.n_clique_types), ("feature", feature, layout.n_clique_features))
        for label in range(len(row)):
            put(row[label], f"r{where}({classes[0][label] if same and label < len(classes[0]) else label})")
    return names


def _where(*parts: tuple[str, int, int]) -> str:
    """Which of several: name and number of each part that there are more of."""
    inside = ", ".join(f"{name} {number}" for name, number, count in parts if count > 1)
    return f"[{inside}]" if inside else ""
