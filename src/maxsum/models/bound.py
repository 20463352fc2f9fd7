"""BoundModel: a model that knows its training data; weights to problems, labellings to features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.cliques import Cliques
from ..core.errors import InvalidSampleError, UnsupportedProblemError
from ..core.factors import KINDS, Factors
from ..core.graph import Graph
from ..core.problem import Problem
from ..kernels.records import Design
from .cone import Cone
from .sample import GraphSample

FORBIDDEN = -2


class CliqueSet(NamedTuple):
    """Cliques of a union: those of example ``j`` are ``ptr[j] .. ptr[j + 1] - 1``."""

    ptr: np.ndarray  # int64 (n_examples + 1,)
    member_ptr: np.ndarray  # int64 (n_cliques + 1,)
    member: np.ndarray  # int32: nodes of the union
    h: Any  # csr_array: features, a row a clique


@dataclass(frozen=True, eq=False)
class Encoded:
    """Features of a list of samples as one disjoint union.

    Attributes
    ----------
    graphs : tuple of Graph
    node_ptr, edge_ptr : ndarray of int64, shape (n_examples + 1,)
    edges : ndarray of int32, shape (n_edges, 2)
        In node numbers of the union.
    x : ndarray or csr_array
        Node features; a row a node, or a row a (node, label) if ``joint``.
    f : csr_array
        Edge features; a row an edge, or a row an (edge, label, label).
    n_states : ndarray of int32, shape (n_nodes,)
    node_types : ndarray of int64, shape (n_nodes,)
    node_weights : ndarray, shape (n_nodes,)
    joint : bool
    cliques : CliqueSet or None
    factors : tuple of Factors or None
        Those of each example, in its own node numbers; None if no example has any.
    excluded : ndarray of bool, shape (n_nodes, K), or None
        Labels that a node may not have, beside those from ``n_states`` on.
    """

    graphs: tuple[Graph, ...]
    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    edges: np.ndarray
    x: Any
    f: Any
    n_states: np.ndarray
    node_types: np.ndarray
    node_weights: np.ndarray
    joint: bool = False
    cliques: CliqueSet | None = None
    factors: tuple[Factors, ...] | None = None
    excluded: np.ndarray | None = None

    @property
    def n_examples(self) -> int:
        return len(self.graphs)

    def rows(self, examples: np.ndarray | None) -> np.ndarray | slice:
        """Node rows of some examples, or of all."""
        return slice(None) if examples is None else _rows(self.node_ptr, examples)


class Tables(NamedTuple):
    """Pairwise tables of a union: a shared bank, or (``own``) one table an edge."""

    bank: np.ndarray
    edge_table: np.ndarray
    edge_weight: np.ndarray
    own: bool

    def of(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bank, table numbers and weights of the edges ``first .. last - 1``."""
        if self.own and last > first:
            return self.bank[first:last], np.arange(last - first, dtype=np.int32), self.edge_weight[first:last]
        bank = self.bank if len(self.bank) else np.zeros((1, *self.bank.shape[1:]))
        return bank, self.edge_table[first:last], self.edge_weight[first:last]


@dataclass(frozen=True, eq=False)
class BoundModel:
    r"""A model bound to training data: ``w @ feature(j, y) + h == problem(w, j).score(y)``, where ``h`` is the score of the factors that the
    sample itself has (`factor_score`; 0 without any). It has no weights, so learning treats it as it treats the loss.

    Node :math:`v` with features :math:`x_v` has scores :math:`q_v(k) = \sum_f x_{vf}\, w[\text{node\_index}_{fk}]`, an edge alike
    with ``edge_index``. Which weights exist, and which share a number, is all in these two maps; -1 is a score of 0, and
    ``FORBIDDEN`` in ``edge_index`` one of :math:`-\infty`, for pairs of labels that no labelling has.

    Attributes
    ----------
    layout : object
        How samples become arrays: what has a method ``encode(samples)`` that returns an `Encoded`, such as `Layout`.
    n_weights, n_labels, n_examples : int
    names : list of str
        Name of each weight.
    cone : Cone
        Weights that the model allows.
    classes : tuple of ndarray
        Labels of each node type.
    labels : tuple of ndarray or None
        The training labellings as numbers ``0 .. K - 1``.
    """

    layout: Any
    data: Encoded
    node_index: np.ndarray
    edge_index: np.ndarray
    cone: Cone
    classes: tuple[np.ndarray, ...]
    n_labels: int
    name: Callable[[tuple[np.ndarray, ...]], list[str]]
    labels: np.ndarray | None = None
    clique_index: np.ndarray | None = field(default=None, kw_only=True)

    @property
    def n_weights(self) -> int:
        return self.cone.n_weights

    @property
    def n_examples(self) -> int:
        return self.data.n_examples

    @property
    def names(self) -> list[str]:
        return self.name(self.classes)

    def encode(self, samples: Any) -> Encoded:
        """Features of new samples as the layout has them."""
        encoded: Encoded = self.layout.encode(samples)
        return encoded

    # ---- weights to scores -------------------------------------------------------------------------------------

    def unary(self, w: np.ndarray, data: Encoded | None = None, rows: Any = slice(None)) -> np.ndarray:
        """Node scores of the union (``-inf`` where a node has fewer labels)."""
        data = self.data if data is None else data
        table = _take(w, self.node_index)
        if data.joint:
            scores = np.asarray(data.x @ table[:, 0]).reshape(len(data.n_states), self.n_labels)[rows]
        else:
            scores = np.asarray((data.x if isinstance(rows, slice) and rows == slice(None) else data.x[rows]) @ table)
        states = data.n_states[rows]
        if (states < self.n_labels).any():
            scores = np.where(np.arange(self.n_labels) < states[:, None], scores, -np.inf)
        if data.excluded is not None:
            scores = np.where(data.excluded[rows], -np.inf, scores)
        return np.ascontiguousarray(scores)

    def tables(self, w: np.ndarray, data: Encoded | None = None) -> Tables:
        """Pairwise tables of the union; edges with a single feature share the bank of its weights."""
        data = self.data if data is None else data
        bank = _take(w, self.edge_index)
        if self.has_forbidden:
            bank[self.edge_index == FORBIDDEN] = -np.inf
        n_edges, n_labels = len(data.edges), self.n_labels
        if data.joint:
            own = np.asarray(data.f @ bank[:, 0, 0]).reshape(n_edges, n_labels, n_labels)
        else:
            if (np.diff(data.f.indptr) == 1).all():
                return Tables(bank, data.f.indices.astype(np.int32), data.f.data, False)
            own = np.asarray(data.f @ bank.reshape(len(bank), -1)).reshape(n_edges, n_labels, n_labels)
        return Tables(own, np.arange(n_edges, dtype=np.int32), np.ones(n_edges), True)

    def example_tables(
        self, w: np.ndarray, which: Sequence[int] | np.ndarray, data: Encoded | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Bank, table numbers and weights of the edges of some examples; tables of their own are made for these alone."""
        data = self.data if data is None else data
        at = np.asarray(which, dtype=np.int64)
        ptr = data.edge_ptr
        if len(at) < data.n_examples and not data.joint and not (np.diff(data.f.indptr) == 1).all():
            data = replace(data, edges=data.edges[_rows(ptr, at)], f=data.f[_rows(ptr, at)])
            ptr, at = np.concatenate([[0], np.cumsum(np.diff(ptr)[at])]), np.arange(len(at))
        tables = self.tables(w, data)
        for i in at.tolist():
            yield tables.of(int(ptr[i]), int(ptr[i + 1]))

    def problem(self, w: np.ndarray, j: int) -> Problem:
        """Max-sum problem of training example ``j`` under the weights ``w``."""
        return self._problems(self._checked(w), self.data, [j])[0]

    def problems(self, w: np.ndarray, samples: Sequence[GraphSample] | None = None) -> list[Problem]:
        """Max-sum problems of new samples, or of all training examples."""
        data = self.data if samples is None else self.encode(samples)
        return self._problems(self._checked(w), data, range(data.n_examples))

    def _problems(self, w: np.ndarray, data: Encoded, which: Sequence[int]) -> list[Problem]:
        unary = self.unary(
            w, data, slice(None) if list(which) == list(range(data.n_examples)) else _rows(data.node_ptr, np.asarray(which))
        )
        rewards = self.clique_weights(w, data)
        start, problems = 0, []
        for j, (bank, edge_table, edge_weight) in zip(which, self.example_tables(w, which, data), strict=True):
            states = data.n_states[data.node_ptr[j] : data.node_ptr[j + 1]]
            problems.append(
                Problem._trusted(
                    graph=data.graphs[j],
                    unary=unary[start : start + len(states)],
                    tables=bank,
                    edge_table=edge_table,
                    edge_weight=edge_weight,
                    n_states=states,
                    cliques=self._cliques(data, j, rewards),
                    offset=0.0,
                    factors=None if data.factors is None else data.factors[j],
                )
            )
            start += len(states)
        return problems

    def clique_weights(self, w: np.ndarray, data: Encoded | None = None) -> np.ndarray:
        """Rewards of the cliques of the union, shape (n_cliques, K)."""
        data = self.data if data is None else data
        if data.cliques is None or self.clique_index is None:
            return np.zeros((0, self.n_labels))
        return np.ascontiguousarray(data.cliques.h @ _take(w, self.clique_index))

    def _cliques(self, data: Encoded, j: int, rewards: np.ndarray) -> Cliques:
        if data.cliques is None:
            return Cliques.empty(self.n_labels)
        first, last = int(data.cliques.ptr[j]), int(data.cliques.ptr[j + 1])
        ptr = data.cliques.member_ptr[first : last + 1]
        member, own = data.cliques.member[ptr[0] : ptr[-1]], rewards[first:last].copy()
        if last > first and (data.n_states < self.n_labels).any():
            states = np.minimum.reduceat(data.n_states[member], ptr[:-1] - ptr[0])
            own[np.arange(self.n_labels) >= states[:, None]] = 0.0
        return Cliques(ptr - ptr[0], (member - data.node_ptr[j]).astype(np.int32), own)

    def _checked(self, w: Any) -> np.ndarray:
        array = np.ascontiguousarray(w, dtype=np.float64)
        if array.shape != (self.n_weights,) or not np.isfinite(array).all():
            raise InvalidSampleError(f"w has shape {array.shape}, wanted {self.n_weights} finite weights.")
        return array

    # ---- labellings to features --------------------------------------------------------------------------------

    def feature(self, j: int, labels: Any) -> np.ndarray:
        r"""Joint feature vector :math:`\Psi(x_j, y)`."""
        n = int(self.data.node_ptr[j + 1] - self.data.node_ptr[j])
        labels = np.asarray(labels)
        if labels.shape != (n,):
            raise InvalidSampleError(f"labels of example {j} have shape {labels.shape}, wanted ({n},).")
        node = np.zeros((n, self.n_labels))
        node[np.arange(n), labels] = 1.0
        edges = self.data.graphs[j].edges
        edge = np.zeros((len(edges), self.n_labels, self.n_labels))
        edge[np.arange(len(edges)), labels[edges[:, 0]], labels[edges[:, 1]]] = 1.0
        return self.feature_marginals(j, node, edge)

    def factor_score(self, j: int, labels: np.ndarray) -> float:
        """What the factors of example ``j`` add to the score of a labelling; ``-inf`` if they forbid it."""
        return 0.0 if self.data.factors is None else math.fsum(self.data.factors[j].values(np.asarray(labels)).tolist())

    def factor_gains(self, j: int, rows: np.ndarray) -> np.ndarray:
        """By how much the factors of example ``j`` prefer labellings (m, n) to the true one; ``-inf`` where they forbid them."""
        if self.data.factors is None or not len(self.data.factors[j]):
            return np.zeros(len(rows))
        own = -self.data.factors[j].values(self.truth(j))
        return np.array([math.fsum(np.concatenate([self.data.factors[j].values(row), own]).tolist()) for row in rows])

    def factor_arrays(self) -> list[np.ndarray]:
        """Everything about the factors of all examples, to tell them from others; nothing where there are none."""
        found: list[np.ndarray] = []
        for own in self.data.factors or ():
            kinds = [KINDS.index(type(function)) if type(function) in KINDS else -1 for function in own.functions]
            found += [own.ptr, own.nodes, own.number, np.array(kinds, dtype=np.int64)]
            found += [array for function in own.functions for array in function.encode()]
        return found

    def check_truth(self) -> None:
        """Refuse training labels that the factors of their own sample forbid."""
        for j, factors in enumerate(self.data.factors or ()):
            truth = self.truth(j)
            for f in np.flatnonzero(np.isneginf(factors.values(truth))).tolist():
                nodes, function = factors.members(f), factors.functions[factors.number[f]]
                types = self.data.node_types[self.data.node_ptr[j] + nodes]
                labels = [self.classes[t][k] for t, k in zip(types.tolist(), truth[nodes].tolist(), strict=True)]
                raise InvalidSampleError(
                    f"factor {f} of sample {j} ({function!r}) forbids the training labels {[str(own) for own in labels[:12]]} of its nodes "
                    f"{nodes.tolist()[:12]} (numbers of classes {truth[nodes].tolist()[:12]}); wanted a truth that keeps every constraint. Leave "
                    "the factor out, give it a finite score in the place of -inf, or correct the labels."
                )

    def feature_marginals(self, j: int, node: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """Expected features under node marginals (n, K) and edge marginals (E, K, K): the adjoint of ``w -> scores``.

        Marginals of cliques are the largest that the node marginals allow.
        """
        data = self.data
        rows = slice(int(data.node_ptr[j]), int(data.node_ptr[j + 1]))
        edges = slice(int(data.edge_ptr[j]), int(data.edge_ptr[j + 1]))
        result = np.zeros(self.n_weights)
        if data.joint:
            size = self.n_labels
            x = data.x[rows.start * size : rows.stop * size]
            f = data.f[edges.start * size**2 : edges.stop * size**2]
            _add(result, self.node_index[:, :1], np.asarray(x.T @ node.reshape(-1))[:, None])
            _add(result, self.edge_index[:, :1, :1], np.asarray(f.T @ edge.reshape(-1))[:, None, None])
            return result
        _add(result, self.node_index, np.asarray(data.x[rows].T @ node))
        count = edge.reshape(len(edge), self.n_labels**2)
        _add(result, self.edge_index, np.asarray(data.f[edges].T @ count).reshape(self.edge_index.shape))
        if data.cliques is not None and self.clique_index is not None:
            first, last = int(data.cliques.ptr[j]), int(data.cliques.ptr[j + 1])
            own = self._cliques(data, j, np.zeros((int(data.cliques.ptr[-1]), self.n_labels)))
            _add(result, self.clique_index, np.asarray(data.cliques.h[first:last].T @ own.common(node)))
        return result

    def difference(self, j: int, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Sparse :math:`z = \Psi(x_j, y_j) - \Psi(x_j, y)`: sorted indices and values, from the nodes, edges and cliques that differ."""
        data, size, truth = self.data, self.n_labels, self.truth(j)
        labels = np.asarray(labels)
        changed, ends = labels != truth, data.graphs[j].edges
        nodes = np.flatnonzero(changed)
        edges = np.flatnonzero(changed[ends].any(axis=1))
        first, edge_first, (u, v) = int(data.node_ptr[j]), int(data.edge_ptr[j]), ends[edges].T
        index, value, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], []
        for own in (truth, labels):
            cells = own[u].astype(np.int64) * size + own[v]
            parts = [(0, first + nodes, own[nodes]), (1, edge_first + edges, cells), (2, *self._agreeing(j, own))]
            for kind, row, cell in parts:
                _, weight, feature = self.features_of(kind, row, cell)
                index.append(weight)
                value.append(feature)
            sizes.append(sum(map(len, index)))
        used, place = np.unique(np.concatenate(index), return_inverse=True)
        amounts, cut = np.concatenate(value), sizes[0]  # the two sums apart, so that equal ones leave nothing behind
        sums = [np.bincount(place.reshape(-1)[own], amounts[own], len(used)) for own in (slice(cut), slice(cut, None))]
        total = sums[0] - sums[1]
        return used[total != 0].astype(np.int64), total[total != 0]

    def _agreeing(self, j: int, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cliques of an example, in numbers of the union, whose members have one label, and that label."""
        none = np.zeros(0, dtype=np.int64)
        if self.data.cliques is None:
            return none, none
        ptr, member_ptr, member, _ = self.data.cliques
        own = np.arange(ptr[j], ptr[j + 1])
        if not len(own):
            return none, none
        values = labels[member[member_ptr[ptr[j]] : member_ptr[ptr[j + 1]]] - self.data.node_ptr[j]]
        low = np.minimum.reduceat(values, member_ptr[own] - member_ptr[ptr[j]])
        same = low == np.maximum.reduceat(values, member_ptr[own] - member_ptr[ptr[j]])
        return own[same], low[same].astype(np.int64)

    def features_of(self, kind: int, row: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features of nodes (kind 0; a cell is a label), edges (1; a pair ``k * K + l``) or cliques (2) of the union under labels: one after
        another the number of the cell, the number of the weight, and the feature."""
        data, index = self.data, (self.node_index, self.edge_index, self.clique_index)[kind]
        if not len(row) or index is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
        flat = index.reshape(len(index), int(np.prod(index.shape[1:])))
        if kind < 2 and data.joint:
            width = self.n_labels ** (kind + 1)
            features: Any = sparse.csr_array((data.x, data.f)[kind][row * width + cell])
            columns = np.zeros(len(row), dtype=np.int64)
        else:
            rows = self.node_rows(row) if kind == 0 else data.f[row] if kind == 1 else data.cliques.h[row]  # type: ignore[union-attr]
            features, columns = sparse.csr_array(rows), cell
        entry = np.repeat(np.arange(len(row)), np.diff(features.indptr))
        weight = flat[features.indices, columns[entry]].astype(np.int64)
        used = (weight >= 0) & (features.data != 0)
        return entry[used], weight[used], features.data[used]

    def node_rows(self, nodes: np.ndarray) -> Any:
        """Features of some nodes of the union, a row each."""
        return self.data.x[nodes]

    def truth(self, j: int) -> np.ndarray:
        """The training labelling of example ``j``."""
        if self.labels is None:
            raise InvalidSampleError("the model was bound without labels; give them to bind().")
        return self.labels[self.data.node_ptr[j] : self.data.node_ptr[j + 1]]

    def design(self, loss: np.ndarray) -> Design:
        """Arrays for the kernels; ``loss`` (n_nodes, K) is the loss of each label at each node."""
        if self.labels is None:
            raise InvalidSampleError("the model was bound without labels; give them to bind().")
        data, size = self.data, self.n_labels
        x, f = sparse.csr_array(data.x), data.f
        node_index = np.repeat(self.node_index[:, :1], size, axis=1) if data.joint else self.node_index
        edge_index = (
            np.broadcast_to(self.edge_index[:, :1, :1], (len(self.edge_index), size, size)) if data.joint else self.edge_index
        )
        cliques: tuple[Any, ...] = ()
        if data.cliques is not None and self.clique_index is not None:
            ptr, member_ptr, member, h = data.cliques
            columns = (h.indptr.astype(np.int64), h.indices.astype(np.int32), h.data.astype(np.float64))
            cliques = (ptr, member_ptr, member, *columns, np.ascontiguousarray(self.clique_index))
        return Design(
            data.node_ptr,
            data.edge_ptr,
            data.edges,
            x.indptr.astype(np.int64, copy=False),
            x.indices.astype(np.int32, copy=False),
            x.data.astype(np.float64, copy=False),
            np.ascontiguousarray(node_index),
            np.where((node_index == node_index[:, :1] + np.arange(size)).all(axis=1), node_index[:, 0], -1).astype(np.int32),
            np.array([size, 1] if data.joint else [1, 0], dtype=np.int64),
            f.indptr.astype(np.int64, copy=False),
            f.indices.astype(np.int32, copy=False),
            f.data.astype(np.float64, copy=False),
            np.ascontiguousarray(edge_index),
            np.array([size**2, 1] if data.joint else [1, 0], dtype=np.int64),
            self.labels,
            loss,
            *cliques,
        )

    def refuse_cliques(self, who: str) -> None:
        """Say that ``who`` cannot learn rewards of cliques, where there are some."""
        if self.data.cliques is not None:
            raise UnsupportedProblemError(
                f"{who} takes no cliques, and the samples have {int(self.data.cliques.ptr[-1])}. Learners that do, with the margin and lp "
                "surrogates: BlockFrankWolfe, CuttingPlane, RegionBundle (lp), CompactQP (lp)."
            )

    def refuse_factors(self, who: str) -> None:
        """Say that ``who`` knows nothing of factors, where samples have some."""
        refuse_factors(self.data.factors, who)

    @cached_property
    def has_forbidden(self) -> bool:
        """Whether some pairs of labels may not meet, or a node may not have some label."""
        return bool(self.edge_index.min(initial=0) <= FORBIDDEN) or self.data.excluded is not None

    @cached_property
    def is_forest(self) -> bool:
        """Whether no training graph has a cycle, and none a clique or a factor."""
        plain = self.data.cliques is None and self.data.factors is None
        return plain and all(graph.is_forest for graph in self.data.graphs)


def refuse_factors(factors: Sequence[Factors] | None, who: str) -> None:
    """Say that ``who`` knows nothing of factors, and names the first sample that has some."""
    for j, own in enumerate(factors or ()):
        if len(own):
            raise UnsupportedProblemError(
                f"{who} takes no factors, and sample {j} has {len(own)}. Train with surrogate='margin' and the learner BlockFrankWolfe, "
                "CuttingPlane or Subgradient, and predict with a solver; or leave the factors out."
            )


def _take(w: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.where(index >= 0, w[np.maximum(index, 0)], 0.0) if len(w) else np.zeros(index.shape)


def _add(result: np.ndarray, index: np.ndarray, value: np.ndarray) -> None:
    used = index >= 0
    np.add.at(result, index[used], value[used])


def _rows(ptr: np.ndarray, examples: np.ndarray) -> np.ndarray:
    sizes = ptr[examples + 1] - ptr[examples]
    starts = np.repeat(ptr[examples] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    return starts + np.arange(int(sizes.sum()))


def node_weights(samples: Sequence[GraphSample]) -> np.ndarray:
    """Weight of each node of the union in the loss."""
    if all(s.node_weights is None for s in samples):
        return np.ones(sum(s.n_nodes for s in samples))
    given = [np.ones(s.n_nodes) if s.node_weights is None else s.node_weights for s in samples]
    return np.concatenate([np.zeros(0)] + given)
