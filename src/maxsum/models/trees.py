"""Decision trees on nodes and edges: which weights a node or an edge gets depends on tests of the input (form 3 of 001)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from .sample import GraphSample


class Tests(Protocol):
    """Yes-or-no questions about the input of a sample, by number."""

    n_node_tests: int
    n_edge_tests: int

    def node(self, sample: GraphSample, tests: np.ndarray) -> np.ndarray:
        """Answers (n_nodes, len(tests)), bool."""

    def edge(self, sample: GraphSample, tests: np.ndarray) -> np.ndarray:
        """Answers (n_edges, len(tests)), bool."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary decision tree.

    Attributes
    ----------
    test : ndarray of int64, shape (n,)
        Number of the test at each place, -1 at leaves; place 0 is the root.
    yes, no : ndarray of int64, shape (n,)
        Places where the answers lead.
    leaf : ndarray of int64, shape (n,)
        Number of the leaf, -1 elsewhere.
    """

    test: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    leaf: np.ndarray

    @classmethod
    def root(cls) -> Tree:
        """One leaf."""
        return cls(*(np.array([value]) for value in (-1, -1, -1, 0)))

    def __post_init__(self) -> None:
        n = len(self.test)
        inside = self.test >= 0
        sound = all(a.shape == (n,) and a.dtype.kind in "iu" for a in (self.test, self.yes, self.no, self.leaf)) and n > 0
        if (
            not sound
            or (self.leaf[inside] >= 0).any()
            or not np.array_equal(np.sort(self.leaf[~inside]), np.arange((~inside).sum()))
        ):
            raise InvalidSampleError("a tree has tests at its inner places and leaves 0, 1, ... elsewhere; this one has not.")
        children = np.concatenate([self.yes[inside], self.no[inside]])
        place = np.tile(np.flatnonzero(inside), 2)
        if (children <= place).any() or (children >= n).any() or len(np.unique(children)) != n - 1:
            raise InvalidSampleError("a tree must lead from the root to each place in exactly one way, to later places only.")

    @property
    def n_leaves(self) -> int:
        return int((self.leaf >= 0).sum())

    @property
    def depth(self) -> int:
        """Most tests on a way to a leaf."""
        level = np.zeros(len(self.test), dtype=np.int64)
        for i in np.flatnonzero(self.test >= 0):
            level[self.yes[i]] = level[self.no[i]] = level[i] + 1
        return int(level.max())

    def split(self, chosen: dict[int, int]) -> tuple[Tree, np.ndarray]:
        """The tree with tests at some leaves, ``chosen[leaf] = test``, and the leaf that each new leaf comes from.

        The side of the answer yes keeps the number of the leaf.
        """
        test, yes, no, leaf = (list(a) for a in (self.test, self.yes, self.no, self.leaf))
        origin = list(range(self.n_leaves))
        for i in np.flatnonzero(self.leaf >= 0).tolist():
            number = leaf[i]
            if number in chosen:
                test[i], yes[i], no[i], leaf[i] = chosen[number], len(test), len(test) + 1, -1
                test += [-1, -1]
                yes += [-1, -1]
                no += [-1, -1]
                leaf += [number, len(origin)]
                origin.append(number)
        return Tree(*(np.array(a, dtype=np.int64) for a in (test, yes, no, leaf))), np.array(origin)

    def leaves(self, ask: Any, n: int) -> np.ndarray:
        """Leaf of each of ``n`` items; ``ask(tests)`` gives answers (n, len(tests))."""
        used = np.unique(self.test[self.test >= 0])
        if not n or not len(used):
            return np.zeros(n, dtype=np.int64)
        answers = np.asarray(ask(used))
        if answers.shape != (n, len(used)) or answers.dtype != bool:
            raise InvalidSampleError(
                f"tests gave answers of shape {answers.shape} and dtype {answers.dtype}, wanted bool of shape {(n, len(used))}."
            )
        place = np.zeros(n, dtype=np.int64)
        for i in np.flatnonzero(self.test >= 0):
            here = place == i
            right = answers[here, np.searchsorted(used, self.test[i])]
            place[here] = np.where(right, self.yes[i], self.no[i])
        return self.leaf[place]


@dataclass(frozen=True, eq=False)
class TreeFeatures:
    """A tree for all nodes and one for each edge type: samples get the leaves as node features and as edge types.

    With them a `GraphModel` has one vector of node weights for each node leaf, and `Convex` one matrix for each edge leaf.

    Attributes
    ----------
    tests : Tests
    node : Tree
    edges : tuple of Tree
    """

    tests: Any
    node: Tree
    edges: tuple[Tree, ...]

    @classmethod
    def roots(cls, tests: Any, n_edge_types: int) -> TreeFeatures:
        """Trees of one leaf each."""
        return cls(tests, Tree.root(), (Tree.root(),) * max(1, n_edge_types))

    @property
    def starts(self) -> np.ndarray:
        """Number of the first leaf of each edge tree among the leaves of all, and how many there are."""
        return np.concatenate([[0], np.cumsum([tree.n_leaves for tree in self.edges])])

    def node_leaves(self, sample: GraphSample) -> np.ndarray:
        """Leaf of each node."""
        return self.node.leaves(lambda tests: self.tests.node(sample, tests), sample.n_nodes)

    def edge_leaves(self, sample: GraphSample) -> np.ndarray:
        """Leaf of each edge, numbered over all types."""
        types = sample.graph.edge_type
        if len(types) and types.max() >= len(self.edges):
            raise InvalidSampleError(f"edge type {types.max()} has no tree; known are 0..{len(self.edges) - 1}.")
        out = np.zeros(len(types), dtype=np.int64)
        for t, tree in enumerate(self.edges):
            here = np.flatnonzero(types == t)

            def ask(tests: np.ndarray, here: np.ndarray = here) -> np.ndarray:
                return np.asarray(self.tests.edge(sample, tests))[here]

            out[here] = self.starts[t] + tree.leaves(ask, len(here))
        return out

    def transform(self, samples: Sequence[GraphSample]) -> list[GraphSample]:
        """The samples with leaves: node features are those given and a one for the node's leaf."""
        out = []
        for sample in samples:
            graph = Graph(
                sample.n_nodes, sample.graph.edges, self.edge_leaves(sample).astype(np.int32), n_edge_types=int(self.starts[-1])
            )
            leaf = self.node_leaves(sample)
            shape = (sample.n_nodes, self.node.n_leaves)
            own = sparse.csr_array((np.ones(sample.n_nodes), leaf, np.arange(sample.n_nodes + 1)), shape=shape)
            if sample.kind not in ("dense", "sparse"):
                raise InvalidSampleError(f"trees take dense or sparse node features, not {sample.kind}; wanted (n_nodes, d).")
            x = sparse.csr_array(sparse.hstack([sparse.csr_array(sample.X), own], format="csr"))
            out.append(replace(sample, X=x, graph=graph))
        return out
