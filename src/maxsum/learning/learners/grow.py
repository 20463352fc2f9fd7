"""Growth of decision trees for convex energies: splits of steepest descent, in alternation with learning all weights anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.errors import InvalidSampleError
from ...core.parameters import JOBS, POSITIVE, SEED, Elsewhere, Instance, OneOf, WholeNumber, check, settings
from ...models.convex import Convex, ConvexBound
from ...models.graph_model import GraphModel
from ...models.labels import induced
from ...models.sample import GraphSample
from ...models.trees import Tree, TreeFeatures
from ..objectives.logistic import LogisticObjective
from ..objectives.qp import QPObjective
from ..result import LearningResult
from .quasi_newton import ProjectedQuasiNewton


@dataclass(frozen=True, eq=False)
class GrownTrees:
    """Trees with the weights of their leaves.

    Attributes
    ----------
    features : TreeFeatures
    model : ConvexBound
        Leads new samples through the trees: ``predict_convex(model, weights, samples)``.
    weights : ndarray
    results : tuple of LearningResult
        One for each round of growth; the objective falls from one to the next.
    """

    features: TreeFeatures
    model: ConvexBound
    weights: np.ndarray
    results: tuple[LearningResult, ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class TreeGrower:
    r"""Greedy growth of trees (Jancsary, Nowozin, Sharp and Rother 2012), as Jancsary, Nowozin & Rother 2013, §5.3 uses it.

    In each round every leaf that may still be split takes the test with the largest predicted descent of the objective,

    .. math:: \sum_{s \in \{yes, no\}} \frac{\|g_s\|^2}{2(1 + n_s)} - \frac{\|g\|^2}{2(1 + n)},

    where :math:`g_s` is the gradient of the weights that a new leaf would get (those of the old one, to begin with) and
    :math:`n_s` the weight of the examples that reach it; then all weights are learned anew from where they were.

    Parameters
    ----------
    tests : Tests
    node_depth, edge_depth : int
        Most tests on a way to a leaf.
    n_candidates : int
        Tests that are drawn in each round; all if there are fewer.
    min_items : int
        Fewest nodes (edges) of the training set in a leaf.
    max_items : int
        Nodes (edges) that splits are chosen on, of samples drawn anew in each round.
    C, loss, n_jobs
        As in `QPObjective`.
    surrogate : {"qp", "logistic"}
    spec : Convex
    learner : ProjectedQuasiNewton
        For each round.
    random_state : int
    model : GraphModel
        Options of the node features.
    """

    tests: Any
    node_depth: int = 10
    edge_depth: int = 4
    n_candidates: int = 100
    min_items: int = 10
    max_items: int = 200_000
    C: float = 1.0
    loss: Any = "hamming"
    surrogate: str = "qp"
    spec: Convex = field(default_factory=Convex)
    learner: ProjectedQuasiNewton = field(default_factory=lambda: ProjectedQuasiNewton(tol=1e-2, max_iter=50))
    n_jobs: int = 1
    random_state: int = 0
    model: GraphModel = field(default_factory=GraphModel)

    _parameters = settings(
        tests=Elsewhere("tests with names and answers, as `TreeFeatures` reads them"),
        node_depth=WholeNumber(0),
        edge_depth=WholeNumber(0),
        n_candidates=WholeNumber(1),
        min_items=WholeNumber(1),
        max_items=WholeNumber(1),
        C=POSITIVE,
        loss=Elsewhere("what `as_loss` reads"),
        surrogate=OneOf("qp", "logistic"),
        spec=Instance(Convex),
        learner=Instance(ProjectedQuasiNewton),
        n_jobs=JOBS,
        random_state=SEED,
        model=Instance(GraphModel),
    )

    def grow(self, samples: Sequence[GraphSample], labels: Any, classes: Any = None, sample_weight: Any = None) -> GrownTrees:
        """Grow trees on samples with dense or sparse node features (perhaps of width 0) and learn their weights."""
        check(self)
        samples = list(samples)
        if not samples:
            raise InvalidSampleError("there are no samples; wanted at least one.")
        samples, targets = induced(samples, labels, classes)
        n_types = max(sample.graph.n_edge_types for sample in samples)
        features = TreeFeatures.roots(self.tests, n_types)
        random = np.random.default_rng(self.random_state)
        bound = self._bind(features, samples, targets, classes)
        weights, results = None, []
        while True:
            kind = QPObjective if self.surrogate == "qp" else LogisticObjective
            objective: Any = kind(bound, self.C, self.loss, sample_weight, n_jobs=self.n_jobs)
            result = self.learner.fit(objective, init=weights)
            results.append(result)
            objective.ask(result.weights)
            grown, node_origin, edge_origin = self._split(features, samples, objective, random)
            if grown is None:
                return GrownTrees(features, bound, result.weights, tuple(results))
            wider = self._bind(grown, samples, targets, classes)
            weights = _inherited(bound, result.weights, wider, features.node.n_leaves, node_origin, edge_origin)
            features, bound = grown, wider

    def _bind(self, features: TreeFeatures, samples: list[GraphSample], targets: Any, classes: Any) -> ConvexBound:
        return self.spec.bind(features.over(self.model.bind(features.transform(samples), targets, classes)))

    def _split(
        self, features: TreeFeatures, samples: list[GraphSample], objective: Any, random: np.random.Generator
    ) -> tuple[TreeFeatures | None, np.ndarray, np.ndarray]:
        """Trees with new leaves, and the leaf that each node leaf and each edge leaf comes from; None if there are none."""
        node_gradient, terms, weight = _gradients(objective)
        data = objective.model.data
        order = random.permutation(len(samples))
        deep = [features.node.depth < self.node_depth, *(tree.depth < self.edge_depth for tree in features.edges)]
        node, node_origin = features.node, np.arange(features.node.n_leaves)
        if deep[0]:
            some = _enough(order, data.node_ptr, self.max_items)
            tests = self._draw(self.tests.n_node_tests, random)
            answers = [np.asarray(self.tests.node(samples[j], tests)) for j in some]
            rows = np.concatenate([np.arange(data.node_ptr[j], data.node_ptr[j + 1]) for j in some])
            leaf = np.concatenate([features.node_leaves(samples[j]) for j in some])
            chosen = self._best(leaf, np.concatenate(answers), node_gradient[rows], weight[0][rows], tests)
            node, node_origin = node.split(chosen)
        edges, origins = list(features.edges), [np.arange(tree.n_leaves) for tree in features.edges]
        if any(deep[1:]) and len(data.edges):
            some = _enough(order, data.edge_ptr, self.max_items)
            tests = self._draw(self.tests.n_edge_tests, random)
            answers = [np.asarray(self.tests.edge(samples[j], tests)) for j in some]
            rows = np.concatenate([np.arange(data.edge_ptr[j], data.edge_ptr[j + 1]) for j in some])
            leaf = np.concatenate([features.edge_leaves(samples[j]) for j in some])
            gradient = _edge_gradients(data.edges[rows], node_gradient, terms, weight[1][rows])
            chosen = self._best(leaf, np.concatenate(answers), gradient, weight[1][rows], tests)
            for t, start in enumerate(features.starts[:-1].tolist()):
                own = {i - start: test for i, test in chosen.items() if start <= i < features.starts[t + 1]}
                if deep[1 + t]:
                    edges[t], origins[t] = edges[t].split(own)
        if node.n_leaves == features.node.n_leaves and all(
            new.n_leaves == old.n_leaves for new, old in zip(edges, features.edges, strict=True)
        ):
            return None, node_origin, node_origin
        edge_origin = np.concatenate([start + own for start, own in zip(features.starts[:-1], origins, strict=True)])
        return TreeFeatures(self.tests, node, tuple(edges)), node_origin, edge_origin

    def _draw(self, n_tests: int, random: np.random.Generator) -> np.ndarray:
        return np.sort(random.choice(n_tests, min(n_tests, self.n_candidates), replace=False))

    def _best(
        self, leaf: np.ndarray, answers: np.ndarray, gradient: np.ndarray, weight: np.ndarray, tests: np.ndarray
    ) -> dict[int, int]:
        """The test of largest predicted descent for each leaf that has one."""
        chosen = {}
        order = np.argsort(leaf, kind="stable")
        bounds = np.searchsorted(leaf[order], np.arange(leaf.max(initial=-1) + 2))
        for number in range(len(bounds) - 1):
            items = order[bounds[number] : bounds[number + 1]]
            if len(items) < 2 * self.min_items or not len(tests):
                continue
            right, own = answers[items].astype(np.float64), gradient[items]
            count, mass, total, size = right.sum(axis=0), right.T @ weight[items], own.sum(axis=0), float(weight[items].sum())
            yes = right.T @ own
            gain = _descent(yes, mass) + _descent(total - yes, size - mass) - float(_descent(total[None], np.array([size]))[0])
            gain[(count < self.min_items) | (len(items) - count < self.min_items)] = -np.inf
            best = int(gain.argmax())
            if gain[best] > 0:
                chosen[number] = int(tests[best])
        return chosen


def _descent(gradient: np.ndarray, mass: np.ndarray) -> np.ndarray:
    return np.asarray((gradient**2).sum(axis=1) / (2.0 * (1.0 + np.maximum(mass, 0.0))))


def _enough(order: np.ndarray, ptr: np.ndarray, most: int) -> list[int]:
    """Samples in the order given, until they hold ``most`` items."""
    total = np.cumsum(np.diff(ptr)[order])
    return order[: int(np.searchsorted(total, most)) + 1].tolist()


def _gradients(objective: Any) -> tuple[np.ndarray, list[tuple[float, np.ndarray, np.ndarray]], tuple[np.ndarray, np.ndarray]]:
    """Gradient in the linear costs of nodes, bilinear terms of that in the matrices, and weights of nodes and edges."""
    data, truth = objective.model.data, objective.truth
    per_node, per_edge = (np.repeat(objective.c, np.diff(ptr)) for ptr in (data.node_ptr, data.edge_ptr))
    if isinstance(objective, QPObjective):
        terms = [(0.5, truth, truth), (-0.5, objective.mu, objective.mu)]
        return (truth - objective.mu) * per_node[:, None], terms, (per_node, per_edge)
    back = objective.back / np.maximum(per_node, 1e-300)[:, None]
    return -objective.back, [(-1.0, back, objective.mu)], (per_node, per_edge)


def _edge_gradients(
    edges: np.ndarray, node: np.ndarray, terms: list[tuple[float, np.ndarray, np.ndarray]], weight: np.ndarray
) -> np.ndarray:
    """Gradient that each edge adds to the linear terms and to the matrix of its leaf, a row an edge."""
    linear = np.concatenate([node[edges[:, 0]], node[edges[:, 1]]], axis=1)
    size = linear.shape[1]
    square = np.zeros((len(edges), size, size))
    for factor, x, y in terms:
        left, right = (np.concatenate([z[edges[:, 0]], z[edges[:, 1]]], axis=1) for z in (x, y))
        square += factor * left[:, :, None] * right[:, None, :]
    square = 0.5 * (square + square.transpose(0, 2, 1)) * weight[:, None, None]
    return np.concatenate([linear, square.reshape(len(edges), -1)], axis=1)


def _inherited(
    old: ConvexBound, w: np.ndarray, new: ConvexBound, n_node_leaves: int, node_origin: np.ndarray, edge_origin: np.ndarray
) -> np.ndarray:
    """Weights of the new leaves: those of the leaves that they come from."""
    out = np.zeros(new.n_weights)
    width = len(old.base.node_index) - n_node_leaves
    rows = np.concatenate([np.arange(width), width + node_origin])
    for target, source in zip(new.base.node_index, old.base.node_index[rows], strict=True):
        used = (target >= 0) & (source >= 0)
        out[target[used]] = w[source[used]]
    if new.spec.linear:
        out[new.slices[1]] = w[old.slices[1]].reshape(-1, 2 * old.n_labels)[edge_origin].reshape(-1)
    blocks = old.matrices(w)
    if new.spec.form == "definite":
        out[new.slices[2]] = new.family.pack([blocks[p] for p in edge_origin])
    elif new.spec.form == "dictionary":
        ends = np.cumsum([0, *old.family.sizes])  # type: ignore[attr-defined]
        parts = [w[old.slices[2]][ends[p] : ends[p + 1]] for p in edge_origin]
        out[new.slices[2]] = np.concatenate(parts)
    return out


__all__ = ["GrownTrees", "Tree", "TreeFeatures", "TreeGrower"]
