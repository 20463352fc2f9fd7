"""Decision trees on nodes and edges: which weights a node or an edge gets depends on tests of the input (form 3 of Jancsary, Nowozin & Rother 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import Elsewhere, WholeNumber, check, settings
from .bound import BoundModel, Encoded
from .graph_model import Layout
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
class FeatureTests:
    r"""Comparisons of node features with thresholds, :math:`x_{vf} > c`.

    A node has one test for each feature and threshold; an edge has those of its first end, those of its second end, and
    :math:`|x_{uf} - x_{vf}| > d` for each feature and spread.

    Attributes
    ----------
    feature, threshold : ndarray, shape (n_node_tests,)
    spread_feature, spread : ndarray, shape (m,)
        Of the differences, perhaps none.
    """

    feature: np.ndarray
    threshold: np.ndarray
    spread_feature: np.ndarray
    spread: np.ndarray

    @classmethod
    def quantiles(cls, samples: Sequence[GraphSample], n_thresholds: int = 8) -> FeatureTests:
        """Thresholds halfway between quantiles of the values (and of the differences along edges) that samples show."""
        xs = [_dense(sample) for sample in samples]
        ends = [sample.graph.edges for sample in samples]
        if len({x.shape[1] for x in xs}) > 1:
            raise InvalidSampleError(
                f"samples have {sorted({x.shape[1] for x in xs})} features, wanted the same number in all."
            )
        values = np.concatenate(xs)
        steps = np.concatenate([np.abs(x[e[:, 0]] - x[e[:, 1]]) for x, e in zip(xs, ends, strict=True)])
        return cls(*_thresholds(values, n_thresholds), *_thresholds(steps, n_thresholds))

    @property
    def n_node_tests(self) -> int:
        return len(self.feature)

    @property
    def n_edge_tests(self) -> int:
        """Number of tests of an edge: those of its two nodes, and those of their difference."""
        return 2 * len(self.feature) + len(self.spread)

    def node(self, sample: GraphSample, tests: np.ndarray) -> np.ndarray:
        """Answers (n_nodes, len(tests))."""
        return np.asarray(_columns(sample, self.feature[tests]) > self.threshold[tests])

    def edge(self, sample: GraphSample, tests: np.ndarray) -> np.ndarray:
        """Answers (n_edges, len(tests))."""
        n, ends = len(self.feature), sample.graph.edges
        out = np.empty((len(ends), len(tests)), dtype=bool)
        for end in (0, 1):
            here = np.flatnonzero(tests // max(1, n) == end) if n else np.zeros(0, dtype=np.int64)
            out[:, here] = self.node(sample, tests[here] - end * n)[ends[:, end]]
        here = np.flatnonzero(tests >= 2 * n)
        x, number = _columns(sample, self.spread_feature[tests[here] - 2 * n]), tests[here] - 2 * n
        out[:, here] = np.abs(x[ends[:, 0]] - x[ends[:, 1]]) > self.spread[number]
        return out


def _check_kind(sample: GraphSample) -> None:
    if sample.kind not in ("dense", "sparse"):
        raise InvalidSampleError(f"trees take dense or sparse node features, not {sample.kind}; wanted (n_nodes, d).")


def _dense(sample: GraphSample) -> np.ndarray:
    _check_kind(sample)
    return np.asarray(sample.X if sample.kind == "dense" else sample.X.toarray())


def _columns(sample: GraphSample, columns: np.ndarray) -> np.ndarray:
    used, place = np.unique(columns, return_inverse=True)
    if len(used) and not 0 <= used[0] <= used[-1] < sample.X.shape[1]:
        raise InvalidSampleError(f"trees test feature {used[0]} to {used[-1]}, but samples have {sample.X.shape[1]} features.")
    x = sample.X[:, used]
    return np.asarray(x if isinstance(x, np.ndarray) else x.toarray())[:, place.reshape(-1)]


def _thresholds(values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and thresholds between different quantiles of each column."""
    feature, threshold = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for f in range(values.shape[1] if len(values) else 0):
        levels = np.unique(np.quantile(values[:, f], np.linspace(0.0, 1.0, most + 1), method="nearest"))
        threshold.append(0.5 * (levels[:-1] + levels[1:]))
        feature.append(np.full(len(levels) - 1, f))
    return np.concatenate(feature), np.concatenate(threshold)


@dataclass(frozen=True, eq=False)
class Trees:
    """How trees are grown, for ``Convex(trees=...)`` in estimators; see `maxsum.learning.learners.grow.TreeGrower`.

    Parameters
    ----------
    node_depth, edge_depth, n_candidates, min_items, max_items
        As in `TreeGrower`.
    tests : Tests, optional
        By default `FeatureTests` with thresholds at quantiles of the training samples; `PixelTests` look around a pixel; or any object with those methods, whose
        answers may come from anything that a sample holds. One with a method ``fit(samples)`` is fitted to the training samples first.
    n_thresholds : int
        Quantiles of each feature.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> x = np.random.default_rng(0).random((8, 8, 1))
    >>> truth = (np.abs(x[..., 0] - 0.5) < 0.25).astype(int)  # between two thresholds
    >>> energies = ms.models.Convex(trees=ms.models.Trees(node_depth=2, edge_depth=0, min_items=2))
    >>> net = ms.GridLabeler(energies, surrogate="qp", C=10.0).fit([x], [truth])
    >>> bool((net.predict([x])[0] == truth).mean() > 0.9)
    True
    """

    node_depth: int = 10
    edge_depth: int = 4
    tests: Any = None
    n_thresholds: int = 8
    n_candidates: int = 100
    min_items: int = 10
    max_items: int = 200_000

    _parameters = settings(
        node_depth=WholeNumber(0),
        edge_depth=WholeNumber(0),
        tests=Elsewhere("None, or tests of nodes and edges as `FeatureTests` has them"),
        n_thresholds=WholeNumber(1),
        n_candidates=WholeNumber(1),
        min_items=WholeNumber(1),
        max_items=WholeNumber(1),
    )

    def __post_init__(self) -> None:
        check(self)

    def ask(self, samples: Sequence[GraphSample]) -> Any:
        """The tests for training samples."""
        if self.tests is None:
            return FeatureTests.quantiles(samples, self.n_thresholds)
        return self.tests.fit(samples) if hasattr(self.tests, "fit") else self.tests


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
        """Number of leaves."""
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
        return self.walk(used, asked(ask, used, n), self.depth)

    def walk(self, used: np.ndarray, answers: np.ndarray, depth: int) -> np.ndarray:
        """Leaf of each item from its answers (n, len(used)) to the tests ``used``, by ``depth`` steps down from the root."""
        place, rows = np.zeros(len(answers), dtype=np.int64), np.arange(len(answers))
        column = np.searchsorted(used, self.test)
        for _ in range(depth if len(used) else 0):
            right = answers[rows, np.minimum(column[place], len(used) - 1)]
            place = np.where(self.test[place] < 0, place, np.where(right, self.yes[place], self.no[place]))
        return self.leaf[place]


def asked(ask: Any, tests: np.ndarray, n: int) -> np.ndarray:
    """Answers (n, len(tests)) of ``ask(tests)``, checked."""
    if not n or not len(tests):
        return np.zeros((n, 0), dtype=bool)
    answers = np.asarray(ask(tests))
    if answers.shape != (n, len(tests)) or answers.dtype != bool:
        raise InvalidSampleError(
            f"tests gave answers of shape {answers.shape} and dtype {answers.dtype}, wanted bool of shape {(n, len(tests))}."
        )
    return answers


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
        inner = [tree.test[tree.test >= 0] for tree in self.edges]
        used, starts = np.unique(np.concatenate(inner)), self.starts
        answers = asked(lambda tests: self.tests.edge(sample, tests), used, len(types))
        out = np.zeros(len(types), dtype=np.int64)
        for t, tree in enumerate(self.edges):
            here = np.flatnonzero(types == t)
            out[here] = starts[t] + (tree.walk(used, answers[here], tree.depth) if len(inner[t]) else 0)
        return out

    def transform(self, samples: Sequence[GraphSample]) -> list[GraphSample]:
        """The samples with leaves: node features are those given and a one for the node's leaf."""
        out = []
        for sample in samples:
            graph = Graph(
                sample.n_nodes, sample.graph.edges, self.edge_leaves(sample).astype(np.int32), n_edge_types=int(self.starts[-1])
            )
            _check_kind(sample)
            leaf = self.node_leaves(sample)
            shape = (sample.n_nodes, self.node.n_leaves)
            own = sparse.csr_array((np.ones(sample.n_nodes), leaf, np.arange(sample.n_nodes + 1)), shape=shape)
            x = sparse.csr_array(sparse.hstack([sparse.csr_array(sample.X), own], format="csr"))
            out.append(replace(sample, X=x, graph=graph))
        return out

    def leaf_names(self, types: Sequence[str] = ()) -> list[str]:
        """Names of the leaves of all edge trees, from those of the edge types."""
        counts = [tree.n_leaves for tree in self.edges]
        names = [types[t] if len(types) else f"type {t}" for t in range(len(counts))]
        lone = len(counts) == 1
        return [f"leaf {i}" if lone else f"{names[t]}, leaf {i}" for t, n in enumerate(counts) for i in range(n)]

    def over(self, bound: BoundModel) -> BoundModel:
        """A model of transformed samples as one that encodes samples as they are given."""
        return replace(bound, layout=TreeLayout(**vars(bound.layout), trees=self))


@dataclass(frozen=True, eq=False)
class TreeLayout(Layout):
    """A layout that leads samples through trees first."""

    trees: TreeFeatures = field(kw_only=True)

    def encode(self, samples: Sequence[GraphSample]) -> Encoded:
        return super().encode(self.trees.transform(samples))
