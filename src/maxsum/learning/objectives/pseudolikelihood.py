r"""Pseudo-likelihood (Besag 1975): each label given the true labels of its neighbours, so that no sum runs over labellings.

.. math:: F(w) = \tfrac12\|w\|^2 - \sum_j c_j \sum_v \log p_v(y_v \mid y_{N(v)}),\qquad
          p_v(k \mid y_{N(v)}) \propto e^{\theta_v(k) + \sum_{u \in N(v)}\theta_{uv}(y_u, k)}.

Convex, smooth and exact on every graph. With much data it finds the same model as the likelihood, if the model is right; it trusts the
neighbours more than a prediction may, which does not know them (decision tree fields, Nowozin et al. 2011, are trained so).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core.errors import InvalidSampleError
from ...models.bound import BoundModel
from .base import as_sample_weight, check_C
from .likelihood import _Features
from .smooth import Evaluation, SmoothObjective


class PseudoLikelihoodObjective(SmoothObjective):
    r"""The regularised negative pseudo-log-likelihood, strongly convex with modulus 1; see the formula above.

    Parameters
    ----------
    model : BoundModel
        With labels.
    C : float
    sample_weight : array-like, optional
    """

    surrogate = "pseudolikelihood"

    modulus = 1.0
    convex = True

    def __init__(self, model: BoundModel, C: float = 1.0, sample_weight: Any = None):
        check_C(C)
        model.refuse_cliques("the pseudo-likelihood")
        model.refuse_factors("the pseudo-likelihood")
        if model.labels is None:
            raise InvalidSampleError("the model was bound without labels; give them to bind().")
        if model.has_forbidden:
            raise InvalidSampleError(
                "the model forbids pairs of labels (-inf), for which no weights are learned by pseudo-likelihood; train with surrogate='margin'."
            )
        if not (model.data.node_weights == 1.0).all():
            raise InvalidSampleError(
                "samples have node_weights that are not 1, wanted none: the pseudo-likelihood has no loss of nodes to weight. "
                "Give sample_weight, or use surrogate='margin'."
            )
        self.model, self.cone = model, model.cone
        self.n_weights, self.n_examples, self.free = model.n_weights, model.n_examples, model.cone.is_free
        self.sample_weight = as_sample_weight(sample_weight, self.n_examples)
        self.set_C(C)
        self._features = _Features(model)
        self._owner = np.repeat(np.arange(self.n_examples), np.diff(model.data.node_ptr))

    def conditionals(self, w: np.ndarray) -> np.ndarray:
        r"""Scores of all labels of all nodes beside the true labels of their neighbours, (N, K); ``-inf`` for labels that a node has not."""
        model, truth = self.model, self.model.labels
        assert truth is not None
        score, found = np.array(self._features.unary(w)), model.tables(w)
        first, last = model.data.edges.T
        part = found.edge_weight[:, None]
        np.add.at(score, first, part * found.bank[found.edge_table, :, truth[last]])
        np.add.at(score, last, part * found.bank[found.edge_table, truth[first]])
        return score

    def value_and_gradient(self, w: np.ndarray) -> Evaluation:
        """Value and gradient at ``w``."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        model, truth = self.model, self.model.labels
        assert truth is not None
        score, row = self.conditionals(w), np.arange(len(truth))
        score -= score.max(axis=1, keepdims=True, initial=-np.inf) if score.size else 0.0
        mass = np.exp(score)
        total = mass.sum(axis=1)
        weight = self.c[self._owner]
        value = 0.5 * float(w @ w) + float(weight @ (np.log(total) - score[row, truth]))
        rest = mass * (weight / total)[:, None]
        rest[row, truth] -= weight
        found = model.tables(w)
        first, last = model.data.edges.T
        sums = np.zeros_like(found.bank)
        label = np.arange(model.n_labels)
        part = found.edge_weight[:, None]
        np.add.at(sums, (found.edge_table[:, None], label[None], truth[last][:, None]), part * rest[first])
        np.add.at(sums, (found.edge_table[:, None], truth[first][:, None], label[None]), part * rest[last])
        return Evaluation(value, self._features.gradient(rest, sums, np.arange(len(sums))) + w)

    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest weights in the cone of the model."""
        return w if self.free else self.cone.project(w).weights

    def content(self) -> Iterable[np.ndarray]:
        """What makes the objective, for checkpoints."""
        data = self.model.data
        x = (data.x.data, data.x.indices, data.x.indptr) if hasattr(data.x, "indptr") else (data.x,)
        f = (data.f.data, data.f.indices, data.f.indptr)
        maps = (self.model.node_index, self.model.edge_index, self.cone.nonneg, *self.cone.tables)
        return (data.node_ptr, data.edge_ptr, data.edges, *x, *f, *maps, np.asarray(self.model.labels))
