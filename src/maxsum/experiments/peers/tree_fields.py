r"""Competitors of Jancsary, Nowozin & Rother 2013, §5.3, on trees that are given: decision tree fields and regression tree fields.

Both are trained by pseudo-likelihood: each label beside the true labels of its neighbours. A decision tree field (Nowozin et al. 2011) is
discrete, with a table in each leaf. A regression tree field (Jancsary et al. 2012) is a Gaussian over numbers, here ±1 for two labels, with
a positive-semidefinite matrix in each leaf.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, sparse
from scipy.sparse.linalg import cg

from ...core.problem import Problem
from ...learning.learners.quasi_newton import ProjectedQuasiNewton
from ...learning.objectives.pseudolikelihood import PseudoLikelihoodObjective
from ...models.graph_model import GraphModel
from ...models.sample import GraphSample
from ...models.trees import TreeFeatures

FLOOR = 1e-2  # least curvature of a node of a regression tree field
PARTS = 4  # weights of the matrix of an edge leaf
_LEAST = 1e-2  # last temperature of the annealing over the first


@dataclass(frozen=True)
class DecisionField:
    """Tables in the leaves of trees, learned by pseudo-likelihood."""

    features: TreeFeatures
    model: Any
    weights: np.ndarray

    @classmethod
    def learn(
        cls, features: TreeFeatures, samples: Sequence[GraphSample], labels: Sequence[np.ndarray], C: float, seconds: float
    ) -> DecisionField:
        """All weights, from nothing; ``C`` weighs the pseudo-likelihoods of all nodes, as everywhere."""
        model = GraphModel().bind(features.transform(samples), list(labels), classes=np.arange(2))
        learner = ProjectedQuasiNewton(tol=1e-2, time_limit=seconds)
        return cls(features, model, learner.fit(PseudoLikelihoodObjective(model, C)).weights)

    def problem(self, sample: GraphSample) -> Problem:
        """The max-sum problem of a sample."""
        return next(iter(self.model.problems(self.weights, self.features.transform([sample]))))


def anneal(problem: Problem, n_sweeps: int, random: np.random.Generator) -> np.ndarray:
    """The best labelling that simulated annealing finds: Gibbs sweeps over the nodes, one by one, at temperatures that fall geometrically
    from the spread of a node's scores to a hundredth of it."""
    n, tables = problem.n_nodes, problem.tables
    first, last = problem.graph.edges.T
    far = np.concatenate([last, first])
    near = np.concatenate([first, last])
    part = np.concatenate([problem.edge_weight, problem.edge_weight])
    rows = np.concatenate([tables.transpose(0, 2, 1)[problem.edge_table], tables[problem.edge_table]]) * part[:, None, None]
    order = np.argsort(near, kind="stable")  # rows[e][y_far] are the scores of the labels of the near end
    ends, far, rows = np.searchsorted(near[order], np.arange(n + 1)), far[order], rows[order]
    unary = np.asarray(problem.unary)
    labels = unary.argmax(axis=1)
    hot = max(1e-12, float(np.mean(np.ptp(unary, axis=1)) + np.mean(np.ptp(rows, axis=(1, 2))) if len(rows) else 1.0))
    best, most = labels.copy(), problem.score(labels)
    for heat in hot * _LEAST ** (np.arange(n_sweeps) / max(1, n_sweeps - 1)):
        noise = heat * random.gumbel(size=(n, unary.shape[1]))  # the best label with it is a draw of the Gibbs sampler
        for v in range(n):
            here = slice(ends[v], ends[v + 1])
            field = unary[v] + rows[here][np.arange(ends[v + 1] - ends[v]), labels[far[here]]].sum(axis=0)
            labels[v] = int((field + noise[v]).argmax())
        score = problem.score(labels)
        if score > most:
            best, most = labels.copy(), score
    return best


@dataclass(frozen=True)
class RegressionField:
    r"""A Gaussian conditional random field on numbers of nodes, :math:`y_v = \pm 1`:

    .. math:: E(y) = \tfrac12 y^\top\Theta y + \theta^\top y,\qquad -\log p(y_v \mid y_{N(v)}) = \tfrac12\Theta_{vv} y_v^2 + h_v y_v
              + \frac{h_v^2}{2\Theta_{vv}} - \tfrac12\log\Theta_{vv} + \text{const},\quad h_v = \theta_v + \sum_u\Theta_{vu} y_u,

    convex in the weights. A node leaf adds :math:`b` to :math:`\theta` and :math:`a \ge` `FLOOR` to the diagonal, an edge leaf a linear term of each end
    and the matrix :math:`\alpha(1, 1)(1, 1)^\top + \beta(1, -1)(1, -1)^\top + \operatorname{diag}(\gamma, \delta)` with weights :math:`\ge 0`: the
    positive-semidefinite matrices of two numbers that are diagonally dominant.

    Attributes
    ----------
    features : TreeFeatures
    weights : ndarray
        b, a of the node leaves; linear terms of first and second ends, and the weights of the matrices, of the edge leaves.
    """

    features: TreeFeatures
    weights: np.ndarray

    @classmethod
    def learn(
        cls, features: TreeFeatures, samples: Sequence[GraphSample], labels: Sequence[np.ndarray], C: float, seconds: float
    ) -> RegressionField:
        """Minimise half the squared weights plus ``C`` times all pseudo-likelihoods, by L-BFGS-B, for so many seconds at most."""
        data = Leaves.of(features, samples)
        y = 2.0 * np.concatenate(list(labels)) - 1.0
        w = data.start()
        best, least, began = w, np.inf, time.perf_counter()

        def value(w: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, least
            found, gradient = data.value_and_gradient(w, y)
            found, gradient = 0.5 * float(w @ w) + C * found, w + C * gradient
            if found < least:
                best, least = w.copy(), found
            if time.perf_counter() - began > seconds:
                raise TimeoutError
            return found / C, gradient / C

        with suppress(TimeoutError):  # the best point so far
            optimize.minimize(value, w, jac=True, method="L-BFGS-B", bounds=data.bounds(), options={"maxiter": 1000})
        return cls(features, best)

    def predict(self, sample: GraphSample) -> np.ndarray:
        """Labels of a sample: the signs of the most likely numbers, by conjugate gradients."""
        data = Leaves.of(self.features, [sample])
        form, linear = data.system(self.weights)
        found, _ = cg(form, -linear, rtol=1e-6)
        return np.asarray(found > 0).astype(np.int64)


@dataclass(frozen=True)
class Leaves:
    """Leaves of the nodes and edges of samples, joined to one graph."""

    node: np.ndarray
    edge: np.ndarray
    ends: np.ndarray
    n_node: int
    n_edge: int

    @classmethod
    def of(cls, features: TreeFeatures, samples: Sequence[GraphSample]) -> Leaves:
        """Lead samples through the trees."""
        starts = np.cumsum([0] + [sample.n_nodes for sample in samples])
        ends = np.concatenate([sample.graph.edges + start for sample, start in zip(samples, starts, strict=False)])
        node = np.concatenate([features.node_leaves(sample) for sample in samples])
        edge = np.concatenate([features.edge_leaves(sample) for sample in samples])
        return cls(node, edge, ends.astype(np.int64), features.node.n_leaves, int(features.starts[-1]))

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """b and a (n_node,), linear terms (2, n_edge), and weights of matrices (4, n_edge)."""
        at = np.cumsum([self.n_node, self.n_node, 2 * self.n_edge])
        b, a, linear, parts = np.split(w, at)
        return b, a, linear.reshape(2, -1), parts.reshape(PARTS, -1)

    def start(self) -> np.ndarray:
        """Weights of independent standard normals."""
        return np.concatenate([np.zeros(self.n_node), np.ones(self.n_node), np.zeros((2 + PARTS) * self.n_edge)])

    def bounds(self) -> optimize.Bounds:
        """Of the weights."""
        least = np.concatenate(
            [
                np.full(self.n_node, -np.inf),
                np.full(self.n_node, FLOOR),
                np.full(2 * self.n_edge, -np.inf),
                np.zeros(PARTS * self.n_edge),
            ]
        )
        return optimize.Bounds(least, np.full(len(least), np.inf))

    def terms(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Diagonal and linear terms of the nodes, and the entry beside the diagonal of each edge."""
        b, a, linear, (alpha, beta, gamma, delta) = self.split(w)
        u, v = self.ends.T
        n, both = len(self.node), alpha + beta
        diagonal = a[self.node] + np.bincount(u, (both + gamma)[self.edge], n) + np.bincount(v, (both + delta)[self.edge], n)
        theta = b[self.node] + np.bincount(u, linear[0][self.edge], n) + np.bincount(v, linear[1][self.edge], n)
        return diagonal, theta, (alpha - beta)[self.edge]

    def value_and_gradient(self, w: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of the negative logarithms of the conditionals, without constants, and its gradient."""
        diagonal, theta, beside = self.terms(w)
        u, v = self.ends.T
        n = len(y)
        h = theta + np.bincount(u, beside * y[v], n) + np.bincount(v, beside * y[u], n)
        value = float((0.5 * diagonal * y * y + h * y + 0.5 * h * h / diagonal - 0.5 * np.log(diagonal)).sum())
        to_h, to_diagonal = y + h / diagonal, 0.5 * y * y - 0.5 * (h / diagonal) ** 2 - 0.5 / diagonal

        def leaves(values: np.ndarray) -> np.ndarray:
            return np.bincount(self.edge, values, self.n_edge)

        of_beside = leaves(to_h[u] * y[v] + to_h[v] * y[u])
        first, second = leaves(to_diagonal[u]), leaves(to_diagonal[v])
        gradient = [
            np.bincount(self.node, to_h, self.n_node),
            np.bincount(self.node, to_diagonal, self.n_node),
            leaves(to_h[u]),
            leaves(to_h[v]),
            first + second + of_beside,
            first + second - of_beside,
            first,
            second,
        ]
        return value, np.concatenate(gradient)

    def system(self, w: np.ndarray) -> tuple[Any, np.ndarray]:
        r""":math:`\Theta`, sparse, and :math:`\theta`."""
        diagonal, theta, beside = self.terms(w)
        (u, v), n = self.ends.T, len(self.node)
        form = sparse.coo_array((np.concatenate([beside, beside]), (np.concatenate([u, v]), np.concatenate([v, u]))), (n, n))
        return sparse.csr_array(form + sparse.diags_array(diagonal)), theta
